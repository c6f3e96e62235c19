//! How fast packets of 1440 bytes are sealed and opened.
//!
//! `cargo bench -p braid-handshake`

use braid_handshake::*;
use braid_units::Time;
use divan::Bencher;
use divan::counter::BytesCount;

const PAYLOAD_LEN: usize = 1440;
const HEADER: [u8; 16] = [4; 16];

fn main() {
    divan::main();
}

#[divan::bench(args = [AeadOffer::AesGcmToo, AeadOffer::ChaCha20Poly1305])]
fn seal(bencher: Bencher, offer: AeadOffer) {
    let (sender, _) = session(offer);
    let mut payload = [7; PAYLOAD_LEN];
    let mut packet_number = 0;
    bencher.counter(BytesCount::new(PAYLOAD_LEN)).bench_local(|| {
        packet_number += 1;
        sender.seal.seal(0, packet_number, &HEADER, divan::black_box(&mut payload))
    });
}

/// Includes copying the packet, as opening destroys it.
#[divan::bench(args = [AeadOffer::AesGcmToo, AeadOffer::ChaCha20Poly1305])]
fn open(bencher: Bencher, offer: AeadOffer) {
    let (sender, receiver) = session(offer);
    let mut sealed = vec![7; PAYLOAD_LEN];
    let tag = sender.seal.seal(0, 1, &HEADER, &mut sealed);
    sealed.extend(tag);
    let mut packet = sealed.clone();
    bencher.counter(BytesCount::new(PAYLOAD_LEN)).bench_local(|| {
        packet.copy_from_slice(&sealed);
        receiver.open.open(0, 1, &HEADER, divan::black_box(&mut packet)).is_ok()
    });
}

/// A whole handshake, both sides.
#[divan::bench]
fn handshake() -> (Established, Established) {
    session(AeadOffer::AesGcmToo)
}

fn session(aead: AeadOffer) -> (Established, Established) {
    let mut rng = os_random();
    let (home, concentrator) = (PrivateKey::generate(&mut rng), PrivateKey::generate(&mut rng));
    let remote = concentrator.public_key();
    let hello = Hello { instance: 1, timestamp: 1, aead, parameters: TunnelParameters::default() };
    let index = SessionIndex::new(1);
    let (mut initiation, datagram) =
        Initiation::start(&home, &remote, None, None, index, &hello, &mut rng)
            .expect("an initiation");
    let from = ([192, 0, 2, 1], 4000).into();
    let received =
        Responder::new(&concentrator).receive(Time::ZERO, from, &datagram, false, &mut rng);
    let Received::Initiation(pending) = received else {
        panic!("the initiation was not accepted");
    };
    let (response, at_concentrator) = pending.respond(index, &hello, None).expect("a response");
    (initiation.finish(&response).expect("a session"), at_concentrator)
}
