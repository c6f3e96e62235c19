//! Connecting through an HTTP proxy (`CONNECT`, RFC 9110, section 9.3.6).

use base64ct::{Base64, Encoding};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// An answer's head, at the most.
const LONGEST_HEAD: usize = 8 << 10;

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

/// Without credentials.
impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl Proxy {
    /// Its address of this IP version.
    pub(crate) async fn address(&self, is_ipv4: bool) -> io::Result<SocketAddr> {
        let mut addresses = tokio::net::lookup_host((self.host.as_str(), self.port)).await?;
        let address = addresses.find(|address| address.is_ipv4() == is_ipv4);
        address.ok_or_else(|| io::Error::other("the proxy has no such address"))
    }

    /// Has it connect `stream`, which leads to it, to `to`.
    pub(crate) async fn ask(&self, stream: &mut TcpStream, to: SocketAddr) -> io::Result<()> {
        stream.write_all(self.request(to).as_bytes()).await?;
        let mut head = Vec::new();
        // A byte at a time: what follows the head is TLS's.
        while !head.ends_with(b"\r\n\r\n") {
            if head.len() == LONGEST_HEAD {
                return Err(io::ErrorKind::InvalidData.into());
            }
            head.push(stream.read_u8().await?);
        }
        match is_success(&head) {
            true => Ok(()),
            false => Err(io::Error::other("the proxy refuses")),
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
    fn only_success_is_success() {
        assert!(is_success(b"HTTP/1.1 200 Connection established\r\n\r\n"));
        assert!(is_success(b"HTTP/1.0 200 OK\r\n\r\n"));
        for not in [&b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n"[..], b"SSH-2.0-x", b""] {
            assert!(!is_success(not));
        }
    }
}
