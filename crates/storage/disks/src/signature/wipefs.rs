//! The answer of `wipefs -J`, which lists every magic number on a device and erases nothing without
//! `-a` or `-o`.

use super::Signature;
use serde::Deserialize;
use std::collections::HashMap;

#[derive(Deserialize)]
struct Listing {
    #[serde(default)]
    signatures: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    /// Without its folder.
    device: Option<String>,
    #[serde(rename = "type")]
    kind: String,
    label: Option<String>,
    uuid: Option<String>,
}

/// Parses it. Before util-linux 2.35 a device with nothing on it gave no output at all.
///
/// # Errors
/// When it isn't JSON as wipefs writes it.
pub fn parse(text: &str) -> Result<Vec<Signature>, serde_json::Error> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let listing: Listing = serde_json::from_str(text)?;
    Ok(listing.signatures.into_iter().map(Entry::signature).collect())
}

/// Parses the answer for several devices: the contents of each that has any, by its name without
/// its folder. `None` where it isn't JSON as wipefs writes it, or names no devices.
pub fn parse_many(text: &str) -> Option<HashMap<String, Vec<Signature>>> {
    let mut of_each: HashMap<String, Vec<Signature>> = HashMap::new();
    if text.trim().is_empty() {
        return Some(of_each);
    }
    let listing: Listing = serde_json::from_str(text).ok()?;
    for mut entry in listing.signatures {
        of_each.entry(entry.device.take()?).or_default().push(entry.signature());
    }
    Some(of_each)
}

impl Entry {
    fn signature(self) -> Signature {
        Signature {
            kind: self.kind,
            usage: None,
            label: self.label.filter(|label| !label.is_empty()),
            uuid: self.uuid.filter(|uuid| !uuid.is_empty()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_device_has_its_own_entries() {
        let text = r#"{"signatures": [
            {"device":"sda", "offset":"0x438", "type":"ext4", "uuid":"1", "label":""},
            {"device":"sdb", "offset":"0x200", "type":"gpt", "uuid":null, "label":null},
            {"device":"sda", "offset":"0xff6", "type":"swap", "uuid":"2", "label":"spare"}]}"#;
        let told = parse_many(text).unwrap();
        let kinds = |name: &str| told[name].iter().map(|s| s.kind.as_str()).collect::<Vec<_>>();
        assert_eq!(told.len(), 2);
        assert_eq!(kinds("sda"), ["ext4", "swap"]);
        assert_eq!(kinds("sdb"), ["gpt"]);
        let of_nobody = r#"{"signatures": [{"offset":"0x438", "type":"ext4"}]}"#;
        assert_eq!(parse_many(of_nobody), None);
        assert_eq!(parse_many("no JSON"), None);
        assert_eq!(parse_many("\n"), Some(HashMap::new()));
    }
}
