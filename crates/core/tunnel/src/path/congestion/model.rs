//! The delay-based model of a path: signals, estimate and phase together.

use super::controller::{AckSample, Controller};
use super::estimator::Estimator;
use super::phase::{Phase, RoundEnd, Step};
use super::round::Round;
use super::signals::Signals;
use crate::heuristics::Heuristics;
use braid_units::{Rate, Time};
use std::time::Duration;

/// The queue target, unless the link's nature asks for more (CoDel's, RFC 8289, section
/// 4.4). Of all flows pings wait for it, in each direction.
const TARGET: Duration = Duration::from_millis(5);
const TARGET_MAX: Duration = Duration::from_millis(150);
/// Startup has so much in flight beyond what a shorter round trip holds: as long as the
/// shortest round.
const STARTUP_LEAST: Duration = Duration::from_millis(10);
/// The target isn't below the time that so many datagrams take, one and a half: whole ones
/// can't be halved.
const SERIALISED: (u64, u64) = (3, 2);
/// A sudden queue was built by what was sent in so many times its length: it grew while
/// the reports of it were on their way.
const SUDDEN_OVER: u32 = 2;
/// Packets of one round differ by so many jitters at the most, by chance: twice the mean of
/// what is evenly spread.
const CHANCE_JITTERS: u32 = 2;
/// One part in this of the jitter may be in flight when a drain ends, and no more than that:
/// as much as doesn't make the queue longer than pings can bear: half of [`TARGET`].
const DRAINED_JITTER: u32 = 4;
const DRAINED_JITTER_MAX: Duration = Duration::from_micros(2500);
/// A queue of so many targets is yielded to at once, not at the round's end. Ours; not measured
/// apart.
const SUDDEN_TARGETS: u32 = 3;
/// A drain has come to its end at one part in this of the target. Ours; not measured apart.
const DRAINED: u32 = 3;
/// Queue innovation, beyond the time of a datagram, from which a link is
/// tracked (ours, by recorded 3G and LTE links; commit 7fc9a9ba, then 10 ms)...
const VOLATILE: Duration = Duration::from_millis(6);
/// ...until it's calmer than this.
const CALM: Duration = Duration::from_millis(3);
/// So many drains without effect on the delay show that it isn't a queue: one may have met a
/// queue of others (docs/design/006-heuristics.md, rebasing).
const FUTILE_DRAINS: u32 = 2;
/// A drain has had an effect when less than this part of the delay is left. Ours; not measured
/// apart.
const UNDRAINED: f64 = 0.7;
/// The window before anything is known (RFC 6928 has 10), and the least of all
/// (RFC 9002, section 7.2; BBR's `MinPipeCwnd` is 4), in datagrams. The first is more than
/// RFC 6928's since they are paced; not measured apart.
const INITIAL_WINDOW: u64 = 16;
const LEAST_WINDOW: u64 = 2;
/// What is sent in a round of startup, when there's no more to send, shows
/// nothing of the capacity below so many datagrams: as many as tell a rate
/// (`BUSY_DATAGRAMS` of the estimator).
const TRICKLE: u64 = 8;

/// The model of one path.
#[derive(Debug)]
pub struct DelayModel {
    phase: Phase,
    signals: Signals,
    estimator: Estimator,
    cap: Option<Rate>,
    /// The size of datagrams, bytes.
    datagram: u64,
    /// The queue when the drain began.
    drained_from: Duration,
    /// Drains in a row that left the delay as it was.
    futile_drains: u32,
    heuristics: Heuristics,
    beside_call: bool,
    limits: Limits,
}

/// What follows from the model, and is asked for with every datagram.
#[derive(Clone, Copy, Debug, Default)]
struct Limits {
    pacing_rate: Rate,
    window: u64,
}

impl DelayModel {
    /// A path of which nothing is known; `datagram` is its datagrams' size in
    /// bytes.
    pub fn new(datagram: u64, heuristics: Heuristics) -> Self {
        let estimator = Estimator::new();
        let mut new = Self {
            phase: Phase::START,
            signals: Signals::new(estimator.bandwidth(), heuristics),
            estimator,
            cap: None,
            datagram,
            drained_from: Duration::ZERO,
            futile_drains: 0,
            heuristics,
            beside_call: false,
            limits: Limits::default(),
        };
        new.limit();
        new
    }
}

