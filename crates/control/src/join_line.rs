//! The join line, which lets a home join a concentrator's tunnel.
//!
//! The line is `braid-join:` and, in base64url (RFC 4648, section 5, no padding):
//!
//! | bytes | what |
//! |---|---|
//! | 1 | version, 2 |
//! | 1 | layer: 2 or 3 |
//! | 2 | MTU |
//! | 16 | the token that lets the home in, once |
//! | 8 | until when, seconds since 1970 |
//! | 32 | the concentrator's public key |
//! | 1 + n | the home's name |
//! | 1 + … | its inner addresses, each: 4 or 6, the address, the prefix length |
//! | 1 + … | the concentrator's endpoints, each: 4 or 6 and the address, or 0 and the length and the name; then the port |
//! | 4 | CRC-32 (IEEE 802.3) of all before |
//!
//! Numbers are big-endian. Whoever first presents the token becomes the home, with a key of its
//! own; after that the line is useless.

use crate::config::{Endpoint, Host, Layer, Name};
use base64ct::{Base64UrlUnpadded, Encoding};
use braid_handshake::{EnrolmentToken, PublicKey};
use ipnet::IpNet;
use jiff::Timestamp;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::NonZeroU16;
use std::str::FromStr;

/// What a home needs to know to join.
#[derive(Clone, Debug)]
pub struct JoinLine {
    /// What the tunnel carries.
    pub layer: Layer,
    /// MTU of the device, bytes.
    pub mtu: u16,
    /// The token that lets the home in.
    pub token: EnrolmentToken,
    /// When the line expires, by the concentrator's clock; whole seconds.
    pub until: Timestamp,
    /// The concentrator's public key.
    pub concentrator: PublicKey,
    /// The home's name.
    pub name: Name,
    /// Its inner addresses.
    pub addresses: Vec<IpNet>,
    /// Where the concentrator listens; not empty.
    pub endpoints: Vec<Endpoint>,
    /// Its port for TLS, if it has one: for homes in networks that block UDP.
    pub fallback_port: Option<NonZeroU16>,
}

/// Why a line can't be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JoinLineError {
    /// It isn't a join line.
    #[error(
        "this is not a join line: one begins with \"braid-join:\"; copy the whole line that `braid \
         concentrator init` printed"
    )]
    NoJoinLine,
    /// Characters were lost or changed.
    #[error("the join line is damaged; copy it again, whole and without line breaks")]
    Damaged,
    /// It is from another version.
    #[error(
        "the join line is of version {0}, this braid reads version {VERSION}; have the same version \
         of braid at both ends, and make another line with `braid concentrator add-home`"
    )]
    Version(u8),
}

impl JoinLine {
    /// How each line begins.
    pub const PREFIX: &str = "braid-join:";
}

impl JoinLine {
    /// The concentrator, for display.
    pub fn concentrator_words(&self) -> String {
        let first = self.endpoints.first().map(ToString::to_string);
        format!("the concentrator at {}", first.unwrap_or_default())
    }
}

const PREFIX: &str = JoinLine::PREFIX;
const VERSION: u8 = 2;

impl fmt::Display for JoinLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = Vec::with_capacity(256);
        let layer = match self.layer {
            Layer::L2 => 2,
            Layer::L3 => 3,
        };
        bytes.extend_from_slice(&[VERSION, layer]);
        bytes.extend_from_slice(&self.mtu.to_be_bytes());
        bytes.extend_from_slice(self.token.as_bytes());
        bytes.extend_from_slice(&self.until.as_second().to_be_bytes());
        bytes.extend_from_slice(self.concentrator.as_bytes());
        write_text(&mut bytes, self.name.as_str())?;
        bytes.push(u8::try_from(self.addresses.len()).map_err(|_| fmt::Error)?);
        for address in &self.addresses {
            write_address(&mut bytes, address.addr());
            bytes.push(address.prefix_len());
        }
        bytes.push(u8::try_from(self.endpoints.len()).map_err(|_| fmt::Error)?);
        for endpoint in &self.endpoints {
            match &endpoint.host {
                Host::Address(address) => write_address(&mut bytes, *address),
                Host::Name(name) => {
                    bytes.push(0);
                    write_text(&mut bytes, name)?;
                }
            }
            bytes.extend_from_slice(&endpoint.port.to_be_bytes());
        }
        if let Some(port) = self.fallback_port {
            bytes.extend_from_slice(&port.get().to_be_bytes());
        }
        bytes.extend_from_slice(&crc32fast::hash(&bytes).to_be_bytes());
        write!(f, "{PREFIX}{}", Base64UrlUnpadded::encode_string(&bytes))
    }
}

