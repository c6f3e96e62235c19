use crate::leave::AllDone;
use crate::sockets::SocketUse;
use crate::unwatched::Attachment;
use braid_inner::InnerPacket;
use braid_linux::poller::Waker;
use braid_linux::tun::TunCounters;
use braid_linux::udp::{Family, LinkSocket, Steered};
use braid_tunnel::{
    Change, Event, LinkConfig, LinkId, PeerConfig, PeerId, PeerReport, TrafficReport,
    TunnelCounters, Worker,
};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Some round trips of a slow link.
pub const LEAVES_WITHIN: Duration = Duration::from_millis(250);

/// Commands to a worker.
#[derive(Debug)]
pub(crate) enum Command {
    /// Use this socket for a link.
    Attach(Attachment),
    /// The link currently has no address of this IP version.
    DetachSocket { id: LinkId, family: Family },
    /// A change of the core's configuration.
    Change(Change),
    /// Add a peer; answers with its number.
    AddPeer(Box<PeerConfig>, Sender<PeerId>),
    /// Deliver these packets to the device, as if they had come through the tunnel.
    Deliver(Vec<InnerPacket>),
    /// Report the state.
    Report(Sender<Report>),
    /// Report what the peers' flows have carried.
    ReportTraffic(Sender<Vec<(PeerId, TrafficReport)>>),
    /// Stop reading the device, let pending packets arrive, and tell the peers that another program
    /// continues shortly; takes at most [`LEAVES_WITHIN`].
    Leave(Arc<AllDone>),
    /// Say goodbye to the peers and end.
    Stop,
}

/// How things are.
#[derive(Clone, Debug)]
pub struct Report {
    /// The peers.
    pub peers: Vec<(PeerId, PeerReport)>,
    /// Counters that belong to no peer.
    pub counters: TunnelCounters,
    /// The TUN device's counters.
    pub tun: TunCounters,
    /// Packets that the kernel dropped because the device wasn't read in time.
    pub tun_dropped: u64,
    /// Datagrams that the kernel refused, by link.
    pub send_drops: BTreeMap<LinkId, u64>,
    /// Datagrams and packets that arrived at the wrong worker and were lost because the right one
    /// had no room.
    pub handover_drops: u64,
    /// Links with a socket that the kernel refuses to watch, with the error: it isn't used until a
    /// retry succeeds.
    pub unwatched: Vec<(LinkId, String)>,
}

/// Sockets on which peers connect to us.
#[derive(Debug)]
pub enum Listening {
    /// One per worker, with datagrams steered to it, and one for strangers.
    Steered(Steered),
    /// One for all workers.
    Shared(LinkSocket),
}

/// The data plane has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the data plane has ended")]
pub struct Stopped;

/// The control side's handle to the data plane. Peers are identified by number, whatever worker
/// they belong to.
#[derive(Debug)]
pub struct Handle {
    pub(crate) workers: Vec<WorkerHandle>,
    events: Receiver<Event>,
    /// What the first worker was told.
    remotes_elsewhere: RefCell<Vec<SocketAddr>>,
}

/// One worker.
#[derive(Debug)]
pub(crate) struct WorkerHandle {
    commands: Sender<Command>,
    waker: Waker,
    thread: Option<JoinHandle<io::Result<()>>>,
    peers: Cell<usize>,
}

impl Handle {
    /// A handle without workers.
    pub(crate) fn new(events: Receiver<Event>) -> Self {
        Self { workers: Vec::new(), events, remotes_elsewhere: RefCell::default() }
    }

    /// Uses this socket for a link from now on, replacing one of the same IP version (new address,
    /// carrier back). The caller must have created it in the right namespace and bound it to the
    /// right device. `config` says how to use the link; its sockets determine its IP versions.
    ///
    /// # Errors
    /// [`Stopped`] when the data plane has ended.
    pub fn attach(
        &self,
        id: LinkId,
        config: LinkConfig,
        socket: LinkSocket,
    ) -> Result<(), Stopped> {
        let use_of_it = SocketUse::Both;
        self.first()?.send(Command::Attach(Attachment { id, config, socket, use_of_it }))
    }

