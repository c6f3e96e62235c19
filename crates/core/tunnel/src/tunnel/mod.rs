//! The tunnel's end: peers, links, and who gets what.

mod admission;
mod answered;
mod change;
mod enrolments;
mod event;
mod forward;
mod handover;
mod handshakes;
mod holding;
mod outbox;
mod peers;
mod random;
mod reception;
mod residence;
mod serving;
mod session_table;
mod timers;

use crate::buffers::Buffers;
use crate::config::{LinkConfig, TunnelConfig};
use crate::id::{LinkId, PeerId};
use crate::path::Origin;
use crate::path::liveness::PathState;
use crate::peer::{MOST_FLOWS, Peer, PeerReport, Refused, TrafficReport, Transmit};
use crate::routing::{AllowedIps, ForwardingDatabase, ForwardingLimits, Residents};
use braid_inner::{HashKey, InnerPacket};
use braid_units::Time;
use braid_wire::{Close, DataHeader, DatagramKind};
use forward::Port;
use handshakes::Handshaking;
use holding::Holding;
use outbox::Outbox;
use peers::Peers;
use random::SplitMix;
use reception::Reception;
use serving::Serving;
use session_table::SessionTable;
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use timers::Timers;

pub use change::Change;
pub use enrolments::EnrolmentState;
pub use event::{Event, TunnelCounters};
pub use handshakes::retry_pause;

/// A timer isn't set sooner than after this: something due now that can't be done would
/// keep the caller busy. Ours.
const SOONEST: Duration = Duration::from_micros(20);

/// Flows that are told apart, of all peers together, and of each of many. Ours.
const FLOWS_OF_ALL: usize = 8192;
const LEAST_FLOWS: usize = 64;

/// One end of the tunnel, with all its peers. Sans-IO: give it datagrams,
/// inner packets and the time; take datagrams, inner packets and deadlines.
///
/// After any call that gives it something, call [`Self::poll_transmit`] and
/// [`Self::poll_inner`] until they give nothing.
#[derive(Debug)]
pub struct Tunnel {
    config: TunnelConfig,
    links: BTreeMap<LinkId, Link>,
    peers: Peers,
    sessions: SessionTable,
    reception: Reception,
    allowed: AllowedIps<PeerId>,
    serving: Serving,
    residents: Residents<PeerId>,
    holding: Holding,
    forwarding: ForwardingDatabase<Port>,
    random: SplitMix,
    hash_key: HashKey,
    /// Of the next peer.
    next_instance: u64,
    /// Peers that may have something to send.
    active: VecDeque<PeerId>,
    timers: Timers,
    outbox: Outbox,
    buffers: Buffers,
    counters: TunnelCounters,
    cpu_bound: bool,
}

#[derive(Debug)]
struct Link {
    config: LinkConfig,
    up: bool,
}

#[derive(Debug)]
struct Entry {
    peer: Peer,
    /// What we are to this peer: another one when it was forgotten and is added
    /// again, since our numbers begin anew then.
    instance: u64,
    handshaking: Handshaking,
    /// How willing we are to serve this home, but for that there may be no room.
    rank: u8,
    is_active: bool,
    announced: Vec<(u8, PathState)>,
}

impl Tunnel {
    /// An end without links and peers.
    pub fn new(config: TunnelConfig) -> Self {
        let mut random = SplitMix::new(config.seed);
        let mut key = [0; 16];
        key[..8].copy_from_slice(&random.next().to_le_bytes());
        key[8..].copy_from_slice(&random.next().to_le_bytes());
        Self {
            reception: Reception::new(&config),
            next_instance: random.next(),
            hash_key: HashKey::new(key),
            random,
            links: BTreeMap::new(),
            peers: Peers::new(config.worker),
            sessions: SessionTable::new(config.worker),
            allowed: AllowedIps::new(),
            serving: Serving::default(),
            residents: Residents::new(config.room.clone()),
            holding: Holding::default(),
            forwarding: ForwardingDatabase::new(ForwardingLimits::default()),
            active: VecDeque::new(),
            timers: Timers::default(),
            outbox: Outbox::default(),
            buffers: Buffers::default(),
            counters: TunnelCounters::default(),
            cpu_bound: false,
            config,
        }
    }

    /// Whether the CPU is the bottleneck and not the links, as who drives this end sees
    /// it (not, until it says so). Then what is sent costs less CPU, at the price of some
    /// bytes and milliseconds.
    pub fn set_cpu_bound(&mut self, cpu_bound: bool) {
        self.cpu_bound = cpu_bound;
    }

    /// Takes a datagram that came by `link`; it's decrypted in place.
    pub fn handle_datagram(
        &mut self,
        now: Time,
        link: LinkId,
        remote: SocketAddr,
        local: Option<IpAddr>,
        datagram: &mut [u8],
    ) {
        let origin = Origin { link, remote, local };
        match DatagramKind::of(datagram) {
            Some(DatagramKind::Data) => self.on_data(origin, datagram, now),
            Some(_) => self.on_handshake_message(origin, datagram, now),
            None => self.counters.strange += 1,
        }
    }

