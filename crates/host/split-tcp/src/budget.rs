//! How much memory connections may fill: little while idle, as much as they can use while busy, and
//! never more than its share for one home.
//!
//! The kernel's own buffer sizing has no limit besides each connection's. Here every direction of a
//! connection has a grant, which is divided among the socket it reads, the data in between, and the
//! socket it writes. A grant doubles when so many bytes passed that it may have been too small, up
//! to half of what would be left without it (as in Choudhury and Hahne's dynamic thresholds, 1998:
//! however many are busy, newcomers find as much as each of them has), and is returned when no
//! longer used.

/// A direction's grant while idle, or when no more is left: enough to accept a few packets.
const IDLE: u64 = 16 << 10;
/// Its grant as soon as there is something to move: room for the first flight of 64 segments
/// between the ends.
const START: u64 = 512 << 10;
/// If a direction moved this fraction of its grant, the grant may have been too small, since the
/// window is about a quarter of it (half is the receive buffer, of which the kernel announces
/// half).
const MIGHT_FILL: u64 = 4;
/// If a direction moved less than this fraction of its grant in a period, it doesn't need it (with
/// round trips of up to a second).
const NO_USE: u64 = 16;

/// Eighths of a home's memory for busy directions' additional grants: however many are busy, new
/// connections find room, and vice versa.
const BUSY_PARTS: u64 = 3;
/// A direction's first grant is at most this fraction of what is left, as many may begin at once.
const BEGINNERS: u64 = 32;

/// A home's share of memory.
#[derive(Debug)]
pub(crate) struct Share {
    /// Left for minimum grants.
    idle_left: u64,
    /// Left for larger grants.
    left: u64,
    /// Maximum grant of a direction.
    most: u64,
}

/// What a direction of a connection may fill.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    bytes: u64,
    /// Bytes moved in this period.
    moved: u64,
    /// Of these, those since the grant grew.
    since: u64,
}

impl Share {
    /// All of a home's connections together get `memory`; a single buffer at most `buffer`.
    pub(crate) fn new(memory: u64, buffer: u64) -> Self {
        let left = memory / 8 * BUSY_PARTS;
        Share { idle_left: memory - left, left, most: buffer.saturating_mul(2).max(IDLE) }
    }

    /// A new connection's grants, one per direction; `None` if not even idle grants are left.
    pub(crate) fn open(&mut self) -> Option<[Grant; 2]> {
        self.idle_left = self.idle_left.checked_sub(2 * IDLE)?;
        Some([(); 2].map(|()| {
            let mut grant = Grant { bytes: IDLE, moved: 0, since: 0 };
            self.wake(&mut grant);
            grant
        }))
    }

    /// A connection has ended.
    pub(crate) fn close(&mut self, grants: [Grant; 2]) {
        for mut grant in grants {
            self.set(&mut grant, IDLE);
            self.idle_left += IDLE;
        }
    }

    /// An idle direction has something to move. Returns whether its grant changed.
    pub(crate) fn wake(&mut self, grant: &mut Grant) -> bool {
        // Count it as used, or it would be withdrawn before the first answer.
        grant.moved += 1;
        let wanted = START.min(self.most).min(self.left / BEGINNERS);
        grant.is_idle() && self.set(grant, wanted.max(IDLE))
    }

    /// A direction has moved some bytes. Returns whether its grant changed.
    pub(crate) fn moved(&mut self, grant: &mut Grant, bytes: u64) -> bool {
        grant.moved = grant.moved.saturating_add(bytes);
        grant.since = grant.since.saturating_add(bytes);
        if grant.since < grant.bytes / MIGHT_FILL {
            return false;
        }
        grant.since = 0;
        let wanted = (2 * grant.bytes).min(self.most).min(self.fair(grant));
        // A small increase isn't worth the system calls.
        wanted > grant.bytes + grant.bytes / 4 && self.set(grant, wanted)
    }

    /// A period has passed. `held` returns how many bytes are in the buffers. Returns whether the
    /// grant changed.
    pub(crate) fn period(&mut self, grant: &mut Grant, held: impl FnOnce() -> u64) -> bool {
        let moved = std::mem::take(&mut grant.moved);
        grant.since = 0;
        let wanted = match moved {
            0 => IDLE,
            _ if moved < grant.bytes / NO_USE || self.left < grant.bytes / 2 => grant.bytes / 2,
            _ => return false,
        };
        if grant.is_idle() {
            return false;
        }
        // Buffered data takes memory, whatever was granted: the kernel counts up to twice the
        // bytes, and there are two buffers.
        let wanted = wanted.max(held().saturating_mul(4)).max(IDLE);
        wanted < grant.bytes && self.set(grant, wanted)
    }

    /// Up to what a direction's grant may grow.
    fn fair(&self, grant: &Grant) -> u64 {
        (self.left + grant.bytes - IDLE) / 2
    }

    fn set(&mut self, grant: &mut Grant, bytes: u64) -> bool {
        self.left = self.left + grant.bytes - bytes;
        std::mem::replace(&mut grant.bytes, bytes) != bytes
    }
}

impl Grant {
    pub(crate) fn is_idle(&self) -> bool {
        self.bytes <= IDLE
    }

    /// Bytes of the receive buffer of the socket that is read.
    pub(crate) fn receive(&self) -> u64 {
        self.bytes / 2
    }

