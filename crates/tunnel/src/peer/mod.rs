//! Everything about one peer: its paths, what is sent to it and what comes
//! from it.

mod admit;
mod bonding;
mod closing;
mod copies;
mod datagram;
mod feedback;
mod narrowing;
mod parameters;
mod probes;
pub(crate) mod receive;
mod rest;
mod schedule;
mod status;
mod timing;
mod transmit;
mod turn;

pub use status::{PathReport, PeerReport};
pub use transmit::Transmit;

use self::narrowing::Narrowing;
use crate::buffers::Buffers;
use crate::clock::{PausingClock, PeerClock};
use crate::config::{LinkConfig, LinkId, Mode, PeerConfig, PeerId, TunnelConfig};
use crate::entry::{AckFilter, EntryQueue, FlowPlaces, Parameters};
use crate::exit::{Patience, Reordering};
use crate::index_map::IndexMap;
use crate::outgoing::{OutgoingPackets, PacketKey};
use crate::path::closed::ClosedPath;
use crate::path::reports::Reports;
use crate::path::{Path, Settled, Wish, liveness::PathState, sent::SentFrame};
use crate::redundancy::budget::Budget;
use crate::redundancy::erasure::{Decoder, Encoder};
use crate::session::Sessions;
use bonding::{Bonded, BondingQueue};
use braid_inner::{HashKey, InnerPacket, Layer};
use braid_units::{ByteSize, Time};
use braid_wire::GaveUp;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;
use timing::Survey;
use turn::Turn;

/// Timers look at everything so often at least, while reports are sent: these
/// come each millisecond where round trips are short.
const UPKEEP: Duration = Duration::from_millis(4);
/// Most paths of one peer.
const MAX_PATHS: usize = 64;
/// A tunnel counts as in use for so long after a packet.
const IN_USE: Duration = Duration::from_secs(3);
/// Nothing received for this long: waiting for missing packets pauses.
const SILENCE: Duration = Duration::from_millis(100);
/// A peer of which nothing is heard for this long, by no path, may have
/// forgotten our keys.
const SILENT: Duration = Duration::from_secs(1);
/// How long a lost packet of each kind is worth repairing.
const REPAIR_STREAM: Duration = Duration::from_millis(1200);
const REPAIR_DATAGRAM: Duration = Duration::from_millis(500);
const REPAIR_REALTIME: Duration = Duration::from_millis(150);
/// How long the exit waits for what may be repaired: the entry's word that it
/// gave up comes before.
const WAIT_STREAM: Duration = Duration::from_millis(1500);
const WAIT_REALTIME: Duration = Duration::from_millis(140);

/// Counters of a peer.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
pub struct PeerCounters {
    /// Inner packets accepted for it.
    pub accepted: u64,
    /// Acknowledgements of TCP not sent since a later one says the same.
    pub thinned: u64,
    /// Inner bytes accepted for it.
    pub accepted_bytes: u64,
    /// Inner bytes delivered from it.
    pub delivered_bytes: u64,
    /// Chunks sent again.
    pub repaired: u64,
    /// Chunks sent twice on purpose.
    pub duplicated: u64,
    /// Parities sent.
    pub parities: u64,
    /// Chunks recovered by a parity.
    pub recovered: u64,
    /// Packets given up after their deadline.
    pub gave_up: u64,
    /// Datagrams that didn't authenticate, were replayed or malformed.
    pub refused: u64,
    /// Inner packets refused: not from its allowed addresses, or broken.
    pub inner_refused: u64,
}

/// A peer and all state of the connection with it.
#[derive(Debug)]
pub struct Peer {
    pub(crate) config: PeerConfig,
    pub(crate) sessions: Sessions,
    remote_instance: Option<u64>,
    pub(crate) paths: Vec<Path>,
    /// Paths that are no more, those closed last at the end; one for a number at
    /// the most.
    closed_paths: Vec<ClosedPath>,
    /// How long nothing may come by a path that doesn't work before it's closed.
    path_expiry: Duration,
    /// When to look for such paths again.
    next_closing: Option<Time>,
    pub(crate) last_heard: Option<Time>,
    pub(crate) counters: PeerCounters,
    /// The peer said goodbye.
    pub(crate) closed: bool,
    confirm: bool,
    layer: Layer,
    mode: Mode,
    mode_untold: bool,
    class_modes: Vec<Mode>,
    hash_key: HashKey,
    memory: u64,

