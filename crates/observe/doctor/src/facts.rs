use braid_control::config::Config;
use braid_control::measured::Measured;
use braid_control::status::Status;
use braid_history::Event;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// All that was seen, at one moment or between two.
#[derive(Clone, Debug)]
pub struct Facts {
    /// What is asked for.
    pub config: Config,
    /// The tunnel as it is; none when it doesn't run.
    pub status: Option<Status>,
    /// The same, [`Facts::between`] earlier.
    pub earlier: Option<Status>,
    /// The time from the earlier look to this one.
    pub between: Duration,
    /// The host around it.
    pub host: HostFacts,
    /// What happened lately.
    pub events: Vec<Event>,
    /// What a measurement found, where one was asked for.
    pub measured: Option<Measured>,
    /// Unix seconds.
    pub now: i64,
}

/// The host. What couldn't be found out is none, or absent.
#[derive(Clone, Debug, Default)]
pub struct HostFacts {
    /// `/dev/net/tun` is there.
    pub has_tun: bool,
    /// `nft` is there.
    pub has_nft: bool,
    /// Version of the kernel.
    pub kernel: Option<(u32, u32)>,
    /// Of each link of the config, in its order.
    pub links: Vec<LinkFacts>,
    /// Where datagrams to endpoints, and questions for names, would go.
    pub routes: RouteFacts,
    /// Names of endpoints that have no address.
    pub unknown_endpoints: Vec<String>,
    /// The host forwards IPv4; IPv6.
    pub forwarding: Option<(bool, bool)>,
    /// The kernel holds the clock for right (adjtimex(2)).
    pub clock_synchronized: Option<bool>,
    /// Connections that are tracked, and how many can be.
    pub conntrack: Option<(u64, u64)>,
    /// Bytes that are free where the state is kept.
    pub state_free_bytes: Option<u64>,
    /// Counters now.
    pub counters: Counters,
    /// Counters at the earlier look.
    pub earlier_counters: Counters,
    /// How busy the processors were between the looks.
    pub load: Option<Load>,
}

/// What grows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Datagrams dropped since a socket's buffer was full (`RcvbufErrors`).
    pub udp_receive_buffer: u64,
    /// Errors of each link's card, in the config's order.
    pub card_errors: Vec<u64>,
}

/// Shares of time, 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Load {
    /// That the busiest thread of the daemon ran.
    pub busiest_thread: f64,
    /// That the same thread waited for a processor.
    pub waited: f64,
    /// Of all processors.
    pub all: f64,
    /// That the hypervisor took away.
    pub stolen: f64,
}

/// One link's device, as the kernel has it.
#[derive(Clone, Debug, Default)]
pub struct LinkFacts {
    /// The link's name in the config.
    pub name: String,
    /// The device that it leaves by, where one is known.
    pub device: Option<String>,
    /// It is there.
    pub exists: bool,
    /// It is switched on.
    pub up: bool,
    /// It has a carrier.
    pub carrier: bool,
    /// Its MTU, bytes.
    pub mtu: u32,
    /// Its addresses, with the length of the network's prefix.
    pub addresses: Vec<(IpAddr, u8)>,
    /// Its routers.
    pub gateways: Vec<IpAddr>,
    /// It goes straight to the other side, as a modem's or a tunnel's device does.
    pub is_point_to_point: bool,
    /// Of which kind it is, where it is no card: `tun`, `wireguard`, …
    pub kind: Option<String>,
    /// `rp_filter` that counts: 0 off, 1 strict, 2 loose.
    pub rp_filter: u8,
    /// Mbit/s, of cards that know it.
    pub speed_mbps: Option<u32>,
    /// Both ways at once, of cards that know it.
    pub full_duplex: Option<bool>,
}

/// What the host's routing says.
#[derive(Clone, Debug, Default)]
pub struct RouteFacts {
    /// Endpoints whose datagrams would go into the tunnel itself.
    pub endpoints_into_tunnel: Vec<SocketAddr>,
    /// Name servers that are asked beside the tunnel, and by which device.
    pub names_beside: Vec<(IpAddr, String)>,
    /// Devices with an IPv6 address of the Internet's.
    pub ipv6_devices: Vec<String>,
    /// Devices of IPv6 default routes; the tunnel's too.
    pub ipv6_default: Vec<String>,
}

impl Facts {
    /// How much a counter of the status has grown between the looks, in a second.
    pub(crate) fn growth(&self, of: impl Fn(&Status) -> u64) -> f64 {
        let (Some(now), Some(earlier)) = (&self.status, &self.earlier) else { return 0.0 };
        let seconds = self.between.as_secs_f64();
        if seconds <= 0.0 {
            return 0.0;
        }
        of(now).saturating_sub(of(earlier)) as f64 / seconds
    }
}
