//! Exports the set-up for people who want to apply it by hand or with another tool.

mod ifupdown;
mod iproute2;
mod netplan;
mod networkd;
mod openwrt;
mod routeros;

use crate::words::words;
use crate::{Engine, Group};
use std::fmt;

words! {
    /// Output format.
    Format {
        /// A shell script of iproute2's commands, up and down.
        Iproute2 = "iproute2",
        /// Files of systemd-networkd.
        Networkd = "networkd",
        /// A file of netplan.
        Netplan = "netplan",
        /// Stanzas of Debian's ifupdown.
        Ifupdown = "ifupdown",
        /// A script of RouterOS 7.
        Routeros = "routeros",
        /// Sections of OpenWrt's UCI, and a script for the rest.
        Openwrt = "openwrt",
    }
}

/// A file of the set-up.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Exported {
    /// Its path; relative if the user chooses the folder.
    pub path: String,
    /// What is in it.
    pub contents: String,
}

/// Something that a format can't express.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{format} can't express {what}; {hint}")]
pub struct Inexpressible {
    /// The format.
    pub format: Format,
    /// What.
    pub what: String,
    /// What to do instead.
    pub hint: String,
}

/// Writes the group's set-up in a format.
///
/// # Errors
/// The format can't express this engine, or a part of it.
pub fn export(group: &Group, format: Format) -> Result<Vec<Exported>, Inexpressible> {
    match format {
        Format::Iproute2 => Ok(iproute2::export(group)),
        Format::Networkd => networkd::export(group),
        Format::Netplan => netplan::export(group),
        Format::Ifupdown => ifupdown::export(group),
        Format::Routeros => routeros::export(group),
        Format::Openwrt => openwrt::export(group),
    }
}

impl Format {
    /// The error that this format can't express something.
    fn lacks(self, what: impl fmt::Display) -> Inexpressible {
        let what = what.to_string();
        Inexpressible {
            format: self,
            what,
            hint: "export to iproute2, which can express all".into(),
        }
    }

    /// The error that this format can't express the group's engine.
    fn lacks_engine(self, group: &Group) -> Inexpressible {
        self.lacks(format_args!("the engine {}", describe(&group.engine)))
    }
}

/// The engine with its mode, in words.
fn describe(engine: &Engine) -> String {
    match engine {
        Engine::Bonding(bonding) => format!("bonding {}", bonding.mode),
        Engine::Team(team) => format!("team {}", team.runner),
        other => other.kind().to_string(),
    }
}

/// The head of every file: what it is and where it comes from.
fn head(group: &Group, comment: &str) -> String {
    format!(
        "{comment} {} by {}, as `braid up` sets it up; written by `braid export`.\n",
        group.name,
        describe(&group.engine)
    )
}

#[cfg(test)]
mod tests;
