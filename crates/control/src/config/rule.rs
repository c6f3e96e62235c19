use super::interface::Mode;
use super::keyword::keyword_enum;
use super::link::{Cap, read_cap};
use super::name::Name;
use super::section::{Placed, Section};
use super::traffic::{self, Traffic};
use std::path::Path;

/// `[[rule]]`: where some traffic goes. The first matching rule applies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Its name.
    pub name: Name,
    /// Its line in the file, from 1.
    pub line: usize,
    /// Which connections it is for.
    pub matches: Traffic,
    /// What happens to them.
    pub action: Action,
}

/// What a rule does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// They take the tunnel.
    Tunnel(Treatment),
    /// They leave over a link, bypassing the tunnel.
    Direct(Direct),
    /// They are refused.
    Block,
}

/// How connections are treated in the tunnel, by default like all others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Treatment {
    /// How their packets are scheduled.
    pub mode: Option<Mode>,
    /// Their traffic class, instead of the one derived from the packets.
    pub class: Option<Class>,
    /// Their share relative to others.
    pub priority: Priority,
    /// Rate limit of all the rule's connections together.
    pub rate: Cap,
    /// Redundancy for their packets, instead of the tunnel's budget.
    pub redundancy: Option<Redundancy>,
}

impl Treatment {
    /// The first setting that must be applied to tracked connections one by one.
    pub fn by_connection(&self) -> Option<&'static str> {
        let there = [
            ("class", self.class.is_some()),
            ("priority", self.priority != Priority::Normal),
            ("rate", self.rate != Cap::default()),
            ("redundancy", self.redundancy.is_some()),
        ];
        there.into_iter().find_map(|(key, there)| there.then_some(key))
    }

    /// Its settings, each in a few words; empty if they are treated like all others.
    pub fn words(&self) -> Vec<String> {
        let Treatment { mode, class, priority, rate, redundancy } = self;
        let redundancy = redundancy.map(|redundancy| match redundancy {
            Redundancy::Twice => "each packet twice".to_owned(),
            Redundancy::Parity => "with parities".to_owned(),
        });
        let priority = (*priority != Priority::Normal).then(|| format!("{priority} priority"));
        let rates = [(rate.down, "down"), (rate.up, "up")];
        let rates = rates.into_iter().filter_map(|(rate, way)| Some(format!("{} {way}", rate?)));
        let mode = mode.iter().map(ToString::to_string);
        let class = class.iter().map(ToString::to_string);
        mode.chain(class).chain(priority).chain(redundancy).chain(rates).collect()
    }
}

/// The links that connections leave by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Direct {
    /// Links, preferred first; by default the best tier.
    pub links: Vec<Name>,
    /// What happens while none of these works.
    pub otherwise: Otherwise,
    /// Whether connections on a later link end when an earlier one works again.
    pub end_on_recovery: bool,
}

keyword_enum! {
    /// The share of connections relative to others.
    #[derive(Default)]
    Priority {
        /// Almost nothing while others want to send: a sixteenth of a normal connection's share.
        Low = "low",
        /// The default.
        #[default]
        Normal = "normal",
        /// Four times a normal connection's share.
        High = "high",
    }
}

keyword_enum! {
    /// Traffic class.
    Class {
        /// Late packets are useless: they go first, and twice while the budget lasts.
        Realtime = "realtime",
        /// They wait for their turn.
        Bulk = "bulk",
    }
}

keyword_enum! {
    /// Redundancy, so that nothing waits for a repair.
    Redundancy {
        /// Each packet again, over another link.
        Twice = "twice",
        /// A parity packet for every four, which recovers one lost packet.
        Parity = "parity",
    }
}

keyword_enum! {
    /// What happens to direct connections while none of their links works.
    Otherwise {
        /// They take the tunnel.
        Tunnel = "tunnel",
        /// They are refused.
        Block = "block",
    }
}

keyword_enum! {
    /// The keyword for what a rule does.
    Do {
        /// Through the tunnel.
        Tunnel = "tunnel",
        /// Bypassing it.
        Direct = "direct",
        /// Not at all.
        Block = "block",
    }
}

