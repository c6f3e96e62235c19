//! A real S3 server behind a link and a server that fail in every way.

mod place;

use braid_backup::{Error, Restoration, TimeLimits, Vault};
use braid_backup_targets::{
    Fault, KEY, Proxy, Request, change, noise, restic, restic_is_there, sftp_server,
};
use place::{Place, s3_at, s3_server};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

fn restic_agrees(place: &Place) {
    if restic_is_there() {
        let folder = place.path("s3/backups/of/mine");
        restic(folder.to_str().unwrap(), &place.path("key"), &[], &["check", "--read-data"]);
    }
}

#[test]
fn a_backup_passes_through_every_fault_and_comes_back_bit_for_bit() {
    let place = Place::new(8_000_000);
    let server = s3_server(&place);
    let fault = |request: &Request| match request.number % 13 {
        1 => Fault::Answer(500, "no"),
        3 => Fault::CutRequest,
        4 => Fault::Answer(429, "slow down"),
        6 => Fault::CutAnswer,
        8 => Fault::Truncate,
        9 => Fault::Slow(Duration::from_millis(30)),
        11 if request.method == "PUT" => Fault::WrongEtag,
        11 => Fault::Answer(503, ""),
        _ => Fault::None,
    };
    let proxy = Proxy::start(server.address, fault);
    let vault = place.create(&s3_at(proxy.address));
    let first = place.back_up(&vault, false).unwrap();
    assert!(first.retries > 0, "{first:?}");
    assert_eq!(vault.check(100.0).unwrap().errors, Vec::<String>::new());
    place.restore(&vault, "back").unwrap();
    assert_eq!(place.differences(&place.path("back")), Vec::<String>::new());
    assert!(proxy.requests() > 20);
    restic_agrees(&place);
}

#[test]
fn what_comes_damaged_is_asked_for_again() {
    let place = Place::new(100_000);
    let server = s3_server(&place);
    let vault = place.create(&s3_at(server.address));
    place.back_up(&vault, false).unwrap();
    let damaged = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&damaged);
    let proxy = Proxy::start(server.address, move |request| {
        let is_file = request.path.contains("/index/") || request.path.contains("/snapshots/");
        if !is_file || request.method != "GET" {
            return Fault::None;
        }
        match count.fetch_add(1, Ordering::Relaxed).is_multiple_of(2) {
            true => Fault::Damage,
            false => Fault::None,
        }
    });
    let vault = place.open(&s3_at(proxy.address)).unwrap();
    assert_eq!(vault.check(0.0).unwrap().errors, Vec::<String>::new());
    assert!(damaged.load(Ordering::Relaxed) > 1);
}

/// The link is cut for good after each number of requests; then it goes on.
#[test]
fn a_backup_goes_on_after_a_cut_and_says_nothing_is_done_before() {
    let place = Place::new(24_000_000);
    for after in [9_u64, 11, 13] {
        fs::remove_dir_all(place.path("s3")).ok();
        let server = s3_server(&place);
        let direct = s3_at(server.address);
        drop(place.create(&direct));
        let proxy = Proxy::start(server.address, move |request| match request.number < after {
            true => Fault::None,
            false => Fault::CutRequest,
        });
        let mut target_options = place.target_options.clone();
        target_options.retries = 1;
        target_options.connections = 1;
        let through = s3_at(proxy.address).parse().unwrap();
        let cut = Vault::open(through, place.key(), target_options).and_then(|vault| {
            place.back_up(&vault, false).map(|done| (done.snapshot.is_some(), done.retries))
        });
        assert!(matches!(cut, Err(Error::Target { .. })), "after {after}: {cut:?}");
        let vault = place.open(&direct).unwrap();
        assert_eq!(vault.backups().unwrap().len(), 0, "after {after}");
        let came = bytes_below(&place.path("s3/backups/of/mine/data"));
        let done = place.back_up(&vault, true).unwrap();
        let all = bytes_below(&place.path("s3/backups/of/mine/data"));
        // What had come is used: it isn't sent again.
        assert!(all - came <= done.stored_bytes + 100_000, "after {after}: {came} {all} {done:?}");
        assert!(all < 28_000_000, "after {after}: {came} {all} {done:?}");
        assert_eq!(vault.check(100.0).unwrap().errors, Vec::<String>::new());
    }
    restic_agrees(&place);
}

