//! Two peers and a deterministic generator for the tests.
#![allow(dead_code)] // each test file uses a part

use braid_handshake::*;
use braid_units::Time;
use std::convert::Infallible;
use std::net::SocketAddr;

/// SplitMix64, which is good enough to be told apart from a constant.
pub struct TestRng(pub u64);

impl rand_core::TryRng for TestRng {
    type Error = Infallible;
    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        self.try_next_u64().map(|number| number as u32)
    }
    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Ok(z ^ (z >> 31))
    }
    fn try_fill_bytes(&mut self, dst: &mut [u8]) -> Result<(), Infallible> {
        for chunk in dst.chunks_mut(8) {
            chunk.copy_from_slice(&self.try_next_u64()?.to_le_bytes()[..chunk.len()]);
        }
        Ok(())
    }
}

impl rand_core::TryCryptoRng for TestRng {}

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
