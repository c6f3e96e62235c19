//! A tunnel's table in the kernel: written with `nft`, read over netlink.

use super::command::nft;
use super::{learnt, questions};
use crate::netlink;
use braid_engines::{FirewallTable, nft_table};
use std::collections::BTreeMap;
use std::io;

/// Replaces a table in the kernel atomically.
///
/// # Errors
/// `NotFound` when nft isn't installed; otherwise nft's error.
pub fn replace(table: &FirewallTable) -> io::Result<()> {
    let (name, ruleset) = (nft_table(&table.interface), &table.ruleset);
    learnt::replace(table, |learnt| {
        // The first line makes sure that there is a table to delete.
        nft(&format!("table inet {name}\ndelete table inet {name}\n{ruleset}{learnt}"))
    })?;
    questions::redirected_by(&table.interface, &table.redirected_questions);
    Ok(())
}

/// Deletes a tunnel's table, if there is one.
///
/// # Errors
/// As [`replace`].
pub fn delete(interface: &str) -> io::Result<()> {
    let name = nft_table(interface);
    nft(&format!("table inet {name}\ndelete table inet {name}\n"))?;
    learnt::forget(interface);
    questions::redirected_by(interface, &[]);
    Ok(())
}

/// Whether a tunnel's table exists.
///
/// # Errors
/// The kernel's error.
pub fn exists(interface: &str) -> io::Result<bool> {
    netlink::table_exists(&nft_table(interface))
}

/// The values of a tunnel's named counters: packets and bytes.
///
/// # Errors
/// The kernel's error.
pub fn counters(interface: &str) -> io::Result<BTreeMap<String, (u64, u64)>> {
    netlink::counters(&nft_table(interface))
}

#[cfg(test)]
mod tests {
    use super::super::Firewall;
    use super::super::tests::everything;
    use super::*;
    use crate::netns::NetNs;
    use std::process::Command;

    #[test]
    fn different_interfaces_have_different_tables() {
        assert_eq!(nft_table("braid0"), "braid_braid0");
        assert_ne!(nft_table("a-b"), nft_table("a_b"));
        assert_eq!(nft_table("a-b"), "braid_a.2db");
    }

    #[test]
    fn the_kernel_takes_it_replaces_it_and_forgets_it() {
        let Some(namespace) = namespace() else { return };
        let test = || {
            for interface in ["braid0", "odd-name.7"] {
                let firewall = Firewall { interface: interface.into(), ..everything() };
                assert!(!exists(interface).unwrap());
                for _ in 0..2 {
                    replace(&firewall.table().unwrap()).unwrap();
                    assert!(exists(interface).unwrap());
                }
            }
            let nonsense = FirewallTable::of("braid0".to_owned(), "nonsense");
            let refused = replace(&nonsense).unwrap_err();
            assert!(refused.to_string().contains("nonsense"), "{refused}");
            assert!(exists("braid0").unwrap(), "what was there stays");
            for interface in ["braid0", "odd-name.7"] {
                delete(interface).unwrap();
                delete(interface).unwrap();
            }
            let left = Command::new("nft").args(["list", "ruleset"]).output().unwrap();
            assert_eq!(String::from_utf8_lossy(&left.stdout), "");
        };
        namespace.run(test).unwrap();
    }

    /// Compared with what nft was given; a table of another family has the same names.
    #[test]
    fn counters_are_read_from_the_kernel() {
        let Some(namespace) = namespace() else { return };
        let test = || {
            assert_eq!(counters("braid0").unwrap(), BTreeMap::new());
            let table = |family, packets| {
                format!(
                    "table {family} braid_braid0 {{\n\tcounter one {{ packets {packets} bytes \
                     5000000000 }}\n\tcounter two {{ packets 0 bytes 7 }}\n\tquota three {{ over \
                     5 bytes }}\n}}\n"
                )
            };
            nft(&format!("{}{}", table("inet", 3), table("ip", 4))).unwrap();
            let counted = [("one".to_owned(), (3, 5_000_000_000)), ("two".to_owned(), (0, 7))];
            assert_eq!(counters("braid0").unwrap(), BTreeMap::from(counted));
            assert_eq!(counters("braid1").unwrap(), BTreeMap::new());
            assert!(exists("braid0").unwrap());
            delete("braid0").unwrap();
            assert!(!exists("braid0").unwrap(), "the other family's isn't it");
            nft("delete table ip braid_braid0\n").unwrap();
        };
        namespace.run(test).unwrap();
    }

    fn namespace() -> Option<NetNs> {
        match NetNs::new() {
            Ok(namespace) => Some(namespace),
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
                eprintln!("skipped: network namespaces need root or a user namespace");
                None
            }
        }
    }
}
