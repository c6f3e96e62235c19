//! When hands are shaken, by which links, and what follows from it.

use super::answered::CachedAnswer;
use super::reception::Call;
use super::{Event, Tunnel};
use crate::config::{LinkConfig, PeerConfig};
use crate::id::{LinkId, PeerId};
use crate::path::Origin;
use crate::path::liveness::PathState;
use crate::peer::{Peer, Transmit};
use crate::session::Session;
use crate::worker::Worker;
use braid_handshake::{
    AeadOffer, Answer, Cookie, Extensions, HandshakeError, HandshakeMessage, Hello, Initiation,
    KeyAge, LatestTimestamp, NextTimestamp, PendingResponse, PrivateKey, SessionIndex, os_random,
};
use braid_units::Time;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

/// Pauses between attempts: quick at first, since a link may lose the first
/// ones; in the end about as WireGuard's `REKEY_TIMEOUT` of 5 s.
const RETRY: [Duration; 5] = [
    Duration::from_millis(300),
    Duration::from_millis(600),
    Duration::from_millis(1000),
    Duration::from_millis(2000),
    Duration::from_millis(5000),
];
/// A peer that said goodbye isn't called before: some are only stopped and started (our experiment,
/// docs/measurements/links.md, "A restart").
pub(super) const AFTER_GOODBYE: Duration = Duration::from_millis(500);
/// One that restarts is called first after this, and then so often at most: what it takes a
/// program to start. Ours; not measured apart.
pub(super) const AFTER_RESTART: Duration = Duration::from_millis(60);
/// How often the keys' age is looked at. Ours.
const AGE_CHECK: Duration = Duration::from_secs(1);

/// The pause after so many attempts that had no answer: up to a quarter more or less, by a number
/// drawn from all, so that homes that lost their concentrator together don't call it together when
/// it is back (our experiment, docs/measurements/fleet.md).
pub fn retry_pause(attempts: usize, drawn: u64) -> Duration {
    let pause = RETRY[attempts.min(RETRY.len() - 1)];
    let fraction = (drawn >> 32) as u32;
    pause * 3 / 4 + (pause / 2).mul_f64(f64::from(fraction) / f64::from(u32::MAX))
}

/// The handshake with one peer.
#[derive(Debug)]
pub(super) struct Handshaking {
    pending: Option<Initiation>,
    attempts: u32,
    next_at: Time,
    cookies: HashMap<LinkId, Cookie>,
    /// Of the peer's initiations.
    latest: LatestTimestamp,
    /// Of ours.
    next: NextTimestamp,
    /// Initiations sent since the last response.
    unanswered: u32,
    /// A response said that our timestamp was stale, and we caught up; once until there is a
    /// session.
    caught_up: bool,
    /// By which we introduce ourselves, until there is a session.
    pub(super) token: Option<PrivateKey>,
}

impl Handshaking {
    pub fn new(now: Time) -> Self {
        Self {
            pending: None,
            attempts: 0,
            next_at: now,
            cookies: HashMap::new(),
            latest: LatestTimestamp::default(),
            next: NextTimestamp::default(),
            unanswered: 0,
            caught_up: false,
            token: None,
        }
    }

    /// Tries (again) at `at`.
    pub fn retry_at(&mut self, at: Time) {
        self.next_at = at;
        self.attempts = 0;
    }

    /// A link came up: if we are trying in vain, try by it at once.
    pub fn retry_if_idle(&mut self, now: Time) {
        if self.pending.is_some() {
            self.retry_at(now);
        }
    }

    /// When to look again.
    pub fn deadline(&self, peer: &Peer, now: Time) -> Option<Time> {
        if peer.config.endpoints.is_empty() {
            return None;
        }
        let waits = peer.is_restarting(now) || peer.sessions.current.is_none();
        if self.pending.is_some() || waits { Some(self.next_at) } else { Some(now + AGE_CHECK) }
    }
}

