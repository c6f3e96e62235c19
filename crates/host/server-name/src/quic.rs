//! Reads a client's first QUIC packets. They are encrypted, but with keys that any observer can
//! derive (RFC 9001, section 5.2).

use crate::reader::Reader;
use ring::aead::quic::{AES_128 as HEADER_AES_128, HeaderProtectionKey};
use ring::aead::{AES_128_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};

/// A client's Initial packet, still encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Initial<'a> {
    version: Version,
    /// The connection ID that the client chose for the server, from which keys are derived.
    pub to: &'a [u8],
    /// From the first byte to the last of the payload.
    bytes: &'a [u8],
    /// Where the packet number begins.
    number_at: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    /// RFC 9000.
    One,
    /// RFC 9369.
    Two,
}

/// RFC 9001, section 5.2.
const SALT: [u8; 20] = [
    0x38, 0x76, 0x2c, 0xf7, 0xf5, 0x59, 0x34, 0xb3, 0x4d, 0x17, 0x9a, 0xe6, 0xa4, 0xc8, 0x0c, 0xad,
    0xcc, 0xbb, 0x7f, 0x0a,
];
/// RFC 9369, section 3.3.1.
const SALT_2: [u8; 20] = [
    0x0d, 0xed, 0xe3, 0xde, 0xf7, 0x00, 0xa6, 0xdb, 0x81, 0x93, 0x81, 0xbe, 0x6e, 0x26, 0x9d, 0xcb,
    0xf9, 0xbd, 0x2e, 0xd9,
];
/// RFC 9000, section 17.2: a connection ID of these versions is no longer.
const LONGEST_ID: usize = 20;
const KEY_LEN: usize = 16;
/// A sample is taken as if the packet number had four bytes (RFC 9001, section 5.4.2).
const SAMPLE_AFTER: usize = 4;
const SAMPLE_LEN: usize = 16;
/// Maximum packets per datagram.
const MOST_PACKETS: usize = 8;

impl Version {
    fn of(number: u32) -> Option<Version> {
        match number {
            1 => Some(Version::One),
            0x6b33_43cf => Some(Version::Two),
            _ => None,
        }
    }

    /// Bits 4 and 5 of an Initial packet's first byte.
    fn initial(self) -> u8 {
        match self {
            Version::One => 0,
            Version::Two => 1,
        }
    }

    fn retry(self) -> u8 {
        match self {
            Version::One => 3,
            Version::Two => 0,
        }
    }

    fn salt(self) -> &'static [u8] {
        match self {
            Version::One => &SALT,
            Version::Two => &SALT_2,
        }
    }

    fn labels(self) -> [&'static str; 3] {
        match self {
            Version::One => ["quic key", "quic iv", "quic hp"],
            Version::Two => ["quicv2 key", "quicv2 iv", "quicv2 hp"],
        }
    }
}

/// The Initial packets of a datagram, or of several datagrams one after another, as the kernel
/// passes those that a program sends at once.
pub fn initials(datagrams: &[u8]) -> Vec<Initial<'_>> {
    let mut found = Vec::new();
    let mut rest = datagrams;
    for _ in 0..MOST_PACKETS {
        let Some((initial, length)) = packet(rest) else { break };
        found.extend(initial);
        rest = rest.get(length..).unwrap_or_default();
    }
    found
}

/// A packet with a long header, and how long it is.
fn packet(bytes: &[u8]) -> Option<(Option<Initial<'_>>, usize)> {
    let mut reader = Reader::new(bytes);
    let first = reader.u8()?;
    // Header form and fixed bit (RFC 9000, section 17.2; RFC 9287 may clear the latter, but
    // only once the server has allowed it).
    if first & 0xc0 != 0xc0 {
        return None;
    }
    let version = Version::of(reader.u32()?)?;
    let to = reader.vector8().filter(|id| id.len() <= LONGEST_ID)?;
    let _from = reader.vector8().filter(|id| id.len() <= LONGEST_ID)?;
    let kind = first >> 4 & 3;
    if kind == version.retry() {
        return None;
    }
    let is_initial = kind == version.initial();
    if is_initial {
        let token = usize::try_from(reader.varint()?).ok()?;
        reader.take(token)?;
    }
    let length = usize::try_from(reader.varint()?).ok()?;
    let number_at = bytes.len() - reader.rest().len();
    reader.take(length)?;
    let end = number_at + length;
    let initial = Initial { version, to, bytes: bytes.get(..end)?, number_at };
    Some((is_initial.then_some(initial), end))
}

impl Initial<'_> {
    /// The pieces of the client's handshake in it, with their offsets in the stream; `None` when
    /// the keys don't derive from `id`, or it was forged.
    pub fn handshake(&self, id: &[u8]) -> Option<Vec<(usize, Vec<u8>)>> {
        let keys = Keys::of_client(self.version, id)?;
        let mut bytes = self.bytes.to_vec();
        let payload = keys.open(&mut bytes, self.number_at)?;
        Some(crypto_frames(payload))
    }
}

struct Keys {
    key: LessSafeKey,
    iv: [u8; NONCE_LEN],
    header: HeaderProtectionKey,
}

struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

impl Keys {
    fn of_client(version: Version, id: &[u8]) -> Option<Keys> {
        let secret = Salt::new(HKDF_SHA256, version.salt()).extract(id);
        let mut client = [0; 32];
        expand_label(&secret, "client in", &mut client)?;
        let client = Prk::new_less_safe(HKDF_SHA256, &client);
        let [key_label, iv_label, header_label] = version.labels();
        let (mut key, mut iv, mut header) = ([0; KEY_LEN], [0; NONCE_LEN], [0; KEY_LEN]);
        expand_label(&client, key_label, &mut key)?;
        expand_label(&client, iv_label, &mut iv)?;
        expand_label(&client, header_label, &mut header)?;
        Some(Keys {
            key: LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &key).ok()?),
            iv,
            header: HeaderProtectionKey::new(&HEADER_AES_128, &header).ok()?,
        })
    }

    /// RFC 9001, sections 5.3 and 5.4.
    fn open<'b>(&self, bytes: &'b mut [u8], number_at: usize) -> Option<&'b [u8]> {
        let sample_at = number_at + SAMPLE_AFTER;
        let sample = bytes.get(sample_at..sample_at + SAMPLE_LEN)?;
        let mask = self.header.new_mask(sample).ok()?;
        let first = bytes.first_mut()?;
        *first ^= mask[0] & 0x0f;
        let number_len = usize::from(*first & 3) + 1;
        let mut number = 0_u32;
        for (byte, mask) in
            bytes.get_mut(number_at..number_at + number_len)?.iter_mut().zip(&mask[1..])
        {
            *byte ^= mask;
            number = number << 8 | u32::from(*byte);
        }
        let mut nonce = self.iv;
        for (byte, number) in nonce.iter_mut().rev().zip(number.to_be_bytes().iter().rev()) {
            *byte ^= number;
        }
        let (header, sealed) = bytes.split_at_mut_checked(number_at + number_len)?;
        let nonce = Nonce::assume_unique_for_key(nonce);
        let opened = self.key.open_in_place(nonce, Aad::from(&*header), sealed).ok()?;
        Some(opened)
    }
}

/// HKDF-Expand-Label (RFC 8446, section 7.1) without a context.
fn expand_label(secret: &Prk, label: &str, out: &mut [u8]) -> Option<()> {
    let length = u16::try_from(out.len()).ok()?.to_be_bytes();
    let label_length = [u8::try_from("tls13 ".len() + label.len()).ok()?];
    let info = [&length[..], &label_length, b"tls13 ", label.as_bytes(), &[0]];
    secret.expand(&info, Length(out.len())).ok()?.fill(out).ok()
}

/// The pieces of the handshake in a payload, with their offsets (RFC 9000, section 19). A frame
/// that isn't allowed in an Initial packet ends the walk.
pub fn crypto_frames(payload: &[u8]) -> Vec<(usize, Vec<u8>)> {
    let mut found = Vec::new();
    let mut frames = Reader::new(payload);
    while let Some(piece) = next_crypto(&mut frames) {
        found.extend(piece);
    }
    found
}

type Piece = (usize, Vec<u8>);

