//! Which initiations are looked at, so that whoever sends many of them costs
//! those who are connected little: each step of a handshake has a budget, and
//! the cheap ones come first.
//!
//! | step | costs about | budget, for 50 handshakes a second |
//! |---|---|---|
//! | to be dropped unread | 0.05 µs | none |
//! | to be known as a copy of one that was answered | 0.5 µs and a datagram | as the next |
//! | mac1, a cookie | 5 µs and a datagram | 500/s for all, 5/s more for each of 256 groups of addresses, 20/s more for each address of a path in use |
//! | Curve25519 | 150 µs and a datagram | 50/s, 250/s more for those with a cookie |

use braid_units::Time;
use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Groups of addresses of which none takes the others' share. Ours.
const GROUPS: usize = 256;
/// How often addresses in use are looked up, while there is too much. Ours.
const LOOK_UP: Duration = Duration::from_secs(1);

/// What may be spent on initiations.
#[derive(Debug)]
pub(super) struct Admission {
    for_all: Budget,
    /// By a hash of where they come from that nobody outside knows.
    for_groups: Vec<Budget>,
    groups: RandomState,
    for_known: Rate,
    known: HashMap<SocketAddr, Budget>,
    known_since: Option<Time>,
    without_cookie: Budget,
    with_cookie: Budget,
}

/// What an initiation has to bring along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Toll {
    Nothing,
    Cookie,
}

impl Admission {
    /// For so many handshakes in a second for which no cookie is asked.
    pub fn new(per_second: u32) -> Self {
        let rate = |of_it: f64| Rate::per_second(f64::from(per_second.max(1)) * of_it);
        Self {
            for_all: Budget::new(rate(10.0)),
            for_groups: vec![Budget::new(rate(0.1)); GROUPS],
            groups: RandomState::new(),
            for_known: rate(0.4),
            known: HashMap::new(),
            known_since: None,
            without_cookie: Budget::new(rate(1.0)),
            with_cookie: Budget::new(rate(5.0)),
        }
    }

    /// Whether an initiation from there is looked at at all. `in_use` are the
    /// addresses of peers' paths: a session's new keys aren't held up by
    /// strangers.
    pub fn lets_in<I: Iterator<Item = SocketAddr>>(
        &mut self,
        from: SocketAddr,
        in_use: impl FnOnce() -> I,
        now: Time,
    ) -> bool {
        let group = self.groups.hash_one(network(from.ip())) as usize % GROUPS;
        if self.for_all.take(now) || self.for_groups.get_mut(group).is_some_and(|b| b.take(now)) {
            return true;
        }
        if self.known_since.is_none_or(|since| now - since >= LOOK_UP) {
            self.known_since = Some(now);
            let mut before = std::mem::take(&mut self.known);
            let mut budget = |from| before.remove(&from).unwrap_or(Budget::new(self.for_known));
            self.known = in_use().map(|from| (from, budget(from))).collect();
        }
        self.known.get_mut(&from).is_some_and(|budget| budget.take(now))
    }

    /// What it takes to be answered now; `None` is that nobody is.
    pub fn toll(&self, now: Time) -> Option<Toll> {
        if self.without_cookie.has(now) {
            Some(Toll::Nothing)
        } else if self.with_cookie.has(now) {
            Some(Toll::Cookie)
        } else {
            None
        }
    }

    /// Keys were computed for one who paid that.
    pub fn spend(&mut self, toll: Toll, now: Time) {
        match toll {
            Toll::Nothing => self.without_cookie.take(now),
            Toll::Cookie => self.with_cookie.take(now),
        };
    }
}

/// What one customer of a provider has.
fn network(address: IpAddr) -> u64 {
    match address.to_canonical() {
        IpAddr::V4(ip) => u64::from(ip.to_bits()),
        IpAddr::V6(ip) => (ip.to_bits() >> 72) as u64 | 1 << 63,
    }
}

/// So many in a second, and as many as in a second at once.
#[derive(Clone, Copy, Debug)]
struct Rate {
    interval: Duration,
}

impl Rate {
    fn per_second(count: f64) -> Self {
        // Rounded up, so that a second never has one more.
        Self { interval: Duration::from_nanos((1e9 / count).ceil() as u64) }
    }
}

/// A token bucket, as the time at which it will be full again (ITU-T I.371,
/// the generic cell rate algorithm).
#[derive(Clone, Copy, Debug)]
struct Budget {
    rate: Rate,
    full_at: Time,
}

impl Budget {
    fn new(rate: Rate) -> Self {
        Self { rate, full_at: Time::ZERO }
    }

    fn has(&self, now: Time) -> bool {
        self.full_at.max(now) - now < Duration::from_secs(1)
    }

    fn take(&mut self, now: Time) -> bool {
        let has = self.has(now);
        if has {
            self.full_at = self.full_at.max(now) + self.rate.interval;
        }
        has
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::iter::{empty, once};

    fn at(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    /// From 10.0.0.0 on, one after the other.
    fn stranger(number: u32) -> SocketAddr {
        SocketAddr::new(IpAddr::V4((0x0a00_0000 + number).into()), 4000)
    }

    #[test]
    fn a_second_has_its_budget_whatever_comes() {
        let mut admission = Admission::new(50);
        let mut let_in = 0;
        for number in 0..400_000_u32 {
            let now = Time::from_micros(u64::from(number) * 5);
            let_in += u32::from(admission.lets_in(stranger(number), empty, now));
        }
        // Two seconds, and what is there in the beginning.
        assert!(let_in <= 3 * (500 + 256 * 5), "{let_in}");
    }

    #[test]
    fn one_who_floods_keeps_nobody_else_out() {
        let mut admission = Admission::new(50);
        let now = Time::from_millis(5000);
        while admission.lets_in(at("192.0.2.1:7"), empty, now) {}
        let others = (0..100).filter(|n| admission.lets_in(stranger(*n), empty, now)).count();
        assert!(others > 90, "{others}");
    }

    #[test]
    fn whoever_is_connected_is_let_in_through_any_flood() {
        let mut admission = Admission::new(50);
        let now = Time::from_millis(5000);
        for number in 0..100_000 {
            admission.lets_in(stranger(number), empty, now);
        }
        let home = at("[2001:db8::1]:4000");
        assert!(!admission.lets_in(home, empty, now), "not known yet");
        let later = now + LOOK_UP;
        for number in 0..100_000 {
            admission.lets_in(stranger(number), || once(home), later);
        }
        let times = (0..100).filter(|_| admission.lets_in(home, empty, later)).count();
        assert_eq!(times, 20, "but has a budget too");
    }

    #[test]
    fn keys_are_computed_without_a_cookie_first_and_then_with_one() {
        let mut admission = Admission::new(50);
        let now = Time::from_millis(5000);
        let mut tolls = Vec::new();
        while let Some(toll) = admission.toll(now) {
            admission.spend(toll, now);
            tolls.push(toll);
        }
        assert_eq!(tolls[..50], [Toll::Nothing; 50]);
        assert_eq!(tolls[50..], [Toll::Cookie; 250]);
        assert_eq!(admission.toll(now + Duration::from_millis(25)), Some(Toll::Nothing));
    }
}
