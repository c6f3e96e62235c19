use super::statistics::{Bins, SequenceLog, StallClock};
use super::{Datagrams, LOOK, Setting, joined, only_waited};
use socket2::Socket;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

/// Bytes at the beginning of each of our datagrams: mark, number, time of sending.
pub(super) const HEADER: usize = 20;
const MARK_DATA: [u8; 4] = *b"BLd1";
const MARK_HELLO: [u8; 4] = *b"BLh1";
/// Interval between the home's hellos before the first datagram has arrived …
const HELLO_FIRST: Duration = Duration::from_millis(100);
/// … and after that, so that a rebound NAT learns the flow again.
const HELLO_LATER: Duration = Duration::from_millis(500);
/// A delayed sender catches up on this much and skips the rest.
const CATCH_UP: Duration = Duration::from_millis(20);

/// A stream of numbered datagrams at a constant pace.
#[derive(Clone, Copy)]
pub(super) struct Pace {
    /// UDP payload of each datagram, at least [`HEADER`].
    pub(super) payload: usize,
    /// Interval between two datagrams.
    pub(super) interval: Duration,
}

/// The result of one stream in one direction.
pub(super) struct Stream {
    pub(super) bins: Bins,
    pub(super) stalls: StallClock,
    pub(super) datagrams: Datagrams,
    /// One-way delays in ms of all first arrivals.
    pub(super) delays_ms: Vec<f64>,
}

/// Runs one flow on its own sockets, down, up or both.
pub(super) fn run_flow(
    down: Option<Pace>,
    up: Option<Pace>,
    port: u16,
    setting: &Setting<'_>,
) -> io::Result<(Option<Stream>, Option<Stream>)> {
    let server_address = SocketAddr::new(setting.server, port);
    let client = setting.home.run(|| -> io::Result<UdpSocket> {
        let socket = setting.datagram(true)?;
        socket.connect(&server_address.into())?;
        timed(socket)
    })??;
    // Bound to its address: answers from another address of the concentrator wouldn't be
    // recognised.
    let server = setting.concentrator.run(|| -> io::Result<UdpSocket> {
        let socket = setting.datagram(false)?;
        socket.bind(&server_address.into())?;
        timed(socket)
    })??;
    let home = Mutex::new(None);
    let heard = AtomicBool::new(false);
    let (sent_down, sent_up) = (AtomicU64::new(0), AtomicU64::new(0));
    let (client, server, home, heard) = (&client, &server, &home, &heard);
    let (sent_down, sent_up) = (&sent_down, &sent_up);
    thread::scope(|scope| {
        if let Some(pace) = down {
            scope.spawn(move || {
                send(pace, sent_down, setting, |data| {
                    let Some(address) = *lock(home) else { return false };
                    let _ = server.send_to(data, address);
                    true
                });
            });
            scope.spawn(|| greet(client, heard, setting));
        }
        if let Some(pace) = up {
            scope.spawn(move || {
                send(pace, sent_up, setting, |data| {
                    // An earlier datagram's ICMP error shows up here; this datagram is lost all the
                    // same.
                    let _ = client.send(data);
                    true
                });
            });
        }
        // The server's receiver always runs: it learns the home's address.
        let upward = scope.spawn(|| {
            receive(setting, |buffer| {
                let (length, address) = server.recv_from(buffer)?;
                *lock(home) = Some(address);
                Ok(length)
            })
        });
        let downward = scope.spawn(|| {
            receive(setting, |buffer| {
                let length = client.recv(buffer)?;
                heard.store(true, Ordering::Relaxed);
                Ok(length)
            })
        });
        let (mut upward, mut downward) = (joined(upward), joined(downward));
        upward.datagrams.sent = sent_up.load(Ordering::Relaxed);
        downward.datagrams.sent = sent_down.load(Ordering::Relaxed);
        Ok((down.map(|_| downward), up.map(|_| upward)))
    })
}

