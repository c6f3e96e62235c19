//! A policy rule: which routing table is used for a packet.

use crate::Family;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A policy rule. Fields that are `None` match every packet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// IP version of the packets.
    pub family: Family,
    /// Rules are evaluated in ascending order.
    pub priority: u32,
    /// Inverts the match.
    pub not: bool,
    /// The mark, compared in full or within `mask`.
    pub fwmark: Option<u32>,
    /// The bits of the mark to compare; `None` for all.
    #[serde(default)]
    pub mask: Option<u32>,
    /// The source address.
    pub from: Option<IpNet>,
    /// The destination address.
    pub to: Option<IpNet>,
    /// The incoming interface; `lo` for packets of this host.
    pub incoming: Option<String>,
    /// The interface that its socket is bound to.
    pub outgoing: Option<String>,
    /// What the rule does.
    pub action: RuleAction,
}

/// What a rule does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RuleAction {
    /// Looks up a table; without a match the next rule is evaluated.
    Lookup {
        /// The table.
        table: u32,
        /// Ignores matches with a prefix of at most this length; 0 ignores only the default route.
        suppress_prefix_len: Option<u32>,
    },
    /// Drops the packet and tells the sender.
    Unreachable,
    /// Drops the packet.
    Blackhole,
}

impl Rule {
    /// A rule for every packet of an IP version.
    pub fn new(family: Family, priority: u32, action: RuleAction) -> Rule {
        Rule {
            family,
            priority,
            not: false,
            fwmark: None,
            mask: None,
            from: None,
            to: None,
            incoming: None,
            outgoing: None,
            action,
        }
    }

    /// A rule by which every packet of an IP version uses a table.
    pub fn lookup(family: Family, priority: u32, table: u32) -> Rule {
        Rule::new(family, priority, RuleAction::Lookup { table, suppress_prefix_len: None })
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rule {}:{}", self.priority, if self.not { " not" } else { "" })?;
        match self.from {
            Some(net) => write!(f, " from {net}")?,
            None => write!(f, " from all")?,
        }
        if let Some(net) = self.to {
            write!(f, " to {net}")?;
        }
        if let Some(mark) = self.fwmark {
            write!(f, " fwmark {mark:#x}")?;
            self.mask.map_or(Ok(()), |mask| write!(f, "/{mask:#x}"))?;
        }
        for (side, name) in [("iif", &self.incoming), ("oif", &self.outgoing)] {
            if let Some(name) = name {
                write!(f, " {side} {name}")?;
            }
        }
        match self.action {
            RuleAction::Lookup { table, suppress_prefix_len } => {
                write!(f, " lookup {table}")?;
                suppress_prefix_len
                    .map_or(Ok(()), |len| write!(f, " suppress_prefixlength {len}"))?;
            }
            RuleAction::Unreachable => write!(f, " unreachable")?,
            RuleAction::Blackhole => write!(f, " blackhole")?,
        }
        let version = match self.family {
            Family::V4 => "IPv4",
            Family::V6 => "IPv6",
        };
        write!(f, " ({version})")
    }
}
