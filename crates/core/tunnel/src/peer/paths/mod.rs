//! The paths to one peer: opened, closed, and watched for losses.

mod calls;
mod summary;
#[cfg(test)]
mod tests;

pub(crate) use summary::Candidates;

use super::timers::{Timer, TimerTable};
use crate::clock::PeerClock;
use crate::config::LinkConfig;
use crate::heuristics::Heuristics;
use crate::id::LinkId;
use crate::path::closed::ClosedPath;
use crate::path::liveness::PathState;
use crate::path::reports::Reports;
use crate::path::sent::SentFrame;
use crate::path::{Controller, Others, Path, PathCounters, PathPolicy, Settled};
use braid_units::{Rate, Time};
use braid_wire::{Ack, PathStatus};
use calls::Calls;
use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};
use std::time::Duration;
use summary::Summary;

/// Most paths of one peer.
pub(crate) const MAX_PATHS: usize = 64;

/// The largest IP packet, in bytes, that our device takes where the peer opened the path and
/// its link has no config here: Ethernet's.
const ASSUMED_MTU: u16 = 1500;
/// A path that carries less than one part in this of all doesn't make a window too small. Ours
/// (docs/design/017-bbr-over-unequal-links.md).
const PART_THAT_COUNTS: u64 = 4;

/// All paths of one peer. Others name them by their places, which change when one
/// is closed.
#[derive(Debug)]
pub(crate) struct PathSet {
    paths: Vec<Path>,
    /// Paths that are no more, those closed last at the end; one for a number at
    /// the most.
    closed: Vec<ClosedPath>,
    /// How long nothing may come by a path that doesn't work before it's closed.
    expiry: Duration,
    summary: Summary,
    reports: Reports,
    peer_clock: PeerClock,
    /// A report that the peer wrote at this moment or later may show that a path
    /// is silent.
    settles_at: Time,
    /// Nothing waits to be sent: the paths have room to spare.
    spare: bool,
    calls: Calls,
    heuristics: Heuristics,
}

impl Deref for PathSet {
    type Target = [Path];

    fn deref(&self) -> &[Path] {
        &self.paths
    }
}

impl DerefMut for PathSet {
    fn deref_mut(&mut self) -> &mut [Path] {
        &mut self.paths
    }
}

impl<'a> IntoIterator for &'a PathSet {
    type Item = &'a Path;
    type IntoIter = std::slice::Iter<'a, Path>;

    fn into_iter(self) -> Self::IntoIter {
        self.paths.iter()
    }
}

impl<'a> IntoIterator for &'a mut PathSet {
    type Item = &'a mut Path;
    type IntoIter = std::slice::IterMut<'a, Path>;

    fn into_iter(self) -> Self::IntoIter {
        self.paths.iter_mut()
    }
}

impl PathSet {
    /// None yet.
    pub fn new(expiry: Duration, heuristics: Heuristics) -> Self {
        Self {
            paths: Vec::new(),
            closed: Vec::new(),
            expiry,
            summary: Summary::default(),
            reports: Reports::default(),
            peer_clock: PeerClock::default(),
            settles_at: Time::FAR_FUTURE,
            spare: false,
            calls: Calls::default(),
            heuristics,
        }
    }

    /// Opens a path over one of our links to an address of the peer, unless the
    /// link has one or there are as many as may be.
    pub fn open(
        &mut self,
        link: LinkId,
        remote: SocketAddr,
        config: &LinkConfig,
        timers: &mut TimerTable,
        now: Time,
    ) {
        if self.is_full() || self.paths.iter().any(|p| p.link == link) {
            return;
        }
        let Some(id) = self.number_for(link) else { return };
        let mut path = self.new_path(id, link, remote, config.device_mtu, now);
        apply_policy(&mut path, config);
        self.paths.push(path);
        timers.fire(Timer::Control);
    }

