//! TUN and TAP devices with the kernel's own traffic.

mod namespaces;

use braid_inner::{InnerPacket, Layer, SegmentationKind};
use braid_linux::netlink::Netlink;
use braid_linux::netns::NetNs;
use braid_linux::poller::{Interest, Poller, Token};
use braid_linux::tun::{OffloadChoice, Offloads, Tun};
use namespaces::namespace;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const BYTES: usize = 4 << 20;

/// What the pump between two devices has seen.
#[derive(Default)]
struct Seen {
    supers: u64,
    kinds: Vec<SegmentationKind>,
    longest: usize,
}

#[test]
fn tcp_crosses_as_super_packets() {
    for v6 in [false, true] {
        let Some((seen, ends)) = tcp_through(Layer::L3, OffloadChoice::Best, v6) else { return };
        assert!(ends.iter().all(|end| end.offloads() >= Offloads::Tcp));
        assert!(seen.supers > 0, "TSO was on, so the kernel gave super-packets");
        assert!(seen.longest > 10_000, "longest {}", seen.longest);
        let kind = if v6 { SegmentationKind::TcpV6 } else { SegmentationKind::TcpV4 };
        assert!(seen.kinds.iter().all(|&seen| seen == kind));
        assert_eq!(ends.map(|end| end.counters()), [Default::default(); 2]);
    }
}

#[test]
fn tcp_crosses_without_offloads() {
    let Some((seen, ends)) = tcp_through(Layer::L3, OffloadChoice::Off, false) else { return };
    assert!(ends.iter().all(|end| end.offloads() == Offloads::Off));
    assert_eq!((seen.supers, seen.longest), (0, 1500));
}

#[test]
fn ethernet_frames_cross_a_tap() {
    let Some((seen, _)) = tcp_through(Layer::L2, OffloadChoice::Best, false) else { return };
    assert!(seen.supers > 0);
}

#[test]
fn super_packets_are_cut_for_an_end_without_offloads() {
    let Some((seen, ends)) =
        tcp_between(Layer::L3, [OffloadChoice::Best, OffloadChoice::Off], false)
    else {
        return;
    };
    assert!(seen.supers > 0);
    assert!(ends[1].counters().cut_in_software > 0);
    assert_eq!(ends[1].counters().refused, 0);
}

#[test]
fn the_device_takes_its_settings_and_counts_what_it_drops() {
    let Some(namespace) = namespace() else { return };
    namespace
        .run(|| {
            let mut tun = Tun::open("braid%d", Layer::L3, OffloadChoice::Best).unwrap();
            assert_eq!(tun.name(), "braid0");
            tun.set_mtu(65_535).unwrap();
            tun.set_queue_length(5).unwrap();
            tun.bring_up().unwrap();
            let link = Netlink::open().unwrap().link("braid0").unwrap();
            assert_eq!((link.mtu, link.up), (65_535, true));
            assert!(tun.set_mtu(65_536).is_err());

            ip("addr add 10.0.0.1/24 dev braid0");
            let socket = std::net::UdpSocket::bind("10.0.0.1:0").unwrap();
            let before = tun.dropped().unwrap();
            for _ in 0..100 {
                let _ = socket.send_to(b"x", "10.0.0.2:9");
            }
            assert!(tun.dropped().unwrap() > before);

            let busy = Tun::open("braid0", Layer::L3, OffloadChoice::Best).err().unwrap();
            assert_eq!(busy.raw_os_error(), Some(libc_ebusy()));
            drop(tun);
            assert!(Netlink::open().unwrap().link("braid0").is_err(), "gone with its owner");
        })
        .unwrap();
}

