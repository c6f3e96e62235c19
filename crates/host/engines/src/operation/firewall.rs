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
    /// Its rules for names, in order: addresses are added to them while the table is there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub named: Vec<NamedRules>,
    /// Of its rules those that bring questions for names to another server than was asked: when
    /// they change, what the kernel remembers of questions that are under way is out of date.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub redirected_questions: Vec<String>,
}

/// Rules for names whose addresses a table keeps together, by the rules' names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NamedRules {
    /// A rule that has other conditions, too: in sets of its own.
    Alone(String),
    /// Rules for nothing but names that follow each other: in maps from an address to the rule.
    Run(Vec<String>),
}

impl FirewallTable {
    /// One of these chains, which are in nft's language.
    pub fn of(interface: String, chains: &str) -> FirewallTable {
        let ruleset = format!("table inet {} {{\n{chains}}}\n", nft_table(&interface));
        FirewallTable { interface, ruleset, ..FirewallTable::default() }
    }
}