    /// The number that a path of this link had before, or one that is free.
    fn number_for(&self, link: LinkId) -> Option<u8> {
        if let Some(closed) = self.closed.iter().find(|p| p.link == link) {
            return Some(closed.id);
        }
        let taken =
            |id| self.paths.iter().any(|p| p.id == id) || self.closed.iter().any(|p| p.id == id);
        let free = (0..MAX_PATHS as u8).find(|&id| !taken(id));
        // The peer has room for so many: then for it a path has moved that was
        // closed long ago.
        free.or_else(|| self.closed.first().map(|oldest| oldest.id))
    }

    /// There are as many as may be.
    pub fn is_full(&self) -> bool {
        self.paths.len() >= MAX_PATHS
    }

    /// The peer opened a path: its place. `None` if it has as many as it may.
    pub fn accept(&mut self, id: u8, link: LinkId, remote: SocketAddr, now: Time) -> Option<usize> {
        if self.is_full() {
            return None;
        }
        let path = self.new_path(id, link, remote, ASSUMED_MTU, now);
        self.paths.push(path);
        Some(self.paths.len() - 1)
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
        let mut path = Path::new(id, link, remote, device_mtu, self.heuristics, now);
        if let Some(index) = self.closed.iter().position(|p| p.id == id) {
            path.continue_from(&self.closed.remove(index));
        }
        path
    }

    /// The user wants the link used otherwise.
    pub fn set_policy(&mut self, link: LinkId, config: &LinkConfig, timers: &mut TimerTable) {
        timers.fire(Timer::Control);
        for path in self.paths.iter_mut().filter(|p| p.link == link) {
            apply_policy(path, config);
        }
    }

    /// The peer says how a path that it opened is to be used.
    pub fn on_status(&mut self, status: &PathStatus, timers: &mut TimerTable) {
        timers.fire(Timer::Control);
        for path in self.paths.iter_mut().filter(|p| p.id == status.path) {
            path.policy =
                PathPolicy { tier: status.tier, standby: status.standby, cap: status.cap };
            path.set_cap(status.cap);
        }
    }

    /// The policy of this path was told, but didn't arrive.
    pub fn on_policy_lost(&mut self, id: u8) {
        for path in self.paths.iter_mut().filter(|p| p.id == id) {
            path.policy_untold = true;
        }
    }

    /// The link's carrier or address went or came.
    pub fn on_link(
        &mut self,
        link: LinkId,
        up: bool,
        settled: &mut Settled,
        timers: &mut TimerTable,
        now: Time,
    ) {
        timers.fire(Timer::Control);
        for path in self.paths.iter_mut().filter(|p| p.link == link) {
            path.liveness.on_link(up, now);
            path.liveness.probe_soon(now);
            if !up {
                path.abandon_flight(settled);
            }
        }
    }

    /// Whether each works is to be known at once.
    pub fn ask(&mut self, timers: &mut TimerTable, now: Time) {
        timers.fire(Timer::Control);
        for path in &mut self.paths {
            path.liveness.ask(now);
        }
    }

    /// A datagram was too long for the link's device.
    pub fn on_message_too_long(&mut self, link: LinkId, limit: u16, timers: &mut TimerTable) {
        timers.fire(Timer::Control);
        for path in self.paths.iter_mut().filter(|p| p.link == link) {
            path.mtu.on_local_emsgsize(limit);
        }
    }

    /// The peer restarted: what it knew of the paths is gone, so is what we knew
    /// of its packets. Addresses, policies and datagram sizes stay.
    pub fn restart(&mut self, timers: &mut TimerTable, now: Time) {
        self.peer_clock = PeerClock::default();
        self.reports = Reports::default();
        self.closed.clear();
        timers.fire(Timer::Control);
        for path in &mut self.paths {
            let Path { id, link, remote, .. } = *path;
            let mut fresh = Path::new(id, link, remote, ASSUMED_MTU, self.heuristics, now);
            std::mem::swap(&mut fresh.mtu, &mut path.mtu);
            fresh.policy = path.policy;
            fresh.policy_untold = true;
            fresh.counters = path.counters;
            fresh.local = path.local;
            fresh.cap_down = path.cap_down;
            fresh.set_cap(path.policy.cap);
            if path.state() == PathState::LinkDown {
                fresh.liveness.on_link(false, now);
            }
            *path = fresh;
        }
    }

