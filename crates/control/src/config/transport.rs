use super::keyword::keyword_enum;
use std::fmt;
use std::str::FromStr;

keyword_enum! {
    /// The transport of a path's datagrams.
    #[derive(Default, PartialOrd, Ord)]
    Transport {
        /// UDP to the concentrator's port.
        #[default]
        Udp = "udp",
        /// UDP to `peer.fallback_port`.
        UdpFallback = "udp-fallback",
        /// TLS over TCP to `peer.fallback_port`.
        Tls = "tls",
    }
}

keyword_enum! {
    /// `link.transport`: the allowed transports of a link's datagrams.
    TransportChoice {
        /// UDP; while that doesn't pass, whichever transport does.
        Auto = "auto",
        /// UDP only.
        Udp = "udp",
        /// TLS over TCP only.
        Tls = "tls",
    }
}

/// An HTTP proxy: `http://[USER:PASSWORD@]HOST:PORT`.
#[derive(Clone, PartialEq, Eq)]
pub struct Proxy {
    /// Its name or address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// `USER:PASSWORD`.
    pub credentials: Option<String>,
}

/// A text that isn't a proxy's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a proxy is written as \"http://proxy.example.org:3128\" or \"http://USER:PASSWORD@192.0.2.1:3128\""
)]
pub struct ProxyError;

impl FromStr for Proxy {
    type Err = ProxyError;

    fn from_str(text: &str) -> Result<Self, ProxyError> {
        let rest = text.strip_prefix("http://").ok_or(ProxyError)?;
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (credentials, place) = match rest.rsplit_once('@') {
            Some((credentials, place)) => (Some(credentials.to_owned()), place),
            None => (None, rest),
        };
        let (host, port) = place.rsplit_once(':').ok_or(ProxyError)?;
        let host = host.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(host);
        let plain = |c: char| c.is_ascii_alphanumeric() || "-._:%".contains(c);
        let port: u16 = port.parse().map_err(|_| ProxyError)?;
        if host.is_empty() || !host.chars().all(plain) || port == 0 {
            return Err(ProxyError);
        }
        let is_pair = |it: &String| it.contains(':') && !it.contains(char::is_control);
        match credentials.as_ref().is_none_or(is_pair) {
            true => Ok(Proxy { host: host.to_owned(), port, credentials }),
            false => Err(ProxyError),
        }
    }
}

/// Omits the credentials.
impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}:{}", self.host, self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_is_read_and_its_password_not_shown() {
        let proxy: Proxy = "http://me:it@proxy.example:80/".parse().unwrap();
        assert_eq!((proxy.host.as_str(), proxy.port), ("proxy.example", 80));
        assert_eq!(proxy.credentials.as_deref(), Some("me:it"));
        assert_eq!(format!("{proxy:?}"), "http://proxy.example:80");
        let v6: Proxy = "http://[2001:db8::1]:80".parse().unwrap();
        assert_eq!(v6.host, "2001:db8::1");
        for wrong in
            ["https://a:1", "http://a", "http://:1", "http://a:0", "http://x@a:1", "http://a b:1"]
        {
            assert_eq!(wrong.parse::<Proxy>(), Err(ProxyError), "{wrong}");
        }
    }
}
