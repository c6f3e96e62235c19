//! A change to the host, for a tunnel or for a group of links, and its undo.

mod firewall;
mod route;
mod rule;

pub use firewall::{FirewallTable, NamedRules};
pub use route::{MAIN_TABLE, Route, RouteKind};
pub use rule::{Rule, RuleAction};

use crate::{Bonding, Device, Family, Feature, Resilient};
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use std::fmt::{self, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU8;
use std::path::PathBuf;

/// A change to the host. Journals contain it (serde), so a renamed variant or field needs an alias.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// Loads a kernel module, which creates a device; the module stays.
    Module {
        /// Its name.
        name: String,
        /// The device that it creates.
        provides: Device,
    },
    /// Sets a kernel setting.
    Sysctl {
        /// Its path below `/proc/sys`.
        key: String,
        /// The value to set.
        value: String,
    },
    /// Switches forwarding of an IP version on, for all devices; what the kernel changes
    /// along with it stays as it was.
    Forwarding(Family),
    /// Creates a network device.
    Create {
        /// Its name.
        device: Device,
        /// What it is.
        kind: DeviceKind,
    },
    /// Sets a device's MTU.
    Mtu {
        /// The device.
        device: Device,
        /// Bytes.
        mtu: u32,
    },
    /// Makes a device a port of another one. It is set down for a moment, as the bonding driver
    /// requires.
    Enslave {
        /// The port.
        device: Device,
        /// What it becomes a port of.
        master: Device,
    },
    /// Sets the port that a bond prefers.
    Primary {
        /// The bond.
        bond: Device,
        /// One of its ports.
        port: Device,
    },
    /// Sets a device up.
    Up {
        /// The device.
        device: Device,
    },
    /// Sets a device down.
    Down {
        /// The device.
        device: Device,
    },
    /// Gives a device an address.
    Address {
        /// The device, also `lo`.
        #[serde(alias = "interface")]
        device: String,
        /// The address and its network.
        net: IpNet,
    },
    /// Adds a link to a TEQL device.
    Teql {
        /// The link.
        device: Device,
        /// The TEQL device.
        teql: Device,
    },
    /// Creates a next-hop object.
    NextHop {
        /// Its number.
        id: u32,
        /// By which device.
        device: Device,
        /// The router that it uses; `None` on a point-to-point link.
        gateway: Option<IpAddr>,
        /// Whether it is for IPv6, if it has no gateway.
        v6: bool,
        /// The router is on the link even if none of our addresses implies that.
        on_link: bool,
    },
    /// Creates a group of next-hop objects.
    NextHopGroup {
        /// Its number.
        id: u32,
        /// The next hops.
        members: Vec<Member>,
        /// Keeps flows on their links.
        resilient: Option<Resilient>,
    },
    /// Sets a route.
    Route(Route),
    /// Sets a policy rule.
    Rule(Rule),
    /// Creates an nftables table of our own.
    Firewall(FirewallTable),
    /// Puts a rule into the chain that Docker keeps for others' rules.
    DockerUser {
        /// The IP version.
        family: Family,
        /// The rule, as iptables writes it.
        rule: String,
    },
    /// Sets the limits of MPTCP's path manager.
    MptcpLimits {
        /// Maximum subflows of a connection besides its first.
        subflows: u8,
        /// Maximum number of accepted addresses that the other end announces.
        add_addr_accepted: u8,
    },
    /// Adds an address to MPTCP's path manager.
    MptcpEndpoint {
        /// Its number.
        id: u8,
        /// The address.
        address: IpAddr,
        /// By which device.
        device: Device,
        /// Subflows are opened from it.
        subflow: bool,
        /// It is announced to the other end.
        signal: bool,
        /// Used only when nothing else works.
        backup: bool,
        /// Opens a subflow to each address of the other end.
        fullmesh: bool,
    },
    /// Writes a file.
    File {
        /// Where.
        path: PathBuf,
        /// What.
        contents: String,
        /// Its permissions.
        mode: u32,
    },
    /// Starts a long-running program.
    Process {
        /// Its process name in the kernel.
        name: String,
        /// The program and its arguments.
        argv: Vec<String>,
        /// Its pid file.
        pid_file: PathBuf,
        /// The device that it creates soon after its start, if any.
        provides: Option<Device>,
    },
}

