//! What is on its way by a path.

use crate::outgoing::PacketKey;
use braid_units::Time;
use braid_wire::Abandoned;
use std::collections::VecDeque;
use std::time::Duration;

/// A lost packet is remembered this long, to notice that it was only late. Ours.
const REMEMBER_LOST: Duration = Duration::from_secs(2);

/// Something in a datagram that must reach the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SentFrame {
    /// Bytes of an inner packet.
    Chunk {
        /// The packet.
        key: PacketKey,
        /// The first byte.
        offset: u32,
        /// How many.
        len: u32,
    },
    /// Packets given up.
    Abandoned(Abandoned),
    /// The policy of a path.
    PathStatus {
        /// The path.
        path: u8,
    },
    /// What the peer is to know.
    Announcement(Announcement),
    /// How a flow is to be treated.
    Treatment {
        /// The hash of its key.
        flow: u64,
    },
}

/// Of what the peer is told until that has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Announcement {
    /// The tunnel's mode.
    Mode,
    /// Who serves.
    Service,
    /// Who else could.
    Referrals,
    /// At what rate the peer may send.
    Limit,
    /// The sender of this flow paces.
    Paced(u16),
    /// The context of this flow that has this number.
    Context(u16, u8),
    /// The peer's context of this flow, and of this number, is known.
    ContextKnown(u16, u8),
}

/// Where a datagram is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Not known yet.
    InFlight,
    /// The peer has it.
    Acked,
    /// Taken for lost; its frames were handed back.
    Lost,
    /// Asks for no acknowledgement.
    Unwatched,
}

/// What is remembered of a datagram.
#[derive(Clone, Copy, Debug)]
pub struct SentPacket {
    /// When it was handed to the socket.
    pub sent_at: Time,
    /// UDP payload bytes.
    pub size: u16,
    /// Where it is.
    pub fate: Fate,
    /// A probe of this size for the path's MTU: its loss says nothing of
    /// congestion.
    pub mtu_probe: bool,
    /// Its frames were sent again by another path although it isn't lost.
    pub reinjected: bool,
    /// Bytes delivered by the path when it was sent (draft-cheng-iccrg-
    /// delivery-rate-estimation).
    pub delivered: u64,
    /// There was less to send than the path could take.
    pub app_limited: bool,
    /// The number of its first frame; as all frames' numbers it wraps around.
    first_frame: u32,
    /// How many frames it has.
    frames: u16,
}

/// A path's packets between the oldest that isn't settled and the newest.
#[derive(Debug, Default)]
pub struct SentPackets {
    first: u64,
    packets: VecDeque<SentPacket>,
    frames_first: u32,
    frames: VecDeque<SentFrame>,
    in_flight_bytes: u64,
    in_flight: usize,
    /// No packet before this one is in flight.
    oldest_hint: u64,
    /// All before this one were sent again by another path, as far as needed.
    reinjected_below: u64,
}

impl SentPackets {
    /// None yet; the first will have this number.
    pub fn starting_at(first: u64) -> Self {
        Self { first, oldest_hint: first, ..Self::default() }
    }

    /// The number that the next packet gets.
    pub fn next_number(&self) -> u64 {
        self.first + self.packets.len() as u64
    }

    /// Notes a frame of the datagram being written.
    pub fn push_frame(&mut self, frame: SentFrame) {
        self.frames.push_back(frame);
    }

    /// Takes back the last `count` frames: their datagram isn't sent.
    pub fn pop_frames(&mut self, count: u16) {
        self.frames.truncate(self.frames.len() - usize::from(count));
    }

    /// Notes the datagram with the last `frames` frames pushed.
    pub fn push(&mut self, mut packet: SentPacket, frames: u16) {
        let before = self.frames.len() as u32 - u32::from(frames);
        packet.first_frame = self.frames_first.wrapping_add(before);
        packet.frames = frames;
        if packet.fate == Fate::InFlight {
            self.in_flight_bytes += u64::from(packet.size);
            self.in_flight += 1;
        }
        self.packets.push_back(packet);
    }

