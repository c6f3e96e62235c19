//! What `rustic_core` only logs: files that it left out, attributes that it couldn't set. Without
//! these an incomplete backup or restore would be taken for complete.

use log::{Level, LevelFilter, Log, Metadata, Record};
use std::sync::{Mutex, MutexGuard, Once};

static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
static SET: Once = Once::new();

struct Ear;

/// More would only fill memory; counting continues.
const MOST: usize = 100_000;

impl Log for Ear {
    fn enabled(&self, about: &Metadata<'_>) -> bool {
        about.level() <= Level::Warn && about.target().starts_with("rustic_core")
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            let mut lines = lock(&LINES);
            if lines.len() < MOST {
                let text = record.args().to_string();
                lines.push(text.split_whitespace().collect::<Vec<_>>().join(" "));
            }
        }
    }

    fn flush(&self) {}
}

/// While this exists, log lines are collected; only one at a time per program.
pub(crate) struct Listening(#[expect(dead_code, reason = "held")] MutexGuard<'static, ()>);

/// Begins to listen.
pub(crate) fn listen() -> Listening {
    let alone = lock(&ONE_AT_A_TIME);
    SET.call_once(|| {
        // A program with its own logger collects them itself.
        if log::set_logger(&Ear).is_ok() {
            log::set_max_level(LevelFilter::Warn);
        }
    });
    lock(&LINES).clear();
    Listening(alone)
}

impl Listening {
    /// What was said until now.
    pub(crate) fn lines(&self) -> Vec<String> {
        lock(&LINES).clone()
    }
}

fn lock<T>(mutex: &'static Mutex<T>) -> MutexGuard<'static, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
