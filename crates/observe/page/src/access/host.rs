//! Checks the host name in a browser's request: a page of somebody else whose name was made to
//! point here (DNS rebinding) still sends its own name.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The host that a `Host` header names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Host {
    /// This host: `localhost`, `127.0.0.1`, `[::1]`.
    Loopback,
    /// An address, or a name in the config.
    Known,
}

/// Reads a `Host` header; `None` if it may be somebody else's name. `names` are those in the
/// config, in lower case.
pub fn host(header: &str, names: &[String]) -> Option<Host> {
    let name = without_port(header)?.to_ascii_lowercase();
    if name == "localhost" {
        return Some(Host::Loopback);
    }
    // An address doesn't depend on anybody's DNS.
    let address = match name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(v6) => v6.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
        None => name.parse::<Ipv4Addr>().ok().map(IpAddr::V4),
    };
    match address {
        Some(address) if address.is_loopback() => Some(Host::Loopback),
        Some(_) => Some(Host::Known),
        None => names.contains(&name).then_some(Host::Known),
    }
}

fn without_port(header: &str) -> Option<&str> {
    let is_port = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if header.starts_with('[') {
        let end = header.find(']')? + 1;
        let rest = &header[end..];
        return (rest.is_empty() || rest.strip_prefix(':').is_some_and(is_port))
            .then_some(&header[..end]);
    }
    match header.split_once(':') {
        None => Some(header),
        Some((name, port)) => is_port(port).then_some(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_names_of_the_config_are_known_and_no_other_name() {
        let names = ["router.lan".to_owned()];
        let of = |header| host(header, &names);
        for header in ["localhost", "localhost:5190", "LOCALHOST:1", "127.0.0.1:5190", "[::1]:5190"]
        {
            assert_eq!(of(header), Some(Host::Loopback), "{header}");
        }
        for header in ["192.0.2.7:5190", "[2001:db8::7]", "router.lan", "Router.LAN:5190"] {
            assert_eq!(of(header), Some(Host::Known), "{header}");
        }
        for header in [
            "",
            ":",
            "evil.example",
            "evil.example:5190",
            "localhost.evil.example",
            "router.lan.",
            "127.0.0.1.evil.example",
            "127.0.0.1:",
            "127.0.0.1:5190:1",
            "localhost:5190@evil",
            "[::1",
            "[::1]x",
            "0x7f000001",
            "127.1",
            "2130706433",
            "user@localhost",
            "localhost/",
            "[localhost]",
        ] {
            assert_eq!(of(header), None, "{header:?}");
        }
    }
}
