//! Lists that are behind: what a server has just taken isn't in them yet, what was just removed
//! still is. A file itself is there or not.

mod place;

use braid_backup::{Ends, Repair, Vault};
use braid_backup_targets::{Fault, Proxy, S3Server, noise};
use braid_pool::upkeep::LockSpan;
use place::{Place, s3_at, s3_server};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// A server whose lists of some kinds know nothing of what goes through here.
struct Late {
    proxy: Proxy,
    kinds: Arc<Mutex<BTreeSet<&'static str>>>,
}

const KINDS: [&str; 5] = ["config", "keys", "data", "index", "snapshots"];

impl Late {
    fn before(server: &S3Server) -> Late {
        let kinds = Arc::new(Mutex::new(BTreeSet::new()));
        let late: Arc<Mutex<BTreeSet<&str>>> = Arc::clone(&kinds);
        let proxy = Proxy::start(server.address, move |request| {
            let path = request.path.replace("%2F", "/");
            let is_late =
                late.lock().unwrap().iter().any(|kind| path.contains(&format!("of/mine/{kind}")));
            if is_late { Fault::Behind(usize::MAX) } else { Fault::None }
        });
        Late { proxy, kinds }
    }

    fn target(&self) -> String {
        s3_at(self.proxy.address)
    }

