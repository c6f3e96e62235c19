//! Capacity of a path: a model of its bottleneck, found and followed.
//!
//! As BBR (draft-ietf-ccwg-bbr) it paces by an estimate of the bottleneck's
//! rate and bounds what is in flight by the estimate's product with the base
//! delay. Unlike BBR it sees one-way delays (the peer's receive times), so it
//! needs no windowed maximum that overestimates a jittery link: while a
//! standing queue is seen the link is busy, and the rate at which packets
//! arrive *is* the capacity. So the estimate only rises while there is no
//! queue and is measured anew each time there is one; the queue between is the
//! *guard* (the delay that makes the sender yield, cf. Copa, NSDI 2018, and
//! LEDBAT, RFC 6817).
//!
//! Where the capacity changes within a few round trips (mobile links on the
//! move), an estimate is old when it's made. There the path *follows*: a short
//! queue is kept in the link, so that it can take more at once when it can take
//! more, and what arrives meanwhile is the estimate.

use super::deliveries::{Deliveries, Delivery};
use super::round::{Round, SHORTEST_ROUND};
use super::rtt::{BASE_WINDOW, WindowedMin};
use super::volatility::Volatility;
use super::way_back::WayBack;
use braid_units::{Rate, Time};
use std::collections::VecDeque;
use std::time::Duration;

/// BBR's startup pacing gain, 4 ln 2 (draft-ietf-ccwg-bbr, section 5.6.1).
const STARTUP_GAIN: f64 = 2.77;
/// A little more than the estimate, so that the bottleneck never idles and a
/// risen capacity shows.
const CRUISE_GAIN: f64 = 1.04;
/// Steps of the probing gain while each finds more.
const PROBE_GAINS: [f64; 3] = [1.25, 1.6, 2.0];
/// What is sent of the rate while a queue drains: less would let the bottleneck
/// idle, since its queue is seen a round trip late.
const DRAIN_GAINS: std::ops::RangeInclusive<f64> = 0.8..=0.92;
/// Rounds without a queue before more is tried.
const ROUNDS_BEFORE_PROBE: u32 = 3;
/// Startup ends when the rate grew less than this in three rounds (BBR).
const FULL_GROWTH: f64 = 1.25;
const FULL_ROUNDS: u32 = 3;
/// In startup so much may be in flight beyond what the pipe is known to hold, as
/// a multiple of that. BBR has one; here the estimate is a round trip old. With
/// two, a slow path queued more than the others could wait for.
const STARTUP_SLACK: f64 = 1.5;
/// The standing queue that is tolerated, unless the link's nature asks for
/// more.
const GUARD: Duration = Duration::from_millis(10);
const GUARD_MAX: Duration = Duration::from_millis(150);
/// A link whose queue, as each round finds it, changes by more than this (and
/// the time of a datagram) from round to round, and not by what was sent, is
/// followed...
const VOLATILE: Duration = Duration::from_millis(6);
/// ...until it's calmer than this.
const CALM: Duration = Duration::from_millis(3);
/// The queue that a followed link is given beyond what its round trip holds. On
/// recorded 3G and LTE links 40 ms carry as much as 80 or 120: what more is
/// sent waits in links that stand still, and is sent again by others. 25 ms
/// carry 2 % less.
const FOLLOWED_QUEUE: Duration = Duration::from_millis(40);
/// How soon an estimate is forgotten when less arrives: links that stood
/// still for some hundred milliseconds mostly go on as before.
const FOLLOWED_MEMORY: Duration = Duration::from_millis(400);
/// A followed link is governed by its window; pacing only spreads what
/// acknowledgements let go over the half of a round.
const FOLLOW_GAIN: f64 = 2.0;
/// A sender that sends less than this part of the known capacity hurries no link.
const UNHURRIED: f64 = 0.9;
/// On a short link without jitter, delays differ by less than this within a round,
/// what a changing queue adds included.
const STEADY: Duration = Duration::from_millis(3);
/// So many drains without effect on the delay show that it isn't a queue.
const FUTILE_DRAINS: u32 = 2;
/// A drain has had an effect when less than this part of the delay is left.
const UNDRAINED: f64 = 0.7;
/// Before anything is known.
const INITIAL_WINDOW_PACKETS: u64 = 16;
/// What is sent in a round of startup, when there's no more to send, shows
/// nothing of the capacity below this.
const TRICKLE_PACKETS: u64 = 8;
const INITIAL_RATE: Rate = Rate::from_bits_per_sec(1_500_000);
const MIN_RATE: Rate = Rate::from_bits_per_sec(24_000);

