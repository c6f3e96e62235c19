/// Why a handshake message was refused.
///
/// For logs and counters at the receiver only: the sender is told nothing.
#[derive(Debug, PartialEq, thiserror::Error)]
pub enum HandshakeError {
    /// The first byte is of no handshake message.
    #[error("not a handshake message")]
    UnknownType,
    /// A version of the protocol that this program does not speak.
    #[error(
        "the peer speaks version {found} of the protocol and this program version {spoken}; \
         update the older one",
        spoken = crate::message::VERSION
    )]
    Version {
        /// The version in the message.
        found: u8,
    },
    /// The message's length is not that of its type.
    #[error("a handshake message of {found} bytes instead of {expected}")]
    Length {
        /// Bytes in the datagram.
        found: usize,
        /// Bytes that a message of this type has.
        expected: usize,
    },
    /// Reserved bytes are not zero.
    #[error("reserved bytes of a handshake message are not zero")]
    Reserved,
    /// mac1 is wrong: the sender does not know this peer's public key.
    #[error("a handshake message from a stranger, or meant for another key")]
    WrongMac1,
    /// Another message was expected, or one for another session index.
    #[error("a handshake message that answers nothing that was asked here")]
    Unexpected,
    /// Decryption failed: wrong keys, or the message was altered.
    #[error("a handshake message that can't be decrypted: altered, or the keys don't match")]
    NotAuthentic,
    /// What was encrypted is not a [`Hello`](crate::Hello).
    #[error("a handshake message with contents that can't be read")]
    BadHello,
    /// The peer says that the initiation wasn't newer than one it knows. Start
    /// another one, with a timestamp above that
    /// ([`NextTimestamp::catch_up`](crate::NextTimestamp::catch_up)).
    #[error("the peer has seen later initiations, up to timestamp {latest}; the clock went back")]
    Stale {
        /// The latest timestamp that the peer knows.
        latest: u64,
    },
    /// The home isn't let in by its enrolment token.
    #[error("{0}")]
    NotEnrolled(crate::EnrolmentRefusal),
    /// The Noise library refused to go on.
    #[error("the Noise handshake failed: {0}")]
    Noise(snow::Error),
}
