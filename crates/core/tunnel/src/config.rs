//! What the tunnel is told to be.

use crate::heuristics::Heuristics;
use crate::routing::Room;
use crate::worker::Worker;
use braid_handshake::{PresharedKey, PrivateKey, PublicKey};
use braid_inner::{BondingHash, ClassRules, Layer};
use braid_units::{Rate, Ratio};
use ipnet::IpNet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// How packets are spread over the paths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Earliest delivery, repaired and in order.
    #[default]
    Adaptive,
    /// As `Adaptive`, higher tiers only when lower ones are full or down.
    Overflow,
    /// One packet a path in turn, as the kernel's bonding: no congestion
    /// control, no repair, no order.
    BalanceRr,
    /// The path by a hash of the packet, as the kernel's bonding.
    BalanceXor(BondingHash),
    /// One path until it dies, as the kernel's bonding.
    ActiveBackup,
    /// Every packet by every path, as the kernel's bonding (the copies are
    /// removed at the exit).
    Broadcast,
}

impl Mode {
    /// Congestion control, repair and order are the tunnel's.
    pub fn is_adaptive(self) -> bool {
        matches!(self, Self::Adaptive | Self::Overflow)
    }

    /// The mode's two bytes on the wire.
    pub fn to_wire(self) -> braid_wire::TunnelMode {
        let (mode, hash) = match self {
            Self::Adaptive => (0, 0),
            Self::Overflow => (1, 0),
            Self::BalanceRr => (2, 0),
            Self::BalanceXor(BondingHash::Layer2) => (3, 0),
            Self::BalanceXor(BondingHash::Layer23) => (3, 1),
            Self::BalanceXor(BondingHash::Layer34) => (3, 2),
            Self::ActiveBackup => (4, 0),
            Self::Broadcast => (5, 0),
        };
        braid_wire::TunnelMode { mode, hash }
    }

    /// The mode of these two bytes; `None` for one that we don't know.
    pub fn from_wire(wire: braid_wire::TunnelMode) -> Option<Self> {
        Some(match (wire.mode, wire.hash) {
            (0, 0) => Self::Adaptive,
            (1, 0) => Self::Overflow,
            (2, 0) => Self::BalanceRr,
            (3, 0) => Self::BalanceXor(BondingHash::Layer2),
            (3, 1) => Self::BalanceXor(BondingHash::Layer23),
            (3, 2) => Self::BalanceXor(BondingHash::Layer34),
            (4, 0) => Self::ActiveBackup,
            (5, 0) => Self::Broadcast,
            _ => return None,
        })
    }
}

/// Longer than a train is in a tunnel or a modem takes to start. Ours.
const PATH_EXPIRY: Duration = Duration::from_secs(600);

/// The whole tunnel.
#[derive(Debug)]
pub struct TunnelConfig {
    /// Our key.
    pub private_key: PrivateKey,
    /// IP packets or Ethernet frames.
    pub layer: Layer,
    /// How packets are spread, unless a class says otherwise.
    pub mode: Mode,
    /// Classes of traffic, and the mode of each.
    pub classes: ClassRules,
    /// The mode of each class, by its index.
    pub class_modes: Vec<Mode>,
    /// Memory for one peer's waiting, unacknowledged and unordered packets,
    /// in bytes.
    pub memory_per_peer: u64,
    /// The share of the paths' capacity that duplicates and parities may take.
    pub redundancy_budget: Ratio,
    /// Which heuristics are on; off only to see what they are worth.
    pub heuristics: Heuristics,
    /// Seeds everything random but keys.
    pub seed: u64,
    /// Nanoseconds since 1970 at [`braid_units::Time::ZERO`].
    pub epoch_unix_nanos: u64,
    /// So many peers may shake hands in a second without being asked for a
    /// cookie; what else is spent on initiations follows from it.
    pub handshakes_per_second: u32,
    /// Nothing goes from one peer to another.
    pub isolate_peers: bool,
    /// Homes' addresses are announced to routers where they are served: what a home sends that was
    /// taken over from a silent concentrator waits until [`Change::Announced`](crate::Change).
    pub announces: bool,
    /// How many homes are served, and how many may be: the same for all workers.
    pub room: Arc<Room>,
    /// Which of several this one is.
    pub worker: Worker,
    /// How long nothing may come by a path that a peer opened and that doesn't
    /// work, before it's closed. The peer may open it again.
    pub path_expiry: Duration,
}

impl TunnelConfig {
    /// The defaults, with this key.
    pub fn new(private_key: PrivateKey) -> Self {
        Self {
            private_key,
            layer: Layer::L3,
            mode: Mode::Adaptive,
            classes: ClassRules(Vec::new()),
            class_modes: Vec::new(),
            memory_per_peer: 32 << 20,
            redundancy_budget: Ratio::from_fraction(0.05),
            heuristics: Heuristics::ALL,
            seed: 0,
            epoch_unix_nanos: 0,
            handshakes_per_second: 50,
            isolate_peers: false,
            announces: false,
            room: Arc::default(),
            worker: Worker::ALONE,
            path_expiry: PATH_EXPIRY,
        }
    }
}

/// A peer.
#[derive(Debug, Clone)]
pub struct PeerConfig {
    /// Its key.
    pub public_key: PublicKey,
    /// A further shared secret.
    pub preshared_key: Option<PresharedKey>,
    /// Where to reach it; empty where it has to come to us.
    pub endpoints: Vec<SocketAddr>,
    /// Inner addresses that are behind it.
    pub allowed_ips: Vec<IpNet>,
    /// An idle path is kept open by a packet this often.
    pub keepalive: Option<Duration>,
    /// Send to the peer in the mode that it asks for.
    pub follow_mode: bool,
}

impl PeerConfig {
    /// One that has this key and calls us, and nothing else.
    pub fn new(public_key: PublicKey) -> PeerConfig {
        PeerConfig {
            public_key,
            preshared_key: None,
            endpoints: Vec::new(),
            allowed_ips: Vec::new(),
            keepalive: None,
            follow_mode: false,
        }
    }

    /// We call the peer and open the paths to it, one for each of our links; else it
    /// does.
    pub(crate) fn opens_paths(&self) -> bool {
        !self.endpoints.is_empty()
    }
}

/// A link as the user wants it used. What concerns receiving is told to the
/// peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkConfig {
    /// Lower tiers are used first (mode `overflow`; in others only for
    /// standby).
    pub tier: u8,
    /// Only when nothing else works.
    pub standby: bool,
    /// Send no faster.
    pub cap_up: Option<Rate>,
    /// The peer sends no faster.
    pub cap_down: Option<Rate>,
    /// Largest IP packet that the link's device takes.
    pub device_mtu: u16,
    /// It has an IPv4 address.
    pub ipv4: bool,
    /// It has an IPv6 address.
    pub ipv6: bool,
    /// Peers may come to us by it, and new ones are answered by it.
    pub listens: bool,
}

impl Default for LinkConfig {
    fn default() -> Self {
        Self {
            tier: 0,
            standby: false,
            cap_up: None,
            cap_down: None,
            device_mtu: 1500,
            ipv4: true,
            ipv6: true,
            listens: false,
        }
    }
}
