use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// For so long a channel of [`Room::ForAMoment`] takes more, and lets who receives wait for more:
/// less than a time slice, so that two threads that share a processor take turns by it and not by
/// the item; as long as it takes to read, cut and hash two chunks of a large file (a megabyte
/// each).
const MOMENT: Duration = Duration::from_millis(2);
/// However fast they come.
const MOST: usize = 64;
/// Who waits is woken for so many.
const ENOUGH: usize = 16;

#[derive(Clone, Copy)]
pub(crate) enum Room {
    For(usize),
    ForAMoment,
}

pub(crate) struct Shared<T> {
    room: Room,
    state: Mutex<State<T>>,
    /// Something has come, or nothing will.
    came: Condvar,
    /// There is room, or nobody is there any more.
    went: Condvar,
}

struct State<T> {
    waiting: VecDeque<T>,
    /// When the first one came after there was none.
    since: Instant,
    senders: usize,
    receivers: usize,
}

impl<T> Shared<T> {
    pub(crate) fn new(room: Room) -> Arc<Shared<T>> {
        let state =
            State { waiting: VecDeque::new(), since: Instant::now(), senders: 0, receivers: 0 };
        let (came, went) = (Condvar::new(), Condvar::new());
        Arc::new(Shared { room, state: Mutex::new(state), came, went })
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives it back where nobody receives any more.
    pub(crate) fn push(&self, item: T) -> Result<(), T> {
        let mut state = self.lock();
        loop {
            if state.receivers == 0 {
                return Err(item);
            }
            if self.has_room(&state) {
                break;
            }
            // Who waits for enough of them needn't.
            self.came.notify_one();
            state = self.went.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.waiting.is_empty() && matches!(self.room, Room::ForAMoment) {
            state.since = Instant::now();
        }
        state.waiting.push_back(item);
        let is_told = match self.room {
            Room::For(_) => true,
            Room::ForAMoment => state.waiting.len() >= ENOUGH,
        };
        drop(state);
        if is_told {
            self.came.notify_one();
        }
        Ok(())
    }

    fn has_room(&self, state: &State<T>) -> bool {
        match self.room {
            Room::For(room) => state.waiting.len() < room,
            Room::ForAMoment => {
                state.waiting.is_empty()
                    || state.waiting.len() < MOST && state.since.elapsed() < MOMENT
            }
        }
    }

    /// Nothing once there is none and nobody sends any more.
    pub(crate) fn pop(&self) -> Option<T> {
        let mut state = self.lock();
        loop {
            if let Some(item) = state.waiting.pop_front() {
                // Where it fills again as soon as one has gone both would go by the item.
                let is_told = match self.room {
                    Room::For(_) => true,
                    Room::ForAMoment => state.waiting.is_empty(),
                };
                drop(state);
                if is_told {
                    self.went.notify_all();
                }
                return Some(item);
            }
            if state.senders == 0 {
                return None;
            }
            state = match self.room {
                Room::For(_) => self.came.wait(state).unwrap_or_else(PoisonError::into_inner),
                Room::ForAMoment => {
                    self.came.wait_timeout(state, MOMENT).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    pub(crate) fn sender_comes(&self) {
        self.lock().senders += 1;
    }

    pub(crate) fn sender_goes(&self) {
        let mut state = self.lock();
        state.senders -= 1;
        let is_last = state.senders == 0;
        drop(state);
        if is_last {
            self.came.notify_all();
        }
    }

    pub(crate) fn receiver_comes(&self) {
        self.lock().receivers += 1;
    }

    pub(crate) fn receiver_goes(&self) {
        let mut state = self.lock();
        state.receivers -= 1;
        // What nobody takes any more may hold what others wait for.
        let left = match state.receivers {
            0 => std::mem::take(&mut state.waiting),
            _ => VecDeque::new(),
        };
        let is_last = state.receivers == 0;
        drop(state);
        drop(left);
        if is_last {
            self.went.notify_all();
        }
    }
}