/// What a network device is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceKind {
    /// A bond.
    Bond(Bonding),
    /// Ethernet in GRE.
    Gretap {
        /// Our end.
        local: IpAddr,
        /// The other end.
        remote: IpAddr,
        /// Distinguishes tunnels between the same addresses.
        key: u32,
        /// The device that its packets leave by.
        via: Option<Device>,
    },
    /// Ethernet in UDP.
    Vxlan {
        /// VXLAN network identifier.
        id: u32,
        /// Our end.
        local: IpAddr,
        /// The other end.
        remote: IpAddr,
        /// UDP port.
        port: u16,
        /// The device that its packets leave by.
        via: Device,
    },
    /// A WireGuard tunnel with one peer.
    WireGuard {
        /// File with our private key, base64.
        private_key_file: PathBuf,
        /// UDP port.
        port: u16,
        /// The other end's public key, base64.
        peer_public_key: String,
        /// Where the other end is.
        endpoint: SocketAddr,
        /// Mark of its packets.
        mark: u32,
    },
}

/// A next hop in a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// The next hop's number.
    pub id: u32,
    /// Its share.
    pub weight: NonZeroU8,
}

/// How an operation is undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undo {
    /// Delete what was created (a device, route, rule, file, table…).
    Delete,
    /// Restore the previous value (a sysctl, an MTU, up or down…).
    Restore,
    /// Stop the program.
    Stop,
    /// Nothing: another undo removes it, or it does no harm.
    Nothing,
}

impl Operation {
    /// A firewall table with these chains, in nft's language.
    pub(crate) fn firewall(group: &Device, chains: &str) -> Operation {
        Operation::Firewall(FirewallTable::of(group.to_string(), chains))
    }

    /// How to undo it.
    pub fn undo(&self) -> Undo {
        match self {
            Operation::Module { .. } | Operation::Primary { .. } => Undo::Nothing,
            Operation::Sysctl { .. }
            | Operation::Forwarding(_)
            | Operation::Mtu { .. }
            | Operation::Up { .. }
            | Operation::Down { .. }
            | Operation::MptcpLimits { .. } => Undo::Restore,
            Operation::Process { .. } => Undo::Stop,
            Operation::Create { .. }
            | Operation::Enslave { .. }
            | Operation::Address { .. }
            | Operation::Teql { .. }
            | Operation::NextHop { .. }
            | Operation::NextHopGroup { .. }
            | Operation::Route(_)
            | Operation::Rule(_)
            | Operation::Firewall(_)
            | Operation::DockerUser { .. }
            | Operation::MptcpEndpoint { .. }
            | Operation::File { .. } => Undo::Delete,
        }
    }

