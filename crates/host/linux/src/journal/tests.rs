use super::*;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

fn entry(key: &str) -> Entry {
    let operation = Operation::Sysctl { key: key.into(), value: "1".into() };
    Entry { operation, prior: Some("0".into()) }
}

fn keys(entries: &[Entry]) -> Vec<String> {
    entries.iter().map(|entry| entry.operation.to_string()).collect()
}

/// Two places; the first isn't writable until it is repaired.
fn places(folder: &Path) -> Vec<PathBuf> {
    fs::write(folder.join("disk"), "no folder").unwrap();
    vec![folder.join("disk/j.json"), folder.join("run/j.json")]
}

fn mend(folder: &Path) {
    fs::remove_file(folder.join("disk")).unwrap();
}

#[test]
fn where_the_disk_can_not_be_written_the_journal_is_kept_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    let places = places(folder.path());
    let (mut storage, found) = Storage::open(places.clone()).unwrap();
    assert_eq!((keys(&found), Storage::holds_something(&places)), (vec![], false));
    storage.store(&[entry("a")]);
    assert_eq!(storage.trouble(), None);
    assert!(Storage::holds_something(&places));
    let (_, found) = Storage::open(places).unwrap();
    assert_eq!(keys(&found), ["sysctl a=1"]);
}

#[test]
fn the_newest_journal_counts_and_is_the_only_one_that_stays() {
    let folder = tempfile::tempdir().unwrap();
    let places = places(folder.path());
    let (mut storage, _) = Storage::open(places.clone()).unwrap();
    storage.store(&[entry("a")]);
    mend(folder.path());
    storage.store(&[entry("b")]);
    assert!(places[0].exists() && !places[1].exists());
    // As on a disk that became read-only after the first was written.
    let stale = fs::read(&places[0]).unwrap();
    storage.store(&[entry("c")]);
    fs::rename(&places[0], &places[1]).unwrap();
    fs::write(&places[0], stale).unwrap();
    let (_, found) = Storage::open(places).unwrap();
    assert_eq!(keys(&found), ["sysctl c=1"]);
}

#[test]
fn nowhere_to_write_is_told_and_heals() {
    let folder = tempfile::tempdir().unwrap();
    let places = vec![places(folder.path())[0].clone()];
    let (mut storage, _) = Storage::open(places.clone()).unwrap();
    storage.store(&[entry("a")]);
    let trouble = storage.trouble().unwrap().to_owned();
    assert!(trouble.contains("disk/j.json"), "{trouble}");
    mend(folder.path());
    storage.store(&[entry("a")]);
    assert_eq!(storage.trouble(), None);
    assert!(Storage::holds_something(&places));
    storage.store(&[]);
    assert_eq!((storage.trouble(), places[0].exists()), (None, false));
}

/// Settings don't survive a boot, and their previous values say nothing about this one.
#[test]
fn of_another_boot_only_files_are_taken_back() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("j.json");
    let (mut storage, _) = Storage::open(vec![place.clone()]).unwrap();
    let (path, contents) = (folder.path().join("team.conf"), String::new());
    let operation = Operation::File { path, contents, mode: 0o644 };
    let file = Entry { operation, prior: None };
    storage.store(&[entry("a"), file]);
    let text = fs::read_to_string(&place).unwrap();
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    assert!(text.contains(boot.trim()));
    assert_eq!(Storage::open(vec![place.clone()]).unwrap().1.len(), 2);
    fs::write(&place, text.replace(boot.trim(), "00000000-0000-0000-0000-000000000000")).unwrap();
    let (_, found) = Storage::open(vec![place]).unwrap();
    assert!(
        matches!(found.as_slice(), [Entry { operation: Operation::File { .. }, .. }]),
        "{found:?}"
    );
}

#[test]
fn what_others_could_have_written_is_neither_read_nor_written_through() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("j.json");
    let (mut storage, _) = Storage::open(vec![place.clone()]).unwrap();
    storage.store(&[entry("a")]);
    fs::set_permissions(&place, fs::Permissions::from_mode(0o666)).unwrap();
    let (storage, found) = Storage::open(vec![place.clone()]).unwrap();
    assert!(found.is_empty() && storage.trouble().is_some());
    fs::remove_file(&place).unwrap();
    let target = folder.path().join("target");
    fs::write(&target, "theirs").unwrap();
    std::os::unix::fs::symlink(&target, &place).unwrap();
    let (mut storage, found) = Storage::open(vec![place]).unwrap();
    assert!(found.is_empty());
    storage.store(&[entry("a")]);
    assert!(storage.trouble().is_some());
    assert_eq!(fs::read(&target).unwrap(), b"theirs");
}

