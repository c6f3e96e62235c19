//! The phases of a path's congestion control, and what leads from one to the
//! next. Beside BBRv3's (draft-ietf-ccwg-bbr, section 5.3): see the module.
//!
//! | from | to | when |
//! |---|---|---|
//! | Startup | Drain | the rate is flat for 3 rounds, a queue of ours stands, or a buffer overflows |
//! | Cruise | Probe | 3 rounds were quiet |
//! | Probe | ProbeWait | its round is over |
//! | ProbeWait | Probe | it found more: the next step |
//! | ProbeWait | Cruise | it found no more |
//! | Cruise, Probe, ProbeWait | Drain | a queue stands, or a buffer overflows |
//! | all but Startup | Track | the capacity is volatile, and no buffer overflows |
//! | Track | Cruise | it is calm |
//! | all but Startup, volatile | Drain | a buffer overflows |
//! | Drain | Cruise | it is futile: the delay is the base from now on |
//! | Drain | Cruise | between rounds: it has drained, or nothing of ours is queued any more |
//! | all but Track, Drain | Drain | between rounds: a queue far beyond the target |
//! | all | Startup | the path is back after an outage |
//!
//! Those at a round's end are here; the last three are in `model`, since they ask the signals
//! with each acknowledgement.

use super::round::Overflow;
use braid_units::{Rate, Time};
use std::time::Duration;

/// BBR's startup pacing gain, 4 ln 2 (draft-ietf-ccwg-bbr, section 5.6.1).
const STARTUP_GAIN: f64 = 2.77;
/// Startup ends when the rate grew by less than this in three rounds (BBR's
/// `FullBWThreshold`, `FullBWCount`; section 5.3.1.2).
const FULL_GROWTH: f64 = 1.25;
const FULL_ROUNDS: u32 = 3;
/// In startup so much may be in flight beyond what the pipe is known to hold, as
/// a multiple of that. BBR has one; here the estimate is a round trip old. With
/// two, a slow path queued more than the others could wait for.
const STARTUP_SLACK: f64 = 1.5;
/// A little more than the estimate, so that the bottleneck never idles and a
/// risen capacity shows. BBR probes with 1.25 for a round, then cruises at 1. Ours; not
/// measured apart.
const CRUISE_GAIN: f64 = 1.04;
/// Rounds without a queue before more is tried. Ours; not measured apart.
const ROUNDS_BEFORE_PROBE: u32 = 3;
/// Gains of successive probes while each finds more; the first is BBR's, the others ours.
const PROBE_GAINS: [f64; 3] = [1.25, 1.6, 2.0];
/// A probe has found more when the estimate grew by this: less than half of what was tried. Ours.
const PROBE_GROWTH: f64 = 1.1;
/// The rate of a link that gives way is what arrived in so many times the round that showed it:
/// while it was sent alike, for what a single round tells jitters. In cruise that is some
/// rounds; after a probe itself and the wait; when startup ends for want of growth, two of the
/// three flat ones; else the one round.
const CRUISE_ROUNDS: u32 = 3;
const PROBE_ROUNDS: u32 = 2;
const FLAT_ROUNDS: u32 = 2;
const LAST_ROUND: u32 = 1;
/// What is sent of the rate while a queue drains. BBR's 0.5 (`DrainPacingGain`)
/// would let the bottleneck idle, since its queue is seen a round trip late. Ours; not
/// measured apart.
const DRAIN_GAINS: std::ops::RangeInclusive<f64> = 0.8..=0.92;
/// A drain of one round trip at the least is spread over so long. Ours; not measured apart.
const DRAIN_OVER: Duration = Duration::from_millis(30);
/// A drain that has taken so many rounds and round trips has no effect on the
/// delay: that has another cause, such as a new route (docs/design/006-heuristics.md, rebasing).
const FUTILE_ROUNDS: u32 = 3;
const FUTILE_ROUND_TRIPS: u32 = 4;
/// A tracked link is governed by its window; pacing only spreads what
/// acknowledgements let go over half of a round. Ours; not measured apart.
const TRACKING_GAIN: f64 = 2.0;
/// The queue that a tracked link is given beyond what its round trip holds. On
/// recorded 3G and LTE links 40 ms carry as much as 80 or 120: what more is
/// sent waits in links that stand still, and is sent again by others. 25 ms
/// carry 2 % less.
const TRACKING_QUEUE: Duration = Duration::from_millis(40);
/// Queue targets' worth of slack in flight while cruising, and in a probe: enough for pacing,
/// and not the window, to decide. Ours; not measured apart.
const CRUISE_TARGETS: u32 = 3;
const PROBE_TARGETS: u32 = 2;

/// How the path is being used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Phase {
    /// Doubling each round.
    Startup { best: Rate, flat_rounds: u32 },
    /// Keeping the link busy.
    Cruise { quiet_rounds: u32 },
    /// Sending more for one round.
    Probe { step: usize },
    /// Waiting for the acknowledgement of what was sent in the probe.
    ProbeWait { step: usize },
    /// The capacity changes all the time.
    Track,
    /// Letting the queue drain.
    Drain { since: Time, rounds: u32 },
}

