//! Whatever arrives, nothing but the genuine messages has an effect, and a
//! pending handshake survives it.

mod support;

use braid_handshake::message::{COOKIE_REPLY_LEN, INITIATION_LEN, RESPONSE_LEN};
use braid_handshake::*;
use proptest::prelude::*;
use support::*;

/// Bytes of an initiation before mac2, which is not looked at without load.
const BEFORE_MAC2: usize = INITIATION_LEN - 16;

struct Exchange {
    pair: Pair,
    initiation: Initiation,
    initiation_bytes: Vec<u8>,
    response_bytes: Vec<u8>,
    cookie_reply_bytes: Vec<u8>,
    at_concentrator: Established,
}

fn exchange() -> Exchange {
    let mut pair = Pair::new();
    let (initiation, initiation_bytes) = pair.start();
    let Received::Send(cookie_reply_bytes) = pair.receive(&initiation_bytes, true) else {
        panic!("no cookie under load");
    };
    let pending = pair.accept(&initiation_bytes);
    let (response_bytes, at_concentrator) =
        pending.respond(CONCENTRATOR_INDEX, &hello(1), None).unwrap();
    Exchange {
        pair,
        initiation,
        initiation_bytes,
        response_bytes,
        cookie_reply_bytes,
        at_concentrator,
    }
}

fn with_flipped(bytes: &[u8], position: usize, mask: u8) -> Vec<u8> {
    let mut changed = bytes.to_vec();
    changed[position] ^= mask;
    changed
}

#[test]
fn a_change_of_any_byte_is_noticed() {
    let mut exchange = exchange();
    for position in 0..BEFORE_MAC2 {
        let changed = with_flipped(&exchange.initiation_bytes, position, 0x80);
        assert!(
            matches!(exchange.pair.receive(&changed, false), Received::Ignore(_)),
            "initiation, byte {position}"
        );
    }
    for position in 0..RESPONSE_LEN {
        let changed = with_flipped(&exchange.response_bytes, position, 0x01);
        assert!(exchange.initiation.finish(&changed).is_err(), "response, byte {position}");
    }
    for position in 0..COOKIE_REPLY_LEN {
        let changed = with_flipped(&exchange.cookie_reply_bytes, position, 0x01);
        assert!(
            exchange.initiation.handle_cookie_reply(NOW, &changed).is_err(),
            "cookie reply, byte {position}"
        );
    }
    let at_home = exchange.initiation.finish(&exchange.response_bytes).unwrap();
    assert_connected(&at_home, &exchange.at_concentrator);
}

