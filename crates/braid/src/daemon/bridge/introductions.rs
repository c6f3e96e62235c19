//! Homes that join with a join line: what the data plane knows of the lines, and what it reports
//! about the homes.

use crate::daemon::data_channel::Introduction;
use braid_control::config::{Name, Peer};
use braid_handshake::{EnrolmentRefusal, PublicKey};
use braid_tunnel::{EnrolmentState, PeerId, PeerReport};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// A concentrator's join lines; at a home, the state of its own line.
#[derive(Default)]
pub struct Introductions {
    lines: BTreeMap<PublicKey, Line>,
    not_enrolled: BTreeMap<PeerId, EnrolmentRefusal>,
}

struct Line {
    home: Name,
    state: EnrolmentState,
    waiting: Option<Introduction>,
    /// The address of a host that used the line after it had been used.
    refused: Option<(SocketAddr, Instant)>,
}

/// A refused host retries every 10 s for as long as it runs.
const REFUSED_LATELY: Duration = Duration::from_secs(180);

impl Introductions {
    /// Whether the peer has a join line.
    pub fn add(&mut self, peer: &Peer) -> bool {
        let Some(enrolment) = peer.enrolment else { return false };
        let state = match peer.is_known() {
            true => EnrolmentState::Used(peer.public_key),
            false => EnrolmentState::Open,
        };
        let line = Line { home: peer.name.clone(), state, waiting: None, refused: None };
        self.lines.insert(enrolment.key, line);
        true
    }

    /// Forgets a peer's line, by the key that the peer had.
    pub fn remove(&mut self, peer: &PublicKey) -> bool {
        let before = self.lines.len();
        let is_its = |key: &PublicKey, line: &Line| match &line.state {
            EnrolmentState::Used(home) => home == peer,
            EnrolmentState::Open | EnrolmentState::Expired => key == peer,
        };
        self.lines.retain(|key, line| !is_its(key, line));
        self.lines.len() < before
    }

    pub fn expire(&mut self, line: &PublicKey) {
        if let Some(line) = self.lines.get_mut(line) {
            line.state = EnrolmentState::Expired;
            line.waiting = None;
        }
    }

    /// The lines' states for the data plane.
    pub fn states(&self) -> Vec<(PublicKey, EnrolmentState)> {
        self.lines.iter().map(|(key, line)| (*key, line.state)).collect()
    }

    /// Notes a host that used a line.
    pub fn note(&mut self, introduction: Introduction) {
        if let Some(line) = self.lines.get_mut(&introduction.line)
            && !matches!(line.state, EnrolmentState::Used(_))
        {
            line.waiting = Some(introduction);
        }
    }

    /// Hosts waiting to be let in.
    pub fn waiting(&self) -> Vec<Introduction> {
        self.lines.values().filter_map(|line| line.waiting).collect()
    }

    /// Notes a host that used a line which is no longer valid.
    pub fn note_refused(
        &mut self,
        line: &PublicKey,
        refusal: EnrolmentRefusal,
        from: SocketAddr,
        now: Instant,
    ) {
        let Some(line) = self.lines.get_mut(line) else { return };
        let told = line.refused.is_some_and(|(_, at)| now - at < REFUSED_LATELY);
        // The peer's status shows the consequences, if it is a peer.
        if !told && refusal == EnrolmentRefusal::Expired {
            let home = line.home.as_str();
            tracing::warn!(
                "{from} used the join line of {home}, which has expired: `braid concentrator renew \
                 {home}` makes another"
            );
        }
        line.refused = Some((from, now));
    }

    /// Notes that this host's line was refused.
    pub fn note_not_enrolled(&mut self, peer: PeerId, refusal: EnrolmentRefusal) {
        self.not_enrolled.insert(peer, refusal);
    }

    /// What is wrong between this host and a peer.
    pub fn trouble(&mut self, id: PeerId, key: PublicKey, peer: &PeerReport) -> Option<String> {
        if peer.connected {
            self.not_enrolled.remove(&id);
        }
        if let Some(refusal) = self.not_enrolled.get(&id) {
            return Some(format!(
                "not let in: {refusal}; have another made there (`braid concentrator renew NAME`), \
                 and join with `--replace`"
            ));
        }
        if peer.has_rival {
            return Some(
                "two hosts use its key and displace each other: a copied config? Make a join line \
                 for each (`braid concentrator add-home NAME`)"
                    .to_owned(),
            );
        }
        if peer.we_have_a_rival {
            return Some(
                "another host uses this one's key, and they displace each other: a copied config? \
                 Each needs a join line of its own"
                    .to_owned(),
            );
        }
        let line = self.lines.values().find(|line| line.state == EnrolmentState::Used(key))?;
        let (from, at) = line.refused?;
        (at.elapsed() < REFUSED_LATELY).then(|| {
            // Without the port, which changes with each attempt behind some NATs.
            let from = from.ip();
            format!(
                "a second router, at {from}, comes with its join line and isn't let in: it needs one \
                 of its own (`braid concentrator add-home NAME`); if it is the right one, \
                 `braid concentrator renew {}` shuts out the first",
                line.home.as_str()
            )
        })
    }
}
