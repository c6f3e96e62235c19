use super::link_match::{self, LinkMatch};
use super::name::{DeviceName, Name};
use super::network::host_address;
use super::quota::{self, Quota};
use super::section::{Placed, Section};
use super::transport::{Proxy, TransportChoice};
use braid_units::Rate;
use std::net::IpAddr;

/// `[[link]]`: an uplink to the Internet.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// Its name.
    pub name: Name,
    /// How packets are bound to it.
    pub binding: LinkBinding,
    /// Lower tiers are filled first in mode `overflow`, and preferred in
    /// `active-backup`.
    pub tier: u8,
    /// Whether it is metered, which puts it one tier later; `None`: NetworkManager decides, if it
    /// runs.
    pub metered: Option<bool>,
    /// Probed, but used only when no other link works.
    pub standby: bool,
    /// Price of a gigabyte, in any currency: within a tier, cheaper links come first.
    pub price: Option<f64>,
    /// Rate limits; the link's real rates are measured regardless.
    pub cap: Cap,
    /// Allowance in a period.
    pub quota: Option<Quota>,
    /// Allowed transports of its datagrams.
    pub transport: TransportChoice,
    /// HTTP proxy through which TLS is tried as well.
    pub proxy: Option<Proxy>,
}

impl Link {
    /// Its tier, depending on whether it is metered.
    pub fn tier_if(&self, metered: bool) -> u8 {
        self.tier.saturating_add(metered.into())
    }
}

/// What binds a socket to its link; at least one of these is set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LinkBinding {
    /// Leave by this device (`SO_BINDTODEVICE`).
    pub interface: Option<DeviceName>,
    /// Leave by the interface that this selects, whatever its name; not together with `interface`.
    pub matches: Option<LinkMatch>,
    /// Leave from this address of the host.
    pub source: Option<IpAddr>,
    /// Leave through this router; by default the device's default gateway.
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
            "link.proxy together with transport = \"udp\": a proxy carries only TLS",
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
            "link.match together with link.interface: both determine the interface",
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
            section.wrong(
                key,
                format!("link.{key} is not the address of a host"),
                "name one address",
            );
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
                format!("{name}.{key} of 0 would let nothing through"),
                "remove it, or write a rate such as \"5Mbit\"",
            );
        }
    }
    section.finish();
    cap
}
