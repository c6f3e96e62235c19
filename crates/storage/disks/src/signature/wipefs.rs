//! The answer of `wipefs -J`, which lists every magic number on a device and erases nothing without
//! `-a` or `-o`.

use super::Signature;
use serde::Deserialize;

#[derive(Deserialize)]
struct Listing {
    #[serde(default)]
    signatures: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    #[serde(rename = "type")]
    kind: String,
    label: Option<String>,
    uuid: Option<String>,
}

/// Parses it. Before util-linux 2.35 a device without anything on it gave no text at all.
///
/// # Errors
/// When it isn't JSON as wipefs writes it.
pub fn parse(text: &str) -> Result<Vec<Signature>, serde_json::Error> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let listing: Listing = serde_json::from_str(text)?;
    let signature = |entry: Entry| Signature {
        kind: entry.kind,
        usage: None,
        label: entry.label.filter(|label| !label.is_empty()),
        uuid: entry.uuid.filter(|uuid| !uuid.is_empty()),
    };
    Ok(listing.signatures.into_iter().map(signature).collect())
}
