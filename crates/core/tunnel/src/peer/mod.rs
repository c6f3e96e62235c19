//! Everything about one peer: its paths, what is sent to it and what comes
//! from it. [`Peer`] joins what does the work; each of its parts is given
//! explicitly what it may touch of the others.

mod activity;
mod incoming;
mod ingress;
mod paths;
mod receive;
mod referred;
mod reliability;
mod restarting;
mod send;
mod status;
mod terms;
mod timers;
mod traffic;

pub use incoming::Refused;
pub use referred::Referral;
pub use send::Transmit;
pub use status::{PathReport, PeerCounters, PeerReport, Served};
pub use traffic::{Carried, FlowReport, MOST_FLOWS, PathShare, TrafficReport};

use crate::buffers::Buffers;
use crate::clock::PausingClock;
use crate::config::{LinkConfig, Mode, PeerConfig, TunnelConfig};
use crate::entry::{LimitRate, Treatment};
use crate::exit::Delivered;
use crate::id::LinkId;
use crate::path::Settled;
use crate::path::sent::SentFrame;
use crate::routing::Health;
use crate::session::Sessions;
use activity::Activity;
use braid_inner::{ClassRules, FlowKey, HashKey, InnerPacket};
use braid_units::{Rate, Time};
use braid_wire::{LimitFrame, Service};
use ingress::{Ingress, Observers, Sorting};
use paths::PathSet;
use receive::Receive;
use reliability::Reliability;
use send::{ControlSettings, Outlet, Send};
use std::net::SocketAddr;
use std::time::Duration;
use terms::Terms;
use timers::{Timer, TimerTable};
use traffic::Traffic;

/// What follows from the paths is worked out anew at least this often while
/// something is due: reports come each millisecond where round trips are short. Ours.
const UPKEEP: Duration = Duration::from_millis(4);
/// What changes slowly is worked out so often. Ours; not measured apart.
const TUNING: Duration = Duration::from_millis(500);
/// A peer's memory is shared by what waits at the entry, what isn't acknowledged, and what is
/// incomplete or out of order, which has as much as both: one part in so many (docs/protocol.md,
/// section 8).
const SENDING_PART: u64 = 4;
const RECEIVING_PART: u64 = 2;
/// Where so much waits at the entry the paths have all that they carry: nobody needs a larger
/// window. Ours (docs/design/017-bbr-over-unequal-links.md).
const ENOUGH_WAITS: Duration = Duration::from_millis(10);
/// A peer of which nothing is heard for this long, by no path, may have
/// forgotten our keys. Ours; not measured apart.
const SILENT: Duration = Duration::from_secs(1);

/// How flows of a peer are to be treated; those that aren't named, as all are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Treatments {
    /// Flows as they are sent to the peer, and their treatments, there and back.
    pub flows: Vec<(FlowKey, Treatment)>,
    /// The rates of limits to the peer. One that isn't named stays as it is.
    pub limits_up: Vec<LimitRate>,
    /// The same, of what the peer sends.
    pub limits_down: Vec<LimitRate>,
}

/// A peer and all state of the connection with it.
#[derive(Debug)]
pub struct Peer {
    pub(crate) config: PeerConfig,
    pub(crate) sessions: Sessions,
    pub(crate) paths: PathSet,
    ingress: Ingress,
    send: Send,
    reliability: Reliability,
    receive: Receive,
    traffic: Traffic,
    timers: TimerTable,
    activity: Activity,
    terms: Terms,
    /// Stands still while no path works.
    working: PausingClock,
    /// What paths report, until it's applied.
    settled: Settled,
    /// Buffers that are free again, for the tunnel to fetch.
    freed: Vec<Vec<u8>>,
}

impl Peer {
    pub(crate) fn new(config: PeerConfig, tunnel: &TunnelConfig, key: HashKey) -> Self {
        let TunnelConfig { layer, memory_per_peer: memory, heuristics, .. } = *tunnel;
        Self {
            config,
            sessions: Sessions::default(),
            paths: PathSet::new(tunnel.path_expiry, heuristics),
            ingress: Ingress::new(
                layer,
                key,
                tunnel.class_modes.clone(),
                memory / SENDING_PART,
                heuristics,
            ),
            send: Send::new(layer, tunnel.mode, heuristics),
            reliability: Reliability::new(memory / SENDING_PART, tunnel.redundancy_budget),
            receive: Receive::new(layer, memory / RECEIVING_PART),
            traffic: Traffic::new(layer, key),
            timers: TimerTable::default(),
            activity: Activity::default(),
            terms: Terms::default(),
            working: PausingClock::default(),
            settled: Settled::default(),
            freed: Vec::new(),
        }
    }

