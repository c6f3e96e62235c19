use crate::cookie::Cookie;
use crate::mac::{mac, mac_is_right, mac1_key};
use crate::message::{
    CookieReplyBytes, INITIATION_LEN, MAC_LEN, NOISE_1_LEN, ResponseBytes, TYPE_INITIATION, header,
};
use crate::noise::Noise;
use crate::session::{Established, Side};
use crate::{
    AeadOffer, Extensions, HandshakeError, Hello, PresharedKey, PrivateKey, PublicKey, SessionIndex,
};
use braid_units::Time;
use rand_core::CryptoRng;
use std::fmt;

/// A handshake that was started here and waits for the peer's response.
///
/// If none comes within some seconds, start another one: the same initiation
/// is answered only once.
pub struct Initiation {
    noise: Noise,
    sender_index: SessionIndex,
    remote: PublicKey,
    own_mac1_key: [u8; 32],
    offer: AeadOffer,
    /// The initiation without mac2.
    before_mac2: Vec<u8>,
    mac1: [u8; MAC_LEN],
}

impl Initiation {
    /// Makes an initiation; returns it with the bytes to send.
    ///
    /// `psk` is the one shared with this peer, if any. `cookie` is the last
    /// one that this peer gave by this path, if it is still fresh.
    /// `sender_index` must be random and in use for nothing else here.
    ///
    /// # Errors
    ///
    /// Only if the Noise library fails, which it has no reason to.
    pub fn start(
        local: &PrivateKey,
        remote: &PublicKey,
        psk: Option<&PresharedKey>,
        cookie: Option<&Cookie>,
        sender_index: SessionIndex,
        hello: &Hello,
        rng: &mut dyn CryptoRng,
    ) -> Result<(Self, Vec<u8>), HandshakeError> {
        let mut noise = Noise::initiator(local, remote, psk, rng)?;
        let message = noise.write::<NOISE_1_LEN>(&hello.to_payload(sender_index))?;
        let mut bytes = Vec::with_capacity(INITIATION_LEN);
        bytes.extend(header(TYPE_INITIATION, sender_index));
        bytes.extend(message);
        let mac1 = mac(&mac1_key(remote), &bytes);
        bytes.extend(mac1);
        let initiation = Initiation {
            noise,
            sender_index,
            remote: *remote,
            own_mac1_key: mac1_key(&local.public_key()),
            offer: hello.aead,
            before_mac2: bytes,
            mac1,
        };
        let datagram = initiation.datagram(cookie);
        Ok((initiation, datagram))
    }

    /// The session index by which the peer's answers name this handshake.
    pub fn sender_index(&self) -> SessionIndex {
        self.sender_index
    }

    /// The same initiation again, to be sent with another `cookie`: after a
    /// cookie reply, or by another path (each path has its own cookie).
    pub fn datagram(&self, cookie: Option<&Cookie>) -> Vec<u8> {
        let mut datagram = self.before_mac2.clone();
        datagram.extend(cookie.map_or([0; MAC_LEN], |cookie| cookie.mac2(&self.before_mac2)));
        datagram
    }

    /// Takes the peer's response. After an error the handshake goes on
    /// waiting: a forged response harms nothing.
    ///
    /// # Errors
    ///
    /// Says why this is not the response. Once a response was taken, or was
    /// [`HandshakeError::Stale`] or [`HandshakeError::NotEnrolled`], every other one is
    /// [`HandshakeError::Unexpected`].
    pub fn finish(&mut self, datagram: &[u8]) -> Result<Established, HandshakeError> {
        let response = ResponseBytes::parse(datagram)?;
        if response.receiver != self.sender_index {
            return Err(HandshakeError::Unexpected);
        }
        if !mac_is_right(&self.own_mac1_key, response.before_mac1, response.mac1) {
            return Err(HandshakeError::WrongMac1);
        }
        let payload = self.noise.read(response.noise)?;
        let (remote_index, hello) = Hello::from_payload(&payload)?;
        let said = Extensions::read(&hello.parameters);
        if let Some(latest) = said.stale {
            return Err(HandshakeError::Stale { latest });
        }
        if let Some(refusal) = said.not_enrolled {
            return Err(HandshakeError::NotEnrolled(refusal));
        }
        Established::new(&mut self.noise, Side::Initiator, remote_index, self.offer, hello)
    }

    /// Takes the cookie that a peer under load gave instead of a response.
    /// Send [`Self::datagram`] with it, by the path on which it came, and not
    /// at once but when the retry is due anyway: the peer is under load.
    ///
    /// # Errors
    ///
    /// Says why this is no cookie reply to this initiation.
    pub fn handle_cookie_reply(
        &self,
        now: Time,
        datagram: &[u8],
    ) -> Result<Cookie, HandshakeError> {
        let reply = CookieReplyBytes::parse(datagram)?;
        if reply.receiver != self.sender_index {
            return Err(HandshakeError::Unexpected);
        }
        Cookie::open(&reply, &self.mac1, &self.remote, now)
    }
}

impl fmt::Debug for Initiation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Initiation")
            .field("sender_index", &self.sender_index)
            .field("remote", &self.remote)
            .finish_non_exhaustive()
    }
}