impl Controller for DelayModel {
    fn on_ack(&mut self, ack: &AckSample) {
        self.signals.on_ack(ack);
        let queue = self.signals.queue_of(Some(ack.min_delay_us));
        if let Some((bytes, sent_within)) = self.estimator.on_ack(ack, queue) {
            self.signals.innovation.on_delivery(bytes, sent_within);
        }
        self.signals.round.on_ack(ack);
        match self.phase {
            Phase::Startup { .. } => self.estimator.rise(self.signals.base_rtt),
            Phase::Track => self.estimator.track(ack, &self.signals, self.queue_target()),
            _ => {}
        }
        self.react_to_queue(ack);
        if self.signals.round.ends_with(ack) {
            self.end_round(ack);
        }
        self.limit();
    }

    fn on_return(&mut self, now: Time) {
        self.estimator.on_return();
        self.signals.on_return();
        self.phase = Phase::START;
        self.start_round(self.signals.round.begin_again(now));
        self.limit();
    }

    fn on_path_moved(&mut self) {
        self.signals.on_path_moved();
    }

    fn on_idle(&mut self) {
        self.estimator.on_idle();
        self.signals.on_idle();
    }

    fn set_beside_call(&mut self, beside: bool) {
        self.beside_call = beside && self.heuristics.yields_to_calls;
    }

    fn set_cap(&mut self, cap: Option<Rate>) {
        self.cap = cap;
        self.limit();
    }

    fn set_datagram(&mut self, bytes: u64) {
        if self.datagram != bytes {
            self.datagram = bytes;
            self.limit();
        }
    }

    fn pacing_rate(&self) -> Rate {
        self.limits.pacing_rate
    }

    fn window(&self) -> u64 {
        self.limits.window
    }

    fn bandwidth(&self) -> Rate {
        let bandwidth = self.estimator.bandwidth();
        self.cap.map_or(bandwidth, |cap| bandwidth.min(cap))
    }

    fn queue(&self) -> Duration {
        self.signals.queue()
    }

    fn base_delay_us(&self) -> Option<i64> {
        self.signals.base_delay_us()
    }

    fn in_startup(&self) -> bool {
        matches!(self.phase, Phase::Startup { .. })
    }

    fn is_tracking(&self) -> bool {
        self.phase == Phase::Track
    }

    fn queue_innovation(&self) -> Duration {
        self.signals.innovation.mean()
    }
}

impl DelayModel {
    /// Between rounds: a queue that grew far beyond the target, or has drained.
    fn react_to_queue(&mut self, ack: &AckSample) {
        let queue = self.queue();
        match self.phase {
            Phase::Drain { .. } => {
                let drained = queue <= self.queue_target() / DRAINED;
                if drained || ack.in_flight <= self.pipe_holds(ack) {
                    self.end_drain(ack, queue);
                }
            }
            Phase::Track => {}
            Phase::Startup { .. } if self.trickles(ack) => {
                if self.heuristics.train_estimate
                    && self.signals.queue_is_sure()
                    && queue > self.queue_target() + self.signals.forward_span()
                {
                    let (span, slack) = (self.signals.base_rtt + queue, self.slack());
                    self.estimator.on_train(span, self.queue_target(), slack);
                }
            }
            _ => {
                let sudden =
                    self.queue_target() * SUDDEN_TARGETS + self.signals.jitter().max(self.spread());
                if self.signals.queue_is_sure() && queue > sudden && !self.jitters(queue) {
                    self.signals.innovation.on_sudden(queue);
                    self.drain(ack, queue * SUDDEN_OVER);
                }
            }
        }
    }

    /// In startup, on a path that is known to jitter: what arrived with the spacing it was sent
    /// with met no queue of ours. If a few late packets ended startup, the estimate could stay
    /// at the first guess for seconds.
    fn jitters(&self, queue: Duration) -> bool {
        let over = (queue * SUDDEN_OVER).max(self.signals.base_rtt);
        self.heuristics.startup_jitter
            && self.in_startup()
            && self.signals.forward_span() > self.queue_target()
            && self.estimator.kept_spacing(over, self.slack())
    }

    /// The queue has drained, or nothing of ours can be queued any more.
    fn end_drain(&mut self, ack: &AckSample, queue: Duration) {
        // If the delay stays though nothing of ours is queued, it has another
        // cause, such as a new route or satellite. Jitter that can't reorder packets
        // is one: the denser they are, the more of them wait behind a late one.
        let undrained = queue > self.drained_from.mul_f64(UNDRAINED);
        let allowed = if undrained { Duration::ZERO } else { self.signals.jitter() };
        let futile = self.signals.queue_is_sure() && queue > self.queue_target() + allowed;
        self.futile_drains = if futile { self.futile_drains + 1 } else { 0 };
        if self.futile_drains >= FUTILE_DRAINS && self.heuristics.rebasing {
            self.rebase(ack);
        }
        self.phase = Phase::CRUISE;
        self.signals.innovation.on_sudden(queue);
        self.start_round(Round::begin(ack.now, ack.delivered));
    }

