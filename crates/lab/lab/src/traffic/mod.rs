//! Real traffic through the kernel between the home's and the concentrator's namespaces, measured
//! at the receivers.
//!
//! Every flow is opened from the home, since the home may be behind NATs; the direction only says
//! which end sends. All times are from one monotonic clock that both ends share. Nothing here
//! blocks for longer than [`LOOK`] without checking the clock and the cancel switch.

mod datagram;
mod fetch;
mod measured;
mod pages;
mod ping;
mod smb;
mod stamp;
pub mod statistics;
mod tcp;
mod udp;
mod voip;
mod web;

pub use fetch::Fetch;
pub use measured::{Datagrams, Measured, Pings, Voice};
pub use ping::answers;
pub use smb::Server as SmbServer;
pub use voip::GOOD_WITHIN;

use crate::cancel::Cancel;
use crate::scenario::{Traffic, TrafficKind};
use braid_linux::netns::NetNs;
use braid_units::Rate;
use rustix::net::sockopt::set_socket_recv_buffer_size_force;
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Maximum time that a call blocks before the clock is checked.
const LOOK: Duration = Duration::from_millis(50);
/// How long to wait after the end for answers and datagrams in transit.
const GRACE: Duration = Duration::from_millis(1_500);
/// Receive buffer of datagram sockets: 1 Gbit/s for some 20 ms of a busy host.
const DATAGRAM_BUFFER: usize = 8 << 20;

/// Where and when traffic runs.
#[derive(Clone, Copy)]
pub struct Setting<'a> {
    /// Namespace of the home.
    pub home: &'a NetNs,
    /// Namespace of the concentrator.
    pub concentrator: &'a NetNs,
    /// The concentrator's address for the home.
    pub server: IpAddr,
    /// Address that sockets at home bind to; `None` leaves it to the kernel.
    pub source: Option<IpAddr>,
    /// The home's device that the traffic is bound to; `None` follows the routes.
    pub device: Option<&'a str>,
    /// The transport for streams.
    pub streams: Streams,
    /// First of the concentrator's ports for this traffic; each flow of
    /// datagrams takes the next.
    pub port: u16,
    /// When it starts.
    pub start: Instant,
    /// When it stops.
    pub stop: Instant,
    /// Ends it early.
    pub cancel: &'a Cancel,
    /// The server of `smb` traffic.
    pub smb: Option<&'a SmbServer>,
    /// Counts payload bytes as they arrive, for a live display.
    pub arrived: &'a AtomicU64,
}

/// The offered rate of datagrams in each direction, IP headers included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OfferedRates {
    /// Towards the home.
    pub down: Rate,
    /// Towards the concentrator.
    pub up: Rate,
}

/// The kernel's protocol for byte streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Streams {
    /// TCP.
    Tcp,
    /// Multipath TCP (RFC 8684).
    Mptcp,
}

/// Runs `traffic` until its stop and returns the receivers' observations. `rates` is the offered
/// rate of UDP; other traffic ignores it.
///
/// # Errors
/// Sockets couldn't be created. Nothing getting through isn't an error but a result.
pub fn run(traffic: &Traffic, rates: OfferedRates, setting: &Setting<'_>) -> io::Result<Measured> {
    match &traffic.kind {
        TrafficKind::Tcp { congestion } => tcp::run(traffic, *congestion, setting),
        TrafficKind::Udp { payload, .. } => udp::run(traffic, rates, *payload, setting),
        TrafficKind::Ping { interval } => ping::run(*interval, setting),
        TrafficKind::Voip => voip::run(traffic, setting),
        TrafficKind::Smb => match setting.smb {
            Some(server) => smb::run(traffic, server, setting),
            None => Err(io::Error::other("there is no Samba server")),
        },
        TrafficKind::Web { congestion, objects, keep_alive } => {
            web::run(traffic, *congestion, objects, *keep_alive, setting)
        }
        TrafficKind::Pages { congestion, page, connections, keep_alive } => {
            let browser = pages::Browser {
                congestion: *congestion,
                page,
                connections: *connections,
                keep_alive: *keep_alive,
            };
            pages::run(traffic, &browser, setting)
        }
    }
}