/// An attacker who knows the public keys can make mac1 right again. BLAKE2s
/// with the label documented in `message`.
fn repair_mac1(datagram: &mut [u8], mac1_at: usize, receiver: &PublicKey) {
    use blake2::digest::{Digest, FixedOutput, Mac, consts::U16};
    let key = blake2::Blake2s256::new()
        .chain_update(b"braid v1 mac1 key")
        .chain_update(receiver.as_bytes())
        .finalize();
    let mut mac = <blake2::Blake2sMac<U16> as Mac>::new_from_slice(&key).unwrap();
    Mac::update(&mut mac, &datagram[..mac1_at]);
    datagram[mac1_at..mac1_at + 16].copy_from_slice(&mac.finalize_fixed());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn changes_under_a_right_mac1_are_noticed(
        changes in proptest::collection::vec((0..BEFORE_MAC2 - 16, 1u8..), 1..4),
    ) {
        let mut exchange = exchange();
        let mut initiation = exchange.initiation_bytes.clone();
        for &(position, mask) in &changes {
            initiation[position] ^= mask;
        }
        prop_assume!(initiation != exchange.initiation_bytes);
        repair_mac1(&mut initiation, BEFORE_MAC2 - 16, &exchange.pair.concentrator.public_key());
        let received = exchange.pair.receive(&initiation, false);
        prop_assert!(matches!(received, Received::Ignore(_)), "{:?}", received);

        let mut response = exchange.response_bytes.clone();
        for &(position, mask) in &changes {
            response[position % (RESPONSE_LEN - 16)] ^= mask;
        }
        prop_assume!(response != exchange.response_bytes);
        repair_mac1(&mut response, RESPONSE_LEN - 16, &exchange.pair.home.public_key());
        prop_assert!(exchange.initiation.finish(&response).is_err());

        let at_home = exchange.initiation.finish(&exchange.response_bytes).unwrap();
        assert_connected(&at_home, &exchange.at_concentrator);
    }

    #[test]
    fn random_bytes_are_ignored(
        kind in 0u8..6,
        mut bytes in proptest::collection::vec(any::<u8>(), 0..600),
        right_length: bool,
        right_start: bool,
    ) {
        let mut exchange = exchange();
        if right_length {
            let length = match kind {
                1 => INITIATION_LEN,
                2 => RESPONSE_LEN,
                _ => COOKIE_REPLY_LEN,
            };
            bytes.resize(length, 0x5a);
        }
        if right_start && bytes.len() >= 8 {
            bytes[..4].copy_from_slice(&[kind, 1, 0, 0]);
            bytes[4..8].copy_from_slice(&HOME_INDEX.get().to_le_bytes());
        }
        for under_load in [false, true] {
            let received = exchange.pair.receive(&bytes, under_load);
            prop_assert!(matches!(received, Received::Ignore(_)));
        }
        prop_assert!(exchange.initiation.finish(&bytes).is_err());
        prop_assert!(exchange.initiation.handle_cookie_reply(NOW, &bytes).is_err());
        if HandshakeMessage::classify(&bytes).is_ok() {
            prop_assert!((1..=3).contains(&bytes[0]));
        }
        let at_home = exchange.initiation.finish(&exchange.response_bytes).unwrap();
        assert_connected(&at_home, &exchange.at_concentrator);
    }

    #[test]
    fn random_key_texts_do_not_panic(text in "\\PC{0,60}", base64 in "[A-Za-z0-9+/]{43}=") {
        for text in [&text, &base64] {
            if let Ok(key) = text.parse::<PublicKey>() {
                prop_assert_eq!(&key.to_string(), text.trim());
            }
            let _ = text.parse::<PrivateKey>();
            let _ = text.parse::<PresharedKey>();
        }
    }
}

#[test]
fn the_header_is_authentic_even_if_mac1_is_made_right() {
    let mut exchange = exchange();
    for position in 0..8 {
        let mut initiation = with_flipped(&exchange.initiation_bytes, position, 1);
        repair_mac1(&mut initiation, BEFORE_MAC2 - 16, &exchange.pair.concentrator.public_key());
        let received = exchange.pair.receive(&initiation, false);
        assert!(matches!(received, Received::Ignore(_)), "initiation, byte {position}");

        let mut response = with_flipped(&exchange.response_bytes, position, 1);
        repair_mac1(&mut response, RESPONSE_LEN - 16, &exchange.pair.home.public_key());
        assert!(exchange.initiation.finish(&response).is_err(), "response, byte {position}");
    }
    // So the repair works, and nothing was spoilt.
    let mut response = exchange.response_bytes.clone();
    repair_mac1(&mut response, RESPONSE_LEN - 16, &exchange.pair.home.public_key());
    assert!(exchange.initiation.finish(&response).is_ok());
}

#[test]
fn every_truncation_and_extension_is_refused() {
    let mut exchange = exchange();
    let genuine = [
        exchange.initiation_bytes.clone(),
        exchange.response_bytes.clone(),
        exchange.cookie_reply_bytes.clone(),
    ];
    for message in genuine {
        let longer = [message.as_slice(), &[0]].concat();
        for bytes in (0..message.len()).map(|length| &message[..length]).chain([&longer[..]]) {
            assert!(HandshakeMessage::classify(bytes).is_err());
            assert!(matches!(exchange.pair.receive(bytes, true), Received::Ignore(_)));
            assert!(exchange.initiation.finish(bytes).is_err());
            assert!(exchange.initiation.handle_cookie_reply(NOW, bytes).is_err());
        }
    }
}

#[test]
fn another_version_is_named_in_the_error() {
    let mut exchange = exchange();
    let next = with_flipped(&exchange.initiation_bytes, 1, 3);
    assert_eq!(HandshakeMessage::classify(&next), Err(HandshakeError::Version { found: 2 }));
    assert!(matches!(
        exchange.pair.receive(&next, false),
        Received::Ignore(HandshakeError::Version { found: 2 })
    ));
}
