use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors that the process needs for other purposes: devices, sockets, logs, pipes to other
/// programs.
const OTHERS: u64 = 512;

/// Raises the limit to two descriptors per connection. Returns the allowed number if that isn't
/// enough.
pub fn allow_descriptors(connections: usize) -> Option<u64> {
    let wanted = (connections as u64).saturating_mul(2).saturating_add(OTHERS);
    let limit = getrlimit(Resource::Nofile);
    // `None` means no limit.
    let current = limit.current.unwrap_or(u64::MAX);
    if current >= wanted {
        return None;
    }
    let raised = limit.maximum.map_or(wanted, |most| wanted.min(most));
    let raised_to = Rlimit { current: Some(raised), ..limit };
    let allowed = setrlimit(Resource::Nofile, raised_to).map_or(current, |()| raised);
    (allowed < wanted).then_some(allowed)
}

/// For how many connections this many descriptors suffice, leaving enough for the rest of the
/// process.
pub fn connections_by(descriptors: u64) -> usize {
    let others = OTHERS.min(descriptors / 2);
    usize::try_from((descriptors - others) / 2).unwrap_or(usize::MAX)
}

/// How many connections this process has descriptors for.
pub(crate) fn room() -> usize {
    getrlimit(Resource::Nofile).current.map_or(usize::MAX, connections_by)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_allowed_some_are_left_for_others() {
        for (descriptors, connections) in [(65_536, 32_512), (20_000, 9_744), (600, 150), (0, 0)] {
            assert_eq!(connections_by(descriptors), connections);
            assert!(descriptors - 2 * connections as u64 >= OTHERS.min(descriptors / 2));
        }
    }
}
