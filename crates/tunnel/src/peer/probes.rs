//! Probes ask whether paths work and which datagrams they take.

use super::datagram::Datagram;
use super::{Peer, Transmit};
use braid_units::Time;
use braid_wire::{HEADER_LEN, TAG_LEN};

impl Peer {
    /// Liveness and MTU probes, and news of the paths' wishes.
    pub(super) fn poll_probe(&mut self, now: Time, out: &mut Vec<u8>) -> Option<Transmit> {
        let idle = self.idle_probe(now);
        if std::mem::take(&mut self.confirm) {
            let index = self.paths.iter().position(|p| p.liveness.is_up()).unwrap_or(0);
            if index < self.paths.len() {
                let mut datagram = Datagram::begin(index, self.paths[index].room(), out);
                self.write_ping(&mut datagram, out);
                return self.send_single(datagram, false, now, out);
            }
        }
        for index in 0..self.paths.len() {
            if self.ask_at(&self.paths[index]).is_some_and(|at| at <= now) {
                let path = &mut self.paths[index];
                path.hearing.on_asked();
                let mut datagram = Datagram::begin(index, path.room(), out);
                self.write_ping(&mut datagram, out);
                return self.send_single(datagram, false, now, out);
            }
            let path = &mut self.paths[index];
            let due = path.probe_at(idle).is_some_and(|at| at <= now);
            let tell =
                path.liveness.is_up() && path.wish_untold && !self.config.endpoints.is_empty();
            if due || tell {
                path.liveness.on_probe(now);
                // While the path is silent its wish can't have arrived.
                path.wish_untold |= !path.liveness.is_up();
                let mut datagram = Datagram::begin(index, path.room(), out);
                self.write_ping(&mut datagram, out);
                self.write_control(&mut datagram, out);
                return self.send_single(datagram, false, now, out);
            }
            if path.liveness.is_up()
                && let Some(size) = path.mtu.poll_probe(now)
            {
                let room = usize::from(size).saturating_sub(HEADER_LEN + TAG_LEN);
                let mut datagram = Datagram::begin(index, room, out);
                self.write_ping(&mut datagram, out);
                out.resize(datagram.start + HEADER_LEN + room, 0);
                datagram.mtu_probe = true;
                return self.send_single(datagram, false, now, out);
            }
        }
        None
    }
}
