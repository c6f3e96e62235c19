use super::frame::{Frame, FrameError};
use super::message::Message;
use crate::error::Error;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::time::Duration;

/// Both directions to the other end.
pub struct Link {
    /// What is said to it.
    pub out: Outgoing,
    /// What it says.
    pub incoming: Incoming,
}

/// What goes to the other end.
pub struct Outgoing {
    to: Out,
    sent: Arc<AtomicU64>,
}

/// What comes from the other end.
pub struct Incoming(In);

enum Out {
    Wire(File),
    Channel(SyncSender<Frame>),
}

enum In {
    Wire(io::BufReader<File>),
    Channel(Receiver<Frame>),
}

/// Blocks that may wait between two threads of one process.
const CHANNEL_DEPTH: usize = 8;
/// Pipes are made this large where the system lets us: fewer wakeups.
const PIPE_SIZE: libc::c_int = 1 << 20;

impl Link {
    /// Over two descriptors: pipes, or one socket twice.
    pub fn over(incoming: File, out: File) -> Link {
        for file in [&incoming, &out] {
            // SAFETY: no pointers; it fails harmlessly where it is no pipe.
            unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETPIPE_SZ, PIPE_SIZE) };
        }
        Link {
            out: Outgoing { to: Out::Wire(out), sent: Arc::default() },
            incoming: Incoming(In::Wire(io::BufReader::with_capacity(4096, incoming))),
        }
    }

    /// Two links that end in each other, inside this process.
    pub fn pair() -> (Link, Link) {
        let (to_second, from_first) = mpsc::sync_channel(CHANNEL_DEPTH);
        let (to_first, from_second) = mpsc::sync_channel(CHANNEL_DEPTH);
        let link = |to, from| Link {
            out: Outgoing { to: Out::Channel(to), sent: Arc::default() },
            incoming: Incoming(In::Channel(from)),
        };
        (link(to_second, from_second), link(to_first, from_first))
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

    /// Waits for a message, in vain for `patience` at most.
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
    /// Sends a frame; waits while the other end doesn't take it.
    ///
    /// # Errors
    /// The other end is gone.
    pub fn send(&mut self, frame: Frame) -> Result<(), Error> {
        match &mut self.to {
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
        matches!(self.to, Out::Channel(_))
    }

    /// Bytes sent so far, with what frames them.
    pub fn sent(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.sent)
    }
}

impl Incoming {
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
        let frame = match &mut self.0 {
            In::Channel(channel) => match channel.recv_timeout(patience) {
                Ok(frame) => frame,
                Err(RecvTimeoutError::Timeout) => return Ok(None),
                Err(RecvTimeoutError::Disconnected) => return Err(gone()),
            },
            In::Wire(reader) => {
                if reader.buffer().is_empty() && !is_readable(reader.get_ref(), patience)? {
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
        match frame {
            Frame::Message(Message::Failed { why, passing: true }) => Err(Error::Connection(why)),
            Frame::Message(Message::Failed { why, passing: false }) => Err(Error::Remote(why)),
            frame => Ok(Some(frame)),
        }
    }
}

/// Something was said that has no place here.
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

fn is_readable(file: &File, patience: Duration) -> Result<bool, Error> {
    let millis = libc::c_int::try_from(patience.as_millis()).unwrap_or(libc::c_int::MAX);
    let mut wait = libc::pollfd { fd: file.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    loop {
        // SAFETY: one structure, which outlives the call.
        match unsafe { libc::poll(&raw mut wait, 1, millis) } {
            0 => return Ok(false),
            count if count > 0 => return Ok(true),
            _ => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(Error::Connection(error.to_string()));
                }
            }
        }
    }
}
