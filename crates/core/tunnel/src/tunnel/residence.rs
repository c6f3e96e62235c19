//! Homes that are served here, and how willing we are to serve more. Who is taken on is said by
//! [`Residents`](crate::routing::Residents) at a home's first word that it is served here.

use super::{Entry, Event, Tunnel};
use crate::id::PeerId;
use crate::peer::Served;
use crate::routing::Admitted;
use braid_units::Time;
use braid_wire::Service;

impl Tunnel {
    /// The home says so; whether it is served here thereby. One for which there is no room hears
    /// that at once. What it has sent goes on all the same, as from any home.
    pub(super) fn admit_home(&mut self, home: PeerId, said: Served, now: Time) -> Served {
        let admitted = self.residents.hear(home, said.here, now);
        if said.after_silence && self.config.announces {
            // Where it is refused, too: its route follows it, wherever it goes.
            self.holding.begin(home, now);
        }
        match admitted {
            Admitted::Here => self.tell_others(now),
            Admitted::Elsewhere => self.holding.end(home, &mut self.outbox),
            Admitted::Refused => self.say_rank(home, now),
        }
        Served { here: admitted == Admitted::Here, ..said }
    }

    /// Where the last place is taken, those that have others hear so before they come in vain.
    fn tell_others(&mut self, now: Time) {
        let is_elsewhere = |(_, entry): &(PeerId, &Entry)| {
            entry.rank < Service::FULL && entry.peer.served().is_some_and(|said| !said.here)
        };
        let others = self.peers.iter().filter(is_elsewhere).map(|(id, _)| id);
        for home in self.residents.turn_away_if_full(others, now) {
            self.say_rank(home, now);
        }
    }

    /// There are keys with it again. Its word of before counts yet, unless it begins anew.
    pub(super) fn on_home_connected(&mut self, home: PeerId, now: Time) {
        let Some(entry) = self.peers.get(home) else { return };
        let known = self.residents.serves(home) || self.residents.is_refused(home);
        match entry.peer.served() {
            _ if known || entry.peer.config.opens_paths() => {}
            None => self.residents.connect(home, now),
            Some(said) if said.here => {
                let served = self.admit_home(home, said, now);
                self.outbox.tell(Event::Served { peer: home, here: served.here });
            }
            Some(_) => {}
        }
    }

    /// What a home has said of who serves it, but for that it may have been refused.
    pub(super) fn as_admitted(&self, home: PeerId, said: Served) -> Served {
        Served { here: said.here && self.residents.serves(home), ..said }
    }

    /// Those that have waited long enough are taken on, and those that were refused hear that there
    /// is room again.
    pub(super) fn look_for_room(&mut self, now: Time) {
        let peers = &self.peers;
        let connected = |home| peers.get(home).is_some_and(|entry| entry.peer.is_connected(now));
        while let Some(home) = self.residents.take_due(connected, now) {
            // One that has said nothing isn't said to be served.
            if self.peers.get(home).is_some_and(|entry| entry.peer.served().is_some()) {
                self.outbox.tell(Event::Served { peer: home, here: true });
            }
        }
        for home in self.residents.welcome(now) {
            self.say_rank(home, now);
        }
    }

    /// How willing we are to serve this home from now on: 0 is the most, [`Service::DRAINING`] the
    /// least. One that has just been refused stays so.
    pub(super) fn set_rank(&mut self, home: PeerId, rank: u8, now: Time) {
        let Some(entry) = self.peers.get_mut(home) else { return };
        // A home says who serves it instead.
        if entry.peer.config.opens_paths() {
            return;
        }
        entry.rank = rank;
        if !self.residents.is_refused(home) {
            self.residents.forget_refusal(home);
        }
        self.say_rank(home, now);
    }

    /// One that is turned away hears that there is no room, however willing we are else.
    fn say_rank(&mut self, home: PeerId, now: Time) {
        let rank = self.peers.get(home).map_or(0, |entry| entry.rank);
        let turned_away = self.residents.has_turned_away(home);
        let word = if turned_away { rank.max(Service::FULL) } else { rank };
        let epoch = self.next_epoch(now);
        self.say(home, Service { word, epoch });
    }
}
