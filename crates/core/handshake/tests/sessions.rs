//! Packets under session keys.

mod support;

use braid_handshake::*;
use proptest::prelude::*;
use support::*;

fn sealed(
    key: &SealingKey,
    path: u8,
    packet_number: u64,
    header: &[u8],
    payload: &[u8],
) -> Vec<u8> {
    let mut packet = payload.to_vec();
    let tag = key.seal(path, packet_number, header, &mut packet);
    packet.extend(tag);
    packet
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn what_is_sealed_opens_only_unaltered_and_in_its_place(
        path: u8,
        packet_number: u64,
        header in proptest::collection::vec(any::<u8>(), 1..40),
        payload in proptest::collection::vec(any::<u8>(), 0..1500),
        altered: prop::sample::Index,
        aes: bool,
    ) {
        let offer = if aes { AeadOffer::AesGcmToo } else { AeadOffer::ChaCha20Poly1305 };
        let (home, concentrator) = Pair::new().establish(offer);
        let packet = sealed(&home.seal, path, packet_number, &header, &payload);
        prop_assert_eq!(packet.len(), payload.len() + TAG_LEN);
        let open = |key: &OpeningKey, path, number, header: &[u8], packet: &[u8]| {
            key.open(path, number, header, &mut packet.to_vec()).map(|payload| payload.to_vec())
        };
        let key = &concentrator.open;
        prop_assert_eq!(open(key, path, packet_number, &header, &packet), Ok(payload));

        prop_assert_eq!(open(key, path ^ 1, packet_number, &header, &packet), Err(Forged));
        prop_assert_eq!(open(key, path, packet_number ^ 1, &header, &packet), Err(Forged));
        prop_assert_eq!(open(key, path, packet_number ^ (1 << 63), &header, &packet), Err(Forged));
        prop_assert_eq!(open(key, path, packet_number, &header[1..], &packet), Err(Forged));
        prop_assert_eq!(open(&home.open, path, packet_number, &header, &packet), Err(Forged));
        let short = &packet[..packet.len() - 1];
        prop_assert_eq!(open(key, path, packet_number, &header, short), Err(Forged));
        prop_assert_eq!(open(key, path, packet_number, &header, &[]), Err(Forged));
        let mut packet = packet;
        let at = altered.index(packet.len());
        packet[at] ^= 0x10;
        prop_assert_eq!(open(key, path, packet_number, &header, &packet), Err(Forged));
    }
}

#[test]
fn every_session_has_keys_of_its_own() {
    let mut pair = Pair::new();
    let (home, _) = pair.establish(AeadOffer::AesGcmToo);
    let (_, next) = pair.establish(AeadOffer::AesGcmToo);
    let mut packet = sealed(&home.seal, 0, 0, b"", b"old");
    assert_eq!(next.open.open(0, 0, b"", &mut packet), Err(Forged));
}

#[test]
fn equal_numbers_on_two_paths_are_sealed_differently() {
    let (home, _) = Pair::new().establish(AeadOffer::ChaCha20Poly1305);
    assert_ne!(sealed(&home.seal, 0, 1, b"", &[0; 64]), sealed(&home.seal, 1, 1, b"", &[0; 64]));
}

#[test]
fn secrets_are_not_printed() {
    let mut pair = Pair::new();
    let (initiation, _) = pair.start();
    let (home, _) = pair.establish(AeadOffer::AesGcmToo);
    let text = format!("{initiation:?} {home:?} {:?}", pair.responder);
    assert!(text.contains("SealingKey(redacted)") && text.contains("PrivateKey(redacted)"));
}