    fn end_round(&mut self, ack: &AckSample) {
        let end = self.round_end(ack);
        match self.phase.on_round_end(&end) {
            Step::Go { to, raise } => {
                self.estimator.raise(raise.unwrap_or(Rate::ZERO));
                self.phase = to;
            }
            Step::Yield { over, raise } => {
                self.estimator.raise(raise.unwrap_or(Rate::ZERO));
                self.drain(ack, over);
            }
            Step::Rebase { to } => {
                if self.heuristics.rebasing {
                    self.rebase(ack);
                }
                self.phase = to;
            }
        }
        self.start_round(Round::begin(ack.now, ack.delivered));
    }

    fn round_end(&mut self, ack: &AckSample) -> RoundEnd {
        let queue = self.signals.on_round_end();
        let chance = self.signals.chance().max(self.spread());
        self.signals.innovation.on_round(queue, self.is_tracking());
        let (round, base_rtt) = (self.signals.round, self.signals.base_rtt);
        let usual_loss = match self.heuristics.usual_loss {
            true => self.signals.usual_loss.share(),
            false => 0.0,
        };
        let overflow = round.overflow(ack, self.datagram, usual_loss);
        self.signals.usual_loss.on_round(round.arrived(ack), round.lost(), self.datagram);
        let length = round.length(ack);
        let standing = queue > self.queue_target() + chance;
        let slack = self.slack();
        let ours =
            || !self.trickles(ack) && !self.estimator.kept_spacing(length.max(base_rtt), slack);
        RoundEnd {
            now: ack.now,
            length,
            base_rtt,
            standing,
            ours: standing && self.in_startup() && ours(),
            overflow,
            app_limited: round.app_limited(),
            volatile: self.heuristics.tracking && self.innovates_beyond(VOLATILE),
            restless: self.innovates_beyond(CALM),
            bandwidth: self.estimator.bandwidth(),
            measured: self.estimator.arrival_rate(length, base_rtt),
            measured_over_two: self.estimator.arrival_rate(length * 2, base_rtt),
        }
    }

    /// The link is busy: what arrived within `over` is what it can take. Sends
    /// less until the queue is gone.
    fn drain(&mut self, ack: &AckSample, over: Duration) {
        let over = over.max(self.signals.base_rtt);
        let (target, round) = (self.queue_target(), self.signals.round);
        self.estimator.on_busy(over, &self.signals, &round, target, self.datagram);
        self.drained_from = self.queue();
        self.phase = Phase::Drain { since: ack.now, rounds: 0 };
        self.start_round(Round::begin(ack.now, ack.delivered));
    }

    /// The delay as it is now is the path's own.
    fn rebase(&mut self, ack: &AckSample) {
        self.signals.rebase(ack);
        self.futile_drains = 0;
    }

    fn start_round(&mut self, round: Round) {
        self.signals.round = round;
        self.signals.innovation.start_round(self.estimator.bandwidth());
    }

    /// Works out what is asked for with every datagram; follows every change.
    fn limit(&mut self) {
        let gain = self.phase.pacing_gain(self.queue(), self.signals.base_rtt);
        let rate = self.estimator.scaled(gain);
        self.limits.pacing_rate = self.cap.map_or(rate, |cap| rate.min(cap));
        let hold = self.signals.unqueued_rtt() + self.spread() + self.signals.feedback;
        let slack = match self.phase {
            Phase::Track if self.beside_call => Duration::ZERO,
            phase => phase.slack(hold, self.queue_target(), STARTUP_LEAST),
        };
        let floor = if self.in_startup() { INITIAL_WINDOW } else { LEAST_WINDOW };
        let window = self.estimator.bandwidth().bytes_in(hold + slack);
        self.limits.window = window.max(floor * self.datagram);
    }

    /// The standing queue at which the sender yields.
    fn queue_target(&self) -> Duration {
        let serialisation =
            self.estimator.bandwidth().time_for(self.datagram * SERIALISED.0 / SERIALISED.1);
        (TARGET.max(serialisation.min(TARGET_MAX)) + self.queue_innovation()).min(TARGET_MAX)
    }