/// What an acknowledgement told of a path.
#[derive(Clone, Copy, Debug)]
pub struct AckSample {
    /// Now.
    pub now: Time,
    /// Bytes that the path has delivered, with this acknowledgement.
    pub delivered: u64,
    /// `delivered` when the newest acknowledged packet was sent.
    pub delivered_before: u64,
    /// Receive time of the newest acknowledged packet, peer's clock, unwrapped.
    pub received_us: i64,
    /// When the newest acknowledged packet was sent.
    pub sent_at: Time,
    /// The sender had less to send than allowed when that packet left.
    pub app_limited: bool,
    /// Least one-way delay among this acknowledgement's samples (any constant
    /// offset).
    pub min_delay_us: i64,
    /// Their sum above that least one.
    pub delay_above_min_us: i64,
    /// How many samples.
    pub delay_samples: u32,
    /// How long the acknowledgement took from the peer to us (the same offset,
    /// negative), if it was the first to tell of its newest packet.
    pub back_us: Option<i64>,
    /// Bytes newly taken for lost.
    pub lost: u64,
    /// Bytes still in flight.
    pub in_flight: u64,
    /// Least round-trip time lately.
    pub base_rtt: Duration,
    /// The feedback interval.
    pub feedback: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    /// Doubling each round.
    Startup { best: Rate, flat_rounds: u32 },
    /// Keeping the link busy.
    Cruise { quiet_rounds: u32 },
    /// Trying more for one round, then waiting for its acknowledgement.
    Probe { step: usize, rounds: u32 },
    /// The capacity changes all the time.
    Follow,
    /// Letting the queue drain.
    Drain { since: Time, rounds: u32 },
}

/// The model of one path.
#[derive(Debug)]
pub struct Congestion {
    phase: Phase,
    bandwidth: Rate,
    cap: Option<Rate>,
    datagram: u64,
    base_delay: WindowedMin,
    way_back: WayBack,
    /// What a round trip takes without a queue of ours, jitter on the way back
    /// included.
    loop_time: Duration,
    /// One entry an acknowledgement, oldest first.
    history: Deliveries,
    round: Round,
    volatility: Volatility,
    /// Mean of a round's delays above its least: jitter, since a queue of ours
    /// changes slowly.
    noise: Duration,
    recent: VecDeque<(Time, i64)>,
    /// The queue when the drain began.
    drained_from: Duration,
    /// Drains in a row that left the delay as it was.
    futile_drains: u32,
    base_rtt: Duration,
    feedback: Duration,
    /// Least rate that the window was held to when a drain didn't help.
    ignore_queue_until: Time,
    /// The last acknowledgement while the link was followed.
    followed_at: Time,
    advice: Advice,
}

/// What follows from the model, and is asked for with every datagram.
#[derive(Clone, Copy, Debug, Default)]
struct Advice {
    pacing_rate: Rate,
    window: u64,
    queue: Duration,
}

impl Congestion {
    /// A path of which nothing is known; `datagram` is its datagrams' size.
    pub fn new(datagram: u64) -> Self {
        let mut new = Self {
            phase: Phase::Startup { best: Rate::ZERO, flat_rounds: 0 },
            bandwidth: INITIAL_RATE,
            cap: None,
            datagram,
            base_delay: WindowedMin::new(BASE_WINDOW),
            way_back: WayBack::new(),
            loop_time: Duration::from_millis(100),
            history: Deliveries::default(),
            round: Round::begin(Time::ZERO, 0),
            volatility: Volatility::new(INITIAL_RATE),
            noise: Duration::ZERO,
            recent: VecDeque::new(),
            drained_from: Duration::ZERO,
            futile_drains: 0,
            base_rtt: Duration::from_millis(100),
            feedback: Duration::from_millis(20),
            ignore_queue_until: Time::ZERO,
            followed_at: Time::ZERO,
            advice: Advice::default(),
        };
        new.advise();
        new
    }

    /// The rate at which to send now.
    pub fn pacing_rate(&self) -> Rate {
        self.advice.pacing_rate
    }

    /// How many bytes may be in flight.
    pub fn window(&self) -> u64 {
        self.advice.window
    }

