use crate::mac::{cookie_sealing_key, mac, mac_is_right};
use crate::message::{
    COOKIE_NONCE_LEN, COOKIE_REPLY_LEN, CookieReplyBytes, InitiationBytes, MAC_LEN,
    TYPE_COOKIE_REPLY, header,
};
use crate::{HandshakeError, PublicKey};
use braid_units::Time;
use chacha20poly1305::aead::AeadInPlace;
use chacha20poly1305::{KeyInit, XChaCha20Poly1305};
use rand_core::CryptoRng;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use zeroize::{ZeroizeOnDrop, Zeroizing};

/// How long a cookie can be used after its reception (WireGuard paper,
/// section 5.3).
pub const COOKIE_LIFETIME: Duration = Duration::from_secs(120);

/// Proof that its holder receives packets at the address and port from which
/// it sends: what a responder under load gave it there. Good for initiations
/// to that responder by that same path only.
#[derive(Clone, ZeroizeOnDrop)]
pub struct Cookie {
    value: [u8; MAC_LEN],
    #[zeroize(skip)]
    received: Time,
}

impl Cookie {
    /// Whether the responder still takes it.
    pub fn is_fresh(&self, now: Time) -> bool {
        now - self.received < COOKIE_LIFETIME
    }

    /// mac2 over the bytes before it.
    pub(crate) fn mac2(&self, before_mac2: &[u8]) -> [u8; MAC_LEN] {
        mac(&self.value, before_mac2)
    }

    /// Opens a cookie reply to the initiation with this `mac1`.
    pub(crate) fn open(
        reply: &CookieReplyBytes<'_>,
        mac1: &[u8; MAC_LEN],
        responder: &PublicKey,
        now: Time,
    ) -> Result<Self, HandshakeError> {
        let mut cookie = Cookie { value: *reply.sealed_cookie, received: now };
        XChaCha20Poly1305::new(&cookie_sealing_key(responder).into())
            .decrypt_in_place_detached(
                reply.nonce.into(),
                mac1,
                &mut cookie.value,
                reply.tag.into(),
            )
            .map_err(|_| HandshakeError::NotAuthentic)?;
        Ok(cookie)
    }
}

impl fmt::Debug for Cookie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cookie").field("received", &self.received).finish_non_exhaustive()
    }
}

/// The responder's side: makes cookies and knows its own again without
/// remembering any.
pub(crate) struct CookieMaker {
    sealing_key: [u8; 32],
    secrets: Option<Secrets>,
}

/// The previous secret stays for one more period, so that a cookie lives as
/// long as its holder believes.
struct Secrets {
    current: Zeroizing<[u8; 32]>,
    since: Time,
    previous: Option<Zeroizing<[u8; 32]>>,
}

impl CookieMaker {
    pub fn new(local: &PublicKey) -> Self {
        CookieMaker { sealing_key: cookie_sealing_key(local), secrets: None }
    }

    /// Whether mac2 was made with a cookie given to `from`.
    pub fn mac2_is_right(
        &mut self,
        initiation: &InitiationBytes<'_>,
        from: SocketAddr,
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> bool {
        let secrets = self.secrets(now, rng);
        [Some(&secrets.current), secrets.previous.as_ref()].into_iter().flatten().any(|secret| {
            let cookie = cookie_for(secret, from);
            mac_is_right(&cookie, initiation.before_mac2, initiation.mac2)
        })
    }

    /// The message that gives `from` its cookie.
    pub fn reply(
        &mut self,
        initiation: &InitiationBytes<'_>,
        from: SocketAddr,
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<Vec<u8>, HandshakeError> {
        let mut cookie = cookie_for(&self.secrets(now, rng).current, from);
        let mut nonce = [0; COOKIE_NONCE_LEN];
        rng.fill_bytes(&mut nonce);
        let tag = XChaCha20Poly1305::new(&self.sealing_key.into())
            .encrypt_in_place_detached(&nonce.into(), initiation.mac1, &mut cookie)
            .map_err(|_| HandshakeError::Noise(snow::Error::Input))?;
        let mut reply = Vec::with_capacity(COOKIE_REPLY_LEN);
        reply.extend(header(TYPE_COOKIE_REPLY, initiation.sender));
        reply.extend(nonce);
        reply.extend(cookie);
        reply.extend(tag);
        Ok(reply)
    }

    fn secrets(&mut self, now: Time, rng: &mut dyn CryptoRng) -> &Secrets {
        let previous = match self.secrets.take() {
            Some(secrets) if now - secrets.since < COOKIE_LIFETIME => {
                return self.secrets.insert(secrets);
            }
            Some(old) if now - old.since < 2 * COOKIE_LIFETIME => Some(old.current),
            _ => None,
        };
        let mut current = Zeroizing::new([0; 32]);
        rng.fill_bytes(&mut *current);
        self.secrets.insert(Secrets { current, since: now, previous })
    }
}

fn cookie_for(secret: &[u8; 32], from: SocketAddr) -> [u8; MAC_LEN] {
    let mut address = Vec::with_capacity(18);
    // A socket for both IP versions shows IPv4 addresses mapped into IPv6.
    match from.ip().to_canonical() {
        IpAddr::V4(ip) => address.extend(ip.octets()),
        IpAddr::V6(ip) => address.extend(ip.octets()),
    }
    address.extend(from.port().to_le_bytes());
    mac(secret, &address)
}
