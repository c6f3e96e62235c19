//! Where a tunnel's table keeps the addresses of the domains in rules.
//!
//! A rule that also has other conditions gets sets of its own. A run of rules with only domains
//! shares maps from an address to the rule's chain. The kernel searches sets linearly: with 3,000
//! rules with sets of their own, nft needs 8 s to create the table, and a connection's first packet
//! is compared with each. Maps for 10,000 rules are created in 2 s and need one lookup
//! (docs/measurements/links.md, "Rules for names").

use super::ruled_traffic::RuledTraffic;
use braid_engines::NamedRules;
use braid_rules::Conditions;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::iter;

/// Maximum number of addresses in a set.
const MOST_ADDRESSES: u32 = 65_536;
const CHAIN: &str = "rule/";

/// The rules with domains of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Named {
    rules: BTreeMap<String, Kept>,
}

/// Where a rule's addresses are.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Kept {
    /// In its own sets.
    Alone,
    /// In the maps of the run that starts with this rule.
    Run { first: String, place: usize },
}

/// A set or a map of addresses.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Container {
    /// Its name.
    pub name: String,
    /// Whether it is a map shared by rules, from an address to the chain of one of them.
    pub is_map: bool,
}

impl Named {
    /// Assigns places to these rules.
    pub fn of(named: &[NamedRules]) -> Named {
        let mut rules = BTreeMap::new();
        for together in named {
            match together {
                NamedRules::Alone(rule) => drop(rules.insert(rule.clone(), Kept::Alone)),
                NamedRules::Run(run) => {
                    let first = run.first().cloned().unwrap_or_default();
                    let kept = |place| Kept::Run { first: first.clone(), place };
                    let places = run.iter().enumerate();
                    rules.extend(places.map(|(place, rule)| (rule.clone(), kept(place))));
                }
            }
        }
        Named { rules }
    }

    /// Whether there are no such rules.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Where the rule keeps addresses of an IP version, either for all clients or (`asked`) for the
    /// client that asked.
    pub fn container(&self, rule: &str, v4: bool, asked: bool) -> Option<Container> {
        Some(match self.rules.get(rule)? {
            Kept::Alone => Container { name: set(rule, v4, asked), is_map: false },
            Kept::Run { first, .. } => Container { name: set(first, v4, asked), is_map: true },
        })
    }

    /// Its position in its run: if several claim an address, the first one wins.
    pub fn place(&self, rule: &str) -> usize {
        match self.rules.get(rule) {
            Some(Kept::Run { place, .. }) => *place,
            Some(Kept::Alone) | None => 0,
        }
    }
}

/// Name of the set or map of the run that starts with this rule.
fn set(rule: &str, v4: bool, asked: bool) -> String {
    let kind = if asked { "asked" } else { "names" };
    // A rule's name has letters, digits, `.`, `_` and `-`; a set's has `/` and no `-`.
    format!("{kind}_{}/{}", version(v4), rule.replace('-', "/"))
}

/// The set of clients and the addresses that they asked for.
pub(super) fn asked_set(v4: bool) -> String {
    format!("asked_{}", version(v4))
}

/// The chain of a rule with domains.
pub(super) fn chain_of(rule: &str) -> String {
    format!("{CHAIN}{}", rule.replace('-', "/"))
}

/// The rule of a chain.
pub(super) fn rule_of_chain(chain: &str) -> Option<String> {
    chain.strip_prefix(CHAIN).map(spoken)
}

/// The rule whose own set this is.
pub(super) fn rule_of_set(set: &str) -> Option<String> {
    let (kind, rule) = set.split_once('/')?;
    matches!(kind, "names_v4" | "names_v6" | "asked_v4" | "asked_v6").then(|| spoken(rule))
}

fn spoken(name: &str) -> String {
    name.replace('/', "-")
}

fn version(v4: bool) -> &'static str {
    if v4 { "v4" } else { "v6" }
}

/// Those of these rules that have domains.
pub(super) fn named(rules: &[RuledTraffic]) -> Vec<NamedRules> {
    let named = runs(rules).filter_map(|run| match run {
        Run::Names(of) => Some(NamedRules::Run(of.into_iter().map(str::to_owned).collect())),
        Run::Other(rule) => Some(NamedRules::Alone(name(&rule.conditions)?.to_owned())),
    });
    named.collect()
}

