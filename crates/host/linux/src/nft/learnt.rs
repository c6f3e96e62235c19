//! Sets of addresses that are learnt while a table is there: they outlive it.

use super::LIMIT;
use super::ruled::{asked_set, names_set};
use crate::netlink::{Netlink, SetElement, nftables, set_elements};
use crate::tool;
use braid_engines::nft_table;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::net::IpAddr;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// An address that a rule's names have, or had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Element {
    /// The rule's name.
    pub rule: String,
    /// The only one for whom the address is that; none for everybody. Of the same IP version.
    pub asked_by: Option<IpAddr>,
    /// The address.
    pub address: IpAddr,
    /// For how long from now; none when no longer.
    pub lasts: Option<Duration>,
}

/// Who replaces a table and who adds to it must not meet.
static ALONE: Mutex<()> = Mutex::new(());

pub(super) fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The sets of a tunnel's table, which may come, go and come again.
#[derive(Default)]
pub struct LearntSets {
    table: String,
    /// Open from the first time on.
    netlink: Option<Netlink>,
}

impl LearntSets {
    /// Those of an interface's table.
    pub fn of(interface: &str) -> LearntSets {
        LearntSets { table: nft_table(interface), netlink: None }
    }

    /// Puts elements into them, with new lifetimes, or takes them out.
    ///
    /// # Errors
    /// What the kernel says, such as `NotFound` when a rule has no set there. Nothing is changed
    /// then.
    pub fn learn(&mut self, elements: &[Element]) -> io::Result<()> {
        if elements.is_empty() {
            return Ok(());
        }
        let elements: Vec<SetElement> = elements.iter().map(of_set).collect();
        let _alone = alone();
        let mut netlink = self.netlink.take().map_or_else(nftables::open, Ok)?;
        set_elements(&mut netlink, &self.table, &elements)?;
        // One that failed may have answers left, and goes.
        self.netlink = Some(netlink);
        Ok(())
    }
}

fn of_set(element: &Element) -> SetElement {
    let Element { rule, asked_by, address, lasts } = element;
    let v4 = address.is_ipv4();
    let (set, key) = match asked_by {
        None => (names_set(rule, v4), vec![*address]),
        Some(client) => (asked_set(rule, v4), vec![*client, *address]),
    };
    let lasts = lasts.map(|lasts| lasts.max(Duration::from_secs(1)));
    SetElement { set, key, lasts }
}

/// What the sets of the table that is there have, for those that the new one has too.
pub(super) fn kept(interface: &str, ruleset: &str) -> String {
    if !ruleset.contains("flags timeout") {
        return String::new();
    }
    let mut list = Command::new("nft");
    list.args(["--json", "list", "table", "inet", &nft_table(interface)]);
    let Ok(output) = tool::run(&mut list, b"", LIMIT) else { return String::new() };
    let listing: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let mut script = String::new();
    for (set, elements) in sets(&listing) {
        if ruleset.contains(&format!("\tset {set} {{")) && !elements.is_empty() {
            let (table, elements) = (nft_table(interface), elements.join(", "));
            let _ = writeln!(script, "add element inet {table} {set} {{ {elements} }}");
        }
    }
    script
}

fn sets(listing: &Value) -> BTreeMap<String, Vec<String>> {
    let listed = listing["nftables"].as_array().into_iter().flatten();
    let sets = listed.map(|it| &it["set"]).filter_map(|set| {
        let elements = set["elem"].as_array()?.iter().filter_map(|element| {
            let element = &element["elem"];
            let (value, left) = (&element["val"], element["expires"].as_u64()?);
            let value = match value["concat"].as_array() {
                Some(parts) => {
                    let parts: Option<Vec<&str>> = parts.iter().map(Value::as_str).collect();
                    parts?.join(" . ")
                }
                None => value.as_str()?.to_owned(),
            };
            (left > 0).then(|| format!("{value} timeout {left}s"))
        });
        Some((set["name"].as_str()?.to_owned(), elements.collect()))
    });
    sets.collect()
}