    /// Drops all paths: the peer will open them anew.
    pub fn clear(&mut self) {
        self.paths.clear();
    }

    /// Closes the paths over a link. What they had in flight is lost. True if
    /// there was one: places are others then.
    pub fn close_link(
        &mut self,
        link: LinkId,
        settled: &mut Settled,
        timers: &mut TimerTable,
    ) -> bool {
        let ids: Vec<u8> = self.paths.iter().filter(|p| p.link == link).map(|p| p.id).collect();
        self.close(&ids, settled, timers)
    }

    /// Closes the paths that the peer seems to have left: they don't work, and
    /// nothing came by them for long. The one that was heard last stays: it says
    /// where the peer was. True if there was one, as above.
    pub fn close_expired(
        &mut self,
        settled: &mut Settled,
        timers: &mut TimerTable,
        now: Time,
    ) -> bool {
        let last = self.paths.iter().max_by_key(|p| p.inbound.last()).map(|p| p.id);
        let silent = self.paths.iter().filter(|p| !p.liveness.is_up() && Some(p.id) != last);
        let due = |heard_at: Time| heard_at + self.expiry;
        let next = silent.clone().map(|p| due(p.inbound.last())).filter(|at| *at > now).min();
        timers.set(Timer::PathExpiry, next);
        let left: Vec<u8> = silent.filter(|p| due(p.inbound.last()) <= now).map(|p| p.id).collect();
        self.close(&left, settled, timers)
    }

    fn close(&mut self, ids: &[u8], settled: &mut Settled, timers: &mut TimerTable) -> bool {
        if ids.is_empty() {
            return false;
        }
        for mut path in self.paths.extract_if(.., |p| ids.contains(&p.id)) {
            path.abandon_flight(settled);
            self.closed.push(ClosedPath::from(path));
        }
        timers.fire(Timer::Control);
        true
    }

    /// The place of the path of this number. Most have it by their numbers.
    pub fn place_of(&self, id: u8) -> Option<usize> {
        let index = usize::from(id);
        match self.paths.get(index) {
            Some(path) if path.id == id => Some(index),
            _ => self.paths.iter().position(|p| p.id == id),
        }
    }

    /// The largest packet number that came by a path of this number, if there
    /// was one that is closed.
    pub fn largest_of_closed(&self, id: u8) -> Option<u64> {
        self.closed.iter().find(|p| p.id == id)?.largest_received
    }

    /// The paths that work.
    pub fn up(&self) -> impl Iterator<Item = &Path> {
        self.paths.iter().filter(|path| path.liveness.is_up())
    }

    /// One that works may send now.
    pub fn have_room(&self, now: Time) -> bool {
        self.up().any(|path| path.is_available(now))
    }

    /// One that works may send within this time.
    pub fn has_room_within(&self, now: Time, wait: Duration) -> bool {
        self.up().any(|path| path.release_at(now).is_some_and(|at| at <= now + wait))
    }

    /// Without a queue, of all paths that work.
    pub fn least_round_trip(&self) -> Duration {
        self.up().map(|path| path.rtt.base()).min().unwrap_or_default()
    }

    /// The same of the slowest of them.
    pub fn slowest_round_trip(&self) -> Duration {
        self.up().map(|path| path.rtt.base()).max().unwrap_or_default()
    }

    /// The same of the slowest of those that bring a part of `capacity` that counts, or may do so.
    pub fn slowest_that_counts(&self, capacity: Rate) -> Duration {
        let counts = |path: &&Path| {
            let rate = path.congestion.bandwidth().bytes_per_sec();
            let most = rate.saturating_mul(PART_THAT_COUNTS);
            path.congestion.in_startup() || most >= capacity.bytes_per_sec()
        };
        self.up().filter(counts).map(|path| path.rtt.base()).max().unwrap_or_default()
    }

    /// Of all paths that work.
    pub fn capacity(&self) -> Rate {
        let rates = self.up().map(|p| p.congestion.bandwidth().bytes_per_sec());
        Rate::from_bytes_per_sec(rates.sum())
    }