    /// To be called after every change.
    fn advise(&mut self) {
        self.advice.queue = self.queue_of(self.recent.iter().map(|r| r.1).min());
        self.advice.pacing_rate = self.rate_to_send();
        self.advice.window = self.bytes_to_hold();
    }

    fn rate_to_send(&self) -> Rate {
        let gain = match self.phase {
            Phase::Startup { .. } => STARTUP_GAIN,
            Phase::Cruise { .. } => CRUISE_GAIN,
            Phase::Probe { step, rounds: 0 } => PROBE_GAINS[step.min(PROBE_GAINS.len() - 1)],
            Phase::Probe { .. } => 1.0,
            Phase::Follow => FOLLOW_GAIN,
            Phase::Drain { .. } => self.drain_gain(),
        };
        let rate = self.bandwidth.scaled(gain).max(MIN_RATE);
        self.cap.map_or(rate, |cap| rate.min(cap))
    }

    fn bytes_to_hold(&self) -> u64 {
        let hold = self.loop_time + self.feedback;
        let slack = match self.phase {
            Phase::Startup { .. } => hold.max(GUARD).mul_f64(STARTUP_SLACK),
            Phase::Probe { .. } => self.guard() * 2 + hold,
            Phase::Cruise { .. } => self.guard() * 3,
            Phase::Follow => FOLLOWED_QUEUE,
            Phase::Drain { .. } => self.guard(),
        };
        let floor = match self.phase {
            Phase::Startup { .. } => INITIAL_WINDOW_PACKETS,
            _ => 4,
        };
        (self.bandwidth.bytes_in(hold + slack)).max(floor * self.datagram)
    }

    /// The capacity as far as known.
    pub fn bandwidth(&self) -> Rate {
        self.cap.map_or(self.bandwidth, |cap| self.bandwidth.min(cap))
    }

    /// Still looking for the capacity for the first time.
    pub fn in_startup(&self) -> bool {
        matches!(self.phase, Phase::Startup { .. })
    }

    /// Its capacity changes all the time.
    pub fn follows(&self) -> bool {
        self.phase == Phase::Follow
    }

    /// The base of the one-way delay (with the clocks' constant offset).
    pub fn base_delay_us(&self) -> Option<i64> {
        self.base_delay.get()
    }

    /// The queue that the last packets found.
    pub fn queue(&self) -> Duration {
        self.advice.queue
    }

    /// How unsteady the link is, as its queue shows it.
    pub fn wobble(&self) -> Duration {
        self.volatility.wobble()
    }

    /// Obey a limit given by the user.
    pub fn set_cap(&mut self, cap: Option<Rate>) {
        self.cap = cap;
        self.advise();
    }

    /// The path's datagrams have another size now.
    pub fn set_datagram(&mut self, bytes: u64) {
        if self.datagram != bytes {
            self.datagram = bytes;
            self.advise();
        }
    }

    /// The path is idle: forgets what says nothing of it any more.
    pub fn rest(&mut self) {
        self.history = Deliveries::default();
        self.recent.shrink_to_fit();
    }

    /// The path works again after an outage: start carefully from what it was.
    pub fn on_return(&mut self, now: Time) {
        self.bandwidth = self.bandwidth.scaled(0.5).max(MIN_RATE);
        self.phase = Phase::Startup { best: Rate::ZERO, flat_rounds: 0 };
        self.history.clear();
        self.recent.clear();
        self.start_round(self.round.begin_again(now));
        self.advise();
    }

    /// Takes an acknowledgement's news in.
    pub fn on_ack(&mut self, ack: &AckSample) {
        self.learn(ack);
        self.advise();
    }

