use super::datagram::{Pace, run_flow};
use super::statistics::{Bins, Percentiles};
use super::{Datagrams, Measured, Setting, Voice, joined};
use crate::scenario::Traffic;
use std::io;
use std::thread;
use std::time::Duration;

/// A voice packet that takes longer from mouth to ear is useless: ITU-T G.114
/// calls one-way delays up to 150 ms good for most calls.
pub const GOOD_WITHIN: Duration = Duration::from_millis(150);
/// G.711: 160 bytes each 20 ms, and as many header bytes as the 12 of RTP or
/// more.
const PAYLOAD: usize = 160 + 20;
const INTERVAL: Duration = Duration::from_millis(20);

/// Calls: a stream of voice packets in each requested direction.
pub(super) fn run(traffic: &Traffic, setting: &Setting<'_>) -> io::Result<Measured> {
    let pace = Pace { payload: PAYLOAD, interval: INTERVAL };
    let (down, up) = traffic.direction.each(pace, pace);
    let calls = thread::scope(|scope| -> io::Result<Vec<_>> {
        let calls: Vec<_> = (0..traffic.flows)
            .map(|flow| {
                let port = setting.port.saturating_add(flow);
                scope.spawn(move || run_flow(down, up, port, setting))
            })
            .collect();
        calls.into_iter().map(joined).collect()
    })?;
    let whole = setting.stop.saturating_duration_since(setting.start);
    let limit_ms = GOOD_WITHIN.as_secs_f64() * 1e3;
    let mut delivered = Bins::new(setting.start, setting.stop);
    let mut datagrams = Datagrams::default();
    let mut longest = Duration::ZERO;
    let mut delays = Vec::new();
    for stream in calls.into_iter().flat_map(|(down, up)| [down, up]).flatten() {
        delivered.merge(&stream.bins);
        datagrams = datagrams.and(stream.datagrams);
        longest = longest.max(stream.stalls.longest_until(setting.stop).unwrap_or(whole));
        delays.extend(stream.delays_ms);
    }
    let voice = Voice {
        sent: datagrams.sent,
        lost: datagrams.sent.saturating_sub(datagrams.received),
        late: delays.iter().filter(|delay| **delay > limit_ms).count() as u64,
        delay_ms: Percentiles::of(&delays),
    };
    Ok(Measured {
        delivered: Some(delivered),
        longest_stall: Some(longest),
        datagrams: Some(datagrams),
        voice: Some(voice),
        ..Measured::default()
    })
}
