use super::link_match::{self, LinkMatch};
use super::name::{DeviceName, Name};
use super::network::host_address;
use super::quota::{self, Quota};
use super::section::{Placed, Section};
use super::transport::{Proxy, TransportChoice};
use braid_units::Rate;
use std::net::IpAddr;

/// `[[link]]`: one way out to the internet.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// Its name.
    pub name: Name,
    /// How packets are made to leave by it.
    pub binding: LinkBinding,
    /// Lower tiers are filled first in mode `overflow`, and preferred in
    /// `active-backup`.
    pub tier: u8,
    /// Whether it is metered, and so one tier further; none: as NetworkManager says, where it runs.
    pub metered: Option<bool>,
    /// Probed, but used only when no other link works.
    pub standby: bool,
    /// Price of a gigabyte, in any currency: the dearer links of a tier come
    /// after the cheaper ones.
    pub price: Option<f64>,
    /// Rates never to be exceeded; the true rates are found without it.
    pub cap: Cap,
    /// Allowance in a period.
    pub quota: Option<Quota>,
    /// What its datagrams may go by.
    pub transport: TransportChoice,
    /// By which TLS is tried as well.
    pub proxy: Option<Proxy>,
}

impl Link {
    /// Its tier, now that it is metered or not.
    pub fn tier_if(&self, metered: bool) -> u8 {
        self.tier.saturating_add(metered.into())
    }
}

/// What ties a socket to its link; at least one of these is there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LinkBinding {
    /// Leave by this device (`SO_BINDTODEVICE`).
    pub interface: Option<DeviceName>,
    /// Leave by the interface that this chooses, whatever its name; not beside `interface`.
    pub matches: Option<LinkMatch>,
    /// Leave from this address of the host.
    pub source: Option<IpAddr>,
    /// Leave through this router; else the device's default gateway is followed.
    pub gateway: Option<IpAddr>,
    /// Leave with this mark (`SO_MARK`), for the host's own routing rules.
    pub fwmark: Option<u32>,
}

/// Upper bounds of a link's rates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cap {
    /// Towards this host.
    pub down: Option<Rate>,
    /// From this host.
    pub up: Option<Rate>,
}

pub(super) fn read(mut section: Section<'_, '_>) -> Option<Placed<Link>> {
    let name = section.parsed("name");
    if name.is_none() {
        section.missing("name", "write name = \"dsl\"");
    }
    let binding = LinkBinding {
        interface: section.parsed("interface"),
        matches: section.table("match").and_then(link_match::read),
        source: section.parsed_by("source", host_address),
        gateway: section.parsed_by("gateway", host_address),
        fwmark: section.integer("fwmark", 1..=i64::from(u32::MAX)),
    };
    check_binding(&binding, &section);
    let tier = section.integer("tier", 0..=255).unwrap_or(0);
    let metered = section.boolean("metered");
    let standby = section.boolean("standby").unwrap_or(false);
    let price = section.number("price");
    let cap = section.table("cap").map(|cap| read_cap(cap, "link.cap")).unwrap_or_default();
    let quota = section.table("quota").and_then(quota::read);
    let transport = section.parsed("transport").unwrap_or(TransportChoice::Auto);
    let proxy = section.parsed("proxy");
    if proxy.is_some() && transport == TransportChoice::Udp {
        section.wrong(
            "proxy",
            "link.proxy beside transport = \"udp\": a proxy carries TLS alone",
            "remove one of them",
        );
    }
    let places = section.finish();
    let value =
        Link { name: name?, binding, tier, metered, standby, price, cap, quota, transport, proxy };
    Some(Placed { value, places })
}

fn check_binding(binding: &LinkBinding, section: &Section<'_, '_>) {
    let LinkBinding { interface, matches, source, gateway, fwmark: _ } = binding;
    let keys = ["interface", "match", "source", "gateway", "fwmark"];
    if *binding == LinkBinding::default() && !keys.iter().any(|key| section.has(key)) {
        section.missing(
            "interface, match, source, gateway or fwmark",
            "write what ties packets to this link, such as interface = \"wwan0\"",
        );
    }
    if interface.is_some() && matches.is_some() {
        section.wrong(
            "match",
            "link.match beside link.interface: both say which interface it is",
            "remove one of them",
        );
    }
    if let (Some(source), Some(gateway)) = (source, gateway)
        && source.is_ipv4() != gateway.is_ipv4()
    {
        section.wrong(
            "gateway",
            "link.source and link.gateway are of different IP versions",
            "give both as IPv4 or both as IPv6",
        );
    }
    for (key, address) in [("source", source), ("gateway", gateway)] {
        if address.is_some_and(|address| address.is_unspecified() || address.is_multicast()) {
            section.wrong(key, format!("link.{key} is no host's address"), "name one address");
        }
    }
}

/// `{ down = "20Mbit", up = "5Mbit" }`; `name` is the table's, for messages.
pub(super) fn read_cap(mut section: Section<'_, '_>, name: &str) -> Cap {
    let cap = Cap { down: section.parsed("down"), up: section.parsed("up") };
    for (key, rate) in [("down", cap.down), ("up", cap.up)] {
        if rate == Some(Rate::ZERO) {
            section.wrong(
                key,
                format!("{name}.{key} of 0 lets nothing through"),
                "remove it, or write a rate such as \"5Mbit\"",
            );
        }
    }
    section.finish();
    cap
}
