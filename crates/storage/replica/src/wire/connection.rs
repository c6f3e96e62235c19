use super::frame::{Frame, FrameError};
use super::message::Message;
use crate::error::Error;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Both directions to the other end.
pub struct Connection {
    /// The sending direction.
    pub out: Outgoing,
    /// The receiving direction.
    pub incoming: Incoming,
}

/// What goes to the other end.
pub struct Outgoing {
    to: Arc<Mutex<Out>>,
    is_inside: bool,
    sent: Arc<AtomicU64>,
}

/// Tells the other end now and then that this one is alive, until dropped.
pub struct Pinger {
    ended: Arc<(Mutex<bool>, Condvar)>,
}

/// What comes from the other end.
pub struct Incoming {
    from: In,
    heard: Arc<AtomicBool>,
}

enum Out {
    Wire(File),
    Channel(SyncSender<Frame>),
}

enum In {
    Wire(io::BufReader<Impatient>),
    Channel(Receiver<Frame>),
}

/// Reads with a time limit: a connection may hang in the middle of a frame.
struct Impatient(File);

/// How often a busy end shows that it is alive.
const PING_EVERY: Duration = Duration::from_secs(3);
/// An end that is silent for this long is gone, even if the network doesn't say so.
pub const SILENCE: Duration = Duration::from_secs(20);

/// Blocks that may wait between two threads of one process.
const CHANNEL_DEPTH: usize = 8;
/// Pipes are made this large if the system allows it: fewer wakeups.
const PIPE_SIZE: usize = 1 << 20;

impl Connection {
    /// Over two descriptors: pipes, or one socket twice.
    pub fn over(incoming: File, out: File) -> Connection {
        for file in [&incoming, &out] {
            // It fails harmlessly if it isn't a pipe.
            let _ = rustix::pipe::fcntl_setpipe_size(file, PIPE_SIZE);
        }
        Connection {
            out: Outgoing::new(Out::Wire(out)),
            incoming: Incoming::new(In::Wire(io::BufReader::with_capacity(
                4096,
                Impatient(incoming),
            ))),
        }
    }

    /// Two connected ends inside this process.
    pub fn pair() -> (Connection, Connection) {
        let (to_second, from_first) = mpsc::sync_channel(CHANNEL_DEPTH);
        let (to_first, from_second) = mpsc::sync_channel(CHANNEL_DEPTH);
        let connection = |to, from| Connection {
            out: Outgoing::new(Out::Channel(to)),
            incoming: Incoming::new(In::Channel(from)),
        };
        (connection(to_second, from_second), connection(to_first, from_first))
    }

    /// Whether the other end is a thread of this process.
    pub fn is_inside(&self) -> bool {
        self.out.is_inside()
    }

    /// Says a message.
    ///
    /// # Errors
    /// The other end is gone.
    pub fn say(&mut self, message: Message) -> Result<(), Error> {
        self.out.send(Frame::Message(message))
    }

    /// Waits for a message, for `patience` at most.
    ///
    /// # Errors
    /// The other end is gone, silent, says that it failed, or sends something else.
    pub fn hear(&mut self, patience: Duration) -> Result<Message, Error> {
        loop {
            match self.incoming.next(patience)? {
                Frame::Message(message) => return Ok(message),
                Frame::Ping => {}
                other => return Err(unexpected(&other)),
            }
        }
    }
}

impl Outgoing {
    fn new(to: Out) -> Outgoing {
        let is_inside = matches!(to, Out::Channel(_));
        Outgoing { to: Arc::new(Mutex::new(to)), is_inside, sent: Arc::default() }
    }

