//! Where more workers than this machine has processors end up. A model, no measurement: it says
//! what follows if nothing but what was measured here stands in the way.
//!
//! - What workers wait for each other, by the Universal Scalability Law (N. Gunther, "Guerrilla
//!   Capacity Planning", 2007) without its term for coherence, which two points can't tell: `n`
//!   workers carry `n / (1 + σ (n − 1))` times what one does.
//! - What comes to the wrong worker costs both of them something. Of packets of connections that
//!   begin at the server's side `(n − 1) / n` do.
//! - Bytes cross the memory, at the worst as often as they are touched.

use super::{handing_over, memory};

/// How often a byte crosses the memory when no cache keeps it: the network card writes and reads
/// it; read and written by the kernel's copy from the socket, by the cipher, and by the copy
/// into the device, once each.
const MEMORY_BYTES_PER_BYTE: f64 = 8.0;
const WORKERS: [u32; 5] = [1, 2, 4, 8, 16];

/// Prints it. `speedups` are what two workers carried in place of one, of each round.
pub fn tell(seconds_per_gb: f64, speedups: &mut [f64], packets_per_s: f64, memory: Option<f64>) {
    speedups.sort_by(f64::total_cmp);
    let [Some(least), Some(median), Some(most)] =
        [0, speedups.len() / 2, speedups.len().wrapping_sub(1)].map(|at| speedups.get(at).copied())
    else {
        println!("the model needs two workers at least");
        return;
    };
    let handed_over = handing_over::seconds_per_datagram() * packets_per_s;
    let here = memory::copied_gb_per_s(2);
    println!(
        "two workers carried {least:.2} to {most:.2} times what one did, {median:.2} in the median; \
         handing a datagram over takes {:.0} % of what carrying it takes; two processors move \
         {here:.1} GB/s through this machine's memory",
        handed_over * 100.0
    );
    let model = |speedup: f64| Model {
        seconds_per_gb,
        contention: contention(speedup),
        handed_over,
        memory_gb_per_s: memory.unwrap_or(here),
    };
    println!("| workers | Gbit/s | all connections begun by servers | memory's limit |");
    println!("|---:|---:|---:|---:|");
    let (low, high) = (model(least), model(most));
    for workers in WORKERS {
        let both = |share: f64| {
            format!(
                "{:.0} to {:.0}",
                low.gbit_per_s(workers, share),
                high.gbit_per_s(workers, share)
            )
        };
        let wrong = f64::from(workers - 1) / f64::from(workers);
        println!("| {workers} | {} | {} | {:.0} |", both(0.0), both(wrong), low.memory_limit());
    }
}

struct Model {
    /// Of one processor, for all that a concentrator does.
    seconds_per_gb: f64,
    /// σ.
    contention: f64,
    /// Cost of handing a datagram over, in those of carrying it by the core.
    handed_over: f64,
    memory_gb_per_s: f64,
}

impl Model {
    fn gbit_per_s(&self, workers: u32, wrong: f64) -> f64 {
        let workers = f64::from(workers);
        let one = 8.0 / (self.seconds_per_gb * (1.0 + wrong * self.handed_over));
        (one * workers / (1.0 + self.contention * (workers - 1.0))).min(self.memory_limit())
    }

    fn memory_limit(&self) -> f64 {
        8.0 * self.memory_gb_per_s / MEMORY_BYTES_PER_BYTE
    }
}

/// σ, of what two carry in place of one; more than twice as much is the noise of the machine.
fn contention(speedup: f64) -> f64 {
    (2.0 / speedup - 1.0).max(0.0)
}
