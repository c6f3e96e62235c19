//! Receives packets with the time at which the kernel got them (socket(7), `SO_TIMESTAMPNS`), like
//! ping(8): how long the program then waits for a processor isn't the network's delay.

#![allow(unsafe_code)]

use socket2::Socket;
use std::io;
use std::mem;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant, SystemTime};

/// Makes the kernel record packets' arrival times.
///
/// # Errors
/// Errors of setsockopt(2).
pub(super) fn note_arrivals(socket: &Socket) -> io::Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: pointer and length describe `on`.
    let set = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_TIMESTAMPNS,
            (&raw const on).cast(),
            mem::size_of_val(&on) as libc::socklen_t,
        )
    };
    if set < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Receives a packet; returns its length and arrival time.
///
/// # Errors
/// Errors of recvmsg(2).
pub(super) fn receive(socket: &Socket, buffer: &mut [u8]) -> io::Result<(usize, Instant)> {
    #[repr(align(8))]
    struct Control([u8; 64]);
    let mut control = Control([0; 64]);
    let mut body = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: all-zero is a valid msghdr.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = &raw mut body;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = control.0.len() as _;
    // SAFETY: the message points to live locals and to `buffer`.
    let length = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, 0) };
    let length = usize::try_from(length).map_err(|_| io::Error::last_os_error())?;
    let (now, clock) = (Instant::now(), SystemTime::now());
    let age = stamp(&message).and_then(|at| clock.duration_since(at).ok()).unwrap_or_default();
    Ok((length, now.checked_sub(age).unwrap_or(now)))
}

fn stamp(message: &libc::msghdr) -> Option<SystemTime> {
    // SAFETY: the kernel filled the message's control buffer, which still lives;
    // the macros stay within the length that it noted.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(message);
        while let Some(found) = header.as_ref() {
            if found.cmsg_level == libc::SOL_SOCKET && found.cmsg_type == libc::SCM_TIMESTAMPNS {
                let time: libc::timespec =
                    libc::CMSG_DATA(header).cast::<libc::timespec>().read_unaligned();
                let since =
                    Duration::new(time.tv_sec.try_into().ok()?, time.tv_nsec.try_into().ok()?);
                return Some(SystemTime::UNIX_EPOCH + since);
            }
            header = libc::CMSG_NXTHDR(message, header);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use socket2::{Domain, Type};
    use std::net::UdpSocket;

    #[test]
    fn the_time_is_that_of_arrival_not_of_reading() {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, None).expect("a socket");
        let any: std::net::SocketAddr = "127.0.0.1:0".parse().expect("an address");
        socket.bind(&any.into()).expect("a port");
        note_arrivals(&socket).expect("time stamps");
        let to = socket.local_addr().expect("bound").as_socket().expect("of IP");
        let sender = UdpSocket::bind(any).expect("a sender");
        // A kernel that hasn't been timestamping starts a little after it is asked.
        let stamped = (0..50).any(|_| {
            sender.send_to(b"x", to).expect("sent");
            std::thread::sleep(Duration::from_millis(30));
            let read = Instant::now();
            let (length, at) = receive(&socket, &mut [0; 8]).expect("received");
            assert_eq!(length, 1);
            // From two clocks, of which one may have been set meanwhile, so only roughly.
            at + Duration::from_millis(10) < read
        });
        assert!(stamped, "the time is always that of reading");
    }
}
