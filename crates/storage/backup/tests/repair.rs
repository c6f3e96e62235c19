//! What is damaged at a target is mended: what can be read stays, the rest is sent again or named.

mod place;

use braid_backup::{Damage, Error, Repair, Restoration, Vault};
use braid_backup_targets::{Fault, Proxy, RestServer, noise, restic, restic_is_there};
use place::{Place, s3_at, s3_server};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

fn packs(target: &Path) -> Vec<PathBuf> {
    let folders = fs::read_dir(target.join("data")).unwrap().map(|it| it.unwrap().path());
    let mut all: Vec<PathBuf> =
        folders.flat_map(|it| fs::read_dir(it).unwrap().map(|it| it.unwrap().path())).collect();
    all.sort();
    all
}

fn overwrite(pack: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut content = fs::read(pack).unwrap();
    change(&mut content);
    fs::remove_file(pack).unwrap();
    fs::write(pack, content).unwrap();
}

fn look(vault: &Vault) -> Damage {
    Repair { vault, known: None }.look().unwrap()
}

fn mend(vault: &Vault) -> Damage {
    let repair = Repair { vault, known: None };
    let damage = repair.look().unwrap();
    repair.mend(&damage).unwrap();
    damage
}

fn agrees(place: &Place, vault: &Vault, target: &Path) {
    assert_eq!(vault.check(100.0).unwrap().errors, Vec::<String>::new());
    if restic_is_there() {
        let said =
            restic(target.to_str().unwrap(), &place.path("key"), &[], &["check", "--read-data"]);
        assert!(said.contains("no errors were found"), "{said}");
    }
}

/// What comes back of the newest backup: its paths that don't.
fn lost_to_a_restore(place: &Place, vault: &Vault, to: &str) -> BTreeSet<PathBuf> {
    place.restore(vault, to).unwrap().lost.into_iter().collect()
}

#[derive(Clone, Debug)]
enum Harm {
    Byte(f64),
    Zeros(f64, f64),
    Cut(f64),
    Grown,
    Gone,
}

fn harm() -> impl Strategy<Value = Harm> {
    prop_oneof![
        (0.0..1.0).prop_map(Harm::Byte),
        (0.0..1.0, 0.0..0.5).prop_map(|(at, share)| Harm::Zeros(at, share)),
        (0.0..1.0).prop_map(Harm::Cut),
        Just(Harm::Grown),
        Just(Harm::Gone),
    ]
}

