//! Communication between the rest of the daemon and the data plane: commands one way, snapshots of
//! the state the other.

use super::reconfigure::Change;
use braid_control::config::{Mode, Name, Rule, Transport, XorHash};
use braid_control::quota_file::QuotaCounters;
use braid_control::status::{DeviceDrops, PeerStatus};
use braid_dataplane::LEAVES_WITHIN;
use braid_handshake::{PrivateKey, PublicKey};
use braid_linux::poller::Waker;
use braid_linux::tun::Tun;
use braid_linux::udp::{Family, LinkSocket, Steered};
use braid_linux::wake_latency::LatencyRequest;
use braid_tunnel::{Referral, TrafficReport, Treatments};
use braid_units::{ByteSize, Ratio};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Instant;

/// What the data plane starts with. Links, peers and their sockets follow as commands.
pub struct Setup {
    /// The queues of the device, which is up: each makes a worker.
    pub queues: Vec<Tun>,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// Our identity.
    pub private_key: PrivateKey,
    /// The scheduler's policy.
    pub mode: Mode,
    /// What `balance-xor` hashes.
    pub xor_hash: XorHash,
    /// Some of them give traffic its own mode; the first match applies.
    pub rules: Vec<Rule>,
    /// Share of the links' capacity for duplicates and parities.
    pub redundancy_budget: Ratio,
    /// Bound of one peer's memory.
    pub memory_per_peer: ByteSize,
    /// Whether homes are isolated from each other.
    pub isolate_homes: bool,
    /// Homes are announced to routers where they are served.
    pub announces: bool,
    /// How many homes it is for, if it is of a fleet.
    pub capacity: Option<u32>,
    /// Keeps processors awake while packets arrive often.
    pub wake_latency: Option<LatencyRequest>,
    /// Sockets on which peers connect to us (concentrator): for each address one per worker, and
    /// one for strangers.
    pub listen: Vec<Steered>,
    /// The same by TLS.
    pub listen_tls: Vec<LinkSocket>,
}

/// Commands, carried out in the order sent.
pub enum Command {
    /// Read the data plane's events.
    Hear,
    /// A change of the config.
    Change(Box<Change>),
    /// The link uses this socket from now on, instead of an earlier one of the same IP version (the
    /// link has a new address or device).
    AttachSocket {
        /// Which link.
        link: Name,
        /// What carries the socket's datagrams: each transport has paths of its own.
        transport: Transport,
        /// The socket; its family is the paths'.
        socket: LinkSocket,
        /// Largest IP packet that the device takes, where the device is known.
        device_mtu: Option<u32>,
    },
    /// The link's device or address is gone: close the socket, keep the paths'
    /// state for its return.
    DetachSocket {
        /// Which link.
        link: Name,
        /// Which of its sockets.
        family: Family,
    },
    /// Close the link's sockets and paths of this transport, which isn't UDP to the peer's port.
    CloseTransport {
        /// Which link.
        link: Name,
        /// Which of its transports.
        transport: Transport,
    },
    /// The join line of this key has expired.
    ExpireEnrolment(PublicKey),
    /// All currently known endpoints of the peer; may be empty.
    SetEndpoints {
        /// Which peer.
        peer: PublicKey,
        /// Resolved.
        endpoints: Vec<SocketAddr>,
    },
    /// Set the treatment of the peer's flows.
    Treat {
        /// Which peer.
        peer: PublicKey,
        /// How.
        treatments: Treatments,
    },
    /// This concentrator's lease in its fleet was renewed by a request that began at this time.
    #[cfg_attr(not(feature = "fleet"), allow(dead_code))]
    LeaseRenewed(Instant),
    /// Let pending packets arrive, tell peers that another program takes over, and confirm.
    Leave(Sender<()>),
    /// Send what can be sent of goodbyes and end.
    Stop,
}

/// The state in the control side's terms, published some 5 times a second.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// All peers.
    pub peers: Vec<PeerStatus>,
    /// What the device lost.
    pub drops: DeviceDrops,
    /// What flows carried; a new one each second.
    pub traffic: Arc<Vec<PeerFlows>>,
    /// Of every link that has a quota.
    pub quotas: QuotaCounters,
    /// Links with a socket that the kernel refuses to watch, with the error.
    pub unwatched: BTreeMap<String, String>,
    /// Homes that came with a valid join line.
    pub introduced: Vec<Introduction>,
    /// Where concentrators refer this home.
    pub referring: Vec<Referring>,
    /// Peers that were ever connected, and so no longer need their join line.
    pub met: Vec<PublicKey>,
}

