/// What a process needs besides: devices, sockets, logs, pipes to other programs.
const OTHERS: u64 = 512;

/// Lets this process have two descriptors for each of so many connections. Tells how many
/// it may have if that isn't enough.
pub fn allow_descriptors(connections: usize) -> Option<u64> {
    let wanted = (connections as u64).saturating_mul(2).saturating_add(OTHERS);
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure outlives the call.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0 {
        return None;
    }
    if limit.rlim_cur < wanted {
        let raised = libc::rlimit { rlim_cur: wanted.min(limit.rlim_max), ..limit };
        // SAFETY: the structure outlives the call.
        if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const raised) } == 0 {
            limit = raised;
        }
    }
    (limit.rlim_cur < wanted).then_some(limit.rlim_cur)
}
