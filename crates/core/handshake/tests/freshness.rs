//! Who is heard whose clock is wrong, and that nobody else is: homes and
//! concentrators that restart with any clock, and somebody who has recorded
//! everything and sends it again.

mod support;

use braid_handshake::*;
use proptest::prelude::*;
use support::*;

const SECOND: u64 = 1_000_000_000;
const TODAY: u64 = 1_700_000_000 * SECOND;

#[derive(Clone, Debug)]
enum Event {
    /// The home starts with a clock that is wrong by so many seconds.
    HomeStarts(i64),
    ConcentratorStarts,
    /// The home's clock jumps while it runs.
    Jump(i64),
    /// The home connects; so many of its initiations are lost first, but not
    /// to the one who records.
    Connect(usize),
    /// One of those recorded, again.
    Replay(prop::sample::Index),
}

struct World {
    pair: Pair,
    clock: u64,
    // Of the home.
    next: NextTimestamp,
    unanswered: bool,
    // Of the concentrator.
    latest: LatestTimestamp,
    recorded: Vec<Vec<u8>>,
    // Of those recorded, which were answered with a session since the
    // concentrator started.
    answered: Vec<Vec<u8>>,
}

impl World {
    fn new() -> Self {
        World {
            pair: Pair::new(),
            clock: TODAY,
            next: NextTimestamp::default(),
            unanswered: false,
            latest: LatestTimestamp::default(),
            recorded: Vec::new(),
            answered: Vec::new(),
        }
    }

    fn initiate(&mut self) -> (Initiation, Vec<u8>) {
        self.clock += SECOND;
        let asks = Extensions { tell_if_stale: self.unanswered, ..Extensions::default() };
        self.unanswered = true;
        let timestamp = self.next.take(self.clock);
        let hello = Hello { parameters: asks.to_parameters(), ..hello(timestamp) };
        let (initiation, datagram) = self.pair.start_with(None, &hello);
        self.recorded.push(datagram.clone());
        (initiation, datagram)
    }

    fn arrive(&mut self, datagram: &[u8]) -> Answer {
        let pending = self.pair.accept(datagram);
        pending.answer(&mut self.latest, CONCENTRATOR_INDEX, &hello(1), None).unwrap()
    }

    /// How many initiations it took.
    fn connect(&mut self, lost: usize) -> usize {
        for _ in 0..lost {
            self.initiate();
        }
        for attempt in 1..=10 {
            let (mut initiation, datagram) = self.initiate();
            match self.arrive(&datagram) {
                Answer::Session(response, at_concentrator) => {
                    self.answered.push(datagram);
                    let at_home = initiation.finish(&response).unwrap();
                    assert_connected(&at_home, &at_concentrator);
                    self.unanswered = false;
                    return attempt;
                }
                Answer::Stale(response) => match initiation.finish(&response) {
                    Err(HandshakeError::Stale { latest }) => self.next.catch_up(latest),
                    other => panic!("{other:?}"),
                },
                Answer::Silence(_) => {}
            }
        }
        panic!("locked out");
    }
}

fn seconds() -> impl Strategy<Value = i64> {
    const DAY: i64 = 86_400;
    prop_oneof![
        Just(0),
        -5..5i64,
        Just(-DAY),
        Just(DAY),
        -2_000_000_000..2_000_000_000i64,
        // A clock of 64 bits that shows anything.
        Just(-1_700_000_000),
        Just(i64::MAX / 1_000_000_000),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        seconds().prop_map(Event::HomeStarts),
        Just(Event::ConcentratorStarts),
        seconds().prop_map(Event::Jump),
        (0..3usize).prop_map(Event::Connect),
        any::<prop::sample::Index>().prop_map(Event::Replay),
        any::<prop::sample::Index>().prop_map(Event::Replay),
    ]
}

fn shown(seconds: i64) -> u64 {
    TODAY.saturating_add_signed(seconds.saturating_mul(1_000_000_000))
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 64,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_home_is_heard_whatever_its_clock_shows_and_a_replay_never(
        events in proptest::collection::vec(event(), 1..25),
    ) {
        let mut world = World::new();
        for event in events {
            match event {
                Event::HomeStarts(wrong) => {
                    world.clock = shown(wrong);
                    (world.next, world.unanswered) = (NextTimestamp::default(), false);
                }
                Event::ConcentratorStarts => {
                    world.latest = LatestTimestamp::default();
                    world.answered.clear();
                }
                Event::Jump(wrong) => world.clock = shown(wrong),
                Event::Connect(lost) => {
                    let attempts = world.connect(lost);
                    // One that isn't answered, one that says so and is told.
                    prop_assert!(attempts <= 3, "{attempts} initiations");
                }
                Event::Replay(which) => {
                    if world.recorded.is_empty() {
                        continue;
                    }
                    let datagram = which.get(&world.recorded).clone();
                    let before = world.latest;
                    match world.arrive(&datagram) {
                        // Nobody can use it, and it's once only.
                        Answer::Session(..) => {
                            prop_assert!(!world.answered.contains(&datagram));
                            world.answered.push(datagram);
                        }
                        Answer::Stale(_) | Answer::Silence(_) => {
                            prop_assert_eq!(world.latest, before);
                        }
                    }
                }
            }
        }
        world.connect(0);
    }
}

#[test]
fn the_usual_handshake_takes_one_round_trip() {
    let mut world = World::new();
    assert_eq!(world.connect(0), 1);
    assert_eq!(world.connect(0), 1, "new keys");
    world.latest = LatestTimestamp::default();
    assert_eq!(world.connect(0), 1, "the concentrator restarted");
    world.next = NextTimestamp::default();
    assert_eq!(world.connect(0), 1, "the home restarted");
}

#[test]
fn a_clock_that_went_back_costs_one_round_trip_once() {
    let mut world = World::new();
    world.connect(0);
    (world.next, world.clock) = (NextTimestamp::default(), shown(-86_400));
    assert_eq!(world.connect(0), 3, "in silence, told, heard");
    assert_eq!(world.connect(0), 1, "and from then on as usual");
}

#[test]
fn whoever_does_not_ask_is_not_told() {
    let mut world = World::new();
    let (_, old) = world.initiate();
    let (_, new) = world.initiate();
    assert!(matches!(world.arrive(&new), Answer::Session(..)));
    assert!(matches!(world.arrive(&old), Answer::Silence(_)), "the first asks nothing");
    assert!(matches!(world.arrive(&new), Answer::Silence(_)), "a copy by another path");
}

#[test]
fn what_is_told_is_no_session_and_no_larger_than_the_question() {
    let mut world = World::new();
    world.connect(0);
    world.initiate();
    world.clock -= 10 * SECOND;
    world.next = NextTimestamp::default();
    let (mut initiation, datagram) = world.initiate();
    let Answer::Stale(told) = world.arrive(&datagram) else { panic!("not told") };
    assert_eq!(told.len(), message::RESPONSE_LEN);
    assert!(matches!(initiation.finish(&told), Err(HandshakeError::Stale { .. })));
    assert!(matches!(initiation.finish(&told), Err(HandshakeError::Unexpected)));
}