    fn learn(&mut self, ack: &AckSample) {
        let now = ack.now;
        self.base_rtt = ack.base_rtt;
        self.feedback = ack.feedback;
        self.base_delay.update(ack.min_delay_us, now);
        if let Some(took_us) = ack.back_us {
            self.way_back.on_ack(took_us, now);
        }
        self.loop_time = ack.base_rtt + self.way_back.jitter();
        let queue = self.queue_of(Some(ack.min_delay_us));
        let delivery =
            Delivery { at_us: ack.received_us, sent_at: ack.sent_at, bytes: ack.delivered, queue };
        if let Some(before) = self.history.last() {
            let bytes = delivery.bytes.saturating_sub(before.bytes);
            self.volatility.on_delivery(bytes, delivery.sent_at - before.sent_at);
        }
        self.history.push(delivery);
        self.recent.push_back((now, ack.min_delay_us));
        let span = (self.feedback * 3).max(Duration::from_millis(2));
        while self.recent.front().is_some_and(|r| now - r.0 > span) {
            self.recent.pop_front();
        }
        self.advice.queue = self.queue_of(self.recent.iter().map(|r| r.1).min());
        self.round.on_ack(ack);

        if self.in_startup() {
            let rising = self.history.rising_rate(self.base_rtt / 2).unwrap_or(Rate::ZERO);
            self.bandwidth = self.bandwidth.max(rising);
        }
        if self.phase == Phase::Follow {
            self.follow(ack);
        }
        self.react_to_queue(ack);
        if self.round.ends_with(ack) {
            self.end_round(ack);
        }
    }

    /// The path leads by another network: how long feedback takes is to be seen.
    pub fn forget_the_way_back(&mut self) {
        self.way_back = WayBack::new();
    }

    /// Between rounds: a queue that grew far beyond the guard, or has drained.
    fn react_to_queue(&mut self, ack: &AckSample) {
        let queue = self.queue();
        let enough = self.recent.len() >= 2;
        match self.phase {
            Phase::Drain { .. }
                if queue <= self.guard() / 3 || ack.in_flight <= self.pipe_holds() =>
            {
                // Nothing of ours can be queued, yet the delay stays: it has
                // another cause, such as a new route or satellite.
                // Jitter that can't reorder packets is one: the denser they
                // are, the more of them wait behind a late one.
                let undrained = queue > self.drained_from.mul_f64(UNDRAINED);
                let allowed = if undrained { Duration::ZERO } else { self.noise };
                let futile = enough && queue > self.guard() + allowed;
                self.futile_drains = if futile { self.futile_drains + 1 } else { 0 };
                if self.futile_drains >= FUTILE_DRAINS {
                    self.rebase(ack);
                }
                self.phase = Phase::Cruise { quiet_rounds: 0 };
                self.volatility.on_sudden(queue);
                self.start_round(Round::begin(ack.now, ack.delivered));
            }
            Phase::Drain { .. } | Phase::Follow => {}
            Phase::Startup { .. } if self.trickles(ack) => {}
            _ if enough
                && queue > self.guard() * 3 + self.noise
                && ack.now >= self.ignore_queue_until =>
            {
                self.volatility.on_sudden(queue);
                self.yield_to_queue(ack, queue * 2);
            }
            _ => {}
        }
    }

