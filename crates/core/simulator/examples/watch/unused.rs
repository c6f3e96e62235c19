//! Why links carried less than they could: each few milliseconds what a link
//! left unused is put down to what held the sender back then.

use braid_simulator::{EndId, Scenario, Simulation};
use braid_tunnel::{PathReport, PathState, PeerReport};
use std::time::Duration;

/// How often is looked. Delay comes after the links' serialisers, so that the
/// sender's state at the moment is what decides.
const STEP: Duration = Duration::from_millis(5);

/// What held the sender back.
#[derive(Clone, Copy, Debug)]
enum Cause {
    /// The path was suspect, down, or new.
    Suspect,
    /// Nothing waited at the entry.
    NoData,
    /// As much was in flight as the path's model allows.
    Window,
    /// The rate at which the path's model sends.
    Pacing,
}

const CAUSES: [Cause; 4] = [Cause::Suspect, Cause::NoData, Cause::Window, Cause::Pacing];

/// Sums in IP bytes, one entry a link.
#[derive(Debug)]
pub struct Unused {
    to_home: bool,
    served: Vec<u64>,
    capacity: Vec<u64>,
    by_cause: Vec<[u64; CAUSES.len()]>,
}

impl Unused {
    pub fn new(scenario: &Scenario, to_home: bool) -> Self {
        let links = scenario.links.len();
        Self {
            to_home,
            served: vec![0; links],
            capacity: vec![0; links],
            by_cause: vec![[0; CAUSES.len()]; links],
        }
    }

    /// Plays on until `to`, looking on the way.
    pub fn run(
        &mut self,
        simulation: &mut Simulation,
        scenario: &Scenario,
        sender: EndId,
        to: Duration,
    ) {
        while simulation.now() < to {
            let from = simulation.now();
            let until = (from + STEP).min(to);
            let before = simulation.report(sender).into_iter().next();
            simulation.run_until(until);
            let Some(report) = before else { continue };
            for link in 0..scenario.links.len() {
                let served = simulation.served(link, self.to_home);
                let step = served - self.served[link];
                self.served[link] = served;
                let capacity = scenario.link_capacity(link, self.to_home, from, until);
                self.capacity[link] += capacity;
                let path = report.paths.iter().find(|p| usize::from(p.id) == link);
                let cause = cause(&report, path) as usize;
                self.by_cause[link][cause] += capacity.saturating_sub(step);
            }
        }
    }

    /// `payload`: bytes that came out of the tunnel.
    pub fn print(&self, payload: u64) {
        let capacity: u64 = self.capacity.iter().sum();
        let percent = |bytes: u64, of: u64| 100.0 * bytes as f64 / of.max(1) as f64;
        print!("of the links' capacity:");
        for cause in CAUSES {
            let sum = self.by_cause.iter().map(|link| link[cause as usize]).sum();
            print!(" unused {cause:?} {:.1} %,", percent(sum, capacity));
        }
        let served: u64 = self.served.iter().sum();
        println!(
            " used {:.1} %, payload {:.1} %",
            percent(served, capacity),
            percent(payload, capacity)
        );
        for (link, causes) in self.by_cause.iter().enumerate() {
            let of = self.capacity[link];
            let causes = CAUSES.map(|c| format!("{c:?} {:.1}", percent(causes[c as usize], of)));
            println!(
                "  link {link}: used {:.1} %, {}",
                percent(self.served[link], of),
                causes.join(", ")
            );
        }
    }
}

fn cause(report: &PeerReport, path: Option<&PathReport>) -> Cause {
    match path {
        Some(path) if path.state == PathState::Up => {
            if report.entry.packets == 0 {
                Cause::NoData
            } else if path.in_flight + u64::from(path.datagram) > path.window {
                Cause::Window
            } else {
                Cause::Pacing
            }
        }
        _ => Cause::Suspect,
    }
}
