//! Which flows wait for a missing packet, and since when. A flow that waits no
//! longer is only forgotten when its turn comes.

use super::flow_order::FlowOrder;
use crate::index_map::IndexMap;
use braid_units::Time;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

type Queue = BinaryHeap<Reverse<(Time, u16)>>;

/// Waiting flows by the beginning of their waiting, those whose packets are
/// soon worthless apart.
#[derive(Debug, Default)]
pub(super) struct Holes {
    ordered: Queue,
    realtime: Queue,
    waiting: usize,
}

impl Holes {
    /// `flow` waits from another time on, or for another kind of packet, than
    /// when it was noted last.
    pub fn note(&mut self, id: u16, flow: &FlowOrder) {
        if let Some(since) = flow.blocked_since() {
            self.queue(flow.is_realtime()).push(Reverse((since, id)));
        }
    }

    /// So many flows wait now.
    pub fn set_waiting(&mut self, waiting: usize) {
        self.waiting = waiting;
    }

    /// Takes away what doesn't hold any more. To be called after every change.
    pub fn prune(&mut self, flows: &IndexMap<u16, FlowOrder>) {
        let most = 2 * self.waiting + 64;
        for realtime in [false, true] {
            let holds = |Reverse((since, id)): &Reverse<(Time, u16)>| {
                flows.get(id).is_some_and(|flow| {
                    flow.blocked_since() == Some(*since) && flow.is_realtime() == realtime
                })
            };
            let queue = self.queue(realtime);
            while queue.peek().is_some_and(|first| !holds(first)) {
                queue.pop();
            }
            if queue.len() > most {
                queue.retain(holds);
            }
        }
    }

    /// The flow that waits longest for packets of this kind.
    pub fn oldest(&self, realtime: bool) -> Option<(Time, u16)> {
        let queue = if realtime { &self.realtime } else { &self.ordered };
        queue.peek().map(|Reverse(oldest)| *oldest)
    }

    fn queue(&mut self, realtime: bool) -> &mut Queue {
        if realtime { &mut self.realtime } else { &mut self.ordered }
    }
}