impl Tunnel {
    /// Begins or repeats a handshake with the peer if it's time to.
    pub(super) fn shake_hands(&mut self, id: PeerId, now: Time) {
        let Some(entry) = self.peers.get_mut(id) else { return };
        if entry.peer.config.endpoints.is_empty() || now < entry.handshaking.next_at {
            return;
        }
        let restarts = entry.peer.is_restarting(now);
        let wanted = match &entry.peer.sessions.current {
            _ if restarts => true,
            None => true,
            Some(session) => match session.age(now) {
                // The peer may have restarted and forgotten the keys.
                KeyAge::Fresh => entry.peer.is_silent(now),
                KeyAge::RekeyDue => session.initiator || entry.peer.is_silent(now),
                KeyAge::Expired => true,
            },
        };
        if !wanted {
            entry.handshaking.pending = None;
            return;
        }
        let attempt = entry.handshaking.attempts;
        let pause = match entry.peer.paths.up().map(|path| path.rtt.smoothed()).min() {
            // An answer that is under way is waited for.
            Some(rtt) if restarts => (rtt * 2).max(AFTER_RESTART),
            _ => retry_pause(attempt as usize, self.random.next()),
        };
        entry.handshaking.attempts += 1;
        entry.handshaking.next_at = now + pause;

        // Paths that don't work may have the wrong endpoint: try the next.
        for path in &mut entry.peer.paths {
            if let Some(link) = self.links.get(&path.link) {
                let endpoint = endpoint_for(&entry.peer.config, &link.config, attempt);
                if let Some(endpoint) = endpoint.filter(|_| !path.liveness.is_up()) {
                    path.remote = endpoint;
                }
            }
        }
        let index = self.sessions.new_index(&mut self.random);
        let mut hello = self.hello_to_start(id, now);
        let Some(entry) = self.peers.get_mut(id) else { return };
        let mut psk = entry.peer.config.preshared_key.as_ref();
        // In turn, as nobody says when the peer knows us.
        let token = entry.handshaking.token.as_ref().filter(|_| attempt.is_multiple_of(2));
        if token.is_some() {
            let own = self.config.private_key.public_key();
            let said = Extensions { enrol: Some(own), ..Extensions::default() };
            hello.parameters = said.to_parameters();
            psk = None;
        }
        let started = Initiation::start(
            token.unwrap_or(&self.config.private_key),
            &entry.peer.config.public_key,
            psk,
            None,
            SessionIndex::new(index),
            &hello,
            &mut os_random(),
        );
        let Ok((initiation, _)) = started else { return };
        let works = entry.peer.paths.iter().any(|p| p.liveness.is_up());
        for path in &entry.peer.paths {
            // A rekey goes by what works; a first call by all.
            let skip = path.state() == PathState::LinkDown || works && !path.liveness.is_up();
            if skip {
                continue;
            }
            let cookie = entry.handshaking.cookies.get(&path.link).filter(|c| c.is_fresh(now));
            let message = initiation.datagram(cookie);
            let transmit = Transmit {
                link: path.link,
                remote: path.remote,
                local: path.local,
                segment: message.len(),
            };
            self.outbox.send(transmit, message);
        }
        entry.handshaking.pending = Some(initiation);
    }

    /// Takes a message of a handshake.
    pub(super) fn on_handshake_message(&mut self, from: Origin, message: &[u8], now: Time) {
        let worker = self.config.worker;
        let taken = match HandshakeMessage::classify(message) {
            Ok(HandshakeMessage::Initiation) if !worker.is_first() => {
                self.hand_over_datagram(Worker::FIRST, from, message);
                Some(())
            }
            Ok(HandshakeMessage::Initiation) => self.on_initiation(from, message, now),
            Ok(
                HandshakeMessage::Response { receiver }
                | HandshakeMessage::CookieReply { receiver },
            ) if !worker.has_session(receiver.get()) => {
                self.hand_over_datagram(worker.of_session(receiver.get()), from, message);
                Some(())
            }
            Ok(HandshakeMessage::Response { receiver }) => {
                self.on_response(from, receiver, message, now)
            }
            Ok(HandshakeMessage::CookieReply { receiver }) => {
                self.on_cookie(from, receiver, message, now)
            }
            Err(_) => None,
        };
        if taken.is_none() {
            self.counters.refused_handshakes += 1;
        }
    }

