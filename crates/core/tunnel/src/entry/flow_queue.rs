//! What waits of one flow: judged by CoDel, marked, dropped or shortened.

use super::account::Account;
use super::codel::{CoDel, Judgement};
use super::queued::Queued;
use braid_inner::{Class, Ecn, InnerPacket, Layer, drop_first_segment, ecn, set_ce};
use braid_units::Time;
use std::collections::VecDeque;
use std::time::Duration;

/// When a stream is signalled to, what waits in front is dropped down to one part in this
/// of the time that it waited (docs/design/006-heuristics.md, queue-shortening).
const SHORTENED: u32 = 4;

/// Tunes the queue to the paths.
#[derive(Clone, Copy, Debug)]
pub struct Parameters {
    /// CoDel's target.
    pub target: Duration,
    /// CoDel's interval.
    pub interval: Duration,
    /// Most bytes that wait.
    pub limit: u64,
    /// Beyond so many bytes what came last to the longest flow is dropped, unless that is
    /// the half of all.
    pub room: u64,
    /// So long a stream's packets may wait still after it was signalled to.
    pub floor: Duration,
    /// A stream's queue is shortened when it is signalled to.
    pub shortens: bool,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            target: Duration::from_millis(20),
            interval: Duration::from_millis(100),
            limit: 8 << 20,
            room: u64::MAX,
            floor: Duration::from_millis(20),
            shortens: true,
        }
    }
}

/// The queue of one flow.
#[derive(Debug)]
pub(super) struct FlowQueue {
    packets: VecDeque<Queued>,
    bytes: u64,
    codel: CoDel,
    backlogged_since: Time,
}

impl FlowQueue {
    /// An empty one.
    pub fn new(now: Time) -> Self {
        Self { packets: VecDeque::new(), bytes: 0, codel: CoDel::default(), backlogged_since: now }
    }

    /// Nothing waits.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Bytes waiting.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Since when it has had packets waiting.
    pub fn backlogged_since(&self) -> Time {
        self.backlogged_since
    }

    /// From now on it has packets waiting.
    pub fn begin_backlog(&mut self, now: Time) {
        self.backlogged_since = now;
    }

    /// Appends a packet.
    pub fn push(&mut self, queued: Queued, account: &mut Account) {
        account.on_push(&queued);
        self.bytes += queued.cost();
        self.packets.push_back(queued);
    }

    /// An acknowledgement that waits last gives its place to this one and is returned;
    /// without one, this one is.
    pub fn supersede(&mut self, queued: Queued, account: &mut Account) -> Result<Queued, Queued> {
        match self.packets.back_mut() {
            Some(last) if last.class == Class::PureAck => {
                account.on_replace(last, &queued);
                self.bytes = self.bytes - last.cost() + queued.cost();
                Ok(std::mem::replace(last, queued))
            }
            _ => Err(queued),
        }
    }

    /// Takes out what waits in front.
    pub fn pop(&mut self, account: &mut Account) -> Option<Queued> {
        let queued = self.packets.pop_front()?;
        self.bytes -= queued.cost();
        account.on_pop(&queued);
        Some(queued)
    }

    /// Takes out what came last.
    pub fn pop_last(&mut self, account: &mut Account) -> Option<Queued> {
        let queued = self.packets.pop_back()?;
        self.bytes -= queued.cost();
        account.on_pop(&queued);
        Some(queued)
    }

    /// Takes the next packet out, after CoDel has judged; packets that it drops on the
    /// way are gone.
    #[inline]
    pub fn take(
        &mut self,
        now: Time,
        layer: Layer,
        parameters: &Parameters,
        account: &mut Account,
    ) -> Option<Queued> {
        loop {
            let mut queued = self.pop(account)?;
            let (sojourn, Parameters { target, interval, .. }) = (now - queued.at, *parameters);
            let judgement = self.codel.judge(now, sojourn, self.bytes, target, interval);
            if judgement == Judgement::Pass {
                return Some(queued);
            }
            if is_markable(&queued.packet, layer) && set_ce(&mut queued.packet.bytes, layer) {
                account.status.marked += 1;
                return Some(queued);
            }
            if queued.stream {
                let most = parameters.floor.max(sojourn / SHORTENED);
                if parameters.shortens && self.shorten(most, now, layer, account) {
                    account.on_dropped(queued.packet);
                    continue;
                }
            }
            account.status.dropped += 1;
            if drop_first_segment(&mut queued.packet, layer) {
                return Some(queued);
            }
            account.freed.push(queued.packet.bytes);
        }
    }

    /// Takes what follows out while `join` adds it to the packet just taken, which CoDel
    /// has judged for all of them.
    pub fn take_following(
        &mut self,
        account: &mut Account,
        mut join: impl FnMut(&InnerPacket) -> bool,
    ) {
        while let Some(next) = self.packets.front()
            && join(&next.packet)
        {
            let Some(queued) = self.pop(account) else { return };
            account.freed.push(queued.packet.bytes);
        }
    }

    /// Drops what waits in front of a stream's queue for longer than `most`, but
    /// leaves the part of it by which its sender sees what is gone; false if there
    /// is nothing to drop. Packets that could be marked stay.
    ///
    /// A stream stands still from the loss that signals congestion until it's
    /// made good, behind all that came since: a round trip and the whole queue.
    /// Its sender shrinks its window once for all losses of a round trip, and what
    /// is dropped here costs no link anything: so the queue is shortened at once.
    fn shorten(&mut self, most: Duration, now: Time, layer: Layer, account: &mut Account) -> bool {
        let (before, least) = (self.packets.len(), self.bytes / u64::from(SHORTENED));
        while let Some(next) = self.packets.front()
            && next.stream
            && next.class != Class::Precious
            && now - next.at > most
            && self.bytes - next.cost() >= least
            && !is_markable(&next.packet, layer)
        {
            let Some(queued) = self.pop(account) else { break };
            account.on_dropped(queued.packet);
        }
        self.packets.len() < before
    }
}

/// Those who send it by ECN hear of congestion without a loss.
fn is_markable(packet: &InnerPacket, layer: Layer) -> bool {
    matches!(ecn(&packet.bytes, layer), Some(Ecn::Ect0 | Ecn::Ect1 | Ecn::Ce))
}