/// Sends at this pace from the start to the stop. `transmit` returns whether the datagram could be
/// sent at all; only those are numbered.
fn send(
    pace: Pace,
    sent: &AtomicU64,
    setting: &Setting<'_>,
    mut transmit: impl FnMut(&[u8]) -> bool,
) {
    if !setting.cancel.sleep_until(setting.start) {
        return;
    }
    let mut datagram = vec![0x5a; pace.payload.max(HEADER)];
    let mut due = setting.start;
    while !setting.over() {
        let now = Instant::now();
        if due > now {
            thread::sleep((due - now).min(LOOK));
            continue;
        }
        if now - due > CATCH_UP {
            due = now - CATCH_UP;
        }
        let number = sent.load(Ordering::Relaxed);
        write_header(&mut datagram, MARK_DATA, number);
        if transmit(&datagram) {
            sent.store(number + 1, Ordering::Relaxed);
        } else {
            // No receiver yet: wait, then start at the pace, without a burst.
            thread::sleep(Duration::from_millis(1));
            due = Instant::now();
        }
        due += pace.interval;
    }
}

/// Opens a mapping in the home's NATs and keeps it open.
fn greet(client: &UdpSocket, heard: &AtomicBool, setting: &Setting<'_>) {
    let mut hello = [0; HEADER];
    write_header(&mut hello, MARK_HELLO, 0);
    while !setting.over() {
        let _ = client.send(&hello);
        let wait = if heard.load(Ordering::Relaxed) { HELLO_LATER } else { HELLO_FIRST };
        setting.cancel.sleep_until((Instant::now() + wait).min(setting.stop));
    }
}

fn receive(setting: &Setting<'_>, mut next: impl FnMut(&mut [u8]) -> io::Result<usize>) -> Stream {
    let mut stream = Stream {
        bins: Bins::new(setting.start, setting.stop),
        stalls: StallClock::default(),
        datagrams: Datagrams::default(),
        delays_ms: Vec::new(),
    };
    let mut log = SequenceLog::default();
    let mut last_transit: Option<f64> = None;
    let mut jitter = 0.0;
    let mut buffer = vec![0; 65_536];
    while !setting.grace_over() {
        let length = match next(&mut buffer) {
            Ok(length) => length,
            Err(error) if only_waited(&error) => continue,
            // An ICMP error about what we sent.
            Err(_) => {
                thread::sleep(Duration::from_millis(1));
                continue;
            }
        };
        let now = Instant::now();
        let Some((number, sent)) = buffer.get(..length).and_then(read_header) else { continue };
        let transit = (nanos(now) as f64 - sent as f64) / 1e6;
        if !log.arrival(number) {
            continue;
        }
        stream.bins.add(now, length as u64);
        if now < setting.stop {
            stream.stalls.arrival(now);
        }
        setting.count(length as u64);
        stream.delays_ms.push(transit);
        if let Some(last) = last_transit {
            jitter += ((transit - last).abs() - jitter) / 16.0;
        }
        last_transit = Some(transit);
    }
    stream.datagrams = Datagrams {
        sent: 0,
        received: log.received(),
        reordered: log.reordered(),
        duplicates: log.duplicates(),
        jitter_ms: jitter,
    };
    stream
}

fn timed(socket: Socket) -> io::Result<UdpSocket> {
    socket.set_read_timeout(Some(LOOK))?;
    socket.set_write_timeout(Some(LOOK))?;
    Ok(socket.into())
}

fn write_header(datagram: &mut [u8], mark: [u8; 4], number: u64) {
    let fields = [&mark[..], &number.to_be_bytes(), &nanos(Instant::now()).to_be_bytes()].concat();
    for (to, from) in datagram.iter_mut().zip(fields) {
        *to = from;
    }
}

/// Number and time of sending of a datagram with data.
fn read_header(datagram: &[u8]) -> Option<(u64, u64)> {
    let (mark, rest) = datagram.split_first_chunk::<4>()?;
    let (number, rest) = rest.split_first_chunk::<8>()?;
    let (sent, _) = rest.split_first_chunk::<8>()?;
    (*mark == MARK_DATA).then(|| (u64::from_be_bytes(*number), u64::from_be_bytes(*sent)))
}

/// Nanoseconds on the clock that both ends share.
pub(super) fn nanos(at: Instant) -> u64 {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    let origin = *ORIGIN.get_or_init(|| at);
    at.saturating_duration_since(origin).as_nanos() as u64
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
