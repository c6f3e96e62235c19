//! The state of a running tunnel: the JSON of `GET /v1/status` and of `braid status --json`. Fields
//! are only ever added.

use crate::config::{Layer, Mode, Transport};
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr};

/// One running tunnel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Version of the program.
    pub version: String,
    /// The tunnel's network device.
    pub interface: String,
    /// Process id of the daemon.
    pub pid: u32,
    /// What the tunnel carries.
    pub layer: Layer,
    /// The scheduler's policy.
    pub mode: Mode,
    /// MTU of the device, bytes.
    pub mtu: u16,
    /// Packets lost at the device.
    #[serde(default)]
    pub drops: DeviceDrops,
    /// Seconds since the tunnel came up.
    pub uptime_s: f64,
    /// Where the tunnel listens (concentrator), else empty.
    pub listen: Vec<SocketAddr>,
    /// Homes are asked to move to another concentrator (concentrator).
    #[serde(default)]
    pub draining: bool,
    /// The configured links, including those that don't exist at the moment.
    pub links: Vec<LinkStatus>,
    /// What on the host works against the tunnel, in words: routes that bypass it, firewalls that
    /// refuse what it forwards.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// The same as `warnings`, in the same order, each with its kind.
    #[serde(default)]
    pub troubles: Vec<Trouble>,
    /// The other ends.
    pub peers: Vec<PeerStatus>,
    /// The host's name servers, if something is wrong with them or was changed.
    #[serde(default)]
    pub dns: DnsStatus,
    /// Where the traffic of the host and its LAN goes, with `default_route`.
    #[serde(default)]
    pub traffic: Option<Traffic>,
    /// The config's rules, in order.
    #[serde(default)]
    pub rules: Vec<RuleStatus>,
    /// TCP connections split at this end, if the config asks for it.
    #[serde(default)]
    pub split_tcp: Option<SplitTcpStatus>,
    /// The state of the fleet's registry, if there is a fleet.
    #[serde(default)]
    pub fleet: Option<FleetStatus>,
    /// The alerts in the config, and how their delivery goes.
    #[serde(default)]
    pub alerts: Vec<AlertStatus>,
}

/// A concentrator's view of its fleet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetStatus {
    /// Its name there.
    pub name: String,
    /// Whether the registry answered the last request.
    pub reachable: bool,
    /// Seconds since it last answered; `None` if it never has.
    pub reached_s: Option<u64>,
    /// Problems, in words.
    pub troubles: Vec<String>,
    /// Number of homes in the fleet, as last known.
    pub homes: u64,
    /// Number of concentrators in the fleet, as last known.
    pub concentrators: u64,
}

/// The deliveries of an alert.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AlertStatus {
    /// The alert's name in the config.
    pub name: String,
    /// Where its messages go, without secrets.
    pub to: String,
    /// Events waiting to be delivered.
    pub waiting: u64,
    /// Messages delivered.
    pub delivered: u64,
    /// Events that were never delivered: there were too many, or they were too old by the time
    /// delivery worked again.
    pub given_up: u64,
    /// Why the last attempt failed, in words, if it did.
    pub trouble: Option<String>,
    /// When a message was delivered last, Unix seconds.
    pub last_delivered_unix: Option<i64>,
    /// When delivery is tried next, if anything waits, Unix seconds.
    pub next_attempt_unix: Option<i64>,
}

/// One rule, and its counters since the tunnel came up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleStatus {
    /// Name in the config.
    pub name: String,
    /// Its line there.
    pub line: usize,
    /// What it does.
    pub does: RuleDoes,
    /// The link that a new connection would take, if the rule bypasses the tunnel.
    pub link: Option<String>,
    /// Whether it applies at this time of day.
    pub counts_now: bool,
    /// Connections that began under it.
    pub connections: u64,
    /// Packets sent by the initiators of these connections.
    pub packets: u64,
    /// Bytes of these packets.
    pub bytes: u64,
}

/// What a rule does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleDoes {
    /// Through the tunnel.
    Tunnel,
    /// Over a link, bypassing the tunnel.
    Direct,
    /// Refused.
    Block,
}

impl RuleDoes {
    /// The word used in JSON, metrics and tables.
    pub fn as_str(self) -> &'static str {
        match self {
            RuleDoes::Tunnel => "tunnel",
            RuleDoes::Direct => "direct",
            RuleDoes::Block => "block",
        }
    }
}

/// The proxy that splits TCP connections, and its counters since the tunnel came up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SplitTcpStatus {
    /// Whether it runs.
    pub running: bool,
    /// Open connections.
    pub open: u64,
    /// Connections that were split.
    pub accepted: u64,
    /// Connections whose other end couldn't be reached or refused; their clients were reset.
    pub unreachable: u64,
    /// Connections that were reset because there were too many.
    pub over_limit: u64,
    /// Connections ended by a reset from either side.
    pub reset: u64,
    /// Bytes sent into the tunnel.
    pub tx_bytes: u64,
    /// Bytes received out of the tunnel.
    pub rx_bytes: u64,
}

