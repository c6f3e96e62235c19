//! The answer of `blkid -p -o export`.

use super::Signature;
use std::collections::HashMap;

/// Exit status: nothing that it knows is there (blkid(8), "EXIT STATUS").
pub const NOTHING_FOUND: i32 = 2;
/// Exit status: several things that exclude each other are there.
pub const AMBIVALENT: i32 = 8;
/// Our word in [`Signature::usage`] for a partition table.
pub const PARTITION_TABLE: &str = "partition-table";

/// An answer in another form than is known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("blkid answered in an unknown form: {line:?}")]
pub struct BlkidForm {
    /// The line that isn't understood.
    pub line: String,
}

/// Parses the lines `KEY=value` of one device. Keys that aren't needed are passed over.
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

fn is_key(key: &str) -> bool {
    let first = key.chars().next();
    first.is_some_and(|c| c.is_ascii_uppercase())
        && key.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
}

/// A backslash stands before what a shell would take apart.
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