#[test]
fn a_device_goes_on_with_who_holds_it() {
    let Some(namespace) = namespace() else { return };
    namespace
        .run(|| {
            let mut netlink = Netlink::open().unwrap();
            let first = Tun::open("tun7", Layer::L3, OffloadChoice::Best).unwrap();
            let (hold, offloads) = (first.hold().unwrap(), first.offloads());
            let index = netlink.link("tun7").unwrap().index;
            drop(first);
            let second = Tun::adopt(hold, Layer::L3, OffloadChoice::Best).unwrap();
            assert_eq!((second.name(), second.offloads()), ("tun7", offloads));
            assert_eq!(netlink.link("tun7").unwrap().index, index, "the same device");
            let hold = second.hold().unwrap();
            drop(second);
            let of_ethernet = Tun::adopt(hold, Layer::L2, OffloadChoice::Best);
            assert_eq!(of_ethernet.err().unwrap().kind(), std::io::ErrorKind::InvalidInput);
            is_gone("tun7");
            let no_device = std::fs::File::open("/dev/null").unwrap().into();
            assert!(Tun::adopt(no_device, Layer::L3, OffloadChoice::Best).is_err());
        })
        .unwrap();
}

#[test]
fn what_answers_a_flow_comes_to_the_queue_that_the_flow_is_written_by() {
    let Some(namespace) = namespace() else { return };
    namespace
        .run(|| {
            let first = Tun::open_multi_queue("tun8", Layer::L3, OffloadChoice::Best).unwrap();
            let mut others = vec![first.another_queue().unwrap(), first.another_queue().unwrap()];
            assert!(Tun::is_multi_queue(&first).unwrap());
            let mut queues = vec![first];
            queues.append(&mut others);
            queues[0].bring_up().unwrap();
            ip("addr add 10.0.0.1/24 dev tun8");
            let server = std::net::UdpSocket::bind("10.0.0.1:4001").unwrap();
            server.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            for port in 5000..5030_u16 {
                let by = usize::from(port % 3);
                queues[by].write(&datagram(port, 4001)).unwrap();
                let (_, from) = server.recv_from(&mut [0; 100]).unwrap();
                server.send_to(b"answer", from).unwrap();
                let mut bytes = Vec::new();
                // The kernel sends IPv6 packets, too.
                while bytes.first() != Some(&0x45) {
                    assert!(queues[by].read(&mut bytes).unwrap().is_some(), "port {port}");
                }
                assert_eq!(bytes[22..24], port.to_be_bytes());
            }
            // Neither another program's, nor one of a device that has one.
            assert!(Tun::open_multi_queue("tun8", Layer::L3, OffloadChoice::Best).is_err());
            assert!(Tun::open("tun8", Layer::L3, OffloadChoice::Best).is_err());
            let single = Tun::open("tun9", Layer::L3, OffloadChoice::Best).unwrap();
            assert!(!Tun::is_multi_queue(&single).unwrap());
            assert!(single.another_queue().is_err());
            drop(queues);
            is_gone("tun8");
        })
        .unwrap();
}

