//! UDP between real sockets: batches, addresses, MTU, links.

#![allow(unsafe_code)]

mod namespaces;

use braid_linux::netlink::Netlink;
use braid_linux::udp::{Family, LinkBind, LinkSocket, ReceiveBuffers, SendError, Transmit};
use namespaces::namespace;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;
use std::process::Command;
use std::time::{Duration, Instant};

#[test]
fn batches_arrive_as_the_datagrams_they_were_made_of() {
    for (family, address) in [(Family::V4, "127.0.0.1"), (Family::V6, "::1")] {
        in_namespace(|| {
            let (near, far) = (open(family), open(family));
            let to = at(address, &far);
            let batch: Vec<u8> = (0..100_000_u32).map(|i| (i / 1400) as u8).collect();
            near.send(&transmit(to, &batch, Some(1400))).unwrap();
            assert!(near.segments_in_kernel(), "loopback can");
            let got = receive(&far, batch.len());
            assert_eq!(got.len(), batch.len().div_ceil(1400));
            for (i, datagram) in got.iter().enumerate() {
                assert_eq!(datagram.bytes.len(), if i < 71 { 1400 } else { 600 });
                assert!(datagram.bytes.iter().all(|&byte| byte == i as u8));
                assert_eq!(datagram.remote, at(address, &near));
                assert_eq!(datagram.local, Some(address.parse().unwrap()));
            }
        });
    }
}

#[test]
fn where_segmentation_fails_the_whole_batch_still_goes() {
    in_namespace(|| {
        let (near, far) = (open(Family::V4), open(Family::V4));
        let batch: Vec<u8> = (0..100_000_u32).map(|i| (i / 1000) as u8).collect();
        let send = |segments: bool| {
            near.send(&transmit(at("127.0.0.1", &far), &batch, Some(1000))).unwrap();
            let got = receive(&far, batch.len());
            let bytes: Vec<u8> = got.iter().flat_map(|datagram| datagram.bytes.clone()).collect();
            assert!(bytes == batch && got.len() == 100, "{} datagrams", got.len());
            assert_eq!(near.segments_in_kernel(), segments);
        };
        send(true);
        // The kernel refuses to segment for sockets that want no checksums: EINVAL.
        set_checksums(&near, false);
        send(false);
        set_checksums(&near, true);
        send(false);
    });
}

#[test]
fn nothing_is_fragmented_and_too_long_is_told() {
    in_namespace(|| {
        Netlink::open().unwrap().set_mtu("lo", 1280).unwrap();
        for (family, address, fits) in [(Family::V4, "127.0.0.1", 1252), (Family::V6, "::1", 1232)]
        {
            let (near, far) = (open(family), open(family));
            let to = at(address, &far);
            near.send(&transmit(to, &vec![1; fits], None)).unwrap();
            let error = near.send(&transmit(to, &vec![1; fits + 1], None)).unwrap_err();
            assert!(matches!(error, SendError::TooLong(_)), "{error}");
            let batch = vec![1; 4 * (fits + 1)];
            let error = near.send(&transmit(to, &batch, Some(fits + 1))).unwrap_err();
            assert!(matches!(error, SendError::TooLong(_)), "{error}");
            assert!(near.segments_in_kernel(), "the length was at fault, not segmentation");
        }
    });
}

#[test]
fn the_answer_comes_from_the_address_that_was_asked_and_carries_ecn() {
    for (family, mask, first, second) in
        [(Family::V4, 32, "10.1.0.1", "10.1.0.2"), (Family::V6, 128, "fd00::1", "fd00::2")]
    {
        in_namespace(|| {
            for address in [first, second] {
                ip(&format!("addr add {address}/{mask} dev lo nodad"));
                wait_until_usable(address);
            }
            let (client, server) = (open(family), open(family));
            for asked in [first, second] {
                client.send(&transmit(at(asked, &server), b"?", None)).unwrap();
                let question = receive(&server, 1).remove(0);
                assert_eq!(question.local, Some(asked.parse().unwrap()));
                let answer = Transmit {
                    local: question.local,
                    traffic_class: 0x03,
                    ..transmit(question.remote, b"!", None)
                };
                server.send(&answer).unwrap();
                let answer = receive(&client, 1).remove(0);
                assert_eq!(answer.remote, at(asked, &server));
                assert_eq!(answer.traffic_class, 0x03);
            }
        });
    }
}