    /// Takes a packet from the TUN/TAP device.
    pub fn handle_inner(&mut self, now: Time, packet: InnerPacket) {
        self.route_out(packet, now);
    }

    /// What is due at `now` is done.
    pub fn handle_timeout(&mut self, now: Time) {
        self.buffers.trim(now);
        while let Some(id) = self.timers.pop_due(now) {
            let Some(entry) = self.peers.get_mut(id) else { continue };
            entry.peer.on_timeout(now);
            if !entry.peer.sessions.can_send(now) {
                self.residents.leave(id);
            }
            self.after_peer(id, now);
            self.activate(id);
        }
        if self.serving.deadline().is_some_and(|at| at <= now) {
            self.elect(now);
        }
        self.holding.release(now, &mut self.outbox);
        if self.residents.deadline().is_some_and(|at| at <= now) {
            self.look_for_room(now);
        }
    }

    /// When [`Self::handle_timeout`] is to be called at the latest.
    pub fn next_timeout(&self) -> Option<Time> {
        if !self.active.is_empty() || self.outbox.has_messages() {
            return Some(Time::ZERO);
        }
        let deadlines = [
            self.timers.next(),
            self.serving.deadline(),
            self.holding.deadline(),
            self.residents.deadline(),
        ];
        deadlines.into_iter().flatten().min()
    }

    /// The next datagrams to send: written into `out`, which is cleared first.
    pub fn poll_transmit(&mut self, now: Time, out: &mut Vec<u8>) -> Option<Transmit> {
        out.clear();
        if let Some(transmit) = self.outbox.next_message(out) {
            return Some(transmit);
        }
        while let Some(&id) = self.active.front() {
            self.shake_hands(id, now);
            if let Some(transmit) = self.outbox.next_message(out) {
                return Some(transmit);
            }
            let Some(entry) = self.peers.get_mut(id) else {
                self.active.pop_front();
                continue;
            };
            let transmit = entry.peer.poll_transmit(self.cpu_bound, now, out);
            entry.peer.give_back(&mut self.buffers);
            let done = transmit.is_none() || entry.peer.is_done(now);
            if done {
                entry.is_active = false;
                self.active.pop_front();
                self.reschedule(id, now);
            }
            if transmit.is_some() {
                if !done {
                    // Peers take turns.
                    self.active.rotate_left(1);
                }
                return transmit;
            }
            out.clear();
        }
        None
    }

    /// The next packet for the TUN/TAP device. Give its buffer back by
    /// [`Self::recycle`].
    pub fn poll_inner(&mut self) -> Option<InnerPacket> {
        self.outbox.next_packet()
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.outbox.next_event()
    }

    /// An empty buffer of at least `capacity` bytes for a packet.
    pub fn take_buffer(&mut self, capacity: usize) -> Vec<u8> {
        self.buffers.take(capacity)
    }

    /// Takes a buffer back for reuse.
    pub fn recycle(&mut self, buffer: Vec<u8>) {
        self.buffers.give(buffer);
    }

    /// The kernel refused a datagram of `size` as too large for the link.
    pub fn on_message_too_long(&mut self, link: LinkId, size: usize) {
        let limit = u16::try_from(size.saturating_sub(1)).unwrap_or(u16::MAX);
        for entry in self.peers.values_mut() {
            entry.peer.on_message_too_long(link, limit);
        }
    }

    /// Says goodbye to all peers; what [`Self::poll_transmit`] then gives is
    /// the last.
    pub fn close(&mut self, now: Time) {
        self.say_goodbye(Close::SHUTDOWN, now);
    }

    /// As [`Self::close`], and that another tunnel with this key and these addresses begins in a
    /// moment: peers keep what is for it, and call it soon.
    pub fn close_for_restart(&mut self, now: Time) {
        self.say_goodbye(Close::RESTART, now);
    }

    /// All packets given for peers that can be reached have arrived there.
    pub fn has_sent_all(&self) -> bool {
        self.peers.iter().all(|(_, entry)| entry.peer.has_sent_all())
    }

    fn say_goodbye(&mut self, reason: u8, now: Time) {
        for entry in self.peers.values_mut() {
            let mut goodbyes = Vec::new();
            entry.peer.say_goodbye(reason, now, &mut goodbyes);
            for (transmit, goodbye) in goodbyes {
                self.outbox.send(transmit, goodbye);
            }
        }
    }

    /// The peers as they are now.
    pub fn report(&self, now: Time) -> Vec<(PeerId, PeerReport)> {
        let report = |(id, entry): (PeerId, &Entry)| {
            let mut report = entry.peer.report(now);
            report.served = report.served.map(|said| self.as_admitted(id, said));
            report.refused = self.residents.is_refused(id);
            (id, report)
        };
        self.peers.iter().map(report).collect()
    }