#[test]
fn credentials_that_expire_midway_are_read_again() {
    let place = Place::new(100_000);
    let server = s3_server(&place);
    let secrets = place.path("secrets");
    let good = fs::read_to_string(&secrets).unwrap();
    let expired = Arc::new(AtomicU64::new(0));
    let (count, file) = (Arc::clone(&expired), secrets.clone());
    let proxy = Proxy::start(server.address, move |request| {
        let old = request.path.contains("OLDKEY");
        if old && request.number >= 4 && count.fetch_add(1, Ordering::Relaxed) == 0 {
            // Whoever renews them has just done so.
            fs::write(&file, &good).unwrap();
        }
        match old && request.number >= 4 {
            true => Fault::Answer(403, "<Error><Code>ExpiredToken</Code></Error>"),
            false => Fault::None,
        }
    });
    let target = s3_at(proxy.address);
    let vault = place.create(&target);
    place.back_up(&vault, false).unwrap();
    // Another computer whose credentials are refused, until they are renewed.
    let text = fs::read_to_string(&secrets).unwrap();
    fs::write(&secrets, text.replace(KEY, "OLDKEY")).unwrap();
    let vault = place.open(&target).unwrap();
    place.back_up(&vault, false).unwrap();
    assert!(expired.load(Ordering::Relaxed) > 0);
}

#[test]
fn a_clock_that_is_wrong_here_is_followed_there() {
    let place = Place::new(1000);
    let server = s3_server(&place);
    let asked = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&asked);
    let proxy =
        Proxy::start(server.address, move |_| match count.fetch_add(1, Ordering::Relaxed) {
            0 => Fault::Skewed(-1800),
            _ => Fault::None,
        });
    let vault = place.create(&s3_at(proxy.address));
    place.back_up(&vault, false).unwrap();
    assert!(vault.backups().unwrap().len() == 1 && asked.load(Ordering::Relaxed) > 1);
}

#[test]
fn a_server_that_is_gone_is_an_error_with_its_name() {
    let place = Place::new(1000);
    let mut target_options = place.target_options.clone();
    target_options.retries = 1;
    let target = "s3:http://127.0.0.1:9/backups".parse().unwrap();
    let error =
        Vault::create(target, place.key(), target_options).map(drop).unwrap_err().to_string();
    assert!(error.contains("127.0.0.1:9") && error.contains("tried 2 times"), "{error}");
}

/// A request that is never answered, or by half, or whose body is never read, is an error after the
/// limits, and nothing counts as done.
#[test]
fn a_server_that_hangs_is_an_error_and_what_came_before_is_used() {
    for (hang, method, of, bytes) in [
        (Fault::Hang, "GET", "config", 1000),
        (Fault::HangMidway, "GET", "keys/", 1000),
        // More than the kernel takes for a server that doesn't read.
        (Fault::Hang, "PUT", "data/", 24_000_000),
        (Fault::Hang, "PUT", "snapshots/", 1000),
    ] {
        let place = Place::new(bytes);
        let server = s3_server(&place);
        let direct = s3_at(server.address);
        drop(place.create(&direct));
        let hanging = hang.clone();
        let proxy = Proxy::start(server.address, move |request| {
            let is_it = request.method == method && request.path.contains(&format!("/mine/{of}"));
            if is_it { hanging.clone() } else { Fault::None }
        });
        let mut target_options = place.target_options.clone();
        target_options.retries = 1;
        let soon = Duration::from_millis(500);
        target_options.time_limits = TimeLimits { connect: soon, answer: soon, body: soon };
        let through = s3_at(proxy.address).parse().unwrap();
        let hung = Vault::open(through, place.key(), target_options)
            .and_then(|vault| place.back_up(&vault, false).map(|done| done.retries));
        let said = hung.unwrap_err().to_string();
        let named = said.contains(&proxy.address.to_string()) && said.contains("tried 2 times");
        assert!(named && said.contains("timeout"), "{hang:?} {method} {of}: {said}");
        let vault = place.open(&direct).unwrap();
        assert_eq!(vault.backups().unwrap().len(), 0, "{hang:?} {method} {of}");
        place.back_up(&vault, true).unwrap();
        assert_eq!(vault.check(100.0).unwrap().errors, Vec::<String>::new());
    }
}