impl FromStr for JoinLine {
    type Err = JoinLineError;
    fn from_str(text: &str) -> Result<Self, JoinLineError> {
        let encoded = text.trim().strip_prefix(PREFIX).ok_or(JoinLineError::NoJoinLine)?;
        let bytes = Base64UrlUnpadded::decode_vec(encoded).map_err(|_| JoinLineError::Damaged)?;
        let (body, sum) = bytes.split_last_chunk::<4>().ok_or(JoinLineError::Damaged)?;
        if crc32fast::hash(body) != u32::from_be_bytes(*sum) {
            return Err(JoinLineError::Damaged);
        }
        match body.first() {
            Some(&VERSION) => {}
            Some(&other) => return Err(JoinLineError::Version(other)),
            None => return Err(JoinLineError::Damaged),
        }
        read(&mut Reader(body.get(1..).unwrap_or_default())).ok_or(JoinLineError::Damaged)
    }
}

fn read(reader: &mut Reader<'_>) -> Option<JoinLine> {
    let layer = match reader.byte()? {
        2 => Layer::L2,
        3 => Layer::L3,
        _ => return None,
    };
    let mtu = u16::from_be_bytes(reader.array()?);
    let token = EnrolmentToken::from_bytes(reader.array()?);
    let until = Timestamp::from_second(i64::from_be_bytes(reader.array()?)).ok()?;
    let concentrator = PublicKey::from_bytes(reader.array()?).ok()?;
    let name = reader.text()?.parse().ok()?;
    let mut addresses = Vec::new();
    for _ in 0..reader.byte()? {
        let family = reader.byte()?;
        let address = reader.address(family)?;
        addresses.push(IpNet::new(address, reader.byte()?).ok()?);
    }
    let mut endpoints = Vec::new();
    for _ in 0..reader.byte()? {
        let host = match reader.byte()? {
            0 => reader.text()?.to_owned(),
            family => match reader.address(family)? {
                IpAddr::V4(address) => address.to_string(),
                IpAddr::V6(address) => format!("[{address}]"),
            },
        };
        let port = u16::from_be_bytes(reader.array()?);
        endpoints.push(format!("{host}:{port}").parse().ok()?);
    }
    let fallback_port = match reader.0.is_empty() {
        true => None,
        false => Some(NonZeroU16::new(u16::from_be_bytes(reader.array()?))?),
    };
    if endpoints.is_empty() || !reader.0.is_empty() || mtu < 576 {
        return None;
    }
    Some(JoinLine {
        layer,
        mtu,
        token,
        until,
        concentrator,
        name,
        addresses,
        endpoints,
        fallback_port,
    })
}

fn write_text(bytes: &mut Vec<u8>, text: &str) -> fmt::Result {
    bytes.push(u8::try_from(text.len()).map_err(|_| fmt::Error)?);
    bytes.extend_from_slice(text.as_bytes());
    Ok(())
}

fn write_address(bytes: &mut Vec<u8>, address: IpAddr) {
    match address {
        IpAddr::V4(address) => {
            bytes.push(4);
            bytes.extend_from_slice(&address.octets());
        }
        IpAddr::V6(address) => {
            bytes.push(6);
            bytes.extend_from_slice(&address.octets());
        }
    }
}

