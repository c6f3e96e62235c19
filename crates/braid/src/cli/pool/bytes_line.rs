use crate::cli::time_left::time_left;
use crate::cli::{progress_wanted, terminal_line};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// A progress line on a terminal's stderr, until ended or dropped.
pub struct BytesLine {
    showing: Option<(Sender<()>, JoinHandle<()>)>,
}

const EVERY: Duration = Duration::from_millis(500);
/// No line for work that ends sooner.
const FIRST: Duration = Duration::from_secs(1);

impl BytesLine {
    /// Regularly asks `doing` for what is being done, and for the finished share of all that.
    pub fn start(doing: impl Fn() -> (String, Option<f64>) + Send + 'static) -> BytesLine {
        if !progress_wanted::is_wanted() {
            return BytesLine { showing: None };
        }
        let (end, ended) = mpsc::channel();
        let began = Instant::now();
        let show = move || {
            let mut wait = FIRST;
            while ended.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                wait = EVERY;
                let (text, share) = doing();
                let rest = share.map_or(String::new(), |share| left(share, began.elapsed()));
                terminal_line::show(&format!("  {text}{rest}"));
            }
            terminal_line::clear();
        };
        BytesLine { showing: Some((end, thread::spawn(show))) }
    }

    /// Clears the line.
    pub fn end(self) {
        drop(self);
    }
}

impl Drop for BytesLine {
    fn drop(&mut self) {
        if let Some((end, thread)) = self.showing.take() {
            drop(end);
            let _ = thread.join();
        }
    }
}

fn left(share: f64, took: Duration) -> String {
    let share = share.clamp(0.0, 1.0);
    if share < 0.005 {
        return format!(" ({:.1} %)", share * 100.0);
    }
    let left = took.mul_f64((1.0 - share) / share);
    format!(" ({:.1} %, {})", share * 100.0, time_left(left))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_is_what_it_took_for_as_much() {
        assert_eq!(left(0.25, Duration::from_secs(10)), " (25.0 %, 30 s left)");
        assert_eq!(left(0.001, Duration::from_secs(10)), " (0.1 %)");
        assert_eq!(left(7.0, Duration::from_secs(10)), " (100.0 %, 0 s left)");
    }
}
