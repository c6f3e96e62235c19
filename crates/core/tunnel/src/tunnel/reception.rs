//! Who calls: which initiations are looked at, what is computed for them, and whose they are. What
//! is done about it is the tunnel's.

use super::admission::{Admission, Toll};
use super::answered::{Answered, CachedAnswer};
use super::enrolments::EnrolmentState;
use crate::config::TunnelConfig;
use crate::id::PeerId;
use crate::path::Origin;
use braid_handshake::{PendingResponse, PublicKey, Received, Responder, os_random};
use braid_units::Time;
use std::collections::HashMap;
use std::net::SocketAddr;

/// Where all initiations come first.
#[derive(Debug)]
pub(super) struct Reception {
    responder: Responder,
    admission: Admission,
    answered: Answered,
    /// Other workers' peers too.
    by_key: HashMap<PublicKey, PeerId>,
    /// By the tokens' public keys.
    enrolments: HashMap<PublicKey, EnrolmentState>,
    /// Of paths in use by peers of other workers.
    remotes_elsewhere: Vec<SocketAddr>,
}

/// What an initiation is.
pub(super) enum Call {
    /// Not looked at: there are too many.
    Unread,
    /// Not to be answered.
    Refused,
    /// The same as one that came before.
    Copy(CachedAnswer),
    /// To be answered by this, as nothing is computed without a cookie now.
    Cookie(Vec<u8>),
    /// A peer's, who may be another worker's.
    Peer(PeerId, Box<PendingResponse>),
    /// Of a key that no peer has.
    Stranger(Box<PendingResponse>),
}

impl Reception {
    /// No peer is known yet.
    pub fn new(config: &TunnelConfig) -> Self {
        Self {
            responder: Responder::new(&config.private_key),
            admission: Admission::new(config.handshakes_per_second),
            answered: Answered::new(),
            by_key: HashMap::new(),
            enrolments: HashMap::new(),
            remotes_elsewhere: Vec::new(),
        }
    }

    /// This key is the peer's, ours or another worker's.
    pub fn expect(&mut self, key: PublicKey, peer: PeerId) {
        self.by_key.insert(key, peer);
    }

    /// The peer's key is nobody's any more.
    pub fn forget(&mut self, peer: PeerId) {
        self.by_key.retain(|_, known| *known != peer);
    }

    /// These tokens there are, by their public keys.
    pub fn set_enrolments(&mut self, enrolments: Vec<(PublicKey, EnrolmentState)>) {
        self.enrolments = enrolments.into_iter().collect();
    }

    /// What this token is good for, if there is such a one.
    pub fn enrolment(&self, token: &PublicKey) -> Option<EnrolmentState> {
        self.enrolments.get(token).copied()
    }

    /// Paths of other workers' peers lead there: strangers don't hold these up.
    pub fn set_remotes_elsewhere(&mut self, remotes: Vec<SocketAddr>) {
        self.remotes_elsewhere = remotes;
    }

    /// Takes an initiation in; `in_use` are the addresses of our peers' paths.
    pub fn receive<I: Iterator<Item = SocketAddr>>(
        &mut self,
        from: Origin,
        message: &[u8],
        in_use: impl FnOnce() -> I,
        now: Time,
    ) -> Call {
        let elsewhere = &self.remotes_elsewhere;
        let all_in_use = || in_use().chain(elsewhere.iter().copied());
        if !self.admission.lets_in(from.remote, all_in_use, now) {
            return Call::Unread;
        }
        if let Some(answer) = self.answered.answer_to_copy(message, from, now) {
            return Call::Copy(answer);
        }
        let Some(toll) = self.admission.toll(now) else { return Call::Refused };
        let cookies = toll == Toll::Cookie;
        let received = self.responder.receive(now, from.remote, message, cookies, &mut os_random());
        if received.took_curve25519() {
            self.admission.spend(toll, now);
        }
        match received {
            Received::Ignore(_) => Call::Refused,
            Received::Send(reply) => Call::Cookie(reply),
            Received::Initiation(pending) => match self.by_key.get(pending.remote_static()) {
                Some(&peer) => Call::Peer(peer, pending),
                None => Call::Stranger(pending),
            },
        }
    }

    /// Takes one in that the first worker has let in.
    pub fn receive_admitted(&mut self, from: Origin, message: &[u8], now: Time) -> Call {
        if let Some(answer) = self.answered.answer_to_copy(message, from, now) {
            return Call::Copy(answer);
        }
        let received = self.responder.receive(now, from.remote, message, false, &mut os_random());
        let Received::Initiation(pending) = received else { return Call::Refused };
        match self.by_key.get(pending.remote_static()) {
            Some(&peer) => Call::Peer(peer, pending),
            None => Call::Refused,
        }
    }

    /// One was answered so: copies of it are, too.
    pub fn note_answer(&mut self, message: &[u8], from: Origin, answer: CachedAnswer, now: Time) {
        self.answered.note(message, from, answer, now);
    }
}
