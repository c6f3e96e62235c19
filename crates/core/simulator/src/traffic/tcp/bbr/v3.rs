//! BBRv3 (draft-ietf-ccwg-bbr-02), in segments.

use super::extra_acked::ExtraAcked;
use super::full_pipe::FullPipe;
use super::window::{LEAST, PacedWindow, bandwidth_delay};
use crate::traffic::tcp::ack_info::AckInfo;
use crate::traffic::tcp::rate_sample::RateSample;
use braid_units::Time;
use std::time::Duration;

const STARTUP_GAIN: f64 = 2.77;
const DRAIN_GAIN: f64 = 0.5;
const CWND_GAIN: f64 = 2.0;
const UP_CWND_GAIN: f64 = 2.25;
const DOWN_GAIN: f64 = 0.9;
const UP_GAIN: f64 = 1.25;
const PACING_MARGIN: f64 = 0.99;
const STARTUP_LOSSES: u32 = 6;
const LOSS_THRESHOLD: f64 = 0.02;
const BETA: f64 = 0.7;
const HEADROOM: f64 = 0.15;
const MIN_RTT_WINDOW: Duration = Duration::from_secs(10);
const PROBE_RTT_EACH: Duration = Duration::from_secs(5);
const PROBE_RTT_TIME: Duration = Duration::from_millis(200);
const PROBE_RTT_GAIN: f64 = 0.5;
/// Rounds for which the most that came acknowledged at once counts, while it starts and
/// later (BBRUpdateACKAggregation, BBRExtraAckedFilterLen).
const STARTUP_EXTRA_ACKED_ROUNDS: u64 = 1;
const EXTRA_ACKED_ROUNDS: u64 = 10;
/// Segments of the first window, before which no round trip is known; and of the first
/// two, whose rate replaces the one that was assumed.
const FIRST_WINDOW: u64 = 10;
const FIRST_ROUNDS: u64 = 20;
/// Rounds between probes at the most, so that Reno beside it gets its share.
const RENO_ROUNDS: f64 = 63.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Startup,
    Drain,
    Down,
    Cruise,
    Refill,
    Up,
    ProbeRtt,
}

#[derive(Clone, Debug)]
pub(in crate::traffic::tcp) struct Bbr3 {
    state: State,
    /// Largest rates of this cycle and the one before.
    max_bw: [f64; 2],
    bw_lo: f64,
    inflight_lo: f64,
    inflight_hi: f64,
    bw_latest: f64,
    inflight_latest: f64,
    min_rtt: Duration,
    min_rtt_at: Time,
    probe_rtt_at: Time,
    probe_rtt_until: Option<Time>,
    probe_rtt_round: bool,
    rounds: u64,
    next_round: u64,
    round_start: bool,
    rounds_since_probe: u32,
    loss_round: u64,
    loss_round_start: bool,
    lost_in_round: bool,
    loss_events: u32,
    full_pipe: FullPipe,
    is_full: bool,
    window: PacedWindow,
    extra: ExtraAcked,
    cycle_at: Time,
    probe_wait: Duration,
    up_rounds: u32,
    up_acked: f64,
    rng: fastrand::Rng,
}

impl Bbr3 {
    pub fn new() -> Self {
        Self {
            state: State::Startup,
            max_bw: [0.0; 2],
            bw_lo: f64::INFINITY,
            inflight_lo: f64::INFINITY,
            inflight_hi: f64::INFINITY,
            bw_latest: 0.0,
            inflight_latest: 0.0,
            min_rtt: Duration::MAX,
            min_rtt_at: Time::ZERO,
            probe_rtt_at: Time::ZERO,
            probe_rtt_until: None,
            probe_rtt_round: false,
            rounds: 0,
            next_round: 0,
            round_start: false,
            rounds_since_probe: 0,
            loss_round: 0,
            loss_round_start: false,
            lost_in_round: false,
            loss_events: 0,
            full_pipe: FullPipe::default(),
            is_full: false,
            window: PacedWindow::new(STARTUP_GAIN),
            extra: ExtraAcked::default(),
            cycle_at: Time::ZERO,
            probe_wait: Duration::from_secs(2),
            up_rounds: 0,
            up_acked: 0.0,
            rng: fastrand::Rng::with_seed(7),
        }
    }

    pub fn window(&self) -> &PacedWindow {
        &self.window
    }

    pub fn on_recovery(&mut self, in_flight: usize) {
        self.window.on_recovery(in_flight);
    }

    pub fn on_recovered(&mut self) {
        self.window.on_recovered();
    }

    pub fn on_timeout(&mut self) {
        self.window.on_timeout();
    }

