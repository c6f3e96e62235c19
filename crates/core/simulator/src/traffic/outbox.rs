use super::Lane;
use crate::ledger::Ledger;
use crate::packet::{Ends, ping, tcp_ack, tcp_data, udp};
use braid_inner::{InnerPacket, Layer};
use braid_units::Time;

/// Where a flow puts its packets; numbers and notes them.
pub(crate) struct Outbox<'a> {
    /// From the home's side.
    pub ends: Ends,
    /// The flow's direction.
    pub lane: Lane,
    pub layer: Layer,
    pub ledgers: &'a mut [Ledger; 2],
    pub out: &'a mut Vec<(Lane, InnerPacket)>,
}

impl Outbox<'_> {
    /// A UDP packet along the flow's direction.
    pub fn udp(&mut self, len: usize, note: u32) {
        let number = self.ledgers[self.lane.index()].send(len.max(8), note);
        let packet = udp(self.ends_along(self.lane), number, len, self.layer);
        self.out.push((self.lane, packet));
    }

    /// An echo request, or a reply back.
    pub fn ping(&mut self, reply: bool, note: u32) {
        let lane = if reply { self.lane.back() } else { self.lane };
        let number = self.ledgers[lane.index()].send(56, note);
        let packet = ping(self.ends_along(lane), number, reply, self.layer);
        self.out.push((lane, packet));
    }

    /// TCP data from the segment `first` of the stream on; each is noted with
    /// its place in the stream.
    pub fn tcp_data(&mut self, first: u32, lens: &[usize], now: Time) {
        let ledger = &mut self.ledgers[self.lane.index()];
        let number = ledger.next();
        // Linux ticks once a millisecond.
        let timestamp = (now.as_micros() / 1000) as u32;
        for (place, &len) in (first..).zip(lens) {
            ledger.send_stamped(len, place, timestamp);
        }
        let seq = first.wrapping_mul(lens.first().copied().unwrap_or(0) as u32);
        let ends = self.ends_along(self.lane);
        let packet = tcp_data(ends, number, seq, timestamp, lens, self.layer);
        self.out.push((self.lane, packet));
    }

    /// An acknowledgement of all segments before `next` back.
    pub fn tcp_ack(&mut self, note: u32, next: u32, holes: bool) {
        let lane = self.lane.back();
        let number = self.ledgers[lane.index()].send(0, note);
        let packet = tcp_ack(self.ends_along(lane), number, next, holes, self.layer);
        self.out.push((lane, packet));
    }

    fn ends_along(&self, lane: Lane) -> Ends {
        let Ends { src, dst, src_port, dst_port } = self.ends;
        match lane {
            Lane::Up => self.ends,
            Lane::Down => Ends { src: dst, dst: src, src_port: dst_port, dst_port: src_port },
        }
    }
}