    /// The peer that speaks is this instance. If it's another than before, or the
    /// first, all keys are void: our indices of their sessions.
    pub(crate) fn meet(&mut self, instance: u64, now: Time) -> Option<Vec<u32>> {
        self.sessions.meet(instance, now).then(|| {
            let void = self.sessions.void();
            self.forget_connection(now);
            void
        })
    }

    /// The peer restarted: what it knew of us is gone, so is what we knew of
    /// its packets. What waits at the entry stays.
    fn forget_connection(&mut self, now: Time) {
        // It says its limit anew if it has one.
        if self.terms.on_another_instance() {
            self.ingress.set_whole_limit(None);
        }
        self.reliability.restart(&mut self.freed);
        self.send.restart(&mut self.ingress, self.config.opens_paths());
        self.receive.restart();
        if !self.config.opens_paths() {
            self.ingress.forget_treatments();
        }
        self.paths.restart(&mut self.timers, now);
    }

    /// Opens a path over one of our links to an address of the peer.
    pub(crate) fn open_path(
        &mut self,
        link: LinkId,
        remote: SocketAddr,
        config: &LinkConfig,
        now: Time,
    ) {
        self.paths.open(link, remote, config, &mut self.timers, now);
    }

    /// The user wants the link used otherwise.
    pub(crate) fn set_policy(&mut self, link: LinkId, config: &LinkConfig) {
        self.paths.set_policy(link, config, &mut self.timers);
    }

    /// The link is gone for good. What its paths had in flight is sent again by
    /// others.
    pub(crate) fn close_paths(&mut self, link: LinkId) {
        self.settled.clear();
        if self.paths.close_link(link, &mut self.settled, &mut self.timers) {
            self.after_closing();
        }
    }

    fn close_expired_paths(&mut self, now: Time) {
        if self.config.opens_paths() {
            return; // Our own links: ours to say.
        }
        self.settled.clear();
        if self.paths.close_expired(&mut self.settled, &mut self.timers, now) {
            self.after_closing();
        }
    }

    fn after_closing(&mut self) {
        self.apply_settled();
        self.send.on_paths_closed(&mut self.freed);
    }

    /// The link's carrier or address went or came.
    pub(crate) fn on_link(&mut self, link: LinkId, up: bool, now: Time) {
        self.settled.clear();
        self.paths.on_link(link, up, &mut self.settled, &mut self.timers, now);
        self.apply_settled();
        self.update_clocks(now);
    }

    /// A datagram of this size was too long for the link's device.
    pub(crate) fn on_message_too_long(&mut self, link: LinkId, limit: u16) {
        self.paths.on_message_too_long(link, limit, &mut self.timers);
    }

    /// Change how packets are spread; the peer is told.
    pub(crate) fn set_mode(&mut self, mode: Mode) {
        self.send.set_mode(mode);
    }

    /// Treat flows so, here and at the peer.
    pub(crate) fn treat(&mut self, wanted: Treatments) {
        let Treatments { flows, limits_up, limits_down } = wanted;
        self.ingress.forget_treatments();
        for (key, treatment) in &flows {
            self.ingress.treat(key, *treatment);
        }
        self.ingress.set_limits(limits_up);
        let theirs: Vec<(FlowKey, Treatment)> =
            flows.iter().map(|(key, treatment)| (key.reversed(), *treatment)).collect();
        let hash = |key: &FlowKey| self.ingress.hash(key);
        self.send.want_treatments(&theirs, limits_down, hash, &mut self.timers);
    }

    /// The responder sends with new keys only when it has seen a packet with
    /// them: let there be one.
    pub(crate) fn confirm_keys(&mut self) {
        self.send.confirm_keys(&mut self.timers);
    }

    /// Nothing works, and nothing has been heard for a while.
    pub(crate) fn is_silent(&self, now: Time) -> bool {
        self.paths.up().next().is_none()
            && self.receive.last_heard().is_none_or(|at| now - at > SILENT)
    }

