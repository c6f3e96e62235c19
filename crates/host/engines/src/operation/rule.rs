//! A policy rule: which routing table a packet asks.

use crate::Family;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A policy rule. What is `None` matches every packet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// IP version of the packets.
    pub family: Family,
    /// Rules are asked in ascending order.
    pub priority: u32,
    /// Matches what the conditions do not.
    pub not: bool,
    /// The mark, in full or as far as `mask` goes.
    pub fwmark: Option<u32>,
    /// The bits of the mark that count; all without one.
    #[serde(default)]
    pub mask: Option<u32>,
    /// The source address.
    pub from: Option<IpNet>,
    /// The destination address.
    pub to: Option<IpNet>,
    /// The interface it came by; `lo` for what is sent from here.
    pub incoming: Option<String>,
    /// The interface that its socket is bound to.
    pub outgoing: Option<String>,
    /// What is done.
    pub action: RuleAction,
}

/// What a rule does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RuleAction {
    /// Asks a table; on no answer the next rule's turn comes.
    Lookup {
        /// The table.
        table: u32,
        /// Answers with a prefix of at most this length do not count; 0
        /// ignores just the default route.
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

    /// A rule by which every packet of an IP version asks a table.
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
