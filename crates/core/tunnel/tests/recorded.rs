//! What an older version sent, recorded: this one still understands it, and says what that one
//! understood. So versions that aren't of the same day talk, which needs no older program to try
//! (`packaging/release/older` does it with one).
//!
//! A recording has both ways, of which one end was a tunnel and the other one the handshake alone,
//! whose keys are made of known numbers, so that it can be repeated. After a change that is meant
//! to break what was agreed on, and when a release is made, there is a new one:
//! `cargo test -p braid-tunnel --test recorded -- --ignored`

mod inner_packet;
#[path = "../../handshake/tests/support/test_rng.rs"]
mod test_rng;

use blake2::{Blake2s256, Digest};
use braid_handshake::{
    AeadOffer, Established, Hello, Initiation, PrivateKey, Received, Responder, SessionIndex,
};
use braid_inner::InnerPacket;
use braid_tunnel::{LinkConfig, LinkId, PeerConfig, Tunnel, TunnelConfig};
use braid_units::Time;
use braid_wire::{
    AckWriter, Chunk, ChunkPosition, DataHeader, DatagramKind, Frame, Frames, HEADER_LEN,
};
use inner_packet::udp;
use std::fmt::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use test_rng::TestRng;

/// Each recording, and its hash: none is changed once a release had it.
const RECORDINGS: [(&str, &str); 1] =
    [("0.1.0", "7c0f20627430b9615dc06b03337e7e2c13966a80c359dfac110be872dcac4fc8")];

const LINK: LinkId = LinkId(0);
const HOME: &str = "192.0.2.7:1000";
const CONCENTRATOR: &str = "203.0.113.1:51820";
const NOW: Time = Time::from_millis(1_000);
const TODAY: u64 = 1_700_000_000_000_000_000;
const INDEX: SessionIndex = SessionIndex::new(0x0012_3456);

#[test]
fn what_an_older_home_sent_is_understood() {
    for recording in recordings() {
        let initiation = recording.one("home initiation");
        // A tunnel answers it...
        let mut tunnel = concentrator();
        give(&mut tunnel, 0, HOME, initiation);
        let answers = sent(&mut tunnel, 0);
        assert_eq!(answers.len(), 1);
        assert_eq!(DatagramKind::of(&answers[0]), Some(DatagramKind::Response));
        // ...and the home would have understood the same answer as then.
        let (response, session) = answered(initiation);
        assert_eq!(response, recording.one("home response"));
        let [up, _] = inner();
        assert!(carried(&session, &recording.all("home data")).contains(&up.bytes));
    }
}

#[test]
fn what_an_older_concentrator_sent_is_understood() {
    for recording in recordings() {
        // It would understand what is sent to it as then.
        let (mut begun, initiation) = begun();
        assert_eq!(initiation, recording.one("concentrator initiation"));
        let session = begun.finish(recording.one("concentrator response")).unwrap();
        let [_, down] = inner();
        assert!(carried(&session, &recording.all("concentrator data")).contains(&down.bytes));
    }
}

#[test]
#[ignore = "records anew"]
fn records() {
    let mut text = String::new();
    let mut note = |name: &str, datagram: &[u8]| {
        let _ = writeln!(text, "{name}: {}", hex_of(datagram));
    };
    let [up, down] = inner();

    // What follows the handshake shows each who the other is, and then that the path is one.
    let mut home = home();
    let initiation = sent(&mut home, 0).remove(0);
    let (response, session) = answered(&initiation);
    give(&mut home, 1, CONCENTRATOR, &response);
    give(&mut home, 1, CONCENTRATOR, &said(&session, 0, Frame::write_ping));
    let mut data = sent(&mut home, 1);
    let heard = acknowledged(data.len());
    give(&mut home, 2, CONCENTRATOR, &said(&session, 1, heard));
    home.handle_inner(at(2), up);
    data.extend(sent(&mut home, 2));
    note("home initiation", &initiation);
    note("home response", &response);
    data.iter().for_each(|datagram| note("home data", datagram));

    let mut concentrator = concentrator();
    let (mut begun, initiation) = begun();
    give(&mut concentrator, 0, HOME, &initiation);
    let response = sent(&mut concentrator, 0).remove(0);
    let session = begun.finish(&response).unwrap();
    give(&mut concentrator, 1, HOME, &said(&session, 0, Frame::write_ping));
    let mut data = sent(&mut concentrator, 1);
    let heard = acknowledged(data.len());
    give(&mut concentrator, 2, HOME, &said(&session, 1, heard));
    concentrator.handle_inner(at(2), down);
    data.extend(sent(&mut concentrator, 2));
    note("concentrator initiation", &initiation);
    note("concentrator response", &response);
    data.iter().for_each(|datagram| note("concentrator data", datagram));
    std::fs::write(file(env!("CARGO_PKG_VERSION")), text).unwrap();
}

/// A packet up, and one down.
fn inner() -> [InnerPacket; 2] {
    [udp([10, 0, 0, 2], [10, 0, 0, 1], 1), udp([10, 0, 0, 1], [10, 0, 0, 2], 2)]
}

fn keys() -> [PrivateKey; 2] {
    [1, 2].map(|byte| PrivateKey::from_bytes(&[byte; 32]))
}

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn config(key: PrivateKey) -> TunnelConfig {
    TunnelConfig { seed: 1, epoch_unix_nanos: TODAY, ..TunnelConfig::new(key) }
}

