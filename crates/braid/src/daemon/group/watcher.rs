//! Pings a host over each link, as set by `watch` in the config: a link with a carrier may still be
//! dead.

use super::super::ending::Ending;
use super::super::supervise;
use braid_control::config::{GroupConfig, Watch};
use braid_engines::Group;
use braid_linux::icmp;
use braid_linux::poller::Waker;
use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Pings a host over each link.
pub struct Watcher {
    watch: Option<Watch>,
    shared: Arc<Shared>,
}

struct Shared {
    targets: Mutex<BTreeMap<u32, Target>>,
    changed: AtomicBool,
    waker: Waker,
}

/// The host to ping over a link, and the results.
#[derive(Clone, Debug)]
struct Target {
    device: String,
    source: IpAddr,
    host: IpAddr,
    silent: bool,
    /// Answers that contradict `silent`, in a row.
    contrary: u32,
}

/// Interval of pings over a link, and timeout for an answer.
const EVERY: Duration = Duration::from_millis(500);
const PATIENCE: Duration = Duration::from_millis(900);
const THREAD: &str = "braid-watch";
/// Unanswered pings that make a link silent; answers that restore it.
const LOST: u32 = 3;
const BACK: u32 = 3;

impl Watcher {
    /// Starts the thread, if the config asks for it.
    pub fn start(config: &GroupConfig, waker: Waker, ending: &Ending) -> io::Result<Watcher> {
        let shared =
            Arc::new(Shared { targets: Mutex::default(), changed: AtomicBool::new(false), waker });
        if config.watch.is_some() {
            let weak = Arc::downgrade(&shared);
            let mut sequence = 0_u16;
            let ask = move || {
                // Ends with its reconciler.
                while let Some(shared) = weak.upgrade() {
                    sequence = sequence.wrapping_add(1);
                    shared.ask_all(sequence);
                    drop(shared);
                    std::thread::sleep(EVERY);
                }
            };
            supervise::start(THREAD, ending, ask)?;
        }
        Ok(Watcher { watch: config.watch, shared })
    }

    /// Updates the links and their addresses.
    pub fn follow(&self, group: &Group) {
        let Some(watch) = self.watch else { return };
        let mut targets = self.shared.lock();
        let mut wanted = BTreeMap::new();
        for link in &group.links {
            let way = link.egresses.iter().find_map(|egress| {
                let host = match watch {
                    Watch::Gateway => egress.gateway?,
                    Watch::Host(host) => host,
                };
                let source = egress.source.addr();
                (source.is_ipv4() == host.is_ipv4()).then_some((source, host))
            });
            let Some((source, host)) = way else { continue };
            let device = link.device.to_string();
            let known = targets.get(&link.number);
            let known =
                known.filter(|t| t.device == device && t.source == source && t.host == host);
            let fresh = Target { device, source, host, silent: false, contrary: 0 };
            wanted.insert(link.number, known.cloned().unwrap_or(fresh));
        }
        *targets = wanted;
    }

    /// The host, if it doesn't answer over this link.
    pub fn silent(&self, link: u32) -> Option<IpAddr> {
        self.shared.lock().get(&link).filter(|target| target.silent).map(|target| target.host)
    }

    /// Whether a link fell silent or returned since the last call.
    pub fn has_changed(&self) -> bool {
        self.shared.changed.swap(false, Ordering::Relaxed)
    }
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<u32, Target>> {
        self.targets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends one ping over each link, all at the same time.
    fn ask_all(&self, sequence: u16) {
        let targets = self.lock().clone();
        let answers: Vec<(u32, bool)> = std::thread::scope(|scope| {
            let asked: Vec<_> = targets
                .iter()
                .filter_map(|(number, target)| {
                    let ask = move || {
                        icmp::ping(&target.device, target.source, target.host, sequence, PATIENCE)
                    };
                    // Without a thread, nothing is learnt about it.
                    let asking = std::thread::Builder::new().spawn_scoped(scope, ask);
                    Some((*number, asking.ok()?))
                })
                .collect();
            asked
                .into_iter()
                .map(|(number, thread)| (number, matches!(thread.join(), Ok(Ok(Some(_))))))
                .collect()
        });
        let mut targets = self.lock();
        let mut changed = false;
        for (number, answered) in answers {
            let Some(target) = targets.get_mut(&number) else { continue };
            changed |= target.hear(answered);
        }
        drop(targets);
        if changed {
            self.changed.store(true, Ordering::Relaxed);
            self.waker.wake();
        }
    }
}

impl Target {
    /// Records an answer or its absence; returns whether the state changed.
    fn hear(&mut self, answered: bool) -> bool {
        if answered != self.silent {
            self.contrary = 0;
            return false;
        }
        self.contrary += 1;
        if self.contrary < if self.silent { BACK } else { LOST } {
            return false;
        }
        self.silent = !self.silent;
        self.contrary = 0;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_lost_ping_is_nothing_three_are_silence_and_three_answers_the_end_of_it() {
        let address: IpAddr = "192.0.2.1".parse().unwrap();
        let mut target = Target {
            device: "a".into(),
            source: address,
            host: address,
            silent: false,
            contrary: 0,
        };
        let heard: Vec<bool> =
            [true, false, true, false, false, false, true, false, true, true, true]
                .map(|answered| {
                    target.hear(answered);
                    target.silent
                })
                .to_vec();
        let silent = [5, 6, 7, 8, 9];
        let expected: Vec<bool> = (0..11).map(|n| silent.contains(&n)).collect();
        assert_eq!(heard, expected);
    }
}
