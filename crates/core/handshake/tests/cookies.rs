//! The responder under load.

mod support;

use braid_handshake::*;
use braid_units::Time;
use std::net::SocketAddr;
use std::time::Duration;
use support::*;

/// A home that has a cookie for its address.
fn with_cookie() -> (Pair, Initiation, Cookie) {
    let mut pair = Pair::new();
    let (initiation, datagram) = pair.start();
    let reply = cookie_reply(pair.receive(&datagram, true));
    assert_eq!(
        HandshakeMessage::classify(&reply),
        Ok(HandshakeMessage::CookieReply { receiver: HOME_INDEX })
    );
    let cookie = initiation.handle_cookie_reply(NOW, &reply).unwrap();
    (pair, initiation, cookie)
}

fn cookie_reply(received: Received) -> Vec<u8> {
    match received {
        Received::Send(reply) => reply,
        other => panic!("no cookie reply: {other:?}"),
    }
}

#[test]
fn a_cookie_gets_the_same_initiation_through_under_load() {
    let (mut pair, mut initiation, cookie) = with_cookie();
    let again = initiation.datagram(Some(&cookie));
    let Received::Initiation(pending) = pair.receive(&again, true) else {
        panic!("refused in spite of the cookie");
    };
    let (response, at_concentrator) = pending.respond(CONCENTRATOR_INDEX, &hello(1), None).unwrap();
    assert_connected(&initiation.finish(&response).unwrap(), &at_concentrator);
}

#[test]
fn a_cookie_gets_later_initiations_through_under_load() {
    let (mut pair, _, cookie) = with_cookie();
    let remote = pair.concentrator.public_key();
    let (_, datagram) = Initiation::start(
        &pair.home,
        &remote,
        None,
        Some(&cookie),
        SessionIndex::new(9),
        &hello(2),
        &mut pair.rng,
    )
    .unwrap();
    assert!(matches!(pair.receive(&datagram, true), Received::Initiation(_)));
}

#[test]
fn a_cookie_is_good_for_one_address_and_port() {
    let (mut pair, initiation, cookie) = with_cookie();
    let datagram = initiation.datagram(Some(&cookie));
    for (from, good) in [
        ("192.0.2.1:4000", true),
        ("[::ffff:192.0.2.1]:4000", true),
        ("192.0.2.1:4001", false),
        ("192.0.2.2:4000", false),
        ("[2001:db8::1]:4000", false),
    ] {
        let from: SocketAddr = from.parse().unwrap();
        let received = pair.responder.receive(NOW, from, &datagram, true, &mut pair.rng);
        assert_eq!(matches!(received, Received::Initiation(_)), good, "{from}");
        assert_eq!(matches!(received, Received::Send(_)), !good, "{from}");
    }
}

#[test]
fn a_cookie_lives_as_long_as_its_holder_believes_and_not_for_ever() {
    let (mut pair, initiation, cookie) = with_cookie();
    let datagram = initiation.datagram(Some(&cookie));
    let mut taken_at = |now: Time| {
        let received = pair.responder.receive(now, home_address(), &datagram, true, &mut pair.rng);
        matches!(received, Received::Initiation(_))
    };
    let last = NOW + (COOKIE_LIFETIME - Duration::from_millis(1));
    assert!(cookie.is_fresh(last) && taken_at(last));
    assert!(!cookie.is_fresh(NOW + COOKIE_LIFETIME));
    // The secret changes here; the one before is kept for one more period.
    assert!(taken_at(NOW + COOKIE_LIFETIME));
    assert!(!taken_at(NOW + 2 * COOKIE_LIFETIME));
}

#[test]
fn a_cookie_made_just_before_its_secret_changes_lives_its_time() {
    let (mut pair, initiation, _) = with_cookie();
    let late = NOW + (COOKIE_LIFETIME - Duration::from_millis(1));
    let plain = initiation.datagram(None);
    let reply =
        cookie_reply(pair.responder.receive(late, home_address(), &plain, true, &mut pair.rng));
    let cookie = initiation.handle_cookie_reply(late, &reply).unwrap();
    let last = late + (COOKIE_LIFETIME - Duration::from_millis(1));
    let datagram = initiation.datagram(Some(&cookie));
    assert!(cookie.is_fresh(last));
    assert!(matches!(
        pair.responder.receive(last, home_address(), &datagram, true, &mut pair.rng),
        Received::Initiation(_)
    ));
}

#[test]
fn no_secret_outlives_a_long_silence() {
    let (mut pair, initiation, cookie) = with_cookie();
    let datagram = initiation.datagram(Some(&cookie));
    let later = NOW + Duration::from_secs(86_400);
    assert!(matches!(
        pair.responder.receive(later, home_address(), &datagram, true, &mut pair.rng),
        Received::Send(_)
    ));
}

#[test]
fn a_wrong_mac2_gets_a_cookie_under_load_and_does_not_matter_otherwise() {
    let (mut pair, initiation, cookie) = with_cookie();
    let mut datagram = initiation.datagram(Some(&cookie));
    *datagram.last_mut().unwrap() ^= 1;
    assert!(matches!(pair.receive(&datagram, true), Received::Send(_)));
    assert!(matches!(pair.receive(&datagram, false), Received::Initiation(_)));
}

#[test]
fn a_cookie_reply_to_another_initiation_is_refused() {
    let (mut pair, initiation, _) = with_cookie();
    let (_, other) = pair.start_with(None, &hello(2));
    let reply = cookie_reply(pair.receive(&other, true));
    let refused = initiation.handle_cookie_reply(NOW, &reply).unwrap_err();
    assert_eq!(refused, HandshakeError::NotAuthentic);
}