#[test]
fn a_socket_bound_to_a_device_leaves_by_it_or_not_at_all() {
    let Some(peer) = namespace() else { return };
    in_namespace(|| {
        let mut netlink = Netlink::open().unwrap();
        for n in [1, 2] {
            netlink.add_veth(&format!("link{n}"), &format!("peer{n}"), Some(&peer)).unwrap();
            ip(&format!("addr add 10.0.{n}.1/24 dev link{n}"));
            netlink.set_up(&format!("link{n}")).unwrap();
        }
        peer.run(|| {
            for n in [1, 2] {
                ip(&format!("addr add 10.0.{n}.2/24 dev peer{n}"));
                ip(&format!("link set peer{n} up"));
            }
        })
        .unwrap();
        let server = peer.run(|| open(Family::V4)).unwrap();
        let to = at("10.0.2.2", &server);
        let bound = |device: &str| {
            let device = Some(device.to_owned());
            LinkSocket::open(&LinkBind { device, ..any(Family::V4) }).unwrap()
        };
        bound("link2").send(&transmit(to, b"second", None)).unwrap();
        assert_eq!(
            receive(&server, 6).remove(0).remote.ip(),
            "10.0.2.1".parse::<IpAddr>().unwrap()
        );
        // The routes know the peer behind the second link only.
        bound("link1").send(&transmit(to, b"first", None)).unwrap();
        let first = receive(&server, 5).remove(0);
        assert_eq!(
            (first.remote.ip(), &first.bytes[..]),
            ("10.0.1.1".parse().unwrap(), &b"first"[..])
        );

        netlink.set_down("link1").unwrap();
        let error = bound("link1").send(&transmit(to, b"down", None)).unwrap_err();
        assert!(matches!(error, SendError::Unreachable(_)), "{error}");
        let missing = LinkBind { device: Some("link3".into()), ..any(Family::V4) };
        let error = LinkSocket::open(&missing).unwrap_err();
        assert!(error.to_string().contains("'link3'"), "{error}");
    });
}

#[test]
fn a_source_address_that_is_not_ours_is_an_error() {
    in_namespace(|| {
        let bind = LinkBind { source: Some("192.0.2.1".parse().unwrap()), ..any(Family::V4) };
        let error = LinkSocket::open(&bind).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::AddrNotAvailable);
        let bind = LinkBind { source: Some("::1".parse().unwrap()), ..any(Family::V4) };
        assert_eq!(LinkSocket::open(&bind).unwrap_err().kind(), std::io::ErrorKind::InvalidInput);
    });
}

struct Got {
    remote: SocketAddr,
    local: Option<IpAddr>,
    traffic_class: u8,
    bytes: Vec<u8>,
}

/// Receives until `expected` bytes are there; fails after some seconds.
fn receive(socket: &LinkSocket, expected: usize) -> Vec<Got> {
    let mut buffers = ReceiveBuffers::new();
    let mut got: Vec<Got> = Vec::new();
    let deadline = Instant::now() + Duration::from_secs(10);
    while got.iter().map(|datagram| datagram.bytes.len()).sum::<usize>() < expected {
        assert!(Instant::now() < deadline, "only {} datagrams arrived", got.len());
        let received = socket
            .receive(&mut buffers, |datagram| {
                got.push(Got {
                    remote: datagram.remote,
                    local: datagram.local,
                    traffic_class: datagram.traffic_class,
                    bytes: datagram.bytes.to_vec(),
                });
            })
            .unwrap();
        if received.datagrams == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    got
}

/// The kernel finishes a new IPv6 address in the background; what is sent to it
/// before that is lost.
fn wait_until_usable(address: &str) {
    let socket = std::net::UdpSocket::bind((address, 0)).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
    let here = socket.local_addr().unwrap();
    let arrives = || socket.send_to(b"x", here).is_ok() && socket.recv(&mut [0]).is_ok();
    assert!((0..500).any(|_| arrives()), "{address} is not usable");
}

fn any(family: Family) -> LinkBind {
    LinkBind { device: None, source: None, fwmark: None, port: 0, family }
}

fn open(family: Family) -> LinkSocket {
    LinkSocket::open(&any(family)).unwrap()
}

fn at(address: &str, socket: &LinkSocket) -> SocketAddr {
    SocketAddr::new(address.parse().unwrap(), socket.local_address().unwrap().port())
}

fn transmit(remote: SocketAddr, contents: &[u8], segment_size: Option<usize>) -> Transmit<'_> {
    Transmit { remote, local: None, traffic_class: 0, contents, segment_size }
}

fn ip(arguments: &str) {
    let status = Command::new("ip").args(arguments.split(' ')).status().unwrap();
    assert!(status.success(), "ip {arguments}");
}

fn set_checksums(socket: &LinkSocket, on: bool) {
    let without = i32::from(!on);
    // SAFETY: pointer and length describe `without`.
    let set = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_NO_CHECK,
            (&raw const without).cast(),
            4,
        )
    };
    assert_eq!(set, 0);
}

fn in_namespace(test: impl FnOnce() + Send) {
    if let Some(namespace) = namespace() {
        namespace.run(test).unwrap();
    }
}