/// As by a policy without `s3:DeleteObject`.
#[test]
fn an_s3_server_that_refuses_to_delete_takes_backups_and_loses_none() {
    let place = Place::new(2_000_000);
    let server = s3_server(&place);
    let refusals = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&refusals);
    let proxy = Proxy::start(server.address, move |request| match request.method.as_str() {
        "DELETE" => {
            count.fetch_add(1, Ordering::Relaxed);
            Fault::Answer(403, "<Error><Code>AccessDenied</Code></Error>")
        }
        _ => Fault::None,
    });
    let vault = place.create(&s3_at(proxy.address));
    for number in 0..3 {
        fs::write(place.path("source/more"), noise(300_000, number + 10)).unwrap();
        place.back_up(&vault, false).unwrap();
    }
    assert_eq!(refusals.load(Ordering::Relaxed), 0);
    // Of an hour the newest stays, and the oldest.
    let policy = "1x1h".parse().unwrap();
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let verdicts = vault.judge(&policy, now).unwrap();
    assert_eq!(verdicts.iter().filter(|one| !one.keep).count(), 1);
    let said = vault.forget(&verdicts, &[]).unwrap_err().to_string();
    assert!(said.contains("doesn't let it be removed"), "{said}");
    assert!(said.contains("AccessDenied") && said.contains("s3:DeleteObject"), "{said}");
    assert!(said.contains(&proxy.address.to_string()), "{said}");
    assert!(refusals.load(Ordering::Relaxed) > 0);

    // Another computer sees all of them, and they can be read.
    let vault = place.open(&s3_at(server.address)).unwrap();
    assert_eq!(vault.backups().unwrap().len(), 3);
    assert_eq!(vault.check(100.0).unwrap().errors, Vec::<String>::new());
    place.restore(&vault, "back").unwrap();
    assert_eq!(place.differences(&place.path("back")), Vec::<String>::new());
    restic_agrees(&place);
}

fn bytes_below(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.path().is_dir() {
            true => bytes_below(&entry.path()),
            false => entry.metadata().map_or(0, |about| about.len()),
        })
        .sum()
}

/// What `ssh` would be run for: a server whose connection is cut once it has got so many bytes.
fn cut_after(bytes: u64, server: &str) -> String {
    // Without buffers, which would hold back what is asked.
    format!("stdbuf -o0 head -c {bytes} | {server}")
}

#[test]
fn an_sftp_connection_that_breaks_again_and_again_brings_all_of_it() {
    let Some(server) = sftp_server() else { return };
    let mut place = Place::new(30_000_000);
    place.target_options.sftp_command = Some(server.to_owned());
    let folder = place.path("target");
    let target = format!("sftp:nobody@nowhere:{}", folder.display());
    drop(place.create(&target));
    place.target_options.connections = 1;
    // A pack has 16 MB and one blob more, of 8 MB at the most: any goes in one connection, and not
    // all do.
    place.target_options.sftp_command = Some(cut_after(40_000_000, server));
    let vault = place.open(&target).unwrap();
    let first = place.back_up(&vault, false).unwrap();
    assert!(first.snapshot.is_some());
    change(&place.path("source"));
    fs::write(place.path("source/more"), noise(30_000_000, 3)).unwrap();
    let second = place.back_up(&vault, false).unwrap();
    assert!(first.retries + second.retries > 0, "{first:?} {second:?}");
    place.target_options.sftp_command = Some(server.to_owned());
    let vault = place.open(&target).unwrap();
    assert_eq!(vault.check(100.0).unwrap().errors, Vec::<String>::new());
    place.restore(&vault, "back").unwrap();
    assert_eq!(place.differences(&place.path("back")), Vec::<String>::new());
    if restic_is_there() {
        restic(folder.to_str().unwrap(), &place.path("key"), &[], &["check", "--read-data"]);
    }
}

