//! One direction of a connection: bytes from one socket to the other.

use socket2::Socket;
use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;

/// Bytes read at a time: what a super-packet holds, several times.
pub(crate) const CHUNK: usize = 256 << 10;
/// Chunks that one connection moves before others have their turn.
const ROUNDS: usize = 8;

/// What was read and could not be written yet is kept; only then nothing more is read, so
/// that a slow receiver slows its sender.
#[derive(Debug, Default)]
pub(crate) struct Relay {
    pending: Vec<u8>,
    /// Of `pending`, what is written.
    written: usize,
    ended: Ended,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Ended {
    #[default]
    No,
    /// The sender has said so; it isn't passed on yet.
    Sender,
    Both,
}

/// Why a relay stopped for now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stopped {
    /// The sender has nothing.
    NothingToRead,
    /// The receiver takes nothing.
    NoRoom,
    /// It had its turn.
    Turn,
    /// The direction has ended, and the receiver knows.
    Ended,
    /// The sender was reset, or what amounts to it. What came before is read.
    SenderFailed,
    /// The receiver was.
    ReceiverFailed,
}

impl Relay {
    pub(crate) fn has_ended(&self) -> bool {
        self.ended == Ended::Both
    }

    /// Whether something was read that isn't written yet.
    pub(crate) fn pending(&self) -> usize {
        self.pending.len() - self.written
    }

    /// Moves what can be moved, `scratch` at a time. Gives the bytes written.
    pub(crate) fn run(&mut self, from: &Socket, to: &Socket, scratch: &mut [u8]) -> (u64, Stopped) {
        let mut moved = 0;
        let stopped = self.move_some(from, to, scratch, &mut moved);
        (moved, stopped)
    }