    pub fn on_ack(&mut self, ack: &AckInfo) {
        self.round_start = false;
        self.loss_round_start = false;
        if let Some(sample) = ack.sample {
            self.learn(&sample, ack);
        }
        self.count_extra(ack);
        self.check_startup(ack);
        self.update_cycle(ack);
        self.check_min_rtt(ack);
        if self.loss_round_start {
            // The next round's signals begin anew.
            self.bw_latest = ack.sample.and_then(|s| s.rate).unwrap_or(0.0);
            self.inflight_latest = ack.sample.map_or(0.0, |s| s.delivered as f64);
            self.lost_in_round = false;
            self.loss_events = 0;
        }
        self.set_rates(ack);
    }

    fn learn(&mut self, sample: &RateSample, ack: &AckInfo) {
        if sample.prior_delivered >= self.next_round {
            self.next_round = ack.delivered;
            self.round_start = true;
            self.rounds += 1;
            self.rounds_since_probe += 1;
            self.window.on_round();
        }
        if let Some(rate) = sample.rate {
            self.bw_latest = self.bw_latest.max(rate);
            self.max_bw[1] = self.max_bw[1].max(rate);
        }
        self.inflight_latest = self.inflight_latest.max(sample.delivered as f64);
        if ack.lost > 0 {
            self.lost_in_round = true;
            self.loss_events += 1;
        }
        if sample.prior_delivered >= self.loss_round {
            self.loss_round = ack.delivered;
            self.loss_round_start = true;
            if self.lost_in_round && !self.is_probing() {
                self.lower_bounds();
            }
        }
        self.check_inflight(sample, ack);
    }

    /// Short-term bounds, from losses while it isn't probing.
    fn lower_bounds(&mut self) {
        if self.bw_lo.is_infinite() {
            self.bw_lo = self.max();
        }
        if self.inflight_lo.is_infinite() {
            self.inflight_lo = self.window.segments;
        }
        self.bw_lo = self.bw_latest.max(BETA * self.bw_lo);
        self.inflight_lo = self.inflight_latest.max(BETA * self.inflight_lo);
    }

    fn is_probing(&self) -> bool {
        matches!(self.state, State::Startup | State::Refill | State::Up)
    }

    /// Too much loss with so much in flight bounds what may be.
    fn check_inflight(&mut self, sample: &RateSample, ack: &AckInfo) {
        let tx = sample.tx_in_flight as f64;
        let too_much = sample.lost as f64 > tx * LOSS_THRESHOLD && sample.lost > 0;
        match self.state {
            State::Up | State::Refill if too_much => {
                self.inflight_hi = tx.max(self.target_inflight() * BETA);
                if self.state == State::Up {
                    self.start_down(ack.now);
                }
            }
            State::Up => {
                if self.inflight_hi.is_finite() && self.window.segments >= self.inflight_hi {
                    self.up_acked += ack.newly_delivered as f64;
                    let steps = f64::from(1u32 << self.up_rounds.min(30));
                    let each = (self.window.segments / steps).max(1.0);
                    let steps = (self.up_acked / each).floor();
                    self.up_acked -= steps * each;
                    self.inflight_hi += steps;
                }
                if self.round_start {
                    self.up_rounds += 1;
                }
            }
            _ => {}
        }
    }

    fn count_extra(&mut self, ack: &AckInfo) {
        let rounds = if self.is_full { EXTRA_ACKED_ROUNDS } else { STARTUP_EXTRA_ACKED_ROUNDS };
        self.extra.on_ack(ack, self.bw(), self.window.segments, self.rounds, rounds);
    }

    fn check_startup(&mut self, ack: &AckInfo) {
        if !self.is_full && self.round_start {
            self.full_pipe.on_round(self.max());
            self.is_full = self.full_pipe.is_full();
        }
        let lossy = ack.sample.is_some_and(|s| {
            s.lost as f64 > s.tx_in_flight as f64 * LOSS_THRESHOLD
                && self.loss_events >= STARTUP_LOSSES
        });
        if self.state == State::Startup && !self.is_full && lossy && self.loss_round_start {
            self.is_full = true;
            self.inflight_hi = self.bdp(1.0).max(self.inflight_latest);
        }
        if self.state == State::Startup && self.is_full {
            self.state = State::Drain;
        }
        if self.state == State::Drain && ack.in_flight as f64 <= self.bdp(1.0) {
            self.start_down(ack.now);
        }
    }

