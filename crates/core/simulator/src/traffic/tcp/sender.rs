use super::ack_info::AckInfo;
use super::control::Control;
use super::rate_sample::{DeliveryRate, SendState};
use super::receiver::Acknowledgement;
use super::window::Congestion;
use crate::traffic::Measured;
use braid_units::Time;
use std::collections::VecDeque;
use std::time::Duration;

/// RFC 6298 asks for a second; kernels take less.
const RTO_MIN: Duration = Duration::from_millis(200);
const RTO_MAX: Duration = Duration::from_secs(120);
const RTO_INITIAL: Duration = Duration::from_secs(1);
/// QUIC's probe timeout has these instead (RFC 9002, sections 6.1.2 and 18.2 of RFC 9000:
/// granularity and `max_ack_delay`).
const GRANULARITY: Duration = Duration::from_millis(1);
const MAX_ACK_DELAY: Duration = Duration::from_millis(25);
/// Packets in a probe (RFC 9002, section 6.2.4), and the probe that nothing has answered
/// from which on congestion is persistent (section 7.6.1).
const PROBES: usize = 2;
const PERSISTENT: u32 = 3;
/// Segments acknowledged above one that is lost (RFC 6675).
const DUP_THRESHOLD: u32 = 3;
/// Largest super-packet in segments (64 KB).
const BURST: usize = 44;
/// Receive window in segments: about 3 MB.
const RECEIVE_WINDOW: usize = 2100;

/// The sending end.
#[derive(Debug)]
pub(super) struct Sender {
    control: Control,
    /// Reordering is learnt from, as RACK does, and a timeout takes all for lost; else
    /// three packets show a loss, and timeouts probe.
    adapts: bool,
    rate: DeliveryRate,
    least_rtt: Duration,
    /// Pacing lets nothing go before.
    paced_until: Time,
    /// The first segment that isn't acknowledged.
    first: u32,
    board: VecDeque<Segment>,
    in_flight: usize,
    lost: usize,
    recover: Option<u32>,
    srtt: Option<Duration>,
    variation: Duration,
    backoff: u32,
    rto_at: Option<Time>,
    /// What is made good was lost by a timeout.
    timed_out: bool,
    /// Before the timeout that the next acknowledgement may show to be spurious.
    undo: Option<Undo>,
    rack_sent: Time,
}

/// What a timeout took away, until what answers what it sent again has come.
#[derive(Debug)]
struct Undo {
    control: Control,
    timed_out_at: Time,
}

#[derive(Clone, Copy, Debug)]
struct Segment {
    sent_at: Time,
    state: State,
    resent: bool,
    state_then: SendState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    InFlight,
    Sacked,
    Lost,
}

impl Sender {
    pub fn new(congestion: Congestion) -> Self {
        Self {
            control: Control::new(congestion),
            adapts: congestion != Congestion::Quic,
            rate: DeliveryRate::default(),
            least_rtt: Duration::MAX,
            paced_until: Time::ZERO,
            first: 0,
            board: VecDeque::new(),
            in_flight: 0,
            lost: 0,
            recover: None,
            srtt: None,
            variation: Duration::ZERO,
            backoff: 0,
            rto_at: None,
            timed_out: false,
            undo: None,
            rack_sent: Time::ZERO,
        }
    }

    /// When there's something to do; new data only before `stop`.
    pub fn next_deadline(&self, now: Time, stop: Time) -> Option<Time> {
        if self.may_send() && (self.lost > 0 || now < stop) {
            let paced = self.paced_until.max(now);
            return Some(self.rto_at.map_or(paced, |at| at.min(paced)));
        }
        self.rto_at
    }

