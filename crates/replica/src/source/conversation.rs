//! The talk with a sink while a stream goes out: blocks and pings out,
//! acknowledgements in.

use super::PATIENCE;
use crate::error::Error;
use crate::wire::{Block, Frame, Incoming, Message, Outgoing, unexpected};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// One stream's talk; shared by the threads that send, listen and ping.
pub(super) struct Conversation<'a> {
    out: Mutex<&'a mut Outgoing>,
    state: Mutex<State>,
    /// The window may have opened.
    acked: Condvar,
    ended: Condvar,
    counter: Arc<AtomicU64>,
    /// The channel inside a process bounds by itself what is underway.
    unbounded: bool,
}

struct State {
    /// Blocks that left, and that the sink has carried out.
    sent: u64,
    acked: u64,
    /// The sink had so many before.
    first: u64,
    began: Instant,
    /// The shortest time from sending a block to its acknowledgement.
    round_trip: Option<Duration>,
    /// A block whose acknowledgement is being timed.
    timed: Option<(u64, Instant)>,
    /// The listener has stopped: an answer or an error came.
    heard: bool,
    given_up: bool,
    ended: bool,
}

/// The sink takes silence for death after 20 s.
const PING_EVERY: Duration = Duration::from_secs(3);
/// How soon the listener notices that the sender gave up.
const LISTEN_STEP: Duration = Duration::from_millis(200);

/// What is underway is lost when the connection breaks. So few blocks of it are
/// allowed at first, and more when it is small against what has arrived.
const WINDOW_AT_LEAST: u64 = 4;
const WINDOW_AT_MOST: u64 = 256;
/// One in so many of what has arrived may be underway.
const WINDOW_SHARE: u64 = 512;

impl<'a> Conversation<'a> {
    /// With a sink that has so many blocks.
    pub fn new(out: &'a mut Outgoing, blocks: u64) -> Conversation<'a> {
        Conversation {
            counter: out.sent(),
            unbounded: out.is_inside(),
            out: Mutex::new(out),
            state: Mutex::new(State {
                sent: blocks,
                acked: blocks,
                first: blocks,
                began: Instant::now(),
                round_trip: None,
                timed: None,
                heard: false,
                given_up: false,
                ended: false,
            }),
            acked: Condvar::new(),
            ended: Condvar::new(),
        }
    }

    /// Sends a frame.
    pub fn send(&self, frame: Frame) -> Result<(), Error> {
        self.out.lock().unwrap_or_else(PoisonError::into_inner).send(frame)
    }

    /// Sends the next block when the window lets it.
    pub fn send_block(&self, block: Block) -> Result<(), Error> {
        let mut state = self.state();
        while !self.unbounded && !state.heard && state.sent - state.acked >= state.window() {
            state = self.acked.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.heard {
            return Err(Error::Connection("the sink stopped listening".to_owned()));
        }
        state.sent += 1;
        if state.timed.is_none() {
            state.timed = Some((state.sent, Instant::now()));
        }
        drop(state);
        self.send(Frame::Data(block))
    }

    /// Takes acknowledgements until the sink says that it is done.
    pub fn listen(&self, incoming: &mut Incoming) -> Result<(), Error> {
        let outcome = self.take_acknowledgements(incoming);
        self.state().heard = true;
        self.acked.notify_all();
        outcome
    }

    fn take_acknowledgements(&self, incoming: &mut Incoming) -> Result<(), Error> {
        let mut silent_since = Instant::now();
        loop {
            match incoming.next_within(LISTEN_STEP)? {
                Some(Frame::Ack(blocks)) => {
                    self.state().acknowledge(blocks);
                    self.acked.notify_all();
                }
                Some(Frame::Message(Message::Done)) => return Ok(()),
                Some(Frame::Ping) => {}
                Some(other) => return Err(unexpected(&other)),
                None if self.state().given_up => return Ok(()),
                None if silent_since.elapsed() > PATIENCE => {
                    return Err(Error::Connection("the sink is silent".to_owned()));
                }
                None => continue,
            }
            silent_since = Instant::now();
        }
    }

    /// Tells the sink now and then that this end lives.
    pub fn ping_while_silent(&self) {
        let mut last = self.counter.load(Ordering::Relaxed);
        let mut state = self.state();
        while !state.ended {
            let waited = self.ended.wait_timeout_while(state, PING_EVERY, |state| !state.ended);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            if self.counter.load(Ordering::Relaxed) == last && !state.ended {
                drop(state);
                // When somebody is sending, nobody needs a ping; when it
                // fails, the sender will see why.
                if let Ok(mut out) = self.out.try_lock() {
                    let _ = out.send(Frame::Ping);
                }
                state = self.state();
            }
            last = self.counter.load(Ordering::Relaxed);
        }
    }

    /// The sender failed: nothing will be answered any more.
    pub fn give_up(&self) {
        self.state().given_up = true;
    }

    /// All is said.
    pub fn end(&self) {
        self.state().ended = true;
        self.ended.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn acknowledge(&mut self, blocks: u64) {
        self.acked = self.acked.max(blocks.min(self.sent));
        if let Some((block, sent_at)) = self.timed
            && self.acked >= block
        {
            let took = sent_at.elapsed();
            self.round_trip = Some(self.round_trip.map_or(took, |best| best.min(took)));
            self.timed = None;
        }
    }

    /// Blocks that may be underway: a share of what has arrived, or what a link
    /// with a long round trip needs to be kept busy.
    fn window(&self) -> u64 {
        let arrived = self.acked - self.first;
        let seconds = self.began.elapsed().as_secs_f64();
        let on_the_way = match self.round_trip {
            Some(round_trip) if seconds > 0.0 => {
                2.0 * arrived as f64 / seconds * round_trip.as_secs_f64()
            }
            _ => 0.0,
        };
        (self.acked / WINDOW_SHARE)
            .max(on_the_way.ceil() as u64)
            .clamp(WINDOW_AT_LEAST, WINDOW_AT_MOST)
    }
}
