//! Complete handshakes: who gets a session, and who gets nothing.

mod support;

use braid_handshake::message::{COOKIE_REPLY_LEN, INITIATION_LEN, RESPONSE_LEN};
use braid_handshake::*;
use support::*;

#[test]
fn both_sides_get_a_session_and_each_others_hello() {
    let mut pair = Pair::new();
    let from_home = hello(5);
    let from_concentrator = Hello {
        instance: 99,
        parameters: TunnelParameters::new(vec![7; TunnelParameters::MAX_LEN]).unwrap(),
        ..hello(6)
    };
    let (mut initiation, datagram) = pair.start_with(None, &from_home);
    let pending = pair.accept(&datagram);
    assert_eq!(pending.remote_static(), &pair.home.public_key());
    assert_eq!(pending.hello(), &from_home);

    let (response, at_concentrator) =
        pending.respond(CONCENTRATOR_INDEX, &from_concentrator, None).unwrap();
    let at_home = initiation.finish(&response).unwrap();

    assert_eq!(at_home.hello, from_concentrator);
    assert_eq!(at_home.remote_index, CONCENTRATOR_INDEX);
    assert_eq!(at_concentrator.hello, from_home);
    assert_eq!(at_concentrator.remote_index, HOME_INDEX);
    assert_connected(&at_home, &at_concentrator);
}

#[test]
fn a_shared_psk_connects_and_any_difference_does_not() {
    let mut pair = Pair::new();
    let right = PresharedKey::generate(&mut pair.rng);
    let wrong = PresharedKey::generate(&mut pair.rng);
    for (home, concentrator, connects) in [
        (Some(&right), Some(&right), true),
        (Some(&right), Some(&wrong), false),
        (Some(&right), None, false),
        (None, Some(&right), false),
        (None, None, true),
    ] {
        let (mut initiation, datagram) = pair.start_with(home, &hello(1));
        let pending = pair.accept(&datagram);
        let (response, at_concentrator) =
            pending.respond(CONCENTRATOR_INDEX, &hello(1), concentrator).unwrap();
        match initiation.finish(&response) {
            Ok(at_home) => {
                assert!(connects);
                assert_connected(&at_home, &at_concentrator);
            }
            Err(error) => {
                assert!(!connects);
                assert_eq!(error, HandshakeError::NotAuthentic);
            }
        }
    }
}

#[test]
fn an_initiation_for_another_key_is_ignored() {
    let mut pair = Pair::new();
    let other = PrivateKey::generate(&mut pair.rng).public_key();
    let (_, datagram) =
        Initiation::start(&pair.home, &other, None, None, HOME_INDEX, &hello(1), &mut pair.rng)
            .unwrap();
    for under_load in [false, true] {
        assert!(matches!(
            pair.receive(&datagram, under_load),
            Received::Ignore(HandshakeError::WrongMac1)
        ));
    }
}

#[test]
fn a_response_by_somebody_else_who_knows_all_public_keys_is_refused() {
    let mut pair = Pair::new();
    let (mut initiation, datagram) = pair.start();
    // The impostor answers an initiation of its own and puts the home's
    // session index in: mac1 is right, for it is made with public keys.
    let impostor = PrivateKey::generate(&mut pair.rng);
    let mut its_responder = Responder::new(&impostor);
    let (_, its_datagram) = Initiation::start(
        &pair.home,
        &impostor.public_key(),
        None,
        None,
        HOME_INDEX,
        &hello(1),
        &mut pair.rng,
    )
    .unwrap();
    let Received::Initiation(its_pending) =
        its_responder.receive(NOW, home_address(), &its_datagram, false, &mut pair.rng)
    else {
        panic!("not accepted");
    };
    let (forged, _) = its_pending.respond(CONCENTRATOR_INDEX, &hello(1), None).unwrap();
    assert_eq!(initiation.finish(&forged).unwrap_err(), HandshakeError::NotAuthentic);

    // The genuine response still counts.
    let pending = pair.accept(&datagram);
    let (response, at_concentrator) = pending.respond(CONCENTRATOR_INDEX, &hello(1), None).unwrap();
    assert_connected(&initiation.finish(&response).unwrap(), &at_concentrator);
}

#[test]
fn a_response_is_taken_once() {
    let mut pair = Pair::new();
    let (mut initiation, datagram) = pair.start();
    let (response, _) =
        pair.accept(&datagram).respond(CONCENTRATOR_INDEX, &hello(1), None).unwrap();
    assert!(initiation.finish(&response).is_ok());
    assert_eq!(initiation.finish(&response).unwrap_err(), HandshakeError::Unexpected);
}

#[test]
fn a_response_to_another_handshake_is_unexpected() {
    let mut pair = Pair::new();
    let (_, first) = pair.start();
    let remote = pair.concentrator.public_key();
    let (mut second, _) = Initiation::start(
        &pair.home,
        &remote,
        None,
        None,
        SessionIndex::new(5),
        &hello(2),
        &mut pair.rng,
    )
    .unwrap();
    let (response, _) = pair.accept(&first).respond(CONCENTRATOR_INDEX, &hello(1), None).unwrap();
    assert_eq!(
        HandshakeMessage::classify(&response),
        Ok(HandshakeMessage::Response { receiver: HOME_INDEX })
    );
    assert_eq!(second.finish(&response).unwrap_err(), HandshakeError::Unexpected);
}

