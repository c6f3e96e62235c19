//! What comes from the peer.

use super::Peer;
use crate::buffers::Buffers;
use crate::config::{LinkId, Mode};
use crate::path::{Settled, Wish, sent::SentFrame};
use crate::redundancy::erasure::{Member, Parity, Recovered, SourceId};
use braid_units::Time;
use braid_wire::{Chunk, DataHeader, ErasureFrame, Frame, Frames, HEADER_LEN, PathStatus, expand};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// After a parity, chunks are kept for further ones for so long.
const CODED_FOR: Duration = Duration::from_secs(10);

/// Where a datagram came from.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// By which link.
    pub link: LinkId,
    /// From which address.
    pub remote: SocketAddr,
    /// To which of ours, if the socket has several.
    pub local: Option<IpAddr>,
}

impl Peer {
    /// Opens a data datagram and does what its frames say. False if it isn't
    /// authentic, or was received before.
    pub(crate) fn on_datagram(
        &mut self,
        header: DataHeader,
        datagram: &mut [u8],
        arrival: Arrival,
        buffers: &mut Buffers,
        now: Time,
    ) -> Result<Received, Refused> {
        // Of a peer that restarted all begins anew, if this is authentic.
        let unproven = self.sessions.unproven(header.receiver).map(|s| s.remote_instance);
        let anew = unproven.is_some() && unproven != self.remote_instance;
        let known = self.path_of(header.path).filter(|_| !anew);
        let largest = match known {
            Some(index) => self.paths[index].received.largest(),
            None if anew => None,
            None => self.largest_of_closed(header.path),
        };
        let number = expand(header.packet_number, 24, largest.map_or(0, |largest| largest + 1));
        match known {
            Some(index) => {
                self.paths[index].replay.check(number).map_err(|_| Refused::Replayed)?;
            }
            None if largest.is_some_and(|largest| number <= largest) => {
                return Err(Refused::Replayed);
            }
            None => {}
        }
        let len = datagram.len() as u64;
        let (head, payload) = datagram.split_at_mut(HEADER_LEN);
        let session = self.sessions.by_index(header.receiver, now).ok_or(Refused::NoSession)?;
        let payload =
            session.open(header.path, number, head, payload).map_err(|_| Refused::Forged)?;
        if known.is_none() {
            // Only the side that calls opens paths.
            if !self.config.endpoints.is_empty() && self.path_of(header.path).is_none() {
                return Err(Refused::NoPath);
            }
            if !anew && self.paths.len() >= super::MAX_PATHS {
                return Err(Refused::TooManyPaths);
            }
        }
        let proven = match unproven {
            Some(instance) => self.prove(instance, now),
            None => None,
        };
        let known = if anew { self.path_of(header.path) } else { known };

        let index = match known {
            Some(index) => index,
            None => {
                let path = self.new_path(header.path, arrival.link, arrival.remote, 1500, now);
                self.paths.push(path);
                self.paths.len() - 1
            }
        };
        let path = &mut self.paths[index];
        path.replay.mark(number).map_err(|_| Refused::Replayed)?;
        let newest = path.received.largest().is_none_or(|largest| number > largest);
        if newest && self.config.endpoints.is_empty() {
            // Roaming: the peer is where its newest authentic packet came from.
            if path.move_to(arrival, now) {
                self.send_flight_again(index);
            }
        }
        let pause = self.pause();
        let path = &mut self.paths[index];
        if path.hearing.on_datagram(now, pause) {
            self.chores_at = self.chores_at.min(now + pause);
        }
        path.counters.received_bytes += len;
        path.counters.received_datagrams += 1;
        self.last_heard = Some(now);
        self.hearing.run(now);

        let eliciting = self.on_frames(index, payload, buffers, now);
        let interval = self.feedback_interval();
        let path = &mut self.paths[index];
        path.received.on_packet(number, now, eliciting);
        if let Some(at) = path.received.report_at(interval) {
            self.chores_at = self.chores_at.min(at);
        }
        if !path.liveness.is_up() {
            self.chores_at = Time::ZERO;
        }
        Ok(Received { proven })
    }

    /// The initiator has used the unproven session: send with it from now on.
    /// If it's another instance than before, or the first, then all keys and
    /// paths are void.
    #[cold]
    fn prove(&mut self, instance: u64, now: Time) -> Option<Proven> {
        let session = self.sessions.unproven.take()?;
        let anew = self.remote_instance != Some(instance);
        if !anew {
            let gone = self.sessions.make_current(session).into_iter().collect();
            return Some(Proven { anew, gone });
        }
        let gone = self.drop_sessions();
        self.sessions.current = Some(session);
        self.remote_instance = Some(instance);
        self.forget_connection(now);
        if self.config.endpoints.is_empty() {
            // The home opens the paths anew; the old ones lead nowhere.
            self.paths.clear();
        }
        Some(Proven { anew, gone })
    }

    /// What is in flight by a path went astray, most likely: by others too.
    fn send_flight_again(&mut self, index: usize) {
        self.settle(|peer, settled| peer.paths[index].reinject_flight(settled));
    }

