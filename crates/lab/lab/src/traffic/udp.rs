use super::datagram::{HEADER, Pace, run_flow};
use super::statistics::Bins;
use super::{Datagrams, Measured, OfferedRates, Setting, joined};
use crate::scenario::Traffic;
use braid_units::Rate;
use std::io;
use std::net::IpAddr;
use std::thread;
use std::time::Duration;

/// Numbered datagrams; all flows together offer `rates` in each direction, IP
/// headers included.
pub(super) fn run(
    traffic: &Traffic,
    rates: OfferedRates,
    payload: u16,
    setting: &Setting<'_>,
) -> io::Result<Measured> {
    let payload = usize::from(payload).max(HEADER);
    let headers = match setting.server {
        IpAddr::V4(_) => 28,
        IpAddr::V6(_) => 48,
    };
    let pace = |rate: Rate| {
        let interval = rate.time_for((payload + headers) as u64 * u64::from(traffic.flows));
        Pace { payload, interval }
    };
    let (down, up) = traffic.direction.each(pace(rates.down), pace(rates.up));
    let flows = thread::scope(|scope| -> io::Result<Vec<_>> {
        let flows: Vec<_> = (0..traffic.flows)
            .map(|flow| {
                let port = setting.port.saturating_add(flow);
                scope.spawn(move || run_flow(down, up, port, setting))
            })
            .collect();
        flows.into_iter().map(joined).collect()
    })?;
    let whole = setting.stop.saturating_duration_since(setting.start);
    let mut delivered = Bins::new(setting.start, setting.stop);
    let mut datagrams = Datagrams::default();
    let mut longest = Duration::ZERO;
    for stream in flows.into_iter().flat_map(|(down, up)| [down, up]).flatten() {
        delivered.merge(&stream.bins);
        datagrams = datagrams.and(stream.datagrams);
        longest = longest.max(stream.stalls.longest_until(setting.stop).unwrap_or(whole));
    }
    Ok(Measured {
        delivered: Some(delivered),
        longest_stall: Some(longest),
        datagrams: Some(datagrams),
        ..Measured::default()
    })
}