    /// The few packets of a beginning may all have met some jitter, and the last of them
    /// more than the first by so much.
    fn slack(&self) -> Duration {
        (self.signals.jitter() * CHANCE_JITTERS).max(self.signals.forward_span())
    }

    /// The span over which jitter spreads delays on the way there. Where the link's
    /// rate changes, that spreads them: there it's a queue.
    fn spread(&self) -> Duration {
        let changes = !self.in_startup() && self.innovates_beyond(CALM);
        if changes { Duration::ZERO } else { self.signals.forward_span() }
    }

    /// As BBR leaves its drain: when no more is in flight than the pipe holds
    /// (draft-ietf-ccwg-bbr, section 5.3.2). Without the jitter of both ways the
    /// link would idle after each drain.
    ///
    /// Since the newest packet that was told of left the link, as much has left it as the link
    /// takes in that time, however long the news took. A usual round trip instead counts what
    /// waits on the way back, where the peer's own data may queue, and drains would end while
    /// a queue stands.
    fn pipe_holds(&self, ack: &AckSample) -> u64 {
        let jitter = (self.signals.jitter() / DRAINED_JITTER).min(DRAINED_JITTER_MAX);
        let delay_us = ack.received_us.saturating_sub(ack.sent_at.as_micros() as i64);
        let met = self.signals.queue_of(Some(delay_us));
        let since = match self.heuristics.drains_by_way {
            true => (ack.now - ack.sent_at).saturating_sub(met),
            false => self.signals.unqueued_rtt(),
        };
        self.estimator.bandwidth().bytes_in(since + jitter)
    }

    /// Too little is sent for a queue: what delays the few packets is jitter.
    fn trickles(&self, ack: &AckSample) -> bool {
        let round = &self.signals.round;
        round.app_limited() && round.arrived(ack) + ack.in_flight < TRICKLE * self.datagram
    }

    fn innovates_beyond(&self, limit: Duration) -> bool {
        let datagram = self.estimator.bandwidth().time_for(self.datagram);
        self.queue_innovation() > limit + datagram
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE_DELAY_US: i64 = 150;

    /// Reports each millisecond of what arrived in it.
    struct Reports {
        model: DelayModel,
        now_us: i64,
        delivered: u64,
        /// Delivered after each millisecond.
        history: Vec<u64>,
    }

    impl Reports {
        fn new() -> Self {
            let model = DelayModel::new(1472, Heuristics::ALL);
            Self { model, now_us: 1_000_000, delivered: 0, history: Vec::new() }
        }

        /// `bytes` more arrived, each after `queue_us` in the link.
        fn tell(&mut self, bytes: u64, queue_us: i64) {
            let delay_us = BASE_DELAY_US + queue_us;
            self.now_us += 1000;
            self.delivered += bytes;
            self.history.push(self.delivered);
            let ago = 1 + delay_us as usize / 1000;
            let before = self.history.len().checked_sub(ago + 1);
            let time = |us: i64| Time::from_micros(u64::try_from(us).unwrap());
            self.model.on_ack(&AckSample {
                now: time(self.now_us + BASE_DELAY_US),
                delivered: self.delivered,
                delivered_before: before.map_or(0, |at| self.history[at]),
                received_us: self.now_us,
                sent_at: time(self.now_us - delay_us),
                app_limited: false,
                min_delay_us: delay_us,
                delay_above_min_us: 30 * 50,
                delay_samples: 30,
                forward_span: Duration::ZERO,
                back_us: Some(BASE_DELAY_US),
                lost: 0,
                loss_runs: 0,
                in_flight: bytes * (delay_us as u64 + 1000) / 1000,
                base_rtt: Duration::from_micros(300),
                feedback: Duration::from_millis(1),
            });
        }

        fn mbit(&self) -> u64 {
            self.model.bandwidth().bytes_per_sec() / 125_000
        }
    }

    #[test]
    fn bursts_that_a_shaper_lets_by_are_not_believed_for_ever() {
        const MS_OF_GIGABIT: u64 = 121_000;
        let mut reports = Reports::new();
        for _ in 0..8 {
            reports.tell(MS_OF_GIGABIT * 5 / 2, 0);
        }
        assert!(reports.mbit() > 2000, "{} Mbit/s of bursts", reports.mbit());
        // From now on it takes no more, and TCP sends hardly more than it takes.
        for ms in 0..1500 {
            reports.tell(MS_OF_GIGABIT, (ms * 10).min(7000));
        }
        assert!(reports.mbit() < 1200, "{} Mbit/s by a gigabit link", reports.mbit());
    }
}