    /// Bytes read at a time, and kept if they can't be written: at most `most`.
    pub(crate) fn chunk(&self, most: usize) -> usize {
        usize::try_from(self.bytes / 8).map_or(most, |chunk| chunk.min(most))
    }

    /// Bytes of the send buffer of the socket that is written, in addition to chunks of `most`.
    pub(crate) fn send(&self, most: usize) -> u64 {
        self.bytes / 2 - self.chunk(most) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMORY: u64 = 1 << 30;
    const BUFFER: u64 = 16 << 20;

    fn total(open: &[[Grant; 2]]) -> u64 {
        open.iter().flatten().map(|grant| grant.bytes).sum()
    }

    /// Moves data over a connection until its grant is as large as it gets.
    fn fill(share: &mut Share, grant: &mut Grant) -> u64 {
        while share.moved(grant, 1 << 20) || grant.since > 0 {}
        grant.bytes
    }

    #[test]
    fn whatever_connections_do_they_have_no_more_than_there_is() {
        for seed in 1..=20u64 {
            let memory = [MEMORY, 8 << 20, 3 << 20, 100_000][seed as usize % 4];
            let mut share = Share::new(memory, BUFFER);
            let (mut open, mut random) = (Vec::<[Grant; 2]>::new(), seed);
            let (mut refused, mut grew) = (0, 0);
            for _ in 0..3_000 {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                let which = (random >> 8) as usize % open.len().max(1);
                let bytes = 1 << ((random >> 40) % 26);
                match (random % 8, open.get_mut(which)) {
                    (0..=1, _) => match share.open() {
                        Some(grants) => open.push(grants),
                        None => refused += 1,
                    },
                    (2, Some(_)) => share.close(open.swap_remove(which)),
                    (3, Some(grants)) => {
                        share.period(&mut grants[0], || bytes);
                        share.period(&mut grants[1], || 0);
                    }
                    (_, Some([up, down])) => {
                        share.wake(up);
                        grew += usize::from(share.moved(down, bytes));
                    }
                    (_, None) => {}
                }
                let taken = total(&open);
                assert_eq!(taken + share.left + share.idle_left, memory, "seed {seed}");
                assert!(open.iter().flatten().all(|it| (IDLE..=2 * BUFFER).contains(&it.bytes)));
            }
            assert_eq!(grew > 0, memory > 100_000);
            assert_eq!(refused > 0, memory < MEMORY, "{memory}");
            open.into_iter().for_each(|grants| share.close(grants));
            assert_eq!(share.left + share.idle_left, memory);
        }
    }

    #[test]
    fn a_busy_one_among_many_idle_gets_as_much_as_alone() {
        let mut share = Share::new(MEMORY, BUFFER);
        let mut alone = share.open().unwrap();
        assert_eq!(fill(&mut share, &mut alone[1]), 2 * BUFFER);
        share.close(alone);
        let mut idle = Vec::new();
        // Each was busy for a while, and its client has gone to the next.
        for _ in 0..10_000 {
            let mut grants = share.open().unwrap();
            fill(&mut share, &mut grants[1]);
            for grant in &mut grants {
                share.period(grant, || 0);
                share.period(grant, || 0);
            }
            idle.push(grants);
        }
        assert!(idle.iter().flatten().all(Grant::is_idle));
        let mut busy = share.open().unwrap();
        assert_eq!(fill(&mut share, &mut busy[1]), 2 * BUFFER);
        // As many as the config allows can exist.
        idle.extend((10_001..20_000).map(|_| share.open().unwrap()));
    }

    #[test]
    fn those_that_are_busy_get_about_the_same() {
        let mut share = Share::new(64 << 20, BUFFER);
        let mut busy: Vec<_> = (0..2).map(|_| share.open().unwrap()).collect();
        let go_on = |busy: &mut Vec<[Grant; 2]>, share: &mut Share| {
            for _ in 0..20 {
                for [_, down] in busy.iter_mut() {
                    share.moved(down, 32 << 20);
                }
                for grant in busy.iter_mut().flatten() {
                    share.period(grant, || 0);
                }
            }
        };
        go_on(&mut busy, &mut share);
        busy.extend((0..30).map(|_| share.open().unwrap()));
        go_on(&mut busy, &mut share);
        let sizes: Vec<u64> = busy.iter().map(|[_, down]| down.bytes).collect();
        let (least, most) = (sizes.iter().min().unwrap(), sizes.iter().max().unwrap());
        assert!(*least >= 256 << 10 && most / least <= 4, "{sizes:?}");
    }

    #[test]
    fn what_stands_in_buffers_stays_counted() {
        let mut share = Share::new(MEMORY, BUFFER);
        let mut stuck = share.open().unwrap();
        fill(&mut share, &mut stuck[1]);
        for _ in 0..10 {
            share.period(&mut stuck[1], || 3 << 20);
        }
        assert_eq!(stuck[1].bytes, 12 << 20);
        assert!(share.period(&mut stuck[1], || 0) && stuck[1].is_idle());
    }

    #[test]
    fn the_parts_of_a_grant_are_no_more_than_all() {
        for bytes in [IDLE, START, 2 * BUFFER, 1 << 31] {
            let grant = Grant { bytes, moved: 0, since: 0 };
            let chunk = grant.chunk(256 << 10);
            assert!((2048..=256 << 10).contains(&chunk));
            assert_eq!(grant.receive() + grant.send(256 << 10) + chunk as u64, bytes);
        }
    }
}