fn next_crypto(frames: &mut Reader<'_>) -> Option<Option<Piece>> {
    const PADDING: u64 = 0;
    const PING: u64 = 1;
    const ACK: u64 = 2;
    const ACK_ECN: u64 = 3;
    const CRYPTO: u64 = 6;
    match frames.varint()? {
        PADDING | PING => Some(None),
        kind @ (ACK | ACK_ECN) => {
            let (_largest, _delay, ranges) = (frames.varint()?, frames.varint()?, frames.varint()?);
            frames.varint()?;
            for _ in 0..ranges {
                frames.varint()?;
                frames.varint()?;
            }
            for _ in 0..if kind == ACK_ECN { 3 } else { 0 } {
                frames.varint()?;
            }
            Some(None)
        }
        CRYPTO => {
            let offset = usize::try_from(frames.varint()?).ok()?;
            let length = usize::try_from(frames.varint()?).ok()?;
            Some(Some((offset, frames.take(length)?.to_vec())))
        }
        _ => None,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::client_hello::tests::client_config;
    use crate::client_hello::{Hello, of_handshake};
    use rustls::pki_types::ServerName;
    use rustls::quic::{self, ClientConnection};
    use rustls::{CipherSuite, Side};

    /// The first message of a client, as rustls makes it.
    pub(crate) fn hello(name: &str) -> Vec<u8> {
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let version = quic::Version::V1;
        let mut client =
            ClientConnection::new(client_config(), version, name, vec![1, 2, 0, 0]).unwrap();
        let mut bytes = Vec::new();
        assert!(client.write_hs(&mut bytes).is_none(), "keys come later");
        bytes
    }

    /// An Initial packet with these frames, sealed by rustls.
    pub(crate) fn seal(version: quic::Version, id: &[u8], number: u8, frames: &[u8]) -> Vec<u8> {
        let provider = rustls::crypto::ring::default_provider();
        let suite = provider.cipher_suites.iter().find_map(|suite| {
            suite.tls13().filter(|it| it.common.suite == CipherSuite::TLS13_AES_128_GCM_SHA256)
        });
        let suite = suite.unwrap();
        let keys = quic::Keys::initial(version, suite, suite.quic.unwrap(), id, Side::Client);
        let (first, number_of_version) = match version {
            quic::Version::V2 => (0xd0, 0x6b33_43cf_u32),
            _ => (0xc0, 1),
        };
        let length = 1 + frames.len() + 16;
        let mut packet = vec![first];
        packet.extend(number_of_version.to_be_bytes());
        packet.push(id.len() as u8);
        packet.extend(id);
        packet.extend([0, 0]);
        packet.extend((length as u16 | 0x4000).to_be_bytes());
        let number_at = packet.len();
        packet.push(number);
        let mut payload = frames.to_vec();
        let tag = keys.local.packet.encrypt_in_place(number.into(), &packet, &mut payload).unwrap();
        packet.extend(payload);
        packet.extend(tag.as_ref());
        let (head, rest) = packet.split_at_mut(number_at);
        let sample = rest[4..20].to_vec();
        keys.local.header.encrypt_in_place(&sample, &mut head[0], &mut rest[..1]).unwrap();
        packet
    }

    pub(crate) fn crypto(offset: usize, piece: &[u8]) -> Vec<u8> {
        let mut frame = vec![6];
        frame.extend((offset as u16 | 0x4000).to_be_bytes());
        frame.extend((piece.len() as u16 | 0x4000).to_be_bytes());
        frame.extend(piece);
        frame
    }

    #[test]
    fn keys_are_those_of_the_rfc() {
        // RFC 9001, appendix A.1 and A.2.
        let id = [0x83, 0x94, 0xc8, 0xf0, 0x3e, 0x51, 0x57, 0x08];
        let keys = Keys::of_client(Version::One, &id).unwrap();
        let iv = [0xfa, 0x04, 0x4b, 0x2f, 0x42, 0xa3, 0xfd, 0x3b, 0x46, 0xfb, 0x25, 0x5c];
        assert_eq!(keys.iv, iv);
        let sample = 0xd1b1_c98d_d768_9fb8_ec11_d242_b123_dc9b_u128.to_be_bytes();
        assert_eq!(keys.header.new_mask(&sample).unwrap(), [0x43, 0x7b, 0x9a, 0xec, 0x36]);
    }

    #[test]
    fn what_a_client_sends_first_is_read_in_both_versions() {
        let (id, hello) = ([7; 8], hello("bank.example"));
        for version in [quic::Version::V1, quic::Version::V2] {
            let (one, two) = hello.split_at(100);
            let ack = [2, 5, 0, 1, 1, 0, 0];
            let frames = [&[0, 0, 1][..], &ack, &crypto(100, two), &crypto(0, one), &[0; 900]];
            let datagram = seal(version, &id, 1, &frames.concat());
            let found = initials(&datagram);
            let [initial] = found.as_slice() else { panic!("{found:?}") };
            assert_eq!(initial.to, id);
            let pieces = initial.handshake(&id).unwrap();
            assert_eq!(pieces, [(100, two.to_vec()), (0, one.to_vec())]);
            assert_eq!(initial.handshake(&[8; 8]), None, "another connection's keys");
            let whole: Vec<u8> = [pieces[1].1.clone(), pieces[0].1.clone()].concat();
            assert_eq!(of_handshake(&whole), Hello::For("bank.example".into()));
        }
    }

    #[test]
    fn a_recorded_datagram_is_read() {
        let datagram = include_bytes!("../tests/bank.example.quic");
        let [initial] = *initials(datagram) else { panic!("one packet") };
        let [(0, hello)] = &*initial.handshake(initial.to).unwrap() else { panic!("one piece") };
        assert_eq!(of_handshake(hello), Hello::For("bank.example".into()));
    }

    #[test]
    fn several_packets_of_one_datagram_are_told_apart() {
        let version = quic::Version::V1;
        let one = seal(version, &[1; 8], 0, &crypto(0, b"a-rather-long-piece"));
        let two = seal(version, &[1; 8], 1, &crypto(19, b"another-rather-long-one"));
        let mut handshake = two.clone();
        handshake[0] = 0xe0;
        // A packet of another kind has no token.
        handshake.remove(15);
        let both = [one.clone(), handshake, two.clone(), vec![0x40; 50]].concat();
        assert_eq!(initials(&both).len(), 2);
        for length in 0..both.len() {
            for initial in initials(&both[..length]) {
                assert!(initial.handshake(&[1; 8]).is_some());
            }
        }
        let mut changed = one;
        *changed.last_mut().unwrap() ^= 1;
        assert_eq!(initials(&changed)[0].handshake(&[1; 8]), None);
    }

    proptest::proptest! {
        #[test]
        fn anything_is_read(mut bytes: Vec<u8>, first in 0xc0_u8.., version in 1_u8..3) {
            if let Some(head) = bytes.first_chunk_mut::<5>() {
                *head = [first, 0, 0, 0, version];
            }
            for initial in initials(&bytes) {
                initial.handshake(initial.to);
            }
            crypto_frames(&bytes);
        }
    }
}
