//! A registry whose records others can read on the way.

use braid_control::config::{Endpoint, Host, Registry};
use std::net::UdpSocket;

/// That this registry is such a one, if it is. What goes to this host itself nobody else sees.
pub fn overheard(registry: &Registry) -> Option<String> {
    let others: Vec<&str> = registry.plain_members().filter(|member| !is_here(member)).collect();
    let first = others.first()?;
    Some(format!(
        "without TLS the fleet's records, with homes' keys, go to {first} for everybody on the way \
         to read and change: etcds://… with the PEM file of who signed etcd's certificates keeps \
         them"
    ))
}

fn is_here(member: &str) -> bool {
    match member.parse().map(|endpoint: Endpoint| endpoint.host) {
        // The addresses that can be bound are this host's.
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