    /// From now on, until it is told otherwise.
    fn are(&self, kinds: &[&'static str]) {
        *self.kinds.lock().unwrap() = kinds.iter().copied().collect();
    }
}

/// Without what takes a while to read.
fn small(bytes: usize) -> Place {
    let place = Place::new(bytes);
    fs::remove_file(place.path("source/holes")).unwrap();
    place
}

/// Two backups that lists know, and one that went through `late`.
fn three_backups(place: &Place, server: &S3Server, late: &Late) -> Vault {
    let source = place.path("source");
    let vault = place.create(&s3_at(server.address));
    place.back_up(&vault, false).unwrap();
    fs::rename(source.join("large"), place.path("large")).unwrap();
    place.back_up(&vault, false).unwrap();
    // What the first has and the second hasn't, and what none has.
    fs::rename(place.path("large"), source.join("large")).unwrap();
    fs::create_dir(source.join("new")).unwrap();
    fs::write(source.join("new/file"), noise(300_000, 11)).unwrap();
    place.back_up(&place.open(&late.target()).unwrap(), false).unwrap();
    vault
}

/// All backups are whole, and the newest comes back as the source is.
fn all_is_there(place: &Place, backups: usize, about: &str) {
    let server = s3_server(place);
    let vault = place.open(&s3_at(server.address)).unwrap();
    assert_eq!(vault.backups().unwrap().len(), backups, "{about}");
    assert_eq!(vault.check(100.0).unwrap().errors, Vec::<String>::new(), "{about}");
    let to = format!("back {about}");
    place.restore(&vault, &to).unwrap();
    assert_eq!(place.differences(&place.path(&to)), Vec::<String>::new(), "{about}");
}

#[test]
fn a_backup_whose_lists_are_behind_loses_nothing_and_takes_nothing_for_lost() {
    let each = KINDS.iter().map(|kind| (vec![*kind], false));
    for (kinds, resumed) in each.chain([(KINDS.to_vec(), false), (KINDS.to_vec(), true)]) {
        let about = format!("{kinds:?} {resumed}");
        let place = small(300_000);
        let server = s3_server(&place);
        let late = Late::before(&server);
        three_backups(&place, &server, &late);
        fs::write(place.path("source/new/other"), noise(200_000, 12)).unwrap();
        late.are(&kinds);
        let done = place.open(&late.target()).and_then(|it| place.back_up(&it, resumed));
        let done = done.unwrap_or_else(|error| panic!("{about}: {error}"));
        assert_eq!(done.lost_packs, 0, "{about}");
        all_is_there(&place, 4, &about);
    }
}

#[test]
fn what_is_there_is_not_prepared_again_by_a_list_that_does_not_have_it() {
    let place = small(100_000);
    let server = s3_server(&place);
    let late = Late::before(&server);
    let vault = place.create(&late.target());
    place.back_up(&vault, false).unwrap();
    late.are(&KINDS);
    // Another computer, with another key, at the same time.
    let other = small(1_000);
    let at = late.target().parse().unwrap();
    let made = Vault::create(at, other.key(), place.target_options.clone()).map(|(_, made)| made);
    assert!(made.is_err(), "{made:?}");
    // The same key, which its list doesn't have yet.
    let at = late.target().parse().unwrap();
    let again = Vault::create(at, place.key(), place.target_options.clone()).map(|(_, made)| made);
    let said = again.unwrap_err().to_string();
    assert!(said.contains("no keys"), "{said}");
    all_is_there(&place, 1, "prepared");
}

#[test]
fn what_a_list_of_backups_does_not_have_yet_is_needed_all_the_same() {
    let place = small(300_000);
    let server = s3_server(&place);
    let late = Late::before(&server);
    let vault = three_backups(&place, &server, &late);
    let newest = vault.backups().unwrap().pop().unwrap();
    for kinds in [&["snapshots"][..], &["index"], &["data"], &KINDS] {
        late.are(&[]);
        let vault = place.open(&late.target()).unwrap();
        late.are(kinds);
        let policy = "1x1h".parse().unwrap();
        let mut all = vault.judge(&policy, newest.taken).unwrap();
        all.iter_mut().last().unwrap().keep = false;
        let said = vault.forget(&all, &[&newest.id]).unwrap_err().to_string();
        assert!(said.contains("behind"), "{kinds:?}: {said}");
        all_is_there(&place, 3, &format!("{kinds:?}"));
    }
    // It goes once they have caught up.
    late.are(&[]);
    let vault = place.open(&late.target()).unwrap();
    let mut all = vault.judge(&"1x1h".parse().unwrap(), newest.taken).unwrap();
    all.iter_mut().for_each(|one| one.keep = one.backup.id == newest.id);
    assert_eq!(vault.forget(&all, &[&newest.id]).unwrap(), 2);
    all_is_there(&place, 1, "after");
}

/// Of another computer nothing is known but what lists have.
#[test]
fn what_another_has_just_sent_stays_though_no_list_has_the_backup_that_needs_it() {
    let place = small(300_000);
    let server = s3_server(&place);
    let late = Late::before(&server);
    let vault = place.create(&s3_at(server.address));
    place.back_up(&vault, false).unwrap();
    fs::write(place.path("source/new"), noise(2_000_000, 13)).unwrap();
    place.back_up(&place.open(&late.target()).unwrap(), false).unwrap();
    late.are(&["snapshots"]);
    let vault = place.open(&late.target()).unwrap();
    let all = vault.judge(&"1x1h".parse().unwrap(), std::time::Duration::MAX).unwrap();
    assert_eq!(vault.forget(&all, &[]).unwrap(), 0);
    all_is_there(&place, 2, "of another");
}

#[test]
fn a_repair_gives_up_nothing_since_an_index_is_not_listed_yet() {
    for kinds in [&["index"][..], &["data"], &["snapshots"], &["data", "index"], &KINDS] {
        let place = small(300_000);
        let server = s3_server(&place);
        let late = Late::before(&server);
        three_backups(&place, &server, &late);
        let vault = place.open(&late.target()).unwrap();
        late.are(kinds);
        let repair = Repair { vault: &vault, known: None };
        let damage = repair.look().unwrap();
        assert!(damage.packs.is_empty(), "{kinds:?}: {:?}", damage.packs);
        repair.mend(&damage).unwrap();
        let dropped = repair.drop_lost(&damage);
        match dropped {
            Ok(count) => assert_eq!(count, 0, "{kinds:?}"),
            Err(error) => assert!(error.to_string().contains("behind"), "{kinds:?}: {error}"),
        }
        all_is_there(&place, 3, &format!("{kinds:?}"));
    }
}

#[test]
fn a_check_takes_nothing_for_gone_that_a_list_does_not_have_yet() {
    let place = small(300_000);
    let server = s3_server(&place);
    let late = Late::before(&server);
    three_backups(&place, &server, &late);
    let vault = place.open(&late.target()).unwrap();
    late.are(&["data"]);
    assert_eq!(vault.check(0.0).unwrap().errors, Vec::<String>::new());
}

#[test]
fn locks_are_prolonged_once_lists_have_what_they_are_of() {
    let mut place = small(300_000);
    let span = LockSpan::of_days(90).unwrap();
    place.target_options.lock = Some(span);
    let server = S3Server::locking(&place.path("s3"));
    let late = Late::before(&server);
    three_backups(&place, &server, &late);
    let files = server.lock_ends().len();
    server.age_locks(30);
    let aged = server.lock_ends();
    let vault = place.open(&late.target()).unwrap();
    late.are(&["data", "index", "snapshots"]);
    let mut ends = Ends::default();
    let first = vault.prolong(span, &mut ends).unwrap();
    assert!(first.files < files, "{first:?}");
    let now = server.lock_ends();
    assert!(aged.iter().all(|(key, end)| now.get(key).is_some_and(|now| now >= end)));
    late.are(&[]);
    let second = vault.prolong(span, &mut ends).unwrap();
    assert_eq!(second.prolonged, files - first.prolonged, "{first:?} {second:?}");
    let least = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(24 * 89);
    assert!(server.lock_ends().values().all(|end| *end > least));
}

#[test]
fn of_many_that_are_lost_those_that_are_only_not_listed_yet_are_told_apart() {
    let place = small(1_000);
    let source = place.path("source");
    let server = s3_server(&place);
    let late = Late::before(&server);
    let vault = place.create(&s3_at(server.address));
    for number in 0..70 {
        fs::write(source.join("each"), noise(10_000, 100 + number)).unwrap();
        place.back_up(&vault, false).unwrap();
    }
    let lost = packs(&place.path("s3/backups/of/mine/data"));
    let through = place.open(&late.target()).unwrap();
    fs::write(source.join("last"), noise(10_000, 200)).unwrap();
    place.back_up(&through, false).unwrap();
    // Those that lists know, and nothing of what went through.
    lost.iter().for_each(|pack| fs::remove_file(pack).unwrap());
    late.are(&["data"]);
    let through = place.open(&late.target()).unwrap();
    let done = place.back_up(&through, false).unwrap();
    assert_eq!(done.lost_packs, lost.len());
}

fn packs(data: &Path) -> Vec<std::path::PathBuf> {
    let folders = fs::read_dir(data).unwrap().map(|it| it.unwrap().path());
    folders.flat_map(|it| fs::read_dir(it).unwrap().map(|it| it.unwrap().path())).collect()
}
