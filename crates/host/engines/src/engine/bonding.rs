//! The bonding driver (Documentation/networking/bonding.rst).

use crate::group::{Group, Trouble};
use crate::operation::{DeviceKind, Operation};
use crate::port::Port;
use crate::words::words;
use crate::{Device, Feature};
use serde::{Deserialize, Serialize};
use std::net::Ipv4Addr;

/// Settings of a bond; a mode ignores those that it doesn't have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bonding {
    /// How frames are spread.
    pub mode: BondMode,
    /// What is hashed, in the modes that hash.
    pub hash: XmitHash,
    /// How a dead link is noticed.
    pub monitor: Monitor,
    /// The port to prefer, in the modes with one active port.
    pub primary: Option<Device>,
    /// When a primary that came back becomes active again.
    pub primary_reselect: PrimaryReselect,
    /// How often the other end is asked for LACP packets.
    pub lacp_rate: LacpRate,
    /// Fewest working ports for the bond to have a carrier (802.3ad).
    pub min_links: u32,
    /// Frames sent through one port before the next one's turn (balance-rr); 0 is random.
    pub packets_per_port: u32,
    /// IGMP reports sent after a failover, 0 to 255.
    pub resend_igmp: u8,
    /// Gratuitous ARPs (and neighbour advertisements) after a failover, 0 to 255.
    pub peer_notifications: u8,
}

words! {
    /// How a bond spreads frames.
    BondMode {
        /// In turn.
        BalanceRr = "balance-rr",
        /// Through one port; another when it fails.
        ActiveBackup = "active-backup",
        /// By hash.
        BalanceXor = "balance-xor",
        /// Each through all ports.
        Broadcast = "broadcast",
        /// By hash, negotiated with the other end by LACP (IEEE 802.1AX).
        Ieee8023ad = "802.3ad",
        /// Sends by load, receives through one port.
        BalanceTlb = "balance-tlb",
        /// Both directions by load, steering the other end's ARP table.
        BalanceAlb = "balance-alb",
    }
}

words! {
    /// What is hashed (`xmit_hash_policy`).
    XmitHash {
        /// MAC addresses.
        Layer2 = "layer2",
        /// MAC and IP addresses.
        Layer23 = "layer2+3",
        /// IP addresses and ports.
        Layer34 = "layer3+4",
        /// As layer2+3, for the packets inside a tunnel.
        Encap23 = "encap2+3",
        /// As layer3+4, for the packets inside a tunnel.
        Encap34 = "encap3+4",
        /// VLAN and source MAC address.
        VlanSrcmac = "vlan+srcmac",
    }
}

words! {
    /// When a primary that came back becomes active again.
    PrimaryReselect {
        /// At once.
        Always = "always",
        /// When it is faster.
        Better = "better",
        /// When the active one fails.
        Failure = "failure",
    }
}

words! {
    /// How often the other end is asked for LACP packets.
    LacpRate {
        /// Every 30 s.
        Slow = "slow",
        /// Every second.
        Fast = "fast",
    }
}

/// How a dead link is noticed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Monitor {
    /// By its carrier.
    Carrier {
        /// Milliseconds between checks (`miimon`).
        interval_ms: u32,
        /// Milliseconds that a link must be up before it is used.
        up_delay_ms: u32,
        /// Milliseconds that a link must be down before it counts as failed.
        down_delay_ms: u32,
    },
    /// By ARP requests to hosts behind it.
    Arp {
        /// Milliseconds between requests (`arp_interval`).
        interval_ms: u32,
        /// The hosts to ask; 1 to 16 (`BOND_MAX_ARP_TARGETS`).
        targets: Vec<Ipv4Addr>,
        /// Whether only their answers count, rather than any traffic (`arp_validate`).
        validate: bool,
    },
}

/// `BOND_MAX_ARP_TARGETS` of linux/net/bonding.h.
const MAX_ARP_TARGETS: usize = 16;

