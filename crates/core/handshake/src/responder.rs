use crate::cookie::CookieMaker;
use crate::mac::{mac, mac_is_right, mac1_key};
use crate::message::{InitiationBytes, NOISE_2_LEN, RESPONSE_LEN, TYPE_RESPONSE, header};
use crate::noise::Noise;
use crate::session::{Established, Side};
use crate::{
    EnrolmentRefusal, Extensions, HandshakeError, Hello, LatestTimestamp, PresharedKey, PrivateKey,
    PublicKey, SessionIndex, StaleTimestamp,
};
use braid_units::Time;
use rand_core::CryptoRng;
use std::fmt;
use std::net::SocketAddr;

/// The side that answers initiations sent to one private key. It keeps no
/// state for any sender, only the secret of its cookies.
pub struct Responder {
    local: PrivateKey,
    mac1_key: [u8; 32],
    cookies: CookieMaker,
}

/// What to do with an initiation.
#[derive(Debug)]
pub enum Received {
    /// Send nothing: to a stranger there is nobody here.
    Ignore(HandshakeError),
    /// Send this cookie reply to where the initiation came from.
    Send(Vec<u8>),
    /// The initiation is authentic; see whether its sender is a known peer.
    Initiation(Box<PendingResponse>),
}

impl Received {
    /// Whether the initiation got as far as Curve25519 operations, which cost
    /// more than all before.
    pub fn took_curve25519(&self) -> bool {
        match self {
            Self::Initiation(_) => true,
            Self::Send(_) => false,
            Self::Ignore(why) => {
                matches!(why, HandshakeError::NotAuthentic | HandshakeError::BadHello)
            }
        }
    }
}

/// An authentic initiation that is not yet answered.
///
/// Look the peer up by its key (if it is unknown, drop this and stay silent)
/// and let [`Self::answer`] see whether its timestamp is new.
pub struct PendingResponse {
    noise: Noise,
    remote_static: PublicKey,
    remote_index: SessionIndex,
    hello: Hello,
}

/// What an authentic initiation of a known peer gets.
#[derive(Debug)]
pub enum Answer {
    /// Send this response. The session is proved only by the first packet
    /// that opens with it (WireGuard paper, section 5.4.3): until then nothing
    /// else may change. Go on with the session before; a newer handshake
    /// replaces this one.
    Session(Vec<u8>, Box<Established>),
    /// Send this: it tells the peer from which timestamp on it is heard. Only
    /// somebody who has the peer's key can read it, and make an initiation
    /// with such a timestamp.
    Stale(Vec<u8>),
    /// Send nothing: a copy by another path, or a replay.
    Silence(StaleTimestamp),
}

impl Responder {
    /// A responder for the owner of `local`.
    pub fn new(local: &PrivateKey) -> Self {
        let public = local.public_key();
        Responder {
            local: local.clone(),
            mac1_key: mac1_key(&public),
            cookies: CookieMaker::new(&public),
        }
    }

    /// Examines a datagram that came `from` an address.
    ///
    /// With `under_load`, whoever has not proved that it receives at its
    /// address gets a cookie and costs no Curve25519 operation. `rng` gives
    /// the key material of this one handshake, or of the cookie reply.
    pub fn receive(
        &mut self,
        now: Time,
        from: SocketAddr,
        datagram: &[u8],
        under_load: bool,
        rng: &mut dyn CryptoRng,
    ) -> Received {
        self.examine(now, from, datagram, under_load, rng).unwrap_or_else(Received::Ignore)
    }

    fn examine(
        &mut self,
        now: Time,
        from: SocketAddr,
        datagram: &[u8],
        under_load: bool,
        rng: &mut dyn CryptoRng,
    ) -> Result<Received, HandshakeError> {
        let initiation = InitiationBytes::parse(datagram)?;
        if !mac_is_right(&self.mac1_key, initiation.before_mac1, initiation.mac1) {
            return Err(HandshakeError::WrongMac1);
        }
        if under_load && !self.cookies.mac2_is_right(&initiation, from, now, rng) {
            return self.cookies.reply(&initiation, from, now, rng).map(Received::Send);
        }
        let mut noise = Noise::responder(&self.local, rng)?;
        let payload = noise.read(initiation.noise)?;
        let (remote_index, hello) = Hello::from_payload(&payload)?;
        if remote_index != initiation.sender {
            return Err(HandshakeError::NotAuthentic);
        }
        let remote_static = noise.remote_static()?;
        let pending = PendingResponse { noise, remote_static, remote_index, hello };
        Ok(Received::Initiation(Box::new(pending)))
    }
}

