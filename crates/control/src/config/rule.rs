use super::interface::Mode;
use super::keyword::keyword_enum;
use super::link::{Cap, read_cap};
use super::name::Name;
use super::section::{Placed, Section};
use super::traffic::{self, Traffic};
use std::path::Path;

/// `[[rule]]`: where some traffic goes. The first rule that matches counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Its name.
    pub name: Name,
    /// Its line in the file, from 1.
    pub line: usize,
    /// Which connections it is for.
    pub matches: Traffic,
    /// What is done with them.
    pub action: Action,
}

/// What a rule does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// They take the tunnel.
    Tunnel(Treatment),
    /// They leave by a link, beside the tunnel.
    Direct(Direct),
    /// They are refused.
    Block,
}

/// How connections are treated in the tunnel, by default as all others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Treatment {
    /// How their packets are scheduled.
    pub mode: Option<Mode>,
    /// What their packets are worth, where that isn't to be seen from them.
    pub class: Option<Class>,
    /// Their share beside others.
    pub priority: Priority,
    /// All connections of the rule together get no more.
    pub rate: Cap,
    /// What is sent beside their packets, where the tunnel's budget isn't to decide.
    pub redundancy: Option<Redundancy>,
}

impl Treatment {
    /// The first thing that the queue is told of connections one by one, as the host finds
    /// out which they are.
    pub fn by_connection(&self) -> Option<&'static str> {
        let there = [
            ("class", self.class.is_some()),
            ("priority", self.priority != Priority::Normal),
            ("rate", self.rate != Cap::default()),
            ("redundancy", self.redundancy.is_some()),
        ];
        there.into_iter().find_map(|(key, there)| there.then_some(key))
    }

    /// What it gives them, each in a few words; nothing where they are treated as all others.
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

/// By which link connections leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Direct {
    /// Links, the preferred first; the best by tier when none is named.
    pub links: Vec<Name>,
    /// What becomes of them while none of these works.
    pub otherwise: Otherwise,
    /// Those that took a later link end when an earlier one works again.
    pub end_on_recovery: bool,
}

keyword_enum! {
    /// What share connections get beside others.
    #[derive(Default)]
    Priority {
        /// Nearly nothing while others want to send: a sixteenth of a usual connection's.
        Low = "low",
        /// As most.
        #[default]
        Normal = "normal",
        /// Four times as much as usual ones.
        High = "high",
    }
}

keyword_enum! {
    /// What packets are worth.
    Class {
        /// Late is lost: they go first, and twice while the budget for that lasts.
        Realtime = "realtime",
        /// They wait for their turn.
        Bulk = "bulk",
    }
}

keyword_enum! {
    /// What is sent beside packets, so that nothing waits for a repair.
    Redundancy {
        /// Each of them again, by another link.
        Twice = "twice",
        /// A parity for every four, from which one that is lost comes back.
        Parity = "parity",
    }
}

keyword_enum! {
    /// What becomes of direct connections while no link works for them.
    Otherwise {
        /// They take the tunnel.
        Tunnel = "tunnel",
        /// They are refused.
        Block = "block",
    }
}

keyword_enum! {
    /// What a rule does, by its word.
    Do {
        /// Through the tunnel.
        Tunnel = "tunnel",
        /// Beside it.
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
            let what = format!("rule.{key} has a meaning only with do = \"{wants}\"");
            section.wrong(key, what, format!("remove it, or write do = \"{wants}\""));
        }
    }
    let matches = read_match(&mut section, base);
    if let (Some(_), Some(key)) = (treatment.mode, matches.seen_by_host_alone()) {
        section.wrong(
            "mode",
            format!("rule.mode with match.{key}: packets in the tunnel don't show that"),
            "a mode goes with from, to, protocol, ports and dscp; make two rules",
        );
    }
    if let (Some(key), Some(unseen)) = (treatment.by_connection(), matches.not_tracked()) {
        section.wrong(
            key,
            format!("rule.{key} with match.{unseen}: tracked connections don't show that"),
            "remove one of them; devices, networks, names, ports, protocol and time will do",
        );
    }
    if let (Some(_), Some(key)) = (treatment.mode, treatment.by_connection()) {
        section.wrong(
            key,
            format!("rule.{key} with rule.mode"),
            "make two rules: a mode has no queue in which others could be before or behind",
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

/// What has no conditions matches everything, which as the last rule has a meaning.
fn read_match(section: &mut Section<'_, '_>, base: &Path) -> Traffic {
    section.table("match").map(|section| traffic::read(section, base)).unwrap_or_default()
}
