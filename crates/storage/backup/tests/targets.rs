//! Each kind of target with a real server, read and written by the real restic too.

mod place;

use braid_backup::{Error, From, Vault};
use braid_backup_targets::{
    KEY, RestServer, SECRET, VersityServer, change, restic, restic_is_there, sftp_server,
};
use place::{Place, s3_at, s3_server};
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// There and back by both programs, in all four ways.
fn agrees_with_restic(place: &Place, target: &str, ours: &str) {
    let vault = place.create(ours);
    let first = place.back_up(&vault, false).unwrap();
    assert!(matches!(first.from, From::Live(_) | From::Snapshot), "{first:?}");
    assert_eq!((first.left_out.unreadable_count, first.left_out.vanished), (0, 0), "{first:?}");
    change(&place.path("source"));
    let second = place.back_up(&vault, false).unwrap();
    assert!(second.changed_files < 10, "{second:?}");
    assert!(second.new_bytes < first.new_bytes, "{second:?}");
    let unchanged = place.back_up(&vault, false).unwrap();
    assert_eq!((unchanged.changed_files, unchanged.new_bytes), (0, 0), "{unchanged:?}");
    let report = vault.check(100.0).unwrap();
    assert_eq!(report.errors, Vec::<String>::new());

    let restored = place.restore(&vault, "by us").unwrap();
    assert_eq!(restored.lacking, Vec::<String>::new());
    assert_eq!(place.differences(&place.path("by us")), Vec::<String>::new());
    // Nothing is restored over what is there.
    assert!(matches!(place.restore(&vault, "by us"), Err(Error::Refused(_))));

    if !restic_is_there() {
        return;
    }
    let key = place.path("key");
    let environment = [("AWS_ACCESS_KEY_ID", KEY), ("AWS_SECRET_ACCESS_KEY", SECRET)];
    let by_restic = |words: &[&str]| restic(target, &key, &environment, words);
    by_restic(&["check", "--read-data"]);
    let to = place.path("by restic");
    by_restic(&["restore", "latest", "--target", to.to_str().unwrap()]);
    let source = place.path("source");
    // Restic 0.14 knows no link targets that aren't UTF-8.
    let but_one = |found: Vec<String>| {
        let others = found.into_iter().filter(|one| !one.contains("\"to bytes\""));
        others.collect::<Vec<String>>()
    };
    let in_restics = to.join(source.strip_prefix("/").unwrap());
    assert_eq!(but_one(place.differences(&in_restics)), Vec::<String>::new());

    fs::write(source.join("written for restic"), "x".repeat(10_000)).unwrap();
    let said = by_restic(&["backup", "--force", "--json", source.to_str().unwrap()]);
    let summary = said.lines().find(|line| line.contains("\"summary\"")).unwrap();
    let summary: serde_json::Value = serde_json::from_str(summary).unwrap();
    // It cuts files where Braid does: all but the new one is there.
    assert!(summary["data_added"].as_u64() < Some(200_000), "{summary}");
    assert_eq!(vault.backups().unwrap().len(), 4);
    place.restore(&vault, "restic's by us").unwrap();
    let found = place.differences(&place.path("restic's by us"));
    assert_eq!(but_one(found), Vec::<String>::new());
}

#[test]
fn a_folder_agrees_with_restic() {
    let place = Place::new(3_000_000);
    let target = place.path("target");
    let target = target.to_str().unwrap();
    agrees_with_restic(&place, target, target);
}

#[test]
fn an_s3_server_agrees_with_restic() {
    let place = Place::new(3_000_000);
    let server = s3_server(&place);
    let target = s3_at(server.address);
    // This server takes an empty delimiter for one, so it hides packs from restic, which reads the
    // folder behind it.
    let folder = place.path("s3/backups/of/mine");
    agrees_with_restic(&place, folder.to_str().unwrap(), &target);
}

/// Another maker's server, which restic reads by S3, too.
#[test]
fn versitygw_agrees_with_restic() {
    let place = Place::new(3_000_000);
    let Some(server) = VersityServer::start(&place.path("versity")) else { return };
    let target = format!("s3:http://{}/braid-backups/of/mine", server.address);
    agrees_with_restic(&place, &target, &target);
}

