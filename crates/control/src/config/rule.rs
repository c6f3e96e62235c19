use super::interface::Mode;
use super::keyword::keyword_enum;
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
    Tunnel {
        /// How their packets are scheduled; as all others' without one.
        mode: Option<Mode>,
    },
    /// They leave by a link, beside the tunnel.
    Direct(Direct),
    /// They are refused.
    Block,
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
    let mode = section.parsed("mode");
    let links = section.list("links");
    let otherwise = section.parsed("otherwise");
    let end_on_recovery = section.boolean("end_on_recovery");
    for (key, there, wants) in [
        ("mode", mode.is_some(), Do::Tunnel),
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
    if let (Some(_), Some(key)) = (mode, matches.seen_by_host_alone()) {
        section.wrong(
            "mode",
            format!("rule.mode with match.{key}: packets in the tunnel don't show that"),
            "a mode goes with from, to, protocol, ports and dscp; make two rules",
        );
    }
    let action = match action {
        Some(Do::Tunnel) => Some(Action::Tunnel { mode }),
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
    let value = Rule { name: name?, line, matches, action: Action::Tunnel { mode: Some(mode?) } };
    Some(Placed { value, places })
}

/// What has no conditions matches everything, which as the last rule has a meaning.
fn read_match(section: &mut Section<'_, '_>, base: &Path) -> Traffic {
    section.table("match").map(|section| traffic::read(section, base)).unwrap_or_default()
}
