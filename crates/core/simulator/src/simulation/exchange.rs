//! What goes between the ends, their links and their devices.

use super::Simulation;
use crate::captured::Captured;
use crate::end::{CONCENTRATOR, CONCENTRATOR_LINK, Held, link_id};
use crate::end_id::EndId;
use crate::network::Datagram;
use crate::packet;
use crate::traffic::{Flow, Lane, flow_of};
use braid_inner::InnerPacket;
use braid_tunnel::Event;
use braid_units::Time;
use std::net::SocketAddr;

impl Simulation {
    pub(super) fn arrive(&mut self, id: EndId, link: usize, mut datagram: Datagram) {
        let now = self.now;
        let link = match id {
            EndId::Home(_) => link_id(link),
            EndId::Concentrator => CONCENTRATOR_LINK,
        };
        let end = self.end(id);
        if end.asleep_until > now || end.absent_until > now {
            return;
        }
        if end.stalled_until > now {
            end.held.push_back(Held::Datagram(link, datagram));
            return;
        }
        let local = end.local(now);
        end.tunnel.handle_datagram(local, link, datagram.from, None, &mut datagram.bytes);
        self.serve(id);
    }

    /// What came while the end stood still is taken, if it goes on.
    pub(super) fn release(&mut self, id: EndId) {
        let now = self.now;
        let end = self.end(id);
        if end.held.is_empty() || end.stalled_until > now {
            return;
        }
        let local = end.local(now);
        for held in std::mem::take(&mut end.held) {
            match held {
                Held::Packet(packet) => end.tunnel.handle_inner(local, packet),
                Held::Datagram(link, mut datagram) => {
                    let bytes = &mut datagram.bytes;
                    end.tunnel.handle_datagram(local, link, datagram.from, None, bytes);
                }
            }
        }
        self.serve(id);
    }

    /// Takes all that an end has to give.
    pub(super) fn serve(&mut self, id: EndId) {
        let now = self.now;
        let end = self.end(id);
        if end.asleep_until > now {
            end.timer = Some(end.asleep_until);
            return;
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        loop {
            let end = self.end(id);
            let local = end.local(now);
            let Some(transmit) = end.tunnel.poll_transmit(local, &mut buffer) else { break };
            if transmit.segment == 0 || buffer.is_empty() {
                self.violate(format!("{id:?} sends nothing: {transmit:?}"));
                break;
            }
            for part in buffer.chunks(transmit.segment) {
                self.transmit(id, transmit.link.0.into(), transmit.remote, part.to_vec());
            }
        }
        self.buffer = buffer;
        while let Some(packet) = self.end(id).tunnel.poll_inner() {
            self.deliver(id, &packet);
            self.end(id).tunnel.recycle(packet.bytes);
        }
        let end = self.end(id);
        let events: Vec<Event> = std::iter::from_fn(|| end.tunnel.poll_event()).collect();
        let due = end.tunnel.next_timeout().map(|at| end.truth(at));
        end.timer = due.map(|at| at.max(now));
        events.iter().for_each(|event| self.digest.on_event(now, id, event));
    }

    fn transmit(&mut self, from: EndId, link: usize, to: SocketAddr, bytes: Vec<u8>) {
        let now = self.now;
        self.digest.on_datagram(now, from, link, &bytes);
        let (index, lane) = match from {
            EndId::Home(home) => {
                let known = self.links.get(link).is_some_and(|l| l.spec.home == home);
                if !known || to != CONCENTRATOR {
                    return;
                }
                (link, Lane::Up)
            }
            EndId::Concentrator => match self.links.iter().position(|l| l.public == to) {
                Some(index) => (index, Lane::Down),
                None => {
                    self.strays.push(Datagram { from: CONCENTRATOR, to, bytes });
                    return;
                }
            },
        };
        let link = &mut self.links[index];
        if self.capture {
            let (from, to) = match lane {
                Lane::Up => (link.public, to),
                Lane::Down => (CONCENTRATOR, to),
            };
            let datagram = Datagram { from, to, bytes: bytes.clone() };
            self.captured.push(Captured { at: now - Time::ZERO, link: index, lane, datagram });
        }
        match lane {
            Lane::Up => link.send_up(now, to, bytes),
            Lane::Down => link.send_down(now, CONCENTRATOR, bytes),
        }
    }

    fn deliver(&mut self, id: EndId, packet: &InnerPacket) {
        let lane = if id == EndId::Concentrator { Lane::Up } else { Lane::Down };
        let segments = match packet::read(packet, self.scenario.layer) {
            Ok(segments) => segments,
            Err(_) if self.flows.is_empty() => {
                self.strangers.push((id, packet.clone()));
                return;
            }
            Err(wrong) => {
                self.violate(format!("{id:?} gave a broken packet: {wrong}"));
                return;
            }
        };
        self.digest.on_packet(self.now, id, lane, &segments);
        let flow = segments.first().map_or(usize::MAX, flow_of);
        let in_order = self.in_order;
        let now = self.now;
        let here = |flow: &&mut Flow| match id {
            EndId::Home(home) => flow.traffic.home == home,
            EndId::Concentrator => true,
        };
        match self.flows.get_mut(flow).filter(here) {
            Some(flow) => {
                if let Err(wrong) = flow.on_segments(now, lane, &segments, in_order) {
                    self.violate(wrong);
                }
            }
            None => self.strangers.push((id, packet.clone())),
        }
    }
}