fn do_harm(pack: &Path, harm: &Harm) {
    let at = |length: usize, share: f64| (length as f64 * share) as usize;
    match harm {
        Harm::Gone => fs::remove_file(pack).unwrap(),
        harm => overwrite(pack, |content| match harm {
            Harm::Byte(share) => {
                let at = at(content.len(), *share);
                content[at] ^= 1;
            }
            Harm::Zeros(from, share) => {
                let (from, more) = (at(content.len(), *from), at(content.len(), *share) + 1);
                let end = (from + more).min(content.len());
                content[from..end].fill(0);
            }
            Harm::Cut(share) => content.truncate(at(content.len(), *share)),
            _ => content.extend([7; 100]),
        }),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, max_shrink_iters: 8, ..ProptestConfig::default() })]

    /// Whatever happened to whichever packs: nothing goes that could be read, it is known what is
    /// lost, and a backup makes it whole again.
    #[test]
    fn what_can_be_read_is_kept_and_the_next_backup_brings_the_rest(
        harms in prop::collection::vec((any::<prop::sample::Index>(), harm()), 1..4),
    ) {
        let mut place = Place::new(6_000_000);
        // It has folders' lists that the target has lost.
        place.target_options.cache = None;
        fs::write(place.path("source/another"), noise(5_000_000, 9)).unwrap();
        let target = place.path("target");
        let vault = place.create(target.to_str().unwrap());
        place.back_up(&vault, false).unwrap();
        fs::write(place.path("source/later"), noise(500_000, 11)).unwrap();
        place.back_up(&vault, false).unwrap();
        let all = packs(&target);
        let mut harmed = BTreeSet::new();
        for (which, harm) in &harms {
            let pack = which.get(&all);
            if harmed.insert(pack.file_name().unwrap().to_str().unwrap().to_owned()) {
                do_harm(pack, harm);
            }
        }
        let before = vault.backups().unwrap();
        // Where folders' lists are lost no restore comes as far as to tell.
        let could = place.restore(&vault, "before").ok()
            .map(|it| it.lost.into_iter().collect::<BTreeSet<_>>());

        let damage = look(&vault);
        let found: BTreeSet<String> = damage.packs.iter().map(|pack| pack.id.clone()).collect();
        prop_assert_eq!(&found, &harmed);
        prop_assert_eq!(damage.read_packs, all.len());
        let files = |damage: &Damage| damage.backups.iter()
            .map(|it| (it.backup.id.clone(), it.lack.clone())).collect::<Vec<_>>();
        let mended = mend(&vault);
        prop_assert_eq!(files(&mended), files(&damage));
        let after = look(&vault);
        prop_assert!(after.packs.is_empty(), "{:?}", after.packs);
        prop_assert_eq!(files(&after), files(&damage));
        if let Some(could) = could {
            let lost = lost_to_a_restore(&place, &vault, "after");
            prop_assert_eq!(&lost, &could);
            // Hard links are counted by each of their names.
            let newest = &before.last().unwrap().id;
            let told = damage.backups.iter().find(|it| it.backup.id == *newest);
            prop_assert_eq!(
                told.map_or(0, |it| it.lack.lost_files), lost.len() as u64, "{:?}", told
            );
        }

        let again = place.back_up(&vault, false).unwrap();
        prop_assert_eq!(again.lost_packs, 0);
        place.restore(&vault, "back").unwrap();
        prop_assert_eq!(place.differences(&place.path("back")), Vec::<String>::new());
        // What old backups alone had, such as the list of a folder that has changed since, is gone.
        let left = look(&vault);
        let newest = again.snapshot.unwrap();
        prop_assert!(left.backups.iter().all(|it| it.backup.id != newest), "{:?}", left.backups);
        Repair { vault: &vault, known: None }.drop_lost(&left).unwrap();
        agrees(&place, &vault, &target);
    }
}

/// A file that is in an old backup only.
#[test]
fn what_no_backup_sends_again_is_taken_out_of_those_that_name_it() {
    let place = Place::new(3_000_000);
    let old = place.path("source/deep/old");
    fs::write(&old, noise(20_000_000, 9)).unwrap();
    let target = place.path("target");
    let vault = place.create(target.to_str().unwrap());
    place.back_up(&vault, false).unwrap();
    fs::remove_file(&old).unwrap();
    place.back_up(&vault, false).unwrap();
    let pack = packs(&target).into_iter().max_by_key(|it| fs::metadata(it).unwrap().len()).unwrap();
    // Other files' pieces may lie between its own.
    overwrite(&pack, |content| {
        [4, 8, 12].into_iter().for_each(|million| content[million * 1_000_000] ^= 1);
    });

    mend(&vault);
    place.back_up(&vault, false).unwrap();
    let repair = Repair { vault: &vault, known: Some(BTreeSet::new()) };
    let damage = repair.look().unwrap();
    assert_eq!((damage.read_packs, damage.backups.len()), (0, 1), "{damage:?}");
    let lacking = &damage.backups[0];
    assert_eq!((lacking.lack.lost_files, lacking.lack.lost_folders), (1, 0));
    let path = place.path("source/deep/old");
    assert_eq!(lacking.lack.examples[0].0, path);
    assert!(!vault.check(100.0).unwrap().errors.is_empty(), "its data isn't there");

    assert_eq!(repair.drop_lost(&damage).unwrap(), 1);
    assert!(look(&vault).backups.is_empty());
    agrees(&place, &vault, &target);
    let backups = vault.backups().unwrap();
    assert_eq!(backups.len(), 3);
    // One that is whole isn't pushed out by it.
    assert_eq!(backups.iter().filter(|one| one.incomplete).count(), 1);
    let oldest = &backups[0];
    assert!(oldest.incomplete && oldest.taken == lacking.backup.taken, "{backups:?}");
    let to = place.path("old");
    Restoration {
        vault: &vault,
        which: oldest.id.clone(),
        path: None,
        to,
        dry_run: false,
        warn: &|_| {},
    }
    .run()
    .unwrap();
    let left = fs::metadata(place.path("old/deep/old.repaired")).unwrap().len();
    assert!(left > 1_000_000 && left < 20_000_000, "{left}");
    assert_eq!(fs::read(place.path("old/deep/er/one")).unwrap(), b"linked");
}

