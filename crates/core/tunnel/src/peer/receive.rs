//! What comes from the peer becomes inner packets again: chunks are put together
//! and in order, parities recover what was lost.

use crate::buffers::Buffers;
use crate::clock::PausingClock;
use crate::exit::{AckAggregator, Delivered, ExitStatus, Patience, Reordering};
use crate::peer::paths::PathSet;
use crate::redundancy::erasure::{Decoder, Member, Parity, Recovered, SourceId};
use braid_inner::Layer;
use braid_units::{ByteSize, Rate, Time};
use braid_wire::{Abandoned, Chunk, ContextFrame, ErasureFrame, Frame, Frames};
use std::time::Duration;

/// After a parity, chunks are kept for further ones for so long. Ours.
const CODED_FOR: Duration = Duration::from_secs(10);
/// What parities may need is kept up to so many bytes, and for so long. Ours.
const CODED_MEMORY: ByteSize = ByteSize::from_bytes(128 << 10);
const CODED_AGE: Duration = Duration::from_millis(500);
/// Nothing received for this long: waiting for missing packets pauses. Ours; not measured apart.
const SILENCE: Duration = Duration::from_millis(100);
/// How long the exit waits for what may be repaired: the entry's word that it has
/// abandoned a packet comes before. Ours.
const PATIENCE: Patience =
    Patience { ordered: Duration::from_millis(1500), realtime: Duration::from_millis(140) };
/// But for real-time packets: so many round trips of the slowest path more, one more
/// than the entry goes on for.
const PATIENCE_ROUND_TRIPS: u32 = 4;

/// Counters of what came.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReceiveCounters {
    /// Inner bytes delivered.
    pub delivered_bytes: u64,
    /// Chunks recovered by a parity.
    pub recovered: u64,
    /// Datagrams and frames that didn't authenticate, were replayed or malformed.
    pub refused: u64,
    /// Inner packets refused: not from the peer's addresses, or broken.
    pub inner_refused: u64,
    /// Inner packets to other peers, which it may not reach.
    pub isolated: u64,
    /// Inner packets above its limit.
    pub over_limit: u64,
}

/// The receiving side.
#[derive(Debug)]
pub(crate) struct Receive {
    layer: Layer,
    /// Memory for packets that are incomplete or wait, bytes.
    limit: u64,
    patience: Patience,
    reordering: Reordering,
    pub(super) acks: AckAggregator,
    decoder: Decoder,
    /// When the last parity came.
    last_parity: Option<Time>,
    coded: Vec<u8>,
    /// Stands still while nothing is heard.
    heard: PausingClock,
    last_heard: Option<Time>,
    /// The peer said goodbye.
    pub(super) closed: bool,
    pub(super) counters: ReceiveCounters,
}

impl Receive {
    /// Nothing yet; holds at most about `limit` bytes.
    pub fn new(layer: Layer, limit: u64) -> Self {
        Self {
            layer,
            limit,
            patience: PATIENCE,
            reordering: Reordering::new(layer, limit),
            acks: AckAggregator::default(),
            decoder: Decoder::new(CODED_MEMORY, CODED_AGE),
            last_parity: None,
            coded: Vec::new(),
            heard: PausingClock::default(),
            last_heard: None,
            closed: false,
            counters: ReceiveCounters::default(),
        }
    }

    /// The peer restarted: its packets' numbers begin anew.
    pub fn restart(&mut self) {
        self.reordering = Reordering::new(self.layer, self.limit);
    }

    /// An authentic datagram came.
    pub fn on_heard(&mut self, now: Time) {
        self.last_heard = Some(now);
        self.heard.run(now);
    }

    /// When the last authentic datagram came.
    pub fn last_heard(&self) -> Option<Time> {
        self.last_heard
    }

    /// Waiting pauses if nothing was heard for a while.
    pub fn pause_if_silent(&mut self, now: Time) {
        if let Some(heard) = self.last_heard
            && now - heard > SILENCE
        {
            self.heard.stop(heard + SILENCE);
        }
    }

    /// Takes a chunk in.
    #[inline]
    pub fn on_chunk(&mut self, chunk: &Chunk<'_>, buffers: &mut Buffers, now: Time) {
        self.take_chunk(chunk, buffers, now);
        // Copies cost much, and are of use only where parities come.
        let coded = self.last_parity.is_some_and(|at| now - at < CODED_FOR);
        if coded && chunk.realtime && !chunk.unordered {
            self.coded.clear();
            chunk.write(&mut self.coded, false);
            let id = SourceId {
                flow: chunk.flow,
                sequence: chunk.sequence,
                offset: chunk.position.offset(),
            };
            let recovered = self.decoder.on_source(now, id, &self.coded);
            self.on_recovered(recovered, buffers, now);
        }
    }

    #[inline]
    fn take_chunk(&mut self, chunk: &Chunk<'_>, buffers: &mut Buffers, now: Time) {
        let heard = self.heard.at(now);
        let _ = self.reordering.on_chunk(heard, chunk, |capacity| buffers.take(capacity));
    }