fn home() -> Tunnel {
    let [own, other] = keys();
    let mut tunnel = Tunnel::new(config(own));
    tunnel.add_link(LINK, LinkConfig::default(), NOW);
    let endpoints = vec![address(CONCENTRATOR)];
    let allowed_ips = vec!["0.0.0.0/0".parse().unwrap()];
    let peer = PeerConfig { endpoints, allowed_ips, ..PeerConfig::new(other.public_key()) };
    tunnel.add_peer(peer, NOW);
    tunnel
}

fn concentrator() -> Tunnel {
    let [other, own] = keys();
    let mut tunnel = Tunnel::new(config(own));
    tunnel.add_link(LINK, LinkConfig { listens: true, ..LinkConfig::default() }, NOW);
    let allowed_ips = vec!["10.0.0.2/32".parse().unwrap()];
    tunnel.add_peer(PeerConfig { allowed_ips, ..PeerConfig::new(other.public_key()) }, NOW);
    tunnel
}

fn at(second: u64) -> Time {
    NOW + Duration::from_secs(second)
}

fn give(tunnel: &mut Tunnel, second: u64, from: &str, datagram: &[u8]) {
    tunnel.handle_datagram(at(second), LINK, address(from), None, &mut datagram.to_vec());
}

/// What it sends at that second, and in some milliseconds after it.
fn sent(tunnel: &mut Tunnel, second: u64) -> Vec<Vec<u8>> {
    let (mut all, mut out) = (Vec::new(), Vec::new());
    for now in (0..50).map(|turn| at(second) + Duration::from_millis(turn)) {
        if tunnel.next_timeout().is_some_and(|at| at <= now) {
            tunnel.handle_timeout(now);
        }
        while let Some(transmit) = tunnel.poll_transmit(now, &mut out) {
            all.extend(out.chunks(transmit.segment).map(<[u8]>::to_vec));
        }
    }
    all
}

/// The concentrator's handshake alone, which says of itself what the home says.
fn answered(initiation: &[u8]) -> (Vec<u8>, Established) {
    let [_, own] = keys();
    let received =
        Responder::new(&own).receive(NOW, address(HOME), initiation, false, &mut TestRng(3));
    let Received::Initiation(pending) = received else {
        panic!("it is no initiation any more: {received:?}")
    };
    let hello = Hello { instance: 7, timestamp: TODAY, ..pending.hello().clone() };
    pending.respond(INDEX, &hello, None).unwrap()
}

/// The home's handshake alone.
fn begun() -> (Initiation, Vec<u8>) {
    let [own, other] = keys();
    let hello = Hello {
        instance: 42,
        timestamp: TODAY,
        aead: AeadOffer::AesGcmToo,
        parameters: home_parameters(),
    };
    let other = other.public_key();
    Initiation::start(&own, &other, None, None, INDEX, &hello, &mut TestRng(4)).unwrap()
}

/// As a home of 0.1.0 says them.
fn home_parameters() -> braid_handshake::TunnelParameters {
    braid_handshake::TunnelParameters::new(Vec::new()).unwrap()
}

/// A datagram of a session by its first path.
fn said(session: &Established, number: u32, frame: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let receiver = session.remote_index.get();
    let header = DataHeader { receiver, path: 0, packet_number: number }.to_bytes();
    let mut payload = Vec::new();
    frame(&mut payload);
    let tag = session.seal.seal(0, number.into(), &header, &mut payload);
    [&header[..], &payload, &tag].concat()
}

/// That so many datagrams came by the first path.
fn acknowledged(count: usize) -> impl FnOnce(&mut Vec<u8>) {
    let largest = count as u64 - 1;
    move |out| {
        let ack = AckWriter {
            path: 0,
            largest,
            largest_received_us: 0,
            delay_us: 0,
            ranges: &[(0, largest)],
            arrivals: &[],
        };
        ack.write(out);
    }
}

/// The inner packets in these datagrams; every frame has to be one that is known.
fn carried(session: &Established, datagrams: &[&[u8]]) -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    for datagram in datagrams {
        assert_eq!(DatagramKind::of(datagram), Some(DatagramKind::Data));
        let header = DataHeader::parse(datagram).unwrap();
        assert_eq!(header.receiver, INDEX.get());
        let (head, sealed) = datagram.split_at(HEADER_LEN);
        let mut sealed = sealed.to_vec();
        let number = header.packet_number.into();
        let payload = session.open.open(header.path, number, head, &mut sealed).unwrap();
        for frame in Frames::new(payload) {
            if let Frame::Chunk(Chunk { position: ChunkPosition::Whole(_), data, .. }) =
                frame.unwrap()
            {
                packets.push(data.to_vec());
            }
        }
    }
    packets
}

struct Recording(Vec<(String, Vec<u8>)>);

impl Recording {
    fn all(&self, name: &str) -> Vec<&[u8]> {
        let named = self.0.iter().filter(|(of, _)| of == name);
        named.map(|(_, datagram)| datagram.as_slice()).collect()
    }

    fn one(&self, name: &str) -> &[u8] {
        let all = self.all(name);
        assert_eq!(all.len(), 1, "{name}");
        all[0]
    }
}

fn recordings() -> Vec<Recording> {
    let read = |(version, hash): (&str, &str)| {
        let text = std::fs::read_to_string(file(version)).unwrap();
        assert_eq!(hex_of(&Blake2s256::digest(&text)), hash, "{version} is another recording");
        let line = |line: &str| {
            let (name, hex) = line.split_once(": ").unwrap();
            let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
            (name.to_owned(), (0..hex.len()).step_by(2).map(byte).collect())
        };
        Recording(text.lines().map(line).collect())
    };
    RECORDINGS.into_iter().map(read).collect()
}

fn file(version: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/recorded/{version}.txt"))
}

fn hex_of(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}
