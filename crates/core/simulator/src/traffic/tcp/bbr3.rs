//! BBRv3 (draft-ietf-ccwg-bbr-02), in segments.

use super::control::AckInfo;
use super::rate_sample::RateSample;
use braid_units::Time;
use std::time::Duration;

const STARTUP_GAIN: f64 = 2.77;
const DRAIN_GAIN: f64 = 0.5;
const CWND_GAIN: f64 = 2.0;
const UP_CWND_GAIN: f64 = 2.25;
const DOWN_GAIN: f64 = 0.9;
const UP_GAIN: f64 = 1.25;
const PACING_MARGIN: f64 = 0.99;
const FULL_GROWTH: f64 = 1.25;
const FULL_ROUNDS: u32 = 3;
const STARTUP_LOSSES: u32 = 6;
const LOSS_THRESHOLD: f64 = 0.02;
const BETA: f64 = 0.7;
const HEADROOM: f64 = 0.15;
const MIN_CWND: f64 = 4.0;
const MIN_RTT_WINDOW: Duration = Duration::from_secs(10);
const PROBE_RTT_EACH: Duration = Duration::from_secs(5);
const PROBE_RTT_TIME: Duration = Duration::from_millis(200);
const PROBE_RTT_GAIN: f64 = 0.5;
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

#[derive(Debug)]
pub(super) struct Bbr3 {
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
    next_round: u64,
    round_start: bool,
    rounds_since_probe: u32,
    loss_round: u64,
    loss_round_start: bool,
    lost_in_round: bool,
    loss_events: u32,
    full_bw: f64,
    full_rounds: u32,
    is_full: bool,
    cwnd: f64,
    prior_cwnd: f64,
    pacing: f64,
    conserves: bool,
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
            next_round: 0,
            round_start: false,
            rounds_since_probe: 0,
            loss_round: 0,
            loss_round_start: false,
            lost_in_round: false,
            loss_events: 0,
            full_bw: 0.0,
            full_rounds: 0,
            is_full: false,
            cwnd: 10.0,
            prior_cwnd: 0.0,
            pacing: STARTUP_GAIN * 10.0 / 0.001,
            conserves: false,
            cycle_at: Time::ZERO,
            probe_wait: Duration::from_secs(2),
            up_rounds: 0,
            up_acked: 0.0,
            rng: fastrand::Rng::with_seed(7),
        }
    }

    pub fn segments(&self) -> usize {
        self.cwnd as usize
    }

    /// Segments a second.
    pub fn pacing_rate(&self) -> f64 {
        self.pacing
    }

    pub fn on_recovery(&mut self, in_flight: usize) {
        self.prior_cwnd = self.prior_cwnd.max(self.cwnd);
        self.conserves = true;
        self.cwnd = (in_flight as f64 + 1.0).max(1.0);
    }

    pub fn on_recovered(&mut self) {
        self.conserves = false;
        self.cwnd = self.cwnd.max(self.prior_cwnd);
        self.prior_cwnd = 0.0;
    }

    pub fn on_timeout(&mut self, in_flight: usize) {
        self.prior_cwnd = self.prior_cwnd.max(self.cwnd);
        self.cwnd = in_flight as f64 + 1.0;
    }

    pub fn on_ack(&mut self, ack: &AckInfo) {
        self.round_start = false;
        self.loss_round_start = false;
        if let Some(sample) = ack.sample {
            self.learn(&sample, ack);
        }
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
            self.rounds_since_probe += 1;
            self.conserves = false;
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
            self.inflight_lo = self.cwnd;
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
                if self.inflight_hi.is_finite() && self.cwnd >= self.inflight_hi {
                    self.up_acked += ack.newly_delivered as f64;
                    let each = (self.cwnd / f64::from(1u32 << self.up_rounds.min(30))).max(1.0);
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

    fn check_startup(&mut self, ack: &AckInfo) {
        if !self.is_full && self.round_start {
            if self.max() >= self.full_bw * FULL_GROWTH {
                (self.full_bw, self.full_rounds) = (self.max(), 0);
            } else {
                self.full_rounds += 1;
                self.is_full = self.full_rounds >= FULL_ROUNDS;
            }
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
                (self.full_bw, self.full_rounds) = (self.max(), 0);
            }
            State::Up => {
                let filled = elapsed > self.min_rtt && in_flight >= self.bdp(UP_GAIN);
                if self.round_start {
                    if self.max() >= self.full_bw * FULL_GROWTH {
                        (self.full_bw, self.full_rounds) = (self.max(), 0);
                    } else {
                        self.full_rounds += 1;
                    }
                }
                if filled || self.full_rounds >= FULL_ROUNDS {
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
                        self.cwnd = self.cwnd.max(self.prior_cwnd);
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
        } else if due && ack.delivered > 10 {
            self.state = State::ProbeRtt;
            self.prior_cwnd = self.prior_cwnd.max(self.cwnd);
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
        if rate > 0.0 && (self.is_full || rate > self.pacing || ack.delivered <= 20) {
            self.pacing = rate;
        }
        let acked = ack.newly_delivered as f64;
        let bursts = 3.0 * (self.pacing / 1000.0).clamp(2.0, 44.0);
        let target = self.bdp(cwnd_gain) + bursts;
        if self.conserves {
            self.cwnd = self.cwnd.max(ack.in_flight as f64 + acked);
        } else if self.is_full {
            self.cwnd = (self.cwnd + acked).min(target);
        } else if self.cwnd < target || ack.delivered < 10 {
            self.cwnd += acked;
        }
        self.cwnd = self.cwnd.max(MIN_CWND);
        if self.state == State::ProbeRtt {
            self.cwnd = self.cwnd.min(self.probe_rtt_cwnd());
        }
        let bound = match self.state {
            State::Cruise | State::ProbeRtt => self.inflight_hi * (1.0 - HEADROOM),
            State::Down | State::Refill | State::Up | State::Drain => self.inflight_hi,
            State::Startup => f64::INFINITY,
        };
        self.cwnd = self.cwnd.min(bound.min(self.inflight_lo).max(MIN_CWND));
    }

    fn probe_rtt_cwnd(&self) -> f64 {
        self.bdp(PROBE_RTT_GAIN).max(MIN_CWND)
    }

    fn target_inflight(&self) -> f64 {
        self.bdp(1.0).min(self.cwnd)
    }

    fn max(&self) -> f64 {
        self.max_bw[0].max(self.max_bw[1])
    }

    fn bw(&self) -> f64 {
        self.max().min(self.bw_lo)
    }

    fn bdp(&self, gain: f64) -> f64 {
        if self.min_rtt == Duration::MAX {
            return 10.0;
        }
        self.bw() * self.min_rtt.as_secs_f64() * gain
    }
}
