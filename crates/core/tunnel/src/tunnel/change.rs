//! What changes while a tunnel runs: its links, peers and settings.

use super::{EnrolmentState, Entry, Handshaking, Link, Port, Tunnel, handshakes};
use crate::config::{LinkConfig, Mode, PeerConfig};
use crate::id::{LinkId, PeerId};
use crate::peer::{Peer, Referral, Treatments};
use braid_handshake::{PrivateKey, PublicKey};
use braid_units::{Rate, Time};
use ipnet::IpNet;
use std::net::SocketAddr;

/// A change of what a tunnel is configured to be.
#[derive(Debug)]
pub enum Change {
    /// The link is to be used otherwise.
    SetLink(LinkId, LinkConfig),
    /// The link is gone for good.
    RemoveLink(LinkId),
    /// The peer is forgotten, whoever has it.
    RemovePeer(PeerId),
    /// Another worker has this peer; what is for it is handed over.
    AddElsewhere {
        /// Its number.
        id: PeerId,
        /// Its key.
        public_key: PublicKey,
        /// Its addresses.
        allowed_ips: Vec<IpNet>,
    },
    /// Addresses of paths in use by peers that other workers have: floods of initiations don't
    /// hold up theirs.
    SetRemotesElsewhere(Vec<SocketAddr>),
    /// The peer has other endpoints (its name resolves to something else now).
    SetEndpoints(PeerId, Vec<SocketAddr>),
    /// The first peer serves the addresses of the second one when that is silent: it
    /// stands in for it, after those that do already. It has no addresses of its own.
    StandIn(PeerId, PeerId),
    /// How willing we are to serve this home, from now on: 0 is the most, 255 means that we are
    /// about to go. It goes to the most willing of its concentrators.
    SetRank(PeerId, u8),
    /// This home's addresses are announced from now on: routers send what is for it here.
    Announced(PeerId),
    /// Whether the peer is there is to be known soon, though it may be idle: it's probed, and
    /// isn't connected any more if it doesn't answer.
    Ask(PeerId),
    /// Of inner packets this home gets and sends no more than this.
    SetLimits {
        /// Which home.
        home: PeerId,
        /// To the home; none: as much as its links carry.
        to: Option<Rate>,
        /// From the home. It is told, and what is above all the same is dropped.
        from: Option<Rate>,
    },
    /// This home may be served by these concentrators too, of which it is told; the first count
    /// where not all fit into a datagram.
    Refer(PeerId, Vec<Referral>),
    /// Introduce us to the peer, by the key of a token, until it answers.
    Introduce(PeerId, PrivateKey),
    /// The tokens there are, by their public keys; whoever comes with another one hears
    /// nothing.
    SetEnrolments(Vec<(PublicKey, EnrolmentState)>),
    /// Spread packets otherwise from now on; peers that follow are told.
    SetMode(Mode),
    /// Treat flows of the peer so, here and there; before it, all are treated alike.
    Treat(PeerId, Treatments),
}

impl Tunnel {
    /// Makes a change. What it names and isn't there is left.
    pub fn apply(&mut self, change: Change, now: Time) {
        match change {
            Change::SetLink(link, config) => self.set_link(link, config),
            Change::RemoveLink(link) => self.remove_link(link),
            Change::RemovePeer(peer) => self.remove_peer(peer, now),
            Change::AddElsewhere { id, public_key, allowed_ips } => {
                self.reception.expect(public_key, id);
                for prefix in allowed_ips {
                    self.allowed.insert(prefix, id);
                }
            }
            Change::SetRemotesElsewhere(remotes) => {
                self.reception.set_remotes_elsewhere(remotes);
            }
            Change::SetEndpoints(peer, endpoints) => self.set_endpoints(peer, endpoints, now),
            Change::StandIn(peer, owner) => self.stand_in(peer, owner, now),
            Change::SetRank(home, rank) => self.set_rank(home, rank, now),
            Change::Announced(home) => self.holding.on_announced(home, now),
            Change::Ask(peer) => self.ask(peer, now),
            Change::SetLimits { home, to, from } => self.set_limits(home, to, from, now),
            Change::Refer(home, referrals) => self.refer(home, &referrals, now),
            Change::Introduce(peer, token) => self.introduce(peer, token),
            Change::SetEnrolments(enrolments) => {
                self.reception.set_enrolments(enrolments);
            }
            Change::SetMode(mode) => self.set_mode(mode),
            Change::Treat(peer, treatments) => self.treat(peer, treatments),
        }
    }