    /// Whether it could serve.
    pub(crate) fn health(&self, now: Time) -> Health {
        let heard = self.paths.up().map(|path| path.liveness.last_progress()).max();
        let works = heard.is_some() && self.sessions.can_send(now);
        let known = self.paths.up().filter(|path| path.rtt.is_known());
        let round_trip = known.map(|path| path.rtt.base()).min();
        let said = self.terms.service.last().map_or(0, |said| said.epoch);
        Health { works, heard, rank: self.rank(), said, round_trip }
    }

    /// How willing the concentrator is to serve us.
    fn rank(&self) -> u8 {
        self.terms.service.last().filter(|_| self.config.opens_paths()).map_or(0, |said| said.word)
    }

    /// Whether the home is served here, as it says.
    pub(crate) fn served(&self) -> Option<Served> {
        let said = self.terms.service.last().filter(|_| !self.config.opens_paths())?;
        let after_silence = said.word == Service::HERE_AFTER_SILENCE;
        let here = after_silence || said.word == Service::HERE;
        Some(Served { here, after_silence, epoch: said.epoch })
    }

    /// The same, once it has said something else.
    pub(crate) fn take_service(&mut self) -> Option<Served> {
        self.terms.service.take_news().then(|| self.served())?
    }

    /// What we say of who serves, at once.
    pub(crate) fn say_service(&mut self, service: Service) {
        self.send.say_service(service, &mut self.timers);
    }

    /// From now on we send the home no more than `to`, and it us no more than `from`.
    pub(crate) fn set_limits(&mut self, to: Option<Rate>, from: Option<Rate>, epoch: u64) {
        self.ingress.set_whole_limit(to);
        self.terms.limit.set(from);
        self.send.say_limit(LimitFrame { rate: from, epoch }, &mut self.timers);
    }

    /// Whether a packet of the peer's of so many bytes is within its limit.
    #[inline]
    pub(crate) fn may_deliver(&mut self, bytes: usize, now: Time) -> bool {
        self.terms.limit.allows(bytes as u64, now)
    }

    /// To which others we refer the home from now on.
    pub(crate) fn refer(&mut self, epoch: u64, referrals: &[Referral]) {
        self.send.refer(epoch, Referral::encode(referrals), &mut self.timers);
    }

    /// To which others the concentrator refers us, once they are others than before.
    pub(crate) fn take_referrals(&mut self) -> Option<Vec<Referral>> {
        self.terms.referred.take()
    }

    /// Whether its paths work is to be known soon.
    pub(crate) fn ask(&mut self, now: Time) {
        self.paths.ask(&mut self.timers, now);
    }

    /// Another peer serves in its place: gives all packets that it is not known to have and
    /// that are of use yet, in the order of each flow.
    pub(crate) fn take_over(&mut self, now: Time) -> Vec<InnerPacket> {
        let Self { reliability, send, ingress, freed, .. } = self;
        let mut carried = Vec::new();
        reliability.abandon_all(&mut carried, |flow, key| {
            send.on_abandoned(flow, key, ingress);
        });
        let restore = |(flow, packet)| send.restore(flow, packet);
        let mut packets = carried.into_iter().filter_map(restore).collect();
        ingress.drain(&mut packets, freed, self.working.at(now), now);
        self.timers.fire(Timer::Control);
        packets
    }

    /// Another peer serves in its place, and this one still works: gives the packets that wait
    /// for it. What is on its way arrives by it.
    pub(crate) fn hand_over(&mut self, now: Time) -> Vec<InnerPacket> {
        let mut packets = Vec::new();
        self.ingress.drain(&mut packets, &mut self.freed, self.working.at(now), now);
        packets
    }

    /// The peer said goodbye: true once.
    pub(crate) fn take_goodbye(&mut self) -> bool {
        std::mem::take(&mut self.receive.closed)
    }

    /// The peer said that it restarts: true once. What waits for it is sent when it is back,
    /// what it hasn't acknowledged is to be fetched by [`Self::take_over`].
    pub(crate) fn take_restart(&mut self) -> bool {
        self.terms.restarting.take_news()
    }

    /// It said so, and isn't back.
    pub(crate) fn is_restarting(&self, now: Time) -> bool {
        self.terms.restarting.holds(now)
    }

    /// All that it was given has arrived, or can't for now.
    pub(crate) fn has_sent_all(&self) -> bool {
        self.paths.up().next().is_none()
            || self.ingress.holds_nothing() && self.reliability.is_idle()
    }

