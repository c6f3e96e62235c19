//! What a running tunnel tells of itself: the JSON of `GET /v1/status` and of
//! `braid status --json`. Fields are only ever added.

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
    /// What the device lost.
    #[serde(default)]
    pub drops: DeviceDrops,
    /// Seconds since the tunnel came up.
    pub uptime_s: f64,
    /// Where the tunnel listens (concentrator), else empty.
    pub listen: Vec<SocketAddr>,
    /// Homes are asked to go to another concentrator (concentrator).
    #[serde(default)]
    pub draining: bool,
    /// Configured links, also those that don't exist just now.
    pub links: Vec<LinkStatus>,
    /// What works against the tunnel on the host, in words: routes that pass it by,
    /// firewalls that refuse what it forwards.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// The same in the same order, each with its kind.
    #[serde(default)]
    pub troubles: Vec<Trouble>,
    /// The other ends.
    pub peers: Vec<PeerStatus>,
    /// The host's name servers, where something is amiss or changed about them.
    #[serde(default)]
    pub dns: DnsStatus,
    /// Where the host's and its LAN's traffic goes, with `default_route`.
    #[serde(default)]
    pub traffic: Option<Traffic>,
    /// The config's rules, in order.
    #[serde(default)]
    pub rules: Vec<RuleStatus>,
    /// TCP connections that are split at this end, where the config asks for it.
    #[serde(default)]
    pub split_tcp: Option<SplitTcpStatus>,
    /// How the fleet's registry is, where there is a fleet.
    #[serde(default)]
    pub fleet: Option<FleetStatus>,
    /// Those who are told of events, as the config names them.
    #[serde(default)]
    pub alerts: Vec<AlertStatus>,
}

/// A concentrator's part in its fleet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetStatus {
    /// Its name there.
    pub name: String,
    /// The registry answered when it was last asked.
    pub reachable: bool,
    /// Seconds since it last did; none if it never has.
    pub reached_s: Option<u64>,
    /// What is amiss, in words.
    pub troubles: Vec<String>,
    /// Homes that the fleet has, as last known.
    pub homes: u64,
    /// Concentrators that it has, as last known.
    pub concentrators: u64,
}

/// How telling somebody goes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AlertStatus {
    /// The alert's name in the config.
    pub name: String,
    /// Where its messages go, without what is secret.
    pub to: String,
    /// Events waiting to be delivered.
    pub waiting: u64,
    /// Messages that were delivered.
    pub delivered: u64,
    /// Events that nobody was told of: too many, or too old when there was a way out.
    pub given_up: u64,
    /// Why the last attempt failed, in words, if it did.
    pub trouble: Option<String>,
    /// When a message was delivered last, Unix seconds.
    pub last_delivered_unix: Option<i64>,
    /// When it is tried next, where something waits, Unix seconds.
    pub next_attempt_unix: Option<i64>,
}

/// One rule, and what it did since the tunnel came up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleStatus {
    /// Name in the config.
    pub name: String,
    /// Its line there.
    pub line: usize,
    /// What it does.
    pub does: RuleDoes,
    /// The link that a new connection would take, of a rule that sends them beside the tunnel.
    pub link: Option<String>,
    /// Whether it counts at this time of day.
    pub counts_now: bool,
    /// Connections that began by it.
    pub connections: u64,
    /// Packets that those sent who began them.
    pub packets: u64,
    /// Bytes of these.
    pub bytes: u64,
}

/// What a rule does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleDoes {
    /// Through the tunnel.
    Tunnel,
    /// Beside it, by a link.
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

/// What the proxy that splits TCP connections did since the tunnel came up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SplitTcpStatus {
    /// Whether it runs.
    pub running: bool,
    /// Connections now.
    pub open: u64,
    /// Connections that were split.
    pub accepted: u64,
    /// Whose other end couldn't be reached, or refused: their clients were reset.
    pub unreachable: u64,
    /// That were reset since there were too many.
    pub over_limit: u64,
    /// That a reset of either side ended.
    pub reset: u64,
    /// Bytes that they sent into the tunnel.
    pub tx_bytes: u64,
    /// Bytes that came for them out of the tunnel.
    pub rx_bytes: u64,
}

