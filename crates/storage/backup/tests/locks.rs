//! What is at a target is locked there, for as long as backups need it.

mod place;

use braid_backup::{Ends, Vault};
use braid_backup_targets::{Fault, Proxy, S3Server, VersityServer};
use braid_pool::upkeep::LockSpan;
use place::{Place, s3_at, s3_server};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const SPAN: u32 = 90;
/// A quarter more at once.
const AT_ONCE: i64 = 112;

fn span() -> LockSpan {
    LockSpan::of_days(SPAN).unwrap()
}

/// Whose vaults lock.
fn locking_place(bytes: usize) -> Place {
    let mut place = Place::new(bytes);
    place.target_options.lock = Some(span());
    place
}

fn refused(place: &Place, target: &str) -> String {
    let made = Vault::create(target.parse().unwrap(), place.key(), place.target_options.clone());
    made.map(drop).unwrap_err().to_string()
}

fn files_below(folder: &Path) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(inside) = folders.pop() {
        for entry in fs::read_dir(folder.join(&inside)).unwrap().flatten() {
            let path = inside.join(entry.file_name());
            match entry.file_type().unwrap().is_dir() {
                true => folders.push(path),
                false => {
                    all.insert(path.to_str().unwrap().to_owned());
                }
            }
        }
    }
    all
}

/// Days until each object's lock ends, rounded.
fn days_left(server: &S3Server) -> Vec<i64> {
    let now = jiff::Timestamp::now();
    let left = |end: &jiff::Timestamp| (end.duration_since(now).as_secs_f64() / 86_400.0).round();
    server.lock_ends().values().map(|end| left(end) as i64).collect()
}

#[test]
fn all_that_a_backup_needs_is_locked_and_prolonged_while_it_is_needed() {
    let place = locking_place(1_000_000);
    let server = S3Server::locking(&place.path("s3"));
    let target = s3_at(server.address);
    let vault = place.create(&target);
    place.back_up(&vault, false).unwrap();
    let mut ends = Ends::default();
    let locked = vault.prolong(span(), &mut ends).unwrap();
    // Each was locked when it was written, and known to be.
    let files = files_below(&place.path("s3/backups"));
    let kept = server.lock_ends().into_keys().collect::<BTreeSet<_>>();
    assert_eq!(kept, files);
    assert_eq!((locked.files, locked.prolonged, locked.days), (files.len(), 0, SPAN));
    assert_eq!(days_left(&server), vec![AT_ONCE; files.len()]);
    let first = locked.ends_s as i64 - jiff::Timestamp::now().as_second();
    assert_eq!((first as f64 / 86_400.0).round() as i64, AT_ONCE);

    // Nobody can take it away, we neither.
    let snapshots = vault.backups().unwrap();
    let policy = "1x1h".parse().unwrap();
    let later = snapshots[0].taken + std::time::Duration::from_secs(400 * 86_400);
    let mut all = vault.judge(&policy, later).unwrap();
    all[0].keep = false;
    assert!(vault.forget(&all, &[]).is_err());
    assert_eq!(files_below(&place.path("s3/backups")), files);

    // Three weeks later all have enough; a month later none has.
    let vault = place.open(&target).unwrap();
    server.age_locks(21);
    let unknown = vault.plan_locks(span(), &mut Ends::default()).unwrap().would_be;
    assert_eq!(unknown.prolonged, files.len());
    assert_eq!(days_left(&server), vec![AT_ONCE - 21; files.len()]);
    server.age_locks(9);
    let again = vault.prolong(span(), &mut Ends::default()).unwrap();
    assert_eq!((again.files, again.prolonged), (files.len(), files.len()));
    assert_eq!(days_left(&server), vec![AT_ONCE; files.len()]);
}

#[test]
fn what_is_locked_for_longer_stays_so_and_what_nothing_needs_is_let_go() {
    let place = locking_place(300_000);
    let server = S3Server::locking(&place.path("s3"));
    let target = s3_at(server.address);
    let vault = place.create(&target);
    place.back_up(&vault, false).unwrap();
    // A pack that no index names, as a cut leaves it: no backup needs it.
    let left = "of/mine/data/00/".to_owned() + &"0".repeat(64);
    let file = place.path("s3/backups").join(&left);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, "left").unwrap();
    let longer = LockSpan::of_days(300).unwrap();
    let locked = vault.prolong(longer, &mut Ends::default()).unwrap();
    assert_eq!(locked.prolonged, locked.files);
    assert_eq!(days_left(&server), vec![330; locked.files]);
    assert!(!server.lock_ends().contains_key(&left));
    // A shorter span of another computer shortens none.
    let other = place.open(&target).unwrap();
    let shorter = other.prolong(span(), &mut Ends::default()).unwrap();
    assert_eq!(days_left(&server), vec![330; shorter.files]);
    assert!(shorter.ends_s as i64 - jiff::Timestamp::now().as_second() > 329 * 86_400);
}