/// Definitions of their sets and maps, in nft's language.
pub(super) fn definitions(named: &[NamedRules]) -> String {
    let mut text = String::new();
    let mut define = |map: bool, name: &str, kind: &str| {
        let (what, data) = if map { ("map", " : verdict") } else { ("set", "") };
        // Writing to a String can't fail.
        let _ = write!(
            text,
            "\t{what} {name} {{\n\t\ttype {kind}{data}\n\t\tflags timeout\n\
             \t\tsize {MOST_ADDRESSES}\n\t}}\n"
        );
    };
    let kinds = [(true, "ipv4_addr"), (false, "ipv6_addr")];
    let mut both = |map: bool, rule: &str| {
        for (v4, kind) in kinds {
            define(map, &set(rule, v4, false), kind);
            define(map, &set(rule, v4, true), &format!("{kind} . {kind}"));
        }
    };
    for together in named {
        match together {
            NamedRules::Alone(rule) => both(false, rule),
            NamedRules::Run(of) => both(true, of.first().map(String::as_str).unwrap_or_default()),
        }
    }
    if !named.is_empty() {
        for (v4, kind) in kinds {
            define(false, &asked_set(v4), &format!("{kind} . {kind}"));
        }
    }
    text
}

/// Consecutive rules.
pub(super) enum Run<'r> {
    /// Rules with only domains, by rule name.
    Names(Vec<&'r str>),
    /// A rule with other conditions.
    Other(&'r RuledTraffic),
}

/// The rules in order, with consecutive ones that have only domains joined.
pub(super) fn runs(rules: &[RuledTraffic]) -> impl Iterator<Item = Run<'_>> {
    let mut rest = rules;
    iter::from_fn(move || {
        let names: Vec<&str> =
            rest.iter().map_while(|rule| rule.conditions.only_known_as()).collect();
        if names.is_empty() {
            let (first, others) = rest.split_first()?;
            rest = others;
            return Some(Run::Other(first));
        }
        rest = rest.get(names.len()..).unwrap_or_default();
        Some(Run::Names(names))
    })
}

/// Statements that send addresses in the maps of the run starting with this rule to their rule.
/// What a client resolved itself takes precedence over what others did.
pub(super) fn look_ups(first: &str) -> impl Iterator<Item = String> {
    [(true, "ip"), (false, "ip6")].into_iter().flat_map(move |(v4, family)| {
        let maps = [true, false].map(|asked| set(first, v4, asked));
        let [asked, names] = maps;
        [
            format!("{family} saddr . {family} daddr vmap @{asked}"),
            format!("{}{family} daddr vmap @{names}", unless_asked(family)),
        ]
    })
}

/// Matches for a rule with sets of its own, for an IP version.
pub(super) fn own_look_ups(rule: &str, family: &str) -> [String; 2] {
    let v4 = family == "ip";
    [
        format!("{}{family} daddr @{} ", unless_asked(family), set(rule, v4, false)),
        format!("{family} saddr . {family} daddr @{} ", set(rule, v4, true)),
    ]
}

fn unless_asked(family: &str) -> String {
    format!("{family} saddr . {family} daddr != @{} ", asked_set(family == "ip"))
}

fn name(conditions: &Conditions) -> Option<&str> {
    conditions.to.as_ref()?.known_as.as_deref()
}

#[cfg(test)]
mod tests {
    use super::super::ruled_traffic::Fate;
    use super::*;
    use braid_rules::Destinations;

    fn rule(number: usize, name: Option<&str>, ports: Option<u16>) -> RuledTraffic {
        let to =
            name.map(|name| Destinations { networks: Vec::new(), known_as: Some(name.to_owned()) });
        let ports = ports.map(|port| port..=port);
        let conditions = Conditions { to, ports, ..Conditions::default() };
        RuledTraffic { number, conditions, fate: Fate::Tunnel }
    }

    #[test]
    fn rules_for_names_alone_share_maps_up_to_the_next_other_rule() {
        let rules = [
            rule(0, Some("a-bank"), None),
            rule(1, Some("tv"), None),
            rule(2, None, Some(25)),
            rule(3, Some("web"), Some(443)),
            rule(4, Some("game"), None),
        ];
        let kept = named(&rules);
        let text = definitions(&kept);
        assert_eq!(text.matches("\tmap ").count(), 8, "{text}");
        assert_eq!(text.matches("\tset ").count(), 6, "{text}");
        let named = Named::of(&kept);
        let map = |name: &str| Some(Container { name: name.to_owned(), is_map: true });
        assert_eq!(named.container("tv", true, false), map("names_v4/a/bank"));
        assert_eq!(named.container("tv", false, true), map("asked_v6/a/bank"));
        assert_eq!((named.place("a-bank"), named.place("tv")), (0, 1));
        assert_eq!(named.container("game", true, false), map("names_v4/game"));
        let own = Container { name: "names_v4/web".into(), is_map: false };
        assert_eq!(named.container("web", true, false), Some(own));
        assert_eq!(named.container("gone", true, false), None);
        assert_eq!(rule_of_chain(&chain_of("a-bank")).as_deref(), Some("a-bank"));
        assert_eq!(rule_of_set("asked_v6/a/bank").as_deref(), Some("a-bank"));
        assert_eq!(rule_of_set("asked_v6"), None);
        assert!(definitions(&super::named(&rules[2..3])).is_empty());
    }
}
