//! Relays between two sockets, without copying through this process if the kernel can (splice(2)).

#![allow(unsafe_code)]

use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with};
use socket2::Socket;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Bytes moved at a time, and the size that the pipe in between is enlarged to.
const CHUNK: usize = 256 << 10;

/// Relays both ways until both have ended. The end of one direction is passed on while the other
/// continues, as TCP allows.
///
/// # Errors
/// A side was reset, or can't be relayed to: the other must be [reset](abort), since an orderly end
/// would make truncated data look complete.
pub(crate) fn both_ways(client: &Socket, server: &Socket) -> io::Result<()> {
    let broken = AtomicBool::new(false);
    thread::scope(|scope| {
        let up = thread::Builder::new()
            .stack_size(super::STACK)
            .spawn_scoped(scope, || one_way(client, server, &broken))?;
        let down = one_way(server, client, &broken);
        let up = up.join().unwrap_or_else(|_| Err(io::Error::other("a relay panicked")));
        up.and(down)
    })
}

/// Resets a connection that nobody waits on, so that the other side doesn't take it for closed in
/// order.
pub(crate) fn abort(socket: &Socket) {
    // This ends a connection (connect(2)): with a reset in TCP (tcp(7)), by a fast close in MPTCP.
    let _ = rustix::net::connect_unspec(socket);
}

/// Relays until `from` ends, then ends `to`; a failure stops both directions.
fn one_way(from: &Socket, to: &Socket, broken: &AtomicBool) -> io::Result<()> {
    let relayed = relay(from, to);
    if relayed.is_ok() && !broken.load(Ordering::SeqCst) {
        let _ = to.shutdown(Shutdown::Write);
        return Ok(());
    }
    broken.store(true, Ordering::SeqCst);
    for side in [from, to] {
        // This wakes a reader of that socket; nothing is sent.
        let _ = side.shutdown(Shutdown::Read);
        // This wakes a writer waiting for room: pending data won't get through before the reset
        // anyway.
        if is_full(side) {
            let _ = side.shutdown(Shutdown::Write);
        }
    }
    relayed
}

/// Whether data is waiting to be sent.
fn is_full(socket: &Socket) -> bool {
    let mut waiting: libc::c_int = 0;
    // SAFETY: the pointer is to a live number, as SIOCOUTQ (tcp(7)) wants it.
    let asked = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut waiting) };
    asked == 0 && waiting > 0
}

fn relay(from: &Socket, to: &Socket) -> io::Result<()> {
    let (out, into) = pipe()?;
    loop {
        let moved = match splice(from, &into, CHUNK) {
            Ok(0) => return Ok(()),
            Ok(moved) => moved,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            // This kernel can't splice from such a socket.
            Err(error) if is_unsupported(&error) => return copy(from, to),
            Err(error) => return Err(error),
        };
        let mut left = moved;
        while left > 0 {
            match splice(&out, to, left) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(passed) => left -= passed.min(left),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_unsupported(&error) => {
                    drain(&out, left, to)?;
                    return copy(from, to);
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// Copies through our own buffer.
fn copy(mut from: &Socket, mut to: &Socket) -> io::Result<()> {
    let mut buffer = vec![0; CHUNK];
    loop {
        let length = match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        to.write_all(buffer.get(..length).unwrap_or_default())?;
    }
}

/// Empties the pipe by copying.
fn drain(pipe: &OwnedFd, bytes: usize, mut to: &Socket) -> io::Result<()> {
    let mut pipe = std::fs::File::from(pipe.try_clone()?);
    let mut buffer = vec![0; bytes];
    pipe.read_exact(&mut buffer)?;
    to.write_all(&buffer)
}

fn is_unsupported(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EOPNOTSUPP | libc::ENOSYS))
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (out, into) = pipe_with(PipeFlags::CLOEXEC)?;
    // A smaller pipe is only slower (fs.pipe-max-size may forbid this).
    let _ = fcntl_setpipe_size(&into, CHUNK);
    Ok((out, into))
}

fn splice(from: &impl AsFd, to: &impl AsFd, most: usize) -> io::Result<usize> {
    Ok(rustix::pipe::splice(from, None, to, None, most, SpliceFlags::MOVE)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    fn pair() -> (TcpStream, Socket) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (near, listener.accept().unwrap().0.into())
    }

    #[test]
    fn both_directions_arrive_whole_and_end_apart() {
        let ((mut client, inside), (mut server, outside)) = (pair(), pair());
        let relaying = thread::spawn(move || both_ways(&inside, &outside));
        let question: Vec<u8> = (0..1_000_000u32).map(|n| n as u8).collect();
        let asked = question.clone();
        let asking = thread::spawn(move || {
            client.write_all(&asked).unwrap();
            client.shutdown(Shutdown::Write).unwrap();
            let mut answer = Vec::new();
            client.read_to_end(&mut answer).unwrap();
            answer
        });
        let mut heard = Vec::new();
        server.read_to_end(&mut heard).unwrap();
        assert!(heard == question);
        // The client has ended; the answer may still be sent.
        server.write_all(b"answer").unwrap();
        drop(server);
        assert_eq!(asking.join().unwrap(), b"answer");
        relaying.join().unwrap().unwrap();
    }

    #[test]
    fn a_side_that_breaks_off_resets_the_other() {
        let ((mut client, inside), (mut server, outside)) = (pair(), pair());
        let relaying = thread::spawn(move || {
            both_ways(&inside, &outside).unwrap_err();
            [inside, outside].iter().for_each(abort);
        });
        server.write_all(b"a beginning").unwrap();
        let mut buffer = [0; 11];
        client.read_exact(&mut buffer).unwrap();
        Socket::from(server).set_linger(Some(std::time::Duration::ZERO)).unwrap();
        // Not an end of stream, which would mean that it is complete.
        let broken = client.read(&mut buffer).unwrap_err();
        assert_eq!(broken.kind(), io::ErrorKind::ConnectionReset);
        relaying.join().unwrap();
    }

    #[test]
    fn one_who_reads_nothing_holds_up_no_end() {
        let ((client, inside), (mut server, outside)) = (pair(), pair());
        let relaying = thread::spawn(move || both_ways(&inside, &outside).is_err());
        // Fills every buffer.
        server.set_write_timeout(Some(std::time::Duration::from_millis(500))).unwrap();
        while server.write_all(&[0; 1 << 16]).is_ok() {}
        let server = Socket::from(server);
        server.set_linger(Some(std::time::Duration::ZERO)).unwrap();
        drop(server);
        // It notices that the other is gone only when it sends.
        (&client).write_all(b"x").unwrap();
        assert!(relaying.join().unwrap());
        drop(client);
    }
}