/// Where traffic goes that the tunnel is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "goes")]
pub enum Traffic {
    /// Through it.
    Tunnel,
    /// Beside it, as no peer answers.
    Direct {
        /// The link's name; none where the host's own routes decide.
        link: Option<String>,
    },
    /// Nowhere, as no peer answers and there is a kill switch.
    Blocked,
}

/// Who answers questions for names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DnsStatus {
    /// Those of the host's name servers that don't answer.
    pub silent: Vec<IpAddr>,
    /// Those that are asked in place of others: silent ones, or all where the
    /// config or a kill switch asks for that; at a concentrator those that homes
    /// are passed on to.
    pub instead: Vec<IpAddr>,
    /// systemd-resolved asks the config's through the tunnel.
    #[serde(default)]
    pub by_resolved: bool,
}

/// Packets that were lost between this host and the tunnel's device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceDrops {
    /// On the way into the tunnel, because it didn't fetch them in time.
    pub not_fetched: u64,
    /// Out of the tunnel, because the kernel didn't take them.
    pub refused: u64,
    /// Into the tunnel, with a header that makes no sense.
    pub malformed: u64,
}

/// What works against the tunnel, or keeps a rule from holding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trouble {
    /// For programs.
    pub kind: TroubleKind,
    /// In words.
    pub text: String,
    /// A command that mends it, or shows more of it.
    #[serde(default)]
    pub mend: Option<String>,
}

/// Kinds of [`Trouble`]; they stay as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TroubleKind {
    /// A route leads past the tunnel what is the tunnel's.
    RouteBeside,
    /// A default route refuses all before the tunnel is asked.
    RouteRefuses,
    /// A firewall refuses what the tunnel forwards.
    Firewall,
    /// A list of a rule can't be read, or not understood: nothing of it counts.
    RuleFile,
    /// Rules for names hold for nothing, or not for all.
    RuleNames,
    /// Names of several rules have one address: connections to it can't be told apart.
    RuleConflict,
    /// There are more lists of links than `routing.link_marks` has room for.
    RuleMarks,
    /// One that came with a later version.
    #[serde(other)]
    Other,
}

/// A link of this host as the system sees it, whatever its paths do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkStatus {
    /// Name in the config.
    pub name: String,
    /// The network device, where the link is tied to one.
    pub interface: Option<String>,
    /// Whether its device and an address are there.
    pub present: bool,
    /// Why it isn't used, in words, if so.
    pub trouble: Option<String>,
    /// The page that its network wants to be seen first (a captive portal), if one was found.
    #[serde(default)]
    pub portal: Option<String>,
    /// Lower tiers are filled first (mode `overflow`, `active-backup`).
    pub tier: u8,
    /// Metered, and so one tier further than its config says.
    #[serde(default)]
    pub metered: bool,
    /// Used only when no other link works.
    pub standby: bool,
    /// Allowance and what was used of it.
    pub quota: Option<QuotaStatus>,
}