    /// Lets peers connect over this link.
    ///
    /// # Errors
    /// [`Stopped`] when the data plane has ended, or no file descriptor is left.
    pub fn listen(&self, id: LinkId, listening: Listening) -> Result<(), Stopped> {
        let config = LinkConfig { listens: true, ..LinkConfig::default() };
        let attach = |worker: &WorkerHandle, socket, use_of_it| {
            worker.send(Command::Attach(Attachment { id, config, socket, use_of_it }))
        };
        match listening {
            Listening::Steered(Steered { owned, others }) => {
                let mut each = self.workers.iter().zip(owned);
                each.try_for_each(|(worker, socket)| attach(worker, socket, SocketUse::Both))?;
                // The first worker lets them in.
                match others {
                    Some(others) => attach(self.first()?, others, SocketUse::Strangers),
                    None => Ok(()),
                }
            }
            Listening::Shared(socket) => {
                for worker in self.workers.iter().skip(1) {
                    let another = socket.try_clone().map_err(|_| Stopped)?;
                    attach(worker, another, SocketUse::Sending)?;
                }
                attach(self.first()?, socket, SocketUse::Both)
            }
        }
    }

    /// Delivers these packets to the device, as if they had come through the tunnel.
    ///
    /// # Errors
    /// [`Stopped`] when the data plane has ended.
    pub fn deliver(&self, packets: Vec<InnerPacket>) -> Result<(), Stopped> {
        self.first()?.send(Command::Deliver(packets))
    }

    /// States that the link currently has no address of this IP version; it may return.
    ///
    /// # Errors
    /// [`Stopped`] when the data plane has ended.
    pub fn detach(&self, id: LinkId, family: Family) -> Result<(), Stopped> {
        self.first()?.send(Command::DetachSocket { id, family })
    }

    /// Applies a change. A link whose settings change keeps its sockets, which determine its IP
    /// versions; those of a removed link are closed.
    ///
    /// # Errors
    /// [`Stopped`] when the data plane has ended.
    pub fn change(&self, change: Change) -> Result<(), Stopped> {
        match change {
            Change::SetEndpoints(id, _)
            | Change::StandIn(id, _)
            | Change::SetRank(id, _)
            | Change::Announced(id)
            | Change::Ask(id)
            | Change::SetLimits { home: id, .. }
            | Change::Refer(id, _)
            | Change::Introduce(id, _)
            | Change::Treat(id, _) => self.worker_of(id)?.send(Command::Change(change)),
            // Homes that join reach the first worker.
            Change::SetEnrolments(_)
            | Change::SetRemotesElsewhere(_)
            | Change::AddElsewhere { .. } => self.first()?.send(Command::Change(change)),
            Change::SetLink(id, config) => self.change_all(|| Change::SetLink(id, config)),
            Change::RemoveLink(id) => self.change_all(|| Change::RemoveLink(id)),
            Change::SetMode(mode) => self.change_all(|| Change::SetMode(mode)),
            Change::RemovePeer(id) => {
                let peers = &self.worker_of(id)?.peers;
                peers.set(peers.get().saturating_sub(1));
                self.change_all(|| Change::RemovePeer(id))
            }
        }
    }

    /// Adds a peer. One that we connect to goes to the first worker, which has the links for that;
    /// one that `calls` us goes to the worker with the fewest peers.
    ///
    /// # Errors
    /// [`Stopped`] when the data plane has ended.
    pub fn add_peer(&self, config: PeerConfig, calls: bool) -> Result<PeerId, Stopped> {
        let worker = match calls {
            true => self.workers.iter().min_by_key(|worker| worker.peers.get()).ok_or(Stopped)?,
            false => self.first()?,
        };
        let (public_key, allowed_ips) = (config.public_key, config.allowed_ips.clone());
        let (sender, receiver) = channel();
        worker.send(Command::AddPeer(Box::new(config), sender))?;
        let id = receiver.recv().map_err(|_| Stopped)?;
        worker.peers.set(worker.peers.get() + 1);
        let others = self.workers.iter().zip(0..).filter(|(_, number)| *number != id.worker());
        for (other, _) in others {
            let allowed_ips = allowed_ips.clone();
            other.send(Command::Change(Change::AddElsewhere { id, public_key, allowed_ips }))?;
        }
        Ok(id)
    }

    /// How things are.
    ///
    /// # Errors
    /// [`Stopped`] when the data plane has ended.
    pub fn report(&self) -> Result<Report, Stopped> {
        let mut reports = self.ask(Command::Report)?.into_iter();
        let mut whole = reports.next().ok_or(Stopped)?;
        for report in reports {
            whole.add(report);
        }
        self.tell_remotes(&whole)?;
        Ok(whole)
    }

    /// What the peers' flows have carried; call it about once a second, see
    /// [`braid_tunnel::Tunnel::report_traffic`].
    ///
    /// # Errors
    /// [`Stopped`] when the data plane has ended.
    pub fn report_traffic(&self) -> Result<Vec<(PeerId, TrafficReport)>, Stopped> {
        Ok(self.ask(Command::ReportTraffic)?.into_iter().flatten().collect())
    }

