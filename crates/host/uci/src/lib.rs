//! The config in the form that OpenWrt keeps (UCI, `/etc/config/braid`), both ways.
//!
//! UCI has sections of options and lists, and every value is text; what TOML has beyond that is
//! told by a key's name ([`keys`]). What a value means is not known here: who reads the config
//! checks it.

#![forbid(unsafe_code)]

mod file;
mod from_uci;
mod keys;
mod to_uci;

pub use from_uci::from_uci;
pub use keys::{Kind, kind_of, sections};
pub use to_uci::to_uci;

/// Why a config has no other form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}{}", hint.as_ref().map(|it| format!(" ({it})")).unwrap_or_default())]
pub struct ConversionError {
    /// From 1.
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
