//! Which transports of a link are open: always UDP, since nothing is as good, and to notice when it
//! passes again; others in addition while UDP is blocked or nearly so. Each open transport is a
//! separate path in the tunnel, which measures its rate itself.
//!
//! Pure: it is given the paths' state and the time.

use std::time::{Duration, Instant};

/// UDP may be silent for this long: a radio link's pause, or a slow link's first answer.
const PATIENCE: Duration = Duration::from_millis(1500);
/// Head start, when both are tried, for UDP on another port, which is cheaper than TCP.
const CHEAPER: Duration = Duration::from_millis(1000);
/// UDP must have passed for this long before the others are closed; after a relapse twice as long,
/// so that a link whose UDP comes and goes keeps what works.
const HOLD: Duration = Duration::from_secs(6);
const HOLD_MOST: Duration = Duration::from_secs(24);
/// If the others were closed less than this ago, that was too soon.
const RELAPSE: Duration = Duration::from_secs(120);
/// The replacement for UDP may be silent for this long.
const SILENCE: Duration = Duration::from_secs(3);

/// Window over which losses are counted.
const WINDOW: Duration = Duration::from_secs(2);
/// Minimum number of datagrams to draw conclusions from.
const LEAST_SENT: u64 = 16;
/// A higher loss rate means a policer or a useless link: links with random losses lose a few per
/// cent.
const SHAPED: f64 = 0.25;
/// Another transport is tried for this long beside shaped UDP...
const TRIAL: Duration = Duration::from_secs(6);
/// ...and stays if by then it carries this many times what UDP does. Otherwise the link itself is
/// slow, and the next trial comes later.
const BETTER: u64 = 2;
const NO_TRIAL: Duration = Duration::from_secs(600);

/// How a link's datagrams travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Transport {
    /// UDP to the concentrator's port.
    Udp,
    /// UDP to the port of HTTP/3.
    OtherPort,
    /// TLS over TCP to the HTTPS port, if necessary through a proxy.
    Tls,
}

/// Totals of a transport's paths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Whether one works.
    pub works: bool,
    /// Datagrams sent so far.
    pub sent: u64,
    /// How many of those were lost.
    pub lost: u64,
    /// Bytes sent and received so far.
    pub bytes: u64,
}

/// All transports of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SeenAll {
    /// UDP to the concentrator's port.
    pub udp: Seen,
    /// UDP to the other port.
    pub other_port: Seen,
    /// TLS.
    pub tls: Seen,
}

/// Decides for one link.
#[derive(Clone, Debug)]
pub struct Selector {
    state: State,
    udp: Watched,
    hold: Duration,
    /// When the others were last closed.
    returned: Option<Instant>,
    /// No trial before this.
    trial_at: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    /// Only UDP.
    Udp,
    /// All are tried. `shaped` is what UDP had carried at the start.
    Searching { since: Instant, worked: Option<Instant>, shaped: bool },
    /// This one besides UDP.
    Found { transport: Transport, silent: Option<Instant>, shaped: Option<Trial> },
}

/// Byte counts when another transport was found besides shaped UDP.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Trial {
    began: Instant,
    udp: u64,
    other: u64,
    passed: bool,
}

/// UDP.
#[derive(Clone, Copy, Debug, Default)]
struct Watched {
    silent: Option<Instant>,
    good: Option<Instant>,
    window: Option<(Instant, Seen)>,
    shaped: bool,
    /// Bytes in the last window, of UDP and of the others.
    carried: (u64, u64),
    others: u64,
}

impl Default for Selector {
    fn default() -> Self {
        Self {
            state: State::Udp,
            udp: Watched::default(),
            hold: HOLD,
            returned: None,
            trial_at: None,
        }
    }
}

