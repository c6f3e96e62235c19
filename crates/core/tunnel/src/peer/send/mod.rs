//! What is sent to the peer, in which order, and by which path.

mod affinity;
mod bonding;
mod data;
mod datagram;
mod feedback;
mod header_compressor;
mod news;
mod packetizer;
mod probes;
mod redundancy;
mod scheduler;
mod treatments;

pub(super) use datagram::Outlet;
pub use datagram::Transmit;
pub(super) use treatments::wanted;

use super::ingress::{ForBonding, Ingress};
use super::paths::PathSet;
use super::reliability::Reliability;
use super::timers::{Timer, TimerTable};
use crate::carried::CarriedPacket;
use crate::config::Mode;
use crate::entry::{LimitRate, Treatment};
use crate::heuristics::Heuristics;
use crate::path::sent::Announcement;
use affinity::Affinity;
use bonding::Bonding;
use braid_inner::{FlowKey, InnerPacket, Layer};
use braid_units::Time;
use braid_wire::{Close, ContextKnown, LimitFrame, Service};
use feedback::Feedback;
use news::News;
use packetizer::Packetizer;
use scheduler::Scheduler;
use std::time::Duration;
use treatments::WantedTreatments;

/// The sending side: reports and probes, then parities and copies, packets of
/// the kernel's bonding modes, repairs and the queue.
#[derive(Debug)]
pub(crate) struct Send {
    pub(super) scheduler: Scheduler,
    affinity: Affinity,
    packetizer: Packetizer,
    bonding: Bonding,
    feedback: Feedback,
    news: News,
    treatments: WantedTreatments,
    /// The peer waits for a packet with the new keys.
    confirm: bool,
    /// What waits could go by a path that has room, and waits for a better one.
    declined: bool,
}

/// What the peer's role and use say of control datagrams.
#[derive(Clone, Copy, Debug)]
pub(super) struct ControlSettings {
    /// We opened the paths: we say how they are to be used, and ask by those that
    /// fell silent.
    pub opens_paths: bool,
    /// After so long an idle path is probed.
    pub idle: Option<Duration>,
}

impl Send {
    /// Spreads packets by `mode`.
    pub fn new(layer: Layer, mode: Mode, heuristics: Heuristics) -> Self {
        Self {
            scheduler: Scheduler::new(mode, heuristics),
            affinity: Affinity::default(),
            packetizer: Packetizer::new(layer, heuristics.header_compression),
            bonding: Bonding::new(layer),
            feedback: Feedback::new(heuristics),
            news: News::default(),
            treatments: WantedTreatments::default(),
            confirm: false,
            declined: false,
        }
    }

    /// How packets are spread.
    pub fn mode(&self) -> Mode {
        self.scheduler.mode
    }

    /// Spreads packets otherwise; the peer is told.
    pub fn set_mode(&mut self, mode: Mode) {
        if mode != self.scheduler.mode {
            self.news.announce_mode();
        }
        self.scheduler.mode = mode;
    }

    /// The peer wants packets to it spread so.
    pub fn follow_mode(&mut self, mode: Mode) {
        self.scheduler.mode = mode;
    }

    /// What is said of who serves; the peer is told at once.
    pub fn say_service(&mut self, service: Service, timers: &mut TimerTable) {
        self.news.announce_service(service);
        self.tell(timers);
    }

    /// What the peer may send at the most; it is told at once.
    pub fn say_limit(&mut self, limit: LimitFrame, timers: &mut TimerTable) {
        self.news.announce_limit(limit);
        self.tell(timers);
    }

    /// To which others the home is referred; it is told at once.
    pub fn refer(&mut self, epoch: u64, list: Vec<u8>, timers: &mut TimerTable) {
        self.news.announce_referrals(epoch, list);
        self.tell(timers);
    }

    /// The sender of the flow that has this place paces; the peer is told at once.
    pub fn say_paced(&mut self, flow: u16, timers: &mut TimerTable) {
        self.news.announce_paced(flow);
        self.tell(timers);
    }

    /// The peer's context of this flow, and of this number, is known; it is told at once.
    pub fn say_context_known(&mut self, flow: u16, number: u8, timers: &mut TimerTable) {
        self.news.announce_context_known(flow, number);
        self.tell(timers);
    }

    /// The peer knows a context of ours.
    pub fn on_context_known(&mut self, known: &ContextKnown) {
        self.packetizer.compressor.on_known(known.flow, known.number);
    }

    /// As the packet was before it was given a number.
    pub fn restore(&mut self, flow: u16, packet: CarriedPacket) -> Option<InnerPacket> {
        self.packetizer.compressor.restore(flow, packet)
    }

    /// What was told of it didn't arrive.
    pub fn on_announcement_lost(&mut self, of: Announcement, timers: &mut TimerTable) {
        self.news.on_lost(of);
        if let Announcement::Context(flow, number) = of {
            self.packetizer.compressor.on_lost(flow, number);
        }
        self.tell(timers);
    }

    /// Sends at once what is to be told at once.
    fn tell(&self, timers: &mut TimerTable) {
        if self.news.is_urgent() || self.packetizer.compressor.has_untold() {
            timers.fire(Timer::Control);
        }
    }

