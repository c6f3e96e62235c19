//! Which peer an inner packet is for, and whether it may come from there:
//! cryptokey routing for IP, a learning bridge for Ethernet.

use super::Tunnel;
use crate::exit::Delivered;
use crate::id::PeerId;
use crate::routing::{Forward, MacAddress};
use crate::worker::Handover;
use braid_inner::{Addresses, InnerPacket, Layer, check};
use braid_units::Time;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A port of the bridge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Port {
    /// Our TAP device.
    Local,
    /// A peer.
    Peer(PeerId),
}

impl Tunnel {
    /// From our device to a peer.
    pub(super) fn route_out(&mut self, packet: InnerPacket, now: Time) {
        match self.config.layer {
            Layer::L3 => {
                let peer = destination(&packet.bytes).and_then(|ip| self.allowed.lookup(ip));
                match peer.copied() {
                    Some(owner) => self.admit(self.serving.server_of(owner), packet, now),
                    None => {
                        self.counters.unroutable += 1;
                        self.recycle(packet.bytes);
                    }
                }
            }
            Layer::L2 => {
                let Some((to, from)) = MacAddress::of_frame(&packet.bytes) else {
                    self.counters.unroutable += 1;
                    return;
                };
                self.forwarding.learn(from, Port::Local, now);
                self.bridge(packet, to, Port::Local, now);
            }
        }
    }

    /// From a peer to our device (or to another peer of the bridge).
    pub(super) fn route_in(&mut self, id: PeerId, now: Time) {
        loop {
            let buffers = &mut self.buffers;
            let next = self.peers.get_mut(id).and_then(|e| e.peer.poll_inner(buffers, now));
            let Some(Delivered { flow, packet }) = next else { return };
            let layer = self.config.layer;
            let allowed = match check(&packet.bytes, packet.offload, layer) {
                Err(_) => false,
                Ok(checked) => match checked.addresses {
                    Addresses::Ip { src, .. } => {
                        self.allowed.lookup(src) == Some(&self.serving.owner_of(id))
                    }
                    Addresses::Ethernet { .. } => true,
                },
            };
            let isolated = allowed && layer == Layer::L3 && self.is_another_peers(&packet, id);
            let Some(entry) = self.peers.get_mut(id) else { return };
            if isolated {
                entry.peer.on_isolated();
                self.recycle(packet.bytes);
                continue;
            }
            if !allowed {
                entry.peer.on_inner_refused();
                self.recycle(packet.bytes);
                continue;
            }
            if !entry.peer.may_deliver(packet.bytes.len(), now) {
                entry.peer.on_over_limit();
                self.recycle(packet.bytes);
                continue;
            }
            entry.peer.on_delivered(flow, &packet.bytes, now);
            match (layer, MacAddress::of_frame(&packet.bytes)) {
                (Layer::L3, _) if self.holding.is_empty() => self.outbox.deliver(packet),
                (Layer::L3, _) => self.holding.pass(id, packet, &mut self.outbox),
                (Layer::L2, Some((to, from))) => {
                    self.forwarding.learn(from, Port::Peer(id), now);
                    self.bridge(packet, to, Port::Peer(id), now);
                }
                (Layer::L2, None) => {}
            }
        }
    }

    /// Whether an IP packet from this peer is for another one, and may not be.
    fn is_another_peers(&self, packet: &InnerPacket, from: PeerId) -> bool {
        self.config.isolate_peers
            && destination(&packet.bytes)
                .and_then(|to| self.allowed.lookup(to))
                .is_some_and(|peer| *peer != self.serving.owner_of(from))
    }

    fn bridge(&mut self, packet: InnerPacket, to: MacAddress, from: Port, now: Time) {
        // Between two peers, if they are kept apart: only to ourselves.
        let apart = matches!(from, Port::Peer(_)) && self.config.isolate_peers;
        match self.forwarding.forward(to, from, now) {
            Forward::Drop => self.recycle(packet.bytes),
            Forward::To(Port::Peer(_)) if apart => {
                if let Port::Peer(id) = from
                    && let Some(entry) = self.peers.get_mut(id)
                {
                    entry.peer.on_isolated();
                }
                self.recycle(packet.bytes);
            }
            Forward::To(port) => self.hand(port, packet, now),
            Forward::Flood if apart => self.hand(Port::Local, packet, now),
            Forward::Flood => {
                let ports: Vec<Port> = self
                    .peers
                    .ids()
                    .map(Port::Peer)
                    .chain([Port::Local])
                    .filter(|port| *port != from)
                    .collect();
                for port in ports {
                    self.hand(port, packet.clone(), now);
                }
            }
        }
    }

    fn hand(&mut self, port: Port, packet: InnerPacket, now: Time) {
        match port {
            Port::Local => self.outbox.deliver(packet),
            Port::Peer(id) => self.admit(id, packet, now),
        }
    }

    pub(super) fn admit(&mut self, id: PeerId, packet: InnerPacket, now: Time) {
        let Some(entry) = self.peers.get_mut(id) else {
            self.hand_over(id.worker(), Handover::Packet(packet));
            return;
        };
        entry.peer.admit(packet, &self.config.classes, now);
        entry.peer.give_back(&mut self.buffers);
        self.activate(id);
    }
}

/// Destination of an IP packet.
pub(super) fn destination(packet: &[u8]) -> Option<IpAddr> {
    match packet.first()? >> 4 {
        4 => {
            let octets: [u8; 4] = packet.get(16..20)?.try_into().ok()?;
            Some(Ipv4Addr::from(octets).into())
        }
        6 => {
            let octets: [u8; 16] = packet.get(24..40)?.try_into().ok()?;
            Some(Ipv6Addr::from(octets).into())
        }
        _ => None,
    }
}