/// The link is cut after each number of requests; what could be read before can be afterwards.
#[test]
fn a_repair_that_is_cut_off_loses_nothing_and_goes_on() {
    let place = Place::new(3_000_000);
    let folder = place.path("s3/backups/of/mine");
    let server = s3_server(&place);
    let direct = s3_at(server.address);
    let vault = place.create(&direct);
    place.back_up(&vault, false).unwrap();
    let all = packs(&folder);
    let largest = all.iter().max_by_key(|it| fs::metadata(it).unwrap().len()).unwrap();
    overwrite(largest, |content| content[1_000_000] ^= 1);
    let kept = place.path("kept");
    copy(&folder, &kept);
    let mut target_options = place.target_options.clone();
    (target_options.retries, target_options.connections) = (0, 1);
    let damage = look(&vault);
    let through = |cut_after: u64| {
        let proxy = Proxy::start(server.address, move |request| match request.number < cut_after {
            true => Fault::None,
            false => Fault::CutRequest,
        });
        let target = s3_at(proxy.address).parse().unwrap();
        Vault::open(target, place.key(), target_options.clone()).and_then(|vault| {
            let opened = proxy.requests();
            Repair { vault: &vault, known: None }.mend(&damage)?;
            Ok((opened, proxy.requests()))
        })
    };
    let (opened, ended) = through(u64::MAX).unwrap();
    assert!(ended > opened + 8, "{opened} {ended}");
    for after in opened..ended {
        fs::remove_dir_all(&folder).unwrap();
        copy(&kept, &folder);
        let cut = through(after);
        assert!(matches!(cut, Err(Error::Target { .. })), "after {after}: {cut:?}");
        // Of that file, and of nothing else.
        let damage = mend(&vault);
        assert_eq!(damage.backups[0].lack.lost_files, 1, "after {after}");
        assert_eq!(damage.backups[0].lack.lost_folders, 0, "after {after}");
        if after % 4 > 0 {
            continue;
        }
        // Also what a backup takes in that goes on after a cut.
        place.back_up(&vault, true).unwrap();
        assert_eq!(vault.check(100.0).unwrap().errors, Vec::<String>::new(), "after {after}");
    }
}

fn copy(from: &Path, to: &Path) {
    let status = std::process::Command::new("cp").arg("-r").args([from, to]).status().unwrap();
    assert!(status.success());
}

#[test]
fn what_is_damaged_on_the_way_is_not_damaged_there() {
    let place = Place::new(3_000_000);
    let server = s3_server(&place);
    place.back_up(&place.create(&s3_at(server.address)), false).unwrap();
    let count = AtomicU64::new(0);
    let proxy = Proxy::start(server.address, move |request| {
        let is_pack = request.method == "GET" && request.path.contains("/data/");
        match is_pack && count.fetch_add(1, Ordering::Relaxed).is_multiple_of(3) {
            true => Fault::Damage,
            false => Fault::None,
        }
    });
    let vault = place.open(&s3_at(proxy.address)).unwrap();
    let damage = look(&vault);
    assert!(damage.packs.is_empty() && damage.read_packs > 1, "{damage:?}");
}

#[test]
fn a_target_that_only_appends_is_left_as_it_is() {
    let place = Place::new(3_000_000);
    let target = place.path("target");
    fs::create_dir(&target).unwrap();
    let Some(server) = RestServer::start(&target, true) else { return };
    let vault = place.create(&format!("rest:{}", server.url));
    place.back_up(&vault, false).unwrap();
    let all = packs(&target);
    let largest = all.iter().max_by_key(|it| fs::metadata(it).unwrap().len()).unwrap();
    overwrite(largest, |content| content[1_000_000] ^= 1);
    let repair = Repair { vault: &vault, known: None };
    let damage = repair.look().unwrap();
    let error = repair.mend(&damage).unwrap_err().to_string();
    assert!(error.contains("doesn't let anything be removed"), "{error}");
    assert_eq!(lost_to_a_restore(&place, &vault, "back").len() as u64, {
        damage.backups[0].lack.lost_files
    });
}