    /// Adds a peer; one with endpoints is called at once.
    pub fn add_peer(&mut self, config: PeerConfig, now: Time) -> PeerId {
        let (allowed_ips, key) = (config.allowed_ips.clone(), config.public_key);
        let peer = Peer::new(config, &self.config, self.hash_key);
        let mut entry = Entry {
            peer,
            instance: self.next_instance,
            handshaking: Handshaking::new(now),
            rank: 0,
            is_active: false,
            announced: Vec::new(),
        };
        self.next_instance = self.next_instance.wrapping_add(1);
        for (&link, state) in &self.links {
            open_path(&mut entry.peer, link, state, now);
        }
        let id = self.peers.insert(entry);
        for prefix in allowed_ips {
            self.allowed.insert(prefix, id);
        }
        self.reception.expect(key, id);
        self.activate(id);
        id
    }

    /// A link appeared: from now on it's used.
    pub fn add_link(&mut self, link: LinkId, config: LinkConfig, now: Time) {
        let state = Link { config, up: true };
        for entry in self.peers.values_mut() {
            open_path(&mut entry.peer, link, &state, now);
            entry.handshaking.retry_if_idle(now);
        }
        self.links.insert(link, state);
        self.activate_all();
    }

    /// The link's carrier or address went or came (its socket is new then).
    pub fn on_link(&mut self, link: LinkId, up: bool, now: Time) {
        let Some(state) = self.links.get_mut(&link) else { return };
        state.up = up;
        for entry in self.peers.values_mut() {
            entry.peer.on_link(link, up, now);
            if up {
                // Without one when the endpoints became known meanwhile, or the
                // link had no address of their IP version before.
                open_path(&mut entry.peer, link, state, now);
                entry.handshaking.retry_if_idle(now);
            }
        }
        self.activate_all();
    }

    fn set_link(&mut self, link: LinkId, config: LinkConfig) {
        let Some(state) = self.links.get_mut(&link) else { return };
        state.config = config;
        for entry in self.peers.values_mut().filter(|e| !e.peer.config.endpoints.is_empty()) {
            entry.peer.set_policy(link, &config);
        }
        self.activate_all();
    }

    fn remove_link(&mut self, link: LinkId) {
        self.links.remove(&link);
        for entry in self.peers.values_mut() {
            entry.peer.close_paths(link);
        }
        self.activate_all();
    }

    fn remove_peer(&mut self, id: PeerId, now: Time) {
        self.reception.forget(id);
        self.allowed.remove_peer(&id);
        if self.peers.remove(id).is_some() {
            self.forwarding.remove_port(Port::Peer(id));
            self.sessions.forget(id);
            self.timers.set(id, None);
            self.holding.end(id, &mut self.outbox);
            self.residents.leave(id);
            self.leave_group(id, now);
            self.active.retain(|peer| *peer != id);
        }
    }

    fn set_endpoints(&mut self, id: PeerId, endpoints: Vec<SocketAddr>, now: Time) {
        if let Some(entry) = self.peers.get_mut(id)
            && entry.peer.config.endpoints != endpoints
        {
            entry.peer.config.endpoints = endpoints;
            entry.handshaking.retry_at(now);
            for (&link, state) in &self.links {
                open_path(&mut entry.peer, link, state, now);
            }
            self.activate(id);
        }
    }

    fn set_mode(&mut self, mode: Mode) {
        self.config.mode = mode;
        for entry in self.peers.values_mut() {
            entry.peer.set_mode(mode);
        }
        self.activate_all();
    }

    fn treat(&mut self, id: PeerId, treatments: Treatments) {
        if let Some(entry) = self.peers.get_mut(id) {
            entry.peer.treat(treatments);
            self.activate(id);
        }
    }

    fn introduce(&mut self, id: PeerId, token: PrivateKey) {
        if let Some(entry) = self.peers.get_mut(id) {
            entry.handshaking.token = Some(token);
        }
    }
}

fn open_path(peer: &mut Peer, link: LinkId, state: &Link, now: Time) {
    if state.config.listens {
        return;
    }
    let Some(remote) = handshakes::endpoint_for(&peer.config, &state.config, 0) else { return };
    peer.open_path(link, remote, &state.config, now);
    if !state.up {
        peer.on_link(link, false, now);
    }
}