/// `[[rule]]`; relative files are relative to `base`.
pub(super) fn read(mut section: Section<'_, '_>, base: &Path) -> Option<Placed<Rule>> {
    let name = section.parsed("name");
    if name.is_none() {
        section.missing("name", "write name = \"bank\"");
    }
    let action = section.parsed::<Do>("do");
    if action.is_none() {
        section.missing("do", "write do = \"direct\", do = \"tunnel\" or do = \"block\"");
    }
    let treatment = read_treatment(&mut section);
    let links = section.list("links");
    let otherwise = section.parsed("otherwise");
    let end_on_recovery = section.boolean("end_on_recovery");
    for (key, there, wants) in [
        ("mode", treatment.mode.is_some(), Do::Tunnel),
        ("class", treatment.class.is_some(), Do::Tunnel),
        ("priority", treatment.priority != Priority::Normal, Do::Tunnel),
        ("rate", treatment.rate != Cap::default(), Do::Tunnel),
        ("redundancy", treatment.redundancy.is_some(), Do::Tunnel),
        ("links", links.is_some(), Do::Direct),
        ("otherwise", otherwise.is_some(), Do::Direct),
        ("end_on_recovery", end_on_recovery.is_some(), Do::Direct),
    ] {
        if there && action.is_some_and(|action| action != wants) {
            let what = format!("rule.{key} applies only with do = \"{wants}\"");
            section.wrong(key, what, format!("remove it, or write do = \"{wants}\""));
        }
    }
    let matches = read_match(&mut section, base);
    if let (Some(_), Some(key)) = (treatment.mode, matches.seen_by_host_alone()) {
        section.wrong(
            "mode",
            format!("rule.mode with match.{key}: this can't be seen in a tunnel's packets"),
            "a mode can be combined with from, to, protocol, ports and dscp; make two rules",
        );
    }
    if let (Some(key), Some(unseen)) = (treatment.by_connection(), matches.not_tracked()) {
        section.wrong(
            key,
            format!("rule.{key} with match.{unseen}: this can't be seen in tracked connections"),
            "remove one of them; devices, networks, domains, ports, protocol and time can be used",
        );
    }
    if let (Some(_), Some(key)) = (treatment.mode, treatment.by_connection()) {
        section.wrong(
            key,
            format!("rule.{key} with rule.mode"),
            "make two rules: a mode has no queue to prioritise in",
        );
    }
    if (treatment.class, treatment.redundancy) == (Some(Class::Bulk), Some(Redundancy::Parity)) {
        section.wrong(
            "redundancy",
            "rule.redundancy = \"parity\" with rule.class = \"bulk\"",
            "write redundancy = \"twice\", or remove class: parities are for real-time packets",
        );
    }
    let action = match action {
        Some(Do::Tunnel) => Some(Action::Tunnel(treatment)),
        Some(Do::Direct) => Some(Action::Direct(Direct {
            links: links.unwrap_or_default(),
            otherwise: otherwise.unwrap_or(Otherwise::Tunnel),
            end_on_recovery: end_on_recovery.unwrap_or(false),
        })),
        Some(Do::Block) => Some(Action::Block),
        None => None,
    };
    let line = section.line();
    let places = section.finish();
    Some(Placed { value: Rule { name: name?, line, matches, action: action? }, places })
}

fn read_treatment(section: &mut Section<'_, '_>) -> Treatment {
    Treatment {
        mode: section.parsed("mode"),
        class: section.parsed("class"),
        priority: section.parsed("priority").unwrap_or_default(),
        rate: section.table("rate").map(|rate| read_cap(rate, "rule.rate")).unwrap_or_default(),
        redundancy: section.parsed("redundancy"),
    }
}

/// `[[class]]`, as it was called when rules could only give a mode.
pub(super) fn read_class(mut section: Section<'_, '_>, base: &Path) -> Option<Placed<Rule>> {
    let name = section.parsed("name");
    if name.is_none() {
        section.missing("name", "write name = \"voice\"");
    }
    let mode = section.parsed("mode");
    if mode.is_none() {
        section.missing("mode", "write the mode of this traffic, such as mode = \"broadcast\"");
    }
    let matches = read_match(&mut section, base);
    if matches == Traffic::default() {
        section.missing("match", "write match = { dscp = \"ef\" }");
    }
    let line = section.line();
    let places = section.finish();
    let treatment = Treatment { mode: Some(mode?), ..Treatment::default() };
    let value = Rule { name: name?, line, matches, action: Action::Tunnel(treatment) };
    Some(Placed { value, places })
}

/// A rule without conditions matches everything, which makes sense for the last rule.
fn read_match(section: &mut Section<'_, '_>, base: &Path) -> Traffic {
    section.table("match").map(|section| traffic::read(section, base)).unwrap_or_default()
}
