//! Search for the largest datagram that one path carries: packetization layer
//! path MTU discovery for datagrams (DPLPMTUD, RFC 8899). It needs no ICMP.
//!
//! Sizes are UDP payload bytes. A lost probe says something about the path's
//! MTU only; the congestion controller must not hear of it (RFC 8899,
//! section 3, point 7).

use braid_units::Time;
use std::collections::BTreeMap;
use std::time::Duration;

/// Probes of one size that must be lost before the size is given up
/// (MAX_PROBES of RFC 8899, section 5.1.2).
pub const MAX_PROBES: u8 = 3;
/// After this long the search tries larger sizes again (PMTU_RAISE_TIMER of
/// RFC 8899, section 5.1.1).
pub const RAISE_INTERVAL: Duration = Duration::from_secs(600);

/// A probe of which nothing is heard for this long counts as lost (PROBE_TIMER
/// of RFC 8899, section 5.1.1).
const PROBE_TIMEOUT: Duration = Duration::from_secs(15);
/// The search ends when the largest good and the smallest bad size are this
/// close. Ours.
const RESOLUTION: u16 = 8;
/// Outer IP packet sizes that links are often made with: Ethernet, PPPoE, a
/// tunnel in IPv4, in IPv6, L2TP, WireGuard in IPv6 over PPPoE, WireGuard,
/// GTP on cellular links, IPv6's minimum.
const COMMON_MTUS: [u16; 9] = [1280, 1360, 1400, 1420, 1428, 1460, 1480, 1492, 1500];
/// How many of the largest common sizes are tried one by one before the search
/// bisects; most paths have one of these. Ours.
const TRIED_IN_TURN: usize = 2;
/// Never below IPv4's least reassembly size, 576 bytes (RFC 791), less its
/// headers.
const FLOOR: u16 = 548;

/// A black hole is assumed when this many large datagrams in a row were lost
/// and …
const BLACK_HOLE_LOSSES: u32 = 6;
/// … this many small ones arrived meanwhile,
const BLACK_HOLE_SMALL_ACKED: u32 = 2;
/// or when fewer losses in a row …
const BLACK_HOLE_SLOW_LOSSES: u32 = 3;
/// … went on for so long.
const BLACK_HOLE_TIME: Duration = Duration::from_secs(2);

/// First wait before probing again on a path that delivers nothing at all. Ours.
const SILENCE_BACKOFF: Duration = Duration::from_secs(1);
/// Longest such wait.
const SILENCE_BACKOFF_MAX: Duration = Duration::from_secs(60);

/// The MTU search of one path.
///
/// Tell it what became of probes and of all other datagrams, and send what
/// [`poll_probe`](Self::poll_probe) asks for.
#[derive(Clone, Debug)]
pub struct MtuSearch {
    base: u16,
    ceiling: u16,
    header_bytes: u16,
    /// The largest size known to pass.
    current: u16,
    /// Sizes that were lost, with the number of losses that count. All are
    /// larger than `current`.
    failed: BTreeMap<u16, u8>,
    /// Size to try before any other.
    hint: Option<u16>,
    outstanding: Option<Probe>,
    next_probe_at: Time,
    silence_backoff: Duration,
    raise_at: Option<Time>,
    losses: Option<LossRun>,
}

#[derive(Clone, Copy, Debug)]
struct Probe {
    size: u16,
    sent_at: Time,
    /// Something else arrived after the probe was sent: the path is alive.
    path_alive: bool,
}

/// Large datagrams lost in a row.
#[derive(Clone, Copy, Debug)]
struct LossRun {
    since: Time,
    smallest: u16,
    count: u32,
    small_acked: u32,
}

impl MtuSearch {
    /// A search that starts at `base` bytes of UDP payload, assumed to pass
    /// (1200, as in RFC 9000, section 14), and ends at `ceiling` at most, the
    /// local interface's MTU less `header_bytes` of IP and UDP (28 for IPv4, 48
    /// for IPv6).
    pub fn new(base: u16, ceiling: u16, header_bytes: u16) -> Self {
        let base = base.max(FLOOR);
        let ceiling = ceiling.max(base);
        MtuSearch {
            base,
            ceiling,
            header_bytes,
            current: base,
            failed: BTreeMap::new(),
            hint: None,
            outstanding: None,
            next_probe_at: Time::ZERO,
            silence_backoff: SILENCE_BACKOFF,
            raise_at: None,
            losses: None,
        }
    }

