//! The results of measuring the links.

use serde::{Deserialize, Serialize};

/// What the tunnel carried to and from the concentrator during a measurement, without other
/// traffic.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Each link alone, in the config's order.
    pub links: Vec<LinkMeasure>,
    /// All links together, several connections at once.
    pub together: Rates,
    /// All links together, one connection.
    pub one_connection: Rates,
    /// How busy the other end's processors were meanwhile, 0 to 1, if it reported that.
    pub load_there: Option<f64>,
}

/// The results of one link.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkMeasure {
    /// Its name.
    pub link: String,
    /// What it carried.
    pub rates: Rates,
    /// Download rate in the first half of the measurement, Mbit/s.
    pub first_half_down: f64,
    /// Download rate in the second half, Mbit/s.
    pub second_half_down: f64,
    /// Its part while all links were measured together, as UDP payload, including headers and
    /// retransmissions. `None` if they weren't measured together.
    #[serde(default)]
    pub as_part: Option<Rates>,
}

/// Mbit/s of payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    /// Towards this host.
    pub down: f64,
    /// From this host.
    pub up: f64,
}

/// Body of `POST /v1/measure`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewMeasure {
    /// Measure only this link, and all together.
    #[serde(default)]
    pub link: Option<String>,
    /// Include links with a quota.
    #[serde(default)]
    pub metered: bool,
    /// How long each direction of each link is measured, seconds; by default 4.
    #[serde(default)]
    pub seconds: Option<u32>,
}

/// Answer of `GET /v1/measure`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MeasureStatus {
    /// Whether a measurement is running.
    pub running: bool,
    /// What is being measured, in words.
    pub step: String,
    /// Number of finished steps.
    pub done: usize,
    /// Number of all steps.
    pub steps: usize,
    /// The results so far, or the last ones.
    pub measured: Option<Measured>,
    /// When they were measured, Unix seconds.
    pub at_unix: Option<i64>,
    /// Why the measurement failed.
    pub trouble: Option<String>,
    /// Links that were skipped, and why.
    pub left_out: Vec<String>,
}

impl Measured {
    /// The sum of all links alone.
    pub fn sum(&self) -> Rates {
        self.sum_but("")
    }

    /// What all links without this one would carry: the sum of what each carried alone, times the
    /// share of the sum that all reach together now; at least as much as the best of them alone.
    pub fn without(&self, link: &str) -> Rates {
        let (sum, rest) = (self.sum(), self.sum_but(link));
        let share = |together: f64, sum: f64| match sum > 0.0 {
            true => (together / sum).clamp(0.0, 1.0),
            false => 1.0,
        };
        // If this link slows the others down, it is itself the cause of the low share.
        let best = self.links.iter().filter(|one| one.link != link);
        let best_down = best.clone().map(|one| one.rates.down).fold(0.0, f64::max);
        let best_up = best.map(|one| one.rates.up).fold(0.0, f64::max);
        Rates {
            down: (rest.down * share(self.together.down, sum.down)).max(best_down),
            up: (rest.up * share(self.together.up, sum.up)).max(best_up),
        }
    }

    fn sum_but(&self, link: &str) -> Rates {
        let others = self.links.iter().filter(|one| one.link != link);
        others.fold(Rates::default(), |sum, one| Rates {
            down: sum.down + one.rates.down,
            up: sum.up + one.rates.up,
        })
    }
}
