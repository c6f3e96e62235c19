//! A registry whose records others can read on the way.

use braid_control::config::{Endpoint, Host, Registry};
use std::net::UdpSocket;

/// A warning if this registry is such a one. Traffic to this host itself can't be seen by others.
pub fn overheard(registry: &Registry) -> Option<String> {
    let others: Vec<&str> = registry.plain_members().filter(|member| !is_here(member)).collect();
    let first = others.first()?;
    Some(format!(
        "without TLS, everybody on the way to {first} can read and change the fleet's records, \
         including homes' keys: use etcds://… with the PEM file of the CA that signed etcd's \
         certificates"
    ))
}

fn is_here(member: &str) -> bool {
    match member.parse().map(|endpoint: Endpoint| endpoint.host) {
        // An address that can be bound belongs to this host.
        Ok(Host::Address(address)) => UdpSocket::bind((address, 0)).is_ok(),
        Ok(Host::Name(name)) => name == "localhost",
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn only_plain_ways_to_others_are_overheard() {
        let of = |text: &str| overheard(&Registry::parse(text, Path::new("/")).unwrap());
        for safe in [
            "sqlite:f.db",
            "etcds://192.0.2.1:2379/",
            "etcd://127.0.0.1:2379/",
            "etcd://localhost:2379,[::1]:2379/",
        ] {
            assert_eq!(of(safe), None, "{safe}");
        }
        for plain in ["etcd://192.0.2.1:2379/", "etcd://127.0.0.1:2379,etcd.example.org:2379/"] {
            assert!(of(plain).is_some(), "{plain}");
        }
    }
}