    places: FlowPlaces,
    acks: AckFilter,
    narrowing: Narrowing,
    /// CoDel's target when all paths' capacities are known.
    steady_target: Duration,
    entry: EntryQueue,
    entry_parameters: Parameters,
    bonding: BondingQueue,
    /// A packet of which copies for further paths are still to be sent.
    bonded: Option<Bonded>,
    /// The path that bulk data keeps to for now.
    turn: Option<Turn>,
    /// The path by which the last report goes a second time.
    feedback_copy: Option<usize>,
    /// When a report last went a second time.
    copied_at: Time,
    outgoing: OutgoingPackets,
    /// Of each flow: the number of its next packet.
    sequences: Vec<u32>,
    /// Of each flow: the packet of which a part has been sent.
    cutting: Vec<Option<PacketKey>>,
    /// Of each flow: until when it counts as one that uses all it gets.
    elastic_until: Vec<Time>,
    repairs: VecDeque<SentFrame>,
    duplicates: VecDeque<(SentFrame, u8)>,
    gave_ups: VecDeque<GaveUp>,
    /// Deadlines by kind of packet, each in order.
    deadlines: [VecDeque<(Time, PacketKey)>; 3],
    budget: Budget,
    budget_at: Time,
    parameters_at: Time,
    coding: bool,
    encoder: Encoder,
    decoder: Decoder,
    /// When the last parity came.
    last_parity: Option<Time>,
    parities: VecDeque<(crate::redundancy::erasure::Parity, u8)>,
    parity_scratch: Vec<u8>,
    working: PausingClock,

    exit: Reordering,
    hearing: PausingClock,
    peer_clock: PeerClock,
    reports: Reports,
    settled: Settled,
    coded: Vec<u8>,
    last_used: Time,
    last_admitted: Time,
    /// No report and no probe is due before.
    chores_at: Time,
    /// Nothing else is due before, but to send what waits.
    others_at: Time,
    /// What follows the paths is worked out anew then, with the timers.
    upkeep_at: Time,
    /// No path takes anything for lost before.
    losses_at: Time,
    /// A report written later may show that a path is silent.
    settled_at: Time,
    /// All that waited has gone: the paths have room to spare.
    spare: bool,
    survey: Survey,
    /// It has given memory back since it was used last.
    rests: bool,
    /// Buffers that are free again, for the tunnel to fetch.
    freed: Vec<Vec<u8>>,
    /// Largest packet that segments of a stream are joined to, in bytes.
    join_limit: usize,
}

impl Peer {
    pub(crate) fn new(config: PeerConfig, tunnel: &TunnelConfig, key: HashKey) -> Self {
        let memory = tunnel.memory_per_peer;
        let parameters = Parameters { limit: memory / 4, ..Parameters::default() };
        Self {
            config,
            sessions: Sessions::default(),
            remote_instance: None,
            paths: Vec::new(),
            closed_paths: Vec::new(),
            path_expiry: tunnel.path_expiry,
            next_closing: None,
            last_heard: None,
            counters: PeerCounters::default(),
            closed: false,
            confirm: false,
            layer: tunnel.layer,
            mode: tunnel.mode,
            mode_untold: true,
            class_modes: tunnel.class_modes.clone(),
            hash_key: key,
            memory,
            places: FlowPlaces::default(),
            acks: AckFilter::default(),
            narrowing: Narrowing::default(),
            steady_target: Parameters::default().target,
            entry: EntryQueue::new(tunnel.layer),
            entry_parameters: parameters,
            bonding: BondingQueue::default(),
            bonded: None,
            turn: None,
            feedback_copy: None,
            copied_at: Time::ZERO,
            outgoing: OutgoingPackets::default(),
            sequences: Vec::new(),
            cutting: Vec::new(),
            elastic_until: Vec::new(),
            repairs: VecDeque::new(),
            duplicates: VecDeque::new(),
            gave_ups: VecDeque::new(),
            deadlines: Default::default(),
            budget: Budget::new(tunnel.redundancy_budget, ByteSize::from_bytes(64 << 10)),
            budget_at: Time::ZERO,
            parameters_at: Time::ZERO,
            coding: false,
            encoder: Encoder::new(Duration::from_millis(20), 2),
            decoder: Decoder::new(ByteSize::from_bytes(128 << 10), Duration::from_millis(500)),
            last_parity: None,
            parities: VecDeque::new(),
            parity_scratch: Vec::new(),
            working: PausingClock::default(),
            exit: Reordering::new(tunnel.layer, memory / 2),
            hearing: PausingClock::default(),
            peer_clock: PeerClock::default(),
            reports: Reports::default(),
            settled: Settled::default(),
            coded: Vec::new(),
            last_used: Time::ZERO,
            last_admitted: Time::ZERO,
            chores_at: Time::ZERO,
            others_at: Time::ZERO,
            upkeep_at: Time::ZERO,
            losses_at: Time::ZERO,
            settled_at: Time::FAR_FUTURE,
            spare: false,
            survey: Survey::default(),
            rests: false,
            freed: Vec::new(),
            join_limit: 0,
        }
    }