#[test]
fn a_rest_server_agrees_with_restic() {
    let place = Place::new(3_000_000);
    fs::create_dir(place.path("target")).unwrap();
    let Some(server) = RestServer::start(&place.path("target"), false) else { return };
    let target = format!("rest:{}mine/", server.url);
    agrees_with_restic(&place, &target, &target);
}

#[test]
fn an_sftp_server_agrees_with_restic() {
    let Some(server) = sftp_server() else { return };
    let mut place = Place::new(3_000_000);
    place.target_options.sftp_command = Some(server.to_owned());
    let folder = place.path("deep/target");
    let folder = folder.to_str().unwrap();
    let target = format!("sftp:nobody@nowhere:{folder}");
    agrees_with_restic(&place, folder, &target);

    // What a cut left goes once nobody can be writing it any more.
    let pack = packs(Path::new(folder)).remove(0);
    let [left, under_way] = ["part-1-0", "part-2-0"].map(|part| pack.with_added_extension(part));
    fs::write(&left, "half").unwrap();
    fs::write(&under_way, "half").unwrap();
    let day_before_yesterday = SystemTime::now() - Duration::from_secs(2 * 24 * 3600);
    File::options().write(true).open(&left).unwrap().set_modified(day_before_yesterday).unwrap();
    place.back_up(&place.open(&target).unwrap(), true).unwrap();
    assert!(!left.exists() && under_way.exists());
}

#[test]
fn a_target_that_only_appends_takes_backups_and_lets_nothing_be_removed() {
    let place = Place::new(100_000);
    fs::create_dir(place.path("target")).unwrap();
    let Some(server) = RestServer::start(&place.path("target"), true) else { return };
    let vault = place.create(&format!("rest:{}", server.url));
    for _ in 0..3 {
        place.back_up(&vault, false).unwrap();
    }
    // Of an hour the newest stays, and the oldest.
    let policy = "1x1h".parse().unwrap();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let verdicts = vault.judge(&policy, now).unwrap();
    assert_eq!(verdicts.iter().filter(|one| !one.keep).count(), 1);
    let error = vault.forget(&verdicts, &[]).unwrap_err().to_string();
    assert!(error.contains("doesn't let anything be removed"), "{error}");
    assert_eq!(vault.backups().unwrap().len(), 3);
    assert_eq!(vault.check(100.0).unwrap().errors, Vec::<String>::new());
}

#[test]
fn one_file_and_one_folder_come_back_alone() {
    let place = Place::new(100_000);
    let target = place.path("target");
    let vault = place.create(target.to_str().unwrap());
    place.back_up(&vault, false).unwrap();
    let one = |inside: &str, to: &str| braid_backup::Restoration {
        vault: &vault,
        which: "latest".to_owned(),
        path: Some(place.path("source").join(inside)),
        to: place.path(to),
        dry_run: false,
        warn: &|_| {},
    };
    one("deep/er/one", "alone").run().unwrap();
    assert_eq!(fs::read(place.path("alone")).unwrap(), b"linked");
    one("deep", "deep again").run().unwrap();
    let (original, copy) = (place.path("source/deep"), place.path("deep again"));
    let found = braid_backup_targets::differences(&original, &copy);
    // A file of whose three names two are below.
    assert!(found.iter().all(|one| one.contains("HardLinks")), "{found:?}");
    let entries = vault.entries("latest", &place.path("source/deep"), false).unwrap();
    let names: Vec<&Path> = entries.iter().map(|one| one.path.as_path()).collect();
    assert!(names.contains(&Path::new("two")) && names.contains(&Path::new("er")), "{names:?}");
    assert!(one("not there", "x").run().is_err());
}

/// A virtual machine's disk of 40 MB with 11 bytes in it takes some pages, there and back.
#[test]
fn holes_are_holes_again_after_a_restore() {
    let place = Place::new(1000);
    let vault = place.create(place.path("target").to_str().unwrap());
    place.back_up(&vault, false).unwrap();
    place.restore(&vault, "back").unwrap();
    let about = |folder: &str| fs::metadata(place.path(folder).join("holes")).unwrap();
    let allocated = |folder: &str| about(folder).blocks() * 512;
    let (original, copy) = (allocated("source"), allocated("back"));
    assert_eq!(about("back").len(), 40 << 20);
    assert!(original < 1 << 20, "this filesystem has no holes: {original}");
    // The chunks around what is there are whole: 8 MB each at the most.
    assert!(copy < 20 << 20, "{original} {copy}");
    let read = fs::read(place.path("back/holes")).unwrap();
    assert!(read == fs::read(place.path("source/holes")).unwrap());
}

