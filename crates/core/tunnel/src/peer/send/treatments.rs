//! The home tells how it wants flows of the other direction treated.

use super::datagram::{Outlet, Transmit};
use crate::entry::{FlowRedundancy, LimitId, LimitRate, Priority, Treatment};
use crate::index_map::IndexMap;
use crate::path::sent::SentFrame;
use crate::peer::timers::{Timer, TimerTable};
use braid_inner::FlowKey;
use braid_units::Rate;
use braid_wire::TreatmentFrame;
use std::collections::VecDeque;

/// What is wanted, and what of it the peer doesn't know.
#[derive(Debug, Default)]
pub(super) struct WantedTreatments {
    flows: IndexMap<u64, (FlowKey, Treatment)>,
    limits: Vec<LimitRate>,
    untold: VecDeque<u64>,
}

impl WantedTreatments {
    /// These flows, as the peer sends them, are to be treated so from now on, and limits have
    /// these rates there. Flows that aren't named are over, and forgotten. `hash` names a flow.
    pub fn set(
        &mut self,
        flows: &[(FlowKey, Treatment)],
        limits: Vec<LimitRate>,
        hash: impl Fn(&FlowKey) -> u64,
        timers: &mut TimerTable,
    ) {
        let before = std::mem::take(&mut self.flows);
        let limits_before = std::mem::replace(&mut self.limits, limits);
        for (key, treatment) in flows.iter().filter(|(key, _)| matches!(key, FlowKey::Ip { .. })) {
            let name = hash(key);
            let known = before.get(&name).map(|(_, known)| *known).unwrap_or_default();
            let same_rate = treatment
                .limit
                .is_none_or(|limit| rate_of(&limits_before, limit) == rate_of(&self.limits, limit));
            self.flows.insert(name, (*key, *treatment));
            if (known != *treatment || !same_rate) && !self.untold.contains(&name) {
                self.untold.push_back(name);
            }
        }
        let Self { flows, untold, .. } = self;
        untold.retain(|name| flows.contains_key(name));
        if !self.untold.is_empty() {
            timers.fire(Timer::Control);
        }
    }

    /// What was told of a flow didn't arrive.
    pub fn on_lost(&mut self, name: u64, timers: &mut TimerTable) {
        if self.flows.contains_key(&name) && !self.untold.contains(&name) {
            self.untold.push_back(name);
            timers.fire(Timer::Control);
        }
    }

    /// The peer restarted: it knows nothing.
    pub fn restart(&mut self) {
        let default = Treatment::default();
        let told = self.flows.iter().filter(|(_, (_, treatment))| *treatment != default);
        self.untold = told.map(|(name, _)| *name).collect();
    }

    /// A datagram with what the peer doesn't know, by a path that works. It holds nothing else:
    /// a peer that doesn't know the frame reads no further.
    pub fn poll(&mut self, outlet: &mut Outlet<'_>) -> Option<Transmit> {
        if self.untold.is_empty() {
            return None;
        }
        let index = outlet.paths.iter().position(|path| path.liveness.is_up())?;
        let mut datagram = outlet.begin(index);
        // Such a peer acknowledges it at least.
        datagram.write_ping(outlet.out);
        while datagram.left(outlet.out) > TreatmentFrame::MAX_LEN {
            let Some(name) = self.untold.pop_front() else { break };
            let Some((key, treatment)) = self.flows.get(&name) else { continue };
            self.frame(*key, *treatment).write(outlet.out);
            datagram.note(SentFrame::Treatment { flow: name }, &mut outlet.paths[index].sent);
        }
        outlet.send_single(datagram, false)
    }

    fn frame(&self, key: FlowKey, treatment: Treatment) -> TreatmentFrame {
        let Treatment { device, priority, class, limit, redundancy } = treatment;
        let priority = match priority {
            Priority::Normal => 0,
            Priority::Low => 1,
            Priority::High => 2,
        };
        let limit = limit.map(|limit| (limit.0, rate_of(&self.limits, limit)));
        let redundancy = match redundancy {
            FlowRedundancy::Usual => 0,
            FlowRedundancy::Twice => 1,
            FlowRedundancy::Parity => 2,
        };
        TreatmentFrame { key, device, priority, class, limit, redundancy }
    }
}

/// What a peer wants, by the frame that says it.
pub(in crate::peer) fn wanted(frame: &TreatmentFrame) -> (Treatment, Option<LimitRate>) {
    let priority = match frame.priority {
        1 => Priority::Low,
        2 => Priority::High,
        _ => Priority::Normal,
    };
    let limit = frame.limit.map(|(id, rate)| (LimitId(id), rate));
    let redundancy = match frame.redundancy {
        1 => FlowRedundancy::Twice,
        2 => FlowRedundancy::Parity,
        _ => FlowRedundancy::Usual,
    };
    let TreatmentFrame { device, class, .. } = *frame;
    (Treatment { device, priority, class, limit: limit.map(|(id, _)| id), redundancy }, limit)
}

fn rate_of(limits: &[LimitRate], id: LimitId) -> Option<Rate> {
    limits.iter().find(|(known, _)| *known == id).and_then(|(_, rate)| *rate)
}