impl Default for Bonding {
    fn default() -> Bonding {
        Bonding {
            mode: BondMode::ActiveBackup,
            hash: XmitHash::Layer34,
            monitor: Monitor::Carrier { interval_ms: 100, up_delay_ms: 0, down_delay_ms: 0 },
            primary: None,
            primary_reselect: PrimaryReselect::Always,
            lacp_rate: LacpRate::Slow,
            min_links: 0,
            packets_per_port: 1,
            resend_igmp: 1,
            peer_notifications: 1,
        }
    }
}

impl BondMode {
    /// The kernel's number of it (`BOND_MODE_…`).
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// Whether it hashes.
    pub const fn hashes(self) -> bool {
        // balance-tlb hashes only with tlb_dynamic_lb off, which we never set.
        matches!(self, BondMode::BalanceXor | BondMode::Ieee8023ad)
    }

    /// Whether it has one active port, and so may prefer one.
    pub const fn has_active_port(self) -> bool {
        matches!(self, BondMode::ActiveBackup | BondMode::BalanceTlb | BondMode::BalanceAlb)
    }

    /// Whether ARP can watch its links.
    pub const fn takes_arp_monitor(self) -> bool {
        matches!(
            self,
            BondMode::BalanceRr
                | BondMode::ActiveBackup
                | BondMode::BalanceXor
                | BondMode::Broadcast
        )
    }
}

impl XmitHash {
    /// The kernel's number of it (`BOND_XMIT_POLICY_…`).
    pub const fn number(self) -> u8 {
        match self {
            XmitHash::Layer2 => 0,
            XmitHash::Layer34 => 1,
            XmitHash::Layer23 => 2,
            XmitHash::Encap23 => 3,
            XmitHash::Encap34 => 4,
            XmitHash::VlanSrcmac => 5,
        }
    }
}

pub(crate) fn check(bonding: &Bonding, group: &Group, found: &mut Vec<Trouble>) {
    if let Monitor::Arp { targets, .. } = &bonding.monitor {
        if !bonding.mode.takes_arp_monitor() {
            found.push(Trouble::new(
                "arp_targets",
                format!("{} can't watch its links by ARP", bonding.mode),
                "remove arp_targets: its links are watched by carrier",
            ));
        }
        if !(1..=MAX_ARP_TARGETS).contains(&targets.len()) {
            found.push(Trouble::new(
                "arp_targets",
                format!("{} ARP targets", targets.len()),
                "name 1 to 16",
            ));
        }
    }
    if let Some(primary) = &bonding.primary {
        if !bonding.mode.has_active_port() {
            found.push(Trouble::new(
                "primary",
                format!("{} uses all links equally: it has no primary", bonding.mode),
                "remove it, or choose active-backup, balance-tlb or balance-alb",
            ));
        }
        if !group.links.iter().any(|link| link.name == primary.as_str()) {
            found.push(Trouble::new(
                "primary",
                format!("there is no link {:?}", primary.as_str()),
                "name one of the group's links",
            ));
        }
    }
}

pub(crate) fn needs() -> Vec<Feature> {
    vec![Feature::Bonding]
}

pub(crate) fn operations(bonding: &Bonding, group: &Group, ports: &[Port]) -> Vec<Operation> {
    let bond = &group.name;
    let mut operations =
        vec![Operation::Create { device: bond.clone(), kind: DeviceKind::Bond(bonding.clone()) }];
    operations.extend(
        ports
            .iter()
            .map(|port| Operation::Enslave { device: port.device.clone(), master: bond.clone() }),
    );
    let preferred = bonding.primary.as_ref().map(Device::as_str);
    // By default the first that isn't on standby: over plain cables both ends must agree, but on
    // their own each takes the port whose carrier it saw first.
    let primary = match preferred {
        Some(name) => ports.iter().find(|port| port.link == name),
        None if bonding.mode.has_active_port() => {
            ports.iter().find(|port| !port.standby).or(ports.first())
        }
        None => None,
    };
    operations.extend(
        primary.map(|port| Operation::Primary { bond: bond.clone(), port: port.device.clone() }),
    );
    operations
}
