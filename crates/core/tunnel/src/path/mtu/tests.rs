use super::*;

const HEADERS: u16 = 28;
const ROUND_TRIP: Duration = Duration::from_millis(50);

/// A path with an MTU and random loss, over which full-size and small
/// datagrams go all the time.
struct Path {
    search: MtuSearch,
    mtu: u16,
    loss_percent: u64,
    random: u64,
    now: Time,
    probes: u32,
}

impl Path {
    fn new(mtu: u16, loss_percent: u64, seed: u64) -> Self {
        Path {
            search: MtuSearch::new(1200, 1500 - HEADERS, HEADERS),
            mtu,
            loss_percent,
            random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            now: Time::from_millis(5),
            probes: 0,
        }
    }

    fn payload(&self) -> u16 {
        self.mtu - HEADERS
    }

    fn arrives(&mut self, size: u16) -> bool {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        size <= self.payload() && (self.random >> 20) % 100 >= self.loss_percent
    }

    fn round_trip(&mut self) {
        let probe = self.search.poll_probe(self.now);
        assert_eq!(self.search.poll_probe(self.now), None, "one probe at a time");
        assert!(
            self.search.next_deadline().is_none_or(|at| at > self.now),
            "a poll leaves no deadline in the past"
        );
        let sizes = [60, self.search.current(), 400, self.search.current(), 1000];
        self.now += ROUND_TRIP;
        for size in sizes {
            if self.arrives(size) {
                self.search.on_datagram_acked(size, self.now);
            } else {
                self.search.on_datagram_lost(size, self.now);
            }
        }
        if let Some(size) = probe {
            self.probes += 1;
            if self.arrives(size) {
                self.search.on_probe_acked(size, self.now);
            } else {
                self.search.on_probe_lost(size, self.now);
            }
        }
    }

    fn round_trips(&mut self, count: usize) {
        for _ in 0..count {
            self.round_trip();
        }
    }

    fn assert_converged(&self, context: &str) {
        let (found, real) = (self.search.current(), self.payload());
        assert!(
            found <= real && found + RESOLUTION > real,
            "{context}: {found} found, {real} real"
        );
    }
}

#[test]
fn converges_in_few_probes_whatever_the_mtu() {
    for mtu in 1280..=1500 {
        for loss in [0, 1, 5] {
            for seed in 1..=5 {
                let mut path = Path::new(mtu, loss, seed);
                path.round_trips(40);
                let context = format!("mtu {mtu}, loss {loss} %, seed {seed}");
                path.assert_converged(&context);
                let most = if loss == 0 { 14 } else { 30 };
                assert!(path.probes <= most, "{context}: {} probes", path.probes);
                // And it stays there.
                for _ in 0..200 {
                    path.round_trip();
                    assert!(path.search.current() <= path.payload(), "{context}");
                }
            }
        }
    }
}

#[test]
fn common_mtus_are_found_exactly_and_a_clean_path_at_once() {
    for mtu in COMMON_MTUS {
        let mut path = Path::new(mtu, 0, 1);
        path.round_trips(30);
        assert_eq!(path.search.current(), mtu - HEADERS);
    }
    let mut path = Path::new(1500, 0, 1);
    path.round_trips(1);
    assert_eq!(path.search.current(), 1472);
    assert_eq!(path.search.next_deadline(), None);
}

#[test]
fn a_shrunk_mtu_is_found_by_its_black_hole() {
    for (before, after) in [(1500, 1420), (1492, 1280), (1400, 1300), (1500, 1492)] {
        for seed in 1..=20 {
            let mut path = Path::new(before, 2, seed);
            path.round_trips(60);
            path.assert_converged("before");
            path.mtu = after;
            path.round_trips(8);
            assert!(path.search.current() <= path.payload(), "still too large, seed {seed}");
            path.round_trips(60);
            path.assert_converged("after");
        }
    }
}

#[test]
fn a_link_below_the_base_is_found_by_its_black_hole() {
    for mtu in [600, 900, 1200] {
        let mut path = Path::new(mtu, 0, 1);
        path.round_trips(60);
        path.assert_converged("from the start");
        path.mtu = 1500;
        path.now += RAISE_INTERVAL;
        path.round_trips(5);
        path.assert_converged("grown");
        path.mtu = mtu;
        path.round_trips(60);
        path.assert_converged("shrunk");
    }
}

