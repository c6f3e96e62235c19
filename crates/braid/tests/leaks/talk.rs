//! Programs that want out: datagrams, connections, look-ups, pings, to where
//! nothing but the tunnel should carry them.

use crate::network::{BANK_V4, BANK_V6, SECRET_V4, SECRET_V6};
use braid_linux::netns::NetNs;
use braid_linux::udp::{Family, LinkBind, LinkSocket, Transmit};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Talks until it is dropped.
pub struct Talk {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    pings: Vec<Child>,
}

impl Talk {
    /// From a host, also by each of these devices.
    pub fn start(host: &NetNs, devices: &'static [&'static str]) -> Talk {
        Talk::with([SECRET_V4, SECRET_V6], host, devices)
    }

    /// The same with the host that a rule may be for.
    pub fn with_bank(host: &NetNs, devices: &'static [&'static str]) -> Talk {
        Talk::with([BANK_V4, BANK_V6], host, devices)
    }

    fn with(whom: [&'static str; 2], host: &NetNs, devices: &'static [&'static str]) -> Talk {
        let over = Arc::new(AtomicBool::new(false));
        let (stop, namespace) = (over.clone(), host.run(NetNs::current).unwrap().unwrap());
        let talk = move || {
            while !stop.load(Ordering::Relaxed) {
                say(whom, devices);
                std::thread::sleep(Duration::from_millis(20));
            }
        };
        let thread = std::thread::spawn(move || namespace.run(talk).unwrap());
        let pings = whom.map(|to| {
            let mut ping = host.command("ping");
            ping.args(["-q", "-i", "0.2", to]).stdout(Stdio::null()).stderr(Stdio::null());
            ping.spawn().unwrap()
        });
        Talk { over, thread: Some(thread), pings: pings.into() }
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        for ping in &mut self.pings {
            let _ = ping.kill();
            let _ = ping.wait();
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Errors are what a kill switch is for.
fn say([v4, v6]: [&str; 2], devices: &[&str]) {
    for (from, to, port) in [
        ("0.0.0.0:0", v4, 9),
        ("0.0.0.0:0", v4, 443),
        ("[::]:0", v6, 9),
        ("0.0.0.0:0", "10.1.0.1", 53),
        ("10.1.0.2:0", v4, 53),
        ("0.0.0.0:0", "203.0.113.1", 51900 - 1),
    ] {
        if let Ok(socket) = UdpSocket::bind(from) {
            let _ = socket.send_to(&query("secret"), (to, port));
        }
    }
    for to in [v4, v6] {
        let to = SocketAddr::new(to.parse().unwrap(), 443);
        let _ = TcpStream::connect_timeout(&to, Duration::from_millis(30));
    }
    for device in devices {
        let bind = LinkBind {
            device: Some((*device).to_owned()),
            source: None,
            fwmark: None,
            port: 0,
            family: Family::V4,
        };
        let remote = SocketAddr::new(v4.parse().unwrap(), 9);
        let contents = &query("secret");
        let transmit =
            Transmit { remote, local: None, traffic_class: 0, contents, segment_size: None };
        let _ = LinkSocket::open(&bind).map(|socket| socket.send(&transmit));
    }
}

/// Asks for the IPv4 addresses of a name of one label.
pub fn query(name: &str) -> Vec<u8> {
    let mut query = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    query.push(u8::try_from(name.len()).unwrap());
    query.extend(name.bytes());
    query.extend([0, 0, 1, 0, 1]);
    query
}
