//! What carries the links' traffic to the other end: plain Ethernet, or a
//! tunnel of the kernel's for each link over the Internet.

use crate::group::{Egress, Group, GroupLink, Trouble};
use crate::numbers::OUTER;
use crate::operation::{DeviceKind, Operation};
use crate::port::Port;
use crate::words::words;
use crate::{Device, Family, Feature, policy};
use ipnet::{IpNet, Ipv4Net};
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

/// What carries the links' traffic to the other end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Over {
    /// Nothing: the links reach it themselves.
    Direct,
    /// Ethernet in GRE (RFC 2784), as RouterOS' EoIP. Not encrypted, not through NAT.
    Gretap {
        /// Which end this is.
        end: End,
    },
    /// Ethernet in UDP (RFC 7348). Not encrypted.
    Vxlan {
        /// Which end this is.
        end: End,
        /// UDP port at both ends.
        port: u16,
    },
    /// WireGuard; with Ethernet in GRE inside it for engines that need Ethernet.
    WireGuard {
        /// Which end this is.
        end: End,
        /// Keys and ports.
        settings: WireGuard,
    },
}

words! {
    /// The ends of a group, told apart to number the tunnels' inner addresses.
    End {
        /// Has the lower addresses.
        First = "first",
        /// Has the higher addresses.
        Second = "second",
    }
}

/// Keys and ports of the links' WireGuard tunnels.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireGuard {
    /// File with our private key, base64.
    pub private_key_file: PathBuf,
    /// The other end's public key, base64.
    pub peer_public_key: String,
    /// UDP port of link 1 at both ends; link `n` has the one `n − 1` further.
    pub port: u16,
}

/// The ports of a group, and the operations that set them up.
pub(crate) struct Carried {
    pub(crate) operations: Vec<Operation>,
    pub(crate) ports: Vec<Port>,
    /// Links left out, and why.
    pub(crate) notes: Vec<String>,
}

/// Size of the outer headers without the IP header, bytes: GRE with key + Ethernet; UDP + VXLAN +
/// Ethernet; UDP + WireGuard's own (its paper, section 6.5).
const GRETAP_OVERHEAD: u32 = 8 + 14;
const VXLAN_OVERHEAD: u32 = 8 + 8 + 14;
pub(crate) const WIREGUARD_OVERHEAD: u32 = 8 + 32;

impl Over {
    pub(crate) fn check(&self, group: &Group, found: &mut Vec<Trouble>) {
        if matches!(self, Over::Direct) {
            return;
        }
        if group.links.iter().any(|link| link.remote.is_none()) {
            found.push(Trouble::new(
                "over",
                "a link over a tunnel lacks the other end's address",
                "write remote = \"203.0.113.1\" in each [[link]]",
            ));
        }
        if let Over::WireGuard { settings, .. } = self
            && !is_key(&settings.peer_public_key)
        {
            found.push(Trouble::new(
                "peer_public_key",
                "the peer's public key is not a WireGuard key",
                "write the 44 characters that `wg pubkey` prints there",
            ));
        }
    }

    /// What it requires of the host.
    pub(crate) fn needs(&self, group: &Group) -> Vec<Feature> {
        match self {
            Over::Direct => Vec::new(),
            Over::Gretap { .. } => vec![Feature::Gretap],
            Over::Vxlan { .. } => vec![Feature::Vxlan],
            Over::WireGuard { .. } if group.engine.kind().routes() => vec![Feature::WireGuard],
            Over::WireGuard { .. } => vec![Feature::WireGuard, Feature::Gretap],
        }
    }

    pub(crate) fn end(&self) -> End {
        match self {
            Over::Direct => End::First,
            Over::Gretap { end } | Over::Vxlan { end, .. } | Over::WireGuard { end, .. } => *end,
        }
    }
}

/// What the group's engine joins.
pub(crate) fn carry(group: &Group) -> Carried {
    let mut carried = Carried { operations: Vec::new(), ports: Vec::new(), notes: Vec::new() };
    for link in &group.links {
        match &group.over {
            Over::Direct => carried.direct(group, link),
            over => carried.tunnel(group, link, over),
        }
    }
    carried
}

impl Carried {
    fn direct(&mut self, group: &Group, link: &GroupLink) {
        if group.engine.kind().routes() && link.egresses.is_empty() {
            self.notes.push(format!("{} has no source address: left out", link.name));
            return;
        }
        self.ports.push(port(link, link.device.clone(), link.mtu, link.egresses.clone()));
    }

