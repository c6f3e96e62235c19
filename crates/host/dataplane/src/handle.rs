use braid_linux::poller::Waker;
use braid_linux::tun::TunCounters;
use braid_linux::udp::{Family, LinkSocket};
use braid_tunnel::{
    Change, Event, LinkConfig, LinkId, PeerConfig, PeerId, PeerReport, TrafficReport,
    TunnelCounters,
};
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// What the control side can ask for.
#[derive(Debug)]
pub enum Command {
    /// Use this link by this socket; it takes the place of one of the same IP
    /// version (new address, carrier back). The caller made it in the right
    /// namespace and bound it to the right device.
    AttachSocket {
        /// The link.
        id: LinkId,
        /// How it's to be used; which IP versions it has is seen here.
        config: LinkConfig,
        /// The socket.
        socket: LinkSocket,
    },
    /// The link has no address of this IP version now; it may come back.
    DetachSocket {
        /// The link.
        id: LinkId,
        /// Which of its sockets.
        family: Family,
    },
    /// A change of the core's configuration. Sockets of a link that is set otherwise stay,
    /// and say which IP versions it has; those of one that is removed are closed.
    Change(Change),
    /// A new peer; answers with its number.
    AddPeer(Box<PeerConfig>, Sender<PeerId>),
    /// Tell how things are.
    Report(Sender<Report>),
    /// Tell what the peers' flows have carried.
    ReportTraffic(Sender<Vec<(PeerId, TrafficReport)>>),
    /// Take nothing more from the device, have what was taken arrive, tell the peers that
    /// another program goes on in a moment, and answer; with a bound of [`LEAVES_WITHIN`].
    Leave(Sender<()>),
    /// Say goodbye to the peers and end.
    Stop,
}

/// Some round trips of a slow link.
pub const LEAVES_WITHIN: Duration = Duration::from_millis(250);

/// How things are.
#[derive(Clone, Debug)]
pub struct Report {
    /// The peers.
    pub peers: Vec<(PeerId, PeerReport)>,
    /// What belongs to no peer.
    pub counters: TunnelCounters,
    /// The TUN device's.
    pub tun: TunCounters,
    /// Packets that the kernel dropped because the device wasn't read in time.
    pub tun_dropped: u64,
    /// Datagrams that the kernel didn't take, by link.
    pub send_drops: BTreeMap<LinkId, u64>,
}

/// The data plane has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the data plane has ended")]
pub struct Stopped;

/// The control side's hold on the data plane.
#[derive(Debug)]
pub struct Handle {
    pub(crate) commands: Sender<Command>,
    pub(crate) waker: Waker,
    pub(crate) events: Receiver<Event>,
    pub(crate) thread: Option<JoinHandle<std::io::Result<()>>>,
}

impl Handle {
    /// Asks for something.
    ///
    /// # Errors
    /// [`Stopped`] when the data plane has ended.
    pub fn send(&self, command: Command) -> Result<(), Stopped> {
        self.commands.send(command).map_err(|_| Stopped)?;
        self.waker.wake();
        Ok(())
    }

    /// Has a change made.
    ///
    /// # Errors
    /// [`Stopped`] when the data plane has ended.
    pub fn change(&self, change: Change) -> Result<(), Stopped> {
        self.send(Command::Change(change))
    }

    /// Adds a peer.
    ///
    /// # Errors
    /// [`Stopped`] when the data plane has ended.
    pub fn add_peer(&self, config: PeerConfig) -> Result<PeerId, Stopped> {
        let (sender, receiver) = channel();
        self.send(Command::AddPeer(Box::new(config), sender))?;
        receiver.recv().map_err(|_| Stopped)
    }

    /// How things are.
    ///
    /// # Errors
    /// [`Stopped`] when the data plane has ended.
    pub fn report(&self) -> Result<Report, Stopped> {
        let (sender, receiver) = channel();
        self.send(Command::Report(sender))?;
        receiver.recv().map_err(|_| Stopped)
    }

    /// What the peers' flows have carried; to be asked for each second or so, as
    /// [`braid_tunnel::Tunnel::report_traffic`] says.
    ///
    /// # Errors
    /// [`Stopped`] when the data plane has ended.
    pub fn report_traffic(&self) -> Result<Vec<(PeerId, TrafficReport)>, Stopped> {
        let (sender, receiver) = channel();
        self.send(Command::ReportTraffic(sender))?;
        receiver.recv().map_err(|_| Stopped)
    }

    /// What happened since the last call.
    pub fn events(&self) -> impl Iterator<Item = Event> + '_ {
        self.events.try_iter()
    }

    /// Ends it and waits until it has ended.
    ///
    /// # Errors
    /// What ended it before, if something did.
    pub fn stop(mut self) -> std::io::Result<()> {
        let _ = self.send(Command::Stop);
        self.join()
    }

    /// It has ended by itself (the device was deleted, for instance).
    pub fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    fn join(&mut self) -> std::io::Result<()> {
        match self.thread.take().map(JoinHandle::join) {
            None => Ok(()),
            Some(Ok(result)) => result,
            Some(Err(_)) => Err(std::io::Error::other("the data plane panicked")),
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let _ = self.send(Command::Stop);
        let _ = self.join();
    }
}