    /// The peer that speaks is this instance. True if it's another than before,
    /// or the first: then all keys are void, and `sessions` forgets them.
    pub(crate) fn meet(
        &mut self,
        instance: u64,
        sessions: &mut IndexMap<u32, PeerId>,
        now: Time,
    ) -> bool {
        let anew = self.remote_instance != Some(instance);
        if anew {
            for gone in self.drop_sessions() {
                sessions.remove(&gone);
            }
            self.remote_instance = Some(instance);
            self.forget_connection(now);
        }
        anew
    }

    /// The peer restarted: what it knew of us is gone, so is what we knew of
    /// its packets. What waits at the entry stays.
    fn forget_connection(&mut self, now: Time) {
        for key in self.outgoing.keys().collect::<Vec<_>>() {
            if let Some(packet) = self.outgoing.remove(key) {
                self.recycle(packet.bytes);
            }
        }
        for (flow, cutting) in self.cutting.iter_mut().enumerate() {
            if cutting.take().is_some() {
                self.entry.cut(flow as u16);
            }
        }
        self.sequences.fill(0);
        self.bonded = None;
        self.bonding.restart();
        self.repairs.clear();
        self.duplicates.clear();
        self.gave_ups.clear();
        self.parities.clear();
        self.deadlines = Default::default();
        self.exit = Reordering::new(self.layer, self.memory / 2);
        self.peer_clock = PeerClock::default();
        self.reports = Reports::default();
        self.mode_untold = true;
        self.closed_paths.clear();
        self.chores_at = Time::ZERO;
        for path in &mut self.paths {
            let mut fresh = Path::new(path.id, path.link, path.remote, 1500, now);
            std::mem::swap(&mut fresh.mtu, &mut path.mtu);
            fresh.wish = path.wish;
            fresh.wish_untold = true;
            fresh.counters = path.counters;
            fresh.local = path.local;
            fresh.cap_down = path.cap_down;
            fresh.set_cap(path.wish.cap);
            if path.state() == PathState::LinkDown {
                fresh.liveness.on_link(false, now);
            }
            *path = fresh;
        }
    }

    /// Opens a path over one of our links to an address of the peer.
    pub(crate) fn open_path(
        &mut self,
        link: LinkId,
        remote: SocketAddr,
        config: &LinkConfig,
        now: Time,
    ) {
        if self.paths.len() >= MAX_PATHS || self.paths.iter().any(|p| p.link == link) {
            return;
        }
        let taken = |id| {
            self.paths.iter().any(|p| p.id == id) || self.closed_paths.iter().any(|p| p.id == id)
        };
        let same_link = self.closed_paths.iter().position(|p| p.link == link);
        let id = match same_link {
            Some(index) => self.closed_paths[index].id,
            // The peer has room for so many: then for it a path has moved that
            // was closed long ago.
            None => match (0..MAX_PATHS as u8).find(|&id| !taken(id)) {
                Some(id) => id,
                None => match self.closed_paths.first() {
                    Some(oldest) => oldest.id,
                    None => return,
                },
            },
        };
        let mut path = self.new_path(id, link, remote, config.device_mtu, now);
        path.wish = Wish { tier: config.tier, standby: config.standby, cap: config.cap_up };
        path.wish_untold = true;
        path.cap_down = config.cap_down;
        path.set_cap(config.cap_up);
        self.paths.push(path);
        self.chores_at = Time::ZERO;
    }

