//! Whether a stream's sender spaces its packets out in time, as BBR does, or sends
//! as soon as an acknowledgement lets it; and whether it goes on sending.

use braid_units::Time;
use std::time::Duration;

/// Packets that come closer together than this were sent together: a sender that paces
/// sends each millisecond or so (`tcp_tso_autosize` of Linux). Ours.
const TOGETHER: Duration = Duration::from_micros(500);
/// What is acknowledged at once, and after how long without any, for the answer to tell.
/// Ours.
const CLUMP: u64 = 6 * 1400;
const SILENCE: Duration = Duration::from_millis(4);
/// So many answers more of one kind than of the other make it one. Ours.
const SURE: i8 = 2;
/// It has stopped when nothing has come for so many of the mean spaces between its packets,
/// and this time at the least. Ours.
const SPACES: u32 = 3;
const LEAST_STOP: Duration = Duration::from_millis(2);
/// Weight of the newest space in their mean. Ours.
const SPACE_WEIGHT: u32 = 16;

/// Looks at when a stream's data come, and what was acknowledged before.
#[derive(Clone, Debug)]
pub(super) struct SenderPacing {
    last_data: Time,
    /// Mean space between its packets.
    space: Duration,
    /// Bytes that came together last.
    together: u64,
    last_acked: Time,
    answer: Option<Answer>,
    /// Answers spread out in time less those in one go.
    score: i8,
    paced: bool,
}

/// What came since many bytes were acknowledged at once.
#[derive(Clone, Debug)]
struct Answer {
    acknowledged: u64,
    /// Acknowledged since, in smaller steps, which are answered too.
    others: u64,
    bytes: u64,
    most_together: u64,
}

impl SenderPacing {
    pub fn new(now: Time) -> Self {
        Self {
            last_data: now,
            space: Duration::from_millis(1),
            together: 0,
            last_acked: now,
            answer: None,
            score: 0,
            paced: false,
        }
    }

    /// So many bytes come from the sender. Spaces in which it had nothing it was allowed to
    /// send don't count: those while `waits` for acknowledgements.
    pub fn on_data(&mut self, bytes: u64, waits: bool, now: Time) {
        let space = now - self.last_data;
        if !waits || space < self.space * SPACES {
            self.space = (self.space * (SPACE_WEIGHT - 1) + space) / SPACE_WEIGHT;
        }
        self.together = if space < TOGETHER { self.together + bytes } else { bytes };
        self.last_data = now;
        if let Some(answer) = &mut self.answer {
            answer.bytes += bytes;
            answer.most_together = answer.most_together.max(self.together);
        }
    }

    /// The sender is told that so many bytes more have arrived.
    pub fn on_acked(&mut self, bytes: u64, now: Time) {
        let silent = now - self.last_acked;
        self.last_acked = now;
        if bytes < CLUMP || silent < SILENCE {
            if let Some(answer) = &mut self.answer {
                answer.others += bytes;
            }
            return;
        }
        let answer = Answer { acknowledged: bytes, others: 0, bytes: 0, most_together: 0 };
        let Some(before) = self.answer.replace(answer) else { return };
        if before.bytes * 2 < before.acknowledged || before.others * 4 > before.acknowledged {
            return;
        }
        let in_one_go = before.most_together * 2 >= before.bytes;
        self.score = (self.score + if in_one_go { -1 } else { 1 }).clamp(-SURE, SURE);
        self.paced = self.score == SURE || self.paced && self.score > -SURE;
    }

    /// It spaces its packets out.
    pub fn is_paced(&self) -> bool {
        self.paced
    }

    /// When it counts as having stopped if nothing comes until then.
    pub fn stops_at(&self) -> Time {
        self.last_data + (self.space * SPACES).max(LEAST_STOP)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEGMENT: u64 = 1448;

    /// A sender that is told each 20 ms of 40 segments, and then sends 40 more, each so many
    /// microseconds after the one before.
    fn answers(spaced_us: u64) -> SenderPacing {
        let mut pacing = SenderPacing::new(Time::from_millis(0));
        for round in 0..8 {
            let begin = Time::from_millis(20 * (round + 1));
            pacing.on_acked(40 * SEGMENT, begin);
            for segment in 0..40 {
                pacing.on_data(SEGMENT, false, begin + Duration::from_micros(segment * spaced_us));
            }
        }
        pacing
    }

    #[test]
    fn bursts_in_answer_to_acknowledgements_are_no_pacing() {
        assert!(!answers(12).is_paced());
        assert!(!answers(0).is_paced());
    }

    #[test]
    fn data_spread_out_between_acknowledgements_are() {
        assert!(answers(500).is_paced());
    }

    #[test]
    fn small_steps_tell_nothing() {
        let mut pacing = SenderPacing::new(Time::from_millis(0));
        for step in 1..1000 {
            let now = Time::from_millis(step);
            pacing.on_acked(2 * SEGMENT, now);
            pacing.on_data(2 * SEGMENT, false, now);
        }
        assert_eq!(pacing.score, 0);
    }

    #[test]
    fn it_has_stopped_after_some_spaces() {
        let pacing = answers(500);
        assert!(pacing.stops_at() >= pacing.last_data + LEAST_STOP);
        assert!(pacing.stops_at() < pacing.last_data + Duration::from_millis(20));
    }
}