    fn on_initiation(&mut self, from: Origin, message: &[u8], now: Time) -> Option<()> {
        let peers = &self.peers;
        let in_use = || peers.iter().flat_map(|(_, e)| e.peer.paths.iter().map(|p| p.remote));
        let call = self.reception.receive(from, message, in_use, now);
        self.take_call(call, from, message, now)
    }

    /// One that the first worker has let in, of a peer that we have.
    pub(super) fn on_admitted_initiation(
        &mut self,
        from: Origin,
        message: &[u8],
        now: Time,
    ) -> Option<()> {
        match self.reception.receive_admitted(from, message, now) {
            // Nobody has it any more: nor is it handed on again.
            Call::Peer(id, _) if self.peers.get(id).is_none() => None,
            call => self.take_call(call, from, message, now),
        }
    }

    fn take_call(&mut self, call: Call, from: Origin, message: &[u8], now: Time) -> Option<()> {
        match call {
            Call::Unread => {
                self.counters.unread_handshakes += 1;
                return None;
            }
            Call::Refused => return None,
            Call::Copy(answer) => return self.answer_copy(from, message, answer),
            Call::Cookie(reply) => self.outbox.send_back(from, reply),
            Call::Stranger(pending) => return self.on_introduction(from, message, pending, now),
            Call::Peer(id, _) if self.peers.get(id).is_none() => {
                let answer = CachedAnswer::Worker(id.worker());
                self.reception.note_answer(message, from, answer, now);
                self.hand_over_datagram(id.worker(), from, message);
            }
            Call::Peer(id, pending) => return self.answer(id, from, message, pending, now),
        }
        Some(())
    }

    /// One that came by another link before.
    fn answer_copy(&mut self, from: Origin, message: &[u8], answer: CachedAnswer) -> Option<()> {
        match answer {
            CachedAnswer::Message(reply) => self.outbox.send_back(from, reply),
            CachedAnswer::Worker(worker) => self.hand_over_datagram(worker, from, message),
            CachedAnswer::Silence => return None,
        }
        Some(())
    }

    fn answer(
        &mut self,
        id: PeerId,
        from: Origin,
        message: &[u8],
        pending: Box<PendingResponse>,
        now: Time,
    ) -> Option<()> {
        let index = self.sessions.new_index(&mut self.random);
        let mut hello = self.hello(id, now);
        let entry = self.peers.get_mut(id)?;
        if entry.peer.sessions.has_rival(now) {
            let said = Extensions { has_rival: true, ..Extensions::default() };
            hello.parameters = said.to_parameters();
        }
        let psk = entry.peer.config.preshared_key.as_ref();
        let latest = &mut entry.handshaking.latest;
        match pending.answer(latest, SessionIndex::new(index), &hello, psk).ok()? {
            Answer::Session(reply, established) => {
                // What is there stays until a packet proves that this was no
                // replay: `Peer::prove`.
                let session = Session::new(index, false, *established, now);
                if let Some(old) = entry.peer.sessions.unproven.replace(session) {
                    self.sessions.remove([old.local_index]);
                }
                self.reception.note_answer(
                    message,
                    from,
                    CachedAnswer::Message(reply.clone()),
                    now,
                );
                self.sessions.insert(index, id);
                self.outbox.send_back(from, reply);
                Some(())
            }
            Answer::Stale(reply) => {
                self.outbox.send_back(from, reply);
                None
            }
            Answer::Silence(_) => None,
        }
    }

