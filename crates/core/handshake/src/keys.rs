use base64ct::{Base64, Encoding};
use curve25519_dalek::montgomery::MontgomeryPoint;
use rand_core::CryptoRng;
use std::fmt;
use std::str::FromStr;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

/// A peer's identity: a Curve25519 secret, clamped (RFC 7748 section 5).
///
/// Written in base64, as `wg genkey` does; only on request, never by
/// `Debug`. Erased from memory when dropped.
#[derive(Clone, ZeroizeOnDrop)]
pub struct PrivateKey([u8; KEY_LEN]);

/// The public half of a [`PrivateKey`], in base64 as `wg pubkey` prints it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey([u8; KEY_LEN]);

/// A secret that two peers share besides their key pairs, in base64 as
/// `wg genpsk` prints it. It keeps recorded traffic safe should Curve25519
/// fall. Erased from memory when dropped.
#[derive(Clone, ZeroizeOnDrop)]
pub struct PresharedKey([u8; KEY_LEN]);

/// Why a key was refused. Never repeats the key, which may be secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// A key has 32 bytes, which are 44 characters.
    #[error(
        "a key is 44 base64 characters ending in '=', as `braid keygen` prints; this has {found}"
    )]
    Length {
        /// Characters found.
        found: usize,
    },
    /// A character that base64 doesn't have.
    #[error(
        "character {position} of the key is not base64 (A-Z, a-z, 0-9, '+', '/', and '=' last)"
    )]
    Character {
        /// Which one, counted from 1.
        position: usize,
    },
    /// The characters are right, but no encoder would write 32 bytes so.
    #[error("the last characters of the key can't be right; was it copied completely?")]
    Ending,
    /// A point of low order: the secret agreed with it would be known to
    /// everybody (RFC 7748 section 6.1).
    #[error("this public key is of the weak kind that nobody can own; ask the peer for its key")]
    Weak,
}

impl PrivateKey {
    /// A new key from `rng` (see [`crate::os_random`]).
    pub fn generate(rng: &mut dyn CryptoRng) -> Self {
        let mut bytes = Zeroizing::new([0; KEY_LEN]);
        rng.fill_bytes(&mut *bytes);
        Self::from_bytes(&bytes)
    }

    /// The key made of `bytes`, clamped.
    pub fn from_bytes(bytes: &[u8; KEY_LEN]) -> Self {
        PrivateKey(curve25519_dalek::scalar::clamp_integer(*bytes))
    }

    /// The key to give to peers.
    pub fn public_key(&self) -> PublicKey {
        PublicKey(MontgomeryPoint::mul_base_clamped(self.0).to_bytes())
    }

    /// The secret as text, for a key file.
    pub fn to_base64(&self) -> Zeroizing<String> {
        to_base64(&self.0)
    }

    pub(crate) fn as_bytes(&self) -> &[u8; KEY_LEN] {
        &self.0
    }
}

impl PublicKey {
    /// The key made of `bytes`.
    ///
    /// # Errors
    ///
    /// [`KeyError::Weak`] if `bytes` is a point of low order.
    pub fn from_bytes(bytes: [u8; KEY_LEN]) -> Result<Self, KeyError> {
        // A clamped scalar is a multiple of the cofactor 8 and so takes
        // exactly the points of low order to zero.
        let product = MontgomeryPoint(bytes).mul_clamped([1; KEY_LEN]);
        if product.to_bytes() == [0; KEY_LEN] {
            return Err(KeyError::Weak);
        }
        Ok(PublicKey(bytes))
    }

    /// The 32 bytes of the key.
    pub fn as_bytes(&self) -> &[u8; KEY_LEN] {
        &self.0
    }

    /// A key that a peer claims to have and that is only looked up among
    /// those that were checked.
    pub(crate) fn claimed(bytes: [u8; KEY_LEN]) -> Self {
        PublicKey(bytes)
    }
}

impl PresharedKey {
    /// A new key from `rng` (see [`crate::os_random`]).
    pub fn generate(rng: &mut dyn CryptoRng) -> Self {
        let mut bytes = Zeroizing::new([0; KEY_LEN]);
        rng.fill_bytes(&mut *bytes);
        PresharedKey(*bytes)
    }

    /// The key made of `bytes`.
    pub fn from_bytes(bytes: &[u8; KEY_LEN]) -> Self {
        PresharedKey(*bytes)
    }

    /// The secret as text, for a key file.
    pub fn to_base64(&self) -> Zeroizing<String> {
        to_base64(&self.0)
    }

    pub(crate) fn as_bytes(&self) -> &[u8; KEY_LEN] {
        &self.0
    }
}

impl FromStr for PrivateKey {
    type Err = KeyError;
    /// Reads what [`PrivateKey::to_base64`] and `wg genkey` write; blanks
    /// and line ends around it are ignored.
    fn from_str(text: &str) -> Result<Self, KeyError> {
        Ok(Self::from_bytes(&*from_base64(text)?))
    }
}

impl FromStr for PublicKey {
    type Err = KeyError;
    /// Reads what `Display` and `wg pubkey` write; blanks and line ends
    /// around it are ignored.
    fn from_str(text: &str) -> Result<Self, KeyError> {
        Self::from_bytes(*from_base64(text)?)
    }
}