    /// A path of this number, which goes on where one that had it before ended.
    fn new_path(
        &mut self,
        id: u8,
        link: LinkId,
        remote: SocketAddr,
        device_mtu: u16,
        now: Time,
    ) -> Path {
        let mut path = Path::new(id, link, remote, device_mtu, now);
        if let Some(index) = self.closed_paths.iter().position(|p| p.id == id) {
            path.continue_from(&self.closed_paths.remove(index));
        }
        path
    }

    /// The link's wishes changed.
    pub(crate) fn set_wish(&mut self, link: LinkId, config: &LinkConfig) {
        self.chores_at = Time::ZERO;
        for path in self.paths.iter_mut().filter(|p| p.link == link) {
            path.wish = Wish { tier: config.tier, standby: config.standby, cap: config.cap_up };
            path.wish_untold = true;
            path.cap_down = config.cap_down;
            path.set_cap(config.cap_up);
        }
    }

    /// The link is gone for good.
    pub(crate) fn close_paths(&mut self, link: LinkId) {
        let paths = self.paths.iter().filter(|p| p.link == link);
        self.close(&paths.map(|p| p.id).collect::<Vec<_>>());
    }

    /// The link's carrier or address went or came.
    pub(crate) fn on_link(&mut self, link: LinkId, up: bool, now: Time) {
        self.chores_at = Time::ZERO;
        self.settle(|peer, settled| {
            for path in peer.paths.iter_mut().filter(|p| p.link == link) {
                path.liveness.on_link(up, now);
                path.liveness.probe_soon(now);
                if !up {
                    path.abandon_flight(settled);
                }
            }
        });
        self.update_clocks(now);
    }

    /// Change how packets are spread; the peer is told.
    pub(crate) fn set_mode(&mut self, mode: Mode) {
        self.mode_untold |= mode != self.mode;
        self.mode = mode;
    }

    /// All keys are void. Returns our indices of the sessions.
    pub(crate) fn drop_sessions(&mut self) -> Vec<u32> {
        let sessions = std::mem::take(&mut self.sessions);
        [sessions.current, sessions.previous, sessions.unproven]
            .into_iter()
            .flatten()
            .map(|s| s.local_index)
            .collect()
    }

    /// The responder sends with new keys only when it has seen a packet with
    /// them: let there be one.
    pub(crate) fn confirm_keys(&mut self) {
        self.confirm = true;
        self.chores_at = Time::ZERO;
    }

    /// Keys and at least one path that works.
    pub(crate) fn is_connected(&self) -> bool {
        self.sessions.current.is_some() && self.paths_up().next().is_some()
    }

    /// Nothing works, and nothing has been heard for a while.
    pub(crate) fn is_silent(&self, now: Time) -> bool {
        self.paths_up().next().is_none() && self.last_heard.is_none_or(|at| now - at > SILENT)
    }

    /// The next inner packet from the peer.
    pub(crate) fn poll_inner(&mut self, buffers: &mut Buffers) -> Option<InnerPacket> {
        self.exit.poll(|capacity| buffers.take(capacity))
    }

    /// There is something for the tunnel to fetch, or to learn.
    pub(crate) fn has_news(&self) -> bool {
        self.exit.has_ready() || !self.freed.is_empty() || self.closed
    }

    /// A buffer isn't needed any more.
    fn recycle(&mut self, buffer: Vec<u8>) {
        self.freed.push(buffer);
    }

    /// Gives the buffers that aren't needed any more.
    pub(crate) fn give_back(&mut self, buffers: &mut Buffers) {
        while let Some(buffer) = self.freed.pop() {
            buffers.give(buffer);
        }
    }

