//! Several sockets at one address, to each of which the kernel gives what is for its owner
//! (socket(7): `SO_REUSEPORT`, `SO_ATTACH_REUSEPORT_CBPF`).

use super::{LinkBind, LinkSocket, bind_to_address};
use crate::sys;
use std::io;
use std::mem;
use std::num::NonZeroU8;
use std::os::fd::AsRawFd;

/// Which of several sockets gets a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steering {
    /// Datagrams that begin with this byte...
    pub first_byte: u8,
    /// ...go to the socket whose number is the byte at this place, divided by how many
    /// sockets there are, what is left; others to the first one.
    pub by_byte_at: u8,
}

impl LinkSocket {
    /// As [`Self::open`], so many sockets at one address. Whoever isn't one of them can't have
    /// the address before and hardly after: only processes of the same user could join them.
    ///
    /// # Errors
    /// As for [`Self::open`]. A kernel without steering gives any of them anything.
    pub fn open_steered(
        bind: &LinkBind,
        count: NonZeroU8,
        steering: Steering,
    ) -> io::Result<Vec<LinkSocket>> {
        let first = LinkSocket::open(bind)?;
        if count.get() == 1 {
            return Ok(vec![first]);
        }
        // It would share the address with another program that lets it; this one doesn't.
        let bind = LinkBind { port: first.local_address()?.port(), ..bind.clone() };
        drop(first);
        let mut sockets = Vec::with_capacity(usize::from(count.get()));
        for _ in 0..count.get() {
            let socket = LinkSocket::unbound(&bind)?;
            sys::set_option(&socket.fd, libc::SOL_SOCKET, libc::SO_REUSEPORT, 1)?;
            bind_to_address(&socket.fd, &bind)?;
            if sockets.is_empty() {
                // Linux 4.5; without it they are chosen by addresses.
                let _ = attach(&socket, &steering.program(count));
            }
            sockets.push(socket);
        }
        Ok(sockets)
    }
}

impl Steering {
    /// The datagram begins at 0; what it gives is the number of a socket, in the order in
    /// which they were bound. A load beyond the datagram's end gives 0.
    fn program(self, count: NonZeroU8) -> [libc::sock_filter; 6] {
        let (load_byte, jump_if_equal) =
            (libc::BPF_LD | libc::BPF_B | libc::BPF_ABS, libc::BPF_JMP | libc::BPF_JEQ);
        let instruction = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
        [
            instruction(load_byte, 0, 0, 0),
            instruction(jump_if_equal | libc::BPF_K, 0, 3, u32::from(self.first_byte)),
            instruction(load_byte, 0, 0, u32::from(self.by_byte_at)),
            instruction(libc::BPF_ALU | libc::BPF_MOD | libc::BPF_K, 0, 0, u32::from(count.get())),
            instruction(libc::BPF_RET | libc::BPF_A, 0, 0, 0),
            instruction(libc::BPF_RET | libc::BPF_K, 0, 0, 0),
        ]
    }
}

fn attach(socket: &LinkSocket, program: &[libc::sock_filter]) -> io::Result<()> {
    let program = libc::sock_fprog {
        len: program.len() as libc::c_ushort,
        filter: program.as_ptr().cast_mut(),
    };
    // SAFETY: the option reads one `struct sock_fprog` and the instructions that it points to,
    // both of which outlive the call.
    sys::check(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_REUSEPORT_CBPF,
            (&raw const program).cast(),
            mem::size_of::<libc::sock_fprog>() as libc::socklen_t,
        )
    })
    .map(drop)
}

#[cfg(test)]
mod tests {
    use super::super::{Family, ReceiveBuffers, Transmit};
    use super::*;
    use std::net::{Ipv4Addr, SocketAddr};
    use std::time::{Duration, Instant};

    const STEERING: Steering = Steering { first_byte: 4, by_byte_at: 3 };

    fn here(port: u16) -> LinkBind {
        let source = Some(Ipv4Addr::LOCALHOST.into());
        LinkBind { device: None, source, fwmark: None, port, family: Family::V4 }
    }

    #[test]
    fn each_socket_gets_what_is_for_it() {
        let count = NonZeroU8::new(3).unwrap();
        let sockets = LinkSocket::open_steered(&here(0), count, STEERING).unwrap();
        let to = sockets[0].local_address().unwrap();
        assert!(sockets.iter().all(|socket| socket.local_address().unwrap() == to));
        let sender = LinkSocket::open(&here(0)).unwrap();
        let send = |contents: &[u8]| {
            let transmit = Transmit {
                remote: to,
                local: None,
                traffic_class: 0,
                contents,
                segment_size: None,
            };
            sender.send(&transmit).unwrap();
        };
        for number in 0..9 {
            send(&[4, 9, 9, number, 1]);
        }
        // Of others, and too short ones.
        for short in [&[1, 9, 9, 2, 1][..], &[4, 9], &[7]] {
            send(short);
        }
        let mut got = vec![Vec::new(); 3];
        let began = Instant::now();
        while got.iter().map(Vec::len).sum::<usize>() < 12 {
            assert!(began.elapsed() < Duration::from_secs(10), "{got:?}");
            for (socket, got) in sockets.iter().zip(&mut got) {
                let _ = socket.receive(&mut ReceiveBuffers::new(), |datagram| {
                    got.push(datagram.bytes.to_vec());
                });
            }
        }
        for (number, got) in got.iter().enumerate() {
            let steered: Vec<u8> =
                got.iter().filter(|it| it.len() == 5 && it[0] == 4).map(|it| it[3]).collect();
            let number = number as u8;
            assert_eq!(steered, [number, number + 3, number + 6]);
            assert_eq!(got.len(), if number == 0 { 6 } else { 3 });
        }
    }

    #[test]
    fn an_address_that_somebody_has_is_refused() {
        let taken = LinkSocket::open(&here(0)).unwrap();
        let SocketAddr::V4(at) = taken.local_address().unwrap() else { unreachable!() };
        let count = NonZeroU8::new(2).unwrap();
        let refused = LinkSocket::open_steered(&here(at.port()), count, STEERING);
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::AddrInUse);

        let ours = LinkSocket::open_steered(&here(0), count, STEERING).unwrap();
        let port = ours[0].local_address().unwrap().port();
        let refused = LinkSocket::open_steered(&here(port), count, STEERING);
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::AddrInUse);
    }
}