    fn on_response(
        &mut self,
        from: Origin,
        receiver: SessionIndex,
        message: &[u8],
        now: Time,
    ) -> Option<()> {
        if self.sessions.peer_of(receiver.get()).is_some() {
            // The answer to a copy by another link.
            return Some(());
        }
        let id = self.initiator_of(receiver)?;
        let entry = self.peers.get_mut(id)?;
        let handshaking = &mut entry.handshaking;
        let established = match handshaking.pending.as_mut()?.finish(message) {
            Ok(established) => established,
            Err(HandshakeError::Stale { latest }) => {
                handshaking.next.catch_up(latest);
                // Once at once; then as if there was no answer, or two peers
                // could keep each other busy.
                if !std::mem::replace(&mut handshaking.caught_up, true) {
                    handshaking.next_at = now;
                }
                self.activate(id);
                return Some(());
            }
            Err(HandshakeError::NotEnrolled(refusal)) => {
                self.outbox.tell(Event::NotEnrolled { peer: id, refusal });
                return Some(());
            }
            Err(_) => return None,
        };
        handshaking.token = None;
        handshaking.pending = None;
        handshaking.attempts = 0;
        handshaking.unanswered = 0;
        handshaking.caught_up = false;
        handshaking.next_at = now + AGE_CHECK;
        let said = Extensions::read(&established.hello.parameters);
        entry.peer.sessions.we_have_a_rival = said.has_rival;
        let void = entry.peer.meet(established.hello.instance, now);
        let anew = void.is_some();
        self.sessions.remove(void.into_iter().flatten());
        let session = Session::new(receiver.get(), true, established, now);
        self.sessions.remove(entry.peer.sessions.make_current(session));
        self.sessions.insert(receiver.get(), id);
        // This endpoint answers: the other links of its family try it too.
        for path in &mut entry.peer.paths {
            if !path.liveness.is_up() && path.remote.is_ipv4() == from.remote.is_ipv4() {
                path.remote = from.remote;
            }
            path.liveness.probe_soon(now);
        }
        entry.peer.confirm_keys();
        if entry.peer.is_restarting(now) {
            // The program that is about to go has answered.
            entry.handshaking.next_at = now + AFTER_RESTART;
        }
        self.outbox.tell(Event::Handshake { peer: id, anew });
        self.activate(id);
        Some(())
    }

    fn on_cookie(
        &mut self,
        from: Origin,
        receiver: SessionIndex,
        message: &[u8],
        now: Time,
    ) -> Option<()> {
        let id = self.initiator_of(receiver)?;
        let entry = self.peers.get_mut(id)?;
        let initiation = entry.handshaking.pending.as_ref()?;
        let cookie = initiation.handle_cookie_reply(now, message).ok()?;
        let again = initiation.datagram(Some(&cookie));
        entry.handshaking.cookies.insert(from.link, cookie);
        self.outbox.send_back(from, again);
        Some(())
    }

    fn initiator_of(&self, index: SessionIndex) -> Option<PeerId> {
        self.peers
            .iter()
            .find(|(_, e)| {
                e.handshaking.pending.as_ref().is_some_and(|i| i.sender_index() == index)
            })
            .map(|(id, _)| id)
    }

    fn hello_to_start(&mut self, id: PeerId, now: Time) -> Hello {
        let hello = self.hello(id, now);
        let Some(entry) = self.peers.get_mut(id) else { return hello };
        let handshaking = &mut entry.handshaking;
        let said =
            Extensions { tell_if_stale: handshaking.unanswered > 0, ..Extensions::default() };
        handshaking.unanswered = handshaking.unanswered.saturating_add(1);
        let timestamp = handshaking.next.take(hello.timestamp);
        Hello { timestamp, parameters: said.to_parameters(), ..hello }
    }

    fn hello(&mut self, id: PeerId, now: Time) -> Hello {
        let instance = self.peers.get_mut(id).map_or(0, |entry| entry.instance);
        self.hello_of(instance, now)
    }

    pub(super) fn hello_of(&self, instance: u64, now: Time) -> Hello {
        Hello {
            instance,
            timestamp: self.config.epoch_unix_nanos.saturating_add(now.as_nanos()),
            aead: AeadOffer::of_this_cpu(),
            parameters: Extensions::default().to_parameters(),
        }
    }
}

/// The endpoint of the peer that a link tries in this attempt.
pub(super) fn endpoint_for(
    peer: &PeerConfig,
    link: &LinkConfig,
    attempt: u32,
) -> Option<SocketAddr> {
    let fitting: Vec<SocketAddr> = peer
        .endpoints
        .iter()
        .copied()
        .filter(|e| if e.is_ipv4() { link.ipv4 } else { link.ipv6 })
        .collect();
    if fitting.is_empty() {
        return None;
    }
    Some(fitting[attempt as usize % fitting.len()])
}