    /// How long the exit waits.
    pub(crate) fn patience(&self) -> Patience {
        Patience { ordered: WAIT_STREAM, realtime: WAIT_REALTIME }
    }

    /// Handles what is due at `now`, apart from sending.
    pub(crate) fn on_timeout(&mut self, now: Time) {
        if self.only_sending_is_due(now) {
            return;
        }
        self.chores_at = Time::ZERO;
        self.upkeep_at = now + UPKEEP;
        self.look_at_paths();
        let feedback = self.feedback_interval();
        self.spare &= self.entry.is_empty() && self.repairs.is_empty();
        let others = self.other_paths();
        self.settle(|peer, settled| {
            for path in &mut peer.paths {
                path.on_timeout(now, feedback, others, &peer.reports, settled);
            }
            peer.look_for_losses();
        });
        self.close_left_paths(now);
        self.update_clocks(now);
        self.give_up_late(now);
        self.release_acks(now);
        self.rest_if_idle(now);
        self.watch_for_slow_paths(now);
        self.follow_paths(now);
        let heard = self.hearing.at(now);
        self.exit.expire(heard, self.patience());
        while let Some(parity) = self.encoder.poll(now) {
            self.queue_parity(parity);
        }
    }

    /// Something passes.
    fn use_now(&mut self, now: Time) {
        if now >= self.last_used + IN_USE {
            self.chores_at = Time::ZERO;
        }
        self.last_used = now;
        self.rests = false;
    }

    /// A datagram of this size was too long for the link's device.
    pub(crate) fn on_message_too_long(&mut self, link: LinkId, limit: u16) {
        self.chores_at = Time::ZERO;
        for path in self.paths.iter_mut().filter(|p| p.link == link) {
            path.mtu.on_local_emsgsize(limit);
        }
    }

    /// Asks paths, and applies what they report.
    fn settle(&mut self, ask: impl FnOnce(&mut Self, &mut Settled)) {
        let mut settled = std::mem::take(&mut self.settled);
        settled.clear();
        ask(self, &mut settled);
        self.take_settled(&mut settled);
        self.settled = settled;
    }

    /// Applies what paths report: frames to send again.
    fn take_settled(&mut self, settled: &mut Settled) {
        for frame in settled.lost.drain(..) {
            match frame {
                SentFrame::Chunk { key, .. } if self.outgoing.get(key).is_none() => {}
                SentFrame::Chunk { .. } => self.repairs.push_back(frame),
                SentFrame::GaveUp(gave_up) => self.gave_ups.push_back(gave_up),
                SentFrame::Mode => self.mode_untold = true,
                SentFrame::PathStatus { path } => {
                    for p in self.paths.iter_mut().filter(|p| p.id == path) {
                        p.wish_untold = true;
                    }
                }
            }
        }
    }

    /// The repair clock runs while some path works, the hole clock while
    /// something is heard.
    fn update_clocks(&mut self, now: Time) {
        if self.paths_up().next().is_some() {
            self.working.run(now);
        } else {
            self.working.stop(now);
        }
        if let Some(heard) = self.last_heard
            && now - heard > SILENCE
        {
            self.hearing.stop(heard + SILENCE);
        }
    }

    /// Packets whose repair would come too late are given up, and the peer is
    /// told.
    fn give_up_late(&mut self, now: Time) {
        let working = self.working.at(now);
        if !self.working.runs() {
            return;
        }
        for kind in 0..self.deadlines.len() {
            while let Some(&(deadline, key)) = self.deadlines[kind].front() {
                if deadline > working && self.outgoing.get(key).is_some() {
                    break;
                }
                self.deadlines[kind].pop_front();
                let Some(outgoing) = self.outgoing.get(key) else { continue };
                let (flow, sequence) = (outgoing.flow, outgoing.sequence);
                self.counters.gave_up += 1;
                self.gave_ups.push_back(GaveUp { flow, sequence, count: 1 });
                if let Some(cutting) = self.cutting.get_mut(usize::from(flow))
                    && *cutting == Some(key)
                {
                    *cutting = None;
                    self.entry.cut(flow);
                }
                if let Some(packet) = self.outgoing.remove(key) {
                    self.recycle(packet.bytes);
                }
            }
        }
    }
}
