//! BBR as in Linux 4.20 to 6.x (`net/ipv4/tcp_bbr.c`; Cardwell et al., ACM Queue
//! 2016), in segments; without the long-term sampling of policers.

use super::control::AckInfo;
use super::windowed_max::WindowedMax;
use braid_units::Time;
use std::time::Duration;

/// 2 / ln 2.
const HIGH_GAIN: f64 = 2.885;
const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
const CWND_GAIN: f64 = 2.0;
const BW_ROUNDS: u64 = 10;
const MIN_RTT_WINDOW: Duration = Duration::from_secs(10);
const PROBE_RTT_TIME: Duration = Duration::from_millis(200);
const PROBE_RTT_WINDOW: f64 = 4.0;
const FULL_GROWTH: f64 = 1.25;
const FULL_ROUNDS: u32 = 3;
/// Paced a little slower than estimated (`bbr_pacing_margin_percent`).
const PACING_MARGIN: f64 = 0.99;
const EXTRA_ACKED_ROUNDS: u64 = 10;
const EXTRA_ACKED_MOST: f64 = 0.1;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    Startup,
    Drain,
    ProbeBw { cycle: usize, since: Time },
    ProbeRtt { until: Option<Time>, round_done: bool },
}

#[derive(Debug)]
pub(super) struct Bbr {
    mode: Mode,
    bandwidth: WindowedMax,
    min_rtt: Duration,
    min_rtt_at: Time,
    rounds: u64,
    next_round: u64,
    round_start: bool,
    full_bw: f64,
    full_rounds: u32,
    cwnd: f64,
    prior_cwnd: f64,
    pacing: f64,
    conserves: bool,
    extra: WindowedMax,
    epoch: (Time, f64),
    rng: fastrand::Rng,
}