#[test]
fn where_nothing_can_be_locked_or_a_server_only_says_so_it_is_an_error() {
    let place = locking_place(100_000);
    let folder = place.path("target");
    let said = refused(&place, folder.to_str().unwrap());
    assert!(said.contains("only S3 servers can lock"), "{said}");
    // A bucket without.
    let server = s3_server(&place);
    let said = refused(&place, &s3_at(server.address));
    assert!(said.contains("the bucket backups has no object lock"), "{said}");
    assert_eq!(files_below(&place.path("s3/backups")), BTreeSet::new());
    // One that says yes to what it doesn't know.
    let proxy = Proxy::start(server.address, |request| {
        let enabled = "<C><ObjectLockEnabled>Enabled</ObjectLockEnabled></C>";
        match (request.path.as_str(), request.method.as_str()) {
            (path, "GET") if path.contains("object-lock=") => Fault::Answer(200, enabled),
            (path, "PUT") if path.contains("retention=") => Fault::Answer(200, ""),
            (path, "GET") if path.contains("retention=") => {
                Fault::Answer(404, "<Error><Code>NoSuchObjectLockConfiguration</Code></Error>")
            }
            _ => Fault::None,
        }
    });
    let vault = place.create(&s3_at(proxy.address));
    place.back_up(&vault, false).unwrap();
    let said = vault.prolong(span(), &mut Ends::default()).unwrap_err().to_string();
    assert!(said.contains("isn't locked, though the server said so"), "{said}");
}

#[test]
fn credentials_that_may_not_lock_are_told_what_they_lack_and_a_pack_that_is_gone_is_named() {
    let place = locking_place(100_000);
    let server = S3Server::locking(&place.path("s3"));
    let proxy = Proxy::start(server.address, |request| {
        match request.method == "PUT" && request.path.contains("retention=") {
            true => Fault::Answer(403, "<Error><Code>AccessDenied</Code></Error>"),
            false => Fault::None,
        }
    });
    let vault = place.create(&s3_at(proxy.address));
    place.back_up(&vault, false).unwrap();
    let vault = place.open(&s3_at(proxy.address)).unwrap();
    let said = vault.prolong(span(), &mut Ends::default()).unwrap_err().to_string();
    assert!(said.contains("s3:PutObjectRetention"), "{said}");

    let lost = server.lock_ends().into_keys().find(|key| key.contains("/data/")).unwrap();
    fs::remove_file(place.path("s3/backups").join(&lost)).unwrap();
    let direct = place.open(&s3_at(server.address)).unwrap();
    let mut ends = Ends::default();
    let said = direct.prolong(span(), &mut ends).unwrap_err().to_string();
    assert!(said.contains(&lost["of/mine/".len()..]) && said.contains("isn't there"), "{said}");
    // The others are locked all the same, and known to be.
    let rest = direct.plan_locks(span(), &mut ends).unwrap().would_be;
    assert_eq!(rest.prolonged, 1);
}

/// Another maker's server, with versions, as the real ones have: what a thief overwrites or deletes
/// stays there as a version, and can't be deleted.
#[test]
fn versitygw_keeps_what_is_locked() {
    let mut place = locking_place(500_000);
    let Some(server) = VersityServer::start(&place.path("versity")) else { return };
    // Its bucket is made by `init`.
    place.target_options.retries = 3;
    let target = format!("s3:http://{}/locked/of/mine", server.address);
    let vault = place.create(&target);
    place.back_up(&vault, false).unwrap();
    let mut ends = Ends::default();
    let locked = vault.prolong(span(), &mut ends).unwrap();
    assert_eq!(locked.prolonged, 0);
    let vault = place.open(&target).unwrap();
    let longer = LockSpan::of_days(200).unwrap();
    let prolonged = vault.prolong(longer, &mut ends).unwrap();
    assert_eq!(prolonged.prolonged, locked.files);
    let again = vault.prolong(span(), &mut Ends::default()).unwrap();
    assert!(again.ends_s >= prolonged.ends_s - 60, "{again:?} {prolonged:?}");
    assert_eq!(vault.check(100.0).unwrap().errors, Vec::<String>::new());
    place.restore(&vault, "back").unwrap();
    assert_eq!(place.differences(&place.path("back")), Vec::<String>::new());
}
