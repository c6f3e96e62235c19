use braid_registry::{Entry, Fleet, claim, entries_in, placement};
use std::collections::{BTreeMap, BTreeSet};

const PREFIX: &str = "braid/";

/// A fleet's records: as etcd answers, or line by line with a key, a tab and a value; the first
/// byte says which. Whatever they contain, each home's order has each concentrator once.
///
/// # Panics
/// If that doesn't hold: this is what the fuzzer looks for.
pub fn registry(data: &[u8]) {
    let Some((&kind, rest)) = data.split_first() else { return };
    let entries = match kind % 2 {
        0 => entries_in(rest, PREFIX).unwrap_or_default(),
        _ => {
            let text = String::from_utf8_lossy(rest);
            let entry = |(version, line): (i64, &str)| {
                let (key, value) = line.split_once('\t')?;
                Some(Entry { key: key.to_owned(), value: value.to_owned(), version })
            };
            (1..).zip(text.lines()).filter_map(entry).collect()
        }
    };
    let Ok(fleet) = Fleet::parse(&entries) else { return };
    let all: BTreeSet<&str> = fleet.concentrators.keys().map(String::as_str).collect();
    for (name, (home, _)) in &fleet.homes {
        let order = placement::order(&fleet, name, home);
        assert_eq!(order.len(), all.len());
        assert_eq!(order.into_iter().collect::<BTreeSet<_>>(), all);
    }
    let mut places = placement::Places::default();
    for me in all {
        let here: BTreeMap<String, ()> =
            fleet.served.keys().map(|name| (name.clone(), ())).collect();
        let refused: BTreeSet<String> = fleet.homes.keys().step_by(2).cloned().collect();
        let ranks = places.ranks(&fleet, me, &here, &refused);
        assert!(ranks.keys().eq(fleet.homes.keys()));
        for record in fleet.served.values() {
            let epoch = record.0.epoch;
            for word in [None, Some(0), Some(epoch), epoch.checked_add(1)] {
                let _ = claim::step(Some(record), me, word);
            }
        }
    }
}
