use std::fmt;
use std::str::FromStr;

/// A name that the user gives to a link, peer or class: 1 to 32 of
/// `a-z A-Z 0-9 . _ -`, so that it fits metrics' labels, URLs and nft comments. It is neither a
/// path's `.` or `..`, nor does a command take it for an option.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(String);

/// A network device's name as Linux takes it (`dev_valid_name`): 1 to 15 bytes,
/// no `/`, `:`, blank, and neither `.` nor `..`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeviceName(String);

/// A name that can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} can't be a name here; use {rule}")]
pub struct NameError {
    name: String,
    rule: &'static str,
}

impl Name {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl DeviceName {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Name {
    type Err = NameError;
    fn from_str(name: &str) -> Result<Self, NameError> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        let begins_well = !name.starts_with('-') && name != "." && name != "..";
        if (1..=32).contains(&name.len()) && name.chars().all(allowed) && begins_well {
            return Ok(Name(name.to_owned()));
        }
        Err(NameError {
            name: name.chars().take(40).collect(),
            rule: "1 to 32 letters, digits, '.', '_' or '-', not '-' first",
        })
    }
}

impl FromStr for DeviceName {
    type Err = NameError;
    fn from_str(name: &str) -> Result<Self, NameError> {
        let allowed = |c: char| c.is_ascii_graphic() && c != '/' && c != ':';
        let length = (1..=15).contains(&name.len());
        if length && name.chars().all(allowed) && name != "." && name != ".." {
            return Ok(DeviceName(name.to_owned()));
        }
        Err(NameError {
            name: name.chars().take(40).collect(),
            rule: "a network device's name, 1 to 15 characters without '/', ':' or blanks",
        })
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}