/// Where the traffic that is meant for the tunnel goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "goes")]
pub enum Traffic {
    /// Through the tunnel.
    Tunnel,
    /// Directly, because no peer answers.
    Direct {
        /// The link's name; `None` if the host's own routes decide.
        link: Option<String>,
    },
    /// Nowhere, because no peer answers and there is a kill switch.
    Blocked,
}

/// The name servers in use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DnsStatus {
    /// Those of the host's name servers that don't answer.
    pub silent: Vec<IpAddr>,
    /// Servers used instead: of silent ones, or of all if the config or a kill switch asks for
    /// that; at a concentrator, the servers to which homes' queries are passed on.
    pub instead: Vec<IpAddr>,
    /// Whether systemd-resolved uses the config's servers through the tunnel.
    #[serde(default)]
    pub by_resolved: bool,
}

/// Packets lost between this host and the tunnel's device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceDrops {
    /// On the way into the tunnel, because Braid didn't read them in time.
    pub not_fetched: u64,
    /// On the way out of the tunnel, because the kernel didn't take them.
    pub refused: u64,
    /// On the way into the tunnel, because their header was invalid.
    pub malformed: u64,
}

/// Something that works against the tunnel, or prevents a rule from working.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trouble {
    /// For programs.
    pub kind: TroubleKind,
    /// In words.
    pub text: String,
    /// A command that fixes it, or shows more about it.
    #[serde(default)]
    pub mend: Option<String>,
}

/// Kinds of [`Trouble`]; their names never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TroubleKind {
    /// A route makes the tunnel's traffic bypass it.
    RouteBeside,
    /// A default route refuses everything before the tunnel's routes apply.
    RouteRefuses,
    /// A firewall refuses what the tunnel forwards.
    Firewall,
    /// A rule's list can't be read or parsed: all of it is ignored.
    RuleFile,
    /// Rules for names don't work, or only for some.
    RuleNames,
    /// Names in several rules share an address: connections to it can't be told apart.
    RuleConflict,
    /// The rules have more distinct lists of links than `routing.link_marks` has room for.
    RuleMarks,
    /// A kind that a later version added.
    #[serde(other)]
    Other,
}

/// A link of this host as the system sees it, regardless of its paths.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkStatus {
    /// Name in the config.
    pub name: String,
    /// The network device, if the link is bound to one.
    pub interface: Option<String>,
    /// Whether its device exists and has an address.
    pub present: bool,
    /// Why it isn't used, in words; `None` if it is.
    pub trouble: Option<String>,
    /// The login page that its network requires first (a captive portal), if one was found.
    #[serde(default)]
    pub portal: Option<String>,
    /// Lower tiers are filled first (mode `overflow`, `active-backup`).
    pub tier: u8,
    /// Whether it is metered, which puts it one tier later than its config says.
    #[serde(default)]
    pub metered: bool,
    /// Used only when no other link works.
    pub standby: bool,
    /// Its allowance and use.
    pub quota: Option<QuotaStatus>,
}

/// A link's allowance and use in the current period.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QuotaStatus {
    /// Bytes allowed in a period.
    pub limit_bytes: u64,
    /// Bytes used since it began, both directions.
    pub used_bytes: u64,
    /// When the period began, seconds since 1970 UTC; absent until the clock is set.
    pub period_start_unix: Option<i64>,
    /// When it will end, in the same form.
    #[serde(default)]
    pub period_end_unix: Option<i64>,
}

/// One peer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PeerStatus {
    /// Name in the config.
    pub name: String,
    /// Curve25519 public key, base64.
    pub public_key: String,
    /// Whether a session exists and at least one path works.
    pub connected: bool,
    /// What is wrong between this host and the peer, in words: a join line that was used up, a key
    /// that two hosts have.
    #[serde(default)]
    pub trouble: Option<String>,
    /// The peer that currently stands in for it: packets to its addresses go there.
    #[serde(default)]
    pub served_by: Option<String>,
    /// The peer whose place it takes while that is silent.
    #[serde(default)]
    pub stands_in_for: Option<String>,
    /// The peer is draining (at home): another is preferred, if there is one.
    #[serde(default)]
    pub draining: bool,
    /// Whether the home says it is served here (at a concentrator); `None` if the home has no other
    /// concentrator, or predates this field.
    #[serde(default)]
    pub served_here: Option<bool>,
    /// The epoch of the home's statement: if two concentrators disagree, the higher one is right.
    #[serde(skip)]
    pub served_epoch: Option<u64>,
    /// Whether this concentrator is full and refused the home a moment ago, so that it looks for
    /// another.
    #[serde(default)]
    pub refused: bool,
    /// Whether its addresses are in `routing.announce_table`.
    #[serde(default)]
    pub announced: bool,
    /// Where it was last heard from.
    pub endpoint: Option<SocketAddr>,
    /// Seconds since the last handshake completed.
    pub last_handshake_s: Option<f64>,
    /// Bytes of inner packets delivered here.
    pub rx_bytes: u64,
    /// Bytes of inner packets accepted here.
    pub tx_bytes: u64,
    /// Inner packets from it that were dropped as malformed or as not from its addresses.
    #[serde(default)]
    pub refused_packets: u64,
    /// Inner packets from it to other homes that were dropped.
    #[serde(default)]
    pub isolated_packets: u64,
    /// Inner packets from it that were dropped as above its limit.
    #[serde(default)]
    pub over_limit_packets: u64,
    /// One path for each link (and remote address) in use.
    pub paths: Vec<PathStatus>,
    /// The queue at the tunnel's entry.
    pub queue: QueueStatus,
    /// Inner packets in the reorder buffers, waiting for an earlier one.
    pub reordering_packets: u64,
    /// Memory used for the peer, bytes.
    pub memory_bytes: u64,
    /// Losses on paths and their repair.
    pub repair: RepairStatus,
}