    fn move_some(
        &mut self,
        mut from: &Socket,
        to: &Socket,
        scratch: &mut [u8],
        moved: &mut u64,
    ) -> Stopped {
        for _ in 0..ROUNDS {
            if self.flush(to, moved).is_err() {
                return Stopped::ReceiverFailed;
            }
            if self.pending() > 0 {
                return Stopped::NoRoom;
            }
            match self.ended {
                Ended::No => {}
                Ended::Sender => {
                    if to.shutdown(Shutdown::Write).is_err() {
                        return Stopped::ReceiverFailed;
                    }
                    self.ended = Ended::Both;
                    return Stopped::Ended;
                }
                Ended::Both => return Stopped::Ended,
            }
            match from.read(scratch) {
                Ok(0) => self.ended = Ended::Sender,
                Ok(length) => {
                    let data = scratch.get(..length).unwrap_or_default();
                    if self.pass(data, to, moved).is_err() {
                        return Stopped::ReceiverFailed;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    return Stopped::NothingToRead;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Stopped::SenderFailed,
            }
        }
        Stopped::Turn
    }

    /// As [`run`](Relay::run), of a sender that was reset: what came before goes on, without an
    /// end behind it.
    pub(crate) fn deliver(
        &mut self,
        mut from: &Socket,
        to: &Socket,
        scratch: &mut [u8],
    ) -> (u64, Stopped) {
        let mut moved = 0;
        for _ in 0..ROUNDS {
            if self.flush(to, &mut moved).is_err() {
                return (moved, Stopped::ReceiverFailed);
            }
            if self.pending() > 0 {
                return (moved, Stopped::NoRoom);
            }
            match from.read(scratch) {
                Ok(length) if length > 0 => {
                    let data = scratch.get(..length).unwrap_or_default();
                    if self.pass(data, to, &mut moved).is_err() {
                        return (moved, Stopped::ReceiverFailed);
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Ok(_) | Err(_) => return (moved, Stopped::Ended),
            }
        }
        (moved, Stopped::Turn)
    }

    /// Keeps what was read before there was anybody to write it to.
    pub(crate) fn keep(&mut self, data: &[u8]) {
        self.pending.extend_from_slice(data);
    }

    fn pass(&mut self, data: &[u8], to: &Socket, moved: &mut u64) -> io::Result<()> {
        let written = write(data, to)?;
        *moved += written as u64;
        if let Some(rest) = data.get(written..).filter(|rest| !rest.is_empty()) {
            self.pending.extend_from_slice(rest);
        }
        Ok(())
    }

    fn flush(&mut self, to: &Socket, moved: &mut u64) -> io::Result<()> {
        let Some(rest) = self.pending.get(self.written..).filter(|rest| !rest.is_empty()) else {
            return Ok(());
        };
        let written = write(rest, to)?;
        *moved += written as u64;
        self.written += written;
        if self.written == self.pending.len() {
            // Its memory too: most connections are idle most of the time.
            (self.pending, self.written) = (Vec::new(), 0);
        }
        Ok(())
    }
}

/// As much as there is room for.
fn write(data: &[u8], mut to: &Socket) -> io::Result<usize> {
    let mut written = 0;
    while let Some(rest) = data.get(written..).filter(|rest| !rest.is_empty()) {
        match to.write(rest) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(length) => written += length,
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(written)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    /// A program's end and ours.
    fn pair() -> (TcpStream, Socket) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let ours: Socket = listener.accept().unwrap().0.into();
        ours.set_nonblocking(true).unwrap();
        (near, ours)
    }

    #[test]
    fn all_arrives_in_order_and_its_end_after_it_though_the_receiver_is_slow() {
        let ((mut sender, from), (mut receiver, to)) = (pair(), pair());
        let said: Vec<u8> = (0..30_000_000u32).map(|n| (n / 5) as u8).collect();
        let saying = said.clone();
        let sending = std::thread::spawn(move || {
            sender.write_all(&saying).unwrap();
            sender.shutdown(Shutdown::Write).unwrap();
            sender
        });
        let (mut relay, mut scratch) = (Relay::default(), vec![0; CHUNK]);
        let (mut heard, mut full, mut moved) = (Vec::new(), false, 0);
        let mut buffer = vec![0; 100_000];
        while !relay.has_ended() {
            let (more, stopped) = relay.run(&from, &to, &mut scratch);
            moved += more;
            assert!(relay.pending.len() <= CHUNK, "no more is read than is kept");
            if stopped == Stopped::NoRoom {
                full = true;
                let read = receiver.read(&mut buffer).unwrap();
                heard.extend_from_slice(&buffer[..read]);
            }
        }
        assert!(full, "the receiver's buffer was never full");
        drop((from, to));
        receiver.read_to_end(&mut heard).unwrap();
        assert!(heard == said && moved == said.len() as u64);
        drop(sending.join().unwrap());
    }

    #[test]
    fn a_dead_receiver_is_an_error() {
        let ((mut sender, from), (receiver, to)) = (pair(), pair());
        let gone: Socket = receiver.into();
        gone.set_linger(Some(std::time::Duration::ZERO)).unwrap();
        drop(gone);
        sender.write_all(b"anybody?").unwrap();
        let (mut relay, mut scratch) = (Relay::default(), vec![0; CHUNK]);
        let outcome = loop {
            match relay.run(&from, &to, &mut scratch) {
                (0, Stopped::NothingToRead) => {}
                (_, stopped) => break stopped,
            }
        };
        assert_eq!(outcome, Stopped::ReceiverFailed);
    }

    #[test]
    fn what_came_before_a_reset_goes_on() {
        let ((mut sender, from), (mut receiver, to)) = (pair(), pair());
        let said: Vec<u8> = (0..40_000u32).map(|n| (n / 5) as u8).collect();
        sender.write_all(&said).unwrap();
        while crate::sockets::unread(&from) < said.len() as u64 {}
        let gone: Socket = sender.into();
        gone.set_linger(Some(std::time::Duration::ZERO)).unwrap();
        drop(gone);
        let (mut relay, mut scratch) = (Relay::default(), vec![0; 1000]);
        while relay.run(&from, &to, &mut scratch).1 == Stopped::Turn {}
        let mut moved = 0;
        let stopped = loop {
            let (more, stopped) = relay.deliver(&from, &to, &mut scratch);
            moved += more;
            if stopped != Stopped::Turn {
                break stopped;
            }
        };
        assert_eq!((stopped, moved), (Stopped::Ended, 0), "all was moved before");
        drop((from, to));
        let mut heard = Vec::new();
        receiver.read_to_end(&mut heard).unwrap();
        assert!(heard == said);
    }
}
