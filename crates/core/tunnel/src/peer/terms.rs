//! What each end has said of how it deals with the other: who serves, how much may be sent, which
//! others there are, and that it restarts.

use super::referred::Referred;
use super::restarting::Restarting;
use crate::exit::Policer;
use braid_units::{Rate, Time};
use braid_wire::{LimitFrame, Service};

/// What was said last of each.
#[derive(Debug, Default)]
pub(super) struct Terms {
    pub service: Said,
    pub limit: Limit,
    pub referred: Referred,
    pub restarting: Restarting,
}

impl Terms {
    /// Another run of the peer: it says anew what it has to say. True if it had set us a limit,
    /// which is gone.
    pub fn on_another_instance(&mut self) -> bool {
        self.restarting.on_another_instance();
        self.service.last = None;
        self.referred.on_another_instance();
        self.limit.told_epoch.take().is_some()
    }

    /// There is something for the tunnel to learn.
    pub fn is_news(&self) -> bool {
        self.restarting.is_news() || self.service.is_news || self.referred.is_news()
    }
}

/// What the peer says of who serves.
#[derive(Debug, Default)]
pub(super) struct Said {
    /// None before it says something; one of an older version never does.
    last: Option<Service>,
    is_news: bool,
}

impl Said {
    /// It says so now, unless a later word of it came before.
    pub fn hear(&mut self, said: Service) {
        if self.last.is_none_or(|before| said.epoch >= before.epoch) {
            self.is_news |= self.last != Some(said);
            self.last = Some(said);
        }
    }

    /// What it said last.
    pub fn last(&self) -> Option<Service> {
        self.last
    }

    /// It has said something else than before: true once.
    pub fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.is_news)
    }
}

/// How much may be sent each way.
#[derive(Debug, Default)]
pub(super) struct Limit {
    /// Of what the concentrator last said of how much we may send.
    told_epoch: Option<u64>,
    /// What keeps the peer to its limit.
    policer: Option<Policer>,
}

impl Limit {
    /// The concentrator says so; true if it's its last word.
    pub fn hear(&mut self, limit: &LimitFrame) -> bool {
        let newer = self.told_epoch.is_none_or(|before| limit.epoch >= before);
        if newer {
            self.told_epoch = Some(limit.epoch);
        }
        newer
    }

    /// From now on the peer is told to send no more than that, and is kept to it.
    pub fn set(&mut self, from_peer: Option<Rate>) {
        self.policer = from_peer.map(Policer::of_told);
    }

    /// Whether a packet of the peer's of so many bytes is within its limit.
    #[inline]
    pub fn allows(&mut self, bytes: u64, now: Time) -> bool {
        self.policer.as_mut().is_none_or(|policer| policer.passes(bytes, now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_of_the_highest_epoch_counts_and_is_news_once() {
        let mut terms = Terms::default();
        let word = |word, epoch| Service { word, epoch };
        terms.service.hear(word(1, 5));
        assert!(terms.is_news() && terms.service.take_news() && !terms.is_news());
        terms.service.hear(word(1, 5));
        terms.service.hear(word(0, 4));
        assert!(!terms.service.take_news(), "said again, and late");
        assert_eq!(terms.service.last(), Some(word(1, 5)));
        terms.service.hear(word(0, 6));
        assert!(terms.service.take_news());
        // Another run may have an earlier clock.
        terms.on_another_instance();
        assert_eq!(terms.service.last(), None);
        terms.service.hear(word(1, 2));
        assert!(terms.service.take_news());
    }

    #[test]
    fn a_limit_counts_until_a_later_one_or_another_run_of_who_set_it() {
        let mut terms = Terms::default();
        let limit = |epoch| LimitFrame { rate: Some(Rate::from_mbit(1)), epoch };
        assert!(!terms.on_another_instance(), "there was none");
        assert!(terms.limit.hear(&limit(5)));
        assert!(!terms.limit.hear(&limit(4)), "late");
        assert!(terms.on_another_instance());
        assert!(terms.limit.hear(&limit(1)));
    }

    #[test]
    fn a_peer_is_kept_to_its_limit_until_it_has_none() {
        let (mut limit, now) = (Limit::default(), Time::from_millis(1000));
        let passes = |limit: &mut Limit| (0..1000).filter(|_| limit.allows(1000, now)).count();
        assert_eq!(passes(&mut limit), 1000);
        limit.set(Some(Rate::from_mbit(1)));
        assert!((1..100).contains(&passes(&mut limit)));
        limit.set(None);
        assert_eq!(passes(&mut limit), 1000);
    }
}