    /// Queues a packet for the peer.
    pub(crate) fn admit(&mut self, packet: InnerPacket, rules: &ClassRules, now: Time) {
        self.activity.on_use(&mut self.timers, now);
        let (sorting, working) = (Sorting { rules, mode: self.send.mode() }, self.working.at(now));
        let Self { ingress, freed, traffic, receive, .. } = self;
        let observers = Observers { traffic, acks: &mut receive.acks };
        let bonded = ingress.admit(packet, sorting, observers, freed, working, now);
        if let Some(bonded) = bonded {
            self.send.push_bonded(bonded);
        }
    }

    /// The next inner packet from the peer.
    #[inline]
    pub(crate) fn poll_inner(&mut self, buffers: &mut Buffers, now: Time) -> Option<Delivered> {
        loop {
            if let Some(released) = self.receive.acks.poll() {
                return Some(released);
            }
            let delivered = self.receive.poll(buffers)?;
            if !self.receive.acks.concerns(delivered.packet.bytes.len()) {
                return Some(delivered);
            }
            if let Some(delivered) = self.pass_ack(delivered, now) {
                return Some(delivered);
            }
        }
    }

    /// A packet that may be an acknowledgement of a stream that we send. `None` if it is held.
    fn pass_ack(&mut self, delivered: Delivered, now: Time) -> Option<Delivered> {
        let Some((id, ack)) = self.ingress.stream_answered(&delivered.packet.bytes) else {
            return Some(delivered);
        };
        let heuristics = self.ingress.heuristics();
        let enough = self.paths.capacity().bytes_in(ENOUGH_WAITS);
        let busy = !heuristics.ack_aggregation || self.ingress.waiting_bytes() > enough;
        let Self { receive, freed, .. } = self;
        let passed = receive.acks.offer(id, ack, delivered, busy, freed, now);
        if self.receive.acks.take_paced(id.place) && heuristics.paced_unthinned {
            self.send.say_paced(id.place, &mut self.timers);
        }
        passed
    }

    /// There is something for the tunnel to fetch, or to learn.
    pub(crate) fn has_news(&self) -> bool {
        self.receive.has_ready()
            || !self.freed.is_empty()
            || self.receive.closed
            || self.terms.is_news()
    }

    /// Gives the buffers that aren't needed any more.
    pub(crate) fn give_back(&mut self, buffers: &mut Buffers) {
        while let Some(buffer) = self.freed.pop() {
            buffers.give(buffer);
        }
    }

    /// Appends the next datagrams to `out`, which is empty.
    pub(crate) fn poll_transmit(
        &mut self,
        cpu_bound: bool,
        now: Time,
        out: &mut Vec<u8>,
    ) -> Option<Transmit> {
        if self.terms.restarting.holds(now) {
            return None;
        }
        self.sessions.sending(now)?;
        let settings = ControlSettings {
            opens_paths: self.config.opens_paths(),
            idle: self.activity.probe_after(self.config.keepalive, now),
        };
        let mut outlet = Outlet {
            paths: &mut self.paths,
            sessions: &mut self.sessions,
            timers: &mut self.timers,
            freed: &mut self.freed,
            traffic: &mut self.traffic,
            cpu_bound,
            now,
            working: self.working.at(now),
            out,
        };
        self.send.poll(&mut self.ingress, &mut self.reliability, settings, &mut outlet)
    }

    /// A goodbye by every path, with its reason.
    pub(crate) fn say_goodbye(&mut self, reason: u8, now: Time, to: &mut Vec<(Transmit, Vec<u8>)>) {
        let mut outlet = Outlet {
            paths: &mut self.paths,
            sessions: &mut self.sessions,
            timers: &mut self.timers,
            freed: &mut self.freed,
            traffic: &mut self.traffic,
            cpu_bound: false,
            now,
            working: self.working.at(now),
            out: &mut Vec::new(),
        };
        Send::say_goodbye(reason, &mut outlet, to);
    }

    /// [`Self::poll_transmit`] would find nothing: with many peers most have one
    /// datagram at a time, and asking twice costs as much as sending.
    pub(crate) fn is_done(&self, now: Time) -> bool {
        !self.timers.is_due(Timer::Control, now)
            && self.nothing_waits()
            && self.send.is_empty()
            && self.reliability.redundancy.is_empty()
    }

    /// Neither new packets nor repairs wait to be sent.
    fn nothing_waits(&self) -> bool {
        self.ingress.is_empty() && self.reliability.has_no_repairs()
    }

