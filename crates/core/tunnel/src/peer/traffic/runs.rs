//! What follows each other and is alike is counted together: most of a batch is of one flow,
//! and most of a datagram by one path.

use super::Sending;
use braid_inner::{Class, FlowKey};
use braid_units::Time;

/// Packets of one flow and class in a row, for the peer.
#[derive(Clone, Copy, Debug)]
pub(super) struct AdmittedRun {
    pub place: u16,
    pub key: FlowKey,
    pub hash: u64,
    pub class: Class,
    pub bytes: u64,
    pub packets: u64,
    pub last: Time,
}

/// Bytes of what has one place in our queue, sent by one path for one reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SentRun {
    pub place: u16,
    pub path: u8,
    pub why: Sending,
    pub bytes: u64,
}

/// Bytes of what has one place in the peer's queue, that came by one path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ArrivedRun {
    pub place: u16,
    pub path: u8,
    pub bytes: u64,
}

/// Packets of what has one place in the peer's queue: which flow is theirs is looked at for each
/// at first, then for one of up to [`MOST_UNSEEN`] + 1, and what came between is taken to be of
/// the same. So a place that goes over to another flow has so many packets counted wrongly.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    /// The flow's number.
    pub slot: u16,
    /// Packets that may still go by unseen.
    left: u8,
    /// So many were let by at once last.
    step: u8,
    /// Packets and bytes that went by and aren't counted as the flow's yet.
    packets: u8,
    bytes: u32,
    /// The longest packet that was looked at: longer ones say more of what the flow is.
    longest: u32,
}

/// Of a place, after some that were looked at and were of one flow. What counting costs a
/// received packet of 64 bytes is halved by it: docs/measurements/speed.md.
pub(super) const MOST_UNSEEN: u8 = 7;

impl AdmittedRun {
    /// Takes one more in, if it is alike.
    #[inline]
    pub fn takes(&mut self, place: u16, hash: u64, class: Class, len: u64, now: Time) -> bool {
        if self.hash != hash || self.place != place || self.class != class {
            return false;
        }
        self.bytes += len;
        self.packets += 1;
        self.last = now;
        true
    }
}

impl SentRun {
    /// Takes more in, if it is alike.
    #[inline]
    pub fn takes(&mut self, place: u16, path: u8, bytes: u32, why: Sending) -> bool {
        if self.place != place || self.path != path || self.why != why {
            return false;
        }
        self.bytes += u64::from(bytes);
        true
    }
}

impl ArrivedRun {
    /// Takes more in, if it is alike.
    #[inline]
    pub fn takes(&mut self, place: u16, path: u8, bytes: usize) -> bool {
        if self.place != place || self.path != path {
            return false;
        }
        self.bytes += bytes as u64;
        true
    }
}

impl Taken {
    /// Of this flow, of which every packet is looked at.
    pub fn of(slot: u16) -> Self {
        Self { slot, left: 0, step: 0, packets: 0, bytes: 0, longest: 0 }
    }

    /// Lets one go by unseen, if it may.
    #[inline]
    pub fn lets_by(&mut self, len: usize) -> bool {
        if self.left == 0 || self.is_longer(len) {
            return false;
        }
        self.left -= 1;
        self.packets += 1;
        self.bytes += len as u32;
        true
    }

    /// One of this length was seen to be of the flow: fewer are looked at.
    pub fn confirm(&mut self, len: usize) {
        self.step = (2 * self.step + 1).min(MOST_UNSEEN);
        self.left = self.step;
        self.see(len);
    }

    /// One of this length was looked at.
    pub fn see(&mut self, len: usize) {
        self.longest = self.longest.max(len as u32);
    }

    /// It is longer than all that were looked at.
    #[inline]
    pub fn is_longer(&self, len: usize) -> bool {
        len > self.longest as usize
    }

    /// Bytes and packets that went by, which are counted now.
    pub fn settle(&mut self) -> (u64, u64) {
        let went_by = (u64::from(self.bytes), u64::from(self.packets));
        (self.bytes, self.packets) = (0, 0);
        went_by
    }

    /// Each of the next ones is looked at again.
    pub fn doubt(&mut self) {
        (self.left, self.step) = (0, 0);
    }
}
