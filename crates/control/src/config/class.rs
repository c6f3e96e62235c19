use super::interface::Mode;
use super::keyword::keyword_enum;
use super::name::Name;
use super::network::Prefix;
use super::section::{Placed, Section};
use std::ops::RangeInclusive;
use std::str::FromStr;

/// `[[class]]`: traffic with a mode of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    /// Its name.
    pub name: Name,
    /// Which packets belong to it.
    pub matches: ClassMatch,
    /// How they are scheduled.
    pub mode: Mode,
}

/// Conditions on an inner packet; all that are present must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassMatch {
    /// The DS field's code point.
    pub dscp: Option<Dscp>,
    /// The transport.
    pub protocol: Option<Protocol>,
    /// Source or destination port (only with TCP or UDP).
    pub ports: Option<PortRange>,
    /// The source's network.
    pub from: Option<Prefix>,
    /// The destination's network.
    pub to: Option<Prefix>,
}

keyword_enum! {
    /// A transport protocol.
    Protocol {
        /// RFC 9293.
        Tcp = "tcp",
        /// RFC 768.
        Udp = "udp",
        /// ICMP and ICMPv6.
        Icmp = "icmp",
    }
}

/// A differentiated-services code point (RFC 2474), 0 to 63.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dscp(u8);

impl Dscp {
    /// The code point, 0 to 63.
    pub fn value(self) -> u8 {
        self.0
    }
}

/// The IANA registry's names.
const DSCP_NAMES: &[(&str, u8)] = &[
    ("cs0", 0),
    ("le", 1),
    ("cs1", 8),
    ("af11", 10),
    ("af12", 12),
    ("af13", 14),
    ("cs2", 16),
    ("af21", 18),
    ("af22", 20),
    ("af23", 22),
    ("cs3", 24),
    ("af31", 26),
    ("af32", 28),
    ("af33", 30),
    ("cs4", 32),
    ("af41", 34),
    ("af42", 36),
    ("af43", 38),
    ("cs5", 40),
    ("va", 44),
    ("ef", 46),
    ("cs6", 48),
    ("cs7", 56),
];

impl FromStr for Dscp {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let word = text.to_ascii_lowercase();
        let named = DSCP_NAMES.iter().find(|(name, _)| *name == word).map(|(_, value)| *value);
        let value = named.or_else(|| word.parse::<u8>().ok().filter(|value| *value < 64));
        value.map(Dscp).ok_or_else(|| {
            format!("{text:?} is not a DSCP; write \"ef\", \"af41\", \"cs5\" or \"0\" to \"63\"")
        })
    }
}

/// Ports from first to last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortRange(pub RangeInclusive<u16>);

impl FromStr for PortRange {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        match (first.trim().parse::<u16>(), last.trim().parse::<u16>()) {
            (Ok(first), Ok(last)) if 0 < first && first <= last => Ok(PortRange(first..=last)),
            _ => Err(format!("{text:?} is not a range of ports; write \"5060-5090\" or \"53\"")),
        }
    }
}

pub(super) fn read(mut section: Section<'_, '_>) -> Option<Placed<Class>> {
    let name = section.parsed("name");
    if name.is_none() {
        section.missing("name", "write name = \"voice\"");
    }
    let mode = section.parsed("mode");
    if mode.is_none() {
        section.missing("mode", "write the mode of this traffic, such as mode = \"broadcast\"");
    }
    let matches = section.table("match").map(read_match);
    match &matches {
        None => section.missing("match", "write match = { dscp = \"ef\" }"),
        Some(matches) if *matches == ClassMatch::default() => section.wrong(
            "match",
            "class.match matches everything",
            "set the tunnel's own mode in [interface], or name a condition",
        ),
        Some(_) => {}
    }
    let places = section.finish();
    Some(Placed { value: Class { name: name?, matches: matches?, mode: mode? }, places })
}

fn read_match(mut section: Section<'_, '_>) -> ClassMatch {
    let matches = ClassMatch {
        dscp: section.parsed("dscp"),
        protocol: section.parsed("protocol"),
        ports: section.parsed("ports"),
        from: section.parsed("from"),
        to: section.parsed("to"),
    };
    if matches.ports.is_some() && !matches!(matches.protocol, Some(Protocol::Tcp | Protocol::Udp)) {
        section.wrong(
            "ports",
            "class.match.ports without a protocol that has ports",
            "add protocol = \"udp\" or protocol = \"tcp\"",
        );
    }
    if let (Some(from), Some(to)) = (matches.from, matches.to)
        && from.net().addr().is_ipv4() != to.net().addr().is_ipv4()
    {
        section.wrong(
            "to",
            "class.match.from and class.match.to are of different IP versions: nothing matches",
            "make two classes",
        );
    }
    section.finish();
    matches
}
