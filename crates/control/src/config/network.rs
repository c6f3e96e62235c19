use ipnet::IpNet;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

/// A network: an address prefix whose host bits are zero. A plain address is
/// that host alone, as in WireGuard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Prefix(IpNet);

/// A prefix that can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PrefixError {
    /// Not an address with a prefix length.
    #[error("{0:?} is not a network; write it as \"10.77.0.0/24\" or \"fd77::/64\"")]
    Syntax(String),
    /// Bits are set after the prefix.
    #[error(
        "{net} has bits set after its prefix; write {network} for the network or {host} for the one host"
    )]
    HostBits {
        /// As written.
        net: IpNet,
        /// With those bits cleared.
        network: IpNet,
        /// Only that host.
        host: IpNet,
    },
}

impl Prefix {
    /// All of IPv4.
    pub const ALL_V4: Prefix =
        Prefix(IpNet::V4(ipnet::Ipv4Net::new_assert(Ipv4Addr::UNSPECIFIED, 0)));
    /// All of IPv6.
    pub const ALL_V6: Prefix =
        Prefix(IpNet::V6(ipnet::Ipv6Net::new_assert(Ipv6Addr::UNSPECIFIED, 0)));

    /// One host.
    pub fn host(address: IpAddr) -> Prefix {
        Prefix(IpNet::from(address))
    }

    /// The network.
    pub fn net(self) -> IpNet {
        self.0
    }

    /// Whether `address` is inside.
    pub fn contains(self, address: IpAddr) -> bool {
        self.0.contains(&address)
    }
}

impl FromStr for Prefix {
    type Err = PrefixError;
    fn from_str(text: &str) -> Result<Self, PrefixError> {
        let net: IpNet = text
            .parse()
            .or_else(|_| text.parse::<IpAddr>().map(IpNet::from))
            .map_err(|_| PrefixError::Syntax(text.to_owned()))?;
        if net.trunc() != net {
            let host = IpNet::from(net.addr());
            return Err(PrefixError::HostBits { net, network: net.trunc(), host });
        }
        Ok(Prefix(net))
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An address of our device with the prefix of its network. A plain address is
/// alone in its network, as in WireGuard.
pub(super) fn device_address(text: &str) -> Result<IpNet, String> {
    let net: IpNet =
        text.parse().or_else(|_| text.parse::<IpAddr>().map(IpNet::from)).map_err(|_| {
            format!("{text:?} is not an address; write it as \"10.77.0.2/24\" or \"fd77::2/64\"")
        })?;
    let address = net.addr();
    if address.is_multicast() || address.is_unspecified() || address.is_loopback() {
        return Err(format!("a device can't have the address {address}; use one of its own"));
    }
    Ok(net)
}

/// A host's address.
pub(super) fn host_address(text: &str) -> Result<IpAddr, String> {
    text.parse().map_err(|_| {
        format!("{text:?} is not an address; write it as \"192.0.2.7\" or \"2001:db8::7\"")
    })
}

/// A host's address with a port.
pub(super) fn socket_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        format!(
            "{text:?} is not an address with a port; write it as \"192.0.2.7:51900\" or \"[2001:db8::7]:51900\""
        )
    })
}

/// Where a peer can be reached: a host name or address, and a UDP port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint {
    /// The host.
    pub host: Host,
    /// The UDP port.
    pub port: u16,
}

/// A host by name or address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Host {
    /// Known without asking.
    Address(IpAddr),
    /// Resolved by DNS repeatedly.
    Name(String),
}

/// An endpoint that can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not an endpoint{why}; write it as \"vpn.example.org:51900\", \"203.0.113.1:51900\" or \"[2001:db8::1]:51900\""
)]
pub struct EndpointError {
    text: String,
    why: &'static str,
}

impl Endpoint {
    /// The socket address, if no look-up is needed.
    pub fn address(&self) -> Option<SocketAddr> {
        match self.host {
            Host::Address(address) => Some(SocketAddr::new(address, self.port)),
            Host::Name(_) => None,
        }
    }
}

impl From<SocketAddr> for Endpoint {
    fn from(address: SocketAddr) -> Self {
        Endpoint { host: Host::Address(address.ip()), port: address.port() }
    }
}

impl FromStr for Endpoint {
    type Err = EndpointError;
    fn from_str(text: &str) -> Result<Self, EndpointError> {
        let error = |why| EndpointError { text: text.chars().take(80).collect(), why };
        if let Ok(address) = text.parse::<SocketAddr>() {
            return match address {
                a if a.port() == 0 => Err(error(" (port 0)")),
                a if a.ip().is_unspecified() => Err(error(" (no host has this address)")),
                a => Ok(Endpoint::from(a)),
            };
        }
        let (host, port) = text.rsplit_once(':').ok_or_else(|| error(" (no port)"))?;
        let port = match port.parse::<u16>() {
            Ok(port) if port > 0 => port,
            _ => return Err(error(" (the port is not 1 to 65535)")),
        };
        if !is_host_name(host) {
            return Err(error(" (not a host name)"));
        }
        Ok(Endpoint { host: Host::Name(host.to_ascii_lowercase()), port })
    }
}

/// RFC 1123, section 2.1: labels of letters, digits and inner hyphens. A name
/// whose last label is all digits would be a mistyped IPv4 address.
fn is_host_name(host: &str) -> bool {
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
    };
    let numeric = |label: &str| label.chars().all(|c| c.is_ascii_digit());
    let host = host.strip_suffix('.').unwrap_or(host);
    host.len() <= 253 && host.split('.').all(label) && !host.rsplit('.').next().is_some_and(numeric)
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Address(address) => SocketAddr::new(*address, self.port).fmt(f),
            Host::Name(name) => write!(f, "{name}:{}", self.port),
        }
    }
}
