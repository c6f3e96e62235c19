use super::statistics::Bins;
use super::tcp::{accept, connect, listen, prepare, read_fully, write_fully};
use super::{Measured, Setting, joined, only_waited};
use crate::scenario::{CongestionControl, Traffic, TrafficDirection};
use socket2::Socket;
use std::io::{self, Read};
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

const CHUNK: usize = 64 << 10;
/// Set in a request's size: the client sends the object and gets a byte back.
const UPLOAD: u64 = 1 << 63;
/// No object is larger; guards the server against a broken request.
const LARGEST: u64 = 1_000_000_000;

/// Objects fetched (or sent) one after the other by each flow, each over a new
/// connection, until the stop. An object that is not complete by then counts
/// for the bytes, not for the times.
pub(super) fn run(
    traffic: &Traffic,
    congestion: CongestionControl,
    objects: &[u64],
    setting: &Setting<'_>,
) -> io::Result<Measured> {
    let listener = setting.concentrator.run(|| listen(congestion, setting))??;
    let bins = Mutex::new(Bins::new(setting.start, setting.stop));
    let record = |bytes: u64| {
        setting.count(bytes);
        if let Ok(mut bins) = bins.lock() {
            bins.add(Instant::now(), bytes);
        }
    };
    let fetches = thread::scope(|scope| -> io::Result<Vec<f64>> {
        let server = scope.spawn(|| serve(&listener, &record, setting));
        let browsers: Vec<_> = (0..traffic.flows)
            .map(|flow| {
                let upload = match traffic.direction {
                    TrafficDirection::Down => false,
                    TrafficDirection::Up => true,
                    TrafficDirection::Both => flow % 2 == 1,
                };
                let record = &record;
                scope.spawn(move || {
                    setting.home.enter()?;
                    browse(usize::from(flow), upload, objects, congestion, record, setting)
                })
            })
            .collect();
        let mut fetches = Vec::new();
        for browser in browsers {
            fetches.extend(joined(browser)?);
        }
        joined(server)?;
        Ok(fetches)
    })?;
    let delivered = bins.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    Ok(Measured { delivered: Some(delivered), fetches_ms: Some(fetches), ..Measured::default() })
}

fn serve(
    listener: &Socket,
    record: &(impl Fn(u64) + Sync),
    setting: &Setting<'_>,
) -> io::Result<()> {
    thread::scope(|scope| {
        while let Some(socket) = accept(listener, setting)? {
            scope.spawn(move || serve_one(&socket, record, setting));
        }
        Ok(())
    })
}

fn serve_one(socket: &Socket, record: &impl Fn(u64), setting: &Setting<'_>) {
    if prepare(socket).is_err() {
        return;
    }
    let mut request = [0; 8];
    if !read_fully(socket, &mut request, setting) {
        return;
    }
    let request = u64::from_be_bytes(request);
    let size = (request & !UPLOAD).min(LARGEST);
    if request & UPLOAD == 0 {
        send(socket, size, setting);
        // The client closes when it has all; until then a reset would cut the
        // rest off.
        read_fully(socket, &mut [0], setting);
    } else if receive(socket, size, record, setting) {
        write_fully(socket, &[1], setting);
        read_fully(socket, &mut [0], setting);
    }
}

/// Fetches until the stop; the times in ms.
fn browse(
    first: usize,
    upload: bool,
    objects: &[u64],
    congestion: CongestionControl,
    record: &impl Fn(u64),
    setting: &Setting<'_>,
) -> io::Result<Vec<f64>> {
    let mut times = Vec::new();
    if !setting.cancel.sleep_until(setting.start) {
        return Ok(times);
    }
    for size in objects.iter().copied().cycle().skip(first) {
        if setting.over() {
            break;
        }
        let begin = Instant::now();
        let Some(socket) = connect(congestion, setting)? else { break };
        let complete = if upload {
            write_fully(&socket, &(size | UPLOAD).to_be_bytes(), setting)
                && send(&socket, size, setting)
                && read_fully(&socket, &mut [0], setting)
        } else {
            write_fully(&socket, &size.to_be_bytes(), setting)
                && receive(&socket, size, record, setting)
        };
        if complete {
            times.push(begin.elapsed().as_secs_f64() * 1e3);
        }
    }
    Ok(times)
}

fn send(socket: &Socket, size: u64, setting: &Setting<'_>) -> bool {
    let data = vec![0x5a; CHUNK];
    let mut left = size;
    while left > 0 {
        let part = usize::try_from(left).unwrap_or(CHUNK).min(CHUNK);
        if !write_fully(socket, data.get(..part).unwrap_or_default(), setting) {
            return false;
        }
        left -= part as u64;
    }
    true
}

fn receive(mut socket: &Socket, size: u64, record: &impl Fn(u64), setting: &Setting<'_>) -> bool {
    let mut buffer = vec![0; CHUNK];
    let mut left = size;
    while left > 0 && !setting.over() {
        match socket.read(&mut buffer) {
            Ok(0) => return false,
            Ok(read) => {
                record(read as u64);
                left = left.saturating_sub(read as u64);
            }
            Err(error) if only_waited(&error) => {}
            Err(_) => return false,
        }
    }
    left == 0
}
