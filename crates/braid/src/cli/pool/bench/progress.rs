use crate::cli::failure;
use crate::cli::progress::ProgressLine;
use braid_runner::Happening;
use braid_runner::progress::Progress;
use std::time::Instant;

/// Shows a benchmark's progress: a line for each pool that is created, a bar for the runs.
pub struct BenchProgress {
    line: ProgressLine,
    begun: Instant,
    done: usize,
    all: usize,
}

impl BenchProgress {
    /// For a benchmark with this many runs.
    pub fn new(all: usize) -> BenchProgress {
        BenchProgress { line: ProgressLine::new(0), begun: Instant::now(), done: 0, all }
    }

    /// A new part begins.
    pub fn part(&mut self, what: &str) {
        self.line.end();
        failure::tell(what);
    }

    /// A step of creating or taking down a pool; only slow ones are shown.
    pub fn step(&mut self, happening: &Happening) {
        if let Happening::Goes(..) = happening {
            self.line.show(happening);
        }
    }

    /// The next run begins.
    pub fn next(&mut self, what: &str) {
        let share = self.done as f64 / self.all.max(1) as f64;
        let left = (self.done > 0)
            .then(|| self.begun.elapsed().div_f64(share).mul_f64(1.0 - share.min(1.0)));
        self.line.shows(&Progress { doing: what.to_owned(), share: Some(share.min(1.0)), left });
        self.done += 1;
    }

    /// Clears the line.
    pub fn end(&mut self) {
        self.line.end();
    }
}
