//! Finds the server's name in the first message of a TLS connection.

use crate::reader::Reader;

/// What a client's first bytes contain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hello {
    /// More bytes are needed.
    Unfinished,
    /// It requests a server by this name, in lower case; only letters, digits, `-`, `_` and `.`.
    For(String),
    /// It names none, or isn't TLS.
    Nameless,
}

/// RFC 8446, section 5.1.
const HANDSHAKE_RECORD: u8 = 22;
/// RFC 8446, section 4.
const CLIENT_HELLO: u8 = 1;
/// RFC 6066, section 3.
const SERVER_NAME: u16 = 0;
const HOST_NAME: u8 = 0;
/// RFC 1035, section 2.3.4.
const LONGEST_NAME: usize = 253;
/// A client's first message is shorter: browsers' have 2 KB, with keys of post-quantum ciphers.
const LONGEST_HELLO: usize = 16 << 10;

/// Parses a TCP connection's first bytes.
pub fn of_records(stream: &[u8]) -> Hello {
    let mut records = Reader::new(stream);
    let mut handshake = Vec::new();
    while let Some(kind) = records.u8() {
        if kind != HANDSHAKE_RECORD {
            return Hello::Nameless;
        }
        let Some(version) = records.u8() else { break };
        if version != 3 {
            return Hello::Nameless;
        }
        let (Some(_), Some(length)) = (records.u8(), records.u16()) else { break };
        match records.take(length.into()) {
            Some(whole) => handshake.extend_from_slice(whole),
            None => {
                handshake.extend_from_slice(records.rest());
                break;
            }
        }
    }
    of_handshake(&handshake)
}

/// Parses the first bytes of the messages within records, or of QUIC's CRYPTO frames.
pub fn of_handshake(bytes: &[u8]) -> Hello {
    let mut message = Reader::new(bytes);
    match message.u8() {
        None => return Hello::Unfinished,
        Some(CLIENT_HELLO) => {}
        Some(_) => return Hello::Nameless,
    }
    let Some(length) = message.u24() else { return Hello::Unfinished };
    if length > LONGEST_HELLO {
        return Hello::Nameless;
    }
    // What follows is another message.
    let whole = message.take(length);
    match server_name(Reader::new(whole.unwrap_or(message.rest()))) {
        Some(found) => found,
        // It ends in the middle of something; more may follow.
        None if whole.is_none() => Hello::Unfinished,
        None => Hello::Nameless,
    }
}

/// `None` if the bytes end too early.
fn server_name(mut hello: Reader<'_>) -> Option<Hello> {
    // legacy_version, random.
    hello.take(2 + 32)?;
    let _session = hello.vector8()?;
    let _ciphers = hello.vector16()?;
    let _compressions = hello.vector8()?;
    let mut left = usize::from(hello.u16()?);
    while left > 0 {
        let kind = hello.u16()?;
        let length = hello.u16()?;
        let contents = hello.take(length.into())?;
        if kind == SERVER_NAME {
            return Some(host_name(Reader::new(contents)).unwrap_or(Hello::Nameless));
        }
        left = left.saturating_sub(4 + contents.len());
    }
    Some(Hello::Nameless)
}

fn host_name(mut extension: Reader<'_>) -> Option<Hello> {
    let mut names = Reader::new(extension.vector16()?);
    while !names.is_empty() {
        let kind = names.u8()?;
        let name = names.vector16()?;
        let plain = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
        if kind == HOST_NAME {
            let fits = (1..=LONGEST_NAME).contains(&name.len()) && name.iter().all(plain);
            let name = name.iter().map(|b| char::from(b.to_ascii_lowercase())).collect();
            return Some(if fits { Hello::For(name) } else { Hello::Nameless });
        }
    }
    None
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use rustls::ClientConfig;
    use rustls::pki_types::ServerName;
    use std::sync::Arc;

    pub(crate) fn client_config() -> Arc<ClientConfig> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider);
        let builder = builder.with_protocol_versions(&[&rustls::version::TLS13]).unwrap();
        let roots = rustls::RootCertStore::empty();
        Arc::new(builder.with_root_certificates(roots).with_no_client_auth())
    }

    /// What a client sends first by TCP.
    pub(crate) fn records(name: &str) -> Vec<u8> {
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let mut client = rustls::ClientConnection::new(client_config(), name).unwrap();
        let mut bytes = Vec::new();
        client.write_tls(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn a_clients_first_bytes_name_the_server() {
        let bytes = records("Www.Bank.example");
        assert_eq!(of_records(&bytes), Hello::For("www.bank.example".into()));
        for length in 0..bytes.len() {
            let found = of_records(&bytes[..length]);
            assert!(
                matches!(&found, Hello::Unfinished)
                    || found == Hello::For("www.bank.example".into()),
                "{length}: {found:?}"
            );
        }
        assert_eq!(of_records(&bytes[..12]), Hello::Unfinished);
    }

    #[test]
    fn a_message_may_come_in_several_records() {
        let bytes = records("bank.example");
        let (head, body) = bytes.split_at(5);
        let cut: Vec<u8> = body
            .chunks(60)
            .flat_map(|piece| [&head[..3], &(piece.len() as u16).to_be_bytes(), piece].concat())
            .collect();
        assert_eq!(of_records(&cut), Hello::For("bank.example".into()));
    }

    #[test]
    fn what_names_no_server_is_told() {
        assert_eq!(of_records(&records("192.0.2.1")), Hello::Nameless, "an address is no name");
        assert_eq!(of_records(b"GET / HTTP/1.1\r\n"), Hello::Nameless);
        assert_eq!(of_records(&[22, 2, 0, 0, 0]), Hello::Nameless);
        assert_eq!(of_records(&[]), Hello::Unfinished);
        assert_eq!(of_handshake(&[2, 0, 0, 1, 0]), Hello::Nameless, "a server's");
        assert_eq!(of_handshake(&[1, 0xff, 0, 0]), Hello::Nameless, "longer than any");
    }

    proptest::proptest! {
        #[test]
        fn anything_is_read(bytes: Vec<u8>) {
            of_records(&bytes);
            of_handshake(&bytes);
        }

        #[test]
        fn a_hello_with_any_byte_changed_is_read(at in 0_usize..200, byte: u8) {
            let mut bytes = records("bank.example");
            bytes[at] = byte;
            of_records(&bytes);
        }
    }
}
