//! Reports of what has come go to the peer.

use super::datagram::{Datagram, Outlet, Transmit};
use super::news::PendingNews;
use crate::heuristics::Heuristics;
use crate::path::liveness::PathState;
use crate::path::{Controller, Path};
use braid_units::Time;
use std::time::Duration;

/// Quick paths are reported on each millisecond or more often: when a report is
/// lost others follow, and copies of all would be half of what is sent back. With
/// one each millisecond a sender by eight links without a limit made 4 % more
/// calls to send.
const COPIES_APART: Duration = Duration::from_millis(4);
/// A report that is due waits no longer for data to go with.
const LONGEST_RIDE_WAIT: Duration = Duration::from_millis(20);
/// A report's bytes: paths are compared for that.
const LIKELY: u64 = 100;

/// One datagram with the reports of all paths, by the path that gets them there
/// soonest, and a copy by the second: feedback must not die with a path.
#[derive(Debug)]
pub(super) struct Feedback {
    heuristics: Heuristics,
    /// The path by which the last report goes a second time.
    copy: Option<usize>,
    /// When a report last went a second time.
    copied_at: Time,
    /// What is due waits so long for a datagram of data.
    waits_until: Option<Time>,
}

impl Feedback {
    /// Nothing has been reported.
    pub fn new(heuristics: Heuristics) -> Self {
        Self { heuristics, waits_until: None, copy: None, copied_at: Time::ZERO }
    }

    /// A copy is to be sent at once.
    pub fn has_copy(&self) -> bool {
        self.copy.is_some()
    }

    /// Paths have other places now.
    pub fn on_paths_closed(&mut self) {
        self.copy = None;
    }

    /// Puts the reports into a datagram of data that goes anyway, if by no other path they
    /// would be there sooner: 18 bytes instead of a datagram of 70.
    pub fn ride(&mut self, datagram: &Datagram, outlet: &mut Outlet<'_>) {
        let (now, interval) = (outlet.now, outlet.paths.feedback_interval());
        if !self.heuristics.report_riding
            || !outlet.paths.iter().any(|p| p.received.may_ride(interval, now))
        {
            return;
        }
        let (first, second) = soonest_two(outlet.paths, now);
        if first == Some(datagram.path) {
            write_reports(datagram, outlet);
            self.on_first(second, outlet);
        }
    }

    /// The reports that are due. What a datagram has no room for follows at once
    /// in another.
    pub fn poll(
        &mut self,
        news: &mut PendingNews<'_>,
        data_waits: bool,
        outlet: &mut Outlet<'_>,
    ) -> Option<Transmit> {
        let now = outlet.now;
        if let Some(index) = self.copy.take() {
            let works = outlet.paths.get(index).is_some_and(|p| p.liveness.is_up());
            let copy = if works { send(index, news, outlet) } else { None };
            on_sent(outlet);
            if copy.is_some() {
                return copy;
            }
        }
        let interval = outlet.paths.feedback_interval();
        let due = outlet.paths.iter().filter_map(|p| p.received.report_at(interval)).min();
        let due = due.filter(|due| *due <= now)?;
        let (first, second) = soonest_two(outlet.paths, now);
        if data_waits
            && self.heuristics.report_riding
            && let Some(path) = first.and_then(|first| outlet.paths.get(first))
            && let Some(until) = waits(path, due, outlet)
        {
            self.waits_until = Some(until);
            return None;
        }
        self.waits_until = None;
        let Some(transmit) = first.and_then(|first| send(first, news, outlet)) else {
            // There's no way: the next report will say it.
            for path in outlet.paths.iter_mut().filter(|p| p.received.has_news()) {
                path.received.on_reported(now);
            }
            return None;
        };
        self.on_first(second, outlet);
        Some(transmit)
    }

    /// When what is due goes at the latest.
    pub fn waits_until(&self) -> Option<Time> {
        self.waits_until
    }

    /// The reports are written; `second` is the path for a copy.
    fn on_first(&mut self, second: Option<usize>, outlet: &mut Outlet<'_>) {
        let now = outlet.now;
        self.waits_until = None;
        let copies = self.heuristics.report_copies && now >= self.copied_at + COPIES_APART;
        match second {
            Some(second) if copies => {
                self.copy = Some(second);
                self.copied_at = now;
            }
            _ => on_sent(outlet),
        }
    }
}

/// A report that is `due` would queue behind the datagram that was sent last: so long it can
/// as well wait for the next.
fn waits(path: &Path, due: Time, outlet: &Outlet<'_>) -> Option<Time> {
    if outlet.paths.iter().any(|p| p.received.is_urgent()) {
        return None;
    }
    let turn = path.congestion.pacing_rate().time_for(u64::from(path.mtu.current()));
    let until = due + turn.min(LONGEST_RIDE_WAIT);
    let free = path.release_at(outlet.now)?;
    (outlet.now < until && free < until).then_some(until)
}

/// The places of the paths by which a report gets there soonest.
fn soonest_two(paths: &[Path], now: Time) -> (Option<usize>, Option<usize>) {
    // Of paths that don't work, one by which something came has the best chance:
    // answering always by the quickest of old, which may stay dark, would keep
    // both ends from seeing that another is back.
    let promise = |p: &Path| match p.liveness.is_up() {
        true => 0,
        false if p.received.has_news() => 1,
        false => 2,
    };
    let (mut first, mut second) = (None, None);
    for (index, path) in paths.iter().enumerate() {
        if path.state() == PathState::LinkDown {
            continue;
        }
        let new = Some((promise(path), path.arrival_us(LIKELY, now), index));
        if first.is_none() || new < first {
            (first, second) = (new, first);
        } else if second.is_none() || new < second {
            second = new;
        }
    }
    (first.map(|(_, _, index)| index), second.map(|(_, _, index)| index))
}

/// Of all paths by which something has come since the last.
pub(super) fn write_reports(datagram: &Datagram, outlet: &mut Outlet<'_>) {
    for path in outlet.paths.iter_mut() {
        let left = datagram.left(outlet.out);
        if path.received.has_news() {
            path.received.write_report(path.id, outlet.now, left, outlet.out);
        }
    }
}

fn send(index: usize, news: &mut PendingNews<'_>, outlet: &mut Outlet<'_>) -> Option<Transmit> {
    let mut datagram = outlet.begin(index);
    write_reports(&datagram, outlet);
    news.write(&mut datagram, &mut outlet.paths[index], outlet.out);
    news.write_last(&mut datagram, &mut outlet.paths[index], outlet.out);
    if datagram.is_empty(outlet.out) {
        outlet.discard(datagram);
        return None;
    }
    outlet.send_single(datagram, false)
}

fn on_sent(outlet: &mut Outlet<'_>) {
    for path in outlet.paths.iter_mut().filter(|p| p.received.is_written()) {
        path.received.on_reported(outlet.now);
    }
}
