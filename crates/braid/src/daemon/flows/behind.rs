//! Finds devices behind this host's NAT from the kernel's connection tracking.

use braid_inner::{FlowKey, Selector};
use braid_linux::netlink::{Tracked, tracked_connections};
use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

/// The device behind each flow.
pub struct Behind {
    /// This host's addresses in the tunnel.
    own: Vec<IpAddr>,
    /// The device's end of each flow; `None` for this host's own connections.
    known: HashMap<FlowKey, Option<(IpAddr, u16)>>,
    asked: Option<Instant>,
}

/// Minimum interval of reading all connections, tens of thousands on a large router (some 1 µs
/// each).
const ASKED_EACH: Duration = Duration::from_secs(5);
const AT_ONCE: Duration = Duration::from_millis(900);

impl Behind {
    /// Nobody is known yet.
    pub fn new(own: Vec<IpAddr>) -> Behind {
        Behind { own, known: HashMap::new(), asked: None }
    }

    /// Takes the current flows, and looks up the new ones periodically, or immediately with
    /// `at_once`.
    pub fn follow(&mut self, flows: impl Iterator<Item = FlowKey>, at_once: bool, now: Instant) {
        let own = &self.own;
        let is_own = |key: &FlowKey| matches!(key, FlowKey::Ip { src, .. } if own.contains(src));
        let flows: HashSet<FlowKey> = flows.filter(is_own).collect();
        self.known.retain(|key, _| flows.contains(key));
        let unknown = flows.iter().any(|key| !self.known.contains_key(key));
        let each = if at_once { AT_ONCE } else { ASKED_EACH };
        if !unknown || self.asked.is_some_and(|asked| now - asked < each) {
            return;
        }
        self.asked = Some(now);
        let mut found = HashMap::new();
        let asked = tracked_connections(|tracked| {
            if let Some((key, device)) = whose(&tracked, &self.own)
                && flows.contains(&key)
            {
                found.insert(key, device);
            }
        });
        if let Err(error) = asked {
            tracing::debug!(%error, "connections that the kernel keeps track of");
        }
        for key in flows {
            self.known.entry(key).or_insert_with(|| found.get(&key).copied());
        }
    }

    /// Whether the flow's initiator is known.
    pub fn is_known(&self, key: &FlowKey) -> bool {
        let shows = matches!(key, FlowKey::Ip { src, .. } if !self.own.contains(src));
        shows || self.known.contains_key(key)
    }

    /// Whether this host began the flow itself.
    pub fn is_own(&self, key: &FlowKey) -> bool {
        let own = matches!(key, FlowKey::Ip { src, .. } if self.own.contains(src));
        own && self.device(key).is_none()
    }

    /// The device behind a flow, if it is behind this host's NAT.
    pub fn device(&self, key: &FlowKey) -> Option<IpAddr> {
        self.known.get(key).copied().flatten().map(|(address, _)| address)
    }

    /// Its end of the flow.
    pub fn end(&self, key: &FlowKey) -> Option<SocketAddr> {
        let (address, port) = self.known.get(key).copied().flatten()?;
        matches!(key, FlowKey::Ip { selector: Selector::Ports { .. }, .. })
            .then(|| SocketAddr::new(address, port))
    }
}

/// The flow and its device for a tracked connection, if its sender is behind one of our addresses,
/// to which replies come.
fn whose(tracked: &Tracked, own: &[IpAddr]) -> Option<(FlowKey, (IpAddr, u16))> {
    const ICMP: [u8; 2] = [1, 58];
    let (original, reply) = (&tracked.original, &tracked.reply);
    if original.src == reply.dst || !own.contains(&reply.dst.0) {
        return None;
    }
    let selector = match tracked.protocol {
        protocol if ICMP.contains(&protocol) => Selector::Echo(reply.dst.1),
        6 | 17 | 33 | 132 | 136 => Selector::Ports { src: reply.dst.1, dst: reply.src.1 },
        _ => Selector::None,
    };
    let (src, dst) = (reply.dst.0, reply.src.0);
    let key = FlowKey::Ip { src, dst, protocol: tracked.protocol, selector };
    Some((key, original.src))
}

#[cfg(test)]
mod tests {
    use super::*;
    use braid_linux::netlink::Tuple;

    #[test]
    fn a_translated_connection_is_its_devices_and_the_hosts_own_is_nobodys() {
        let ip = |last| IpAddr::from([10, 99, 0, last]);
        let server = (IpAddr::from([203, 0, 113, 7]), 443);
        let device = (IpAddr::from([192, 168, 7, 20]), 5000);
        let of = |src, hidden: u16| Tracked {
            protocol: 6,
            original: Tuple { src, dst: server },
            reply: Tuple { src: server, dst: (ip(2), hidden) },
        };
        let key = FlowKey::Ip {
            src: ip(2),
            dst: server.0,
            protocol: 6,
            selector: Selector::Ports { src: 61_000, dst: 443 },
        };
        assert_eq!(whose(&of(device, 61_000), &[ip(2)]), Some((key, device)));
        assert_eq!(whose(&of((ip(2), 61_000), 61_000), &[ip(2)]), None);
        assert_eq!(whose(&of(device, 61_000), &[ip(3)]), None);
    }
}
