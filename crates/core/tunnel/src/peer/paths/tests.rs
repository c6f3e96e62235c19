use super::*;
use crate::path::sent::{Fate, SentPacket};

const EXPIRY: Duration = Duration::from_secs(60);

fn address(host: u8) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, host], 51_820))
}

/// Paths by so many links, all of which work at `now`.
fn open(links: u16, now: Time) -> (PathSet, TimerTable) {
    let (mut paths, mut timers) = (PathSet::new(EXPIRY, Heuristics::ALL), TimerTable::default());
    for link in 0..links {
        paths.open(LinkId(link), address(1), &LinkConfig::default(), &mut timers, now);
        paths[usize::from(link)].liveness.on_acked(now, now);
    }
    paths.summarize(&mut timers);
    timers.set(Timer::Loss, None);
    timers.set(Timer::Control, None);
    (paths, timers)
}

fn send(paths: &mut PathSet, place: usize, timers: &mut TimerTable, now: Time) {
    paths[place].on_sent(SentPacket::new(now, 1200, Fate::InFlight), 0, true, now);
    paths.note_losses_of(place, timers);
}

#[test]
fn a_link_gets_its_number_again_and_a_new_one_another() {
    let now = Time::from_millis(10);
    let (mut paths, mut timers) = open(3, now);
    paths[1].sent.push(SentPacket::new(now, 100, Fate::Unwatched), 0);
    assert!(paths.close_link(LinkId(1), &mut Settled::default(), &mut timers));
    assert!(timers.is_due(Timer::Control, now));
    let open = |paths: &mut PathSet, timers: &mut TimerTable, link| {
        paths.open(LinkId(link), address(1), &LinkConfig::default(), timers, now);
        paths.last().map(|path| (path.id, path.sent.next_number()))
    };
    assert_eq!(open(&mut paths, &mut timers, 7), Some((3, 0)));
    // No packet number of the path is used twice.
    assert_eq!(open(&mut paths, &mut timers, 1), Some((1, 1)));
    assert_eq!(paths.place_of(1), Some(3));
}

#[test]
fn a_peer_opens_no_more_paths_than_it_may() {
    let now = Time::from_millis(10);
    let mut paths = PathSet::new(EXPIRY, Heuristics::ALL);
    for id in 0..MAX_PATHS as u8 {
        assert_eq!(paths.accept(id, LinkId(0), address(id), now), Some(usize::from(id)));
    }
    assert_eq!(paths.accept(64, LinkId(0), address(64), now), None);
}

#[test]
fn paths_that_the_peer_left_are_closed_but_not_the_last_it_was_heard_by() {
    let now = Time::from_millis(10);
    let (mut paths, mut timers) = (PathSet::new(EXPIRY, Heuristics::ALL), TimerTable::default());
    for id in 0..3 {
        let heard = now + Duration::from_secs(u64::from(id));
        paths.accept(id, LinkId(0), address(id), heard);
    }
    let mut close = |timers: &mut TimerTable, now| {
        let closed = paths.close_expired(&mut Settled::default(), timers, now);
        (closed, paths.iter().map(|path| path.id).collect::<Vec<_>>())
    };
    assert_eq!(close(&mut timers, now), (false, vec![0, 1, 2]));
    let expires = timers.at(Timer::PathExpiry);
    assert_eq!(expires, now + EXPIRY);
    assert_eq!(close(&mut timers, expires), (true, vec![1, 2]));
    assert_eq!(close(&mut timers, expires + EXPIRY), (true, vec![2]));
    assert_eq!(timers.at(Timer::PathExpiry), Time::FAR_FUTURE);
}

#[test]
fn what_was_sent_is_missed_in_time_and_given_back() {
    let now = Time::from_millis(10);
    let (mut paths, mut timers) = open(2, now);
    assert_eq!(timers.at(Timer::Loss), Time::FAR_FUTURE);
    send(&mut paths, 0, &mut timers, now);
    let due = timers.at(Timer::Loss);
    assert!(due > now && due < Time::FAR_FUTURE);
    // More on its way by another path doesn't put it off.
    send(&mut paths, 1, &mut timers, now + Duration::from_millis(1));
    assert_eq!(timers.at(Timer::Loss), due);
    let mut settled = Settled::default();
    let later = now + Duration::from_secs(5);
    paths.on_timeout(true, &mut settled, &mut timers, later);
    assert!(paths.iter().all(|path| path.state() == PathState::Suspect));
    assert_eq!(timers.at(Timer::Loss), Time::FAR_FUTURE, "nothing is in flight any more");
}

#[test]
fn standby_paths_are_no_candidates_beside_others() {
    let now = Time::from_millis(10);
    let (mut paths, _) = open(3, now);
    let places = |paths: &PathSet, except, tier| {
        paths.candidates(except, tier).of(paths).map(|(place, _)| place).collect::<Vec<_>>()
    };
    paths[2].policy.standby = true;
    paths[1].policy.tier = 5;
    assert_eq!(places(&paths, None, u8::MAX), [0, 1]);
    assert_eq!(places(&paths, None, 4), [0]);
    assert_eq!(places(&paths, Some(0), u8::MAX), [1]);
    for path in &mut paths[..2] {
        path.liveness.suspect(now);
    }
    assert_eq!(places(&paths, None, u8::MAX), [2]);
}

#[test]
fn after_the_peers_restart_policies_are_told_again_and_numbers_begin_anew() {
    let now = Time::from_millis(10);
    let (mut paths, mut timers) = open(1, now);
    send(&mut paths, 0, &mut timers, now);
    paths[0].policy_untold = false;
    paths[0].policy.tier = 3;
    paths.restart(&mut timers, now);
    assert_eq!((paths[0].sent.next_number(), paths[0].policy.tier), (0, 3));
    assert!(paths[0].policy_untold && !paths[0].liveness.is_up());
    assert!(timers.is_due(Timer::Control, now));
}
