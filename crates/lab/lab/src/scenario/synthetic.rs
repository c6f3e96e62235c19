use crate::emulator::Trace;
use std::time::Duration;

/// Length of a synthetic trace before it repeats.
const LENGTH: Duration = Duration::from_secs(600);
/// Step in which the rate changes.
const STEP: Duration = Duration::from_millis(20);

/// A synthetic cellular link that replaces a missing recording: a rate that wanders (an
/// Ornstein-Uhlenbeck process of its logarithm) and stops now and then (outages as a Poisson
/// process). Means and gaps are those of the recordings published by the Mahimahi project.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Synthetic {
    name: &'static str,
    /// Mean rate in Mbit/s.
    mean_mbps: f64,
    /// Standard deviation of the rate's natural logarithm.
    spread: f64,
    /// Correlation time of the rate, in seconds.
    memory_s: f64,
    /// Outages per second.
    outages_per_s: f64,
    /// Shortest outage and the mean of the additional time, in seconds.
    outage_s: (f64, f64),
    /// Longest outage, in seconds.
    longest_outage_s: f64,
}

const PROFILES: [Synthetic; 4] = [
    Synthetic {
        name: "synthetic:umts",
        mean_mbps: 2.02,
        spread: 0.6,
        memory_s: 2.0,
        outages_per_s: 0.18,
        outage_s: (0.2, 0.35),
        longest_outage_s: 5.8,
    },
    Synthetic {
        name: "synthetic:umts-up",
        mean_mbps: 0.94,
        spread: 0.5,
        memory_s: 2.0,
        outages_per_s: 0.12,
        outage_s: (0.2, 0.4),
        longest_outage_s: 5.8,
    },
    Synthetic {
        name: "synthetic:lte",
        mean_mbps: 5.0,
        spread: 0.7,
        memory_s: 1.0,
        outages_per_s: 0.06,
        outage_s: (0.2, 0.3),
        longest_outage_s: 1.5,
    },
    Synthetic {
        name: "synthetic:lte-up",
        mean_mbps: 3.0,
        spread: 0.7,
        memory_s: 1.0,
        outages_per_s: 0.06,
        outage_s: (0.2, 0.5),
        longest_outage_s: 4.0,
    },
];

impl Synthetic {
    /// The prefix of all names.
    pub const PREFIX: &str = "synthetic:";

    /// The profile that a scenario names.
    pub fn named(name: &str) -> Option<Self> {
        PROFILES.into_iter().find(|profile| profile.name == name)
    }

    /// Its name in scenarios.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// All names.
    pub fn names() -> Vec<&'static str> {
        PROFILES.iter().map(|profile| profile.name).collect()
    }

    /// The trace for `seed`, always the same.
    pub fn trace(&self, seed: u64) -> Trace {
        let intensity = self.intensity(&mut fastrand::Rng::with_seed(seed));
        let step_ms = STEP.as_millis() as f64;
        let packets =
            self.mean_mbps * 1e6 / 8.0 / f64::from(Trace::OPPORTUNITY_BYTES) * LENGTH.as_secs_f64();
        let scale = packets / intensity.iter().sum::<f64>().max(f64::MIN_POSITIVE);
        let mut opportunities = Vec::with_capacity(packets as usize + 1);
        let mut due = 0.0;
        for (number, share) in intensity.iter().enumerate() {
            let here = share * scale;
            let mut sent = 1.0 - (due - f64::floor(due));
            while sent <= here {
                let within = if here > 0.0 { sent / here } else { 0.0 };
                opportunities.push(((number as f64 + within) * step_ms) as u32);
                sent += 1.0;
            }
            due += here;
        }
        opportunities.push(LENGTH.as_millis() as u32);
        opportunities.sort_unstable();
        Trace::from_millis(opportunities).unwrap_or_else(|| {
            // Can't be: the length was pushed last and is above zero.
            unreachable!("a synthetic trace has an end")
        })
    }

    /// Relative rate in each step.
    fn intensity(&self, rng: &mut fastrand::Rng) -> Vec<f64> {
        let steps = (LENGTH.as_nanos() / STEP.as_nanos()) as usize;
        let step = STEP.as_secs_f64();
        let keep = (-step / self.memory_s).exp();
        let kick = self.spread * (1.0 - keep * keep).sqrt();
        let mut log_rate = self.spread * normal(rng);
        let mut outage_left = 0.0;
        (0..steps)
            .map(|_| {
                log_rate = keep * log_rate + kick * normal(rng);
                if outage_left > 0.0 {
                    outage_left -= step;
                    return 0.0;
                }
                if rng.f64() < self.outages_per_s * step {
                    let (least, more) = self.outage_s;
                    let length = least - more * (1.0 - rng.f64()).ln();
                    outage_left = length.min(self.longest_outage_s) - step;
                    return 0.0;
                }
                log_rate.exp()
            })
            .collect()
    }
}

/// A sample of the standard normal distribution (Box and Muller, 1958).
fn normal(rng: &mut fastrand::Rng) -> f64 {
    let radius = (-2.0 * (1.0 - rng.f64()).ln()).sqrt();
    radius * (std::f64::consts::TAU * rng.f64()).cos()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn synthetic_traces_have_the_mean_they_name_and_repeat_by_seed() {
        for profile in PROFILES {
            let trace = profile.trace(7);
            let mean = trace.mean_rate().mbit();
            assert!((mean / profile.mean_mbps - 1.0).abs() < 0.02, "{}: {mean}", profile.name);
            assert_eq!(trace, profile.trace(7));
            assert_ne!(trace, profile.trace(8));
        }
    }
}