/// The connection is cut in the middle, and there is no other one; later there is.
#[test]
fn a_backup_by_sftp_goes_on_after_a_cut_and_says_nothing_is_done_before() {
    let Some(server) = sftp_server() else { return };
    let mut place = Place::new(40_000_000);
    for after in [1_000_000_u64, 20_000_000, 38_000_000] {
        let folder = place.path(&format!("target-{after}"));
        let target = format!("sftp:nobody@nowhere:{}", folder.display());
        place.target_options.sftp_command = Some(server.to_owned());
        drop(place.create(&target));
        let gone = place.path(&format!("gone-{after}"));
        let once = format!("[ ! -e {0} ] || exit 255; touch {0}; ", gone.display());
        let mut target_options = place.target_options.clone();
        target_options.sftp_command = Some(once + &cut_after(after, server));
        (target_options.retries, target_options.connections) = (1, 1);
        let cut = Vault::open(target.parse().unwrap(), place.key(), target_options)
            .and_then(|vault| place.back_up(&vault, false).map(|done| done.retries));
        assert!(matches!(cut, Err(Error::Target { .. })), "after {after}: {cut:?}");
        let vault = place.open(&target).unwrap();
        assert_eq!(vault.backups().unwrap().len(), 0, "after {after}");
        let came = bytes_of_packs(&folder);
        let done = place.back_up(&vault, true).unwrap();
        let all = bytes_of_packs(&folder);
        // What had come whole is used, and what had come in part is no pack.
        assert!(all - came <= done.stored_bytes + 100_000, "after {after}: {came} {all} {done:?}");
        assert!(all < 45_000_000, "after {after}: {came} {all} {done:?}");
        assert_eq!(vault.check(100.0).unwrap().errors, Vec::<String>::new());
    }
}

fn bytes_of_packs(target: &Path) -> u64 {
    let folders = fs::read_dir(target.join("data")).unwrap().flatten();
    let files = folders.flat_map(|folder| fs::read_dir(folder.path()).unwrap().flatten());
    let packs = files.filter(|file| file.file_name().len() == 64);
    packs.map(|file| file.metadata().unwrap().len()).sum()
}

/// A disk that went bad, or somebody who deletes files, may take packs that a new backup counts on.
#[test]
fn what_the_target_has_lost_is_sent_again_and_then_it_can_be_restored() {
    for lose in ["one", "half of one", "all"] {
        let place = Place::new(20_000_000);
        let target = place.path("target");
        let vault = place.create(target.to_str().unwrap());
        assert_eq!(place.back_up(&vault, false).unwrap().lost_packs, 0);
        let folders = fs::read_dir(target.join("data")).unwrap().map(|it| it.unwrap().path());
        let packs = folders.flat_map(|it| fs::read_dir(it).unwrap().map(|it| it.unwrap().path()));
        let mut packs: Vec<_> = packs.collect();
        packs.sort_by_key(|pack| fs::metadata(pack).unwrap().len());
        let largest = packs.last().unwrap().clone();
        let lost = match lose {
            "one" => vec![largest],
            "all" => packs,
            _ => {
                let file = fs::File::options().write(true).open(largest).unwrap();
                let size = file.metadata().unwrap().len();
                file.set_len(size / 2).unwrap();
                vec![]
            }
        };
        lost.iter().for_each(|pack| fs::remove_file(pack).unwrap());
        let vault = place.open(target.to_str().unwrap()).unwrap();
        let restored = place.restore(&vault, "too little");
        assert!(restored.is_err() || !restored.unwrap().lost.is_empty(), "{lose}");

        // Nothing has changed at the source.
        let vault = place.open(target.to_str().unwrap()).unwrap();
        let again = place.back_up(&vault, false).unwrap();
        assert_eq!(again.lost_packs, lost.len().max(1), "{lose}");
        assert!(again.new_bytes > 5_000_000, "{lose}: {again:?}");
        let vault = place.open(target.to_str().unwrap()).unwrap();
        place.restore(&vault, "back").unwrap();
        assert_eq!(place.differences(&place.path("back")), Vec::<String>::new(), "{lose}");
        assert_eq!(vault.check(100.0).unwrap().errors, Vec::<String>::new(), "{lose}");
        assert_eq!(place.back_up(&vault, false).unwrap().new_bytes, 0, "{lose}");
    }
}