/// What a round that ended has shown.
#[derive(Clone, Copy, Debug)]
pub struct RoundEnd {
    pub now: Time,
    pub length: Duration,
    pub base_rtt: Duration,
    /// A queue above the target stands, beyond what jitter explains.
    pub standing: bool,
    /// In startup: it stands, and it's we who made it.
    pub ours: bool,
    /// The buffer may be too short to show a queue.
    pub overflow: Overflow,
    pub app_limited: bool,
    /// Queue innovation is beyond what makes a link be tracked; beyond what
    /// lets it be so.
    pub volatile: bool,
    pub restless: bool,
    pub bandwidth: Rate,
    /// The rate of arrivals over the round, and over two.
    pub measured: Option<Rate>,
    pub measured_over_two: Option<Rate>,
}

/// What follows from it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Step {
    /// The phase that is next; the estimate is raised to this, if it's more.
    Go { to: Phase, raise: Option<Rate> },
    /// The link is busy: its rate is what arrived within `over`; then drain. The
    /// estimate is raised before, if it's more.
    Yield { over: Duration, raise: Option<Rate> },
    /// The delay isn't a queue: it's the base now, and the phase is this one.
    Rebase { to: Phase },
}

impl Phase {
    pub const START: Self = Self::Startup { best: Rate::ZERO, flat_rounds: 0 };
    /// Cruise begins.
    pub const CRUISE: Self = Self::Cruise { quiet_rounds: 0 };

    /// What a round's end leads to.
    pub fn on_round_end(self, round: &RoundEnd) -> Step {
        let stay = |to| Step::Go { to, raise: None };
        let overflow = round.overflow != Overflow::None;
        let busy = round.standing || overflow;
        let give_way = |rounds: u32| Step::Yield { over: round.length * rounds, raise: None };
        match self {
            Self::Startup { best, flat_rounds } => startup(best, flat_rounds, round),
            // Volatility is looked at first, whatever the phase.
            Self::Track if overflow => give_way(LAST_ROUND),
            Self::Track if round.restless => stay(Self::Track),
            Self::Track => stay(Self::CRUISE),
            _ if round.volatile && overflow => give_way(LAST_ROUND),
            _ if round.volatile => stay(Self::Track),
            Self::Cruise { .. } if busy => give_way(CRUISE_ROUNDS),
            Self::Cruise { quiet_rounds } => {
                let quiet_rounds = quiet_rounds + u32::from(!round.app_limited);
                let probes = quiet_rounds >= ROUNDS_BEFORE_PROBE && !round.app_limited;
                let cruise = Self::Cruise { quiet_rounds };
                let to = if probes { Self::Probe { step: 0 } } else { cruise };
                Step::Go { to, raise: round.measured_over_two }
            }
            Self::Probe { .. } if busy => give_way(LAST_ROUND),
            Self::Probe { step } => stay(Self::ProbeWait { step }),
            Self::ProbeWait { .. } if busy => give_way(PROBE_ROUNDS),
            Self::ProbeWait { step } => {
                let found =
                    round.measured.is_some_and(|rate| rate > round.bandwidth.scaled(PROBE_GROWTH));
                let to = if found && !round.app_limited {
                    Self::Probe { step: (step + 1).min(PROBE_GAINS.len() - 1) }
                } else {
                    Self::CRUISE
                };
                Step::Go { to, raise: round.measured }
            }
            Self::Drain { since, rounds } => {
                let took = round.now - since;
                if rounds >= FUTILE_ROUNDS && took > round.base_rtt * FUTILE_ROUND_TRIPS {
                    Step::Rebase { to: Self::CRUISE }
                } else {
                    stay(Self::Drain { since, rounds: rounds + 1 })
                }
            }
        }
    }

    /// The pacing rate's multiple of the estimate.
    pub fn pacing_gain(self, queue: Duration, base_rtt: Duration) -> f64 {
        match self {
            Self::Startup { .. } => STARTUP_GAIN,
            Self::Cruise { .. } => CRUISE_GAIN,
            Self::Probe { step } => PROBE_GAINS[step.min(PROBE_GAINS.len() - 1)],
            Self::ProbeWait { .. } => 1.0,
            Self::Track => TRACKING_GAIN,
            Self::Drain { .. } => {
                let over = base_rtt.max(DRAIN_OVER).as_secs_f64();
                (1.0 - queue.as_secs_f64() / over).clamp(*DRAIN_GAINS.start(), *DRAIN_GAINS.end())
            }
        }
    }

    /// The time at the estimated rate that may be in flight beyond `hold`, which
    /// is that of an unqueued round trip and a feedback interval.
    pub fn slack(self, hold: Duration, queue_target: Duration, least: Duration) -> Duration {
        match self {
            Self::Startup { .. } => hold.max(least).mul_f64(STARTUP_SLACK),
            Self::Probe { .. } | Self::ProbeWait { .. } => queue_target * PROBE_TARGETS + hold,
            Self::Cruise { .. } => queue_target * CRUISE_TARGETS,
            Self::Track => TRACKING_QUEUE,
            Self::Drain { .. } => queue_target,
        }
    }
}