/// The queue at the tunnel's entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct QueueStatus {
    /// Bytes waiting.
    pub bytes: u64,
    /// Inner packets waiting.
    pub packets: u64,
    /// Inner packets dropped by the AQM since start.
    pub drops: u64,
    /// Inner packets ECN-marked by the AQM since start.
    pub marks: u64,
}

/// Losses and redundancy, counted since start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RepairStatus {
    /// Chunks sent again.
    pub retransmitted: u64,
    /// Datagrams lost on paths whose contents were sent again.
    pub repaired: u64,
    /// Chunks sent twice on purpose.
    pub duplicated: u64,
    /// Chunks rebuilt from erasure-code symbols.
    pub recovered: u64,
    /// Erasure-code symbols sent.
    pub parity_sent: u64,
    /// Inner packets given up (deadline passed).
    pub abandoned: u64,
    /// Received copies that were discarded.
    pub duplicates_received: u64,
}

/// State of a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PathState {
    /// Not answered yet.
    #[default]
    Probing,
    /// Carries data.
    Active,
    /// Silent under load; new data avoids it.
    Suspect,
    /// Silent for long, or its link is gone.
    Down,
    /// Works, but is kept in reserve.
    Standby,
    /// Works, but its quota is used up.
    OverQuota,
}

impl PathState {
    /// All states.
    pub const ALL: &[PathState] = &[
        PathState::Probing,
        PathState::Active,
        PathState::Suspect,
        PathState::Down,
        PathState::Standby,
        PathState::OverQuota,
    ];

    /// The word used in JSON, metrics and tables.
    pub fn as_str(self) -> &'static str {
        match self {
            PathState::Probing => "probing",
            PathState::Active => "active",
            PathState::Suspect => "suspect",
            PathState::Down => "down",
            PathState::Standby => "standby",
            PathState::OverQuota => "over_quota",
        }
    }
}

/// One path: a link to one address of the peer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PathStatus {
    /// The link's name (at the concentrator, the one the home gave it, or a number).
    pub link: String,
    /// The peer's address on it.
    pub remote: Option<SocketAddr>,
    /// The transport of its datagrams.
    #[serde(default)]
    pub transport: Transport,
    /// Its current state.
    pub state: PathState,
    /// The link's tier.
    pub tier: u8,
    /// Smoothed round-trip time, ms.
    pub srtt_ms: Option<f64>,
    /// Variation of round-trip times (RTTVAR of RFC 9002, section 5.3), ms.
    #[serde(default)]
    pub jitter_ms: Option<f64>,
    /// Recent minimum of round-trip times, ms.
    pub min_rtt_ms: Option<f64>,
    /// Minimum of the last ten minutes, ms.
    #[serde(default)]
    pub unloaded_rtt_ms: Option<f64>,
    /// One-way delay towards the peer minus that of the peer's fastest path, ms.
    pub one_way_delta_ms: Option<f64>,
    /// Delay in the link's own queue, as last seen, ms.
    #[serde(default)]
    pub queue_ms: Option<f64>,
    /// Recent sending rate, Mbit/s.
    pub rate_tx_mbps: Option<f64>,
    /// Recent receiving rate, Mbit/s.
    pub rate_rx_mbps: Option<f64>,
    /// Measured sending capacity of the path, Mbit/s; kept while nothing is sent.
    #[serde(default)]
    pub capacity_tx_mbps: Option<f64>,
    /// Share of recently sent packets that were lost, 0 to 1.
    pub loss: f64,
    /// Largest datagram payload that passes, bytes.
    pub mtu: u16,
    /// Bytes sent but not yet acknowledged.
    pub in_flight_bytes: u64,
    /// UDP payload bytes sent since start.
    pub tx_bytes: u64,
    /// UDP payload bytes received since start.
    pub rx_bytes: u64,
    /// Packets sent since start.
    pub tx_packets: u64,
    /// Packets received since start.
    pub rx_packets: u64,
    /// Packets lost since start.
    pub lost_packets: u64,
}
