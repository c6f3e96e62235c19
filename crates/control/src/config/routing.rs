use super::keyword::keyword_enum;
use super::name::{DeviceName, Name};
use super::network::{Prefix, socket_address};
use super::path;
use super::section::{Placed, Places, Section};
use super::traffic::Protocol;
use braid_rules::DomainName;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// `[routing]`: what is set on the host. All of it is undone on `down`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routing {
    /// Set nothing on the host except the device and its addresses.
    pub leave_host_alone: bool,
    /// Send the host's (and its LAN's) traffic through the tunnel.
    pub default_route: bool,
    /// What happens to that traffic while no peer answers.
    pub when_concentrator_gone: WhenConcentratorGone,
    /// Clamp TCP's MSS to the tunnel's MTU. Braid itself never needs it.
    pub clamp_mss: bool,
    /// Masquerade outgoing traffic: at the concentrator inner traffic to the Internet, at home the
    /// LAN's traffic into the tunnel.
    pub masquerade: bool,
    /// Ports of the concentrator that are forwarded into the tunnel.
    pub forward_ports: Vec<ForwardPort>,
    /// Public addresses that belong to a home.
    pub public_prefixes: Vec<PublicPrefix>,
    /// The routing table for only the addresses of homes served here, for a routing daemon to
    /// announce (concentrator).
    pub announce_table: Option<u32>,
    /// At home: networks behind it that aren't masqueraded, such as a public prefix.
    pub untranslated: Vec<Prefix>,
    /// The mark bits that make replies leave by the link that the request came in on.
    pub link_marks: LinkMarks,
    /// The DHCP server's lease file, for rules with device names; by default dnsmasq's.
    pub leases: Option<PathBuf>,
    /// A table of networks with their country and autonomous system, for rules.
    pub origins: Option<PathBuf>,
    /// Name servers to use through the tunnel, or at the concentrator for its homes. By default
    /// those that answer; an empty list leaves name servers alone.
    pub dns: Option<Vec<IpAddr>>,
    /// Domains for which systemd-resolved uses those servers, whatever else takes the tunnel.
    pub dns_domains: Vec<DomainName>,
}

/// Bits of packet and connection marks: a run of bits, or none. The default avoids those of other
/// programs: 0x00ff0000 is Tailscale's and OpenWrt's, 0x0000ffff Kubernetes', Docker's, Cilium's
/// and mwan3's, 0x80000000 Antrea's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkMarks(u32);

impl LinkMarks {
    /// The bits as a mask; 0 for none.
    pub fn bits(self) -> u32 {
        self.0
    }
}

impl Default for LinkMarks {
    fn default() -> Self {
        LinkMarks(0x7f00_0000)
    }
}

impl FromStr for LinkMarks {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if text == "off" {
            return Ok(LinkMarks(0));
        }
        let digits = text.strip_prefix("0x").map(|hex| u32::from_str_radix(hex, 16));
        let bits = digits.and_then(Result::ok).filter(|&bits| bits != 0);
        let run = |bits: u32| (bits >> bits.trailing_zeros()).trailing_ones() == bits.count_ones();
        bits.filter(|&bits| run(bits)).map(LinkMarks).ok_or_else(|| {
            format!("{text:?} is not a run of bits; write \"0x7f000000\" (the default) or \"off\"")
        })
    }
}

keyword_enum! {
    /// What happens to the host's traffic while the concentrator is gone.
    WhenConcentratorGone {
        /// Nothing leaves (a kill switch).
        Block = "block",
        /// It leaves directly over the best link.
        Direct = "direct",
    }
}

/// `forward_ports`: connections to a public port are forwarded into the tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForwardPort {
    /// TCP or UDP.
    pub protocol: Protocol,
    /// The port on the concentrator's public addresses.
    pub public: u16,
    /// The destination.
    pub to: SocketAddr,
}

/// `public_prefixes`: a public prefix routed to a home; it counts as one of
/// that peer's `allowed_ips`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicPrefix {
    /// The prefix.
    pub prefix: Prefix,
    /// The peer's name.
    pub peer: Name,
    /// The device on which the provider expects these addresses on-link instead of routing them
    /// here: neighbour discovery for them is answered there.
    pub on_link: Option<DeviceName>,
}

impl Default for Routing {
    fn default() -> Self {
        Routing {
            leave_host_alone: false,
            default_route: false,
            when_concentrator_gone: WhenConcentratorGone::Direct,
            clamp_mss: false,
            masquerade: false,
            forward_ports: Vec::new(),
            public_prefixes: Vec::new(),
            announce_table: None,
            untranslated: Vec::new(),
            link_marks: LinkMarks::default(),
            leases: None,
            origins: None,
            dns: None,
            dns_domains: Vec::new(),
        }
    }
}

