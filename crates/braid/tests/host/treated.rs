//! What rules give connections in the tunnel: limits of rate hold in both directions for the
//! devices that they are for, though the home hides them behind its own address.

use crate::ruled::{V4, ruled_world, start};
use braid_linux::netns::NetNs;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const RULES: &str = r#"
[[rule]]
name = "tablet"
match = { device = "tablet" }
do = "tunnel"
rate = { down = "8Mbit", up = "4Mbit" }
priority = "low"
"#;

#[test]
fn a_limit_of_rate_is_for_its_device_both_ways_and_goes_with_its_rule() {
    let Some((mut world, lan)) = ruled_world() else { return };
    start(&mut world, "", RULES);
    let (down, up) = (format!("{V4}:7001"), format!("{V4}:7002"));
    serve(&world.internet, &down, pour);
    // What has arrived: a sender's socket takes megabytes at a time.
    let arrived = serve(&world.internet, &up, drain);
    let home = &world.home.namespace;
    let tablet = Counted::begin(&lan, &down, drain);
    let downloaded = tablet.bytes.clone();
    wait_until(&downloaded, "the download is limited", |mbit| (2.0..10.5).contains(&mbit));
    let own = Counted::begin(home, &down, drain);
    wait_until(&own.bytes, "the home's own isn't", |mbit| mbit > 30.0);
    wait_until(&downloaded, "nor is the limit lifted by it", |mbit| (2.0..10.5).contains(&mbit));
    drop(own);
    let upload = Counted::begin(&lan, &up, pour);
    wait_until(&arrived, "the upload is limited", |mbit| (1.0..5.5).contains(&mbit));
    drop(upload);
    let traffic: Value =
        serde_json::from_slice(&world.home.braid_ok(&["traffic", "--json"])).unwrap();
    let flows = traffic["flows"].as_array().unwrap();
    let flow = flows.iter().find(|flow| flow["remote"] == down.as_str());
    assert_eq!(flow.unwrap()["rule"], "tablet", "{traffic:#}");
    world.home.braid_ok(&["rule", "remove", "tablet"]);
    wait_until(&downloaded, "it's lifted", |mbit| mbit > 30.0);
}

const TWICE: &str = r#"
[[rule]]
name = "twice"
match = { device = "tablet", protocol = "tcp", ports = "7001" }
do = "tunnel"
redundancy = "twice"
"#;

#[test]
fn a_device_whose_packets_are_to_go_twice_has_them_sent_by_both_links_both_ways() {
    let Some((mut world, lan)) = ruled_world() else { return };
    start(&mut world, "", TWICE);
    let (twice, once) = (format!("{V4}:7001"), format!("{V4}:7002"));
    for address in [&twice, &once] {
        serve(&world.internet, address, pour);
    }
    let explained = world.home.braid_ok(&["explain", &twice, "--from", "tablet", "--json"]);
    let explained: Value = serde_json::from_slice(&explained).unwrap();
    assert_eq!(explained["answer"]["treated"][0], "each packet twice");
    let _downloads = [&twice, &once].map(|address| Counted::begin(&lan, address, drain));
    // Downloads are the concentrator's to send, which doesn't see the device.
    let side = &world.concentrator;
    let flow = |address: &String| -> Option<Value> {
        let traffic = side.braid_ok(&["traffic", "--json"]);
        let traffic: Value = serde_json::from_slice(&traffic).unwrap();
        let flows = traffic["flows"].as_array().unwrap();
        let of = |flow: &&Value| flow.to_string().contains(address.as_str());
        flows.iter().find(of).cloned()
    };
    let copied = |address| flow(address).map(|flow| flow["duplicated_bytes"].as_u64().unwrap());
    side.wait_until("copies are sent", || copied(&twice) > Some(4_000_000));
    assert!(copied(&once) < copied(&twice).map(|bytes| bytes / 4), "{:?}", flow(&once));
    let links = &flow(&twice).unwrap()["links"];
    assert_eq!(links.as_array().map(Vec::len), Some(2), "{links}");
}

/// A connection whose bytes are counted.
struct Counted {
    bytes: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    stream: TcpStream,
    thread: Option<JoinHandle<()>>,
}

type Work = fn(&TcpStream, &AtomicU64, &AtomicBool);

impl Counted {
    fn begin(from: &NetNs, to: &str, work: Work) -> Counted {
        let to: SocketAddr = to.parse().unwrap();
        let connect = || TcpStream::connect_timeout(&to, crate::PATIENCE);
        let stream = from.run(connect).unwrap().unwrap();
        let (bytes, stop) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let (given, counted, stops) = (stream.try_clone().unwrap(), bytes.clone(), stop.clone());
        let thread = std::thread::spawn(move || work(&given, &counted, &stops));
        Counted { bytes, stop, stream, thread: Some(thread) }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.stream.shutdown(Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Until the rate of a whole second and a half is right, in Mbit/s.
fn wait_until(bytes: &AtomicU64, what: &str, right: impl Fn(f64) -> bool) {
    let give_up = Instant::now() + crate::PATIENCE;
    let mut seen = Vec::new();
    while Instant::now() < give_up {
        let (before, at) = (bytes.load(Ordering::Relaxed), Instant::now());
        std::thread::sleep(Duration::from_millis(1500));
        let grown = bytes.load(Ordering::Relaxed) - before;
        let mbit = grown as f64 * 8e-6 / at.elapsed().as_secs_f64();
        if right(mbit) {
            return;
        }
        seen.push(mbit);
    }
    panic!("{what}: {seen:.1?} Mbit/s");
}

/// Bytes of all that come.
fn serve(namespace: &NetNs, address: &str, work: Work) -> Arc<AtomicU64> {
    let listener = namespace.run(|| TcpListener::bind(address).unwrap()).unwrap();
    let bytes = Arc::<AtomicU64>::default();
    let counted = bytes.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let counted = counted.clone();
            std::thread::spawn(move || work(&stream, &counted, &AtomicBool::default()));
        }
    });
    bytes
}

fn pour(mut stream: &TcpStream, bytes: &AtomicU64, stop: &AtomicBool) {
    let block = [7; 16 << 10];
    while !stop.load(Ordering::Relaxed) {
        match stream.write(&block) {
            Ok(written) if written > 0 => bytes.fetch_add(written as u64, Ordering::Relaxed),
            _ => break,
        };
    }
}

fn drain(mut stream: &TcpStream, bytes: &AtomicU64, stop: &AtomicBool) {
    let mut block = [0; 64 << 10];
    while !stop.load(Ordering::Relaxed) {
        match stream.read(&mut block) {
            Ok(read) if read > 0 => bytes.fetch_add(read as u64, Ordering::Relaxed),
            _ => break,
        };
    }
}