    /// The peer is told how flows that it sends are to be treated, and at what rates limits
    /// are.
    pub fn want_treatments(
        &mut self,
        flows: &[(FlowKey, Treatment)],
        limits: Vec<LimitRate>,
        hash: impl Fn(&FlowKey) -> u64,
        timers: &mut TimerTable,
    ) {
        self.treatments.set(flows, limits, hash, timers);
    }

    /// What was told of a flow's treatment didn't arrive.
    pub fn on_treatment_lost(&mut self, flow: u64, timers: &mut TimerTable) {
        self.treatments.on_lost(flow, timers);
    }

    /// The responder sends with new keys only when it has seen a packet with them:
    /// let there be one.
    pub fn confirm_keys(&mut self, timers: &mut TimerTable) {
        self.confirm = true;
        timers.fire(Timer::Control);
    }

    /// A packet of one of the kernel's bonding modes.
    pub fn push_bonded(&mut self, packet: ForBonding) {
        self.bonding.push(packet);
    }

    /// A packet isn't sent any further.
    pub fn on_abandoned(
        &mut self,
        flow: u16,
        key: crate::outgoing::PacketKey,
        ingress: &mut Ingress,
    ) {
        self.packetizer.on_abandoned(flow, key, ingress);
    }

    /// The peer restarted: numbers begin anew. `is_home`: we say who serves, and not how willing we
    /// are to.
    pub fn restart(&mut self, ingress: &mut Ingress, is_home: bool) {
        self.packetizer.restart(ingress);
        self.bonding.restart();
        self.news.restart(is_home);
        self.treatments.restart();
    }

    /// Paths have other places now.
    pub fn on_paths_closed(&mut self, freed: &mut Vec<Vec<u8>>) {
        self.feedback.on_paths_closed();
        self.affinity.on_paths_closed();
        self.bonding.on_paths_closed(freed);
    }

    /// Nothing waits here.
    pub fn is_empty(&self) -> bool {
        !self.feedback.has_copy() && self.bonding.is_empty()
    }

    /// Gives back memory that isn't in use.
    pub fn rest(&mut self) {
        self.packetizer.rest();
        self.scheduler.rest();
    }

    /// The next datagrams for one path.
    pub fn poll(
        &mut self,
        ingress: &mut Ingress,
        reliability: &mut Reliability,
        settings: ControlSettings,
        outlet: &mut Outlet<'_>,
    ) -> Option<Transmit> {
        if outlet.timers.is_due(Timer::Control, outlet.now) || self.feedback.has_copy() {
            outlet.paths.summarize(outlet.timers);
            let data_waits = !ingress.is_empty();
            let control = self.poll_control(data_waits, reliability, settings, outlet);
            if control.is_some() {
                return control;
            }
            let reports_at = self.feedback.waits_until();
            let next = outlet.paths.next_control(reports_at, settings.idle, settings.opens_paths);
            outlet.timers.set(Timer::Control, next);
        }
        if !reliability.redundancy.is_empty() {
            let twice = redundancy::poll(&self.scheduler, reliability, outlet);
            if twice.is_some() {
                return twice;
            }
        }
        let bonded = self.bonding.poll(outlet);
        bonded.or_else(|| self.poll_data(ingress, reliability, settings, outlet))
    }

    fn poll_control(
        &mut self,
        data_waits: bool,
        reliability: &mut Reliability,
        settings: ControlSettings,
        outlet: &mut Outlet<'_>,
    ) -> Option<Transmit> {
        let mode = self.scheduler.mode;
        let (abandoned, compressor) = (&mut reliability.abandoned, &mut self.packetizer.compressor);
        let mut news = self.news.pending(mode, abandoned, settings.opens_paths, compressor);
        let report = self.feedback.poll(&mut news, data_waits, outlet);
        report
            .or_else(|| probes::poll(&mut self.confirm, &mut news, settings, outlet))
            .or_else(|| self.treatments.poll(outlet))
    }

    /// A goodbye by every path, with its reason and what came by all of them: the peer sends none
    /// of that to who comes after.
    pub fn say_goodbye(reason: u8, outlet: &mut Outlet<'_>, to: &mut Vec<(Transmit, Vec<u8>)>) {
        for index in 0..outlet.paths.len() {
            outlet.out.clear();
            let datagram = outlet.begin(index);
            Close { reason }.write(outlet.out);
            feedback::write_reports(&datagram, outlet);
            if let Some(transmit) = outlet.send_single(datagram, false) {
                to.push((transmit, std::mem::take(outlet.out)));
            }
        }
    }

    /// When a path will next be free, if something waits for one.
    pub fn next_departure(
        &self,
        ingress: &Ingress,
        reliability: &Reliability,
        paths: &PathSet,
        now: Time,
    ) -> Option<Time> {
        let copies_wait = !reliability.redundancy.asked.is_empty();
        if ingress.is_empty() && reliability.has_no_repairs() && !copies_wait {
            return None;
        }
        // What waits for a better path goes when that has room, or an acknowledgement
        // says more; that another has room now is known.
        let times = paths.usable().of(paths).filter_map(|(_, path)| path.release_at(now));
        let free = times.filter(|at| !self.declined || *at > now).min()?;
        let more = self.waits_for_more(ingress, reliability, paths, now);
        Some(more.map_or(free, |until| until.max(free)))
    }
}