    /// Sends a frame; waits while the other end doesn't take it.
    ///
    /// # Errors
    /// The other end is gone.
    pub fn send(&self, frame: Frame) -> Result<(), Error> {
        match &mut *self.to.lock().unwrap_or_else(PoisonError::into_inner) {
            Out::Channel(channel) => {
                let bytes = match &frame {
                    Frame::Data(block) => block.bytes.len() as u64,
                    _ => 0,
                };
                channel.send(frame).map_err(|_| gone())?;
                self.sent.fetch_add(bytes, Ordering::Relaxed);
            }
            Out::Wire(file) => {
                let (head, body) = frame.encode().map_err(|e| Error::Refused(e.to_string()))?;
                write_both(file, &head, &body).map_err(|e| Error::Connection(e.to_string()))?;
                self.sent.fetch_add((head.len() + body.len()) as u64, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    /// Whether the other end is a thread of this process.
    pub fn is_inside(&self) -> bool {
        self.is_inside
    }

    /// From now on the other end gets something every few seconds, however busy this one is.
    ///
    /// # Errors
    /// There is no thread left for it.
    pub fn ping_while_silent(&self) -> Result<Pinger, Error> {
        let ended = Arc::new((Mutex::new(false), Condvar::new()));
        let pinger = Pinger { ended: Arc::clone(&ended) };
        let (to, sent) = (Arc::clone(&self.to), Arc::clone(&self.sent));
        let ping = move || {
            let mut last = sent.load(Ordering::Relaxed);
            while !is_over(&ended) {
                let now = sent.load(Ordering::Relaxed);
                // While something is being sent, no ping is needed; if it fails, the sender will
                // see why.
                if now == std::mem::replace(&mut last, now)
                    && let Ok(mut to) = to.try_lock()
                {
                    to.ping();
                }
            }
        };
        let started = thread::Builder::new().spawn(ping);
        let failed = |error| Error::Io { doing: "starting a thread that pings".to_owned(), error };
        started.map(|_| pinger).map_err(failed)
    }

    /// Bytes sent so far, with framing.
    pub fn sent(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.sent)
    }
}

impl Out {
    fn ping(&mut self) {
        match self {
            Out::Channel(channel) => drop(channel.try_send(Frame::Ping)),
            Out::Wire(file) => {
                if let Ok((head, body)) = Frame::Ping.encode() {
                    let _ = write_both(file, &head, &body);
                }
            }
        }
    }
}

/// Waits for a while; returns whether the pinger was dropped meanwhile.
fn is_over((ended, changed): &(Mutex<bool>, Condvar)) -> bool {
    let ended = ended.lock().unwrap_or_else(PoisonError::into_inner);
    let waited = changed.wait_timeout_while(ended, PING_EVERY, |ended| !*ended);
    *waited.unwrap_or_else(PoisonError::into_inner).0
}

impl Drop for Pinger {
    fn drop(&mut self) {
        let (ended, changed) = &*self.ended;
        *ended.lock().unwrap_or_else(PoisonError::into_inner) = true;
        changed.notify_all();
    }
}

impl Incoming {
    fn new(from: In) -> Incoming {
        Incoming { from, heard: Arc::default() }
    }

    /// Whether the other end has said anything yet.
    pub fn heard(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.heard)
    }

    /// Ends a connection whose other end is gone, so that nobody waits in vain for room to write to
    /// it. A pipe ends with the program behind it.
    pub fn hang_up(&self) {
        if let In::Wire(reader) = &self.from {
            // It fails harmlessly if it isn't a socket.
            let _ = rustix::net::shutdown(&reader.get_ref().0, rustix::net::Shutdown::Both);
        }
    }

    /// The next frame, waiting for its beginning `patience` at most. A message
    /// that the other end failed becomes the error it is.
    ///
    /// # Errors
    /// The other end is gone, silent, failed, or speaks something else.
    pub fn next(&mut self, patience: Duration) -> Result<Frame, Error> {
        self.next_within(patience)?
            .ok_or_else(|| Error::Connection(format!("nothing came for {} s", patience.as_secs())))
    }

    /// As [`Incoming::next`], but silence is no error.
    ///
    /// # Errors
    /// The other end is gone, failed, or speaks something else.
    pub fn next_within(&mut self, patience: Duration) -> Result<Option<Frame>, Error> {
        let frame = match &mut self.from {
            In::Channel(channel) => match channel.recv_timeout(patience) {
                Ok(frame) => frame,
                Err(RecvTimeoutError::Timeout) => return Ok(None),
                Err(RecvTimeoutError::Disconnected) => return Err(gone()),
            },
            In::Wire(reader) => {
                let broke = |error: io::Error| Error::Connection(error.to_string());
                if reader.buffer().is_empty()
                    && !is_readable(&reader.get_ref().0, patience).map_err(broke)?
                {
                    return Ok(None);
                }
                Frame::read(reader).map_err(|error| match error {
                    FrameError::Gone(error) => Error::Connection(match error.kind() {
                        io::ErrorKind::UnexpectedEof => "the other end is gone".to_owned(),
                        _ => error.to_string(),
                    }),
                    FrameError::Strange(what) => Error::Remote(what),
                })?
            }
        };
        self.heard.store(true, Ordering::Relaxed);
        match frame {
            Frame::Message(Message::Failed { why, passing: true }) => Err(Error::Connection(why)),
            Frame::Message(Message::Failed { why, passing: false }) => Err(Error::Remote(why)),
            frame => Ok(Some(frame)),
        }
    }
}

/// A message that is unexpected here.
pub(crate) fn unexpected(frame: &Frame) -> Error {
    let text: String = format!("{frame:?}").chars().take(80).collect();
    Error::Remote(format!("something unexpected was said: {text}"))
}

fn gone() -> Error {
    Error::Connection("the other end is gone".to_owned())
}

/// One system call for head and body as a rule.
fn write_both(file: &mut File, head: &[u8], body: &[u8]) -> io::Result<()> {
    let pieces = [io::IoSlice::new(head), io::IoSlice::new(body)];
    let written = loop {
        match file.write_vectored(&pieces) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => break other?,
        }
    };
    match written.checked_sub(head.len()) {
        Some(of_body) => file.write_all(body.get(of_body..).unwrap_or_default()),
        None => {
            file.write_all(head.get(written..).unwrap_or_default())?;
            file.write_all(body)
        }
    }
}

impl Read for Impatient {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match is_readable(&self.0, SILENCE)? {
            true => self.0.read(into),
            false => Err(io::Error::other(format!("nothing came for {} s", SILENCE.as_secs()))),
        }
    }
}

/// Whether something comes within `patience`.
pub(crate) fn is_readable(file: impl AsFd, patience: Duration) -> io::Result<bool> {
    let patience = Timespec::try_from(patience).map_err(io::Error::other)?;
    loop {
        match poll(&mut [PollFd::new(&file, PollFlags::IN)], Some(&patience)) {
            Err(Errno::INTR) => {}
            other => return Ok(other? > 0),
        }
    }
}
