//! Samples what the links carry during a run.

use crate::report::LinkSeries;
use crate::topology::Topology;
use std::time::{Duration, Instant};

/// The links' counters over time.
pub(crate) struct WireLog {
    start: Instant,
    names: Vec<String>,
    base: Vec<(u64, u64)>,
    /// Seconds since the start; each link's bytes down and up so far.
    samples: Vec<(f64, Vec<(u64, u64)>)>,
}

impl WireLog {
    pub(crate) fn new(topology: &Topology, start: Instant) -> Self {
        WireLog {
            start,
            names: topology.links().iter().map(|link| link.model().name.clone()).collect(),
            base: counters(topology),
            samples: Vec::new(),
        }
    }

    pub(crate) fn sample(&mut self, topology: &Topology) {
        let now = Instant::now().saturating_duration_since(self.start).as_secs_f64();
        let bytes = counters(topology)
            .into_iter()
            .zip(&self.base)
            .map(|((down, up), base)| (down.saturating_sub(base.0), up.saturating_sub(base.1)))
            .collect();
        self.samples.push((now, bytes));
    }

    /// The links' rates over the last `samples` samples.
    pub(crate) fn latest(&self, samples: usize) -> Option<Latest<'_>> {
        let (now, last) = self.samples.last()?;
        let (then, first) = self.samples.iter().rev().nth(samples)?;
        let seconds = (now - then).max(1e-3);
        let mbps = |bytes: u64| bytes as f64 * 8.0 / 1e6 / seconds;
        let links =
            self.names.iter().zip(last.iter().zip(first)).map(|(name, (last, first))| LinkRates {
                name,
                down: mbps(last.0.saturating_sub(first.0)),
                up: mbps(last.1.saturating_sub(first.1)),
            });
        Some(Latest { at_s: *now, links: links.collect() })
    }

    pub(crate) fn series(&self) -> Vec<LinkSeries> {
        let rates = |link: usize| {
            self.samples.windows(2).filter_map(move |pair| {
                let [(from, before), (to, after)] = pair else { return None };
                let (before, after) = (before.get(link)?, after.get(link)?);
                let seconds = to - from;
                let mbps = |bytes: u64| bytes as f64 * 8.0 / 1e6 / seconds;
                (seconds > 1e-3).then(|| {
                    let (down, up) =
                        (after.0.saturating_sub(before.0), after.1.saturating_sub(before.1));
                    (*from, mbps(down), mbps(up))
                })
            })
        };
        let links = self.names.iter().enumerate();
        links
            .map(|(link, name)| LinkSeries { name: name.clone(), points: rates(link).collect() })
            .collect()
    }

    /// Bytes of all links, down and up, between two times since the start.
    pub(crate) fn between(&self, from: Duration, to: Duration) -> (f64, f64) {
        let (begin, end) = (self.at(from.as_secs_f64()), self.at(to.as_secs_f64()));
        (end.0 - begin.0, end.1 - begin.1)
    }

    /// Bytes of all links up to a time, interpolated between samples.
    fn at(&self, time: f64) -> (f64, f64) {
        let after = self.samples.partition_point(|(sampled, _)| *sampled < time);
        let sum = |sample: Option<&(f64, Vec<(u64, u64)>)>| match sample {
            Some((sampled, links)) => {
                let total = links.iter().fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
                (*sampled, total.0 as f64, total.1 as f64)
            }
            None => (0.0, 0.0, 0.0),
        };
        let before = sum(after.checked_sub(1).and_then(|index| self.samples.get(index)));
        let Some(next) = self.samples.get(after) else { return (before.1, before.2) };
        let next = sum(Some(next));
        let share = ((time - before.0) / (next.0 - before.0).max(1e-9)).clamp(0.0, 1.0);
        (before.1 + (next.1 - before.1) * share, before.2 + (next.2 - before.2) * share)
    }
}

/// The links' recent rates.
pub(crate) struct Latest<'a> {
    /// Seconds since the start.
    pub(crate) at_s: f64,
    pub(crate) links: Vec<LinkRates<'a>>,
}

/// A link's rates in Mbit/s.
pub(crate) struct LinkRates<'a> {
    pub(crate) name: &'a str,
    pub(crate) down: f64,
    pub(crate) up: f64,
}

fn counters(topology: &Topology) -> Vec<(u64, u64)> {
    (0..topology.links().len())
        .map(|link| {
            let counters = topology.counters(link);
            (counters.down.bytes_out, counters.up.bytes_out)
        })
        .collect()
}
