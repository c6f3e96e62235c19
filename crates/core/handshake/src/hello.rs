use crate::message::PAYLOAD_LEN;
use crate::{AeadOffer, HandshakeError, SessionIndex};

/// What a peer tells the other inside the handshake, encrypted and
/// authenticated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// A random number, the same for all handshakes between two starts of
    /// the sender: a different one says that the sender has restarted and
    /// forgotten everything, the same one that this is a rekey.
    pub instance: u64,
    /// Nanoseconds since 1970 by the sender's clock, but higher in every
    /// initiation that the sender makes to this peer: a responder accepts
    /// only such ([`LatestTimestamp`](crate::LatestTimestamp)). The clock may
    /// go back (many routers have none that survives a power cut):
    /// [`NextTimestamp`](crate::NextTimestamp).
    pub timestamp: u64,
    /// The AEADs that the sender offers for the session.
    pub aead: AeadOffer,
    /// What the tunnel wants to tell its other end.
    pub parameters: TunnelParameters,
}

/// Bytes of the tunnel, 256 at most: [`Extensions`](crate::Extensions), and
/// whatever else.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TunnelParameters(Vec<u8>);

/// More parameters than a handshake carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a handshake carries {limit} bytes of parameters, not {found}", limit = TunnelParameters::MAX_LEN)]
pub struct TooManyParameters {
    /// Bytes given.
    pub found: usize,
}

impl TunnelParameters {
    /// The greatest length in bytes.
    pub const MAX_LEN: usize = 256;

    /// Takes `bytes` as they are.
    ///
    /// # Errors
    ///
    /// [`TooManyParameters`] beyond [`Self::MAX_LEN`] bytes.
    pub fn new(bytes: Vec<u8>) -> Result<Self, TooManyParameters> {
        if bytes.len() > Self::MAX_LEN {
            return Err(TooManyParameters { found: bytes.len() });
        }
        Ok(TunnelParameters(bytes))
    }

    /// What [`Extensions`](crate::Extensions) write, which always has room.
    pub(crate) fn of_extensions(bytes: Vec<u8>) -> Self {
        debug_assert!(bytes.len() <= Self::MAX_LEN);
        TunnelParameters(bytes)
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Hello {
    /// The payload of a Noise message in a message with this `sender` index.
    pub(crate) fn to_payload(&self, sender: SessionIndex) -> [u8; PAYLOAD_LEN] {
        let parameters = self.parameters.as_bytes();
        let mut payload = Vec::with_capacity(PAYLOAD_LEN);
        payload.extend(sender.to_bytes());
        payload.extend(self.instance.to_le_bytes());
        payload.extend(self.timestamp.to_le_bytes());
        payload.extend([self.aead.to_byte(), 0]);
        payload.extend((parameters.len() as u16).to_le_bytes());
        payload.extend(parameters);
        let mut filled = [0; PAYLOAD_LEN];
        for (to, from) in filled.iter_mut().zip(payload) {
            *to = from;
        }
        filled
    }

    /// Reads the payload of a Noise message: the sender's index and its
    /// hello. Every bit is checked, so that both have one written form only.
    pub(crate) fn from_payload(
        payload: &[u8; PAYLOAD_LEN],
    ) -> Result<(SessionIndex, Self), HandshakeError> {
        let (sender, hello) = Self::read(payload).ok_or(HandshakeError::BadHello)?;
        if hello.to_payload(sender) != *payload {
            return Err(HandshakeError::BadHello);
        }
        Ok((sender, hello))
    }

    fn read(payload: &[u8]) -> Option<(SessionIndex, Self)> {
        let (sender, rest) = payload.split_first_chunk()?;
        let (instance, rest) = rest.split_first_chunk()?;
        let (timestamp, rest) = rest.split_first_chunk()?;
        let ([aead, _zero], rest) = rest.split_first_chunk()?;
        let (length, rest) = rest.split_first_chunk()?;
        let parameters = rest.get(..usize::from(u16::from_le_bytes(*length)))?;
        let hello = Hello {
            instance: u64::from_le_bytes(*instance),
            timestamp: u64::from_le_bytes(*timestamp),
            aead: AeadOffer::from_byte(*aead)?,
            parameters: TunnelParameters::new(parameters.to_vec()).ok()?,
        };
        Some((SessionIndex::from_bytes(*sender), hello))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hello(parameters: Vec<u8>) -> Hello {
        Hello {
            instance: 7,
            timestamp: 1_700_000_000_000_000_000,
            aead: AeadOffer::AesGcmToo,
            parameters: TunnelParameters::new(parameters).unwrap(),
        }
    }

    proptest! {
        #[test]
        fn a_written_hello_is_read_again(parameters: Vec<u8>, index: u32) {
            prop_assume!(parameters.len() <= TunnelParameters::MAX_LEN);
            let (hello, sender) = (hello(parameters), SessionIndex::new(index));
            let payload = hello.to_payload(sender);
            prop_assert_eq!(Hello::from_payload(&payload), Ok((sender, hello)));
        }

        #[test]
        fn a_read_payload_is_written_again(
            mut payload in proptest::collection::vec(any::<u8>(), PAYLOAD_LEN),
            parameters in 0u8..30,
        ) {
            // Plausible enough that some are accepted.
            payload[20] &= 3;
            payload[21..24].copy_from_slice(&[0, parameters, 0]);
            payload[24 + usize::from(parameters / 2)..].fill(0);
            let payload: [u8; PAYLOAD_LEN] = payload.try_into().unwrap();
            if let Ok((sender, hello)) = Hello::from_payload(&payload) {
                prop_assert_eq!(hello.to_payload(sender), payload);
            }
        }
    }

    #[test]
    fn a_hello_that_is_not_exactly_right_is_refused() {
        let sender = SessionIndex::new(1);
        let good = hello(vec![9; 256]).to_payload(sender);
        assert!(Hello::from_payload(&good).is_ok());
        for (position, value, what) in [
            (20, 2, "unknown AEADs"),
            (21, 1, "reserved byte"),
            (22, 1, "parameters that are too long"),
            (23, 0, "parameters beyond their length"),
        ] {
            let mut bad = good;
            bad[position] = value;
            assert_eq!(Hello::from_payload(&bad), Err(HandshakeError::BadHello), "{what}");
        }
        assert_eq!(TunnelParameters::new(vec![0; 257]), Err(TooManyParameters { found: 257 }));
    }
}
