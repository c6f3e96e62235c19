//! The journal's entries as versions of Braid before 0.1 wrote them: operations of engines had an
//! item type of their own.

use super::Entry;
use braid_engines::Operation;
use serde::Deserialize;

/// An entry of a journal of version 1.
#[derive(Deserialize)]
pub(super) struct OldEntry {
    item: Item,
    prior: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Item {
    Operation(Operation),
    #[serde(untagged)]
    Shared(Operation),
}

impl From<OldEntry> for Entry {
    fn from(old: OldEntry) -> Entry {
        let (Item::Operation(operation) | Item::Shared(operation)) = old.item;
        Entry { operation, prior: old.prior }
    }
}
