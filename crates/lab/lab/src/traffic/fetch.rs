//! Objects over a byte stream, in the style of HTTP/1.1: a request is answered by an object, and
//! the connection may be reused.

use super::tcp::{accept, connect, prepare, read_fully, write_fully};
use super::{Setting, only_waited};
use crate::scenario::CongestionControl;
use socket2::Socket;
use std::io::{self, Read};
use std::thread;
use std::time::Instant;

const CHUNK: usize = 64 << 10;
/// Set in a request's size: the client sends the object and gets a byte back.
const UPLOAD: u64 = 1 << 63;
/// Maximum size of an object; protects the server from a broken request.
const LARGEST: u64 = 1_000_000_000;

/// An object that was completely received or sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fetch {
    /// Its size.
    pub bytes: u64,
    /// Time from requesting it to its first byte, in ms, including the connection's handshake if it
    /// is new. `None` for an upload.
    pub first_byte_ms: Option<f64>,
    /// Time to its last byte, in ms; for an upload, to the server's answer.
    pub last_byte_ms: f64,
}

/// The direction of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Down,
    Up,
}

/// The client's end: a connection that is opened when needed.
pub(super) struct Client<'a> {
    congestion: CongestionControl,
    keep_alive: bool,
    setting: &'a Setting<'a>,
    connection: Option<Socket>,
}

impl<'a> Client<'a> {
    /// Must be called in the home's namespace.
    pub(super) fn new(
        congestion: CongestionControl,
        keep_alive: bool,
        setting: &'a Setting<'a>,
    ) -> Self {
        Client { congestion, keep_alive, setting, connection: None }
    }

    /// Fetches (or sends) an object; `None` if it wasn't complete before the stop, or its
    /// connection broke.
    pub(super) fn fetch(
        &mut self,
        bytes: u64,
        direction: Direction,
        record: &(dyn Fn(u64) + Sync),
    ) -> io::Result<Option<Fetch>> {
        let begin = Instant::now();
        let socket = match self.connection.take() {
            Some(socket) => socket,
            None => match connect(self.congestion, self.setting)? {
                Some(socket) => {
                    socket.set_tcp_nodelay(true)?;
                    socket
                }
                None => return Ok(None),
            },
        };
        let mut first = None;
        let complete = match direction {
            Direction::Down => {
                write_fully(&socket, &bytes.to_be_bytes(), self.setting)
                    && receive(&socket, bytes, self.setting, &mut |read| {
                        first.get_or_insert_with(|| begin.elapsed());
                        record(read);
                    })
            }
            Direction::Up => {
                write_fully(&socket, &(bytes | UPLOAD).to_be_bytes(), self.setting)
                    && send(&socket, bytes, self.setting)
                    && read_fully(&socket, &mut [0], self.setting)
            }
        };
        let fetch = complete.then(|| Fetch {
            bytes,
            first_byte_ms: first.map(|time| time.as_secs_f64() * 1e3),
            last_byte_ms: begin.elapsed().as_secs_f64() * 1e3,
        });
        if complete && self.keep_alive {
            self.connection = Some(socket);
        } else if complete {
            // Close it normally, by FIN, as programs do.
            let _ = socket.set_linger(None);
        }
        Ok(fetch)
    }
}

impl Drop for Client<'_> {
    fn drop(&mut self) {
        if let Some(socket) = &self.connection {
            let _ = socket.set_linger(None);
        }
    }
}

/// Serves all connections until the stop.
pub(super) fn serve(
    listener: &Socket,
    record: &(impl Fn(u64) + Sync),
    setting: &Setting<'_>,
) -> io::Result<()> {
    thread::scope(|scope| {
        while let Some(socket) = accept(listener, setting)? {
            scope.spawn(move || serve_one(&socket, record, setting));
        }
        Ok(())
    })
}

fn serve_one(socket: &Socket, record: &impl Fn(u64), setting: &Setting<'_>) {
    if prepare(socket).and_then(|()| socket.set_tcp_nodelay(true)).is_err() {
        return;
    }
    let mut request = [0; 8];
    while read_fully(socket, &mut request, setting) {
        let request = u64::from_be_bytes(request);
        let size = (request & !UPLOAD).min(LARGEST);
        let served = if request & UPLOAD == 0 {
            send(socket, size, setting)
        } else {
            receive(socket, size, setting, &mut |read| record(read))
                && write_fully(socket, &[1], setting)
        };
        if !served {
            return;
        }
    }
}

fn send(socket: &Socket, size: u64, setting: &Setting<'_>) -> bool {
    let data = vec![0x5a; CHUNK];
    let mut left = size;
    while left > 0 {
        let part = usize::try_from(left).unwrap_or(CHUNK).min(CHUNK);
        if !write_fully(socket, data.get(..part).unwrap_or_default(), setting) {
            return false;
        }
        left -= part as u64;
    }
    true
}

fn receive(
    mut socket: &Socket,
    size: u64,
    setting: &Setting<'_>,
    arrived: &mut impl FnMut(u64),
) -> bool {
    let mut buffer = vec![0; CHUNK];
    let mut left = size;
    while left > 0 && !setting.over() {
        let most = usize::try_from(left).unwrap_or(CHUNK).min(CHUNK);
        match socket.read(buffer.get_mut(..most).unwrap_or_default()) {
            Ok(0) => return false,
            Ok(read) => {
                arrived(read as u64);
                left = left.saturating_sub(read as u64);
            }
            Err(error) if only_waited(&error) => {}
            Err(_) => return false,
        }
    }
    left == 0
}