    fn end_round(&mut self, ack: &AckSample) {
        let now = ack.now;
        let length = self.round.length(ack);
        let queue = self.queue_of(self.round.least_delay_us());
        if let Some(jitter) = self.round.jitter() {
            self.noise = (self.noise * 7 + jitter.min(GUARD_MAX)) / 8;
        }
        // The least of n samples of a jitter (uniform, of this mean) is about
        // 2 mean / (n + 1): three times that is no queue yet.
        let chance = self.noise * 6 / (self.round.delay_samples() + 1);
        self.volatility.on_round(queue, self.follows());
        let standing = queue > self.guard() + chance && now >= self.ignore_queue_until;
        let shallow = self.round.overflows(ack, self.datagram);
        let app_limited = self.round.app_limited();
        let measured = self.history.arrival_rate(length.max(self.base_rtt));

        if !self.in_startup() && self.wobbles_beyond(VOLATILE) {
            self.phase = Phase::Follow;
        }
        match self.phase {
            Phase::Follow if shallow => self.yield_to_queue(ack, length),
            Phase::Follow if self.wobbles_beyond(CALM) => {}
            Phase::Follow => self.phase = Phase::Cruise { quiet_rounds: 0 },
            Phase::Startup { best, flat_rounds } => {
                let measured = measured.unwrap_or(self.bandwidth);
                self.bandwidth = self.bandwidth.max(measured);
                // The few packets of a beginning may all have met some jitter, and
                // the last of them more than the first.
                let over = length.max(self.base_rtt);
                let queued = standing
                    && !self.trickles(ack)
                    && !self.history.came_as_sent(over, self.noise * 2);
                if queued || shallow {
                    self.yield_to_queue(ack, length);
                } else if app_limited {
                    // Nothing learnt.
                } else if measured > best.scaled(FULL_GROWTH) {
                    self.phase = Phase::Startup { best: measured, flat_rounds: 0 };
                } else if flat_rounds + 1 >= FULL_ROUNDS {
                    self.yield_to_queue(ack, length * 2);
                } else {
                    self.phase = Phase::Startup { best, flat_rounds: flat_rounds + 1 };
                }
            }
            Phase::Cruise { quiet_rounds } => {
                if standing || shallow {
                    self.yield_to_queue(ack, length * 3);
                } else {
                    self.grow(length * 2);
                    let quiet = if app_limited { quiet_rounds } else { quiet_rounds + 1 };
                    self.phase = if quiet >= ROUNDS_BEFORE_PROBE && !app_limited {
                        Phase::Probe { step: 0, rounds: 0 }
                    } else {
                        Phase::Cruise { quiet_rounds: quiet }
                    };
                }
            }
            // The probing round itself has been sent; its effect shows in the next.
            Phase::Probe { step, rounds: 0 } => {
                if standing || shallow {
                    self.yield_to_queue(ack, length);
                } else {
                    self.phase = Phase::Probe { step, rounds: 1 };
                }
            }
            Phase::Probe { step, .. } => {
                let before = self.bandwidth;
                if standing || shallow {
                    self.yield_to_queue(ack, length * 2);
                } else {
                    self.grow(length);
                    self.phase = if self.bandwidth > before.scaled(1.1) && !app_limited {
                        Phase::Probe { step: (step + 1).min(PROBE_GAINS.len() - 1), rounds: 0 }
                    } else {
                        Phase::Cruise { quiet_rounds: 0 }
                    };
                }
            }
            Phase::Drain { since, rounds } => {
                self.phase = Phase::Drain { since, rounds: rounds + 1 };
                if rounds >= 3 && now - since > self.base_rtt * 4 {
                    // The queue didn't drain although less was sent than the
                    // link takes: the delay has another cause (a new route).
                    self.rebase(ack);
                    self.phase = Phase::Cruise { quiet_rounds: 0 };
                }
            }
        }
        self.start_round(Round::begin(now, ack.delivered));
    }

    /// Too little is sent for a queue: what delays the few packets is jitter.
    fn trickles(&self, ack: &AckSample) -> bool {
        let sent = self.round.arrived(ack) + ack.in_flight;
        self.round.app_limited() && sent < TRICKLE_PACKETS * self.datagram
    }

    fn wobbles_beyond(&self, limit: Duration) -> bool {
        self.volatility.wobble() > limit + self.bandwidth.time_for(self.datagram)
    }

    /// The estimate is what arrived within the last round trip, or what remains
    /// of a higher one.
    fn follow(&mut self, ack: &AckSample) {
        let elapsed = ack.now - self.followed_at;
        self.followed_at = ack.now;
        let Some(arrived) = self.history.arrival_rate(self.base_rtt + self.feedback) else {
            return;
        };
        // What arrives of a trickle says nothing, unless it had to queue.
        let says = !ack.app_limited || self.queue() > self.guard();
        if arrived > self.bandwidth {
            self.bandwidth = arrived;
        } else if says {
            let kept = (-elapsed.as_secs_f64() / FOLLOWED_MEMORY.as_secs_f64()).exp();
            let mixed = self.bandwidth.scaled(kept).saturating_add(arrived.scaled(1.0 - kept));
            self.bandwidth = mixed.max(MIN_RATE);
        }
    }

    /// The delay as it is now is the path's own.
    fn rebase(&mut self, ack: &AckSample) {
        let delay = self.recent.iter().map(|r| r.1).min().unwrap_or(ack.min_delay_us);
        self.base_delay.restart(delay, ack.now);
        self.futile_drains = 0;
    }

