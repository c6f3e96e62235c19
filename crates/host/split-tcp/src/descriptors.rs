/// What a process needs besides: devices, sockets, logs, pipes to other programs.
const OTHERS: u64 = 512;

/// Lets this process have two descriptors for each of so many connections. Tells how many
/// it may have if that isn't enough.
pub fn allow_descriptors(connections: usize) -> Option<u64> {
    let wanted = (connections as u64).saturating_mul(2).saturating_add(OTHERS);
    let mut limit = limit()?;
    if limit.rlim_cur < wanted {
        let raised = libc::rlimit { rlim_cur: wanted.min(limit.rlim_max), ..limit };
        // SAFETY: the structure outlives the call.
        if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const raised) } == 0 {
            limit = raised;
        }
    }
    (limit.rlim_cur < wanted).then_some(limit.rlim_cur)
}

/// For how many connections so many descriptors are enough: the rest of the process keeps its own.
pub fn connections_by(descriptors: u64) -> usize {
    let others = OTHERS.min(descriptors / 2);
    usize::try_from((descriptors - others) / 2).unwrap_or(usize::MAX)
}

/// How many connections this process has descriptors for.
pub(crate) fn room() -> usize {
    limit().map_or(usize::MAX, |limit| connections_by(limit.rlim_cur))
}

fn limit() -> Option<libc::rlimit> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure outlives the call.
    let result = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    (result == 0).then_some(limit)
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