/// What a folder's list held is the same as in the backup before, whose list is gone, while that of
/// the folder above it isn't.
#[test]
fn the_list_of_a_folder_that_did_not_change_is_sent_again_when_it_was_lost() {
    for told_before in [false, true] {
        let place = Place::new(1_000_000);
        let source = place.path("source");
        fs::create_dir_all(source.join("unchanged/below/empty")).unwrap();
        fs::write(source.join("unchanged/below/file"), noise(300_000, 7)).unwrap();
        let target = place.path("target");
        let vault = place.create(target.to_str().unwrap());
        place.back_up(&vault, false).unwrap();
        let of_first = walk(&target.join("data"));
        fs::write(source.join("changed"), noise(300_000, 8)).unwrap();
        place.back_up(&vault, false).unwrap();
        of_first.iter().for_each(|pack| fs::remove_file(pack).unwrap());

        if told_before {
            // Another computer has backed up to it since, and had the indexes mended.
            let other = Place::new(1_000);
            let at = target.to_str().unwrap().parse().unwrap();
            let vault = Vault::open(at, place.key(), other.target_options.clone()).unwrap();
            assert!(other.back_up(&vault, false).unwrap().lost_packs > 0);
        }
        let vault = place.open(target.to_str().unwrap()).unwrap();
        let which = place.back_up(&vault, false).unwrap().snapshot.unwrap();
        let vault = place.open(target.to_str().unwrap()).unwrap();
        let to = place.path("back");
        Restoration { vault: &vault, which, path: None, to, dry_run: false, warn: &|_| {} }
            .run()
            .unwrap();
        assert_eq!(place.differences(&place.path("back")), Vec::<String>::new(), "{told_before}");
    }
}

/// One bad sector doesn't keep all the rest from coming back, and it is known what didn't.
#[test]
fn what_can_be_restored_is_and_the_rest_is_named() {
    for damage in ["gone", "otherwise"] {
        let place = Place::new(20_000_000);
        let source = place.path("source");
        fs::write(source.join("also large"), noise(20_000_000, 5)).unwrap();
        fs::hard_link(source.join("also large"), source.join("its other name")).unwrap();
        let target = place.path("target");
        let vault = place.create(target.to_str().unwrap());
        place.back_up(&vault, false).unwrap();
        // Trees are in others, and small ones.
        let packs: Vec<_> = walk(&target.join("data"))
            .into_iter()
            .filter(|pack| fs::metadata(pack).unwrap().len() > 2_000_000)
            .collect();
        assert!(packs.len() >= 2, "{packs:?}");
        match damage {
            "gone" => fs::remove_file(&packs[0]).unwrap(),
            _ => {
                let file = fs::File::options().write(true).open(&packs[0]).unwrap();
                file.write_all_at(b"this", 1_500_000).unwrap();
            }
        }
        let vault = place.open(target.to_str().unwrap()).unwrap();
        let restored = place.restore(&vault, "back").unwrap();
        assert!(!restored.lost.is_empty(), "{damage}");
        let back = place.path("back");
        let found = place.differences(&back);
        for path in &restored.lost {
            assert!(fs::symlink_metadata(back.join(path)).is_err(), "{damage}: {path:?}");
        }
        // Nothing else differs, but for their folder's own time and the numbers of links.
        let is_told =
            |line: &String| restored.lost.iter().any(|path| line.contains(&format!("{path:?}")));
        let others: Vec<&String> = found.iter().filter(|line| !is_told(line)).collect();
        assert!(others.is_empty(), "{damage}: {others:?}; lost {:?}", restored.lost);
        if restored.lost.contains(&"also large".into()) {
            assert!(restored.lost.contains(&"its other name".into()), "{:?}", restored.lost);
        }
    }
}

