//! BBR as in Linux 4.20 to 6.x (`net/ipv4/tcp_bbr.c`; Cardwell et al., ACM Queue
//! 2016), in segments; without the long-term sampling of policers.

use super::extra_acked::ExtraAcked;
use super::full_pipe::FullPipe;
use super::window::{LEAST, PacedWindow, bandwidth_delay};
use crate::traffic::tcp::ack_info::AckInfo;
use crate::traffic::tcp::windowed_max::WindowedMax;
use braid_units::Time;
use std::time::Duration;

/// 2 / ln 2.
const HIGH_GAIN: f64 = 2.885;
const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
const CWND_GAIN: f64 = 2.0;
const BW_ROUNDS: u64 = 10;
const MIN_RTT_WINDOW: Duration = Duration::from_secs(10);
const PROBE_RTT_TIME: Duration = Duration::from_millis(200);
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

#[derive(Clone, Debug)]
pub(in crate::traffic::tcp) struct Bbr {
    mode: Mode,
    bandwidth: WindowedMax,
    min_rtt: Duration,
    min_rtt_at: Time,
    rounds: u64,
    next_round: u64,
    round_start: bool,
    full_pipe: FullPipe,
    window: PacedWindow,
    extra: ExtraAcked,
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
            full_pipe: FullPipe::default(),
            window: PacedWindow::new(HIGH_GAIN),
            extra: ExtraAcked::default(),
            rng: fastrand::Rng::with_seed(7),
        }
    }

    pub fn window(&self) -> &PacedWindow {
        &self.window
    }

    pub fn probes_round_trip(&self) -> bool {
        matches!(self.mode, Mode::ProbeRtt { .. })
    }

    pub fn on_recovery(&mut self, in_flight: usize) {
        self.window.on_recovery(in_flight);
    }

    pub fn on_recovered(&mut self) {
        self.window.on_recovered();
    }

    pub fn on_timeout(&mut self) {
        self.full_pipe.forget_bandwidth();
        self.window.on_timeout();
    }

    pub fn on_ack(&mut self, ack: &AckInfo) {
        self.round_start = false;
        if let Some(sample) = &ack.sample {
            if sample.prior_delivered >= self.next_round {
                self.next_round = ack.delivered;
                self.rounds += 1;
                self.round_start = true;
                self.window.on_round();
            }
            if let Some(rate) = sample.rate
                && (!sample.limited || rate >= self.bw())
            {
                self.bandwidth.update(self.rounds, rate, BW_ROUNDS);
            }
        }
        let segments = self.window.segments;
        self.extra.on_ack(ack, self.bw(), segments, self.rounds, EXTRA_ACKED_ROUNDS);
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
        bandwidth_delay(self.bw(), self.min_rtt, gain)
    }

    fn is_full(&self) -> bool {
        self.full_pipe.is_full()
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
        self.full_pipe.on_round(self.bw());
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
            Mode::ProbeRtt { until: until @ None, .. } if ack.in_flight as f64 <= LEAST => {
                *until = Some(ack.now + PROBE_RTT_TIME);
                self.next_round = ack.delivered;
            }
            Mode::ProbeRtt { until: None, .. } => {}
            Mode::ProbeRtt { until: Some(until), round_done } => {
                *round_done |= self.round_start;
                if *round_done && ack.now > *until {
                    self.min_rtt_at = ack.now;
                    self.window.restore();
                    if self.is_full() {
                        self.probe_bw(ack.now);
                    } else {
                        self.mode = Mode::Startup;
                    }
                }
            }
            _ if expired && self.min_rtt != Duration::MAX && self.rounds > 0 => {
                self.window.save_anew();
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
        self.window.pace(rate, self.is_full() || self.rounds == 1);
        self.window.shrink(ack.lost);
        let extra = match self.is_full() {
            true => self.extra.get().min(self.bw() * EXTRA_ACKED_MOST),
            false => 0.0,
        };
        let in_flight = self.bdp(cwnd_gain) + extra;
        self.window.grow(ack, in_flight, self.is_full());
        if matches!(self.mode, Mode::ProbeRtt { .. }) {
            self.window.segments = self.window.segments.min(LEAST);
        }
    }
}