    fn update_cycle(&mut self, ack: &AckInfo) {
        let in_flight = ack.in_flight as f64;
        let elapsed = ack.now - self.cycle_at;
        match self.state {
            State::Down | State::Cruise if self.probe_is_due(elapsed) => self.start_refill(),
            State::Down => {
                let headroom = self.inflight_hi * (1.0 - HEADROOM);
                if in_flight <= headroom && in_flight <= self.bdp(1.0) {
                    self.state = State::Cruise;
                }
            }
            State::Refill if self.round_start && self.rounds_since_probe > 0 => {
                self.state = State::Up;
                self.cycle_at = ack.now;
                (self.up_rounds, self.up_acked) = (0, 0.0);
                self.full_pipe.restart(self.max());
            }
            State::Up => {
                let filled = elapsed > self.min_rtt && in_flight >= self.bdp(UP_GAIN);
                if self.round_start {
                    self.full_pipe.on_round(self.max());
                }
                if filled || self.full_pipe.is_full() {
                    self.start_down(ack.now);
                }
            }
            _ => {}
        }
    }

    fn probe_is_due(&self, elapsed: Duration) -> bool {
        let reno = self.target_inflight().min(RENO_ROUNDS);
        elapsed >= self.probe_wait || f64::from(self.rounds_since_probe) >= reno.max(1.0)
    }

    fn start_down(&mut self, now: Time) {
        self.max_bw = [self.max_bw[1], 0.0];
        self.state = State::Down;
        self.cycle_at = now;
        self.rounds_since_probe = self.rng.u32(0..2);
        self.probe_wait = Duration::from_secs_f64(2.0 + self.rng.f64());
    }

    fn start_refill(&mut self) {
        (self.bw_lo, self.inflight_lo) = (f64::INFINITY, f64::INFINITY);
        self.state = State::Refill;
        self.rounds_since_probe = 0;
    }

    fn check_min_rtt(&mut self, ack: &AckInfo) {
        let due = ack.now - self.probe_rtt_at > PROBE_RTT_EACH;
        if let Some(rtt) = ack.rtt {
            if rtt <= self.min_rtt {
                self.probe_rtt_at = ack.now;
            }
            if rtt <= self.min_rtt || ack.now - self.min_rtt_at > MIN_RTT_WINDOW {
                (self.min_rtt, self.min_rtt_at) = (rtt, ack.now);
            }
        }
        if self.state == State::ProbeRtt {
            match self.probe_rtt_until {
                None if ack.in_flight as f64 <= self.probe_rtt_cwnd() => {
                    self.probe_rtt_until = Some(ack.now + PROBE_RTT_TIME);
                    self.probe_rtt_round = false;
                    self.next_round = ack.delivered;
                }
                None => {}
                Some(until) => {
                    self.probe_rtt_round |= self.round_start;
                    if self.probe_rtt_round && ack.now > until {
                        self.probe_rtt_at = ack.now;
                        self.window.restore();
                        (self.bw_lo, self.inflight_lo) = (f64::INFINITY, f64::INFINITY);
                        if self.is_full {
                            self.start_down(ack.now);
                            self.state = State::Cruise;
                        } else {
                            self.state = State::Startup;
                        }
                    }
                }
            }
        } else if due && ack.delivered > FIRST_WINDOW {
            self.state = State::ProbeRtt;
            self.window.save();
            self.probe_rtt_until = None;
        }
    }

    fn set_rates(&mut self, ack: &AckInfo) {
        let (gain, cwnd_gain) = match self.state {
            State::Startup => (STARTUP_GAIN, CWND_GAIN),
            State::Drain => (DRAIN_GAIN, CWND_GAIN),
            State::Down => (DOWN_GAIN, CWND_GAIN),
            State::Cruise | State::Refill => (1.0, CWND_GAIN),
            State::Up => (UP_GAIN, UP_CWND_GAIN),
            State::ProbeRtt => (1.0, PROBE_RTT_GAIN),
        };
        let rate = self.bw() * gain * PACING_MARGIN;
        self.window.pace(rate, self.is_full || ack.delivered <= FIRST_ROUNDS);
        self.window.grow(ack, self.bdp(cwnd_gain) + self.extra.get(), self.is_full);
        if self.state == State::ProbeRtt {
            self.window.segments = self.window.segments.min(self.probe_rtt_cwnd());
        }
        let bound = match self.state {
            State::Cruise | State::ProbeRtt => self.inflight_hi * (1.0 - HEADROOM),
            State::Down | State::Refill | State::Up | State::Drain => self.inflight_hi,
            State::Startup => f64::INFINITY,
        };
        let bound = bound.min(self.inflight_lo).max(LEAST);
        self.window.segments = self.window.segments.min(bound);
    }

    fn probe_rtt_cwnd(&self) -> f64 {
        self.bdp(PROBE_RTT_GAIN).max(LEAST)
    }

    fn target_inflight(&self) -> f64 {
        self.bdp(1.0).min(self.window.segments)
    }

    fn max(&self) -> f64 {
        self.max_bw[0].max(self.max_bw[1])
    }

    fn bw(&self) -> f64 {
        self.max().min(self.bw_lo)
    }

    fn bdp(&self, gain: f64) -> f64 {
        bandwidth_delay(self.bw(), self.min_rtt, gain)
    }
}
