use crate::Target;
use crate::mutate::mutate;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// Runs a target with mutated seeds, one after another. The same seeds and number give the same
/// inputs.
pub struct Fuzzer {
    target: Target,
    seeds: Vec<Vec<u8>>,
    rng: fastrand::Rng,
}

/// An input that made the target panic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The input, shortened as far as possible.
    pub input: Vec<u8>,
    /// The panic's message.
    pub message: String,
}

impl Fuzzer {
    /// A fuzzer for `target`.
    pub fn new(target: Target, seeds: Vec<Vec<u8>>, number: u64) -> Self {
        Fuzzer { target, seeds, rng: fastrand::Rng::with_seed(number) }
    }

    /// Tries the unchanged seeds and `count` mutated ones.
    ///
    /// # Errors
    /// The first [`Failure`].
    pub fn run_count(&mut self, count: u64) -> Result<(), Failure> {
        self.seeds.iter().try_for_each(|seed| attempt(self.target, seed))?;
        (0..count).try_for_each(|_| self.step())
    }

    /// Tries mutated seeds for some time; returns how many.
    ///
    /// # Errors
    /// The first [`Failure`].
    pub fn run_for(&mut self, time: Duration) -> Result<u64, Failure> {
        let start = Instant::now();
        let mut count = 0;
        self.run_count(0)?;
        while start.elapsed() < time {
            self.step()?;
            count += 1;
        }
        Ok(count)
    }

    fn step(&mut self) -> Result<(), Failure> {
        let input = mutate(&self.seeds, self.target.max_len, &mut self.rng);
        attempt(self.target, &input)
    }
}

fn attempt(target: Target, input: &[u8]) -> Result<(), Failure> {
    match message(target, input) {
        None => Ok(()),
        Some(_) => Err(shortened(target, input.to_vec())),
    }
}

/// The target's panic message, if it panics.
fn message(target: Target, input: &[u8]) -> Option<String> {
    let panic = catch_unwind(AssertUnwindSafe(|| (target.run)(input))).err()?;
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
    Some(text.unwrap_or_else(|| "it panicked".to_owned()))
}

/// Removes ever smaller parts that aren't needed to make the target panic.
fn shortened(target: Target, mut input: Vec<u8>) -> Failure {
    let mut size = input.len().div_ceil(2);
    while size > 0 {
        let mut start = 0;
        while start < input.len() {
            let mut shorter = input.clone();
            shorter.drain(start..(start + size).min(input.len()));
            if message(target, &shorter).is_some() {
                input = shorter;
            } else {
                start += size;
            }
        }
        size /= 2;
    }
    let message = message(target, &input).unwrap_or_else(|| "it panics only sometimes".to_owned());
    Failure { input, message }
}
