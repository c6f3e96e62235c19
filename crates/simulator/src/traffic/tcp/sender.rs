use super::receiver::Acknowledgement;
use super::window::{Congestion, Window};
use crate::traffic::Measured;
use braid_units::Time;
use std::collections::VecDeque;
use std::time::Duration;

/// RFC 6298 asks for a second; kernels take less.
const RTO_MIN: Duration = Duration::from_millis(200);
const RTO_MAX: Duration = Duration::from_secs(120);
const RTO_INITIAL: Duration = Duration::from_secs(1);
/// Segments acknowledged above one that is lost (RFC 6675).
const DUP_THRESHOLD: u32 = 3;
/// Largest super-packet in segments (64 KB).
const BURST: usize = 44;
/// Receive window in segments: about 3 MB.
const RECEIVE_WINDOW: usize = 2100;

/// The sending end.
#[derive(Debug)]
pub(super) struct Sender {
    window: Window,
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
    rack_sent: Time,
}

#[derive(Clone, Copy, Debug)]
struct Segment {
    sent_at: Time,
    state: State,
    resent: bool,
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
            window: Window::new(congestion),
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
            rack_sent: Time::ZERO,
        }
    }

    /// When there's something to do; new data only before `stop`.
    pub fn next_deadline(&self, now: Time, stop: Time) -> Option<Time> {
        if self.may_send() && (self.lost > 0 || now < stop) {
            return Some(now);
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
        if !self.may_send() {
            return None;
        }
        let room = self.window.segments().saturating_sub(self.in_flight).max(1);
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
            let fresh = Segment { sent_at: now, state: State::Lost, resent: false };
            self.board.extend(std::iter::repeat_n(fresh, most.min(room)));
            self.lost += most.min(room);
            (start, most.min(room))
        };
        for segment in self.board.iter_mut().skip(start).take(count) {
            segment.sent_at = now;
            segment.state = State::InFlight;
        }
        self.lost -= count;
        self.in_flight += count;
        if self.rto_at.is_none() {
            self.rto_at = Some(now + self.rto());
        }
        (count > 0).then_some((self.first + start as u32, count))
    }

    pub fn on_ack(&mut self, ack: &Acknowledgement, now: Time, m: &mut Measured) {
        let before = self.first;
        let mut newest: Option<Segment> = None;
        while self.first < ack.next {
            let Some(segment) = self.board.pop_front() else { break };
            self.first += 1;
            self.leave(segment.state);
            if segment.state != State::Sacked {
                newest = newer(newest, segment);
            }
        }
        for &(low, high) in &ack.ranges {
            for place in low.max(self.first)..high {
                let index = (place - self.first) as usize;
                let Some(&segment) = self.board.get(index) else { break };
                if segment.state != State::Sacked {
                    newest = newer(newest, segment);
                    self.leave(segment.state);
                    self.board[index].state = State::Sacked;
                }
            }
        }
        let acked = self.first - before;
        let mut rtt = None;
        if let Some(segment) = newest {
            self.rack_sent = self.rack_sent.max(segment.sent_at);
            if !segment.resent {
                rtt = Some(now - segment.sent_at);
                self.on_rtt(now - segment.sent_at);
            }
        }
        if acked > 0 {
            self.backoff = 0;
            self.rto_at = (!self.board.is_empty()).then(|| now + self.rto());
        }
        if self.recover.is_some_and(|r| self.first >= r) {
            self.recover = None;
            self.timed_out = false;
        }
        if self.detect_losses() && self.recover.is_none() {
            self.recover = Some(self.first + self.board.len() as u32);
            self.window.on_loss();
            m.cuts += 1;
        }
        // After a timeout it begins with slow start (RFC 5681, section 3.1).
        if acked > 0 && (self.recover.is_none() || self.timed_out) {
            self.window.on_acked(acked, rtt, self.srtt.unwrap_or_default(), now);
        }
        m.window = self.window.segments();
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
        self.window.on_timeout(self.in_flight);
        for segment in &mut self.board {
            if segment.state == State::InFlight {
                segment.state = State::Lost;
                self.in_flight -= 1;
                self.lost += 1;
            }
        }
        self.recover = Some(self.first + self.board.len() as u32);
        self.timed_out = true;
        self.backoff = (self.backoff + 1).min(10);
        self.rto_at = Some(now + self.rto());
    }

    fn may_send(&self) -> bool {
        let room = self.lost > 0 || self.board.len() < RECEIVE_WINDOW;
        room && self.in_flight < self.window.segments()
    }

    /// A millisecond's worth, as Linux sizes super-packets (tcp_tso_autosize).
    fn burst(&self) -> usize {
        let srtt = self.srtt.unwrap_or(Duration::from_millis(100)).as_secs_f64().max(1e-4);
        let per_ms = self.window.segments() as f64 * 1.2 / srtt / 1000.0;
        (per_ms as usize).clamp(2, BURST)
    }

    /// Marks what is lost; true if there was something.
    fn detect_losses(&mut self) -> bool {
        let sacked = self.board.iter().filter(|s| s.state == State::Sacked).count() as u32;
        if sacked == 0 {
            return false;
        }
        let reorder = self.srtt.unwrap_or_default() / 4;
        let mut above = sacked;
        let mut found = false;
        for segment in &mut self.board {
            match segment.state {
                State::Sacked => above -= 1,
                State::InFlight => {
                    let overtaken = self.rack_sent > segment.sent_at;
                    let late = overtaken && self.rack_sent - segment.sent_at > reorder;
                    if late || !segment.resent && above >= DUP_THRESHOLD {
                        segment.state = State::Lost;
                        self.in_flight -= 1;
                        self.lost += 1;
                        found = true;
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
            Some(srtt) => srtt + (self.variation * 4).max(RTO_MIN),
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
