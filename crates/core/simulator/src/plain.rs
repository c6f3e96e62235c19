//! A link without a tunnel: what its traffic gets by itself.

use crate::network::{Datagram, Direction, HEADERS};
use crate::outcome::FlowOutcome;
use crate::packet;
use crate::scenario::{Action, Scenario, Timed};
use crate::traffic::{Flow, Lane, flow_of};
use braid_inner::InnerPacket;
use braid_units::Time;
use std::net::SocketAddr;

/// Plays a scenario's traffic over the link of this place alone, its packets as
/// they are; of the events those that change the link's figures. The traffic must
/// not need a tunnel's segmentation (`super_packets`) nor its entry queue (greedy).
///
/// # Panics
/// If there is no such link.
pub fn play_plain(scenario: &Scenario, link: usize) -> Vec<FlowOutcome> {
    let spec = &scenario.links[link];
    let mut wires = [
        Direction::new(spec.down.clone(), scenario.seed ^ 0xd0),
        Direction::new(spec.up.clone(), scenario.seed ^ 0x0b),
    ];
    let mut under_way = UnderWay::default();
    let traffic = scenario.traffic.iter().enumerate();
    let mut flows: Vec<Flow> =
        traffic.map(|(i, &traffic)| Flow::new(traffic, i, scenario.duration)).collect();
    let mut events: Vec<&Timed> = scenario.events.iter().collect();
    // The soonest last.
    events.sort_by_key(|event| std::cmp::Reverse(event.at));
    let end = Time::ZERO + scenario.duration;
    let mut now = Time::ZERO;
    let mut out = Vec::new();
    loop {
        while let Some(event) = events.pop_if(|event| Time::ZERO + event.at <= now) {
            match &event.action {
                Action::SetDown(of, spec) if *of == link => wires[0].set(now, spec.clone()),
                Action::SetUp(of, spec) if *of == link => wires[1].set(now, spec.clone()),
                _ => {}
            }
        }
        for (index, lane) in [Lane::Down, Lane::Up].into_iter().enumerate() {
            while let Some(datagram) = wires[index].poll(now) {
                let Some(packet) = under_way.take(&datagram) else { continue };
                let Ok(segments) = packet::read(&packet, scenario.layer) else { continue };
                let of = segments.first().map_or(usize::MAX, flow_of);
                if let Some(flow) = flows.get_mut(of) {
                    // Order is the links' affair here.
                    let _ = flow.on_segments(now, lane, &segments, false);
                }
            }
        }
        for flow in &mut flows {
            flow.poll(now, || 0, scenario.layer, &mut out);
        }
        for (lane, packet) in out.drain(..) {
            let wire = &mut wires[usize::from(lane == Lane::Up)];
            wire.send(now, under_way.put(packet));
        }
        let next = wires.iter().filter_map(Direction::next_deadline);
        let next = next.chain(flows.iter().filter_map(|flow| flow.next_deadline(now)));
        let next = next.chain(events.last().map(|event| Time::ZERO + event.at)).min();
        match next.filter(|&next| next <= end) {
            Some(next) => now = next.max(now),
            None => return flows.iter().map(Flow::outcome).collect(),
        }
    }
}

/// Links carry datagrams: one as long as the packet, its number inside.
#[derive(Default)]
struct UnderWay(Vec<Option<InnerPacket>>);

impl UnderWay {
    fn put(&mut self, packet: InnerPacket) -> Datagram {
        let mut bytes = (self.0.len() as u64).to_be_bytes().to_vec();
        bytes.resize(packet.bytes.len().saturating_sub(HEADERS as usize).max(8), 0);
        self.0.push(Some(packet));
        let nobody = SocketAddr::from(([0, 0, 0, 0], 0));
        Datagram { from: nobody, to: nobody, bytes }
    }

    fn take(&mut self, datagram: &Datagram) -> Option<InnerPacket> {
        let number = u64::from_be_bytes(*datagram.bytes.first_chunk()?);
        self.0.get_mut(usize::try_from(number).ok()?)?.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::{DirectionSpec, LinkSpec};
    use crate::traffic::{Congestion, Traffic, TrafficKind};
    use braid_units::Rate;
    use std::time::Duration;

    #[test]
    fn tcp_fills_a_clean_link_but_for_its_headers() {
        let kind = TrafficKind::Tcp { congestion: Congestion::Cubic, super_packets: false };
        let direction =
            |mbit| DirectionSpec::clean(Rate::from_mbit(mbit), Duration::from_millis(20));
        let link = LinkSpec {
            down: direction(10),
            up: direction(2),
            ..LinkSpec::clean(Rate::ZERO, Rate::ZERO, Duration::ZERO)
        };
        let scenario = Scenario::new(vec![link]).traffic(Traffic::new(Lane::Down, kind));
        let mbit = play_plain(&scenario, 0)[0].mbit(Duration::ZERO, Duration::from_secs(10));
        let most = 10.0 * 1448.0 / 1500.0;
        assert!((most * 0.9..=most).contains(&mbit), "{mbit} of {most}");
    }
}