impl FromStr for PresharedKey {
    type Err = KeyError;
    /// Reads what [`PresharedKey::to_base64`] and `wg genpsk` write; blanks
    /// and line ends around it are ignored.
    fn from_str(text: &str) -> Result<Self, KeyError> {
        Ok(Self::from_bytes(&*from_base64(text)?))
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&to_base64(&self.0))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({self})")
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrivateKey(redacted)")
    }
}

impl fmt::Debug for PresharedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PresharedKey(redacted)")
    }
}

const KEY_LEN: usize = 32;
const KEY_TEXT_LEN: usize = 44;

// The codec is one whose time doesn't depend on the (secret) text.
fn to_base64(bytes: &[u8; KEY_LEN]) -> Zeroizing<String> {
    Zeroizing::new(Base64::encode_string(bytes))
}

fn from_base64(text: &str) -> Result<Zeroizing<[u8; KEY_LEN]>, KeyError> {
    let text = text.trim();
    let mut bytes = Zeroizing::new([0; KEY_LEN]);
    match Base64::decode(text, &mut *bytes) {
        Ok(decoded) if decoded.len() == KEY_LEN => Ok(bytes),
        _ => {
            bytes.zeroize();
            Err(explain(text))
        }
    }
}

fn explain(text: &str) -> KeyError {
    let outside_alphabet =
        |(_, c): &(usize, char)| !(c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '='));
    let found = text.chars().count();
    if let Some((index, _)) = text.chars().enumerate().find(outside_alphabet) {
        KeyError::Character { position: index + 1 }
    } else if found != KEY_TEXT_LEN {
        KeyError::Length { found }
    } else {
        KeyError::Ending
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(text: &str) -> [u8; 32] {
        std::array::from_fn(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap())
    }

    /// RFC 7748 section 6.1.
    #[test]
    fn public_keys_are_those_of_rfc_7748() {
        for (private, public) in [
            (
                "77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a",
                "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a",
            ),
            (
                "5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb",
                "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f",
            ),
        ] {
            let key = PrivateKey::from_bytes(&hex(private));
            assert_eq!(key.public_key().as_bytes(), &hex(public));
        }
    }

    /// The two key pairs in the configuration example of
    /// <https://www.wireguard.com>.
    #[test]
    fn key_texts_are_those_of_wireguard() {
        for (private, public) in [
            (
                "yAnz5TF+lXXJte14tji3zlMNq+hd2rYUIgJBgB3fBmk=",
                "HIgo9xNzJMWLKASShiTqIybxZ0U3wGLiUeJ1PKf8ykw=",
            ),
            (
                "gI6EdUSYvn8ugXOt8QQD6Yc+JyiZxIhp3GInSWRfWGE=",
                "gN65BkIKy1eCE9pP1wdc8ROUtkHLF2PfAqYdyYBz6EA=",
            ),
        ] {
            let key: PrivateKey = private.parse().unwrap();
            assert_eq!(*key.to_base64(), private);
            assert_eq!(key.public_key().to_string(), public);
            assert_eq!(format!(" {public}\n").parse(), Ok(key.public_key()));
        }
    }

    #[test]
    fn generated_keys_are_clamped_differ_and_survive_their_text() {
        let mut rng = crate::os_random();
        let (one, other) = (PrivateKey::generate(&mut rng), PrivateKey::generate(&mut rng));
        assert_ne!(one.public_key(), other.public_key());
        assert_eq!((one.0[0] & 7, one.0[31] & 0xc0), (0, 0x40));
        let again: PrivateKey = one.to_base64().parse().unwrap();
        assert_eq!(again.0, one.0);
        let shared = PresharedKey::generate(&mut rng);
        assert_eq!(shared.to_base64().parse::<PresharedKey>().unwrap().0, shared.0);
    }

    #[test]
    fn bad_key_texts_are_explained() {
        let refuse = |text: &str| text.parse::<PublicKey>().unwrap_err();
        let good = "HIgo9xNzJMWLKASShiTqIybxZ0U3wGLiUeJ1PKf8ykw=";
        assert_eq!(refuse(""), KeyError::Length { found: 0 });
        assert_eq!(refuse(&good[..43]), KeyError::Length { found: 43 });
        assert_eq!(refuse(&good.repeat(2)), KeyError::Length { found: 88 });
        assert_eq!(refuse(&good.replace('9', "é")), KeyError::Character { position: 5 });
        assert_eq!(refuse(&good.replace("w=", "x=")), KeyError::Ending);
        assert_eq!(refuse(&good.replace("w=", "AA")), KeyError::Ending);
    }

    /// The points of low order listed at <https://cr.yp.to/ecdh.html>.
    #[test]
    fn public_keys_of_low_order_are_refused() {
        let mut one = [0; 32];
        one[0] = 1;
        for weak in [
            [0; 32],
            one,
            hex("e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800"),
            hex("5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157"),
            hex("ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"),
        ] {
            assert_eq!(PublicKey::from_bytes(weak), Err(KeyError::Weak));
        }
    }

    #[test]
    fn secrets_are_not_printed() {
        let key = PrivateKey::from_bytes(&[7; 32]);
        let shared = PresharedKey::from_bytes(&[7; 32]);
        assert_eq!(format!("{key:?} {shared:?}"), "PrivateKey(redacted) PresharedKey(redacted)");
    }
}