    fn tunnel(&mut self, group: &Group, link: &GroupLink, over: &Over) {
        let Some(remote) = link.remote else {
            self.notes.push(format!("{} has no remote: left out", link.name));
            return;
        };
        let Some(egress) = link.egress(Family::of(remote)) else {
            self.notes
                .push(format!("{} has no address to reach {remote} from: left out", link.name));
            return;
        };
        // Outer packets must leave by their own link.
        self.operations.extend(policy::outer(group, link));
        let local = egress.source.addr();
        let outer = if remote.is_ipv6() { 40 } else { 20 };
        let inside = inner_way(link.number, over.end());
        let needs_ethernet = !group.engine.kind().routes();
        let create = |device: &Device, kind| Operation::Create { device: device.clone(), kind };
        let (device, mtu) = match over {
            Over::Direct => (link.device.clone(), link.mtu),
            Over::Gretap { .. } => {
                let device = group.name.with_suffix(&format!("-g{}", link.number));
                let kind = gretap(group, link.number, local, remote, Some(&link.device));
                self.operations.push(create(&device, kind));
                (device, link.mtu.saturating_sub(outer + GRETAP_OVERHEAD))
            }
            Over::Vxlan { port, .. } => {
                let device = group.name.with_suffix(&format!("-x{}", link.number));
                self.operations.push(create(
                    &device,
                    DeviceKind::Vxlan {
                        id: group.numbers.tunnel + link.number,
                        local,
                        remote,
                        port: *port,
                        via: link.device.clone(),
                    },
                ));
                (device, link.mtu.saturating_sub(outer + VXLAN_OVERHEAD))
            }
            Over::WireGuard { settings, .. } => {
                let device = group.name.with_suffix(&format!("-w{}", link.number));
                let port = settings.port.saturating_add(link.number.saturating_sub(1) as u16);
                self.operations.push(create(
                    &device,
                    DeviceKind::WireGuard {
                        private_key_file: settings.private_key_file.clone(),
                        port,
                        peer_public_key: settings.peer_public_key.clone(),
                        endpoint: SocketAddr::new(remote, port),
                        mark: group.numbers.mark + OUTER + link.number,
                    },
                ));
                self.operations.extend(policy::by_mark(group, link, Family::of(remote)));
                let mtu = link.mtu.saturating_sub(outer + WIREGUARD_OVERHEAD);
                self.operations.push(Operation::Mtu { device: device.clone(), mtu });
                if needs_ethernet {
                    self.address(&device, inside.source);
                    self.operations.push(Operation::Up { device: device.clone() });
                    let tap = group.name.with_suffix(&format!("-g{}", link.number));
                    let other = inside.gateway.unwrap_or(inside.source.addr());
                    let kind =
                        gretap(group, link.number, inside.source.addr(), other, Some(&device));
                    self.operations.push(create(&tap, kind));
                    (tap, mtu.saturating_sub(20 + GRETAP_OVERHEAD))
                } else {
                    (device, mtu)
                }
            }
        };
        self.operations.push(Operation::Mtu { device: device.clone(), mtu });
        let egresses = match needs_ethernet {
            true => Vec::new(),
            false => {
                self.address(&device, inside.source);
                vec![inside]
            }
        };
        self.operations.push(Operation::Up { device: device.clone() });
        self.ports.push(port(link, device, mtu, egresses));
    }

    fn address(&mut self, device: &Device, net: IpNet) {
        self.operations.push(Operation::Address { device: device.to_string(), net });
    }
}

fn port(link: &GroupLink, device: Device, mtu: u32, egresses: Vec<Egress>) -> Port {
    Port {
        link: link.name.clone(),
        number: link.number,
        device,
        mtu,
        egresses,
        weight: link.weight,
        standby: link.standby,
        silent: link.silent,
    }
}

fn gretap(
    group: &Group,
    number: u32,
    local: IpAddr,
    remote: IpAddr,
    via: Option<&Device>,
) -> DeviceKind {
    DeviceKind::Gretap {
        local,
        remote,
        // Several tunnels between the same two addresses are told apart by it.
        key: group.numbers.tunnel + number,
        via: via.cloned(),
    }
}

/// Both ends' addresses inside a link's tunnel: a /30 of 169.254.77.0/24
/// (RFC 3927 addresses never leave a link).
pub(crate) fn inner_way(number: u32, end: End) -> Egress {
    let base = (number.saturating_mul(4) % 252) as u8;
    let (own, other) = match end {
        End::First => (base + 1, base + 2),
        End::Second => (base + 2, base + 1),
    };
    let address = |last| Ipv4Addr::new(169, 254, 77, last);
    Egress {
        source: IpNet::V4(Ipv4Net::new_assert(address(own), 30)),
        gateway: Some(address(other).into()),
    }
}

/// 32 bytes in base64.
fn is_key(text: &str) -> bool {
    let body = text.strip_suffix('=').unwrap_or_default();
    body.len() == 43 && body.chars().all(|c| c.is_ascii_alphanumeric() || c == '+' || c == '/')
}
