use crate::{EnrolmentRefusal, PublicKey, TunnelParameters};

/// What the parameters of a [`Hello`](crate::Hello) say: items of a kind
/// (1 byte), a length (1 byte) and a value each, one after the other. Kinds
/// that aren't known are skipped, so that later versions can say more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extensions {
    /// In an initiation: the ones before weren't answered. Perhaps because
    /// their timestamps were stale; say so if this one's is.
    pub tell_if_stale: bool,
    /// In a response: there is no session, as the initiation's timestamp isn't
    /// above this one, the latest seen.
    pub stale: Option<u64>,
    /// In an initiation made with an enrolment token's key: the home's own key.
    pub enrol: Option<PublicKey>,
    /// In a response to such an initiation: there is no session, and why the
    /// home isn't let in.
    pub not_enrolled: Option<EnrolmentRefusal>,
    /// In a response: another host calls with the initiator's key, too.
    pub has_rival: bool,
}

const TELL_IF_STALE: u8 = 1;
const STALE: u8 = 2;
const ENROL: u8 = 3;
const NOT_ENROLLED: u8 = 4;
const HAS_RIVAL: u8 = 5;

impl Extensions {
    /// What is said of what is known here.
    pub fn read(parameters: &TunnelParameters) -> Self {
        let mut found = Self::default();
        let mut rest = parameters.as_bytes();
        while let [kind, len, after @ ..] = rest
            && let Some((value, after)) = after.split_at_checked(usize::from(*len))
        {
            match *kind {
                TELL_IF_STALE => found.tell_if_stale = true,
                STALE => found.stale = value.try_into().ok().map(u64::from_le_bytes),
                ENROL => {
                    let key = value.try_into().ok().map(PublicKey::from_bytes);
                    found.enrol = key.and_then(Result::ok);
                }
                NOT_ENROLLED => {
                    let byte = value.first().copied();
                    found.not_enrolled = byte.and_then(EnrolmentRefusal::from_byte);
                }
                HAS_RIVAL => found.has_rival = true,
                _ => {}
            }
            rest = after;
        }
        found
    }

    /// As parameters.
    pub fn to_parameters(&self) -> TunnelParameters {
        let mut bytes = Vec::new();
        if self.tell_if_stale {
            bytes.extend([TELL_IF_STALE, 0]);
        }
        if let Some(latest) = self.stale {
            bytes.extend([STALE, 8]);
            bytes.extend(latest.to_le_bytes());
        }
        if let Some(key) = self.enrol {
            bytes.extend([ENROL, 32]);
            bytes.extend(key.as_bytes());
        }
        if let Some(refusal) = self.not_enrolled {
            bytes.extend([NOT_ENROLLED, 1, refusal.to_byte()]);
        }
        if self.has_rival {
            bytes.extend([HAS_RIVAL, 0]);
        }
        TunnelParameters::of_extensions(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_is_read_again(
            tell_if_stale: bool,
            stale: Option<u64>,
            key: Option<[u8; 32]>,
            refusal in proptest::option::of(1..=2u8),
            has_rival: bool,
        ) {
            let extensions = Extensions {
                tell_if_stale,
                stale,
                enrol: key.and_then(|key| PublicKey::from_bytes(key).ok()),
                not_enrolled: refusal.and_then(EnrolmentRefusal::from_byte),
                has_rival,
            };
            prop_assert_eq!(Extensions::read(&extensions.to_parameters()), extensions);
        }

        #[test]
        fn whatever_is_said_can_be_read(bytes in proptest::collection::vec(any::<u8>(), 0..=256)) {
            Extensions::read(&TunnelParameters::new(bytes).unwrap());
        }

        #[test]
        fn unknown_kinds_are_skipped(kind in 0x80u8.., value in "[a-z]{0,40}") {
            let known = Extensions { tell_if_stale: true, stale: Some(7), ..Extensions::default() }
                .to_parameters();
            let unknown = [&[kind, value.len() as u8], value.as_bytes()].concat();
            let all = TunnelParameters::new([&unknown, known.as_bytes()].concat()).unwrap();
            prop_assert_eq!(Extensions::read(&all), Extensions::read(&known));
        }
    }
}
