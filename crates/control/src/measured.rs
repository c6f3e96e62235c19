//! What a measurement of the links found.

use serde::{Deserialize, Serialize};

/// What the tunnel carried to and from the concentrator while nothing but the measurement was
/// asked of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Each link alone, in the config's order.
    pub links: Vec<LinkMeasure>,
    /// All links together, several connections at once.
    pub together: Rates,
    /// All links together, one connection.
    pub one_connection: Rates,
    /// How busy the other end's processors were meanwhile, 0 to 1, where it told.
    pub load_there: Option<f64>,
}

/// Of one link.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkMeasure {
    /// Its name.
    pub link: String,
    /// What it carried.
    pub rates: Rates,
    /// What it carried down in the first half of the time, Mbit/s.
    pub first_half_down: f64,
    /// And in the second.
    pub second_half_down: f64,
    /// What it carried of all while all links were measured together, as UDP payload: what is
    /// sent again and headers counted. None where they weren't.
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
    /// Only this link, and all together.
    #[serde(default)]
    pub link: Option<String>,
    /// Links with a quota too.
    #[serde(default)]
    pub metered: bool,
    /// How long each direction of each link is measured, seconds; 4 unless it is said.
    #[serde(default)]
    pub seconds: Option<u32>,
}

/// Answer of `GET /v1/measure`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MeasureStatus {
    /// It goes on.
    pub running: bool,
    /// What is being measured, in words.
    pub step: String,
    /// Steps that are done, and all.
    pub done: usize,
    /// As above.
    pub steps: usize,
    /// What was found so far, or last.
    pub measured: Option<Measured>,
    /// When that was, Unix seconds.
    pub at_unix: Option<i64>,
    /// Why it came to nothing.
    pub trouble: Option<String>,
    /// Links that were left out, and why.
    pub left_out: Vec<String>,
}

impl Measured {
    /// The sum of all links alone.
    pub fn sum(&self) -> Rates {
        self.sum_but("")
    }

    /// What all links but this one would bring: each what it brought alone, by the same share of
    /// the sum that they reach together now, or all of it where they get in each other's way.
    pub fn without(&self, link: &str) -> Rates {
        let (sum, rest) = (self.sum(), self.sum_but(link));
        let share = |together: f64, sum: f64| match sum > 0.0 {
            true => (together / sum).clamp(0.0, 1.0),
            false => 1.0,
        };
        // A link that holds the others up is what lowers the share.
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