#[test]
fn messages_reflected_to_their_sender_are_ignored() {
    let mut pair = Pair::new();
    let (mut initiation, datagram) = pair.start();
    let mut home_responder = Responder::new(&pair.home);
    assert!(matches!(
        home_responder.receive(NOW, home_address(), &datagram, true, &mut pair.rng),
        Received::Ignore(HandshakeError::WrongMac1)
    ));
    assert!(initiation.finish(&datagram).is_err());
    let (response, _) =
        pair.accept(&datagram).respond(CONCENTRATOR_INDEX, &hello(1), None).unwrap();
    assert!(matches!(pair.receive(&response, false), Received::Ignore(_)));
}

#[test]
fn a_replayed_initiation_is_refused_by_its_timestamp() {
    let mut pair = Pair::new();
    let mut latest = LatestTimestamp::default();
    let (_, first) = pair.start_with(None, &hello(1_000));
    let (_, second) = pair.start_with(None, &hello(1_001));
    let mut arrive = |datagram: &[u8]| latest.advance(pair.accept(datagram).hello().timestamp);
    assert_eq!(arrive(&first), Ok(()));
    assert_eq!(arrive(&first), Err(StaleTimestamp { latest: 1_000 }));
    assert_eq!(arrive(&second), Ok(()));
    assert_eq!(arrive(&first), Err(StaleTimestamp { latest: 1_001 }));
}

#[test]
fn the_aead_is_aes_only_if_both_offer_it() {
    use AeadOffer::{AesGcmToo, ChaCha20Poly1305};
    for (home, concentrator, agreed) in [
        (AesGcmToo, AesGcmToo, Aead::Aes256Gcm),
        (AesGcmToo, ChaCha20Poly1305, Aead::ChaCha20Poly1305),
        (ChaCha20Poly1305, AesGcmToo, Aead::ChaCha20Poly1305),
        (ChaCha20Poly1305, ChaCha20Poly1305, Aead::ChaCha20Poly1305),
    ] {
        let mut pair = Pair::new();
        let (mut initiation, datagram) = pair.start_with(None, &Hello { aead: home, ..hello(1) });
        let answer = Hello { aead: concentrator, ..hello(1) };
        let (response, at_concentrator) =
            pair.accept(&datagram).respond(CONCENTRATOR_INDEX, &answer, None).unwrap();
        let at_home = initiation.finish(&response).unwrap();
        assert_eq!((at_home.aead, at_concentrator.aead), (agreed, agreed));
        assert_connected(&at_home, &at_concentrator);
    }
}

#[test]
fn no_answer_is_larger_than_the_initiation() {
    let mut pair = Pair::new();
    let small = Hello { parameters: TunnelParameters::default(), ..hello(1) };
    let large = Hello {
        parameters: TunnelParameters::new(vec![1; TunnelParameters::MAX_LEN]).unwrap(),
        ..hello(1)
    };
    let (_, datagram) = pair.start_with(None, &small);
    let (response, _) = pair.accept(&datagram).respond(CONCENTRATOR_INDEX, &large, None).unwrap();
    let Received::Send(cookie_reply) = pair.receive(&datagram, true) else {
        panic!("no cookie under load");
    };
    assert_eq!(
        [datagram.len(), response.len(), cookie_reply.len()],
        [INITIATION_LEN, RESPONSE_LEN, COOKIE_REPLY_LEN]
    );
    assert!(response.len() <= datagram.len() && cookie_reply.len() <= datagram.len());
}

#[test]
fn the_callers_random_numbers_determine_everything() {
    let run = |seed| {
        let mut pair = Pair::with_seed(seed);
        let (_, datagram) = pair.start();
        let (response, _) =
            pair.accept(&datagram).respond(CONCENTRATOR_INDEX, &hello(1), None).unwrap();
        (datagram, response)
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

/// Peers of different builds must understand each other: whoever changes
/// these bytes has to raise `message::VERSION`.
#[test]
fn the_bytes_on_the_wire_are_those_of_version_1() {
    let mut pair = Pair::with_seed(1);
    let psk = PresharedKey::from_bytes(&[3; 32]);
    let (initiation, datagram) = pair.start_with(Some(&psk), &hello(1));
    let Received::Send(cookie_reply) = pair.receive(&datagram, true) else {
        panic!("no cookie under load");
    };
    let cookie = initiation.handle_cookie_reply(NOW, &cookie_reply).unwrap();
    let with_mac2 = initiation.datagram(Some(&cookie));
    let (response, at_concentrator) =
        pair.accept(&with_mac2).respond(CONCENTRATOR_INDEX, &hello(1), Some(&psk)).unwrap();
    let mut packet = *b"payload";
    let tag = at_concentrator.seal.seal(1, 2, b"header", &mut packet);

    let fingerprint = |bytes: &[u8]| -> String {
        use blake2::Digest;
        let hash = blake2::Blake2s256::digest(bytes);
        hash[..8].iter().map(|byte| format!("{byte:02x}")).collect()
    };
    assert_eq!(message::VERSION, 1);
    assert_eq!(
        [&datagram[..], &cookie_reply, &with_mac2, &response, &tag].map(fingerprint),
        [
            "4be994799bf8dc28",
            "4e4bbe1b4b289635",
            "c564155154acb755",
            "243ea359e85fb1b5",
            "c0442b29b79c4aee"
        ]
    );
}

#[test]
fn state_can_be_moved_between_threads() {
    fn movable<T: Send + Sync>() {}
    movable::<Initiation>();
    movable::<PendingResponse>();
    movable::<Responder>();
    movable::<Established>();
}