    /// What the peers' flows have carried. To be asked for each second or so: what is over
    /// is forgotten then, which makes room for what begins.
    pub fn report_traffic(&mut self, now: Time) -> Vec<(PeerId, TrafficReport)> {
        let limit = (FLOWS_OF_ALL / self.peers.ids().count().max(1)).clamp(LEAST_FLOWS, MOST_FLOWS);
        let of_peer =
            |(id, entry): (PeerId, &mut Entry)| (id, entry.peer.report_traffic(limit, now));
        self.peers.iter_mut().map(of_peer).collect()
    }

    /// Counters of what belongs to no peer.
    pub fn counters(&self) -> TunnelCounters {
        self.counters
    }

    fn on_data(&mut self, origin: Origin, datagram: &mut [u8], now: Time) {
        let Ok(header) = DataHeader::parse(datagram) else {
            self.counters.strange += 1;
            return;
        };
        let Some(id) = self.sessions.peer_of(header.receiver) else {
            self.hand_over_or_count(header.receiver, origin, datagram);
            return;
        };
        let Some(entry) = self.peers.get_mut(id) else { return };
        match entry.peer.on_datagram(header, datagram, origin, &mut self.buffers, now) {
            Ok(received) => {
                // The next part of a large packet, mostly.
                if received.proven.is_none() && entry.is_active && !entry.peer.has_news() {
                    return;
                }
                let proven = received.proven.is_some();
                if let Some(proven) = received.proven {
                    self.sessions.remove(proven.gone);
                    self.outbox.tell(Event::Handshake { peer: id, anew: proven.anew });
                }
                self.after_peer(id, now);
                if proven {
                    self.on_home_connected(id, now);
                }
                self.activate(id);
            }
            Err(refused) => {
                entry.peer.on_refused();
                match refused {
                    Refused::Replayed => self.counters.replayed += 1,
                    Refused::Forged => self.counters.forged += 1,
                    Refused::NoSession | Refused::NoPath | Refused::TooManyPaths => {
                        self.counters.strange += 1;
                    }
                }
            }
        }
    }

    /// Passes on what a peer has produced.
    fn after_peer(&mut self, id: PeerId, now: Time) {
        // Before what came with the word.
        let said = self.peers.get_mut(id).and_then(|entry| entry.peer.take_service());
        let served = said.map(|said| self.admit_home(id, said, now));
        self.route_in(id, now);
        let Some(entry) = self.peers.get_mut(id) else { return };
        entry.peer.give_back(&mut self.buffers);
        if entry.peer.take_goodbye() {
            self.sessions.remove(entry.peer.sessions.void());
            self.residents.leave(id);
            entry.handshaking.retry_at(now + handshakes::AFTER_GOODBYE);
            self.outbox.tell(Event::Closed { peer: id });
        }
        if let Some(served) = served {
            self.outbox.tell(Event::Served { peer: id, here: served.here });
        }
        let Some(entry) = self.peers.get_mut(id) else { return };
        if let Some(referrals) = entry.peer.take_referrals() {
            self.outbox.tell(Event::Referred { peer: id, referrals });
        }
        let Some(entry) = self.peers.get_mut(id) else { return };
        if !entry.peer.take_restart() {
            return;
        }
        entry.handshaking.retry_at(now + handshakes::AFTER_RESTART);
        // The program that goes on knows nothing of them. Some come twice.
        let packets = entry.peer.take_over(now);
        for packet in packets {
            self.admit(id, packet, now);
        }
    }

    fn activate(&mut self, id: PeerId) {
        if let Some(entry) = self.peers.get_mut(id)
            && !std::mem::replace(&mut entry.is_active, true)
        {
            self.active.push_back(id);
        }
    }

    fn activate_all(&mut self) {
        for id in self.peers.ids().collect::<Vec<_>>() {
            self.activate(id);
        }
    }

    /// Tells of paths of which something else is thought than before.
    fn announce(&mut self, id: PeerId) {
        let Some(entry) = self.peers.get_mut(id) else { return };
        let Entry { peer, announced, .. } = entry;
        if announced.len() != peer.paths.len()
            || peer.paths.iter().zip(announced.iter()).any(|(p, a)| (p.id, p.state()) != *a)
        {
            for path in &peer.paths {
                if !announced.contains(&(path.id, path.state())) {
                    self.outbox.tell(Event::Path {
                        peer: id,
                        link: path.link,
                        path: path.id,
                        state: path.state(),
                    });
                }
            }
            announced.clear();
            announced.extend(peer.paths.iter().map(|p| (p.id, p.state())));
        }
    }

    /// It has nothing more to send for now.
    fn reschedule(&mut self, id: PeerId, now: Time) {
        self.announce(id);
        let Some(entry) = self.peers.get_mut(id) else { return };
        let keys = entry.handshaking.deadline(&entry.peer, now);
        let next = [entry.peer.deadline(now), keys].into_iter().flatten().min();
        self.timers.set(id, next.map(|at| at.max(now + SOONEST)));
        self.elect(now);
    }
}
