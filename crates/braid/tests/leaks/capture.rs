//! All frames that come out of devices, and which of them a kill switch has no
//! exception for.

#![allow(unsafe_code)]

use crate::dns::ASKED;
use crate::network::ENDPOINT_NAME;
use braid_linux::netns::NetNs;
use std::ffi::CString;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// Captures until it is dropped.
pub struct Capture {
    seen: Arc<Mutex<Vec<String>>>,
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Capture {
    /// What arrives at these devices of a namespace from now on.
    pub fn start(namespace: &NetNs, devices: &[&str]) -> Capture {
        let (seen, over) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let threads = devices.iter().map(|device| {
            let socket = namespace.run(|| packet_socket(device)).unwrap();
            let (device, seen, over) = ((*device).to_owned(), seen.clone(), over.clone());
            std::thread::spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    let Some(frame) = receive(&socket) else { continue };
                    if let Some(leak) = leak(&frame) {
                        seen.lock().unwrap().push(format!("{device}: {leak}"));
                    }
                }
            })
        });
        let threads = threads.collect();
        Capture { seen, over, threads }
    }

    /// Leaks since the last call.
    pub fn leaks(&self) -> Vec<String> {
        let mut leaks = std::mem::take(&mut *self.seen.lock().unwrap());
        leaks.sort();
        leaks.dedup();
        leaks
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Hears every frame of one device, with timeouts.
fn packet_socket(device: &str) -> OwnedFd {
    let name = CString::new(device).unwrap();
    let protocol = (libc::ETH_P_ALL as u16).to_be();
    // SAFETY: plain system calls; pointers and lengths describe locals that
    // outlive them, and the descriptor is nobody else's.
    unsafe {
        let fd = libc::socket(libc::AF_PACKET, libc::SOCK_RAW, i32::from(protocol));
        assert!(fd >= 0, "a packet socket: {}", std::io::Error::last_os_error());
        let fd = OwnedFd::from_raw_fd(fd);
        let mut address: libc::sockaddr_ll = std::mem::zeroed();
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = protocol;
        address.sll_ifindex = libc::if_nametoindex(name.as_ptr()) as i32;
        assert!(address.sll_ifindex > 0, "no device {device}");
        let length = std::mem::size_of_val(&address) as libc::socklen_t;
        assert_eq!(libc::bind(fd.as_raw_fd(), (&raw const address).cast(), length), 0);
        let wait = libc::timeval { tv_sec: 0, tv_usec: 100_000 };
        let length = std::mem::size_of_val(&wait) as libc::socklen_t;
        let (level, option) = (libc::SOL_SOCKET, libc::SO_RCVTIMEO);
        assert_eq!(
            libc::setsockopt(fd.as_raw_fd(), level, option, (&raw const wait).cast(), length),
            0
        );
        fd
    }
}

/// The next frame that came in; none where nothing did for a moment.
fn receive(socket: &OwnedFd) -> Option<Vec<u8>> {
    let mut frame = vec![0; 2048];
    // SAFETY: pointers and lengths describe locals that outlive the call.
    let (length, from) = unsafe {
        let mut from: libc::sockaddr_ll = std::mem::zeroed();
        let mut size = std::mem::size_of_val(&from) as libc::socklen_t;
        let length = libc::recvfrom(
            socket.as_raw_fd(),
            frame.as_mut_ptr().cast(),
            frame.len(),
            0,
            (&raw mut from).cast(),
            &raw mut size,
        );
        (length, from)
    };
    frame.truncate(usize::try_from(length).ok()?);
    (from.sll_pkttype != libc::PACKET_OUTGOING).then_some(frame)
}

/// What a frame is, if a kill switch shouldn't have let it out.
fn leak(frame: &[u8]) -> Option<String> {
    let (ethertype, packet) = (frame.get(12..14)?, frame.get(14..)?);
    match ethertype {
        [0x08, 0x06] => None,
        [0x08, 0x00] => {
            let (protocol, to) = (*packet.get(9)?, packet.get(16..20)?);
            let header = usize::from(packet.first()? & 15) * 4;
            let to = format!("{}.{}.{}.{}", to[0], to[1], to[2], to[3]);
            by_protocol(protocol, packet.get(header..)?, &to)
        }
        [0x86, 0xdd] => {
            let to: [u8; 16] = packet.get(24..40)?.try_into().ok()?;
            let to = std::net::Ipv6Addr::from(to);
            match (*packet.get(6)?, packet.get(40..)?) {
                // Multicast listener reports follow a hop-by-hop header.
                (0, rest) if rest.first() == Some(&58) => None,
                // Neighbour and router discovery, listener reports.
                (58, [130..=137 | 143, ..]) => None,
                (protocol, rest) => by_protocol(protocol, rest, &to.to_string()),
            }
        }
        other => Some(format!("ethertype {other:02x?}")),
    }
}

fn by_protocol(protocol: u8, rest: &[u8], to: &str) -> Option<String> {
    let port = u16::from_be_bytes([*rest.get(2)?, *rest.get(3)?]);
    let asks_for_endpoint = || contains(rest, &dns_name(ENDPOINT_NAME));
    match (protocol, port) {
        (17, 51900) if to.starts_with("203.0.113.") => None,
        (17, 67 | 547 | 123) => None,
        (17, 53) if asks_for_endpoint() => None,
        (17, 53) if contains(rest, &dns_name(ASKED)) => Some(format!("asks {to} for {ASKED}")),
        (6 | 17, port) => Some(format!("protocol {protocol} to {to} port {port}")),
        _ => Some(format!("protocol {protocol} to {to}")),
    }
}

fn dns_name(name: &str) -> Vec<u8> {
    let labels = name.split('.').flat_map(|label| {
        let length = u8::try_from(label.len()).unwrap();
        std::iter::once(length).chain(label.bytes())
    });
    labels.collect()
}

fn contains(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|window| window.eq_ignore_ascii_case(wanted))
}