    /// The packet of this number, if it's still remembered.
    pub fn get(&self, number: u64) -> Option<&SentPacket> {
        self.packets.get(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }

    /// As [`Self::get`].
    pub fn get_mut(&mut self, number: u64) -> Option<&mut SentPacket> {
        self.packets.get_mut(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }

    /// The frames of a packet.
    pub fn frames(&self, packet: &SentPacket) -> impl Iterator<Item = SentFrame> + '_ {
        let start = packet.first_frame.wrapping_sub(self.frames_first) as usize;
        let end = (start + usize::from(packet.frames)).min(self.frames.len());
        self.frames.range(start.min(end)..end).copied()
    }

    /// Changes where a packet is, keeping the sums.
    pub fn settle(&mut self, number: u64, fate: Fate) {
        let Some(packet) = self.get_mut(number) else { return };
        let (before, size) = (packet.fate, u64::from(packet.size));
        packet.fate = fate;
        if before == Fate::InFlight && fate != Fate::InFlight {
            self.in_flight_bytes -= size;
            self.in_flight -= 1;
            while self.oldest_hint < self.next_number()
                && self.get(self.oldest_hint).is_none_or(|p| p.fate != Fate::InFlight)
            {
                self.oldest_hint += 1;
            }
        }
    }

    /// Forgets settled packets at the front.
    pub fn forget_settled(&mut self, now: Time) {
        while let Some(front) = self.packets.front() {
            let settled = match front.fate {
                Fate::InFlight => false,
                Fate::Acked | Fate::Unwatched => true,
                Fate::Lost => now - front.sent_at > REMEMBER_LOST,
            };
            if !settled {
                break;
            }
            let frames = front.frames;
            for _ in 0..frames {
                self.frames.pop_front();
            }
            self.frames_first = self.frames_first.wrapping_add(u32::from(frames));
            self.first += 1;
            self.packets.pop_front();
        }
    }

    /// Gives back the memory that isn't in use.
    pub fn rest(&mut self) {
        self.packets.shrink_to_fit();
        self.frames.shrink_to_fit();
    }

    /// No frame of any packet is remembered.
    pub fn has_no_frames(&self) -> bool {
        self.frames.is_empty()
    }

    /// Bytes whose fate isn't known.
    pub fn in_flight_bytes(&self) -> u64 {
        self.in_flight_bytes
    }

    /// Whether any packet's fate isn't known.
    pub fn any_in_flight(&self) -> bool {
        self.in_flight > 0
    }

    /// The numbers remembered.
    pub fn numbers(&self) -> std::ops::Range<u64> {
        self.first..self.next_number()
    }

    /// The oldest packet in flight.
    pub fn oldest_in_flight(&self) -> Option<(u64, &SentPacket)> {
        self.in_flight().next()
    }

    /// The oldest packet in flight that isn't a probe for the MTU, whose loss
    /// would say nothing of the path.
    pub fn oldest_watched(&self) -> Option<(u64, &SentPacket)> {
        self.in_flight().find(|(_, p)| !p.mtu_probe)
    }

    /// The oldest of these that wasn't sent again by another path.
    pub fn oldest_sent_once(&self) -> Option<(u64, &SentPacket)> {
        let from = self.oldest_hint.max(self.first).max(self.reinjected_below);
        (from..self.next_number())
            .filter_map(|n| Some((n, self.get(n)?)))
            .find(|(_, p)| p.fate == Fate::InFlight && !p.mtu_probe)
    }

    /// All up to this one were sent again by another path.
    pub fn note_reinjected(&mut self, number: u64) {
        self.reinjected_below = number + 1;
        if let Some(packet) = self.get_mut(number) {
            packet.reinjected = true;
        }
    }

    /// All that are in flight, oldest first, with their numbers.
    pub fn in_flight(&self) -> impl Iterator<Item = (u64, &SentPacket)> {
        let from = if self.in_flight == 0 { self.next_number() } else { self.oldest_hint };
        (from.max(self.first)..self.next_number())
            .filter_map(|n| Some((n, self.get(n)?)))
            .filter(|(_, p)| p.fate == Fate::InFlight)
    }
}

impl SentPacket {
    /// A packet that just left.
    pub fn new(sent_at: Time, size: u16, fate: Fate) -> Self {
        Self {
            sent_at,
            size,
            fate,
            mtu_probe: false,
            reinjected: false,
            delivered: 0,
            app_limited: false,
            first_frame: 0,
            frames: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_packet_is_sent_again_once_and_those_that_arrived_are_not() {
        let mut sent = SentPackets::default();
        for ms in 0..4 {
            sent.push(SentPacket::new(Time::from_millis(ms), 1000, Fate::InFlight), 0);
        }
        let next = |sent: &SentPackets| sent.oldest_sent_once().map(|(number, _)| number);
        assert_eq!(next(&sent), Some(0));
        sent.note_reinjected(0);
        sent.settle(1, Fate::Acked);
        assert_eq!(next(&sent), Some(2));
        assert!(sent.oldest_watched().is_some_and(|(n, packet)| n == 0 && packet.reinjected));
        sent.note_reinjected(2);
        sent.settle(3, Fate::Lost);
        assert_eq!(next(&sent), None);
    }
}
