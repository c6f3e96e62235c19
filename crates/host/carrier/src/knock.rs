//! How a home proves inside TLS that it knows the concentrator's public key, which it also needs
//! over UDP. Anyone else finds a web server.
//!
//! After the handshake a home sends its group's number and an HMAC-SHA-256 (RFC 2104), keyed with
//! the public key, of that and of the connection's exported secret (RFC 9266); the concentrator
//! answers with another one. Both are useless on any other connection, so a TLS-terminating
//! middlebox can't relay them, and no certificate needs to be trusted. The carried datagrams are
//! themselves encrypted and authenticated.

use braid_handshake::PublicKey;
use ring::hmac;

/// Identifies the connections of one link to one concentrator: an unguessable number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GroupId(pub [u8; 16]);

/// A secret that only the two ends of a TLS session know.
#[derive(Clone, Copy, Debug)]
pub struct Exported(pub [u8; 32]);

/// The exporter's label. RFC 9266's "EXPORTER-Channel-Binding" is for using the secret directly;
/// ours is never sent.
pub const EXPORTER_LABEL: &[u8] = b"EXPERIMENTAL braid carrier";
/// Bytes that a home sends first.
pub const KNOCK: usize = 16 + 32;
/// Bytes that the concentrator answers.
pub const ANSWER: usize = 32;

const OF_HOME: &[u8] = b"home";
const OF_CONCENTRATOR: &[u8] = b"concentrator";

/// The knock that a home sends to the concentrator with this key.
pub fn knock(concentrator: &PublicKey, group: GroupId, exported: &Exported) -> [u8; KNOCK] {
    let mut knock = [0; KNOCK];
    knock[..16].copy_from_slice(&group.0);
    knock[16..].copy_from_slice(&tag(concentrator, OF_HOME, group, exported));
    knock
}

/// The group that this knock is from; `None` for a stranger.
pub fn group_of(
    concentrator: &PublicKey,
    knock: &[u8; KNOCK],
    exported: &Exported,
) -> Option<GroupId> {
    let (group, sent) = knock.split_first_chunk::<16>()?;
    let group = GroupId(*group);
    verify(concentrator, OF_HOME, group, exported, sent).then_some(group)
}

/// The concentrator's answer to a knock.
pub fn answer(concentrator: &PublicKey, group: GroupId, exported: &Exported) -> [u8; ANSWER] {
    tag(concentrator, OF_CONCENTRATOR, group, exported)
}

/// Whether this is the concentrator's answer.
pub fn is_answer(
    concentrator: &PublicKey,
    group: GroupId,
    exported: &Exported,
    answer: &[u8; ANSWER],
) -> bool {
    verify(concentrator, OF_CONCENTRATOR, group, exported, answer)
}

fn tag(key: &PublicKey, whose: &[u8], group: GroupId, exported: &Exported) -> [u8; 32] {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes());
    let mut tag = [0; 32];
    tag.copy_from_slice(hmac::sign(&key, &said(whose, group, exported)).as_ref());
    tag
}

/// Verifies in constant time.
fn verify(key: &PublicKey, whose: &[u8], group: GroupId, exported: &Exported, sent: &[u8]) -> bool {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes());
    hmac::verify(&key, &said(whose, group, exported), sent).is_ok()
}

fn said(whose: &[u8], group: GroupId, exported: &Exported) -> Vec<u8> {
    [whose, &group.0, &exported.0].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use braid_handshake::PrivateKey;

    #[test]
    fn a_knock_is_known_on_its_connection_and_by_its_concentrator_only() {
        let ours = PrivateKey::from_bytes(&[1; 32]).public_key();
        let other = PrivateKey::from_bytes(&[2; 32]).public_key();
        let (group, here, there) = (GroupId([3; 16]), Exported([4; 32]), Exported([5; 32]));
        let sent = knock(&ours, group, &here);
        assert_eq!(group_of(&ours, &sent, &here), Some(group));
        assert_eq!(group_of(&ours, &sent, &there), None);
        assert_eq!(group_of(&other, &sent, &here), None);

        let reply = answer(&ours, group, &here);
        assert!(is_answer(&ours, group, &here, &reply));
        assert!(!is_answer(&ours, group, &there, &reply));
        // A reflected knock is not a valid answer.
        assert!(!is_answer(&ours, group, &here, sent[16..].try_into().unwrap()));
    }
}
