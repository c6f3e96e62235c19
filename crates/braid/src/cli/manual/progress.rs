//! Shows progress if it takes longer than a second.

use crate::cli::progress::ProgressLine;
use braid_runner::progress::Progress;
use std::time::{Duration, Instant};

/// No bar for work that ends sooner.
const SOON: Duration = Duration::from_secs(1);

/// A bar for `done` of `all`.
pub struct Counted {
    line: ProgressLine,
    doing: &'static str,
    begun: Instant,
}

impl Counted {
    pub fn new(doing: &'static str) -> Counted {
        Counted { line: ProgressLine::new(0), doing, begun: Instant::now() }
    }

    pub fn show(&self, done: usize, all: usize) {
        if self.begun.elapsed() >= SOON {
            let share = Some(done as f64 / all.max(1) as f64);
            self.line.shows(&Progress { doing: self.doing.to_owned(), share, left: None });
        }
    }
}