    fn on_frames(
        &mut self,
        index: usize,
        payload: &[u8],
        buffers: &mut Buffers,
        now: Time,
    ) -> bool {
        // Of a large packet most datagrams hold one part and nothing else.
        if self.paths[index].liveness.is_up()
            && let Some(chunk) = Chunk::only_middle(payload)
        {
            self.on_chunk(&chunk, buffers, now);
            return true;
        }
        let mut eliciting = false;
        let mut settled = None;
        for frame in Frames::new(payload) {
            let Ok(frame) = frame else {
                self.counters.refused += 1;
                break;
            };
            eliciting |= !matches!(frame, Frame::Ack(_) | Frame::Close(_));
            match frame {
                Frame::Ping => {}
                Frame::Ack(ack) => {
                    let settled = settled.get_or_insert_with(|| {
                        self.settled.clear();
                        std::mem::take(&mut self.settled)
                    });
                    self.on_ack(&ack, buffers, now, settled);
                }
                Frame::Chunk(chunk) => self.on_chunk(&chunk, buffers, now),
                Frame::GaveUp(gave_up) => {
                    self.exit.on_gave_up(&gave_up);
                }
                Frame::PathStatus(status) => self.on_path_status(&status),
                Frame::Erasure(frame) => self.on_parity(&frame, buffers, now),
                Frame::Mode(mode) => {
                    if let Some(mode) = Mode::from_wire(mode).filter(|_| self.config.follow_mode) {
                        self.mode = mode;
                    }
                }
                Frame::Close(_) => self.closed = true,
            }
        }
        // On a path that we didn't open, hearing is the first sign of life:
        // probe at once, so that it's proven within a round trip.
        if !self.paths[index].liveness.is_up() {
            self.paths[index].liveness.probe_soon_after_heard(now);
        }
        if let Some(mut settled) = settled {
            self.take_settled(&mut settled);
            self.settled = settled;
        }
        eliciting
    }

    fn on_ack(
        &mut self,
        ack: &braid_wire::Ack<'_>,
        buffers: &mut Buffers,
        now: Time,
        settled: &mut Settled,
    ) {
        let feedback = self.feedback_interval();
        let Some(index) = self.path_of(ack.path) else { return };
        // Paths that work again and sizes that pass are followed by probes.
        self.chores_at = Time::ZERO;
        let clock = &mut self.peer_clock;
        let written_us = clock.unwrap(ack.largest_received_us) + i64::from(ack.delay_us);
        let path = &mut self.paths[index];
        let outgoing = &mut self.outgoing;
        let arrived = |frame| {
            if let SentFrame::Chunk { key, offset, len } = frame
                && outgoing.get_mut(key).is_some_and(|p| p.on_acked(offset, len))
                && let Some(packet) = outgoing.remove(key)
            {
                buffers.give(packet.bytes);
            }
        };
        path.on_ack(ack, now, feedback, |us| clock.unwrap(us), arrived, settled);
        self.note_losses_of(index);
        self.note_report(written_us, now);
        self.note_spare();
        if settled.returned {
            settled.returned = false;
            self.update_clocks(now);
        }
    }

    #[inline]
    fn on_chunk(&mut self, chunk: &Chunk<'_>, buffers: &mut Buffers, now: Time) {
        self.use_now(now);
        self.take_chunk(chunk, buffers, now);
        // Copies cost much, and are of use only where parities come.
        let coded = self.last_parity.is_some_and(|at| now - at < CODED_FOR);
        if coded && chunk.realtime && !chunk.unordered {
            self.coded.clear();
            let mut coded = std::mem::take(&mut self.coded);
            chunk.write(&mut coded, false);
            let id = SourceId {
                flow: chunk.flow,
                sequence: chunk.sequence,
                offset: chunk.position.offset(),
            };
            let recovered = self.decoder.on_source(now, id, &coded);
            self.coded = coded;
            self.on_recovered(recovered, buffers, now);
        }
    }

    #[inline]
    fn take_chunk(&mut self, chunk: &Chunk<'_>, buffers: &mut Buffers, now: Time) {
        let heard = self.hearing.at(now);
        let _ = self.exit.on_chunk(heard, chunk, |capacity| buffers.take(capacity));
    }

    fn on_parity(&mut self, frame: &ErasureFrame<'_>, buffers: &mut Buffers, now: Time) {
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

    /// The index of the path of this number. Most have it by their numbers.
    fn path_of(&self, id: u8) -> Option<usize> {
        let index = usize::from(id);
        match self.paths.get(index) {
            Some(path) if path.id == id => Some(index),
            _ => self.paths.iter().position(|p| p.id == id),
        }
    }

    /// The largest packet number that came by a path of this number, if there
    /// was one that is closed.
    fn largest_of_closed(&self, id: u8) -> Option<u64> {
        self.closed_paths.iter().find(|p| p.id == id)?.largest_received
    }

    fn on_path_status(&mut self, status: &PathStatus) {
        if !self.config.endpoints.is_empty() {
            return; // Ours to say.
        }
        self.chores_at = Time::ZERO;
        for path in self.paths.iter_mut().filter(|p| p.id == status.path) {
            path.wish = Wish { tier: status.tier, standby: status.standby, cap: status.cap };
            path.set_cap(status.cap);
        }
    }
}

/// A datagram that was taken in.
#[derive(Clone, Debug)]
pub struct Received {
    /// It's the first by a session that the peer began.
    pub proven: Option<Proven>,
}

/// The peer has shown that it has the keys of a session it began.
#[derive(Clone, Debug)]
pub struct Proven {
    /// It had restarted, or it's the first time.
    pub anew: bool,
    /// Our indices of sessions that are gone thereby.
    pub gone: Vec<u32>,
}

/// Why a datagram was not taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// No session of that index, or it has expired.
    NoSession,
    /// Wrong keys, or altered on the way.
    Forged,
    /// Received before, or too old to tell.
    Replayed,
    /// A path that we haven't opened, or have closed.
    NoPath,
    /// The peer has as many paths as it may.
    TooManyPaths,
}