fn walk(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}

/// Names are what their filesystem had, and so is a path to one of them.
#[test]
fn a_file_whose_name_is_not_unicode_is_listed_and_had_alone() {
    use std::os::unix::ffi::OsStrExt;
    let place = Place::new(1000);
    let odd = Path::new(std::ffi::OsStr::from_bytes(b"lit\xff")).join("iné");
    let source = place.path("source").join(&odd);
    fs::create_dir_all(source.parent().unwrap()).unwrap();
    fs::write(&source, "here").unwrap();
    let vault = place.create(place.path("target").to_str().unwrap());
    place.back_up(&vault, false).unwrap();
    let entries = vault.entries("latest", &place.path("source"), false).unwrap();
    assert!(serde_json::to_string(&entries).unwrap().contains("lit\u{fffd}"));
    let entries = vault.entries("latest", source.parent().unwrap(), false).unwrap();
    assert_eq!(entries.len(), 1);
    let restore = |path: &Path| {
        let to = place.path("alone");
        let (which, path) = ("latest".to_owned(), Some(path.to_owned()));
        Restoration { vault: &vault, which, path, to, dry_run: false, warn: &|_| {} }.run()
    };
    assert_eq!(restore(&source).unwrap().files, 1);
    assert_eq!(fs::read_to_string(place.path("alone")).unwrap(), "here");
    let refused = restore(&source.with_file_name("other")).unwrap_err().to_string();
    assert!(refused.contains("isn't in the backup"), "{refused}");
    let inside = Restoration {
        vault: &vault,
        which: "latest".to_owned(),
        path: None,
        to: place.path("target/data/back"),
        dry_run: false,
        warn: &|_| {},
    };
    let refused = inside.run().unwrap_err().to_string();
    assert!(refused.contains("lies within the target"), "{refused}");
}

/// One that was cut off, after the target had lost something.
#[test]
fn a_backup_that_goes_on_tells_of_lost_packs_and_lists_them_once() {
    let place = Place::new(12_000_000);
    let server = s3_server(&place);
    let vault = place.create(&s3_at(server.address));
    place.back_up(&vault, false).unwrap();
    let data = place.path("s3/backups/of/mine");
    let all = walk(&data.join("data"));
    fs::remove_file(all.iter().max_by_key(|it| fs::metadata(it).unwrap().len()).unwrap()).unwrap();
    let lists = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&lists);
    let proxy = Proxy::start(server.address, move |request| {
        if request.method == "GET" && request.path.contains("list-type=2") {
            let of_packs = request.path.replace("%2F", "/").contains("mine/data");
            counted.fetch_add(u64::from(of_packs), Ordering::Relaxed);
        }
        Fault::None
    });
    let vault = place.open(&s3_at(proxy.address)).unwrap();
    let done = place.back_up(&vault, true).unwrap();
    assert_eq!(done.lost_packs, 1);
    // Before, and when it is looked whether all has come.
    assert_eq!(lists.load(Ordering::Relaxed), 2);
    assert_eq!(vault.check(100.0).unwrap().errors, Vec::<String>::new());
}