    /// Takes a parity in.
    pub fn on_parity(&mut self, frame: &ErasureFrame<'_>, buffers: &mut Buffers, now: Time) {
        self.last_parity = Some(now);
        let members = frame
            .sources
            .iter()
            .map(|s| Member {
                id: SourceId { flow: s.flow, sequence: s.sequence, offset: s.offset },
                len: s.len,
            })
            .collect();
        match Parity::new(members, frame.body.to_vec()) {
            Ok(parity) => {
                let recovered = self.decoder.on_parity(now, parity);
                self.on_recovered(recovered, buffers, now);
            }
            Err(_) => self.counters.refused += 1,
        }
    }

    fn on_recovered(&mut self, recovered: Vec<Recovered>, buffers: &mut Buffers, now: Time) {
        for r in recovered {
            if let Some(Ok(Frame::Chunk(chunk))) = Frames::new(&r.bytes).next() {
                self.counters.recovered += 1;
                self.take_chunk(&chunk, buffers, now);
            }
        }
    }

    /// The peer won't complete these packets.
    pub fn on_abandoned(&mut self, abandoned: &Abandoned) {
        self.reordering.on_abandoned(abandoned);
    }

    /// The peer told of a header that it compresses by; false if it's of no use.
    pub fn learn_context(&mut self, frame: &ContextFrame<'_>) -> bool {
        self.reordering.learn_context(frame)
    }

    /// Takes over how long the slowest path's round trip is.
    pub fn tune(&mut self, paths: &PathSet, capacity: Rate) {
        let more = paths.slowest_round_trip() * PATIENCE_ROUND_TRIPS;
        self.patience = Patience { ordered: PATIENCE.ordered + more, ..PATIENCE };
        self.acks.set_round_trips(paths.least_round_trip(), paths.slowest_that_counts(capacity));
    }

    /// Stops waiting where the patience is over.
    pub fn expire(&mut self, now: Time) {
        self.reordering.expire(self.heard.at(now), self.patience);
    }

    /// When the patience is over next, if something is heard until then.
    pub fn expires_at(&self) -> Option<Time> {
        self.reordering.expires_at(self.patience).and_then(|at| self.heard.when(at))
    }

    /// [`Self::poll`] has something to deliver.
    pub fn has_ready(&self) -> bool {
        self.acks.has_released() || self.reordering.has_ready()
    }

    /// The next inner packet, but for acknowledgements that were held.
    #[inline]
    pub fn poll(&mut self, buffers: &mut Buffers) -> Option<Delivered> {
        self.reordering.poll(|capacity| buffers.take(capacity))
    }

    /// What was put in order.
    pub fn status(&self) -> ExitStatus {
        self.reordering.status()
    }

    /// Gives back memory that isn't in use.
    pub fn rest(&mut self) {
        self.coded = Vec::new();
        self.acks.rest();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use braid_inner::Offload;
    use braid_wire::ChunkPosition;

    const PACKET: [u8; 20] = [0x45; 20];

    fn receive() -> (Receive, Buffers) {
        (Receive::new(Layer::L3, 1 << 20), Buffers::default())
    }

    fn whole(sequence: u32) -> Chunk<'static> {
        Chunk {
            flow: 1,
            sequence,
            unordered: false,
            realtime: false,
            position: ChunkPosition::Whole(Offload::default().into()),
            data: &PACKET,
        }
    }

    fn delivered(receive: &mut Receive, buffers: &mut Buffers) -> usize {
        std::iter::from_fn(|| receive.poll(buffers)).count()
    }

    #[test]
    fn a_hole_is_waited_for_until_the_patience_is_over() {
        let (mut receive, mut buffers) = receive();
        let now = Time::from_millis(10);
        receive.on_heard(now);
        receive.on_chunk(&whole(1), &mut buffers, now);
        assert_eq!(delivered(&mut receive, &mut buffers), 0);
        let at = receive.expires_at().unwrap();
        assert_eq!(at, now + PATIENCE.ordered);
        receive.on_heard(at);
        receive.expire(at);
        assert_eq!(delivered(&mut receive, &mut buffers), 1);
    }

    #[test]
    fn while_nothing_is_heard_nothing_is_given_up() {
        let (mut receive, mut buffers) = receive();
        let now = Time::from_millis(10);
        receive.on_heard(now);
        receive.on_chunk(&whole(1), &mut buffers, now);
        let later = now + PATIENCE.ordered * 2;
        receive.pause_if_silent(later);
        assert_eq!(receive.expires_at(), None);
        receive.expire(later);
        assert_eq!(delivered(&mut receive, &mut buffers), 0);
        // It goes on where it stood: the silence counted for no longer than it
        // took to notice.
        receive.on_heard(later);
        assert_eq!(receive.expires_at(), Some(later + (PATIENCE.ordered - SILENCE)));
    }

    #[test]
    fn what_the_peer_abandoned_is_not_waited_for() {
        let (mut receive, mut buffers) = receive();
        let now = Time::from_millis(10);
        receive.on_heard(now);
        receive.on_chunk(&whole(2), &mut buffers, now);
        receive.on_abandoned(&Abandoned { flow: 1, sequence: 0, count: 2 });
        assert_eq!(delivered(&mut receive, &mut buffers), 1);
    }

    #[test]
    fn after_a_restart_numbers_begin_anew() {
        let (mut receive, mut buffers) = receive();
        let now = Time::from_millis(10);
        for sequence in 0..3 {
            receive.on_chunk(&whole(sequence), &mut buffers, now);
        }
        receive.restart();
        receive.on_chunk(&whole(0), &mut buffers, now);
        assert_eq!(delivered(&mut receive, &mut buffers), 1);
    }
}
