//! What comes from the peer: opened, believed if it's authentic, and each frame
//! given to whom it concerns.

use super::Peer;
use super::send::wanted;
use super::timers::Timer;
use crate::buffers::Buffers;
use crate::config::Mode;
use crate::path::Origin;
use braid_units::Time;
use braid_wire::{Ack, Chunk, Close, DataHeader, Frame, Frames, HEADER_LEN, expand};

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

/// What a datagram says that it is, before that is proved.
#[derive(Clone, Copy, Debug)]
struct Claim {
    /// It's of a session that the peer began with this instance and hasn't used yet.
    unproven: Option<u64>,
    /// The instance is another one than before: all begins anew.
    anew: bool,
    /// Of its path, if that is known.
    place: Option<usize>,
    /// The whole packet number.
    number: u64,
}

impl Peer {
    /// Opens a data datagram and does what its frames say.
    ///
    /// # Errors
    /// If it isn't authentic, was received before, or came by a path that there
    /// isn't: then nothing has changed.
    pub(crate) fn on_datagram(
        &mut self,
        header: DataHeader,
        datagram: &mut [u8],
        origin: Origin,
        buffers: &mut Buffers,
        now: Time,
    ) -> Result<Received, Refused> {
        let claim = self.claim_of(header)?;
        let len = datagram.len() as u64;
        let (head, payload) = datagram.split_at_mut(HEADER_LEN);
        let session = self.sessions.by_index(header.receiver, now).ok_or(Refused::NoSession)?;
        let opened = session.open(header.path, claim.number, head, payload);
        let payload = opened.map_err(|_| Refused::Forged)?;
        self.may_come_by(header.path, &claim)?;
        // From here on it's believed.
        let proven = claim.unproven.and_then(|instance| self.prove(instance, now));
        let index = self.path_of(header.path, &claim, origin, now)?;
        self.paths[index].replay.mark(claim.number).map_err(|_| Refused::Replayed)?;
        self.follow_peer(index, claim.number, origin, now);
        self.note_datagram(index, len, now);
        let eliciting = self.on_frames(index, payload, buffers, now);
        self.note_packet(index, claim.number, eliciting, now);
        Ok(Received { proven })
    }

    /// Which packet a datagram says that it is.
    ///
    /// # Errors
    /// If that one was received before.
    #[inline]
    fn claim_of(&self, header: DataHeader) -> Result<Claim, Refused> {
        // Of a peer that restarted all begins anew, if this is authentic.
        let unproven = self.sessions.unproven(header.receiver).map(|s| s.remote_instance);
        let anew = unproven.is_some() && unproven != self.sessions.remote_instance();
        let place = self.paths.place_of(header.path).filter(|_| !anew);
        let largest = match place {
            Some(index) => self.paths[index].received.largest(),
            None if anew => None,
            None => self.paths.largest_of_closed(header.path),
        };
        let number = expand(header.packet_number, 24, largest.map_or(0, |largest| largest + 1));
        let replayed = match place {
            Some(index) => self.paths[index].replay.check(number).is_err(),
            None => largest.is_some_and(|largest| number <= largest),
        };
        if replayed { Err(Refused::Replayed) } else { Ok(Claim { unproven, anew, place, number }) }
    }

    /// Whether an authentic datagram may come by a path of this number.
    #[inline]
    fn may_come_by(&self, path: u8, claim: &Claim) -> Result<(), Refused> {
        if claim.place.is_some() {
            return Ok(());
        }
        // Only the side that calls opens paths.
        if self.config.opens_paths() && self.paths.place_of(path).is_none() {
            return Err(Refused::NoPath);
        }
        if !claim.anew && self.paths.is_full() {
            return Err(Refused::TooManyPaths);
        }
        Ok(())
    }

    /// The place of the path, which is opened if it's new.
    #[inline]
    fn path_of(
        &mut self,
        path: u8,
        claim: &Claim,
        origin: Origin,
        now: Time,
    ) -> Result<usize, Refused> {
        // Where all began anew, places are others now.
        let place = if claim.anew { self.paths.place_of(path) } else { claim.place };
        place
            .or_else(|| self.paths.accept(path, origin.link, origin.remote, now))
            .ok_or(Refused::TooManyPaths)
    }

    /// Roaming: the peer is where its newest authentic packet came from.
    #[inline]
    fn follow_peer(&mut self, index: usize, number: u64, origin: Origin, now: Time) {
        let opens_paths = self.config.opens_paths();
        let path = &mut self.paths[index];
        let newest = path.received.largest().is_none_or(|largest| number > largest);
        if newest && !opens_paths && path.move_to(origin, now) {
            // What is in flight went astray, most likely: by others too.
            self.settled.clear();
            path.reinject_flight(&mut self.settled);
            self.apply_settled();
        }
    }

    /// So many authentic bytes came by this path.
    #[inline]
    fn note_datagram(&mut self, index: usize, len: u64, now: Time) {
        let pause = self.paths.pause();
        let path = &mut self.paths[index];
        if path.inbound.on_datagram(now, pause) {
            self.timers.bring_forward(Timer::Control, now + pause);
        }
        path.counters.received_bytes += len;
        path.counters.received_datagrams += 1;
        self.receive.on_heard(now);
    }

