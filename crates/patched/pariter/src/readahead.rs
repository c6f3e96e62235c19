use crate::batch;
use crossbeam_channel::{Receiver, bounded};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::thread::{Result, Scope};
use std::vec;

/// An iterator whose items another thread gets.
pub struct Readahead<I: Iterator> {
    batches: Receiver<Result<Vec<I::Item>>>,
    now: vec::IntoIter<I::Item>,
}

impl<I: Iterator> Readahead<I> {
    pub(crate) fn start<'env, 'scope>(
        mut iterator: I,
        scope: &'scope Scope<'scope, 'env>,
    ) -> Readahead<I>
    where
        I: Send + 'env + 'scope,
        I::Item: Send + 'env + 'scope,
    {
        // One waits while one is filled.
        let (sender, batches) = bounded(1);
        scope.spawn(move || {
            loop {
                let batch = catch_unwind(AssertUnwindSafe(|| batch::next(&mut iterator)));
                let is_last = batch.as_ref().map_or(true, Vec::is_empty);
                // Nobody may want it any more.
                if sender.send(batch).is_err() || is_last {
                    return;
                }
            }
        });
        Readahead { batches, now: vec::IntoIter::default() }
    }
}

impl<I: Iterator> Iterator for Readahead<I> {
    type Item = I::Item;

    fn next(&mut self) -> Option<I::Item> {
        loop {
            if let Some(item) = self.now.next() {
                return Some(item);
            }
            match self.batches.recv() {
                Ok(Ok(batch)) => self.now = batch.into_iter(),
                Ok(Err(panic)) => resume_unwind(panic),
                Err(_) => return None,
            }
        }
    }
}