/// The device disappears with the last copy of its descriptor: programs that other tests start have
/// one until they exec.
fn is_gone(device: &str) {
    let give_up = Instant::now() + Duration::from_secs(20);
    while Netlink::open().unwrap().link(device).is_ok() {
        assert!(Instant::now() < give_up, "{device} is there still");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// From a neighbour of the device's; UDP over IPv4 needs no checksum.
fn datagram(from: u16, to: u16) -> InnerPacket {
    let mut bytes = vec![0; 32];
    bytes[0] = 0x45;
    bytes[3] = 32;
    bytes[8..10].copy_from_slice(&[64, 17]);
    bytes[12..16].copy_from_slice(&[10, 0, 0, 2]);
    bytes[16..20].copy_from_slice(&[10, 0, 0, 1]);
    let sum = !braid_inner::checksum::sum(&bytes[..20]);
    bytes[10..12].copy_from_slice(&sum.to_be_bytes());
    bytes[20..22].copy_from_slice(&from.to_be_bytes());
    bytes[22..24].copy_from_slice(&to.to_be_bytes());
    bytes[25] = 12;
    InnerPacket { bytes, offload: Default::default() }
}

#[test]
fn what_the_kernel_refuses_is_counted() {
    let Some(namespace) = namespace() else { return };
    namespace
        .run(|| {
            let mut tun = Tun::open("braid%d", Layer::L3, OffloadChoice::Best).unwrap();
            tun.bring_up().unwrap();
            let nonsense = InnerPacket { bytes: vec![0xff; 40], offload: Default::default() };
            let error = tun.write(&nonsense).unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
            assert_eq!(tun.counters().refused, 1);
            for name in ["", "sixteen-letters-", "nul\0"] {
                assert!(Tun::open(name, Layer::L3, OffloadChoice::Best).is_err());
            }
        })
        .unwrap();
}

fn libc_ebusy() -> i32 {
    16
}

fn tcp_through(layer: Layer, choice: OffloadChoice, v6: bool) -> Option<(Seen, [Tun; 2])> {
    tcp_between(layer, [choice; 2], v6)
}

/// Two namespaces, a device in each, joined by a pump; one TCP transfer.
fn tcp_between(layer: Layer, choices: [OffloadChoice; 2], v6: bool) -> Option<(Seen, [Tun; 2])> {
    let (left, right) = (namespace()?, namespace()?);
    let open = |namespace: &NetNs, host: u8, choice| {
        namespace
            .run(|| {
                let mut tun = Tun::open("braid0", layer, choice).unwrap();
                tun.bring_up().unwrap();
                ip(&format!("addr add 10.0.0.{host}/24 dev braid0"));
                ip(&format!("addr add fd00::{host}/64 dev braid0 nodad"));
                tun
            })
            .unwrap()
    };
    let mut ends = [open(&left, 1, choices[0]), open(&right, 2, choices[1])];
    let server = if v6 { "[fd00::2]:0" } else { "10.0.0.2:0" };
    let listener = right.run(|| TcpListener::bind(server).unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    let done = AtomicBool::new(false);
    let data: Vec<u8> = (0..BYTES).map(|i| (i % 251) as u8).collect();
    let seen = std::thread::scope(|scope| {
        let done = Stop(&done);
        let stop = done.0;
        let pump = scope.spawn(|| pump(&mut ends, stop));
        let receiver = scope.spawn(|| {
            let mut stream = accept(&listener);
            let mut got = Vec::new();
            stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            stream.read_to_end(&mut got).unwrap();
            got
        });
        left.run(|| {
            let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(10)).unwrap();
            stream.set_write_timeout(Some(Duration::from_secs(10))).unwrap();
            stream.write_all(&data).unwrap();
        })
        .unwrap();
        assert!(receiver.join().unwrap() == data, "the bytes that arrived differ");
        drop(done);
        pump.join().unwrap()
    });
    Some((seen, ends))
}

/// Ends the pump, also when the test fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn pump(ends: &mut [Tun; 2], done: &AtomicBool) -> Seen {
    let mut poller = Poller::new().unwrap();
    for (i, end) in ends.iter().enumerate() {
        poller.add(end, Token(i as u64), Interest::Read).unwrap();
    }
    let mut seen = Seen::default();
    let mut packet = InnerPacket { bytes: Vec::new(), offload: Default::default() };
    while !done.load(Ordering::Relaxed) {
        let ready: Vec<_> = poller.wait(Some(Duration::from_millis(10))).unwrap().collect();
        for event in ready {
            let from = event.token.0 as usize;
            while let Some(offload) = ends[from].read(&mut packet.bytes).unwrap() {
                packet.offload = offload;
                seen.longest = seen.longest.max(packet.bytes.len());
                if let Some(segmentation) = offload.segmentation {
                    seen.supers += 1;
                    if !seen.kinds.contains(&segmentation.kind) {
                        seen.kinds.push(segmentation.kind);
                    }
                }
                ends[1 - from].write(&packet).unwrap();
            }
        }
    }
    seen
}

/// A connection, or a failure after some seconds.
fn accept(listener: &TcpListener) -> TcpStream {
    listener.set_nonblocking(true).unwrap();
    for _ in 0..1000 {
        if let Ok((stream, _)) = listener.accept() {
            stream.set_nonblocking(false).unwrap();
            return stream;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("no connection arrived");
}

fn ip(arguments: &str) {
    let status = Command::new("ip").args(arguments.split(' ')).status().unwrap();
    assert!(status.success(), "ip {arguments}");
}
