use braid_control::config::Config;
use braid_control::measured::Measured;
use braid_control::status::Status;
use braid_history::Event;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// All observations, at one moment or between two.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The config.
    pub config: Config,
    /// The tunnel's status; `None` if it isn't running.
    pub status: Option<Status>,
    /// The status [`Facts::between`] earlier.
    pub earlier: Option<Status>,
    /// The time from the earlier look to this one.
    pub between: Duration,
    /// The host that it runs on.
    pub host: HostFacts,
    /// Recent events.
    pub events: Vec<Event>,
    /// The results of a measurement, if one was requested.
    pub measured: Option<Measured>,
    /// The current time, Unix seconds.
    pub now: i64,
}

/// The host. Unknown facts are `None` or absent.
#[derive(Clone, Debug, Default)]
pub struct HostFacts {
    /// Whether `/dev/net/tun` exists.
    pub has_tun: bool,
    /// Whether `nft` is installed.
    pub has_nft: bool,
    /// Version of the kernel.
    pub kernel: Option<(u32, u32)>,
    /// One for each link in the config, in its order.
    pub links: Vec<LinkFacts>,
    /// Where datagrams to endpoints and DNS queries would go.
    pub routes: RouteFacts,
    /// Names of endpoints that have no address.
    pub unknown_endpoints: Vec<String>,
    /// Whether the host forwards IPv4, and IPv6.
    pub forwarding: Option<(bool, bool)>,
    /// Whether the kernel considers the clock synchronised (adjtimex(2)).
    pub clock_synchronized: Option<bool>,
    /// Number of tracked connections, and its maximum.
    pub conntrack: Option<(u64, u64)>,
    /// Free bytes in the state folder.
    pub state_free_bytes: Option<u64>,
    /// Counters now.
    pub counters: Counters,
    /// Counters at the earlier look.
    pub earlier_counters: Counters,
    /// Processor load between the two looks.
    pub load: Option<Load>,
}

/// Counters that only grow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Datagrams dropped because a socket's buffer was full (`RcvbufErrors`).
    pub udp_receive_buffer: u64,
    /// Errors of each link's card, in the config's order.
    pub card_errors: Vec<u64>,
}

/// Processor load; all values are shares of time, 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Load {
    /// Share that the daemon's busiest thread was running.
    pub busiest_thread: f64,
    /// Share that this thread waited for a processor.
    pub waited: f64,
    /// Load of all processors.
    pub all: f64,
    /// Share that the hypervisor took away (steal time).
    pub stolen: f64,
}

/// One link's device, as the kernel has it.
#[derive(Clone, Debug, Default)]
pub struct LinkFacts {
    /// The link's name in the config.
    pub name: String,
    /// Its device, if known.
    pub device: Option<String>,
    /// Whether it exists.
    pub exists: bool,
    /// Whether it is up.
    pub up: bool,
    /// Whether it has a carrier.
    pub carrier: bool,
    /// Its MTU, bytes.
    pub mtu: u32,
    /// Its addresses, with the length of the network's prefix.
    pub addresses: Vec<(IpAddr, u8)>,
    /// Its routers.
    pub gateways: Vec<IpAddr>,
    /// Whether it is point-to-point, such as a modem's or a tunnel's device.
    pub is_point_to_point: bool,
    /// Its kind, unless it is a network card: `tun`, `wireguard`, …
    pub kind: Option<String>,
    /// The effective `rp_filter`: 0 off, 1 strict, 2 loose.
    pub rp_filter: u8,
    /// A card's speed, Mbit/s, if it reports one.
    pub speed_mbps: Option<u32>,
    /// Whether a card runs at full duplex, if it reports that.
    pub full_duplex: Option<bool>,
}

/// The host's routing.
#[derive(Clone, Debug, Default)]
pub struct RouteFacts {
    /// Endpoints whose datagrams would go into the tunnel itself.
    pub endpoints_into_tunnel: Vec<SocketAddr>,
    /// Name servers queried outside the tunnel, and the device used.
    pub names_beside: Vec<(IpAddr, String)>,
    /// Devices with a global IPv6 address.
    pub ipv6_devices: Vec<String>,
    /// Devices of IPv6 default routes, including the tunnel's.
    pub ipv6_default: Vec<String>,
}

impl Facts {
    /// Growth of a status counter between the looks, per second.
    pub(crate) fn growth(&self, of: impl Fn(&Status) -> u64) -> f64 {
        let (Some(now), Some(earlier)) = (&self.status, &self.earlier) else { return 0.0 };
        let seconds = self.between.as_secs_f64();
        if seconds <= 0.0 {
            return 0.0;
        }
        of(now).saturating_sub(of(earlier)) as f64 / seconds
    }
}