impl PendingResponse {
    /// Who sent the initiation; authentic.
    pub fn remote_static(&self) -> &PublicKey {
        &self.remote_static
    }

    /// What the initiator said; authentic, but possibly a replay until its
    /// timestamp has been checked.
    pub fn hello(&self) -> &Hello {
        &self.hello
    }

    /// Decides by the `latest` timestamp of this peer what to answer, with
    /// `hello` and `psk` as in [`Self::respond`].
    ///
    /// A timestamp that isn't new is that of a copy, of a replay, or of a peer
    /// whose clock went back. The last has got no answer and asks to be told:
    /// so what is recorded of others is replayed in silence.
    ///
    /// # Errors
    ///
    /// Only if the Noise library fails, which it has no reason to.
    pub fn answer(
        self: Box<Self>,
        latest: &mut LatestTimestamp,
        sender_index: SessionIndex,
        hello: &Hello,
        psk: Option<&PresharedKey>,
    ) -> Result<Answer, HandshakeError> {
        let asks = Extensions::read(&self.hello.parameters).tell_if_stale;
        match latest.advance(self.hello.timestamp) {
            Ok(()) => {
                let (datagram, session) = self.respond(sender_index, hello, psk)?;
                Ok(Answer::Session(datagram, Box::new(session)))
            }
            // The same one by several paths.
            Err(stale) if !asks || stale.latest == self.hello.timestamp => {
                Ok(Answer::Silence(stale))
            }
            Err(StaleTimestamp { latest }) => {
                let said = Extensions { stale: Some(latest), ..Extensions::default() };
                let hello = Hello { parameters: said.to_parameters(), ..hello.clone() };
                self.respond(sender_index, &hello, psk).map(|(datagram, _)| Answer::Stale(datagram))
            }
        }
    }

    /// The response to an enrolment that is refused: who has the token can read
    /// why.
    ///
    /// # Errors
    ///
    /// Only if the Noise library fails, which it has no reason to.
    pub fn refuse_enrolment(
        self: Box<Self>,
        sender_index: SessionIndex,
        hello: &Hello,
        refusal: EnrolmentRefusal,
    ) -> Result<Vec<u8>, HandshakeError> {
        let said = Extensions { not_enrolled: Some(refusal), ..Extensions::default() };
        let hello = Hello { parameters: said.to_parameters(), ..hello.clone() };
        self.respond(sender_index, &hello, None).map(|(datagram, _)| datagram)
    }

    /// Makes the response; returns the bytes to send, and the session.
    ///
    /// # Errors
    ///
    /// Only if the Noise library fails, which it has no reason to.
    pub fn respond(
        mut self: Box<Self>,
        sender_index: SessionIndex,
        hello: &Hello,
        psk: Option<&PresharedKey>,
    ) -> Result<(Vec<u8>, Established), HandshakeError> {
        self.noise.set_psk(psk)?;
        let message = self.noise.write::<NOISE_2_LEN>(&hello.to_payload(sender_index))?;
        let mut datagram = Vec::with_capacity(RESPONSE_LEN);
        datagram.extend(header(TYPE_RESPONSE, self.remote_index));
        datagram.extend(message);
        datagram.extend(mac(&mac1_key(&self.remote_static), &datagram));
        let established = Established::new(
            &mut self.noise,
            Side::Responder,
            self.remote_index,
            hello.aead,
            self.hello,
        )?;
        Ok((datagram, established))
    }
}

impl fmt::Debug for Responder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Responder").field("local", &self.local).finish_non_exhaustive()
    }
}

impl fmt::Debug for PendingResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingResponse")
            .field("remote_static", &self.remote_static)
            .field("remote_index", &self.remote_index)
            .field("hello", &self.hello)
            .finish_non_exhaustive()
    }
}