    /// Datagrams that really were lost, by closed paths too.
    pub fn lost(&self) -> u64 {
        let lost = |c: &PathCounters| c.lost.saturating_sub(c.spurious);
        let open: u64 = self.paths.iter().map(|p| lost(&p.counters)).sum();
        open + self.closed.iter().map(ClosedPath::lost).sum::<u64>()
    }

    /// Takes an acknowledgement in. `arrived` is told of each frame that the peer
    /// has. False if it's of no path of ours.
    pub fn on_ack(
        &mut self,
        ack: &Ack<'_>,
        arrived: impl FnMut(SentFrame),
        settled: &mut Settled,
        timers: &mut TimerTable,
        now: Time,
    ) -> bool {
        let feedback = self.feedback_interval();
        let Some(index) = self.place_of(ack.path) else { return false };
        // Paths that work again and sizes that pass are followed by probes.
        timers.fire(Timer::Control);
        let clock = &mut self.peer_clock;
        let written_us = clock.unwrap(ack.largest_received_us) + i64::from(ack.delay_us);
        let path = &mut self.paths[index];
        path.congestion.set_beside_call(self.calls.run(now));
        path.on_ack(ack, now, feedback, |us| clock.unwrap(us), arrived, settled);
        self.note_losses_of(index, timers);
        self.reports.on_report(written_us, now);
        // Of other paths it may be the last word.
        if self.reports.has_told(self.settles_at) {
            self.look_for_losses(timers);
        }
        true
    }

    /// Looks for losses and silence on all paths. `idle`: nothing waits to be
    /// sent.
    pub fn on_timeout(
        &mut self,
        idle: bool,
        settled: &mut Settled,
        timers: &mut TimerTable,
        now: Time,
    ) {
        self.spare &= idle;
        let (feedback, others) = (self.feedback_interval(), self.others());
        for path in &mut self.paths {
            path.on_timeout(now, feedback, others, &self.reports, settled);
        }
        self.look_for_losses(timers);
    }

    /// A real-time packet is sent.
    pub fn note_realtime(&mut self, now: Time) {
        self.calls.note(now);
    }

    /// Nothing waits to be sent: what is late is sent again sooner.
    pub fn on_idle(&mut self, timers: &mut TimerTable) {
        if !self.spare {
            self.spare = true;
            self.look_for_losses(timers);
        }
    }

    /// What other paths are to one of several.
    fn others(&self) -> Others {
        match (self.summary.several, self.spare) {
            (false, _) => Others::None,
            (true, true) if self.heuristics.spare_reinjection => Others::Free,
            (true, _) => Others::Busy,
        }
    }

    /// Notes when a path next takes something for lost or late.
    fn look_for_losses(&mut self, timers: &mut TimerTable) {
        timers.set(Timer::Loss, None);
        self.settles_at = Time::FAR_FUTURE;
        for index in 0..self.paths.len() {
            self.note_losses_of(index, timers);
        }
    }

    /// What was just sent or acknowledged by this path may be lost earlier than
    /// anything else.
    pub fn note_losses_of(&mut self, index: usize, timers: &mut TimerTable) {
        let (feedback, others) = (self.summary.feedback, self.others());
        let Some(path) = self.paths.get(index) else { return };
        let deadlines = path.deadlines(feedback, others, &self.reports);
        if let Some(at) = deadlines.at {
            timers.bring_forward(Timer::Loss, at);
        }
        self.settles_at =
            deadlines.settled_at.map_or(self.settles_at, |at| at.min(self.settles_at));
    }

    /// Gives back the memory that isn't in use. True if no frame of any packet is
    /// remembered.
    pub fn rest(&mut self) -> bool {
        for path in &mut self.paths {
            path.sent.rest();
            path.received.rest();
            path.congestion.on_idle();
        }
        self.paths.iter().all(|path| path.sent.has_no_frames())
    }
}

fn apply_policy(path: &mut Path, config: &LinkConfig) {
    path.policy = PathPolicy { tier: config.tier, standby: config.standby, cap: config.cap_up };
    path.policy_untold = true;
    path.cap_down = config.cap_down;
    path.set_cap(config.cap_up);
}