#[test]
fn a_grown_mtu_is_found_by_the_raise_timer() {
    let mut path = Path::new(1400, 0, 3);
    path.round_trips(60);
    path.assert_converged("before");
    path.mtu = 1500;
    path.round_trips(60);
    assert_eq!(path.search.current(), 1400 - HEADERS, "no probes before the timer");
    let at = path.search.next_deadline().unwrap();
    assert!(at.since(path.now) <= RAISE_INTERVAL);
    path.now = at;
    path.round_trips(5);
    path.assert_converged("after");
}

#[test]
fn a_false_alarm_is_mended_in_one_round_trip() {
    let mut path = Path::new(1492, 0, 1);
    path.round_trips(60);
    let full = path.search.current();
    for _ in 0..10 {
        path.search.on_datagram_lost(full, path.now);
    }
    path.search.on_datagram_acked(100, path.now);
    path.search.on_datagram_acked(100, path.now);
    assert_eq!(path.search.current(), 1200);
    path.round_trips(1);
    assert_eq!(path.search.current(), full);
}

#[test]
fn random_loss_is_no_black_hole() {
    for seed in 1..=20 {
        let mut path = Path::new(1500, 5, seed);
        path.round_trips(30);
        for _ in 0..2000 {
            path.round_trip();
            assert_eq!(path.search.current(), 1472, "seed {seed}");
        }
    }
}

#[test]
fn a_blackout_does_not_spoil_the_search() {
    let mut search = MtuSearch::new(1200, 1472, HEADERS);
    let mut now = Time::from_millis(1);
    let mut probes = 0;
    let end = Time::from_millis(120_000);
    while now < end {
        if let Some(size) = search.poll_probe(now) {
            probes += 1;
            now += Duration::from_millis(300);
            search.on_probe_lost(size, now);
        }
        now = now.max(search.next_deadline().unwrap()).min(end);
    }
    assert!(probes < 12, "{probes} probes into the void");
    search.on_datagram_acked(100, now);
    let size = search.poll_probe(now).unwrap();
    assert_eq!(size, 1472, "no size was given up");
    search.on_probe_acked(size, now);
    assert_eq!(search.current(), 1472);
}

#[test]
fn the_kernel_and_a_new_path_are_obeyed_at_once() {
    let mut path = Path::new(1500, 0, 1);
    path.round_trips(2);
    path.search.on_local_emsgsize(1372);
    assert_eq!(path.search.current(), 1372);
    path.round_trips(10);
    assert_eq!(path.search.current(), 1372);
    assert_eq!(path.probes, 1, "what the kernel refused is not probed");
    path.search.on_local_emsgsize(900);
    assert_eq!(path.search.current(), 900);
    path.search.on_path_changed();
    assert_eq!(path.search.current(), 1200);
    path.search.on_probe_acked(1472, path.now);
    assert_eq!(path.search.current(), 1200, "an old path's probe is no proof");
    path.round_trips(2);
    assert_eq!(path.search.current(), 1472);
}

#[test]
fn an_unanswered_probe_times_out() {
    let mut search = MtuSearch::new(1200, 1472, HEADERS);
    assert_eq!(search.poll_probe(Time::ZERO), Some(1472));
    let at = search.next_deadline().unwrap();
    search.on_datagram_acked(100, Time::from_millis(10));
    assert_eq!(search.poll_probe(at), Some(1464));
}

#[test]
fn a_probe_that_a_larger_one_has_made_needless_may_be_lost() {
    let mut search = MtuSearch::new(1200, 1500 - HEADERS, HEADERS);
    let mut now = Time::from_millis(5);
    // The largest is lost, for now, while others arrive.
    let first = search.poll_probe(now).unwrap();
    search.on_datagram_acked(60, now);
    search.on_probe_lost(first, now);
    now += ROUND_TRIP;
    let second = search.poll_probe(now).unwrap();
    assert!(second < first);
    search.on_datagram_acked(60, now);
    // The first was only late.
    search.on_probe_acked(first, now);
    assert_eq!(search.current(), first);
    // It was the ceiling: nothing is left to be searched.
    search.on_probe_lost(second, now);
    assert_eq!((search.poll_probe(now), search.next_deadline()), (None, None));
}