    /// The next segments to send, as `(first, how many)`.
    pub fn next_burst(
        &mut self,
        now: Time,
        stopped: bool,
        m: &mut Measured,
    ) -> Option<(u32, usize)> {
        if !self.may_send() || now < self.paced_until {
            return None;
        }
        let room = self.control.segments().saturating_sub(self.in_flight).max(1);
        let most = room.min(self.burst());
        let (start, count) = if self.lost > 0 {
            let start = self.board.iter().position(|s| s.state == State::Lost)?;
            let run = self.board.iter().skip(start).take_while(|s| s.state == State::Lost).count();
            for segment in self.board.iter_mut().skip(start).take(run.min(most)) {
                segment.resent = true;
            }
            m.retransmissions += run.min(most) as u64;
            (start, run.min(most))
        } else {
            if stopped {
                return None;
            }
            let room = RECEIVE_WINDOW.saturating_sub(self.board.len());
            let start = self.board.len();
            let fresh = Segment {
                sent_at: now,
                state: State::Lost,
                resent: false,
                state_then: SendState::default(),
            };
            self.board.extend(std::iter::repeat_n(fresh, most.min(room)));
            self.lost += most.min(room);
            (start, most.min(room))
        };
        for (sent, segment) in self.board.iter_mut().skip(start).take(count).enumerate() {
            segment.sent_at = now;
            segment.state = State::InFlight;
            segment.state_then = self.rate.on_sent(self.in_flight + sent, now);
        }
        self.lost -= count;
        self.in_flight += count;
        self.control.on_sent(count);
        if let Some(rate) = self.control.pacing_rate() {
            let from = self.paced_until.max(now);
            self.paced_until = from + Duration::from_secs_f64(count as f64 / rate.max(1.0));
        }
        if self.rto_at.is_none() {
            self.rto_at = Some(now + self.rto());
        }
        (count > 0).then_some((self.first + start as u32, count))
    }

    pub fn on_ack(&mut self, ack: &Acknowledgement, now: Time, m: &mut Measured) {
        let (before, delivered_before) = (self.first, self.rate.delivered());
        let mut newest: Option<Segment> = None;
        while self.first < ack.next {
            let Some(segment) = self.board.pop_front() else { break };
            self.first += 1;
            self.leave(segment.state);
            if segment.state != State::Sacked {
                newest = newer(newest, segment);
                self.rate.on_delivered(segment.state_then, now);
            }
        }
        for &(low, high) in &ack.ranges {
            for place in low.max(self.first)..high {
                let index = (place - self.first) as usize;
                let Some(&segment) = self.board.get(index) else { break };
                if segment.state != State::Sacked {
                    newest = newer(newest, segment);
                    self.rate.on_delivered(segment.state_then, now);
                    self.leave(segment.state);
                    self.board[index].state = State::Sacked;
                }
            }
        }
        let acked = self.first - before;
        if acked > 0 {
            self.judge_timeout(ack.echo);
        }
        let mut rtt = None;
        if let Some(segment) = newest {
            self.rack_sent = self.rack_sent.max(segment.sent_at);
            if !segment.resent {
                rtt = Some(now - segment.sent_at);
                self.least_rtt = self.least_rtt.min(now - segment.sent_at);
                self.on_rtt(now - segment.sent_at);
            } else if acked > 0 {
                // Which of the two is answered only the timestamp says (RFC 7323).
                self.on_rtt(now - ack.echo);
            }
        }
        if acked > 0 {
            self.backoff = 0;
            self.rto_at = (!self.board.is_empty()).then(|| now + self.rto());
        }
        if self.recover.is_some_and(|r| self.first >= r) {
            self.recover = None;
            self.timed_out = false;
            self.control.on_recovered();
        }
        let lost = self.detect_losses();
        self.rate.on_lost(lost);
        if lost > 0 && self.recover.is_none() {
            self.recover = Some(self.first + self.board.len() as u32);
            self.control.on_recovery(self.in_flight);
            m.cuts += 1;
        }
        self.control.on_ack(&AckInfo {
            now,
            acked,
            newly_delivered: self.rate.delivered() - delivered_before,
            delivered: self.rate.delivered(),
            rtt,
            srtt: self.srtt.unwrap_or_default(),
            lost,
            in_flight: self.in_flight,
            sample: self.rate.sample(self.least_rtt),
            // After a timeout it begins with slow start (RFC 5681, section 3.1).
            recovering: self.recover.is_some() && !self.timed_out,
        });
        if self.control.probes_round_trip() {
            self.rate.limit(self.in_flight);
        }
        m.window = self.control.segments();
    }

    pub fn on_timer(&mut self, now: Time, m: &mut Measured) {
        if self.rto_at.is_none_or(|at| at > now) {
            return;
        }
        if self.board.is_empty() {
            self.rto_at = None;
            return;
        }
        m.timeouts += 1;
        self.backoff = (self.backoff + 1).min(10);
        self.rto_at = Some(now + self.rto());
        if !self.adapts && self.backoff < PERSISTENT {
            self.probe();
            return;
        }
        if self.adapts && !self.timed_out {
            self.undo = Some(Undo { control: self.control.clone(), timed_out_at: now });
        }
        self.control.on_timeout(self.in_flight);
        for segment in &mut self.board {
            if segment.state == State::InFlight {
                segment.state = State::Lost;
                self.in_flight -= 1;
                self.lost += 1;
            }
        }
        self.recover = Some(self.first + self.board.len() as u32);
        self.timed_out = true;
    }

