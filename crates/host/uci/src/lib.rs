//! The config in the form that OpenWrt keeps (UCI, `/etc/config/braid`), both ways.
//!
//! UCI has sections of options and lists, and every value is text; TOML's other types follow from a
//! key's name ([`keys`]). Values aren't interpreted here: the config's reader checks them.

#![forbid(unsafe_code)]

mod file;
mod from_uci;
mod keys;
mod to_uci;

pub use from_uci::from_uci;
pub use keys::{Kind, kind_of, sections};
pub use to_uci::to_uci;

/// Why a config can't be converted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}{}", hint.as_ref().map(|it| format!(" ({it})")).unwrap_or_default())]
pub struct ConversionError {
    /// Line number, from 1.
    pub line: usize,
    /// What is wrong there.
    pub what: String,
    /// What to do.
    pub hint: Option<String>,
}

impl ConversionError {
    fn new(line: usize, what: impl Into<String>) -> ConversionError {
        ConversionError { line, what: what.into(), hint: None }
    }

    fn with_hint(self, hint: impl Into<String>) -> ConversionError {
        ConversionError { hint: Some(hint.into()), ..self }
    }
}