    /// The link is busy: what arrives is what it can take.
    fn yield_to_queue(&mut self, ack: &AckSample, over: Duration) {
        let over = over.max(self.base_rtt);
        // What arrives of a trickle says nothing, unless it had to queue.
        let measured = self.busy_rate(over).or_else(|| {
            self.history
                .arrival_rate(over)
                .filter(|m| !self.round.app_limited() || *m > self.bandwidth)
        });
        // So is what came as it was sent, and less was sent than the link is known
        // to take: the delay was jitter. Where there is none, the link takes less
        // than was thought.
        let jittery = self.base_rtt >= SHORTEST_ROUND || self.noise > STEADY;
        let unhurried = jittery
            && self.history.came_as_sent(over, Duration::ZERO)
            && self
                .history
                .sent_rate(over)
                .is_some_and(|sent| sent < self.bandwidth.scaled(UNHURRIED));
        if let Some(measured) = measured.filter(|measured| !unhurried || *measured > self.bandwidth)
        {
            // One noisy measurement must not halve a good estimate twice.
            self.bandwidth = measured.max(self.bandwidth.scaled(0.3)).max(MIN_RATE);
        }
        self.drained_from = self.queue();
        self.phase = Phase::Drain { since: ack.now, rounds: 0 };
        self.start_round(Round::begin(ack.now, ack.delivered));
    }

    /// The rate of arrivals while there was a queue all the time, up to now and
    /// over at most `span`; `None` if that wasn't long enough to tell.
    fn busy_rate(&self, span: Duration) -> Option<Rate> {
        let (first, last) = self.history.busy(span, self.guard() / 2)?;
        let elapsed = first.arrived_before(&last)?;
        if elapsed < self.base_rtt / 3 || last.bytes - first.bytes < 8 * self.datagram {
            return None;
        }
        Rate::from_bytes_in(last.bytes - first.bytes, elapsed)
    }

    fn grow(&mut self, over: Duration) {
        if let Some(measured) = self.history.arrival_rate(over.max(self.base_rtt)) {
            self.bandwidth = self.bandwidth.max(measured);
        }
    }

    fn start_round(&mut self, round: Round) {
        self.round = round;
        self.volatility.start_round(self.bandwidth);
    }

    fn queue_of(&self, delay_us: Option<i64>) -> Duration {
        match (delay_us, self.base_delay.get()) {
            (Some(delay), Some(base)) => {
                Duration::from_micros(u64::try_from(delay - base).unwrap_or(0))
            }
            _ => Duration::ZERO,
        }
    }

    /// The standing queue above which the sender yields.
    pub fn guard(&self) -> Duration {
        let floor = GUARD.min((self.base_rtt / 2).max(GUARD / 2));
        let serialisation = self.bandwidth.time_for(self.datagram * 3 / 2);
        (floor.max(serialisation.min(GUARD_MAX)) + self.volatility.wobble()).min(GUARD_MAX)
    }

    /// As BBR leaves its drain: when no more is in flight than the pipe holds
    /// (draft-ietf-ccwg-bbr, section 5.3.2). Without the jitter of both ways the
    /// link would idle after each drain; of that on the way there a quarter is as
    /// much as doesn't make the queue longer than pings can bear.
    fn pipe_holds(&self) -> u64 {
        self.bandwidth.bytes_in(self.loop_time + self.noise.min(GUARD) / 4)
    }

    fn drain_gain(&self) -> f64 {
        let excess = self.queue().as_secs_f64();
        let over = self.base_rtt.max(Duration::from_millis(30)).as_secs_f64();
        (1.0 - excess / over).clamp(*DRAIN_GAINS.start(), *DRAIN_GAINS.end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE_DELAY_US: i64 = 150;

    /// Reports each millisecond of what arrived in it.
    struct Reports {
        congestion: Congestion,
        now_us: i64,
        delivered: u64,
        /// Delivered after each millisecond.
        history: Vec<u64>,
    }

    impl Reports {
        fn new() -> Self {
            let congestion = Congestion::new(1472);
            Self { congestion, now_us: 1_000_000, delivered: 0, history: Vec::new() }
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
            self.congestion.on_ack(&AckSample {
                now: time(self.now_us + BASE_DELAY_US),
                delivered: self.delivered,
                delivered_before: before.map_or(0, |at| self.history[at]),
                received_us: self.now_us,
                sent_at: time(self.now_us - delay_us),
                app_limited: false,
                min_delay_us: delay_us,
                delay_above_min_us: 30 * 50,
                delay_samples: 30,
                back_us: Some(BASE_DELAY_US),
                lost: 0,
                in_flight: bytes * (delay_us as u64 + 1000) / 1000,
                base_rtt: Duration::from_micros(300),
                feedback: Duration::from_millis(1),
            });
        }

        fn mbit(&self) -> u64 {
            self.congestion.bandwidth().bytes_per_sec() / 125_000
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