impl Selector {
    /// Returns which transports should be open from now on.
    pub fn observe(&mut self, seen: &SeenAll, now: Instant) -> &'static [Transport] {
        let in_use = matches!(self.state, State::Found { shaped: Some(_), .. });
        self.udp.note(seen, in_use, now);
        self.state = match self.state {
            State::Udp => self.alone(now),
            State::Searching { since, worked, shaped } => {
                self.search(seen, since, worked, shaped, now)
            }
            State::Found { transport, silent, shaped } => {
                self.beside(seen, transport, silent, shaped, now)
            }
        };
        match self.state {
            State::Udp => &[Transport::Udp],
            State::Searching { .. } => &[Transport::Udp, Transport::OtherPort, Transport::Tls],
            State::Found { transport: Transport::Tls, .. } => &[Transport::Udp, Transport::Tls],
            State::Found { .. } => &[Transport::Udp, Transport::OtherPort],
        }
    }

    fn alone(&mut self, now: Instant) -> State {
        let silent = self.udp.silent.is_some_and(|at| now.duration_since(at) >= PATIENCE);
        let may_try = self.trial_at.is_none_or(|at| now >= at);
        let shaped = self.udp.shaped && may_try;
        if !silent && !shaped {
            return State::Udp;
        }
        self.hold = match self.returned {
            Some(at) if now.duration_since(at) < RELAPSE => (self.hold * 2).min(HOLD_MOST),
            _ => HOLD,
        };
        State::Searching { since: now, worked: None, shaped: !silent }
    }

    fn search(
        &mut self,
        seen: &SeenAll,
        since: Instant,
        worked: Option<Instant>,
        shaped: bool,
        now: Instant,
    ) -> State {
        if !shaped && self.udp.is_good_for(self.hold, now) {
            return self.go_back(now);
        }
        if shaped && now.duration_since(since) > TRIAL {
            self.trial_at = Some(now + NO_TRIAL);
            return State::Udp;
        }
        let found = |transport, other: Seen| {
            let (udp, other) = (seen.udp.bytes, other.bytes);
            let trial = Trial { began: now, udp, other, passed: false };
            State::Found { transport, silent: None, shaped: shaped.then_some(trial) }
        };
        // A network that shapes UDP mostly does so on any port.
        if seen.other_port.works && !shaped {
            return found(Transport::OtherPort, seen.other_port);
        }
        let worked = worked.or(seen.tls.works.then_some(now));
        let waited = worked.is_some_and(|at| shaped || now.duration_since(at) >= CHEAPER);
        if seen.tls.works && waited {
            return found(Transport::Tls, seen.tls);
        }
        State::Searching { since, worked, shaped }
    }

    fn beside(
        &mut self,
        seen: &SeenAll,
        transport: Transport,
        silent: Option<Instant>,
        shaped: Option<Trial>,
        now: Instant,
    ) -> State {
        let other = match transport {
            Transport::Tls => seen.tls,
            Transport::Udp | Transport::OtherPort => seen.other_port,
        };
        let mut shaped = shaped;
        if let Some(trial) = &mut shaped
            && !trial.passed
            && now.duration_since(trial.began) >= TRIAL
        {
            let by_udp = seen.udp.bytes.saturating_sub(trial.udp);
            let by_other = other.bytes.saturating_sub(trial.other);
            if by_other < by_udp * BETTER {
                self.trial_at = Some(now + NO_TRIAL);
                return self.go_back(now);
            }
            trial.passed = true;
        }
        let judged = shaped.is_none_or(|trial| trial.passed);
        if judged && self.udp.is_good_for(self.hold, now) {
            return self.go_back(now);
        }
        let silent = if other.works { None } else { silent.or(Some(now)) };
        if silent.is_some_and(|at| now.duration_since(at) >= SILENCE) && !seen.udp.works {
            return State::Searching { since: now, worked: None, shaped: false };
        }
        State::Found { transport, silent, shaped }
    }

    fn go_back(&mut self, now: Instant) -> State {
        self.returned = Some(now);
        self.udp.shaped = false;
        State::Udp
    }
}

impl Watched {
    /// With another transport `in_use` besides shaped UDP, UDP counts as good when it carries its
    /// share or there is nothing to carry.
    fn note(&mut self, seen: &SeenAll, in_use: bool, now: Instant) {
        let udp = seen.udp;
        self.silent = if udp.works { None } else { self.silent.or(Some(now)) };
        let others = seen.other_port.bytes + seen.tls.bytes;
        let (began, before) = *self.window.get_or_insert((now, udp));
        if now.duration_since(began) >= WINDOW {
            let sent = udp.sent.saturating_sub(before.sent);
            let lost = udp.lost.saturating_sub(before.lost);
            self.shaped = sent >= LEAST_SENT && lost as f64 >= sent as f64 * SHAPED;
            let by_udp = udp.bytes.saturating_sub(before.bytes);
            self.carried = (by_udp, others.saturating_sub(self.others));
            (self.window, self.others) = (Some((now, udp)), others);
        }
        let (by_udp, by_others) = self.carried;
        let idle = by_udp + by_others < IDLE;
        let has_share = !in_use || idle || by_udp * BETTER >= by_others;
        let good = udp.works && !self.shaped && has_share;
        self.good = if good { self.good.or(Some(now)) } else { None };
    }

    fn is_good_for(&self, time: Duration, now: Instant) -> bool {
        self.good.is_some_and(|at| now.duration_since(at) >= time)
    }
}

/// Up to this many bytes in a window are just probes and acknowledgements.
const IDLE: u64 = 20_000;

#[cfg(test)]
mod tests {
    use super::*;
    use Transport::{OtherPort, Tls, Udp};

    const TICK: Duration = Duration::from_millis(500);

    /// A link on which each transport passes or doesn't.
    struct Link {
        selector: Selector,
        now: Instant,
        start: Instant,
        seen: SeenAll,
        open: &'static [Transport],
    }

