//! An nftables table of our own.

use super::nft_table;
use serde::{Deserialize, Serialize};

/// An nftables table of our own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FirewallTable {
    /// The tunnel's interface or the group, which names the table: [`nft_table`].
    pub interface: String,
    /// All of it, in nft's language.
    pub ruleset: String,
    /// Its rules with domains, in order: addresses are added to them while the table exists.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub named: Vec<NamedRules>,
    /// Those of its rules that redirect DNS queries: when they change, the kernel's tracked DNS
    /// connections are out of date.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub redirected_questions: Vec<String>,
}

/// Rules with domains whose addresses a table keeps together, by rule name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NamedRules {
    /// A rule that also has other conditions: in its own sets.
    Alone(String),
    /// Consecutive rules with only domains: in maps from an address to the rule.
    Run(Vec<String>),
}

impl FirewallTable {
    /// A table with these chains, in nft's language.
    pub fn of(interface: String, chains: &str) -> FirewallTable {
        let ruleset = format!("table inet {} {{\n{chains}}}\n", nft_table(&interface));
        FirewallTable { interface, ruleset, ..FirewallTable::default() }
    }
}
