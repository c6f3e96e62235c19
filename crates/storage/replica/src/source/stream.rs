use super::conversation::Conversation;
use super::kernel::{self, StreamOf};
use super::throttle::Throttle;
use super::{SendOptions, Watch};
use crate::chain::{BLOCK, Chain};
use crate::error::Error;
use crate::folder::Snapshot;
use crate::subvolume::SendOrder;
use crate::wire::{Begin, Block, Connection, Frame, Incoming, Message, SILENCE};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

/// The result of sending one snapshot.
pub(super) struct Attempt {
    /// Bytes sent, with framing, even if it failed.
    pub bytes: u64,
    pub outcome: Result<Done, Error>,
}

pub(super) struct Done {
    pub stream_bytes: u64,
    pub resumed_at: u64,
    pub took: Duration,
}

/// Sends one snapshot, or the rest of it.
pub(super) fn send(
    connection: &mut Connection,
    begin: &Begin,
    snapshot: &Snapshot,
    parent: Option<&Snapshot>,
    options: &SendOptions,
) -> Attempt {
    let counter = connection.out.sent();
    let before = counter.load(Ordering::Relaxed);
    let outcome = send_from_where_it_stopped(connection, begin, snapshot, parent, options);
    Attempt { bytes: counter.load(Ordering::Relaxed) - before, outcome }
}

fn send_from_where_it_stopped(
    connection: &mut Connection,
    begin: &Begin,
    snapshot: &Snapshot,
    parent: Option<&Snapshot>,
    options: &SendOptions,
) -> Result<Done, Error> {
    let began = Instant::now();
    let order = SendOrder {
        parent: parent.map(|parent| parent.about.id),
        kind: begin.stream.kind,
        without_data: false,
    };
    options.watch.expected.store(0, Ordering::Relaxed);
    if options.estimate {
        // Only for the display, so it neither delays nor fails anything.
        let (snapshot, watch) = (snapshot.clone(), Arc::clone(&options.watch));
        let _ = thread::Builder::new().spawn(move || {
            if let Ok(estimate) = kernel::estimate(&snapshot, &order) {
                watch.expected.store(estimate, Ordering::Relaxed);
            }
        });
    }
    connection.say(Message::Begin(begin.clone()))?;
    let ready = |connection: &mut Connection| match connection.hear(SILENCE)? {
        Message::Ready { blocks, chain } => Ok((blocks, Chain::from_bytes(chain))),
        other => Err(crate::wire::unexpected(&Frame::Message(other))),
    };
    loop {
        let has = ready(connection)?;
        let mut stream = StreamOf::begin(snapshot, &order)?;
        let conversation = Conversation::new(&connection.out, has.0);
        options.watch.resumed_at.store(has.0 * BLOCK as u64, Ordering::Relaxed);
        let incoming = &mut connection.incoming;
        let stream_bytes = match discard(&mut stream, has, &options.watch)? {
            false => None,
            true => converse(&mut stream, has, &conversation, incoming, options)?,
        };
        match stream_bytes {
            Some(stream_bytes) => {
                let resumed_at = has.0 * BLOCK as u64;
                return Ok(Done { stream_bytes, resumed_at, took: began.elapsed() });
            }
            None => connection.say(Message::Restart)?,
        }
    }
}

/// Reads what the sink already has; returns whether it is the same.
fn discard(
    stream: &mut StreamOf,
    (blocks, chain): (u64, Chain),
    watch: &Watch,
) -> Result<bool, Error> {
    let mut ours = Chain::default();
    for number in 1..=blocks {
        match stream.next_block()? {
            Some(block) => ours = ours.after(&block),
            None => return Ok(false),
        }
        watch.position.store(number * BLOCK as u64, Ordering::Relaxed);
    }
    Ok(ours == chain)
}

/// Sends the rest while another thread listens; returns the stream's length.
fn converse(
    stream: &mut StreamOf,
    has: (u64, Chain),
    conversation: &Conversation<'_>,
    incoming: &mut Incoming,
    options: &SendOptions,
) -> Result<Option<u64>, Error> {
    let (pushed, heard) = thread::scope(|scope| {
        let listener = scope.spawn(|| conversation.listen(incoming));
        let pushed = push(stream, has, conversation, options);
        if pushed.is_err() {
            conversation.give_up();
        }
        (pushed, listener.join().unwrap_or_else(|_| Err(broken("a thread died"))))
    });
    match (pushed, heard) {
        // The other end's own message says more than a broken pipe.
        (Err(Error::Connection(_)) | Ok(_), Err(told)) => Err(told),
        (pushed, _) => pushed.map(Some),
    }
}

/// Sends the blocks after those that the sink has; returns the stream's length.
fn push(
    stream: &mut StreamOf,
    (has, mut chain): (u64, Chain),
    conversation: &Conversation<'_>,
    options: &SendOptions,
) -> Result<u64, Error> {
    let mut throttle = options.limit.map(Throttle::new);
    let mut blocks = has;
    let mut bytes = has * BLOCK as u64;
    while let Some(block) = stream.next_block()? {
        chain = chain.after(&block);
        blocks += 1;
        bytes += block.len() as u64;
        if let Some(throttle) = &mut throttle {
            throttle.pass(block.len());
        }
        let length = block.len() as u64;
        conversation.send_block(Block { bytes: block, chain: Some(chain) })?;
        options.watch.moved(length, bytes);
    }
    stream.check()?;
    conversation.send(Frame::Message(Message::End { blocks, chain: chain.bytes() }))?;
    Ok(bytes)
}

fn broken(why: &str) -> Error {
    Error::Connection(why.to_owned())
}
