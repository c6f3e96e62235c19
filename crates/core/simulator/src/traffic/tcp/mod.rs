//! TCP at the granularity of segments: window, acknowledgement clock,
//! selective acknowledgements, fast recovery and timeouts. What acknowledgements
//! say travels beside the packets, looked up by their number.

mod ack_info;
mod bbr;
mod control;
mod prr;
mod rate_sample;
mod receiver;
mod sender;
mod window;
mod windowed_max;

use super::{Measured, Outbox};
use crate::packet::MSS;
use braid_units::Time;
use receiver::{Acknowledgement, Receiver};
use sender::Sender;
pub use window::Congestion;

/// A connection: its sender at one end, its receiver at the other.
#[derive(Debug)]
pub(super) struct Tcp {
    sender: Sender,
    receiver: Receiver,
    /// What each acknowledgement sent says.
    said: Vec<Acknowledgement>,
    super_packets: bool,
    started_at: Time,
}

impl Tcp {
    pub fn new(congestion: Congestion, super_packets: bool, start: Time) -> Self {
        Self {
            sender: Sender::new(congestion),
            receiver: Receiver::default(),
            said: Vec::new(),
            super_packets,
            started_at: start,
        }
    }

    pub fn next_deadline(&self, now: Time, stop: Time) -> Option<Time> {
        let sending = self.sender.next_deadline(now, stop).map(|at| at.max(self.started_at));
        [sending, self.receiver.ack_at()].into_iter().flatten().min()
    }

    pub fn poll(&mut self, now: Time, stopped: bool, outbox: &mut Outbox<'_>, m: &mut Measured) {
        if self.receiver.ack_at().is_some_and(|at| at <= now) {
            let said = self.receiver.acknowledge();
            outbox.tcp_ack(self.said.len() as u32, said.next, !said.ranges.is_empty());
            self.said.push(said);
        }
        if now < self.started_at {
            return;
        }
        self.sender.on_timer(now, m);
        while let Some((first, count)) = self.sender.next_burst(now, stopped, m) {
            if self.super_packets {
                outbox.tcp_data(first, &vec![MSS; count], now);
            } else {
                for place in first..first + count as u32 {
                    outbox.tcp_data(place, &[MSS], now);
                }
            }
        }
    }

    /// A packet came out: data at the receiver, sent at `stamp` milliseconds, or an
    /// acknowledgement at the sender.
    pub fn on_packet(
        &mut self,
        data: bool,
        notes: &[u32],
        stamp: u32,
        now: Time,
        m: &mut Measured,
    ) {
        if data {
            let fresh = self.receiver.on_data(notes, Time::from_millis(stamp.into()), now);
            if fresh > 0 {
                m.got(fresh * MSS as u64, now);
            }
            return;
        }
        for &note in notes {
            if let Some(said) = self.said.get(note as usize) {
                self.sender.on_ack(said, now, m);
            }
        }
    }
}
