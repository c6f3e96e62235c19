use crate::PATIENCE;
use crate::side::Side;
use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The server sends.
    Down,
    /// The client sends.
    Up,
}

/// A TCP connection under way; every byte that arrives is compared with what
/// belongs in its place.
pub struct Transfer {
    bytes: usize,
    received: Arc<AtomicUsize>,
    sender: JoinHandle<()>,
    receiver: JoinHandle<()>,
}

impl Transfer {
    pub fn start(
        client: &Side,
        server: &Side,
        address: IpAddr,
        direction: Direction,
        bytes: usize,
    ) -> Transfer {
        // A program that another test just starts holds a copy of a listener for a moment, so one
        // port can't be had twice.
        let listener = server.namespace.run(|| TcpListener::bind((address, 0))).unwrap().unwrap();
        let address = listener.local_addr().unwrap();
        let connect = || TcpStream::connect_timeout(&address, PATIENCE);
        let near = client.namespace.run(connect).unwrap().unwrap();
        let (far, _) = listener.accept().unwrap();
        for stream in [&near, &far] {
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            stream.set_write_timeout(Some(PATIENCE)).unwrap();
        }
        let (from, to) = match direction {
            Direction::Down => (far, near),
            Direction::Up => (near, far),
        };
        let received = Arc::new(AtomicUsize::new(0));
        let progress = received.clone();
        Transfer {
            bytes,
            received,
            sender: thread::spawn(move || send(from, bytes)),
            receiver: thread::spawn(move || receive(to, bytes, &progress)),
        }
    }

    /// Waits until so much has arrived, in the middle of it all.
    pub fn wait_until_received(&self, bytes: usize) {
        let give_up = Instant::now() + PATIENCE;
        while self.received.load(Ordering::Relaxed) < bytes {
            assert!(Instant::now() < give_up, "the transfer stands still");
            thread::sleep(Duration::from_millis(5));
        }
        assert!(self.received.load(Ordering::Relaxed) < self.bytes, "it is over already");
    }

    /// The longest time in which nothing came, of so much time from now on.
    pub fn longest_pause(&self, within: Duration) -> Duration {
        let (end, mut last, mut longest) = (Instant::now() + within, (0, Instant::now()), None);
        while Instant::now() < end {
            let received = self.received.load(Ordering::Relaxed);
            if received != last.0 {
                longest = longest.max(Some(last.1.elapsed()));
                last = (received, Instant::now());
            }
            thread::sleep(Duration::from_millis(1));
        }
        longest.max(Some(last.1.elapsed())).unwrap_or_default()
    }

    /// Waits for the end; fails if a byte is missing or wrong.
    pub fn finish(self) {
        self.receiver.join().expect("all bytes arrive as they were");
        self.sender.join().expect("all bytes are taken");
    }
}

fn send(mut to: TcpStream, bytes: usize) {
    let mut block = vec![0; 64 * 1024];
    for start in (0..bytes).step_by(block.len()) {
        let end = bytes.min(start + block.len());
        let block = &mut block[..end - start];
        fill(block, start);
        to.write_all(block).unwrap();
    }
    to.shutdown(Shutdown::Write).unwrap();
    // Held open until the other end has read all.
    let _ = to.read(&mut [0]);
}

fn receive(mut from: TcpStream, bytes: usize, progress: &AtomicUsize) {
    let mut block = vec![0; 64 * 1024];
    let mut expected = block.clone();
    let mut position = 0;
    loop {
        let count = from.read(&mut block).expect("the connection lives");
        if count == 0 {
            assert_eq!(position, bytes, "the connection ended early");
            return;
        }
        fill(&mut expected[..count], position);
        assert!(block[..count] == expected[..count], "wrong bytes from {position} on");
        position += count;
        progress.store(position, Ordering::Relaxed);
    }
}

/// Bytes that differ everywhere, so that a shifted or repeated piece shows
/// (the mixing of splitmix64).
fn fill(block: &mut [u8], start: usize) {
    for (position, byte) in (start as u64..).zip(block) {
        let mut word = (position / 8 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word ^= word >> 27;
        *byte = word.to_le_bytes()[(position % 8) as usize];
    }
}

/// Ten pings a second.
pub struct Pings(Child);

impl Pings {
    pub fn start(from: &Side, to: IpAddr, count: u32) -> Pings {
        let mut command = from.namespace.command("ping");
        let (count, to) = (count.to_string(), to.to_string());
        command.args(["-q", "-i", "0.1", "-W", "20", "-c", &count, &to]);
        Pings(command.stdout(Stdio::piped()).spawn().unwrap())
    }

    /// Waits for the last; fails if one was lost, damaged or answered twice.
    pub fn none_is_lost(self) {
        let output = self.0.wait_with_output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains(" 0% packet loss"), "{text}");
        assert!(!text.contains("duplicates") && !text.contains("errors"), "{text}");
    }
}