/// A link's allowance in the running period.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QuotaStatus {
    /// Bytes allowed in a period.
    pub limit_bytes: u64,
    /// Bytes used since it began, both directions.
    pub used_bytes: u64,
    /// When the period began, seconds since 1970 UTC; absent while the clock is
    /// not set.
    pub period_start_unix: Option<i64>,
    /// When it will end, as above.
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
    /// A session exists and at least one path works.
    pub connected: bool,
    /// What is amiss between this host and the peer, in words: a join line that
    /// lets nobody in, a key that two hosts have.
    #[serde(default)]
    pub trouble: Option<String>,
    /// The peer that stands in for it just now: packets to its addresses go there.
    #[serde(default)]
    pub served_by: Option<String>,
    /// Whose place it takes while that is silent.
    #[serde(default)]
    pub stands_in_for: Option<String>,
    /// It is about to go (home): another one is better, if there is one.
    #[serde(default)]
    pub draining: bool,
    /// Whether the home is served here, as it says (concentrator); none of a home that has no other
    /// concentrator, or is older than that.
    #[serde(default)]
    pub served_here: Option<bool>,
    /// With which word of the home: the higher of two is right.
    #[serde(skip)]
    pub served_epoch: Option<u64>,
    /// This concentrator is full, and refused the home a moment ago: it looks for another.
    #[serde(default)]
    pub refused: bool,
    /// Its addresses are in `routing.announce_table`.
    #[serde(default)]
    pub announced: bool,
    /// Where it was last heard from.
    pub endpoint: Option<SocketAddr>,
    /// Seconds since the last handshake was completed.
    pub last_handshake_s: Option<f64>,
    /// Bytes of inner packets delivered here.
    pub rx_bytes: u64,
    /// Bytes of inner packets taken from here.
    pub tx_bytes: u64,
    /// Inner packets from it that were dropped: not from its addresses, or
    /// broken.
    #[serde(default)]
    pub refused_packets: u64,
    /// Inner packets from it to other homes that were dropped.
    #[serde(default)]
    pub isolated_packets: u64,
    /// Inner packets from it above its limit that were dropped.
    #[serde(default)]
    pub over_limit_packets: u64,
    /// One for each link (and remote address) in use.
    pub paths: Vec<PathStatus>,
    /// The queue at the entry.
    pub queue: QueueStatus,
    /// Inner packets in the reorder buffers, waiting for an earlier one.
    pub reordering_packets: u64,
    /// Memory held for the peer, bytes.
    pub memory_bytes: u64,
    /// Losses on paths and what became of them.
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
    /// Copies thrown away on arrival.
    pub duplicates_received: u64,
}

/// State of a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PathState {
    /// Not yet answered.
    #[default]
    Probing,
    /// Carries data.
    Active,
    /// Silent under load; new data avoids it.
    Suspect,
    /// Long silent, or its link is away.
    Down,
    /// Works, waits for its turn.
    Standby,
    /// Works, but its quota is used up.
    OverQuota,
}

impl PathState {
    /// All there are.
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
    /// What its datagrams go by.
    #[serde(default)]
    pub transport: Transport,
    /// What it does just now.
    pub state: PathState,
    /// The link's tier.
    pub tier: u8,
    /// Smoothed round-trip time, ms.
    pub srtt_ms: Option<f64>,
    /// How much round-trip times vary (RTTVAR of RFC 9002, section 5.3), ms.
    #[serde(default)]
    pub jitter_ms: Option<f64>,
    /// Lowest round-trip time lately, ms.
    pub min_rtt_ms: Option<f64>,
    /// Lowest of the last ten minutes, ms.
    #[serde(default)]
    pub unloaded_rtt_ms: Option<f64>,
    /// One-way delay towards the peer over that of the peer's fastest path, ms.
    pub one_way_delta_ms: Option<f64>,
    /// What waits in the link's own queue, as last seen, ms.
    #[serde(default)]
    pub queue_ms: Option<f64>,
    /// Sent lately, Mbit/s.
    pub rate_tx_mbps: Option<f64>,
    /// Received lately, Mbit/s.
    pub rate_rx_mbps: Option<f64>,
    /// What the path was found to carry of what is sent, Mbit/s: stays when nothing is sent.
    #[serde(default)]
    pub capacity_tx_mbps: Option<f64>,
    /// Share of sent packets lost lately, 0 to 1.
    pub loss: f64,
    /// Largest datagram payload that passes, bytes.
    pub mtu: u16,
    /// Bytes sent and not yet acknowledged.
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