/// Written by a daemon before version 2, with one entry of every form.
const VERSION_1: &str = r#"{"version": 1, "boot": "", "serial": 7, "entries": [
    {"item": {"sysctl": {"key": "net/ipv4/conf/a/rp_filter", "value": "2"}}, "prior": "1"},
    {"item": {"forwarding": "v6"}, "prior": "{}"},
    {"item": {"address": {"interface": "braid0", "net": "10.0.0.1/24"}}, "prior": null},
    {"item": {"route": {"destination": "0.0.0.0/0", "table": 51901, "kind": "unicast",
        "gateway": "192.0.2.1", "on_link": false, "interface": "wan", "metric": 0}}, "prior": null},
    {"item": {"rule": {"family": "v4", "priority": 5190, "not": false, "fwmark": 7, "from": null,
        "to": null, "incoming": null, "outgoing": null,
        "action": {"lookup": {"table": 254, "suppress_prefix_len": 0}}}}, "prior": null},
    {"item": {"firewall": {"interface": "braid0", "ruleset": "table inet braid_braid0 {}"}},
        "prior": null},
    {"item": {"docker-user": {"family": "v4", "rule": "-j ACCEPT"}}, "prior": null},
    {"item": {"operation": {"enslave": {"device": "wan", "master": "lan"}}}, "prior": "up"},
    {"item": {"operation": {"file": {"path": "/run/team.conf", "contents": "", "mode": 420}}},
        "prior": null}
]}"#;

#[test]
fn a_journal_of_an_older_version_is_still_undone() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("j.json");
    fs::write(&place, VERSION_1).unwrap();
    let (mut storage, found) = Storage::open(vec![place.clone()]).unwrap();
    let expected = [
        "sysctl net.ipv4.conf.a.rp_filter=2",
        "sysctl net.ipv6.conf.all.forwarding=1",
        "address 10.0.0.1/24 dev braid0",
        "route 0.0.0.0/0 via 192.0.2.1 dev wan table 51901",
        "rule 5190: from all fwmark 0x7 lookup 254 suppress_prefixlength 0 (IPv4)",
        "nftables table inet braid_braid0",
        "iptables -I DOCKER-USER -j ACCEPT",
        "wan as port of lan",
        "file /run/team.conf",
    ];
    assert_eq!(keys(&found), expected);
    assert_eq!(found[7].prior.as_deref(), Some("up"));
    storage.store(&found);
    assert!(fs::read_to_string(&place).unwrap().contains("\"version\": 2"));
    assert_eq!(keys(&Storage::open(vec![place]).unwrap().1), expected);
}

#[test]
fn a_journal_of_a_newer_version_is_refused_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("j.json");
    let newer = r#"{"version": 3, "what": "nobody knows yet"}"#;
    fs::write(&place, newer).unwrap();
    let error = Storage::open(vec![place.clone()]).err().unwrap();
    assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    let told = error.to_string();
    assert!(told.contains("a newer braid") && told.contains("`braid down` by that one"), "{told}");
    assert_eq!(fs::read_to_string(&place).unwrap(), newer, "it stays");
}

#[test]
fn a_damaged_journal_is_put_aside_and_stops_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("j.json");
    let (mut storage, _) = Storage::open(vec![place.clone()]).unwrap();
    for number in 1..=2 {
        storage.store(&[entry("a"), entry("b")]);
        let whole = fs::read(&place).unwrap();
        fs::write(&place, &whole[..whole.len() / 2]).unwrap();
        assert!(Storage::holds_something(std::slice::from_ref(&place)));
        let (opened, found) = Storage::open(vec![place.clone()]).unwrap();
        let damaged = opened.damaged().unwrap();
        assert_eq!(fs::read(&damaged.kept).unwrap(), whole[..whole.len() / 2]);
        assert_eq!(damaged.kept, folder.path().join(format!("j.json.damaged-{number}")));
        assert!(found.is_empty() && damaged.why.contains("EOF") && !place.exists());
    }
    let (storage, _) = Storage::open(vec![place]).unwrap();
    assert_eq!(storage.damaged(), None);
}

#[test]
fn a_table_is_kept_by_its_name_and_made_anew_by_who_goes_on_with_it() {
    let Ok(namespace) = crate::netns::NetNs::new() else {
        eprintln!("skipped: network namespaces need root or a user namespace");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let places = [folder.path().join("j.json")];
    let table = FirewallTable::of("braid0".to_owned(), "\tchain some {\n\t}\n");
    let wanted = [Operation::Firewall(table)];
    let nft = |words: &[&str]| {
        let output = std::process::Command::new("nft").args(words).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let has = || nft(&["list", "ruleset"]).contains("chain some");
    let test = || {
        assert!(UndoJournal::open(&places).unwrap().reconcile(&wanted).is_empty());
        assert!(has());
        assert!(!fs::read_to_string(&places[0]).unwrap().contains("chain"));
        nft(&["delete", "chain", "inet", "braid_braid0", "some"]);
        let mut journal = UndoJournal::open(&places).unwrap();
        assert!(journal.reconcile(&wanted).is_empty());
        assert!(has(), "by the one before it was another table");
        assert_eq!(journal.operations().count(), 1);
        assert!(journal.undo().is_empty());
        assert_eq!(nft(&["list", "ruleset"]), "");
    };
    namespace.run(test).unwrap();
}
