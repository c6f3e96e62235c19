//! Connecting through an HTTP proxy (`CONNECT`, RFC 9110, section 9.3.6).

use base64ct::{Base64, Encoding};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Maximum length of an answer's head, bytes.
const LONGEST_HEAD: usize = 8 << 10;
/// Maximum characters of its answer that are shown.
const SHOWN: usize = 80;

/// An HTTP proxy.
#[derive(Clone, PartialEq, Eq)]
pub struct Proxy {
    /// Its name or address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// `USER:PASSWORD`.
    pub credentials: Option<String>,
}

/// Omits the credentials.
impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl Proxy {
    /// Its address in this IP version.
    pub(crate) async fn address(&self, is_ipv4: bool) -> io::Result<SocketAddr> {
        let mut addresses = tokio::net::lookup_host((self.host.as_str(), self.port)).await?;
        let address = addresses.find(|address| address.is_ipv4() == is_ipv4);
        address.ok_or_else(|| io::Error::other("has no address of this IP version"))
    }

    /// Asks it to connect `stream`, a connection to it, to `to`.
    pub(crate) async fn ask(&self, stream: &mut TcpStream, to: SocketAddr) -> io::Result<()> {
        stream.write_all(self.request(to).as_bytes()).await?;
        let mut head = Vec::new();
        // One byte at a time: what follows the head belongs to TLS.
        while !head.ends_with(b"\r\n\r\n") {
            if head.len() == LONGEST_HEAD {
                return Err(io::ErrorKind::InvalidData.into());
            }
            head.push(stream.read_u8().await?);
        }
        match is_success(&head) {
            true => Ok(()),
            false => Err(io::Error::other(format!("refuses: {}", status_of(&head)))),
        }
    }

    fn request(&self, to: SocketAddr) -> String {
        let authorization = match &self.credentials {
            Some(pair) => {
                format!("Proxy-Authorization: Basic {}\r\n", Base64::encode_string(pair.as_bytes()))
            }
            None => String::new(),
        };
        format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n{authorization}\r\n")
    }
}

/// Any 2xx (RFC 9110, section 9.3.6).
fn is_success(head: &[u8]) -> bool {
    let status = head.strip_prefix(b"HTTP/1.1 ").or_else(|| head.strip_prefix(b"HTTP/1.0 "));
    status.is_some_and(|status| status.first() == Some(&b'2'))
}

/// Its status line, printable characters only.
fn status_of(head: &[u8]) -> String {
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let status = line.split_once(' ').map_or("no HTTP", |(_, status)| status);
    status.chars().filter(|c| !c.is_control()).take(SHOWN).collect()
}

/// What is wrong with a link's proxy, for the link's status.
#[derive(Clone, Debug, Default)]
pub struct ProxyTrouble(Arc<Mutex<Option<String>>>);

impl ProxyTrouble {
    /// The latest problem in words, if any.
    pub fn latest(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn note(&self, trouble: Option<String>) {
        let mut noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(text) = trouble.as_ref().filter(|_| *noted != trouble) {
            tracing::warn!("{text}");
        }
        *noted = trouble;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_asked_with_credentials_where_it_wants_some() {
        let to: SocketAddr = "203.0.113.1:443".parse().unwrap();
        let plain = Proxy { host: "10.0.0.1".into(), port: 3128, credentials: None };
        assert_eq!(
            plain.request(to),
            "CONNECT 203.0.113.1:443 HTTP/1.1\r\nHost: 203.0.113.1:443\r\n\r\n"
        );
        let with = Proxy { credentials: Some("me:it".into()), ..plain };
        assert!(with.request(to).contains("\r\nProxy-Authorization: Basic bWU6aXQ=\r\n"));
        assert_eq!(format!("{with:?}"), "10.0.0.1:3128", "no log tells them");
    }

    #[test]
    fn what_it_says_is_shown() {
        let head = b"HTTP/1.1 407 Proxy Authentication\x1b[2J Required\r\nX: y\r\n\r\n";
        assert_eq!(status_of(head), "407 Proxy Authentication[2J Required");
        assert_eq!(status_of(b"220\r\n\r\n"), "no HTTP");
        assert_eq!(status_of(&[b'x', b' ', 0xff]), "\u{fffd}");
    }

    #[test]
    fn only_success_is_success() {
        assert!(is_success(b"HTTP/1.1 200 Connection established\r\n\r\n"));
        assert!(is_success(b"HTTP/1.0 200 OK\r\n\r\n"));
        for not in [&b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n"[..], b"SSH-2.0-x", b""] {
            assert!(!is_success(not));
        }
    }
}
