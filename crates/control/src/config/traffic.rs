use super::keyword::keyword_enum;
use super::network::Prefix;
use super::path::file_path;
use super::section::Section;
use braid_rules::{DomainPattern, Mac};
use jiff::civil::{Time, Weekday};
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Which connections a rule is for; all conditions that are present must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// The devices that begin them; empty for any.
    pub devices: Vec<Device>,
    /// Source networks; empty for any.
    pub from: Vec<Prefix>,
    /// Destinations.
    pub to: Destinations,
    /// The transport.
    pub protocol: Option<Protocol>,
    /// The server's port, or either end's if a rule sets a mode (only with TCP or UDP).
    pub ports: Option<PortRange>,
    /// The DS field's code point.
    pub dscp: Option<Dscp>,
    /// Users of this host, by UID, whose programs begin them; empty for all.
    pub users: Vec<u32>,
    /// Control groups of this host whose programs begin them, including subgroups; empty for any.
    pub cgroups: Vec<Cgroup>,
    /// The time of day, by the host's clock.
    pub hours: Option<Hours>,
    /// The days; for hours over midnight, those on which they begin. Empty for all.
    pub days: Vec<Day>,
}

/// Destinations of connections: any of these; anywhere if empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Destinations {
    /// Networks.
    pub networks: Vec<Prefix>,
    /// Files with one destination network per line.
    pub files: Vec<PathBuf>,
    /// Countries, two capital letters.
    pub countries: Vec<Country>,
    /// Autonomous systems.
    pub systems: Vec<SystemNumber>,
    /// Names.
    pub domains: Vec<DomainPattern>,
    /// Files with one destination domain per line.
    pub domain_files: Vec<PathBuf>,
}

impl Destinations {
    /// Whether it is empty.
    pub fn is_anywhere(&self) -> bool {
        *self == Destinations::default()
    }

    /// Whether they depend on DNS answers.
    pub fn by_name(&self) -> bool {
        !self.domains.is_empty() || !self.domain_files.is_empty()
    }

    /// Whether they depend on a table of origins.
    pub fn by_origin(&self) -> bool {
        !self.countries.is_empty() || !self.systems.is_empty()
    }
}

/// A device of the LAN.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Device {
    /// By address.
    Address(IpAddr),
    /// By MAC address.
    Mac(Mac),
    /// By the name of its DHCP lease.
    Host(String),
}

impl FromStr for Device {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(address) = text.parse() {
            return Ok(Device::Address(address));
        }
        if let Ok(mac) = text.parse() {
            return Ok(Device::Mac(mac));
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if (1..=63).contains(&text.len()) && text.chars().all(plain) {
            return Ok(Device::Host(text.to_ascii_lowercase()));
        }
        Err(format!(
            "{text:?} is not a device; write its address, its MAC address \"aa:bb:cc:dd:ee:01\", \
             or the name of its lease \"tablet\""
        ))
    }
}

/// A control group (version 2), by its path below the root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cgroup(String);

impl Cgroup {
    /// Without a leading or trailing `/`.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Cgroup {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let path = text.trim_matches('/');
        let plain = |c: char| c.is_ascii_graphic() && !matches!(c, '"' | '\\' | '*');
        let part = |part: &str| !matches!(part, "" | "." | "..") && part.chars().all(plain);
        match path.len() <= 200 && path.split('/').all(part) {
            true => Ok(Cgroup(path.to_owned())),
            false => Err(format!(
                "{text:?} is not a control group; write \"system.slice/backup.service\", as \
                 systemd-cgls shows it"
            )),
        }
    }
}

/// A country (ISO 3166-1, two letters).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Country(String);

impl Country {
    /// Two capital letters.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Country {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text.len() == 2 && text.chars().all(|c| c.is_ascii_alphabetic()) {
            true => Ok(Country(text.to_ascii_uppercase())),
            false => Err(format!("{text:?} is not a country; write two letters, such as \"DE\"")),
        }
    }
}

/// The number of an autonomous system (RFC 6793).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SystemNumber(pub u32);

impl FromStr for SystemNumber {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.strip_prefix("AS").or(text.strip_prefix("as")).unwrap_or(text);
        let number = digits.parse().ok().filter(|number| *number > 0);
        number.map(SystemNumber).ok_or_else(|| {
            format!("{text:?} is not an autonomous system; write its number, such as \"AS64496\"")
        })
    }
}

/// Hours of a day; over midnight when the end is before the beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hours {
    /// The first minute.
    pub from: Time,
    /// The first minute after the end.
    pub until: Time,
}

impl FromStr for Hours {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let time = |text: &str| -> Option<Time> {
            let (hour, minute) = text.trim().split_once(':')?;
            let digits = |text: &str| text.len() == 2 && text.bytes().all(|b| b.is_ascii_digit());
            (digits(hour) && digits(minute)).then_some(())?;
            Time::new(hour.parse().ok()?, minute.parse().ok()?, 0, 0).ok()
        };
        let times = text.split_once('-').map(|(from, until)| (time(from), time(until)));
        match times {
            Some((Some(from), Some(until))) if from != until => Ok(Hours { from, until }),
            _ => Err(format!("{text:?} is not a time range; write \"20:00-06:30\"")),
        }
    }
}