struct Reader<'b>(&'b [u8]);

impl<'b> Reader<'b> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*array)
    }

    fn byte(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn text(&mut self) -> Option<&'b str> {
        let length = usize::from(self.byte()?);
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        std::str::from_utf8(text).ok()
    }

    fn address(&mut self, family: u8) -> Option<IpAddr> {
        match family {
            4 => Some(IpAddr::V4(Ipv4Addr::from(self.array::<4>()?))),
            6 => Some(IpAddr::V6(Ipv6Addr::from(self.array::<16>()?))),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use braid_handshake::PrivateKey;
    use proptest::prelude::*;

    fn line() -> JoinLine {
        JoinLine {
            layer: Layer::L3,
            mtu: 1500,
            token: EnrolmentToken::from_bytes([7; 16]),
            until: Timestamp::from_second(1_767_225_600).unwrap(),
            concentrator: PrivateKey::from_bytes(&[8; 32]).public_key(),
            name: "home-1".parse().unwrap(),
            addresses: vec!["10.77.0.2/24".parse().unwrap(), "fd77::2/64".parse().unwrap()],
            endpoints: vec![
                "vpn.example.org:51900".parse().unwrap(),
                "203.0.113.1:51900".parse().unwrap(),
                "[2001:db8::1]:443".parse().unwrap(),
            ],
            fallback_port: NonZeroU16::new(8443),
        }
    }

    #[test]
    fn a_line_is_read_as_it_was_written() {
        let text = line().to_string();
        assert!(text.starts_with("braid-join:") && !text.contains(char::is_whitespace));
        let read: JoinLine = format!("  {text}\n").parse().unwrap();
        assert_eq!(read.to_string(), text);
        assert_eq!(read.endpoints, line().endpoints);
        assert_eq!(read.addresses, line().addresses);
        assert_eq!(read.token.as_bytes(), line().token.as_bytes());
        assert_eq!(read.until, line().until);
        assert_eq!(read.fallback_port, line().fallback_port);
        let without = JoinLine { fallback_port: None, ..line() };
        let read: JoinLine = without.to_string().parse().unwrap();
        assert_eq!((read.fallback_port, read.endpoints), (None, line().endpoints));
    }

    #[test]
    fn each_wrong_line_says_what_is_wrong() {
        assert_eq!("hello".parse::<JoinLine>().unwrap_err(), JoinLineError::NoJoinLine);
        assert_eq!("braid-join:".parse::<JoinLine>().unwrap_err(), JoinLineError::Damaged);
        let mut newer = vec![9u8, 1, 2];
        newer.extend_from_slice(&crc32fast::hash(&[9, 1, 2]).to_be_bytes());
        let newer = format!("{PREFIX}{}", Base64UrlUnpadded::encode_string(&newer));
        assert_eq!(newer.parse::<JoinLine>().unwrap_err(), JoinLineError::Version(9));
    }

    #[test]
    fn the_checksum_is_that_of_ethernet() {
        assert_eq!(crc32fast::hash(b"123456789"), 0xCBF4_3926);
    }

    proptest! {
        #[test]
        fn one_changed_character_is_noticed(at in any::<prop::sample::Index>(), with in "[A-Za-z0-9_-]") {
            let text = line().to_string();
            let at = PREFIX.len() + at.index(text.len() - PREFIX.len());
            let mut changed = text.clone();
            changed.replace_range(at..=at, &with);
            prop_assert!(changed == text || changed.parse::<JoinLine>().is_err());
        }

        /// Even with a valid checksum, no content causes a panic.
        #[test]
        fn any_content_is_answered(mut bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Some(first) = bytes.first_mut() { *first = VERSION; }
            bytes.extend_from_slice(&crc32fast::hash(&bytes).to_be_bytes());
            let _ = format!("{PREFIX}{}", Base64UrlUnpadded::encode_string(&bytes)).parse::<JoinLine>();
        }
    }
}
