//! What comes to one worker and is another's.

use super::Tunnel;
use super::forward::destination;
use crate::path::Origin;
use crate::worker::Handover;
use braid_handshake::HandshakeMessage;
use braid_inner::InnerPacket;
use braid_units::Time;
use braid_wire::DatagramKind;

impl Tunnel {
    /// The next thing for another worker, and its number. To be fetched as
    /// [`Self::poll_transmit`] is.
    pub fn poll_handover(&mut self) -> Option<(u8, Handover)> {
        self.outbox.next_handover()
    }

    /// Takes what another worker has handed over. What isn't ours either, since a peer has gone
    /// meanwhile, goes no further.
    pub fn handle_handover(&mut self, now: Time, handover: Handover) {
        match handover {
            Handover::Packet(packet) => self.take_packet(packet, now),
            Handover::Datagram { link, remote, local, mut bytes } => {
                self.take_datagram(Origin { link, remote, local }, &mut bytes, now);
                self.recycle(bytes);
            }
        }
    }

    fn take_packet(&mut self, packet: InnerPacket, now: Time) {
        let peer = destination(&packet.bytes).and_then(|ip| self.allowed.lookup(ip)).copied();
        match peer.map(|owner| self.serving.server_of(owner)) {
            Some(peer) if peer.worker() == self.config.worker.number() => {
                self.admit(peer, packet, now);
            }
            _ => {
                self.counters.unroutable += 1;
                self.recycle(packet.bytes);
            }
        }
    }

    fn take_datagram(&mut self, from: Origin, bytes: &mut [u8], now: Time) {
        match DatagramKind::of(bytes) {
            Some(DatagramKind::Data) => self.on_data(from, bytes, now),
            Some(_) => match HandshakeMessage::classify(bytes) {
                Ok(HandshakeMessage::Initiation) if !self.config.worker.is_first() => {
                    if self.on_admitted_initiation(from, bytes, now).is_none() {
                        self.counters.refused_handshakes += 1;
                    }
                }
                _ => self.on_handshake_message(from, bytes, now),
            },
            None => self.counters.strange += 1,
        }
    }

    /// A datagram of no session of ours.
    pub(super) fn hand_over_or_count(&mut self, index: u32, from: Origin, datagram: &[u8]) {
        let worker = self.config.worker;
        if worker.has_session(index) {
            self.counters.strange += 1;
        } else {
            self.hand_over_datagram(worker.of_session(index), from, datagram);
        }
    }

    pub(super) fn hand_over_datagram(&mut self, worker: u8, from: Origin, datagram: &[u8]) {
        let mut bytes = self.buffers.take(datagram.len());
        bytes.extend_from_slice(datagram);
        let Origin { link, remote, local } = from;
        self.hand_over(worker, Handover::Datagram { link, remote, local, bytes });
    }

    pub(super) fn hand_over(&mut self, worker: u8, handover: Handover) {
        if worker != self.config.worker.number() {
            self.outbox.hand_over(worker, handover);
            return;
        }
        // Of a peer that has gone.
        self.counters.unroutable += 1;
        match handover {
            Handover::Packet(packet) => self.recycle(packet.bytes),
            Handover::Datagram { bytes, .. } => self.recycle(bytes),
        }
    }
}
