//! Two peers and a deterministic generator for the tests.
#![allow(dead_code)] // each test file uses a part

mod test_rng;

pub use test_rng::TestRng;

use braid_handshake::*;
use braid_units::Time;
use std::net::SocketAddr;

pub const HOME_INDEX: SessionIndex = SessionIndex::new(0x1111_1111);
pub const CONCENTRATOR_INDEX: SessionIndex = SessionIndex::new(0x2222_2222);
pub const NOW: Time = Time::from_millis(1_000);

pub fn home_address() -> SocketAddr {
    "192.0.2.1:4000".parse().unwrap()
}

pub struct Pair {
    pub rng: TestRng,
    pub home: PrivateKey,
    pub concentrator: PrivateKey,
    pub responder: Responder,
}

impl Pair {
    pub fn new() -> Self {
        Self::with_seed(1)
    }

    pub fn with_seed(seed: u64) -> Self {
        let mut rng = TestRng(seed);
        let home = PrivateKey::generate(&mut rng);
        let concentrator = PrivateKey::generate(&mut rng);
        let responder = Responder::new(&concentrator);
        Pair { rng, home, concentrator, responder }
    }

    pub fn start(&mut self) -> (Initiation, Vec<u8>) {
        self.start_with(None, &hello(1))
    }

    pub fn start_with(
        &mut self,
        psk: Option<&PresharedKey>,
        hello: &Hello,
    ) -> (Initiation, Vec<u8>) {
        let remote = self.concentrator.public_key();
        Initiation::start(&self.home, &remote, psk, None, HOME_INDEX, hello, &mut self.rng).unwrap()
    }

    pub fn receive(&mut self, datagram: &[u8], under_load: bool) -> Received {
        self.responder.receive(NOW, home_address(), datagram, under_load, &mut self.rng)
    }

    pub fn accept(&mut self, datagram: &[u8]) -> Box<PendingResponse> {
        match self.receive(datagram, false) {
            Received::Initiation(pending) => pending,
            other => panic!("initiation was not accepted: {other:?}"),
        }
    }

    /// A complete handshake: the home's session and the concentrator's.
    pub fn establish(&mut self, aead: AeadOffer) -> (Established, Established) {
        let hello = Hello { aead, ..hello(1) };
        let (mut initiation, datagram) = self.start_with(None, &hello);
        let pending = self.accept(&datagram);
        let (response, at_concentrator) =
            pending.respond(CONCENTRATOR_INDEX, &hello, None).unwrap();
        (initiation.finish(&response).unwrap(), at_concentrator)
    }
}

pub fn hello(timestamp: u64) -> Hello {
    Hello {
        instance: 42,
        timestamp,
        aead: AeadOffer::AesGcmToo,
        parameters: TunnelParameters::new(b"mtu=1500".to_vec()).unwrap(),
    }
}

/// Asserts that each side opens what the other seals.
pub fn assert_connected(one: &Established, other: &Established) {
    for (from, to) in [(one, other), (other, one)] {
        let mut packet = *b"hello through the tunnel________________";
        let (payload, tag_bytes) = packet.split_at_mut(24);
        let tag = from.seal.seal(3, 77, b"header", payload);
        tag_bytes.copy_from_slice(&tag);
        assert_ne!(payload, b"hello through the tunnel");
        let opened = to.open.open(3, 77, b"header", &mut packet).unwrap();
        assert_eq!(opened, b"hello through the tunnel");
    }
}
