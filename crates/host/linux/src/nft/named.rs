//! Where a tunnel's table keeps the addresses of rules' names.
//!
//! A rule that has other conditions, too, has sets of its own. Those of a run of rules for nothing
//! but names share maps from an address to the rule's chain: the kernel finds a set by going
//! through all of them, so that of 3,000 rules with sets of their own nft needs 8 s to make the
//! table, and a connection's first packet is held against each. Maps for 10,000 rules are made in
//! 2 s, and it is looked up there once (docs/measurements/links.md, "Rules for names").

use super::ruled_traffic::RuledTraffic;
use braid_engines::NamedRules;
use braid_rules::Conditions;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::iter;

/// No set has more addresses than this.
const MOST_ADDRESSES: u32 = 65_536;
const CHAIN: &str = "rule/";

/// The rules for names of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Named {
    rules: BTreeMap<String, Kept>,
}

/// Where a rule's addresses are.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Kept {
    /// In sets of its own.
    Alone,
    /// In the maps of the run that begins with this rule.
    Run { first: String, place: usize },
}

/// A set or a map of addresses.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Container {
    /// Its name.
    pub name: String,
    /// Rules share it: an address leads to the chain of one of them.
    pub is_map: bool,
}

impl Named {
    /// These.
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

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Where the rule has the addresses of an IP version, those of everybody or of who asked.
    pub fn container(&self, rule: &str, v4: bool, asked: bool) -> Option<Container> {
        Some(match self.rules.get(rule)? {
            Kept::Alone => Container { name: set(rule, v4, asked), is_map: false },
            Kept::Run { first, .. } => Container { name: set(first, v4, asked), is_map: true },
        })
    }

    /// Its place in its run: of several that claim an address the first counts.
    pub fn place(&self, rule: &str) -> usize {
        match self.rules.get(rule) {
            Some(Kept::Run { place, .. }) => *place,
            Some(Kept::Alone) | None => 0,
        }
    }
}

/// The set or map that begins with this rule.
fn set(rule: &str, v4: bool, asked: bool) -> String {
    let kind = if asked { "asked" } else { "names" };
    // A rule's name has letters, digits, `.`, `_` and `-`; a set's has `/` and no `-`.
    format!("{kind}_{}/{}", version(v4), rule.replace('-', "/"))
}

/// The set of who asked at which address, whatever for.
pub(super) fn asked_set(v4: bool) -> String {
    format!("asked_{}", version(v4))
}

/// The chain of a rule for names.
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

/// Of these rules those for names.
pub(super) fn named(rules: &[RuledTraffic]) -> Vec<NamedRules> {
    let named = runs(rules).filter_map(|run| match run {
        Run::Names(of) => Some(NamedRules::Run(of.into_iter().map(str::to_owned).collect())),
        Run::Other(rule) => Some(NamedRules::Alone(name(&rule.conditions)?.to_owned())),
    });
    named.collect()
}

/// Their sets and maps, in nft's language.
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

/// Some rules that follow each other.
pub(super) enum Run<'r> {
    /// They are for names and nothing else; by their names.
    Names(Vec<&'r str>),
    /// One that isn't.
    Other(&'r RuledTraffic),
}

/// The rules in order, those for nothing but names joined.
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

/// Leads what is in the maps of the run that begins with this rule to its rule. What a client
/// asked for itself counts before what the DNS says.
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

/// The ways in which a rule with sets of its own is met by names, of an IP version.
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