keyword_enum! {
    /// A day of the week.
    Day {
        /// Monday.
        Monday = "mon",
        /// Tuesday.
        Tuesday = "tue",
        /// Wednesday.
        Wednesday = "wed",
        /// Thursday.
        Thursday = "thu",
        /// Friday.
        Friday = "fri",
        /// Saturday.
        Saturday = "sat",
        /// Sunday.
        Sunday = "sun",
    }
}

impl Day {
    /// The calendar's.
    pub fn weekday(self) -> Weekday {
        match self {
            Day::Monday => Weekday::Monday,
            Day::Tuesday => Weekday::Tuesday,
            Day::Wednesday => Weekday::Wednesday,
            Day::Thursday => Weekday::Thursday,
            Day::Friday => Weekday::Friday,
            Day::Saturday => Weekday::Saturday,
            Day::Sunday => Weekday::Sunday,
        }
    }
}

impl Traffic {
    /// The first condition that the kernel doesn't record for tracked connections.
    pub fn not_tracked(&self) -> Option<&'static str> {
        let there = [
            ("uid", !self.users.is_empty()),
            ("cgroup", !self.cgroups.is_empty()),
            ("dscp", self.dscp.is_some()),
        ];
        there.into_iter().find_map(|(key, there)| there.then_some(key))
    }

    /// The first condition that only the host's own firewall can check, not code that sees packets
    /// in the tunnel.
    pub fn seen_by_host_alone(&self) -> Option<&'static str> {
        let to = &self.to;
        [
            ("device", !self.devices.is_empty()),
            ("uid", !self.users.is_empty()),
            ("cgroup", !self.cgroups.is_empty()),
            ("to_file", !to.files.is_empty()),
            ("country", !to.countries.is_empty()),
            ("asn", !to.systems.is_empty()),
            ("domain", to.by_name()),
            ("time", self.hours.is_some()),
            ("days", !self.days.is_empty()),
        ]
        .into_iter()
        .find_map(|(key, there)| there.then_some(key))
    }
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

/// Relative files are relative to `base`.
pub(super) fn read(mut section: Section<'_, '_>, base: &Path) -> Traffic {
    let traffic = Traffic {
        devices: section.list("device").unwrap_or_default(),
        from: section.list("from").unwrap_or_default(),
        to: Destinations {
            networks: section.list("to").unwrap_or_default(),
            files: section.list_by("to_file", |text| file_path(text, base)).unwrap_or_default(),
            countries: section.list("country").unwrap_or_default(),
            systems: section.list("asn").unwrap_or_default(),
            domains: section.list_by("domain", domain).unwrap_or_default(),
            domain_files: section
                .list_by("domain_file", |text| file_path(text, base))
                .unwrap_or_default(),
        },
        protocol: section.parsed("protocol"),
        ports: section.parsed("ports"),
        dscp: section.parsed("dscp"),
        users: section.list_by("uid", user).unwrap_or_default(),
        cgroups: section.list("cgroup").unwrap_or_default(),
        hours: section.parsed("time"),
        days: section.list("days").unwrap_or_default(),
    };
    check(&traffic, &section);
    section.finish();
    traffic
}

fn domain(text: &str) -> Result<DomainPattern, String> {
    text.parse().map_err(|_| {
        format!(
            "{text:?} is not a domain; write \"example.org\", or \"*.example.org\" for its \
             subdomains"
        )
    })
}

fn user(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!("{text:?} is not a UID; `id -u NAME` prints it"))
}

fn check(traffic: &Traffic, section: &Section<'_, '_>) {
    let has_ports = matches!(traffic.protocol, Some(Protocol::Tcp | Protocol::Udp));
    if traffic.ports.is_some() && !has_ports {
        section.wrong(
            "ports",
            "rule.match.ports without a protocol that has ports",
            "add protocol = \"udp\" or protocol = \"tcp\"",
        );
    }
    let is_v4 = |prefix: &Prefix| prefix.net().addr().is_ipv4();
    let of_version = Destinations { networks: Vec::new(), ..traffic.to.clone() };
    let only_networks = of_version.is_anywhere();
    let (from, to) = (&traffic.from, &traffic.to.networks);
    let meet = from.iter().any(|from| to.iter().any(|to| is_v4(from) == is_v4(to)));
    if only_networks && !from.is_empty() && !to.is_empty() && !meet {
        section.wrong(
            "to",
            "rule.match.from and rule.match.to are of different IP versions: nothing matches",
            "make two rules",
        );
    }
    let of_host = [("uid", !traffic.users.is_empty()), ("cgroup", !traffic.cgroups.is_empty())];
    for (key, there) in of_host {
        if there && !traffic.devices.is_empty() {
            section.wrong(
                key,
                format!(
                    "rule.match.device and rule.match.{key}: programs of this host aren't on \
                     another device"
                ),
                "make two rules",
            );
        }
    }
}