    /// The largest UDP payload, in bytes, that datagrams other than probes may
    /// have.
    pub fn current(&self) -> u16 {
        self.current
    }

    /// The UDP payload size of a probe to send now, filled up with padding.
    /// There is never more than one under way.
    pub fn poll_probe(&mut self, now: Time) -> Option<u16> {
        if let Some(probe) = self.outstanding {
            if now < probe.sent_at + PROBE_TIMEOUT {
                return None;
            }
            self.on_probe_lost(probe.size, now);
        }
        if self.raise_at.is_some_and(|at| now >= at) {
            self.raise_at = None;
            self.failed.clear();
        }
        if now < self.next_probe_at {
            return None;
        }
        let Some(size) = self.next_size() else {
            if self.current < self.ceiling && self.raise_at.is_none() {
                self.raise_at = Some(now + RAISE_INTERVAL);
            }
            return None;
        };
        self.outstanding = Some(Probe { size, sent_at: now, path_alive: false });
        Some(size)
    }

    /// When [`poll_probe`](Self::poll_probe) is to be called next. It may lie in
    /// the past: then at once.
    pub fn next_deadline(&self) -> Option<Time> {
        match self.outstanding {
            Some(probe) => Some(probe.sent_at + PROBE_TIMEOUT),
            None if self.next_size().is_some() => Some(self.next_probe_at),
            None if self.current < self.ceiling => Some(self.raise_at.unwrap_or(Time::ZERO)),
            None => None,
        }
    }

    /// A probe of `size` bytes arrived at the peer.
    pub fn on_probe_acked(&mut self, size: u16, now: Time) {
        let under_way = self.outstanding.is_some_and(|p| p.size == size);
        // A probe that was taken for lost is good news too, but one from before
        // a reset says nothing of the path as it is now.
        if !under_way && !self.failed.contains_key(&size) {
            return;
        }
        if under_way {
            self.outstanding = None;
        }
        self.on_alive(now);
        if size > self.current && size <= self.ceiling {
            self.current = size;
            self.failed = self.failed.split_off(&(size + 1));
            // A smaller one under way says nothing new, whatever becomes of it.
            self.outstanding = self.outstanding.filter(|probe| probe.size > size);
            self.losses = None;
        }
    }

    /// A probe of `size` bytes was lost.
    pub fn on_probe_lost(&mut self, size: u16, now: Time) {
        let Some(probe) = self.outstanding.filter(|p| p.size == size) else {
            return;
        };
        self.outstanding = None;
        if probe.path_alive {
            self.hint = self.hint.filter(|&hint| hint != size);
            let losses = self.failed.entry(size).or_insert(0);
            *losses = losses.saturating_add(1);
        } else {
            // Nothing arrived at all: the path is down, the size not to blame.
            self.next_probe_at = now + self.silence_backoff;
            self.silence_backoff = (self.silence_backoff * 2).min(SILENCE_BACKOFF_MAX);
        }
    }

    /// A datagram of `size` bytes that was not a probe arrived at the peer.
    pub fn on_datagram_acked(&mut self, size: u16, now: Time) {
        self.on_alive(now);
        let refuge = self.refuge();
        if let Some(run) = &mut self.losses {
            if size >= run.smallest {
                self.losses = None;
            } else if size <= refuge {
                run.small_acked += 1;
                self.check_black_hole(now);
            }
        }
    }

    /// A datagram of `size` bytes that was not a probe was lost.
    pub fn on_datagram_lost(&mut self, size: u16, now: Time) {
        // Larger than `current`: sent before the last fall, nothing new.
        if size <= self.refuge() || size > self.current {
            return;
        }
        let run = self.losses.get_or_insert(LossRun {
            since: now,
            smallest: size,
            count: 0,
            small_acked: 0,
        });
        run.smallest = run.smallest.min(size);
        run.count += 1;
        self.check_black_hole(now);
    }

