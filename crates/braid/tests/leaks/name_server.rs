//! A name server that gives every name the same address, and a resolver that passes questions on
//! to one.

use braid_linux::netns::NetNs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Answers until it is dropped.
pub struct NameServer {
    answer: Arc<AtomicU32>,
    _serving: Serving,
}

impl NameServer {
    /// On port 53 of an address of a namespace.
    pub fn start(namespace: &NetNs, on: &str, answer: &str) -> NameServer {
        let known = Arc::<AtomicU32>::default();
        let answers = known.clone();
        let serving = Serving::start(namespace, on, move |query| {
            Some(reply(query, answers.load(Ordering::Relaxed)))
        });
        let server = NameServer { answer: known, _serving: serving };
        server.answer_with(answer);
        server
    }

    /// What names have from now on.
    pub fn answer_with(&self, address: &str) {
        let address: Ipv4Addr = address.parse().unwrap();
        self.answer.store(address.to_bits(), Ordering::Relaxed);
    }
}

/// As systemd-resolved or dnsmasq on the host itself; passes on until it is dropped.
pub struct Resolver {
    _serving: Serving,
}

impl Resolver {
    /// On port 53 of an address of a host, which asks another one.
    pub fn start(host: &NetNs, on: &str, asks: &'static str) -> Resolver {
        let patience = Duration::from_millis(300);
        let serving = Serving::start(host, on, move |query| ask(asks, query, patience).ok());
        Resolver { _serving: serving }
    }
}

/// Who answers at an address, until this is dropped.
struct Serving {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Serving {
    fn start(
        host: &NetNs,
        on: &str,
        answer: impl Fn(&[u8]) -> Option<Vec<u8>> + Send + 'static,
    ) -> Serving {
        let on = SocketAddr::new(on.parse().unwrap(), 53);
        let socket = host.run(|| UdpSocket::bind(on)).unwrap().unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        let (over, host) = (Arc::<AtomicBool>::default(), host.run(NetNs::current));
        let (stop, host) = (over.clone(), host.unwrap().unwrap());
        let serve = move || {
            while !stop.load(Ordering::Relaxed) {
                let mut query = [0; 512];
                let Ok((length, from)) = socket.recv_from(&mut query) else { continue };
                if let Some(reply) = answer(&query[..length]) {
                    let _ = socket.send_to(&reply, from);
                }
            }
        };
        let thread = std::thread::spawn(move || host.run(serve).unwrap());
        Serving { over, thread: Some(thread) }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What a name server says, in the calling thread's namespace.
pub fn ask(server: &str, query: &[u8], patience: Duration) -> io::Result<Vec<u8>> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    socket.set_read_timeout(Some(patience))?;
    socket.connect((server, 53))?;
    socket.send(query)?;
    let mut reply = vec![0; 512];
    let length = socket.recv(&mut reply)?;
    reply.truncate(length);
    Ok(reply)
}

fn question(query: &[u8]) -> String {
    let mut labels = Vec::new();
    let mut rest = &query[12..];
    while let [length, after @ ..] = rest
        && *length > 0
        && after.len() >= usize::from(*length)
    {
        let (label, next) = after.split_at(usize::from(*length));
        labels.push(String::from_utf8_lossy(label).into_owned());
        rest = next;
    }
    labels.join(".")
}

/// With an address where one was asked for.
fn reply(query: &[u8], address: u32) -> Vec<u8> {
    let name = question(query);
    let end = 12 + if name.is_empty() { 1 } else { name.len() + 2 } + 4;
    let end = end.min(query.len());
    let asks_for_v4 = query[..end].ends_with(&[0, 1, 0, 1]);
    let mut reply = query[..2].to_vec();
    reply.extend([0x81, 0x80, 0, 1, 0, u8::from(asks_for_v4), 0, 0, 0, 0]);
    reply.extend(&query[12..end]);
    if asks_for_v4 {
        reply.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4]);
        reply.extend(address.to_be_bytes());
    }
    reply
}
