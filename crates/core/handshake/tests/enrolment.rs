//! A home that is let in by a token: what its introduction says, to whom, and
//! what those get out of it who recorded it or made it up.

mod support;

use braid_handshake::*;
use support::*;

fn introduce(pair: &mut Pair, token: &EnrolmentToken, home: PublicKey) -> (Initiation, Vec<u8>) {
    let said = Extensions { enrol: Some(home), ..Extensions::default() };
    let hello = Hello { parameters: said.to_parameters(), ..hello(1) };
    let remote = pair.concentrator.public_key();
    let key = token.key();
    Initiation::start(&key, &remote, None, None, HOME_INDEX, &hello, &mut pair.rng).unwrap()
}

#[test]
fn both_ends_make_the_same_of_a_token_and_of_another_nothing_of_it() {
    let mut rng = TestRng(7);
    let (one, other) = (EnrolmentToken::generate(&mut rng), EnrolmentToken::generate(&mut rng));
    let again = EnrolmentToken::from_bytes(*one.as_bytes());
    assert_eq!(one.key().public_key(), again.key().public_key());
    assert_eq!(*one.preshared_key().to_base64(), *again.preshared_key().to_base64());
    assert_ne!(one.key().public_key(), other.key().public_key());
    assert_ne!(*one.preshared_key().to_base64(), *other.preshared_key().to_base64());
    assert_ne!(*one.key().to_base64(), *one.preshared_key().to_base64());
    assert_eq!(format!("{one:?}"), "EnrolmentToken(redacted)");
}

#[test]
fn an_introduction_names_the_homes_own_key_under_that_of_the_token() {
    let mut pair = Pair::new();
    let token = EnrolmentToken::generate(&mut pair.rng);
    let own = pair.home.public_key();
    let (_, datagram) = introduce(&mut pair, &token, own);
    let pending = pair.accept(&datagram);
    assert_eq!(*pending.remote_static(), token.key().public_key());
    assert_eq!(Extensions::read(&pending.hello().parameters).enrol, Some(own));
    // Nobody on the way learns who comes.
    for key in [own, token.key().public_key()] {
        assert!(!datagram.windows(32).any(|bytes| bytes == key.as_bytes()));
    }
}

#[test]
fn only_who_has_the_token_reads_why_it_is_refused() {
    let mut pair = Pair::new();
    let token = EnrolmentToken::generate(&mut pair.rng);
    let own = pair.home.public_key();
    for refusal in [EnrolmentRefusal::Used, EnrolmentRefusal::Expired] {
        let (mut initiation, datagram) = introduce(&mut pair, &token, own);
        let pending = pair.accept(&datagram);
        let answer = pending.refuse_enrolment(CONCENTRATOR_INDEX, &hello(1), refusal).unwrap();
        assert!(answer.len() <= datagram.len(), "no amplification");
        assert_eq!(initiation.finish(&answer).unwrap_err(), HandshakeError::NotEnrolled(refusal));
        assert_eq!(initiation.finish(&answer).unwrap_err(), HandshakeError::Unexpected);
        let (mut stranger, _) = pair.start();
        assert!(matches!(stranger.finish(&answer), Err(HandshakeError::WrongMac1)));
    }
}

#[test]
fn no_changed_bit_passes() {
    let mut pair = Pair::new();
    let token = EnrolmentToken::generate(&mut pair.rng);
    let own = pair.home.public_key();
    let (_, datagram) = introduce(&mut pair, &token, own);
    // Less mac2, which counts under load only.
    for at in 0..datagram.len() - 16 {
        let mut changed = datagram.clone();
        changed[at] ^= 1;
        assert!(matches!(pair.receive(&changed, false), Received::Ignore(_)), "byte {at}");
    }
}