fn startup(best: Rate, flat_rounds: u32, round: &RoundEnd) -> Step {
    let measured = round.measured.unwrap_or(round.bandwidth);
    let raise = Some(measured);
    let go = |to| Step::Go { to, raise };
    // What is lost while more arrives from round to round isn't for want of room.
    let grows = measured > best.scaled(FULL_GROWTH);
    let overflow = match round.overflow {
        Overflow::None => false,
        Overflow::Likely => !grows,
        Overflow::Sure => true,
    };
    if round.ours || overflow {
        Step::Yield { over: round.length, raise }
    } else if round.app_limited {
        // Nothing learnt.
        go(Phase::Startup { best, flat_rounds })
    } else if grows {
        go(Phase::Startup { best: measured, flat_rounds: 0 })
    } else if flat_rounds + 1 >= FULL_ROUNDS {
        Step::Yield { over: round.length * FLAT_ROUNDS, raise }
    } else {
        go(Phase::Startup { best, flat_rounds: flat_rounds + 1 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUIET: RoundEnd = RoundEnd {
        now: Time::from_millis(1000),
        length: Duration::from_millis(20),
        base_rtt: Duration::from_millis(20),
        standing: false,
        ours: false,
        overflow: Overflow::None,
        app_limited: false,
        volatile: false,
        restless: false,
        bandwidth: Rate::from_mbit(10),
        measured: Some(Rate::from_mbit(10)),
        measured_over_two: Some(Rate::from_mbit(10)),
    };

    fn next(phase: Phase, round: &RoundEnd) -> Phase {
        match phase.on_round_end(round) {
            Step::Go { to, .. } | Step::Rebase { to } => to,
            Step::Yield { .. } => Phase::Drain { since: round.now, rounds: 0 },
        }
    }

    #[test]
    fn startup_ends_after_three_rounds_without_growth() {
        let grown = RoundEnd { measured: Some(Rate::from_mbit(20)), ..QUIET };
        let mut phase = next(Phase::START, &grown);
        for _ in 0..2 {
            phase = next(phase, &grown);
            assert!(matches!(phase, Phase::Startup { .. }), "{phase:?}");
        }
        assert!(matches!(next(phase, &grown), Phase::Drain { .. }));
    }

    #[test]
    fn a_sender_without_data_neither_ends_startup_nor_probes() {
        let limited = RoundEnd { app_limited: true, ..QUIET };
        let (mut startup, mut cruise) = (Phase::START, Phase::CRUISE);
        for _ in 0..20 {
            (startup, cruise) = (next(startup, &limited), next(cruise, &limited));
        }
        assert_eq!((startup, cruise), (Phase::START, Phase::CRUISE));
    }

    #[test]
    fn three_quiet_rounds_lead_to_a_probe_and_that_to_more_while_it_finds_some() {
        let mut phase = Phase::CRUISE;
        for _ in 0..3 {
            phase = next(phase, &QUIET);
        }
        assert_eq!(phase, Phase::Probe { step: 0 });
        phase = next(phase, &QUIET);
        assert_eq!(phase, Phase::ProbeWait { step: 0 });
        let found = RoundEnd { measured: Some(Rate::from_mbit(12)), ..QUIET };
        assert_eq!(next(phase, &found), Phase::Probe { step: 1 });
        assert_eq!(next(phase, &QUIET), Phase::CRUISE);
    }

    #[test]
    fn a_standing_queue_is_drained_from_every_phase_that_is_not_tracking() {
        let queue = RoundEnd { standing: true, ours: true, ..QUIET };
        for phase in
            [Phase::START, Phase::CRUISE, Phase::Probe { step: 2 }, Phase::ProbeWait { step: 0 }]
        {
            assert!(matches!(next(phase, &queue), Phase::Drain { .. }), "{phase:?}");
        }
        assert_eq!(next(Phase::Track, &RoundEnd { restless: true, ..queue }), Phase::Track);
    }

    #[test]
    fn a_drain_without_effect_shows_a_new_base() {
        let mut phase = Phase::Drain { since: Time::from_millis(900), rounds: 0 };
        let queue = RoundEnd { standing: true, ..QUIET };
        for _ in 0..3 {
            phase = next(phase, &queue);
        }
        assert_eq!(phase.on_round_end(&queue), Step::Rebase { to: Phase::CRUISE });
    }

    #[test]
    fn a_volatile_link_is_tracked_until_it_is_calm() {
        let volatile = RoundEnd { volatile: true, restless: true, ..QUIET };
        assert!(matches!(next(Phase::START, &volatile), Phase::Startup { .. }));
        assert_eq!(next(Phase::CRUISE, &volatile), Phase::Track);
        assert_eq!(next(Phase::Drain { since: QUIET.now, rounds: 0 }, &volatile), Phase::Track);
        assert_eq!(next(Phase::Track, &QUIET), Phase::CRUISE);
    }
}
