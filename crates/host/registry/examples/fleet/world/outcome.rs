//! What came of it: second by second, and of each outage.

use super::{Outage, World};
use braid_units::Time;
use std::time::Duration;

/// What happened within a second.
#[derive(Clone, Copy, Default)]
pub struct Second {
    pub without: usize,
    pub calls: usize,
    pub(super) most_calls: usize,
    pub moves: usize,
    pub(super) most_served: usize,
    pub(super) refused: usize,
}

/// The result of an outage, or of its end.
pub struct Outcome {
    pub name: String,
    /// Homes that had no service for a while.
    pub gaps: Vec<Duration>,
    pub necessary: usize,
    pub moves: usize,
    pub most_calls: usize,
    pub most_calls_of_one: usize,
    /// Homes that were refused, each time.
    pub refused: usize,
    pub most_served: usize,
    /// From the sixth second on.
    pub most_served_later: usize,
    /// In its last second.
    pub most_served_at_last: usize,
}

impl Outcome {
    /// The share of them that were served again by then.
    pub fn back_within(&self, limit: Duration) -> f64 {
        let back = self.gaps.iter().filter(|gap| **gap <= limit).count();
        back as f64 / self.gaps.len().max(1) as f64
    }
}

impl World {
    /// The results of each outage, and of its end.
    pub fn outcomes(&self) -> Vec<Outcome> {
        let mut outcomes = Vec::new();
        for (number, Outage { name, times, .. }) in self.scenario.events.iter().enumerate() {
            for (gone, from, until) in
                [(true, times.start, times.end), (false, times.end, times.end + 60)]
            {
                let seconds = &self.seconds[from as usize..until as usize];
                let most = |of: fn(&Second) -> usize| seconds.iter().map(of).max().unwrap_or(0);
                let span = Time::from_millis(from * 1000)..Time::from_millis(until * 1000);
                let within = self.gaps.iter().filter(|(at, _)| span.contains(at));
                let mut gaps: Vec<Duration> = within.map(|(_, gap)| *gap).collect();
                let unfinished = self
                    .homes
                    .iter()
                    .filter(|home| home.without_since.is_some_and(|at| span.contains(&at)));
                gaps.extend(unfinished.map(|_| Duration::MAX));
                gaps.sort();
                outcomes.push(Outcome {
                    name: if gone { (*name).to_owned() } else { format!("{name}: it is back") },
                    gaps,
                    necessary: self.necessary[number * 2 + usize::from(!gone)],
                    moves: seconds.iter().map(|it| it.moves).sum(),
                    most_calls: most(|it| it.calls),
                    most_calls_of_one: most(|it| it.most_calls),
                    refused: seconds.iter().map(|it| it.refused).sum(),
                    most_served: most(|it| it.most_served),
                    most_served_later: seconds[5..].iter().map(|it| it.most_served).max().unwrap(),
                    most_served_at_last: seconds[seconds.len() - 1].most_served,
                });
            }
        }
        outcomes
    }
}
