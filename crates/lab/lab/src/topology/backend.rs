use crate::emulator::{Capacity, DirectionChange, DirectionModel, LinkChange, LinkModel, Loss};
use braid_units::{Rate, Ratio};
use std::time::Duration;

/// Links from this rate on are left to the kernel if it can do all they need.
const KERNEL_FROM: Rate = Rate::from_mbit(300);
/// A kernel link has only the machine's own delay; configured delays below this count as none.
const KERNEL_DELAY: Duration = Duration::from_millis(1);

/// A property that the kernel can't emulate.
const REORDERING: &str = "its reordering";

/// Which links the kernel plays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InKernel {
    /// Those too fast for the emulator, by the kernel's token bucket.
    #[default]
    Fast,
    /// All that its netem can play (tc-netem(8)): if system calls are expensive, or engines need
    /// Ethernet devices.
    All,
}

/// What plays a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Backend {
    /// Braid's emulator, packet by packet.
    UserSpace {
        /// What reports should say about it: a fast link that the kernel can't play.
        note: Option<String>,
    },
    /// A veth pair with the kernel's token bucket (tc-tbf(8)) at both ends, which supports offloads
    /// and so reaches gigabits; or with netem (tc-netem(8)).
    Kernel {
        /// What reports should say about it: what isn't emulated.
        note: Option<String>,
    },
}

impl Backend {
    /// Chooses for a link to which `changes` will happen.
    pub(super) fn choose<'a>(
        model: &LinkModel,
        changes: impl IntoIterator<Item = &'a LinkChange>,
        in_kernel: InKernel,
    ) -> Self {
        if in_kernel == InKernel::All {
            return Self::choose_netem(model, changes);
        }
        let directions = [&model.down, &model.up];
        let fast = directions.iter().any(|direction| is_fast(&direction.capacity));
        if !fast {
            return Backend::UserSpace { note: None };
        }
        let obstacle = if model.nat {
            Some("NAT".to_owned())
        } else {
            directions
                .into_iter()
                .find_map(obstacle)
                .or_else(|| changes.into_iter().find_map(obstacle_in_change))
                .map(str::to_owned)
        };
        match obstacle {
            Some(obstacle) => Backend::UserSpace {
                note: Some(format!(
                    "emulated packet by packet because of {obstacle}, so the CPU may limit its rate"
                )),
            },
            None => Backend::Kernel {
                note: directions.iter().any(|direction| !direction.delay.is_zero()).then(|| {
                    "played by the kernel's TBF, which can't delay: \
                     delays below 1 ms are not emulated"
                        .to_owned()
                }),
            },
        }
    }
}

impl Backend {
    fn choose_netem<'a>(
        model: &LinkModel,
        changes: impl IntoIterator<Item = &'a LinkChange>,
    ) -> Self {
        let traced =
            |direction: &DirectionModel| matches!(direction.capacity, Capacity::Trace { .. });
        let obstacle = if model.nat {
            Some("NAT")
        } else if traced(&model.down) || traced(&model.up) {
            Some("its trace")
        } else if reorders(&model.down) || reorders(&model.up) {
            Some(REORDERING)
        } else {
            changes.into_iter().find_map(netem_obstacle)
        };
        match obstacle {
            None => Backend::Kernel { note: None },
            Some(obstacle) => Backend::UserSpace {
                note: Some(format!("emulated packet by packet because of {obstacle}")),
            },
        }
    }
}

/// The part of a change that netem can't do.
pub(super) fn netem_obstacle(change: &LinkChange) -> Option<&'static str> {
    match change {
        LinkChange::Rebind => Some("its rebinding"),
        LinkChange::Set { mtu: Some(_), .. } => Some("a change of its MTU"),
        LinkChange::Set { down, up, .. } => down
            .iter()
            .chain(up)
            .any(|change| change.reorder.is_some_and(|reorder| !reorder.is_none()))
            .then_some(REORDERING),
        LinkChange::Blackout(_) | LinkChange::Carrier(_) => None,
    }
}

/// netem sends some packets immediately, without the delay of the others, instead of holding some
/// back (tc-netem(8), "reorder").
fn reorders(direction: &DirectionModel) -> bool {
    !direction.reorder.is_none()
}