    /// Earliest moment at which something is due. To be asked when
    /// [`Self::poll_transmit`] has nothing more.
    pub(crate) fn deadline(&mut self, now: Time) -> Option<Time> {
        if let Some(until) = self.terms.restarting.held_until(now) {
            return Some(until);
        }
        let Self { ingress, send, reliability, receive, paths, timers, .. } = self;
        let working = |at| self.working.when(at);
        timers.set(Timer::Abandon, reliability.deadlines().filter_map(working).min());
        timers.set(Timer::Reordering, receive.expires_at());
        timers.set(Timer::Parity, reliability.redundancy.deadline());
        timers.set(Timer::EntryRelease, ingress.release_at());
        timers.set(Timer::AckRelease, receive.acks.release_at());
        timers.set(Timer::Idle, self.activity.idle_at(now));
        timers.set(Timer::Departure, send.next_departure(ingress, reliability, paths, now));
        timers.earliest(self.sessions.can_send(now))
    }

    /// Handles what is due at `now`, apart from sending.
    pub(crate) fn on_timeout(&mut self, now: Time) {
        if self.timers.only_sending_is_due(now) || self.terms.restarting.holds(now) {
            return;
        }
        self.timers.fire(Timer::Control);
        self.timers.set(Timer::Upkeep, Some(now + UPKEEP));
        self.paths.summarize(&mut self.timers);
        let idle = self.reliability.has_no_repairs()
            && (self.ingress.is_empty() || self.paths.have_room(now));
        self.settled.clear();
        self.paths.on_timeout(idle, &mut self.settled, &mut self.timers, now);
        self.apply_settled();
        self.close_expired_paths(now);
        self.update_clocks(now);
        self.abandon_late(now);
        self.ingress.release(&mut self.freed, self.working.at(now), now);
        self.receive.acks.release(now);
        self.rest_if_idle(now);
        self.follow_paths(now);
        self.receive.expire(now);
        self.reliability.redundancy.on_timeout(now);
    }

    /// Applies what paths report: frames that were lost.
    fn apply_settled(&mut self) {
        for frame in self.settled.lost.drain(..) {
            match frame {
                SentFrame::Chunk { .. } | SentFrame::Abandoned(_) => {
                    self.reliability.on_lost(frame)
                }
                SentFrame::Announcement(of) => {
                    self.send.on_announcement_lost(of, &mut self.timers);
                }
                SentFrame::Treatment { flow } => {
                    self.send.on_treatment_lost(flow, &mut self.timers);
                }
                SentFrame::PathStatus { path } => self.paths.on_policy_lost(path),
            }
        }
    }

    /// The repair clock runs while some path works, that of the exit while
    /// something is heard.
    fn update_clocks(&mut self, now: Time) {
        if self.paths.up().next().is_some() {
            self.working.run(now);
        } else {
            self.working.stop(now);
        }
        self.receive.pause_if_silent(now);
    }

    /// Packets whose repair would come too late are given up, and the peer is
    /// told.
    fn abandon_late(&mut self, now: Time) {
        if !self.working.runs() {
            return;
        }
        let Self { reliability, send, ingress, freed, .. } = self;
        reliability.abandon_late(freed, self.working.at(now), |flow, key| {
            send.on_abandoned(flow, key, ingress);
        });
    }

    /// Gives memory back if nothing has passed for a while and nothing is
    /// under way.
    fn rest_if_idle(&mut self, now: Time) {
        let under_way = !self.ingress.holds_nothing() || !self.reliability.is_idle();
        if !self.activity.goes_to_rest(under_way, now) {
            return;
        }
        self.ingress.rest();
        self.send.rest();
        self.receive.rest();
        self.traffic.rest(now);
        let no_frames = self.paths.rest();
        self.reliability.rest(!no_frames);
        self.settled = Settled::default();
        self.freed.shrink_to_fit();
    }

    /// Takes over what follows from the paths as they are now.
    fn follow_paths(&mut self, now: Time) {
        let Self { paths, ingress, reliability, receive, timers, .. } = self;
        let capacity = paths.capacity();
        reliability.redundancy.earn(capacity, now);
        ingress.follow(paths);
        if timers.is_due(Timer::Tuning, now) {
            timers.set(Timer::Tuning, Some(now + TUNING));
            ingress.tune(paths, capacity);
            reliability.tune(paths);
            receive.tune(paths, capacity);
        }
    }
}
