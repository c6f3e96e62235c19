//! What a tunnel has to give, until it's fetched.

use super::event::{Event, Events};
use crate::path::Origin;
use crate::peer::Transmit;
use crate::worker::Handover;
use braid_inner::InnerPacket;
use std::collections::VecDeque;

/// All of it but peers' data datagrams, which are made when they are fetched.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    messages: VecDeque<(Transmit, Vec<u8>)>,
    packets: VecDeque<InnerPacket>,
    /// For workers of these numbers.
    handovers: VecDeque<(u8, Handover)>,
    events: Events,
}

impl Outbox {
    /// A message of a handshake, or a goodbye.
    pub fn send(&mut self, transmit: Transmit, message: Vec<u8>) {
        self.messages.push_back((transmit, message));
    }

    /// An answer to what came from there.
    pub fn send_back(&mut self, to: Origin, message: Vec<u8>) {
        let Origin { link, remote, local } = to;
        self.send(Transmit { link, remote, local, segment: message.len() }, message);
    }

    /// A packet for our device.
    pub fn deliver(&mut self, packet: InnerPacket) {
        self.packets.push_back(packet);
    }

    /// Something for another worker.
    pub fn hand_over(&mut self, worker: u8, handover: Handover) {
        self.handovers.push_back((worker, handover));
    }

    /// Something worth a line in the log.
    pub fn tell(&mut self, event: Event) {
        self.events.push(event);
    }

    /// Messages wait to be sent.
    pub fn has_messages(&self) -> bool {
        !self.messages.is_empty()
    }

    /// The next message, written into `out`, which is empty.
    pub fn next_message(&mut self, out: &mut Vec<u8>) -> Option<Transmit> {
        let (transmit, message) = self.messages.pop_front()?;
        out.extend_from_slice(&message);
        Some(transmit)
    }

    /// The next packet for our device.
    #[inline]
    pub fn next_packet(&mut self) -> Option<InnerPacket> {
        self.packets.pop_front()
    }

    /// The next thing for another worker, and its number.
    pub fn next_handover(&mut self) -> Option<(u8, Handover)> {
        self.handovers.pop_front()
    }

    /// The next event.
    pub fn next_event(&mut self) -> Option<Event> {
        self.events.pop()
    }
}

/// Packets for our device.
impl Extend<InnerPacket> for Outbox {
    #[inline]
    fn extend<T: IntoIterator<Item = InnerPacket>>(&mut self, packets: T) {
        packets.into_iter().for_each(|packet| self.deliver(packet));
    }
}