    /// The packet is to be reported, and soon if it asks for that.
    #[inline]
    fn note_packet(&mut self, index: usize, number: u64, eliciting: bool, now: Time) {
        let interval = self.paths.feedback_interval();
        let path = &mut self.paths[index];
        path.received.on_packet(number, now, eliciting);
        if let Some(at) = path.received.report_at(interval) {
            self.timers.bring_forward(Timer::Control, at);
        }
        if !path.liveness.is_up() {
            self.timers.fire(Timer::Control);
        }
    }

    /// The initiator has used the unproven session: send with it from now on.
    /// If it's another instance than before, or the first, then all keys and
    /// paths are void.
    #[cold]
    fn prove(&mut self, instance: u64, now: Time) -> Option<Proven> {
        let session = self.sessions.unproven.take()?;
        let anew = self.sessions.meet(instance, now);
        if !anew {
            let gone = self.sessions.make_current(session).into_iter().collect();
            return Some(Proven { anew, gone });
        }
        let gone = self.sessions.void();
        self.sessions.current = Some(session);
        self.forget_connection(now);
        if !self.config.opens_paths() {
            // The home opens the paths anew; the old ones lead nowhere.
            self.paths.clear();
        }
        Some(Proven { anew, gone })
    }

    /// True if they ask for an acknowledgement.
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
            self.on_chunk(index, &chunk, buffers, now);
            return true;
        }
        let mut eliciting = false;
        let mut acked = false;
        for frame in Frames::new(payload) {
            let Ok(frame) = frame else {
                self.receive.counters.refused += 1;
                break;
            };
            eliciting |= !matches!(frame, Frame::Ack(_) | Frame::Close(_));
            match frame {
                Frame::Ping => {}
                Frame::Ack(ack) => {
                    if !std::mem::replace(&mut acked, true) {
                        self.settled.clear();
                    }
                    self.on_ack(&ack, buffers, now);
                }
                Frame::Chunk(chunk) => self.on_chunk(index, &chunk, buffers, now),
                Frame::Abandoned(abandoned) => self.receive.on_abandoned(&abandoned),
                // Of paths that we opened it's ours to say.
                Frame::PathStatus(_) if self.config.opens_paths() => {}
                Frame::PathStatus(status) => self.paths.on_status(&status, &mut self.timers),
                Frame::Erasure(frame) => self.receive.on_parity(&frame, buffers, now),
                Frame::Mode(mode) => {
                    if let Some(mode) = Mode::from_wire(mode).filter(|_| self.config.follow_mode) {
                        self.send.follow_mode(mode);
                    }
                }
                Frame::Service(said) => self.terms.service.hear(said),
                // They are the concentrator's to say.
                Frame::Limit(_) | Frame::Referrals(_) if !self.config.opens_paths() => {}
                Frame::Referrals(frame) => self.terms.referred.hear(&frame),
                Frame::Limit(limit) => {
                    if self.terms.limit.hear(&limit) {
                        self.ingress.set_whole_limit(limit.rate);
                    }
                }
                // It's the home's to say.
                Frame::Treatment(_) if self.config.opens_paths() => {}
                Frame::Treatment(frame) => {
                    let (treatment, limit) = wanted(&frame);
                    self.ingress.treat(&frame.key, treatment);
                    self.ingress.set_limits(limit);
                }
                Frame::Paced(paced) => {
                    if let Some(key) = self.traffic.key_of_theirs(paced.flow) {
                        self.ingress.let_acks_pass(key);
                    }
                }
                Frame::Context(frame) => {
                    if self.receive.learn_context(&frame) {
                        self.send.say_context_known(frame.flow, frame.number, &mut self.timers);
                    }
                }
                Frame::ContextKnown(known) => self.send.on_context_known(&known),
                Frame::Close(Close { reason: Close::RESTART }) => {
                    self.terms.restarting.announce(now);
                }
                Frame::Close(_) => self.receive.closed = true,
            }
        }
        // On a path that we didn't open, a datagram is the first sign of life:
        // probe at once, so that it's proven within a round trip.
        let path = &mut self.paths[index];
        if !path.liveness.is_up() {
            path.liveness.probe_soon_after_heard(now);
        }
        if acked {
            self.apply_settled();
        }
        eliciting
    }

    fn on_ack(&mut self, ack: &Ack<'_>, buffers: &mut Buffers, now: Time) {
        let Self { paths, reliability, settled, timers, .. } = self;
        let arrived = |frame| {
            if let Some(packet) = reliability.on_arrived(frame) {
                buffers.give(packet.bytes);
            }
        };
        if !paths.on_ack(ack, arrived, settled, timers, now) {
            return;
        }
        if self.nothing_waits() {
            self.paths.on_idle(&mut self.timers);
        }
        if std::mem::take(&mut self.settled.returned) {
            self.update_clocks(now);
        }
    }

    #[inline]
    fn on_chunk(&mut self, index: usize, chunk: &Chunk<'_>, buffers: &mut Buffers, now: Time) {
        self.activity.on_use(&mut self.timers, now);
        self.traffic.on_arrived(chunk.flow, self.paths[index].id, chunk.data.len());
        self.receive.on_chunk(chunk, buffers, now);
    }
}