    impl Link {
        fn new() -> Link {
            let now = Instant::now();
            let seen = SeenAll::default();
            Link { selector: Selector::default(), now, start: now, seen, open: &[Udp] }
        }

        /// Lets time pass; `load` is the rate in bytes per second over the transports that pass.
        fn pass(&mut self, seconds: f64, udp: bool, other_port: bool, tls: bool) {
            let until = self.now + Duration::from_secs_f64(seconds);
            while self.now < until {
                self.now += TICK;
                let open = |transport| self.open.contains(&transport);
                self.seen.udp.works = udp;
                self.seen.other_port.works = other_port && open(OtherPort);
                self.seen.tls.works = tls && open(Tls);
                self.open = self.selector.observe(&self.seen, self.now);
            }
        }

        /// Lets time pass under load, with UDP's loss rate and the bytes per second over each
        /// transport.
        fn carry(&mut self, seconds: f64, lost: f64, udp: u64, tls: u64) {
            let until = self.now + Duration::from_secs_f64(seconds);
            while self.now < until {
                let sent = 100;
                self.seen.udp.sent += sent;
                self.seen.udp.lost += (sent as f64 * lost) as u64;
                self.seen.udp.bytes += udp / 2;
                if self.open.contains(&Tls) {
                    self.seen.tls.bytes += tls / 2;
                }
                self.pass(0.5, true, true, true);
            }
        }

        fn seconds(&self) -> f64 {
            self.now.duration_since(self.start).as_secs_f64()
        }
    }

    #[test]
    fn udp_alone_while_it_passes() {
        let mut link = Link::new();
        link.pass(60.0, true, true, true);
        assert_eq!(link.open, [Udp]);
        link.pass(1.0, false, false, false);
        assert_eq!(link.open, [Udp], "a short pause is nothing");
        link.pass(60.0, true, true, true);
        assert_eq!(link.open, [Udp]);
    }

    #[test]
    fn what_passes_is_found_within_5_seconds_and_left_within_30() {
        for (other_port, found) in [(true, [Udp, OtherPort]), (false, [Udp, Tls])] {
            let mut link = Link::new();
            while link.open != found {
                link.pass(0.5, false, other_port, true);
                assert!(link.seconds() < 5.0, "{found:?}");
            }
            link.pass(100.0, false, other_port, true);
            assert_eq!(link.open, found);
            let back = link.seconds();
            while link.open != [Udp] {
                link.pass(0.5, true, other_port, true);
                assert!(link.seconds() < back + 30.0, "{found:?}");
            }
        }
    }

    #[test]
    fn where_nothing_passes_all_is_tried_on_and_on() {
        let mut link = Link::new();
        link.pass(600.0, false, false, false);
        assert_eq!(link.open, [Udp, OtherPort, Tls]);
        link.pass(2.0, false, false, true);
        assert_eq!(link.open, [Udp, Tls], "a proxy was started");
        link.pass(4.0, false, false, false);
        assert_eq!(link.open, [Udp, OtherPort, Tls], "and ended");
    }

    #[test]
    fn udp_that_comes_and_goes_is_no_reason_to_close_what_works() {
        let mut link = Link::new();
        let mut closed = 0;
        for _ in 0..60 {
            link.pass(10.0, false, false, true);
            let was = link.open;
            link.pass(10.0, true, false, true);
            closed += usize::from(was.contains(&Tls) && !link.open.contains(&Tls));
        }
        assert!(closed <= 2, "{closed} times in 20 minutes");
    }

    #[test]
    fn shaped_udp_is_left_for_what_carries_more_until_it_carries_its_share() {
        let mut link = Link::new();
        link.carry(20.0, 0.02, 500_000, 0);
        assert_eq!(link.open, [Udp], "some losses are a radio link's");
        let shaped = link.seconds();
        while !link.open.contains(&Tls) {
            link.carry(0.5, 0.4, 8_000, 0);
            assert!(link.seconds() < shaped + 5.0);
        }
        // With little load UDP loses nothing, but is still no better.
        link.carry(60.0, 0.0, 8_000, 900_000);
        assert_eq!(link.open, [Udp, Tls]);
        let back = link.seconds();
        while link.open != [Udp] {
            link.carry(0.5, 0.0, 500_000, 400_000);
            assert!(link.seconds() < back + 30.0);
        }
    }

    #[test]
    fn a_link_that_is_slow_by_any_transport_keeps_udp() {
        let mut link = Link::new();
        let mut with_tls = 0;
        for _ in 0..1200 {
            link.carry(0.5, 0.4, 8_000, 9_000);
            with_tls += usize::from(link.open.contains(&Tls));
        }
        assert!(with_tls < 40, "{with_tls} of 1200 half seconds");
        assert_eq!(link.open, [Udp]);
    }
}
