//! Challenges a home's connections after another concentrator has taken over. If each concentrator
//! has its own NAT, the connections are dead without notice, and a program waiting for data would
//! wait for ever. So the end at home is made to send its state: the server doesn't know a
//! connection from the new concentrator's address, and its reset ends it. If addresses move with
//! the home, the server knows the connection, and nothing happens.

use braid_inner::{End, InnerPacket, challenge};
use braid_linux::netlink::{Tracked, tracked_connections};
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

/// Challenges sent at once: the answers must fit in the device's queue of 500 packets.
const AT_ONCE: usize = 64;
/// Maximum challenges after a move, some seconds' worth.
const MOST: usize = 1 << 14;
const TCP: u8 = 6;

/// The connections still to be challenged.
#[derive(Default)]
pub struct Challenges {
    /// This host's addresses in the tunnel: connections through it have one of them, except those
    /// with a LAN's own public address.
    addresses: Vec<IpAddr>,
    waiting: VecDeque<Tracked>,
}

impl Challenges {
    /// For a host with these addresses in the tunnel.
    pub fn new(addresses: Vec<IpAddr>) -> Self {
        Self { addresses, waiting: VecDeque::new() }
    }

    /// Another concentrator serves.
    pub fn on_move(&mut self) {
        self.waiting.clear();
        let mut found = Vec::new();
        // Without connection tracking there is nothing to challenge.
        let read = tracked_connections(|it| {
            if it.protocol == TCP && found.len() < MOST {
                found.push(it);
            }
        });
        if let Err(error) = read {
            tracing::debug!(%error, "connections that are tracked");
        }
        self.waiting.extend(found);
    }

    /// Whether some are still to be sent.
    pub fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The next packets to deliver to the device.
    pub fn next(&mut self) -> Vec<InnerPacket> {
        let mut packets = Vec::new();
        while packets.len() < AT_ONCE
            && let Some(tracked) = self.waiting.pop_front()
        {
            packets.extend(self.of(&tracked));
        }
        packets
    }

    fn of(&self, tracked: &Tracked) -> Option<InnerPacket> {
        let is_ours = |address: &IpAddr| self.addresses.contains(address);
        // As it comes out of the tunnel: from the server of a connection begun here, or from the
        // client of one begun elsewhere.
        [(&tracked.reply, End::Called), (&tracked.original, End::Caller)]
            .into_iter()
            .find(|(tuple, _)| is_ours(&tuple.dst.0) && !is_ours(&tuple.src.0))
            .and_then(|(tuple, end)| {
                challenge(SocketAddr::from(tuple.src), SocketAddr::from(tuple.dst), end)
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use braid_inner::{Headers, Layer};
    use braid_linux::netlink::Tuple;

    fn tuple(src: &str, dst: &str) -> Tuple {
        let address = |text: &str| {
            let address: SocketAddr = text.parse().unwrap();
            (address.ip(), address.port())
        };
        Tuple { src: address(src), dst: address(dst) }
    }

    fn asked(original: Tuple, reply: Tuple) -> Option<(IpAddr, IpAddr, u8)> {
        let challenges = Challenges::new(vec!["10.77.0.2".parse().unwrap()]);
        let packet = challenges.of(&Tracked { protocol: TCP, original, reply })?;
        let ip = Headers::parse(&packet.bytes, Layer::L3).ip.unwrap();
        Some((ip.src, ip.dst, packet.bytes[ip.transport + 13]))
    }

    #[test]
    fn what_goes_through_the_tunnel_is_asked_as_if_by_the_other_end() {
        let (server, inner) = ("192.0.2.1".parse().unwrap(), "10.77.0.2".parse().unwrap());
        let translated = asked(
            tuple("192.168.50.10:4000", "192.0.2.1:443"),
            tuple("192.0.2.1:443", "10.77.0.2:4000"),
        );
        assert_eq!(translated, Some((server, inner, 0x12)));
        let forwarded = asked(
            tuple("192.0.2.1:4000", "10.77.0.2:443"),
            tuple("192.168.50.10:443", "192.0.2.1:4000"),
        );
        assert_eq!(forwarded, Some((server, inner, 0x02)));
        let elsewhere = asked(
            tuple("192.168.50.10:4000", "192.0.2.1:443"),
            tuple("192.0.2.1:443", "198.51.100.1:4000"),
        );
        assert_eq!(elsewhere, None);
        let own = asked(
            tuple("10.77.0.2:4000", "10.77.0.2:443"),
            tuple("10.77.0.2:443", "10.77.0.2:4000"),
        );
        assert_eq!(own, None);
    }
}
