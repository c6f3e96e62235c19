use super::input::Input;
use super::rng::Rng;
use blake2::digest::{Digest, FixedOutput, Mac, consts::U16};
use braid_handshake::message::{INITIATION_LEN, RESPONSE_LEN};
use braid_handshake::*;
use braid_units::Time;
use std::net::{Ipv4Addr, SocketAddr};

/// Bytes of mac1 and of mac2.
const MAC_LEN: usize = 16;

/// A handshake message: either raw bytes, or a genuine message with changes. An attacker who knows
/// the public keys can compute mac1, so that is done too. Only the genuine messages may have an
/// effect.
pub fn handshake(data: &[u8]) {
    let mut input = Input(data);
    let how = input.u8();
    let mut exchange = Exchange::new();
    let genuine = match how & 3 {
        0 => None,
        1 => Some(exchange.initiation_bytes.clone()),
        2 => Some(exchange.response_bytes.clone()),
        _ => Some(exchange.cookie_reply_bytes.clone()),
    };
    let mut datagram = match &genuine {
        None => input.0.to_vec(),
        Some(genuine) => changed(genuine.clone(), &mut input, how & 4 != 0),
    };
    if how & 8 != 0 {
        repair_mac1(&mut datagram, how & 3, &exchange);
    }

    let _ = HandshakeMessage::classify(&datagram);
    exchange.check_initiation(&datagram, how & 16 != 0);
    exchange.check_answers(&datagram);
}

/// Two peers in the middle of a handshake, always the same ones.
struct Exchange {
    rng: Rng,
    responder: Responder,
    home: PublicKey,
    concentrator: PublicKey,
    initiation: Initiation,
    initiation_bytes: Vec<u8>,
    response_bytes: Vec<u8>,
    cookie_reply_bytes: Vec<u8>,
}

impl Exchange {
    fn new() -> Self {
        let mut rng = Rng(1);
        let home = PrivateKey::generate(&mut rng);
        let concentrator = PrivateKey::generate(&mut rng);
        let public = concentrator.public_key();
        let mut responder = Responder::new(&concentrator);
        let index = SessionIndex::new(0x1111_1111);
        let hello = hello();
        let (initiation, initiation_bytes) =
            Initiation::start(&home, &public, None, None, index, &hello, &mut rng)
                .expect("own keys are good");
        let mut receive =
            |under_load| responder.receive(NOW, address(), &initiation_bytes, under_load, &mut rng);
        let Received::Send(cookie_reply_bytes) = receive(true) else {
            panic!("no cookie under load")
        };
        let Received::Initiation(pending) = receive(false) else {
            panic!("a genuine initiation was refused")
        };
        let (response_bytes, _) = pending
            .respond(SessionIndex::new(0x2222_2222), &hello, None)
            .expect("a genuine initiation is answered");
        Exchange {
            rng,
            responder,
            home: home.public_key(),
            concentrator: public,
            initiation,
            initiation_bytes,
            response_bytes,
            cookie_reply_bytes,
        }
    }

    fn check_initiation(&mut self, datagram: &[u8], under_load: bool) {
        // mac2 proves an address and nothing about the contents.
        let before_mac2 = INITIATION_LEN - MAC_LEN;
        let genuine = datagram.len() == INITIATION_LEN
            && datagram[..before_mac2] == self.initiation_bytes[..before_mac2];
        let received = self.responder.receive(NOW, address(), datagram, under_load, &mut self.rng);
        match received {
            Received::Ignore(_) => assert!(!genuine, "the genuine initiation was ignored"),
            // A valid mac1 is all it takes to get a cookie.
            Received::Send(reply) => {
                assert!(under_load && reply.len() <= datagram.len());
            }
            Received::Initiation(_) => assert!(genuine && !under_load, "{datagram:02x?}"),
        }
    }

    fn check_answers(&mut self, datagram: &[u8]) {
        let cookie = self.initiation.handle_cookie_reply(NOW, datagram).is_ok();
        assert_eq!(cookie, datagram == self.cookie_reply_bytes);
        let finished = self.initiation.finish(datagram).is_ok();
        assert_eq!(finished, datagram == self.response_bytes);
        // A forged response does no harm.
        let genuine = self.initiation.finish(&self.response_bytes).is_ok();
        assert_eq!(genuine, !finished);
    }
}

const NOW: Time = Time::from_millis(1_000);

fn address() -> SocketAddr {
    (Ipv4Addr::new(192, 0, 2, 1), 4000).into()
}

fn hello() -> Hello {
    let parameters = TunnelParameters::new(b"parameters".to_vec()).expect("few");
    Hello { instance: 42, timestamp: 1, aead: AeadOffer::AesGcmToo, parameters }
}

/// Changes some bytes: two input bytes select the place and one the value; with `cut` the first
/// change is to the length.
fn changed(mut message: Vec<u8>, input: &mut Input<'_>, cut: bool) -> Vec<u8> {
    if cut {
        message.resize(usize::from(input.u16() % 600), 0);
    }
    while !input.is_empty() && !message.is_empty() {
        let at = usize::from(input.u16()) % message.len();
        message[at] ^= input.u8();
    }
    message
}

/// BLAKE2s with the label documented in [`braid_handshake::message`].
fn repair_mac1(datagram: &mut [u8], kind: u8, exchange: &Exchange) {
    let (mac1_at, receiver) = match kind {
        2 => (RESPONSE_LEN - MAC_LEN, &exchange.home),
        _ => (INITIATION_LEN - 2 * MAC_LEN, &exchange.concentrator),
    };
    let key = blake2::Blake2s256::new()
        .chain_update(b"braid v1 mac1 key")
        .chain_update(receiver.as_bytes())
        .finalize();
    let Some((before, rest)) = datagram.split_at_mut_checked(mac1_at) else { return };
    let Some(mac1) = rest.first_chunk_mut::<MAC_LEN>() else { return };
    let mut mac =
        <blake2::Blake2sMac<U16> as Mac>::new_from_slice(&key).expect("a key of 32 bytes is right");
    Mac::update(&mut mac, before);
    *mac1 = mac.finalize_fixed().into();
}