/// Number of ports that [`run`] uses from [`Setting::port`] on.
pub fn ports(traffic: &Traffic) -> u16 {
    match traffic.kind {
        TrafficKind::Udp { .. } | TrafficKind::Voip => traffic.flows,
        TrafficKind::Smb => smb::PORTS,
        TrafficKind::Tcp { .. }
        | TrafficKind::Web { .. }
        | TrafficKind::Pages { .. }
        | TrafficKind::Ping { .. } => 1,
    }
}

impl Setting<'_> {
    /// Whether it is time to stop.
    fn over(&self) -> bool {
        self.cancel.is_cancelled() || Instant::now() >= self.stop
    }

    /// Whether it is too late even for late arrivals.
    fn grace_over(&self) -> bool {
        self.cancel.is_cancelled() || Instant::now() >= self.stop + GRACE
    }

    /// Time until the stop, at most [`LOOK`], never zero.
    fn patience(&self) -> Duration {
        self.stop.saturating_duration_since(Instant::now()).clamp(Duration::from_millis(1), LOOK)
    }

    fn count(&self, bytes: u64) {
        self.arrived.fetch_add(bytes, Ordering::Relaxed);
    }

    /// A stream socket with `congestion` control, bound to the home's device if
    /// `at_home`.
    fn stream(&self, congestion: &str, at_home: bool) -> io::Result<Socket> {
        /// MPTCP's protocol number in Linux, which socket2 lacks.
        const MPTCP: i32 = 262;
        let protocol = match self.streams {
            Streams::Tcp => Protocol::TCP,
            Streams::Mptcp => Protocol::from(MPTCP),
        };
        let socket = Socket::new(Domain::for_address(self.any()), Type::STREAM, Some(protocol))?;
        socket.set_tcp_congestion(congestion.as_bytes()).map_err(|error| {
            io::Error::new(
                error.kind(),
                format!("congestion control {congestion}: {error} (modprobe tcp_{congestion}?)"),
            )
        })?;
        if at_home {
            self.bind_home(&socket)?;
        }
        Ok(socket)
    }

    /// A datagram socket with a large buffer.
    fn datagram(&self, at_home: bool) -> io::Result<Socket> {
        let socket =
            Socket::new(Domain::for_address(self.any()), Type::DGRAM, Some(Protocol::UDP))?;
        enlarge_receive_buffer(&socket);
        if at_home {
            self.bind_home(&socket)?;
        }
        Ok(socket)
    }

    /// Binds a socket at home to the device and the source address.
    fn bind_home(&self, socket: &Socket) -> io::Result<()> {
        if let Some(device) = self.device {
            socket.bind_device(Some(device.as_bytes()))?;
        }
        match self.source {
            Some(source) => socket.bind(&SocketAddr::new(source, 0).into()),
            None => Ok(()),
        }
    }

    /// The unspecified address of the server's IP version.
    fn any(&self) -> SocketAddr {
        match self.server {
            IpAddr::V4(_) => (std::net::Ipv4Addr::UNSPECIFIED, 0).into(),
            IpAddr::V6(_) => (std::net::Ipv6Addr::UNSPECIFIED, 0).into(),
        }
    }
}

/// Beyond net.core.rmem_max if permitted; otherwise up to it.
fn enlarge_receive_buffer(socket: &Socket) {
    if set_socket_recv_buffer_size_force(socket, DATAGRAM_BUFFER).is_err() {
        // A smaller buffer only loses more on a busy host.
        let _ = socket.set_recv_buffer_size(DATAGRAM_BUFFER);
    }
}

/// Whether a socket call only timed out or was interrupted by a signal.
fn only_waited(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
    )
}

/// The result of a thread; a panic continues in the caller.
fn joined<T>(handle: std::thread::ScopedJoinHandle<'_, T>) -> T {
    handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