    /// The first that are on their way go again.
    fn probe(&mut self) {
        let waiting = self.board.iter_mut().filter(|segment| segment.state == State::InFlight);
        for segment in waiting.take(PROBES) {
            segment.state = State::Lost;
            self.in_flight -= 1;
            self.lost += 1;
        }
    }

    /// What is acknowledged first after a timeout was sent before it: nothing was lost
    /// (Eifel, RFC 3522 and 4015, as Linux does with timestamps).
    fn judge_timeout(&mut self, echo: Time) {
        let Some(Undo { control, timed_out_at }) = self.undo.take() else { return };
        if echo.as_millis() >= timed_out_at.as_millis() {
            return;
        }
        self.control = control;
        self.control.on_recovered();
        (self.recover, self.timed_out) = (None, false);
        for segment in self.board.iter_mut().filter(|segment| segment.state == State::Lost) {
            segment.state = State::InFlight;
            self.lost -= 1;
            self.in_flight += 1;
        }
    }

    fn may_send(&self) -> bool {
        let room = self.lost > 0 || self.board.len() < RECEIVE_WINDOW;
        room && self.in_flight < self.control.segments()
    }

    /// A millisecond's worth, as Linux sizes super-packets (tcp_tso_autosize).
    fn burst(&self) -> usize {
        let srtt = self.srtt.unwrap_or(Duration::from_millis(100)).as_secs_f64().max(1e-4);
        let a_second = self.control.pacing_rate();
        let a_second = a_second.unwrap_or(self.control.segments() as f64 * 1.2 / srtt);
        ((a_second / 1000.0) as usize).clamp(2, BURST)
    }

    /// Marks what is lost; how many segments.
    fn detect_losses(&mut self) -> u64 {
        let sacked = self.board.iter().filter(|s| s.state == State::Sacked).count() as u32;
        if sacked == 0 {
            return 0;
        }
        let srtt = self.srtt.unwrap_or_default();
        // RFC 8985; of QUIC's the time threshold is 9/8 of the round trip.
        let reorder = if self.adapts { srtt / 4 } else { srtt / 8 };
        let mut above = sacked;
        let mut found = 0;
        for segment in &mut self.board {
            match segment.state {
                State::Sacked => above -= 1,
                State::InFlight => {
                    let overtaken = self.rack_sent > segment.sent_at;
                    let late = overtaken && self.rack_sent - segment.sent_at > reorder;
                    let behind = !segment.resent || !self.adapts && overtaken;
                    if late || behind && above >= DUP_THRESHOLD {
                        segment.state = State::Lost;
                        self.in_flight -= 1;
                        self.lost += 1;
                        found += 1;
                    }
                }
                State::Lost => {}
            }
            if above == 0 {
                break;
            }
        }
        found
    }

    fn leave(&mut self, state: State) {
        match state {
            State::InFlight => self.in_flight -= 1,
            State::Lost => self.lost -= 1,
            State::Sacked => {}
        }
    }

    fn on_rtt(&mut self, sample: Duration) {
        match self.srtt {
            None => (self.srtt, self.variation) = (Some(sample), sample / 2),
            Some(srtt) => {
                self.variation = (self.variation * 3 + srtt.abs_diff(sample)) / 4;
                self.srtt = Some((srtt * 7 + sample) / 8);
            }
        }
    }

    fn rto(&self) -> Duration {
        let base = match self.srtt {
            None => RTO_INITIAL,
            // Linux keeps the variation's term above the minimum.
            Some(srtt) if self.adapts => srtt + (self.variation * 4).max(RTO_MIN),
            Some(srtt) => srtt + (self.variation * 4).max(GRANULARITY) + MAX_ACK_DELAY,
        };
        (base * (1 << self.backoff)).min(RTO_MAX)
    }
}

fn newer(a: Option<Segment>, b: Segment) -> Option<Segment> {
    match a {
        Some(a) if a.sent_at >= b.sent_at => Some(a),
        _ => Some(b),
    }
}
