//! Connections of a home that another concentrator serves now. Where each translates addresses to
//! its own, they have ended without anybody saying so: who waits for data would wait for ever. So
//! each end at home is made to say where it stands: the server knows nothing of a connection from
//! this concentrator, and its reset ends it. Where addresses move with the home the server has the
//! connection, and nothing happens.

use braid_inner::{End, InnerPacket, challenge};
use braid_linux::netlink::{Tracked, tracked_connections};
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

/// So many at once: the answers have room in the device's queue, which holds 500 packets.
const AT_ONCE: usize = 64;
/// The most that are asked after a move, some seconds' worth.
const MOST: usize = 1 << 14;
const TCP: u8 = 6;

/// What is still to be asked.
#[derive(Default)]
pub struct Challenges {
    /// This host's addresses in the tunnel: what goes through it, and isn't a LAN's own public
    /// address, has one of them.
    addresses: Vec<IpAddr>,
    waiting: VecDeque<Tracked>,
}

impl Challenges {
    /// Of a host with these addresses in the tunnel.
    pub fn new(addresses: Vec<IpAddr>) -> Self {
        Self { addresses, waiting: VecDeque::new() }
    }

    /// Another concentrator serves.
    pub fn on_move(&mut self) {
        self.waiting.clear();
        let mut found = Vec::new();
        // A kernel that keeps track of nothing has nothing to tell.
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

    /// The next that the device is to be given.
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
        // As it comes out of the tunnel: an answer to who called from here, or from who called.
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
