//! Progress of a long operation, and when it may be done.

use std::time::Duration;

/// What is reported during a long step.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// What is running, such as `balance` or `reshape`.
    pub doing: String,
    /// How much of it is done, 0 to 1, if known.
    pub share: Option<f64>,
    /// How long it may still take, if known.
    pub left: Option<Duration>,
}

/// Estimates the end of an operation from its speed since it was first seen.
#[derive(Clone, Copy, Debug, Default)]
pub struct Eta {
    first: Option<(Duration, f64)>,
}

impl Eta {
    /// Takes the share done at `now` (time since any fixed moment); returns how long the rest may
    /// take, `None` as long as nothing moved.
    pub fn left(&mut self, now: Duration, share: f64) -> Option<Duration> {
        let (start, at_start) = *self.first.get_or_insert((now, share));
        let (took, gained) = (now.saturating_sub(start), share - at_start);
        if gained <= 0.0 {
            return None;
        }
        let seconds = took.as_secs_f64() / gained * (1.0 - share).max(0.0);
        Duration::try_from_secs_f64(seconds).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_done_in_a_minute_is_another_minute() {
        let mut eta = Eta::default();
        assert_eq!(eta.left(Duration::from_secs(5), 0.0), None);
        assert_eq!(eta.left(Duration::from_secs(65), 0.5), Some(Duration::from_secs(60)));
    }

    #[test]
    fn only_what_was_seen_counts() {
        let mut eta = Eta::default();
        assert_eq!(eta.left(Duration::ZERO, 0.8), None);
        let left = eta.left(Duration::from_secs(10), 0.9).unwrap();
        assert!((left.as_secs_f64() - 10.0).abs() < 0.01, "{left:?}");
    }

    #[test]
    fn nothing_is_said_when_it_goes_backward() {
        let mut eta = Eta::default();
        eta.left(Duration::ZERO, 0.5);
        assert_eq!(eta.left(Duration::from_secs(1), 0.4), None);
    }
}