    /// Stops reading the device, lets pending packets arrive, and tells the peers that another
    /// program continues shortly; `done` is notified when that is over, after [`LEAVES_WITHIN`] at
    /// the latest.
    ///
    /// # Errors
    /// [`Stopped`] when the data plane has ended.
    pub fn leave(&self, done: Sender<()>) -> Result<(), Stopped> {
        let all_done = Arc::new(AllDone::tell(done));
        self.send_all(|| Command::Leave(Arc::clone(&all_done)))
    }

    /// Events since the last call.
    pub fn events(&self) -> impl Iterator<Item = Event> + '_ {
        self.events.try_iter()
    }

    /// Stops it and waits until it has ended.
    ///
    /// # Errors
    /// The error that had ended it before, if any.
    pub fn stop(mut self) -> io::Result<()> {
        let _ = self.send_all(|| Command::Stop);
        self.join()
    }

    fn first(&self) -> Result<&WorkerHandle, Stopped> {
        self.worker(Worker::FIRST)
    }

    fn worker_of(&self, peer: PeerId) -> Result<&WorkerHandle, Stopped> {
        self.worker(peer.worker())
    }

    fn worker(&self, number: u8) -> Result<&WorkerHandle, Stopped> {
        self.workers.get(usize::from(number)).ok_or(Stopped)
    }

    fn change_all(&self, change: impl Fn() -> Change) -> Result<(), Stopped> {
        self.send_all(|| Command::Change(change()))
    }

    fn send_all(&self, command: impl Fn() -> Command) -> Result<(), Stopped> {
        self.workers.iter().try_for_each(|worker| worker.send(command()))
    }

    /// Asks all workers, then waits for all answers.
    fn ask<T>(&self, question: impl Fn(Sender<T>) -> Command) -> Result<Vec<T>, Stopped> {
        let asked: Result<Vec<_>, Stopped> = self
            .workers
            .iter()
            .map(|worker| {
                let (sender, receiver) = channel();
                worker.send(question(sender)).map(|()| receiver)
            })
            .collect();
        asked?.into_iter().map(|receiver| receiver.recv().map_err(|_| Stopped)).collect()
    }

    /// Tells the first worker, which accepts initiations, the addresses of other workers' peers.
    fn tell_remotes(&self, report: &Report) -> Result<(), Stopped> {
        let elsewhere = report.peers.iter().filter(|(id, _)| id.worker() != Worker::FIRST);
        let remotes: Vec<SocketAddr> =
            elsewhere.flat_map(|(_, peer)| peer.paths.iter().map(|path| path.remote)).collect();
        if *self.remotes_elsewhere.borrow() == remotes {
            return Ok(());
        }
        self.remotes_elsewhere.replace(remotes.clone());
        self.change(Change::SetRemotesElsewhere(remotes))
    }

    fn join(&mut self) -> io::Result<()> {
        let mut outcome = Ok(());
        for worker in &mut self.workers {
            let ended = match worker.thread.take().map(JoinHandle::join) {
                None => Ok(()),
                Some(Ok(result)) => result,
                Some(Err(_)) => Err(io::Error::other("the data plane panicked")),
            };
            outcome = outcome.and(ended);
        }
        outcome
    }
}

impl WorkerHandle {
    /// The handle of a worker that has started.
    pub(crate) fn new(
        commands: Sender<Command>,
        waker: Waker,
        thread: JoinHandle<io::Result<()>>,
    ) -> Self {
        Self { commands, waker, thread: Some(thread), peers: Cell::new(0) }
    }

    fn send(&self, command: Command) -> Result<(), Stopped> {
        self.commands.send(command).map_err(|_| Stopped)?;
        self.waker.wake();
        Ok(())
    }
}

impl Report {
    /// Adds another worker's report.
    fn add(&mut self, other: Report) {
        self.peers.extend(other.peers);
        self.counters += other.counters;
        self.tun.malformed += other.tun.malformed;
        self.tun.cut_in_software += other.tun.cut_in_software;
        self.tun.refused += other.tun.refused;
        // The kernel counts them for all queues together.
        self.tun_dropped = self.tun_dropped.max(other.tun_dropped);
        for (link, dropped) in other.send_drops {
            *self.send_drops.entry(link).or_default() += dropped;
        }
        self.handover_drops += other.handover_drops;
        self.unwatched.extend(other.unwatched);
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let _ = self.send_all(|| Command::Stop);
        let _ = self.join();
    }
}
