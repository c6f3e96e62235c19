//! Several sockets bound to one address; the kernel delivers each datagram to the socket of its
//! owner (socket(7): `SO_REUSEPORT`, `SO_ATTACH_REUSEPORT_CBPF`).

#![allow(unsafe_code)]

use super::{LinkBind, LinkSocket, UDP_GRO, bind_to_address, set_receive_buffer};
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
    /// ...go to the socket whose number is the byte at this offset modulo the number of sockets;
    /// others go to a separate socket.
    pub by_byte_at: u8,
}

/// Sockets at one address.
#[derive(Debug)]
pub struct Steered {
    /// One per owner.
    pub owned: Vec<LinkSocket>,
    /// Receives the datagrams that belong to no owner. Its buffer is small: filling it takes no
    /// room from the owners, and the kernel drops the excess cheaply. `None` if the kernel doesn't
    /// support steering: then the owners' sockets get them.
    pub others: Option<LinkSocket>,
}

/// Some hundred datagrams, counted as the kernel counts (with its overhead).
const OTHERS_BUFFER: libc::c_int = 512 << 10;

impl LinkSocket {
    /// Like [`Self::open`], but opens this many sockets at one address, and one for datagrams that
    /// belong to none of them. The address must be free, and afterwards only processes of the same
    /// user could join it.
    ///
    /// # Errors
    /// As for [`Self::open`]. Without kernel support for steering, any socket may get any datagram.
    pub fn open_steered(
        bind: &LinkBind,
        count: NonZeroU8,
        steering: Steering,
    ) -> io::Result<Steered> {
        let first = LinkSocket::open(bind)?;
        // `SO_REUSEPORT` would share the address with another program that allows it; this socket
        // doesn't.
        let bind = LinkBind { port: first.local_address()?.port(), ..bind.clone() };
        drop(first);
        let first = LinkSocket::one_of_several(&bind)?;
        // Since Linux 4.5; before, the kernel chooses sockets by addresses.
        let steers = attach(&first, &steering.program(count)).is_ok();
        let mut owned = vec![first];
        for _ in 1..count.get() {
            owned.push(LinkSocket::one_of_several(&bind)?);
        }
        let others = steers.then(|| -> io::Result<LinkSocket> {
            let others = LinkSocket::one_of_several(&bind)?;
            set_receive_buffer(&others.fd, OTHERS_BUFFER)?;
            // With GRO, many would count as one.
            let _ = sys::set_option(&others.fd, libc::SOL_UDP, UDP_GRO, 0);
            Ok(others)
        });
        Ok(Steered { owned, others: others.transpose()? })
    }

    /// Its number is the number of sockets bound before.
    fn one_of_several(bind: &LinkBind) -> io::Result<LinkSocket> {
        let socket = LinkSocket::unbound(bind)?;
        sys::set_option(&socket.fd, libc::SOL_SOCKET, libc::SO_REUSEPORT, 1)?;
        bind_to_address(&socket.fd, bind)?;
        Ok(socket)
    }
}

impl Steering {
    /// Offset 0 is the start of the datagram; the result is the number of a socket, in the order of
    /// binding. A load beyond the datagram's end gives 0.
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
            instruction(libc::BPF_RET | libc::BPF_K, 0, 0, u32::from(count.get())),
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
        let Steered { owned: mut sockets, others } =
            LinkSocket::open_steered(&here(0), count, STEERING).unwrap();
        sockets.extend(others);
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
        // Foreign and too short datagrams.
        for short in [&[1, 9, 9, 2, 1][..], &[4, 9], &[7]] {
            send(short);
        }
        let mut got = vec![Vec::new(); 4];
        let began = Instant::now();
        while got.iter().map(Vec::len).sum::<usize>() < 12 {
            assert!(began.elapsed() < Duration::from_secs(10), "{got:?}");
            for (socket, got) in sockets.iter().zip(&mut got) {
                let _ = socket.receive(&mut ReceiveBuffers::new(), |datagram| {
                    got.push(datagram.bytes.to_vec());
                });
            }
        }
        let others = got.pop().unwrap();
        for (number, got) in got.iter().enumerate() {
            let is_short = |it: &&Vec<u8>| it.len() < 5;
            let steered: Vec<u8> = got.iter().filter(|it| !is_short(it)).map(|it| it[3]).collect();
            let number = number as u8;
            assert_eq!(steered, [number, number + 3, number + 6]);
            // One that ends before the owner's byte.
            assert_eq!(got.iter().filter(is_short).count(), usize::from(number == 0));
        }
        assert_eq!(others, [&[1, 9, 9, 2, 1][..], &[7]]);
    }

    #[test]
    fn who_floods_fills_a_buffer_of_his_own() {
        let count = NonZeroU8::MIN;
        let Steered { owned, others } =
            LinkSocket::open_steered(&here(0), count, STEERING).unwrap();
        let to = owned[0].local_address().unwrap();
        let sender = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        // More than either buffer holds.
        for _ in 0..40_000 {
            sender.send_to(&[1; 416], to).unwrap();
        }
        sender.send_to(&[4, 9, 9, 0, 1], to).unwrap();
        let mut received = Vec::new();
        let began = Instant::now();
        while received.is_empty() {
            assert!(began.elapsed() < Duration::from_secs(10), "nothing came");
            let mut buffers = ReceiveBuffers::new();
            let _ = owned[0].receive(&mut buffers, |it| received.push(it.bytes.to_vec()));
        }
        assert_eq!(received, [[4, 9, 9, 0, 1]]);
        // One at a time, and not all that were sent.
        let others = others.expect("this kernel has steering");
        let mut buffers = ReceiveBuffers::new();
        let mut kept = 0;
        while others.receive(&mut buffers, |_| kept += 1).unwrap().more {}
        assert!((1..20_000).contains(&kept), "{kept}");
    }

    #[test]
    fn an_address_that_somebody_has_is_refused() {
        let taken = LinkSocket::open(&here(0)).unwrap();
        let SocketAddr::V4(at) = taken.local_address().unwrap() else { unreachable!() };
        let count = NonZeroU8::new(2).unwrap();
        let refused = LinkSocket::open_steered(&here(at.port()), count, STEERING);
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::AddrInUse);

        let ours = LinkSocket::open_steered(&here(0), count, STEERING).unwrap();
        let port = ours.owned[0].local_address().unwrap().port();
        let refused = LinkSocket::open_steered(&here(port), count, STEERING);
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::AddrInUse);
    }
}
