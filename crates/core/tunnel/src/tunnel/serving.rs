//! Peers that stand in for another one: its addresses are theirs as well, and one of them at a
//! time gets the packets. [`StandIns`] says which.

use super::{Event, Tunnel};
use crate::config::PeerId;
use crate::routing::{Health, StandIns, Step};
use braid_units::Time;

/// The groups of peers that stand in for each other. Most tunnels have none.
#[derive(Debug, Default)]
pub(super) struct Serving {
    groups: Vec<Group>,
}

#[derive(Debug)]
struct Group {
    /// Whose addresses they are comes first, then in the order in which they are to serve.
    members: Vec<PeerId>,
    order: StandIns,
}

impl Serving {
    /// The peer that serves these peer's addresses.
    pub fn server_of(&self, owner: PeerId) -> PeerId {
        let group = self.groups.iter().find(|group| group.members.first() == Some(&owner));
        group.and_then(Group::serving).unwrap_or(owner)
    }

    /// The peer whose addresses this one may serve: itself, mostly.
    pub fn owner_of(&self, peer: PeerId) -> PeerId {
        let group = self.groups.iter().find(|group| group.members.contains(&peer));
        group.and_then(|group| group.members.first().copied()).unwrap_or(peer)
    }

    /// When a group is to be looked at though nothing has changed.
    pub fn deadline(&self) -> Option<Time> {
        self.groups.iter().filter_map(|group| group.order.deadline()).min()
    }

    fn add(&mut self, peer: PeerId, owner: PeerId, now: Time) {
        if peer == owner || self.owner_of(peer) != peer || self.owner_of(owner) != owner {
            return;
        }
        match self.groups.iter_mut().find(|group| group.members.first() == Some(&owner)) {
            Some(group) => {
                group.members.push(peer);
                group.order.push();
            }
            None => {
                self.groups.push(Group { members: vec![owner, peer], order: StandIns::new(2, now) })
            }
        }
    }

    /// The peer is gone; those that stood in for it serve nothing any more.
    pub fn remove(&mut self, peer: PeerId) {
        self.groups.retain_mut(|group| {
            match group.members.iter().position(|member| *member == peer) {
                Some(0) => return false,
                Some(place) => {
                    group.members.remove(place);
                    group.order.remove(place);
                }
                None => {}
            }
            group.members.len() > 1
        });
    }
}

impl Group {
    fn serving(&self) -> Option<PeerId> {
        self.members.get(self.order.serving()).copied()
    }
}

impl Tunnel {
    /// `peer` stands in for `owner` from now on.
    pub(super) fn stand_in(&mut self, peer: PeerId, owner: PeerId, now: Time) {
        if self.peers.get_mut(peer).is_some() && self.peers.get_mut(owner).is_some() {
            self.serving.add(peer, owner, now);
            self.elect(now);
        }
    }

    /// Something may have changed about who works: sees to it that one serves that does.
    pub(super) fn elect(&mut self, now: Time) {
        for index in 0..self.serving.groups.len() {
            let Some(group) = self.serving.groups.get_mut(index) else { continue };
            let health: Vec<Health> =
                group.members.iter().map(|peer| health(&self.peers, *peer, now)).collect();
            let of = |place: usize| health.get(place).copied().unwrap_or_default();
            match group.order.update(of, now) {
                None => {}
                Some(Step::Ask) => {
                    for peer in group.members.clone() {
                        self.ask(peer, now);
                    }
                }
                Some(Step::Move { from, to }) => {
                    let at = |place: usize| group.members.get(place).copied();
                    if let (Some(from), Some(to)) = (at(from), at(to)) {
                        self.move_service(from, to, now);
                    }
                }
            }
        }
    }

    /// Whether it is there is to be known soon.
    fn ask(&mut self, peer: PeerId, now: Time) {
        let Some(entry) = self.peers.get_mut(peer) else { return };
        entry.peer.ask(now);
        entry.handshaking.retry_if_idle(now);
        self.activate(peer);
    }

    /// What waits for the one and what it hasn't acknowledged goes on by the other.
    fn move_service(&mut self, from: PeerId, to: PeerId, now: Time) {
        let Some(entry) = self.peers.get_mut(from) else { return };
        let packets = entry.peer.take_over(now);
        entry.peer.give_back(&mut self.buffers);
        self.activate(from);
        for packet in packets {
            self.admit(to, packet, now);
        }
        let owner = self.serving.owner_of(to);
        self.tell(Event::Moved { owner, from, to });
    }
}

fn health(peers: &super::Peers, peer: PeerId, now: Time) -> Health {
    peers.get(peer).map(|entry| entry.peer.health(now)).unwrap_or_default()
}
