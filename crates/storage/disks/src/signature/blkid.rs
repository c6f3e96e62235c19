//! The answer of `blkid -p -o export`.

use super::Signature;
use std::collections::HashMap;

/// Exit status: nothing that it knows is there (blkid(8), "EXIT STATUS").
pub const NOTHING_FOUND: i32 = 2;
/// Exit status: several things that exclude each other are there.
pub const AMBIVALENT: i32 = 8;
/// Our word in [`Signature::usage`] for a partition table.
pub const PARTITION_TABLE: &str = "partition-table";

/// An answer in an unknown format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("blkid answered in an unknown form: {line:?}")]
pub struct BlkidForm {
    /// The line that can't be parsed.
    pub line: String,
}

/// Parses the lines `KEY=value` of one device. Keys that aren't needed are skipped.
///
/// # Errors
/// The first line that isn't `KEY=value`.
pub fn parse(text: &str) -> Result<Vec<Signature>, BlkidForm> {
    let mut values: HashMap<&str, String> = HashMap::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        let (key, value) = line
            .split_once('=')
            .filter(|(key, _)| is_key(key))
            .ok_or_else(|| BlkidForm { line: line.chars().take(80).collect() })?;
        values.insert(key, unescape(value));
    }
    let mut found = Vec::new();
    if let Some(kind) = values.remove("TYPE") {
        found.push(Signature {
            kind,
            usage: values.remove("USAGE"),
            label: values.remove("LABEL"),
            uuid: values.remove("UUID"),
        });
    }
    if let Some(kind) = values.remove("PTTYPE") {
        found.push(Signature {
            kind,
            usage: Some(PARTITION_TABLE.to_owned()),
            uuid: values.remove("PTUUID"),
            label: None,
        });
    }
    Ok(found)
}

/// Parses the answer for several devices, by their paths as given.
///
/// # Errors
/// As [`parse`]; also anything before the first device.
pub fn parse_many(text: &str) -> Result<HashMap<String, Vec<Signature>>, BlkidForm> {
    const DEVICE: &str = "DEVNAME=";
    let mut of_each = HashMap::new();
    let mut rest = text;
    while !rest.trim().is_empty() {
        let unknown = || BlkidForm { line: rest.chars().take(80).collect() };
        let said = rest.trim_start().strip_prefix(DEVICE).ok_or_else(unknown)?;
        let (device, said) = said.split_once('\n').ok_or_else(unknown)?;
        let end = said.find(&format!("\n{DEVICE}")).map_or(said.len(), |at| at + 1);
        let (own, others) = said.split_at(end);
        of_each.insert(unescape(device), parse(own)?);
        rest = others;
    }
    Ok(of_each)
}

fn is_key(key: &str) -> bool {
    let first = key.chars().next();
    first.is_some_and(|c| c.is_ascii_uppercase())
        && key.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
}

/// Characters special to a shell are escaped by a backslash.
fn unescape(value: &str) -> String {
    let mut text = String::new();
    let mut letters = value.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => text.extend(letters.next()),
            _ => text.push(letter),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_device_has_its_own_lines() {
        let text = "DEVNAME=/dev/a\\ b\nTYPE=ext4\nUSAGE=filesystem\n\n\
                    DEVNAME=/dev/c\nPTUUID=1\nPTTYPE=gpt\n\nDEVNAME=/dev/d\nTYPE=swap\n";
        let told = parse_many(text).unwrap();
        let kinds = |path: &str| told[path].iter().map(|s| s.kind.as_str()).collect::<Vec<_>>();
        assert_eq!(told.len(), 3);
        assert_eq!(kinds("/dev/a b"), ["ext4"]);
        assert_eq!(kinds("/dev/c"), ["gpt"]);
        assert_eq!(kinds("/dev/d"), ["swap"]);
        assert!(parse_many("").unwrap().is_empty());
        assert!(parse_many("TYPE=ext4\n").is_err());
        assert!(parse_many("DEVNAME=/dev/a\nwhat is this").is_err());
    }
}
