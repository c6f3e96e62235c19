use crate::batch;
use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Result, Scope, available_parallelism};
use std::time::{Duration, Instant};

/// Batches of small items that may be under way. One large item, for which all results wait, keeps
/// the other threads from going on only after some thousand small ones.
const MOST_SMALL: usize = 128;
/// Whoever waits for results is woken at most so often while there is work left.
const WAKES_EVERY: Duration = Duration::from_micros(500);
/// It looks by itself so often: all threads may have gone on with large items without waking it.
const LOOKS_EVERY: Duration = Duration::from_millis(5);

/// An iterator whose items other threads make of those of another one, in the same order.
pub struct ParallelMap<I: Iterator, O> {
    /// None at its end.
    iterator: Option<I>,
    shared: Arc<Shared<I::Item, O>>,
    threads: usize,
    under_way: VecDeque<Batch>,
    sent: usize,
    taken: usize,
    ready: VecDeque<Result<O>>,
}

/// Items that were handed out together.
struct Batch {
    /// The number of the first that isn't one of them.
    end: usize,
    small: bool,
}

struct Shared<T, O> {
    state: Mutex<State<T, O>>,
    /// There is something to do, or nothing will be any more.
    work: Condvar,
    /// What is waited for has come.
    results: Condvar,
}

struct State<T, O> {
    to_do: VecDeque<(usize, T)>,
    /// Results, with those before their turn.
    done: BTreeMap<usize, Result<O>>,
    waiting: Option<Waiting>,
    closed: bool,
}

/// What somebody waits for.
struct Waiting {
    number: usize,
    since: Instant,
    /// Or for few items being left to do.
    has_more: bool,
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
        let shared = Arc::new(Shared::new());
        for _ in 0..threads {
            let (shared, map) = (Arc::clone(&shared), map.clone());
            scope.spawn(move || shared.work(map));
        }
        ParallelMap {
            iterator: Some(iterator),
            shared,
            threads,
            under_way: VecDeque::new(),
            sent: 0,
            taken: 0,
            ready: VecDeque::new(),
        }
    }

    fn has_room(&self) -> bool {
        let small = self.under_way.iter().filter(|batch| batch.small).count();
        small < MOST_SMALL && self.under_way.len() - small < self.threads * 2
    }

    /// Hands out batches until the threads have enough to do.
    fn send(&mut self) {
        while self.has_room() && self.shared.lock().to_do.len() < batch::MOST {
            let Some(iterator) = &mut self.iterator else { return };
            let batch = batch::next(iterator);
            if batch.is_empty() {
                self.iterator = None;
                return;
            }
            let small = batch::is_small(batch.len(), self.threads);
            let end = self.sent + batch.len();
            self.shared.lock().to_do.extend((self.sent..end).zip(batch));
            self.shared.work.notify_all();
            self.under_way.push_back(Batch { end, small });
            self.sent = end;
        }
    }

    /// Waits for the next results, or until there is little left to do.
    fn receive(&mut self) {
        let mut state = self.shared.lock();
        let (number, since) = (self.taken, Instant::now());
        let has_more = self.iterator.is_some() && self.has_room();
        while !(state.done.contains_key(&number) || has_more && state.has_little()) {
            state.waiting = Some(Waiting { number, since, has_more });
            let waited = self.shared.results.wait_timeout(state, LOOKS_EVERY);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.waiting = None;
        while let Some(result) = state.done.remove(&(number + self.ready.len())) {
            self.ready.push_back(result);
        }
    }
}

impl<I: Iterator, O> Iterator for ParallelMap<I, O> {
    type Item = O;

    fn next(&mut self) -> Option<O> {
        while self.ready.is_empty() {
            self.send();
            if self.taken == self.sent {
                return None;
            }
            self.receive();
        }
        self.taken += 1;
        if self.under_way.front().is_some_and(|batch| batch.end <= self.taken) {
            self.under_way.pop_front();
        }
        match self.ready.pop_front()? {
            Ok(item) => Some(item),
            Err(panic) => resume_unwind(panic),
        }
    }
}

impl<I: Iterator, O> Drop for ParallelMap<I, O> {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.closed = true;
        state.to_do.clear();
        self.shared.work.notify_all();
    }
}

impl<T, O> Shared<T, O> {
    fn new() -> Shared<T, O> {
        let (to_do, done) = (VecDeque::new(), BTreeMap::new());
        Shared {
            state: Mutex::new(State { to_do, done, waiting: None, closed: false }),
            work: Condvar::new(),
            results: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<T, O>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does one item after the other; each by itself, since one may take as long as all others.
    fn work(&self, mut map: impl FnMut(T) -> O) {
        let mut state = self.lock();
        loop {
            let Some((number, item)) = state.to_do.pop_front() else {
                if state.closed {
                    return;
                }
                state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            drop(state);
            let result = catch_unwind(AssertUnwindSafe(|| map(item)));
            let has_failed = result.is_err();
            state = self.lock();
            state.done.insert(number, result);
            if state.waiting.as_ref().is_some_and(|waiting| state.ends(waiting)) {
                state.waiting = None;
                self.results.notify_one();
            }
            if has_failed {
                return;
            }
        }
    }
}

impl<T, O> State<T, O> {
    /// More is to be sent before the threads run out of work.
    fn has_little(&self) -> bool {
        self.to_do.len() <= batch::MOST / 2
    }

    fn ends(&self, waiting: &Waiting) -> bool {
        let is_time = self.to_do.is_empty() || waiting.since.elapsed() >= WAKES_EVERY;
        waiting.has_more && self.has_little() || is_time && self.done.contains_key(&waiting.number)
    }
}
