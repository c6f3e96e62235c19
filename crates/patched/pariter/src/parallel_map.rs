use crate::batch;
use crossbeam_channel::{Receiver, Sender, unbounded};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::thread::{Result, Scope, available_parallelism};
use std::vec;

/// An iterator whose items other threads make of those of another one, in the same order.
pub struct ParallelMap<I: Iterator, O> {
    iterator: I,
    /// None once all have gone.
    work: Option<Sender<(usize, Vec<I::Item>)>>,
    results: Receiver<(usize, Result<Vec<O>>)>,
    /// Those that came before their turn.
    early: BTreeMap<usize, Vec<O>>,
    /// How many batches may be under way.
    room: usize,
    sent: usize,
    taken: usize,
    now: vec::IntoIter<O>,
}

impl<I: Iterator, O> ParallelMap<I, O> {
    pub(crate) fn start<'env, 'scope, F>(
        iterator: I,
        scope: &'scope Scope<'scope, 'env>,
        map: F,
    ) -> ParallelMap<I, O>
    where
        F: FnMut(I::Item) -> O + Send + Clone + 'env,
        I::Item: Send + 'env,
        O: Send + 'env,
    {
        let threads = available_parallelism().map_or(1, |count| count.get());
        // What may be under way is counted; the channels have room for all of it.
        let (work, to_do) = unbounded::<(usize, Vec<I::Item>)>();
        let (done, results) = unbounded();
        for _ in 0..threads {
            let (to_do, done, mut map) = (to_do.clone(), done.clone(), map.clone());
            scope.spawn(move || {
                for (number, batch) in to_do {
                    let mapped = || batch.into_iter().map(&mut map).collect();
                    let mapped = catch_unwind(AssertUnwindSafe(mapped));
                    let has_failed = mapped.is_err();
                    // Nobody may want it any more.
                    if done.send((number, mapped)).is_err() || has_failed {
                        return;
                    }
                }
            });
        }
        ParallelMap {
            iterator,
            work: Some(work),
            results,
            early: BTreeMap::new(),
            room: threads * 2,
            sent: 0,
            taken: 0,
            now: vec::IntoIter::default(),
        }
    }

    fn send(&mut self) {
        while self.sent < self.taken + self.room {
            let Some(work) = &self.work else { return };
            let batch = batch::next(&mut self.iterator);
            // All threads are gone where each has failed, which is told by what they made.
            if batch.is_empty() || work.send((self.sent, batch)).is_err() {
                self.work = None;
                return;
            }
            self.sent += 1;
        }
    }
}

impl<I: Iterator, O> Iterator for ParallelMap<I, O> {
    type Item = O;

    fn next(&mut self) -> Option<O> {
        loop {
            if let Some(item) = self.now.next() {
                return Some(item);
            }
            self.send();
            if self.taken == self.sent {
                return None;
            }
            let batch = loop {
                if let Some(batch) = self.early.remove(&self.taken) {
                    break batch;
                }
                match self.results.recv() {
                    Ok((number, Ok(batch))) => {
                        self.early.insert(number, batch);
                    }
                    Ok((_, Err(panic))) => resume_unwind(panic),
                    // Each has told before why.
                    Err(_) => return None,
                }
            };
            self.taken += 1;
            self.now = batch.into_iter();
        }
    }
}
