//! Peers that stand in for another one: its addresses are theirs as well, and one of them at a
//! time gets the packets. [`StandIns`] says which.

use super::{Event, Tunnel};
use crate::id::PeerId;
use crate::peer::Referral;
use crate::routing::{Health, StandIns, Step};
use braid_units::{Rate, Time};
use braid_wire::Service;

/// The groups of peers that stand in for each other. Most tunnels have none.
#[derive(Debug, Default)]
pub(super) struct Serving {
    groups: Vec<Group>,
    /// Of what was last said of who serves.
    epoch: u64,
}

#[derive(Debug)]
struct Group {
    /// Whose addresses they are comes first, then in the order in which they are to serve.
    members: Vec<PeerId>,
    order: StandIns,
}

impl Serving {
    /// The peer that serves this peer's addresses.
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
                let order = StandIns::new(2, now);
                self.groups.push(Group { members: vec![owner, peer], order });
            }
        }
    }

    fn remove(&mut self, peer: PeerId) {
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
            self.say_who_serves(owner, Service::HERE, now);
            self.elect(now);
        }
    }

    /// The peer is gone. Those that stood in for it serve nothing any more; one that stays alone
    /// serves.
    pub(super) fn leave_group(&mut self, peer: PeerId, now: Time) {
        let owner = self.serving.owner_of(peer);
        self.serving.remove(peer);
        if owner != peer {
            self.say_who_serves(owner, Service::HERE, now);
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
                Some(Step::Stay) => {
                    let serving = group.serving();
                    let word = Service { word: Service::HERE, epoch: self.next_epoch(now) };
                    if let Some(serving) = serving {
                        self.say(serving, word);
                    }
                }
                Some(Step::Move { from, to, planned }) => {
                    let at = |place: usize| group.members.get(place).copied();
                    if let (Some(from), Some(to)) = (at(from), at(to)) {
                        self.move_service(from, to, planned, now);
                    }
                }
            }
        }
    }

    /// Whether it is there is to be known soon.
    pub(super) fn ask(&mut self, peer: PeerId, now: Time) {
        let Some(entry) = self.peers.get_mut(peer) else { return };
        entry.peer.ask(now);
        entry.handshaking.retry_if_idle(now);
        self.activate(peer);
    }

    /// What waits for the one goes on by the other; so does what it hasn't acknowledged, unless it
    /// still works.
    fn move_service(&mut self, from: PeerId, to: PeerId, planned: bool, now: Time) {
        let Some(entry) = self.peers.get_mut(from) else { return };
        let packets = match planned {
            true => entry.peer.hand_over(now),
            false => entry.peer.take_over(now),
        };
        entry.peer.give_back(&mut self.buffers);
        self.activate(from);
        for packet in packets {
            self.admit(to, packet, now);
        }
        let owner = self.serving.owner_of(to);
        let here = if planned { Service::HERE } else { Service::HERE_AFTER_SILENCE };
        self.say_who_serves(owner, here, now);
        self.outbox.tell(Event::Moved { owner, from, to });
    }
}

impl Tunnel {
    /// Each member of the group hears whether it serves: the one that does by the word `here`.
    pub(super) fn say_who_serves(&mut self, owner: PeerId, here: u8, now: Time) {
        let epoch = self.next_epoch(now);
        let serving = self.serving.server_of(owner);
        let group = self.serving.groups.iter().find(|it| it.members.first() == Some(&owner));
        for member in group.map_or_else(|| vec![owner], |group| group.members.clone()) {
            let word = match serving == member {
                true => here,
                false => Service::ELSEWHERE,
            };
            self.say(member, Service { word, epoch });
        }
    }

    /// From now on this home gets no more than `to`, and sends no more than `from`.
    pub(super) fn set_limits(
        &mut self,
        home: PeerId,
        to: Option<Rate>,
        from: Option<Rate>,
        now: Time,
    ) {
        let epoch = self.next_epoch(now);
        if let Some(entry) = self.peers.get_mut(home)
            && !entry.peer.config.opens_paths()
        {
            entry.peer.set_limits(to, from, epoch);
            self.activate(home);
        }
    }

    /// This home may be served by these, too.
    pub(super) fn refer(&mut self, home: PeerId, referrals: &[Referral], now: Time) {
        let epoch = self.next_epoch(now);
        if let Some(entry) = self.peers.get_mut(home)
            && !entry.peer.config.opens_paths()
        {
            entry.peer.refer(epoch, referrals);
            self.activate(home);
        }
    }

    /// Above all before, those of an earlier run too if the clock is right.
    pub(super) fn next_epoch(&mut self, now: Time) -> u64 {
        let clock = self.config.epoch_unix_nanos.saturating_add(now.as_nanos());
        self.serving.epoch = clock.max(self.serving.epoch + 1);
        self.serving.epoch
    }

    pub(super) fn say(&mut self, peer: PeerId, service: Service) {
        if let Some(entry) = self.peers.get_mut(peer) {
            entry.peer.say_service(service);
            self.activate(peer);
        }
    }
}

fn health(peers: &super::Peers, peer: PeerId, now: Time) -> Health {
    peers.get(peer).map(|entry| entry.peer.health(now)).unwrap_or_default()
}