/// The part of a direction that the token bucket can't do.
fn obstacle(direction: &DirectionModel) -> Option<&'static str> {
    if matches!(direction.capacity, Capacity::Trace { .. }) {
        Some("its trace")
    } else if direction.delay >= KERNEL_DELAY {
        Some("its delay")
    } else if !direction.jitter.is_zero() {
        Some("its jitter")
    } else if direction.loss != Loss::None {
        Some("its loss")
    } else if reorders(direction) {
        Some(REORDERING)
    } else if direction.duplicate != Ratio::ZERO {
        Some("its duplicates")
    } else if direction.corrupt != Ratio::ZERO {
        Some("its corruption")
    } else {
        None
    }
}

/// The part of a change that the token bucket can't do.
pub(super) fn obstacle_in_change(change: &LinkChange) -> Option<&'static str> {
    match change {
        LinkChange::Blackout(_) | LinkChange::Carrier(_) => None,
        LinkChange::Rebind => Some("its rebinding"),
        LinkChange::Set { mtu: Some(_), .. } => Some("a change of its MTU"),
        LinkChange::Set { down, up, .. } => {
            down.iter().chain(up).find_map(obstacle_in_direction_change)
        }
    }
}

fn obstacle_in_direction_change(change: &DirectionChange) -> Option<&'static str> {
    let mut changed = DirectionModel::ideal();
    changed.apply(change);
    obstacle(&changed)
}

fn is_fast(capacity: &Capacity) -> bool {
    match capacity {
        Capacity::Unlimited => true,
        Capacity::Rate(rate) => *rate >= KERNEL_FROM,
        Capacity::Trace { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::emulator::Reorder;

    fn gigabit() -> LinkModel {
        let direction = DirectionModel {
            capacity: Capacity::Rate(Rate::from_mbit(1000)),
            ..DirectionModel::ideal()
        };
        LinkModel {
            name: "g".into(),
            down: direction.clone(),
            up: direction,
            mtu: 1500,
            nat: false,
        }
    }

    #[test]
    fn the_kernel_plays_what_it_can() {
        assert_eq!(
            Backend::choose(&gigabit(), &[], InKernel::Fast),
            Backend::Kernel { note: None }
        );
        let mut short = gigabit();
        short.up.delay = Duration::from_micros(300);
        assert!(matches!(
            Backend::choose(&short, &[], InKernel::Fast),
            Backend::Kernel { note: Some(_) }
        ));
        let dark = [LinkChange::Blackout(true)];
        assert_eq!(
            Backend::choose(&gigabit(), &dark, InKernel::Fast),
            Backend::Kernel { note: None }
        );
    }

    #[test]
    fn the_emulator_plays_the_rest_and_says_why() {
        let mut slow = gigabit();
        slow.down.capacity = Capacity::Rate(Rate::from_mbit(50));
        slow.up.capacity = Capacity::Rate(Rate::from_mbit(5));
        assert_eq!(Backend::choose(&slow, &[], InKernel::Fast), Backend::UserSpace { note: None });

        let mut far = gigabit();
        far.down.delay = Duration::from_millis(30);
        let Backend::UserSpace { note: Some(note) } = Backend::choose(&far, &[], InKernel::Fast)
        else {
            panic!("the kernel can't delay")
        };
        assert!(note.contains("delay"), "{note}");
        assert!(matches!(
            Backend::choose(&gigabit(), &[LinkChange::Rebind], InKernel::Fast),
            Backend::UserSpace { note: Some(_) }
        ));
    }

    #[test]
    fn netem_plays_slow_far_and_lossy_links_but_no_nat() {
        let mut far = gigabit();
        far.down.capacity = Capacity::Rate(Rate::from_mbit(5));
        far.down.delay = Duration::from_millis(30);
        let choose = |model: &LinkModel, changes: &[LinkChange]| {
            Backend::choose(model, changes, InKernel::All)
        };
        assert_eq!(choose(&far, &[LinkChange::Blackout(true)]), Backend::Kernel { note: None });
        let reorder = Reorder { share: Ratio::from_fraction(0.05), by: Duration::from_millis(20) };
        let reordering = DirectionChange { reorder: Some(reorder), ..DirectionChange::default() };
        let set = |up| LinkChange::Set { down: None, up: Some(up), mtu: None };
        let mut reordered = far.clone();
        reordered.down.reorder = reorder;
        for backend in [
            choose(&LinkModel { nat: true, ..far.clone() }, &[]),
            choose(&far, &[LinkChange::Rebind]),
            choose(&far, &[set(reordering.clone())]),
            choose(&reordered, &[]),
        ] {
            assert!(matches!(backend, Backend::UserSpace { note: Some(_) }), "{backend:?}");
        }
    }
}