/// Neither the system's tables, 253 to 255, nor those of tunnels (519000 and more).
const ANNOUNCE_TABLES: std::ops::RangeInclusive<i64> = 256..=500_000;

/// `[routing]` with the places of its parts.
pub(super) struct PlacedRouting {
    pub(super) routing: Placed<Routing>,
    pub(super) forward_ports: Vec<Places>,
    pub(super) public_prefixes: Vec<Places>,
}

/// Relative files are relative to `base`.
pub(super) fn read(mut section: Section<'_, '_>, base: &Path) -> PlacedRouting {
    let default = Routing::default();
    let leave_host_alone = section.boolean("leave_host_alone").unwrap_or(default.leave_host_alone);
    let default_route = section.boolean("default_route").unwrap_or(default.default_route);
    let when_concentrator_gone =
        section.parsed("when_concentrator_gone").unwrap_or(default.when_concentrator_gone);
    let clamp_mss = section.boolean("clamp_mss").unwrap_or(default.clamp_mss);
    let masquerade = section.boolean("masquerade").unwrap_or(default.masquerade);
    let (forward_ports, forward_places) =
        section.tables("forward_ports").into_iter().filter_map(read_forward).unzip();
    let (public_prefixes, prefix_places) =
        section.tables("public_prefixes").into_iter().filter_map(read_prefix).unzip();
    let untranslated = section.list("untranslated").unwrap_or_default();
    let dns = section.list("dns");
    let value = Routing {
        leave_host_alone,
        default_route,
        when_concentrator_gone,
        clamp_mss,
        masquerade,
        forward_ports,
        public_prefixes,
        announce_table: section.integer("announce_table", ANNOUNCE_TABLES),
        untranslated,
        link_marks: section.parsed("link_marks").unwrap_or(default.link_marks),
        leases: path::file(&mut section, "leases", base),
        origins: path::file(&mut section, "origins", base),
        dns,
        dns_domains: section.list_by("dns_domains", domain_name).unwrap_or_default(),
    };
    PlacedRouting {
        routing: Placed { value, places: section.finish() },
        forward_ports: forward_places,
        public_prefixes: prefix_places,
    }
}

fn domain_name(text: &str) -> Result<DomainName, String> {
    text.parse().map_err(|_| format!("{text:?} is no name; write \"example.org\""))
}

fn read_forward(mut section: Section<'_, '_>) -> Option<(ForwardPort, Places)> {
    let protocol = section.parsed("protocol");
    let public = section.integer("public", 1..=65535);
    let to = section.parsed_by("to", socket_address);
    if protocol == Some(Protocol::Icmp) {
        section.wrong("protocol", "icmp has no ports to forward", "write \"tcp\" or \"udp\"");
    }
    for (key, present) in
        [("protocol", protocol.is_some()), ("public", public.is_some()), ("to", to.is_some())]
    {
        if !present {
            section.missing(
                key,
                "write { protocol = \"tcp\", public = 8443, to = \"10.77.0.2:443\" }",
            );
        }
    }
    let places = section.finish();
    Some((ForwardPort { protocol: protocol?, public: public?, to: to? }, places))
}

fn read_prefix(mut section: Section<'_, '_>) -> Option<(PublicPrefix, Places)> {
    let prefix = section.parsed("prefix");
    let peer = section.parsed("peer");
    let on_link = section.parsed("on_link");
    for (key, present) in [("prefix", prefix.is_some()), ("peer", peer.is_some())] {
        if !present {
            section.missing(key, "write { prefix = \"198.51.100.8/29\", peer = \"home1\" }");
        }
    }
    let places = section.finish();
    Some((PublicPrefix { prefix: prefix?, peer: peer?, on_link }, places))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_marks_are_a_run_of_bits_or_none() {
        let bits = |text: &str| text.parse().map(LinkMarks::bits);
        assert_eq!(bits("0x3f00"), Ok(0x3f00));
        assert_eq!(bits("0x80000000"), Ok(0x8000_0000));
        assert_eq!(bits("0xffffffff"), Ok(u32::MAX));
        assert_eq!(bits("off"), Ok(0));
        for wrong in ["", "0", "0x0", "0x0101", "17", "0x1ffffffff", "on"] {
            assert!(bits(wrong).is_err(), "{wrong}");
        }
    }
}
