use super::fetch::{Client, Direction, serve};
use super::statistics::Bins;
use super::tcp::listen;
use super::{Measured, Setting, joined};
use crate::scenario::{CongestionControl, Traffic, TrafficDirection};
use std::io;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

/// Each flow fetches (or sends) objects one after another until the stop. An object that isn't
/// complete by then counts for the bytes, not for the times.
pub(super) fn run(
    traffic: &Traffic,
    congestion: CongestionControl,
    objects: &[u64],
    keep_alive: bool,
    setting: &Setting<'_>,
) -> io::Result<Measured> {
    let (delivered, fetches) = with_server(congestion, setting, |record| {
        in_threads(traffic.flows, |flow| {
            setting.home.enter()?;
            if !setting.cancel.sleep_until(setting.start) {
                return Ok(Vec::new());
            }
            let direction = match traffic.direction {
                TrafficDirection::Both if flow % 2 == 1 => Direction::Up,
                TrafficDirection::Up => Direction::Up,
                TrafficDirection::Down | TrafficDirection::Both => Direction::Down,
            };
            let mut client = Client::new(congestion, keep_alive, setting);
            let mut fetches = Vec::new();
            for size in objects.iter().cycle().skip(flow.into()) {
                if setting.over() {
                    break;
                }
                fetches.extend(client.fetch(*size, direction, record)?);
            }
            Ok(fetches)
        })
    })?;
    let fetches = fetches.into_iter().flatten().collect();
    Ok(Measured { delivered: Some(delivered), fetches: Some(fetches), ..Measured::default() })
}

/// Runs `clients` beside a server of objects, and counts the bytes arriving at either.
pub(super) fn with_server<T: Send>(
    congestion: CongestionControl,
    setting: &Setting<'_>,
    clients: impl FnOnce(&(dyn Fn(u64) + Sync)) -> io::Result<T>,
) -> io::Result<(Bins, T)> {
    let listener = setting.concentrator.run(|| listen(congestion, setting))??;
    let bins = Mutex::new(Bins::new(setting.start, setting.stop));
    let record = |bytes: u64| {
        setting.count(bytes);
        bins.lock().unwrap_or_else(PoisonError::into_inner).add(Instant::now(), bytes);
    };
    let found = thread::scope(|scope| {
        let server = scope.spawn(|| serve(&listener, &record, setting));
        let found = clients(&record);
        joined(server)?;
        found
    })?;
    Ok((bins.into_inner().unwrap_or_else(PoisonError::into_inner), found))
}

/// The results of `work` in each of `count` threads.
pub(super) fn in_threads<T: Send>(
    count: u16,
    work: impl Fn(u16) -> io::Result<T> + Sync,
) -> io::Result<Vec<T>> {
    let work = &work;
    thread::scope(|scope| {
        let threads: Vec<_> = (0..count).map(|number| scope.spawn(move || work(number))).collect();
        threads.into_iter().map(joined).collect()
    })
}