#[test]
fn the_latest_is_that_of_the_path() {
    let place = Place::new(1000);
    let vault = place.create(place.path("target").to_str().unwrap());
    let other = place.path("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("file"), "newer").unwrap();
    place.back_up(&vault, false).unwrap();
    let ground = braid_backup::Ground::prepare(&other, false, SystemTime::now()).unwrap();
    braid_backup::Backup { vault: &vault, ground: &ground, resumed: false, dry_run: false }
        .run()
        .unwrap();
    let error = place.restore(&vault, "neither").unwrap_err();
    let Error::Several { series, .. } = &error else { panic!("{error}") };
    assert_eq!(series.len(), 2);
    let entries = vault.entries("latest", &place.path("source/deep"), false).unwrap();
    assert!(!entries.is_empty());
    // As restic makes them.
    if restic_is_there() {
        let target = place.path("target");
        let both = [place.path("source"), other].map(|path| path.to_str().unwrap().to_owned());
        let words = ["backup", &both[0], &both[1]];
        restic(target.to_str().unwrap(), place.key().file(), &[], &words);
        let newest = vault.backups().unwrap().pop().unwrap();
        let restoration = braid_backup::Restoration {
            vault: &vault,
            which: newest.id,
            path: None,
            to: place.path("of restic's"),
            dry_run: false,
            warn: &|_| {},
        };
        restoration.run().unwrap();
        for path in &both {
            assert!(Path::new(&format!("{}{path}", restoration.to.display())).is_dir());
        }
    }
}

#[test]
fn what_is_damaged_is_found_and_a_restore_of_it_says_so() {
    let place = Place::new(1_000_000);
    let target = place.path("target");
    let vault = place.create(target.to_str().unwrap());
    place.back_up(&vault, false).unwrap();
    let packs = packs(&target);
    let largest = packs.iter().max_by_key(|path| fs::metadata(path).unwrap().len()).unwrap();
    let whole = fs::read(largest).unwrap();
    let mut damaged = whole.clone();
    damaged[whole.len() / 3] ^= 1;
    fs::write(largest, &damaged).unwrap();
    // Without reading it this can't be seen; reading all it is.
    assert_eq!(vault.check(0.0).unwrap().errors, Vec::<String>::new());
    assert!(!vault.check(100.0).unwrap().errors.is_empty());
    assert!(!place.restore(&vault, "damaged").unwrap().lost.is_empty());
    fs::write(largest, &whole[..whole.len() / 2]).unwrap();
    assert!(!vault.check(0.0).unwrap().errors.is_empty());
    assert!(!place.restore(&vault, "short").unwrap().lost.is_empty());
    fs::write(largest, &whole).unwrap();
    assert_eq!(vault.check(100.0).unwrap().errors, Vec::<String>::new());
    place.restore(&vault, "whole").unwrap();
}

#[test]
fn the_key_is_needed_and_what_is_there_is_left_alone() {
    let place = Place::new(1000);
    let target = place.path("target");
    let target = target.to_str().unwrap();
    assert!(matches!(place.open(target), Err(Error::Empty(_))));
    let vault = place.create(target);
    place.back_up(&vault, false).unwrap();
    fs::remove_file(place.path("key")).unwrap();
    braid_backup::key::Key::make(&place.path("key")).unwrap();
    assert!(matches!(place.open(target), Err(Error::WrongKey { .. })));
    let again =
        Vault::create(target.parse().unwrap(), place.key(), place.target_options.clone()).map(drop);
    assert!(matches!(again, Err(Error::WrongKey { .. })));
    // A folder with other things is no place for backups.
    let source = place.path("source");
    let error = Vault::create(
        source.to_str().unwrap().parse().unwrap(),
        place.key(),
        place.target_options.clone(),
    );
    assert!(matches!(error.map(drop), Err(Error::Refused(_))));
}

fn packs(target: &Path) -> Vec<PathBuf> {
    let folders = fs::read_dir(target.join("data")).unwrap().flatten();
    let files = folders.flat_map(|folder| fs::read_dir(folder.path()).unwrap().flatten());
    files.map(|file| file.path()).collect()
}