    /// The path leads elsewhere now (address or route changed): starts anew
    /// from the base.
    pub fn on_path_changed(&mut self) {
        *self = Self::new(self.base, self.ceiling, self.header_bytes);
    }

    /// The kernel refused a larger datagram with EMSGSIZE; `limit` is the
    /// largest UDP payload that it would take (the interface's MTU less
    /// headers), or one less than the refused size where that is unknown.
    pub fn on_local_emsgsize(&mut self, limit: u16) {
        let limit = limit.max(FLOOR);
        self.current = self.current.min(limit);
        self.outstanding = self.outstanding.filter(|probe| probe.size <= limit);
        self.hint = self.hint.filter(|&hint| hint <= limit);
        self.failed = self.failed.split_off(&(self.current + 1));
        if let Some(refused) = limit.checked_add(1).filter(|&size| size <= self.ceiling) {
            self.failed.retain(|&size, _| size < refused);
            self.failed.insert(refused, MAX_PROBES);
        }
        self.losses = None;
    }

    fn on_alive(&mut self, now: Time) {
        if let Some(probe) = &mut self.outstanding {
            probe.path_alive = true;
        }
        self.silence_backoff = SILENCE_BACKOFF;
        self.next_probe_at = self.next_probe_at.min(now);
    }

    fn check_black_hole(&mut self, now: Time) {
        let Some(run) = self.losses else { return };
        let small_pass = run.small_acked >= BLACK_HOLE_SMALL_ACKED;
        let fast = run.count >= BLACK_HOLE_LOSSES && small_pass;
        let slow = run.count >= BLACK_HOLE_SLOW_LOSSES && now.since(run.since) >= BLACK_HOLE_TIME;
        // That the base itself doesn't pass is rare: time alone says nothing.
        if !(fast || slow && (small_pass || self.current > self.base)) {
            return;
        }
        // A burst of congestion looks the same. So what worked last is tried
        // first, and a false alarm costs one round trip of smaller datagrams.
        self.hint = Some(self.current);
        self.current = self.current.min(self.refuge());
        self.outstanding = None;
        self.raise_at = None;
        self.losses = None;
    }

    /// The size to fall back to when that of now doesn't pass: links that can't
    /// carry the base are rare.
    fn refuge(&self) -> u16 {
        if self.current > self.base { self.base } else { FLOOR }
    }

    /// The size to probe next; `None` when the search is complete.
    ///
    /// Sizes lost only once bound the search from above already, since losing a
    /// probe is mostly the MTU's doing. When the search has closed in, the
    /// smallest of them gets its remaining tries, and if it passes after all,
    /// the search goes on above it. So a path costs few probes.
    fn next_size(&self) -> Option<u16> {
        if let Some(hint) = self.hint
            && self.is_open(hint)
        {
            return Some(hint);
        }
        let Some((&bad, &losses)) = self.failed.first_key_value() else {
            return (self.current < self.ceiling).then_some(self.ceiling);
        };
        if bad - self.current <= RESOLUTION {
            return (losses < MAX_PROBES).then_some(bad);
        }
        let common: Vec<u16> = COMMON_MTUS
            .iter()
            .filter_map(|mtu| mtu.checked_sub(self.header_bytes))
            .filter(|&size| self.is_open(size))
            .collect();
        if self.failed.len() < TRIED_IN_TURN
            && let Some(&largest) = common.last()
        {
            return Some(largest);
        }
        let middle = common.get(common.len() / 2).copied();
        Some(middle.unwrap_or(self.current + (bad - self.current) / 2))
    }

    /// Whether it's unknown yet if `size` passes.
    fn is_open(&self, size: u16) -> bool {
        let bad = self.failed.keys().next().copied();
        size > self.current && size <= self.ceiling && bad.is_none_or(|bad| size < bad)
    }
}

#[cfg(test)]
mod tests;