/// A peer's flows.
#[derive(Clone, Debug)]
pub struct PeerFlows {
    /// Its name.
    pub peer: String,
    /// As the core tells of them.
    pub report: TrafficReport,
    /// The link of each path.
    pub links: BTreeMap<u8, String>,
}

/// What the concentrator serving this home says about others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Referring {
    /// The configured concentrator whose addresses they serve.
    pub owner: PublicKey,
    /// The one that serves now, and sent this.
    pub serves: PublicKey,
    /// All of them.
    pub referrals: Vec<Referral>,
}

/// A home that wants to be let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Introduction {
    /// The key of the join line that it has.
    pub line: PublicKey,
    /// Its own key.
    pub home: PublicKey,
    /// Where it came from.
    pub from: SocketAddr,
}

/// The daemon's end.
pub struct DataPlaneHandle {
    commands: Arc<Sender<Command>>,
    published: Published,
}

/// The data plane's end of the commands.
pub type Commands = Receiver<Command>;

/// Where the data plane puts its snapshots.
#[derive(Clone, Default)]
pub struct Published(Arc<Latest>);

#[derive(Default)]
struct Latest {
    snapshot: Mutex<Arc<Snapshot>>,
    /// Wakes the thread that acts on news at once.
    waker: OnceLock<Waker>,
}

/// The data plane's thread is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the data plane has ended; see the log")]
pub struct DataPlaneEnded;

/// Creates the channel to the data plane, and its ends there.
pub fn data_channel() -> (DataPlaneHandle, Commands, Published) {
    let (commands, received) = channel();
    let published = Published::default();
    let handle = DataPlaneHandle { commands: Arc::new(commands), published: published.clone() };
    (handle, received, published)
}

impl DataPlaneHandle {
    /// Requests a change; it is made soon.
    pub fn change(&self, change: Change) -> Result<(), DataPlaneEnded> {
        self.send(Command::Change(Box::new(change)))
    }

    /// Sends a command; it is carried out soon.
    pub fn send(&self, command: Command) -> Result<(), DataPlaneEnded> {
        self.commands.send(command).map_err(|_| DataPlaneEnded)
    }

    /// Tells the peers that another program takes over; blocks for a moment.
    pub fn leave(&self) {
        let (done, is_done) = channel();
        if self.send(Command::Leave(done)).is_ok() {
            // Otherwise peers find out by themselves, a second later.
            let _ = is_done.recv_timeout(2 * LEAVES_WITHIN);
        }
    }

    /// The latest snapshot.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.published.latest()
    }

    /// Observes from now on whether the data plane is alive.
    pub fn pulse(&self) -> Pulse {
        Pulse { published: self.published.clone(), seen: None }
    }

    /// A sender of commands that doesn't keep the data plane running.
    pub fn commands(&self) -> Weak<Sender<Command>> {
        Arc::downgrade(&self.commands)
    }

    /// Sets what to wake on news; only the first call has an effect.
    pub fn wake_on_news(&self, waker: Waker) {
        let _ = self.published.0.waker.set(waker);
    }
}

/// Observes whether the data plane is alive. The bridge publishes a snapshot several times a second
/// from each worker's answer: if a worker or the bridge hangs, there is no new one.
pub struct Pulse {
    published: Published,
    seen: Option<Arc<Snapshot>>,
}

impl Pulse {
    /// Whether it was alive since the last call; call it only a few times in ten seconds.
    pub fn beats(&mut self) -> bool {
        let latest = self.published.latest();
        let stands_still = self.seen.as_ref().is_some_and(|seen| Arc::ptr_eq(seen, &latest));
        self.seen = Some(latest);
        !stands_still
    }
}

impl Published {
    /// Replaces the snapshot.
    pub fn publish(&self, snapshot: Snapshot) {
        let mut latest = self.0.snapshot.lock().unwrap_or_else(PoisonError::into_inner);
        *latest = Arc::new(snapshot);
    }

    /// Signals that it contains news.
    pub fn wake(&self) {
        if let Some(waker) = self.0.waker.get() {
            waker.wake();
        }
    }

    fn latest(&self) -> Arc<Snapshot> {
        self.0.snapshot.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