    /// What the host lacks if this isn't supported.
    pub fn needs(&self) -> Option<Feature> {
        match self {
            Operation::Module { .. } | Operation::Teql { .. } => Some(Feature::Teql),
            Operation::Create { kind, .. } => Some(match kind {
                DeviceKind::Bond(_) => Feature::Bonding,
                DeviceKind::Gretap { .. } => Feature::Gretap,
                DeviceKind::Vxlan { .. } => Feature::Vxlan,
                DeviceKind::WireGuard { .. } => Feature::WireGuard,
            }),
            Operation::NextHopGroup { resilient: Some(_), .. } => Some(Feature::ResilientNextHops),
            Operation::NextHop { .. } | Operation::NextHopGroup { .. } => Some(Feature::NextHops),
            Operation::Rule(_) => Some(Feature::PolicyRouting),
            Operation::MptcpLimits { .. } | Operation::MptcpEndpoint { .. } => Some(Feature::Mptcp),
            Operation::Sysctl { key, .. } if key.starts_with("net/mptcp/") => Some(Feature::Mptcp),
            Operation::Process { name, .. } => {
                [Feature::Teamd, Feature::Pppd, Feature::PppoeServer]
                    .into_iter()
                    .find(|feature| feature.as_str() == name)
            }
            Operation::Firewall(_) => Some(Feature::Nftables),
            _ => None,
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Operation::Module { name, .. } => write!(f, "module {name}"),
            Operation::Sysctl { key, value } => {
                write!(f, "sysctl {}={value}", key.replace('/', "."))
            }
            Operation::Forwarding(family) => {
                write!(f, "sysctl {}=1", forwarding_switch(*family).replace('/', "."))
            }
            Operation::Create { device, kind } => write!(f, "{} {device}", kind.word()),
            Operation::Mtu { device, mtu } => write!(f, "MTU {mtu} of {device}"),
            Operation::Enslave { device, master } => write!(f, "{device} as port of {master}"),
            Operation::Primary { bond, port } => write!(f, "{port} as primary of {bond}"),
            Operation::Up { device } => write!(f, "{device} up"),
            Operation::Down { device } => write!(f, "{device} down"),
            Operation::Address { device, net } => write!(f, "address {net} dev {device}"),
            Operation::Teql { device, teql } => write!(f, "{device} as link of {teql}"),
            Operation::NextHop { id, device, .. } => write!(f, "next hop {id} dev {device}"),
            Operation::NextHopGroup { id, members, .. } => {
                write!(f, "group {id} of {} next hops", members.len())
            }
            Operation::Route(route) => route.fmt(f),
            Operation::Rule(rule) => rule.fmt(f),
            Operation::Firewall(table) => {
                write!(f, "nftables table inet {}", nft_table(&table.interface))
            }
            Operation::DockerUser { family, rule } => {
                write!(f, "{} -I DOCKER-USER {rule}", iptables(*family))
            }
            Operation::MptcpLimits { subflows, .. } => {
                write!(f, "MPTCP limit of {subflows} subflows")
            }
            Operation::MptcpEndpoint { address, device, .. } => {
                write!(f, "MPTCP endpoint {address} dev {device}")
            }
            Operation::File { path, .. } => write!(f, "file {}", path.display()),
            Operation::Process { argv, .. } => write!(f, "program {}", argv.join(" ")),
        }
    }
}

impl DeviceKind {
    /// The kernel's word for it (`IFLA_INFO_KIND`).
    pub fn word(&self) -> &'static str {
        match self {
            DeviceKind::Bond(_) => "bond",
            DeviceKind::Gretap { local, .. } => match local.is_ipv6() {
                true => "ip6gretap",
                false => "gretap",
            },
            DeviceKind::Vxlan { .. } => "vxlan",
            DeviceKind::WireGuard { .. } => "wireguard",
        }
    }
}

/// The name of a tunnel's or group's nftables table: letters, digits and `_` as they are,
/// other bytes as `.` and two hex digits, so that different interfaces never share one.
pub fn nft_table(interface: &str) -> String {
    let mut name = String::from("braid_");
    for byte in interface.bytes() {
        match byte {
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'_' => name.push(byte.into()),
            // Writing to a String can't fail.
            _ => _ = write!(name, ".{byte:02x}"),
        }
    }
    name
}

/// The iptables program for an IP version, as Docker uses it.
pub fn iptables(family: Family) -> &'static str {
    match family {
        Family::V4 => "iptables",
        Family::V6 => "ip6tables",
    }
}

/// The setting that switches an IP version's forwarding, below `/proc/sys`.
pub fn forwarding_switch(family: Family) -> &'static str {
    match family {
        Family::V4 => "net/ipv4/ip_forward",
        Family::V6 => "net/ipv6/conf/all/forwarding",
    }
}
