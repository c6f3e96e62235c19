//! What acknowledgements say of a path: its delay without a queue, the queue
//! now, jitter each way, rounds.

use super::controller::AckSample;
use super::innovation::QueueInnovation;
use super::reverse_jitter::ReverseJitter;
use super::round::Round;
use super::usual_loss::UsualLoss;
use crate::heuristics::Heuristics;
use crate::path::rtt::{BASE_WINDOW, WindowedMin};
use braid_units::{Rate, Time};
use std::collections::VecDeque;
use std::time::Duration;

/// Before the first acknowledgement: guesses, gone with it.
const INITIAL_RTT: Duration = Duration::from_millis(100);
const INITIAL_FEEDBACK: Duration = Duration::from_millis(20);
/// The queue now is the least of the reports of so many feedback intervals,
/// and at least of [`RECENT_LEAST`]: one report may have only packets that
/// jitter held up. Ours; not measured apart.
const RECENT_INTERVALS: u32 = 3;
const RECENT_LEAST: Duration = Duration::from_millis(2);
/// Rounds over which jitter is averaged, exponentially, as RFC 9002 does with the round trip
/// (section 5.3).
const JITTER_MEAN: u32 = 8;
/// More than this isn't taken for jitter of one round: the longest queue target.
const JITTER_MAX: Duration = Duration::from_millis(150);
/// The least of n uniform samples of mean m is about 2 m / (n + 1); three times
/// that is still no queue. Ours.
const CHANCE: u32 = 6;

/// Signals of one path.
#[derive(Debug)]
pub struct Signals {
    pub base_rtt: Duration,
    /// The feedback interval.
    pub feedback: Duration,
    /// The round under way.
    pub round: Round,
    pub innovation: QueueInnovation,
    pub usual_loss: UsualLoss,
    heuristics: Heuristics,
    base_delay: WindowedMin,
    reverse_jitter: ReverseJitter,
    forward_span: Duration,
    unqueued_rtt: Duration,
    /// Mean of a round's delays above its least, over some rounds: jitter, since
    /// a queue of ours changes slowly.
    jitter: Duration,
    /// Least delays of the last reports.
    recent: VecDeque<(Time, i64)>,
    queue: Duration,
}

impl Signals {
    /// Of a path of which nothing is known but a guess of its rate.
    pub fn new(guess: Rate, heuristics: Heuristics) -> Self {
        Self {
            base_rtt: INITIAL_RTT,
            feedback: INITIAL_FEEDBACK,
            round: Round::begin(Time::ZERO, 0),
            innovation: QueueInnovation::new(guess),
            usual_loss: UsualLoss::default(),
            heuristics,
            base_delay: WindowedMin::new(BASE_WINDOW),
            reverse_jitter: ReverseJitter::new(),
            forward_span: Duration::ZERO,
            unqueued_rtt: INITIAL_RTT,
            jitter: Duration::ZERO,
            recent: VecDeque::new(),
            queue: Duration::ZERO,
        }
    }

    /// Takes an acknowledgement's delays in; [`Self::round`] isn't told yet.
    pub fn on_ack(&mut self, ack: &AckSample) {
        if self.heuristics.forward_jitter {
            self.forward_span = ack.forward_span;
        }
        self.base_rtt = ack.base_rtt;
        self.feedback = ack.feedback;
        self.base_delay.update(ack.min_delay_us, ack.now);
        if let Some(took_us) = ack.back_us.filter(|_| self.heuristics.reverse_jitter) {
            self.reverse_jitter.on_ack(took_us, ack.now);
        }
        self.unqueued_rtt = ack.base_rtt + self.reverse_jitter.jitter();
        self.recent.push_back((ack.now, ack.min_delay_us));
        let span = (self.feedback * RECENT_INTERVALS).max(RECENT_LEAST);
        while self.recent.front().is_some_and(|(at, _)| ack.now - *at > span) {
            self.recent.pop_front();
        }
        self.queue = self.queue_of(self.least_recent_us());
    }

    /// A round has ended: its jitter joins the mean. Returns its least queue.
    pub fn on_round_end(&mut self) -> Duration {
        if let Some(jitter) = self.round.jitter() {
            self.jitter = (self.jitter * (JITTER_MEAN - 1) + jitter.min(JITTER_MAX)) / JITTER_MEAN;
        }
        self.queue_of(self.round.least_delay_us())
    }

    /// What jitter alone may show as the least queue of the round.
    pub fn chance(&self) -> Duration {
        self.jitter * CHANCE / (self.round.delay_samples() + 1)
    }

    /// The queueing delay that the last packets met.
    pub fn queue(&self) -> Duration {
        self.queue
    }

    /// The queue that a packet of this one-way delay met.
    pub fn queue_of(&self, delay_us: Option<i64>) -> Duration {
        match (delay_us, self.base_delay.get()) {
            (Some(delay), Some(base)) => {
                Duration::from_micros(u64::try_from(delay - base).unwrap_or(0))
            }
            _ => Duration::ZERO,
        }
    }

    /// More than one report tells of the queue.
    pub fn queue_is_sure(&self) -> bool {
        self.recent.len() >= 2
    }

    /// The least one-way delay of late, microseconds.
    pub fn base_delay_us(&self) -> Option<i64> {
        self.base_delay.get()
    }

    /// Jitter on the way there.
    pub fn jitter(&self) -> Duration {
        self.jitter
    }

    /// The span over which the way there spreads delays by chance.
    pub fn forward_span(&self) -> Duration {
        self.forward_span
    }

    /// A round trip without a queue of ours, jitter on the way back included.
    pub fn unqueued_rtt(&self) -> Duration {
        self.unqueued_rtt
    }

    /// The delay as it is now is the path's own, not a queue.
    pub fn rebase(&mut self, ack: &AckSample) {
        let delay = self.least_recent_us().unwrap_or(ack.min_delay_us);
        self.base_delay.restart(delay, ack.now);
        self.queue = self.queue_of(self.least_recent_us());
    }

    /// The path leads over another network.
    pub fn on_path_moved(&mut self) {
        self.reverse_jitter = ReverseJitter::new();
    }

    /// Packets after an outage say nothing of the queue before it.
    pub fn on_return(&mut self) {
        self.recent.clear();
        self.queue = Duration::ZERO;
    }

    /// Frees memory.
    pub fn on_idle(&mut self) {
        self.recent.shrink_to_fit();
    }

    fn least_recent_us(&self) -> Option<i64> {
        self.recent.iter().map(|(_, delay)| *delay).min()
    }
}