impl Bbr {
    pub fn new() -> Self {
        Self {
            mode: Mode::Startup,
            bandwidth: WindowedMax::default(),
            min_rtt: Duration::MAX,
            min_rtt_at: Time::ZERO,
            rounds: 0,
            next_round: 0,
            round_start: false,
            full_bw: 0.0,
            full_rounds: 0,
            cwnd: 10.0,
            prior_cwnd: 0.0,
            // Linux takes a millisecond for the round trip until it's known.
            pacing: HIGH_GAIN * 10.0 / 0.001,
            conserves: false,
            extra: WindowedMax::default(),
            epoch: (Time::ZERO, 0.0),
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
        self.full_bw = 0.0;
        self.cwnd = in_flight as f64 + 1.0;
    }

    pub fn on_ack(&mut self, ack: &AckInfo) {
        self.round_start = false;
        if let Some(sample) = &ack.sample {
            if sample.prior_delivered >= self.next_round {
                self.next_round = ack.delivered;
                self.rounds += 1;
                self.round_start = true;
                self.conserves = false;
            }
            if let Some(rate) = sample.rate {
                self.bandwidth.update(self.rounds, rate, BW_ROUNDS);
            }
        }
        self.count_extra(ack);
        self.advance_cycle(ack);
        self.check_full();
        self.check_drain(ack);
        self.check_min_rtt(ack);
        self.set_rates(ack);
    }

    fn bw(&self) -> f64 {
        self.bandwidth.get()
    }

    fn bdp(&self, gain: f64) -> f64 {
        if self.min_rtt == Duration::MAX {
            return 10.0;
        }
        self.bw() * self.min_rtt.as_secs_f64() * gain
    }

    fn is_full(&self) -> bool {
        self.full_rounds >= FULL_ROUNDS
    }

    fn count_extra(&mut self, ack: &AckInfo) {
        let newly = ack.newly_delivered as f64;
        let expected = self.bw() * (ack.now - self.epoch.0).as_secs_f64();
        if self.epoch.1 <= expected {
            self.epoch = (ack.now, 0.0);
        }
        self.epoch.1 += newly;
        let expected = self.bw() * (ack.now - self.epoch.0).as_secs_f64();
        let extra = (self.epoch.1 - expected).clamp(0.0, self.cwnd);
        self.extra.update(self.rounds, extra, EXTRA_ACKED_ROUNDS);
    }

    fn advance_cycle(&mut self, ack: &AckInfo) {
        let Mode::ProbeBw { cycle, since } = self.mode else { return };
        let full_length = ack.now - since > self.min_rtt;
        let in_flight = ack.in_flight as f64;
        let next = match CYCLE[cycle] {
            gain if gain > 1.0 => full_length && (ack.lost > 0 || in_flight >= self.bdp(gain)),
            gain if gain < 1.0 => full_length || in_flight <= self.bdp(1.0),
            _ => full_length,
        };
        if next {
            self.mode = Mode::ProbeBw { cycle: (cycle + 1) % CYCLE.len(), since: ack.now };
        }
    }

    fn check_full(&mut self) {
        if self.is_full() || !self.round_start {
            return;
        }
        if self.bw() >= self.full_bw * FULL_GROWTH {
            (self.full_bw, self.full_rounds) = (self.bw(), 0);
        } else {
            self.full_rounds += 1;
        }
    }

    fn check_drain(&mut self, ack: &AckInfo) {
        if self.mode == Mode::Startup && self.is_full() {
            self.mode = Mode::Drain;
        }
        if self.mode == Mode::Drain && ack.in_flight as f64 <= self.bdp(1.0) {
            self.probe_bw(ack.now);
        }
    }

    /// Any phase of the cycle but that of draining.
    fn probe_bw(&mut self, now: Time) {
        let cycle = (CYCLE.len() - self.rng.usize(0..CYCLE.len() - 1)) % CYCLE.len();
        let cycle = if cycle == 1 { 2 } else { cycle };
        self.mode = Mode::ProbeBw { cycle, since: now };
    }

    fn check_min_rtt(&mut self, ack: &AckInfo) {
        let expired = ack.now - self.min_rtt_at > MIN_RTT_WINDOW;
        if let Some(rtt) = ack.rtt.filter(|rtt| *rtt <= self.min_rtt || expired) {
            (self.min_rtt, self.min_rtt_at) = (rtt, ack.now);
        }
        match &mut self.mode {
            Mode::ProbeRtt { until: until @ None, .. }
                if ack.in_flight as f64 <= PROBE_RTT_WINDOW =>
            {
                *until = Some(ack.now + PROBE_RTT_TIME);
                self.next_round = ack.delivered;
            }
            Mode::ProbeRtt { until: None, .. } => {}
            Mode::ProbeRtt { until: Some(until), round_done } => {
                *round_done |= self.round_start;
                if *round_done && ack.now > *until {
                    self.min_rtt_at = ack.now;
                    self.cwnd = self.cwnd.max(self.prior_cwnd);
                    if self.is_full() {
                        self.probe_bw(ack.now);
                    } else {
                        self.mode = Mode::Startup;
                    }
                }
            }
            _ if expired && self.min_rtt != Duration::MAX && self.rounds > 0 => {
                self.prior_cwnd = self.cwnd;
                self.mode = Mode::ProbeRtt { until: None, round_done: false };
            }
            _ => {}
        }
    }

    fn set_rates(&mut self, ack: &AckInfo) {
        let (gain, cwnd_gain) = match self.mode {
            Mode::Startup => (HIGH_GAIN, HIGH_GAIN),
            Mode::Drain => (1.0 / HIGH_GAIN, HIGH_GAIN),
            Mode::ProbeBw { cycle, .. } => (CYCLE[cycle], CWND_GAIN),
            Mode::ProbeRtt { .. } => (1.0, 1.0),
        };
        let rate = self.bw() * gain * PACING_MARGIN;
        if rate > 0.0 && (self.is_full() || rate > self.pacing || self.rounds == 1) {
            self.pacing = rate;
        }
        let acked = ack.newly_delivered as f64;
        if ack.lost > 0 {
            self.cwnd = (self.cwnd - ack.lost as f64).max(1.0);
        }
        if self.conserves {
            self.cwnd = self.cwnd.max(ack.in_flight as f64 + acked);
        } else {
            let bursts = 3.0 * (self.pacing / 1000.0).clamp(2.0, 44.0);
            let extra = if self.is_full() {
                self.extra.get().min(self.bw() * EXTRA_ACKED_MOST)
            } else {
                0.0
            };
            let target = self.bdp(cwnd_gain) + extra + bursts;
            if self.is_full() {
                self.cwnd = (self.cwnd + acked).min(target);
            } else if self.cwnd < target || ack.delivered < 10 {
                self.cwnd += acked;
            }
        }
        self.cwnd = self.cwnd.max(4.0);
        if matches!(self.mode, Mode::ProbeRtt { .. }) {
            self.cwnd = self.cwnd.min(PROBE_RTT_WINDOW);
        }
    }
}
