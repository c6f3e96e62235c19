//! The exchange with a sink while a stream is sent: blocks out, acknowledgements in.

use crate::error::Error;
use crate::wire::{Block, Frame, Incoming, Message, Outgoing, SILENCE, unexpected};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// One stream's exchange; shared by the threads that send and listen.
pub(super) struct Conversation<'a> {
    out: &'a Outgoing,
    state: Mutex<State>,
    /// The window may have opened.
    acked: Condvar,
    /// The channel inside a process itself bounds what is in flight.
    unbounded: bool,
}

struct State {
    /// Blocks sent, and blocks applied by the sink.
    sent: u64,
    acked: u64,
    /// Number that the sink had before.
    first: u64,
    began: Instant,
    /// The shortest time from sending a block to its acknowledgement.
    round_trip: Option<Duration>,
    /// A block whose acknowledgement is being timed.
    timed: Option<(u64, Instant)>,
    /// The listener has stopped: an answer or an error arrived.
    heard: bool,
    given_up: bool,
}

/// How soon the listener notices that the sender gave up.
const LISTEN_STEP: Duration = Duration::from_millis(200);

/// What is in flight is lost when the connection breaks. This many blocks are allowed at first, and
/// more when that is little compared with what has arrived.
const WINDOW_AT_LEAST: u64 = 4;
const WINDOW_AT_MOST: u64 = 256;
/// The share of what has arrived that may be in flight: one part in this.
const WINDOW_SHARE: u64 = 512;

impl<'a> Conversation<'a> {
    /// With a sink that has this many blocks.
    pub fn new(out: &'a Outgoing, blocks: u64) -> Conversation<'a> {
        Conversation {
            unbounded: out.is_inside(),
            out,
            state: Mutex::new(State {
                sent: blocks,
                acked: blocks,
                first: blocks,
                began: Instant::now(),
                round_trip: None,
                timed: None,
                heard: false,
                given_up: false,
            }),
            acked: Condvar::new(),
        }
    }

    /// Sends a frame.
    pub fn send(&self, frame: Frame) -> Result<(), Error> {
        self.out.send(frame)
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

    /// Receives acknowledgements until the sink says that it is done.
    pub fn listen(&self, incoming: &mut Incoming) -> Result<(), Error> {
        let outcome = self.take_acknowledgements(incoming);
        if let Err(Error::Connection(_)) = &outcome {
            incoming.hang_up();
        }
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
                None if silent_since.elapsed() > SILENCE => {
                    return Err(Error::Connection("the sink is silent".to_owned()));
                }
                None => continue,
            }
            silent_since = Instant::now();
        }
    }

    /// The sender failed: nothing will be answered any more.
    pub fn give_up(&self) {
        self.state().given_up = true;
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

    /// Blocks that may be in flight: a share of what has arrived, or what keeps a link with a long
    /// round trip busy.
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
