//! A link without a tunnel: what its traffic gets by itself.

use crate::packet;
use crate::scenario::{Action, Scenario, Timed};
use crate::traffic::{Flow, FlowOutcome, Lane, flow_of};
use braid_inner::InnerPacket;
use braid_link_model::{Direction, Packet};
use braid_units::Time;
use fastrand::Rng;

/// Plays a scenario's traffic over the link of this place alone, its packets as
/// they are; of the events those that change the link's figures, and blackouts. The traffic must
/// not need a tunnel's segmentation (`super_packets`) nor its entry queue (greedy).
///
/// # Panics
/// If there is no such link.
pub fn play_plain(scenario: &Scenario, link: usize) -> Vec<FlowOutcome> {
    let spec = &scenario.links[link];
    let mut wires: [Direction<Carried>; 2] = [
        Direction::new(spec.down.clone(), scenario.seed ^ 0xd0, Time::ZERO),
        Direction::new(spec.up.clone(), scenario.seed ^ 0x0b, Time::ZERO),
    ];
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
                Action::Blackout(of, dark) if *of == link => {
                    wires.iter_mut().for_each(|wire| wire.set_blackout(now, *dark));
                }
                _ => {}
            }
        }
        for (index, lane) in [Lane::Down, Lane::Up].into_iter().enumerate() {
            while let Some(carried) = wires[index].poll(now) {
                if carried.damaged {
                    continue;
                }
                let Ok(segments) = packet::read(&carried.packet, scenario.layer) else { continue };
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
            let bytes = packet.bytes.len() as u32;
            let _ = wire.enqueue(now, bytes, Carried { packet, damaged: false });
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

/// A packet on the link. The receiver's checksum finds that it was damaged.
#[derive(Clone)]
struct Carried {
    packet: InnerPacket,
    damaged: bool,
}

impl Packet for Carried {
    fn flip_bit(&mut self, _: &mut Rng) {
        self.damaged = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::LinkSpec;
    use crate::traffic::{Congestion, Traffic, TrafficKind};
    use braid_link_model::DirectionModel;
    use braid_units::Rate;
    use std::time::Duration;

    #[test]
    fn tcp_fills_a_clean_link_but_for_its_headers() {
        let kind = TrafficKind::Tcp { congestion: Congestion::Cubic, super_packets: false };
        let direction =
            |mbit| DirectionModel::clean(Rate::from_mbit(mbit), Duration::from_millis(20));
        let link = LinkSpec::new(direction(10), direction(2));
        let scenario = Scenario::new(vec![link]).traffic(Traffic::new(Lane::Down, kind));
        let mbit = play_plain(&scenario, 0)[0].mbit(Duration::ZERO, Duration::from_secs(10));
        let most = 10.0 * 1448.0 / 1500.0;
        assert!((most * 0.9..=most).contains(&mbit), "{mbit} of {most}");
    }
}
