//! Virtual time: what happens next, and to whom.

mod actions;
mod exchange;
mod stalls;

use crate::captured::Captured;
use crate::digest::Digest;
use crate::end::{CONCENTRATOR_LINK, End, Held, link_id};
use crate::end_id::EndId;
use crate::network::{Datagram, Link};
use crate::outcome::Outcome;
use crate::scenario::{Action, Scenario, Timed};
use crate::traffic::{Flow, Lane};
use braid_inner::InnerPacket;
use braid_tunnel::{PeerReport, Tunnel};
use braid_units::Time;
use stalls::StallClock;
use std::net::SocketAddr;
use std::time::Duration;

/// How often an end's timer may be due in a millisecond before that counts as a
/// busy loop.
const BUSY: u32 = 300;
/// Packets that the device and sockets of an end that stands still hold: a TUN
/// device's queue.
const DEVICE_QUEUE: usize = 500;
/// How often memory is looked at.
const SAMPLE: Duration = Duration::from_millis(10);
/// The same where more than an hour is played.
const SAMPLE_OF_HOURS: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);
/// Broken rules noted at the most.
const VIOLATIONS: usize = 20;

/// A scenario being played.
#[derive(Debug)]
pub struct Simulation {
    scenario: Scenario,
    now: Time,
    homes: Vec<End>,
    concentrator: End,
    links: Vec<Link>,
    flows: Vec<Flow>,
    /// Soonest last.
    events: Vec<Timed>,
    in_order: bool,
    violations: Vec<String>,
    memory_high_water: u64,
    next_sample: Time,
    sample: Duration,
    stalls: Option<StallClock>,
    digest: Digest,
    /// Times that an end's timer was due.
    wakes: u64,
    capture: bool,
    captured: Vec<Captured>,
    strangers: Vec<(EndId, InnerPacket)>,
    strays: Vec<Datagram>,
    buffer: Vec<u8>,
}

impl Simulation {
    /// At the scenario's beginning.
    pub fn new(scenario: Scenario) -> Self {
        let mut events = scenario.events.clone();
        events.sort_by_key(|e| std::cmp::Reverse(e.at));
        let changes_mode = events.iter().any(|e| matches!(e.action, Action::SetMode(..)));
        let links = scenario.links.iter().enumerate();
        let flows = scenario.traffic.iter().enumerate();
        Self {
            now: Time::ZERO,
            homes: (0..scenario.homes).map(|h| End::new(EndId::Home(h), &scenario)).collect(),
            concentrator: End::new(EndId::Concentrator, &scenario),
            links: links
                .map(|(i, spec)| {
                    let seed = scenario.seed.wrapping_mul(0x9e37_79b9).wrapping_add(i as u64 * 977);
                    Link::new(spec.clone(), i as u8, seed)
                })
                .collect(),
            flows: flows.map(|(i, &t)| Flow::new(t, i, scenario.duration)).collect(),
            events,
            in_order: scenario.mode.is_adaptive() && !changes_mode,
            violations: Vec::new(),
            memory_high_water: 0,
            next_sample: Time::ZERO,
            sample: if scenario.duration > HOUR { SAMPLE_OF_HOURS } else { SAMPLE },
            stalls: scenario.stalls.map(|stalls| StallClock::new(stalls, scenario.seed)),
            digest: Digest::default(),
            wakes: 0,
            capture: false,
            captured: Vec::new(),
            strangers: Vec::new(),
            strays: Vec::new(),
            buffer: Vec::new(),
            scenario,
        }
    }

    /// Plays a scenario to its end.
    pub fn play(scenario: Scenario) -> Outcome {
        let end = scenario.duration + scenario.drain;
        let mut simulation = Self::new(scenario);
        simulation.run_until(end);
        simulation.finish()
    }

    /// Records every datagram from now on.
    pub fn record(&mut self) {
        self.capture = true;
    }

    /// What was recorded so far.
    pub fn captured(&self) -> &[Captured] {
        &self.captured
    }

    /// Goes on until `moment`.
    pub fn run_until(&mut self, moment: Duration) {
        let end = Time::ZERO + moment;
        loop {
            let next = self.next_deadline();
            if next > end {
                break;
            }
            self.now = next.max(self.now);
            self.step();
        }
        self.now = self.now.max(end);
    }

    /// The time that has passed.
    pub fn now(&self) -> Duration {
        self.now - Time::ZERO
    }

    /// An end's tunnel, and the time by its clock.
    pub fn tunnel(&mut self, id: EndId) -> (&mut Tunnel, Time) {
        let now = self.now;
        let end = self.end(id);
        end.timer = Some(now);
        let local = end.local(now);
        (&mut end.tunnel, local)
    }

    /// What an end says of its peers.
    pub fn report(&self, id: EndId) -> Vec<PeerReport> {
        let end = match id {
            EndId::Home(home) => &self.homes[home],
            EndId::Concentrator => &self.concentrator,
        };
        end.tunnel.report(end.local(self.now)).into_iter().map(|(_, report)| report).collect()
    }

    /// Puts a datagram straight into an end, as if it came by that link (of the
    /// scenario; for the concentrator it doesn't matter).
    pub fn inject(&mut self, id: EndId, link: usize, from: SocketAddr, bytes: &[u8]) {
        let mut bytes = bytes.to_vec();
        let now = self.now;
        let link = match id {
            EndId::Home(_) => link_id(link),
            EndId::Concentrator => CONCENTRATOR_LINK,
        };
        let end = self.end(id);
        let local = end.local(now);
        end.tunnel.handle_datagram(local, link, from, None, &mut bytes);
        self.serve(id);
    }

    /// Puts a packet into an end's device, beside all traffic.
    pub fn put(&mut self, id: EndId, packet: InnerPacket) {
        let now = self.now;
        let end = self.end(id);
        let local = end.local(now);
        end.tunnel.handle_inner(local, packet);
        self.serve(id);
    }

    /// Packets that came out and belong to no traffic.
    pub fn strangers(&self) -> &[(EndId, InnerPacket)] {
        &self.strangers
    }

    /// Takes the datagrams that the concentrator sent to addresses that no link
    /// has.
    pub fn take_strays(&mut self) -> Vec<Datagram> {
        std::mem::take(&mut self.strays)
    }

    /// The rules broken so far.
    pub fn violations(&self) -> &[String] {
        &self.violations
    }

    /// The flows so far.
    pub fn flows(&self) -> Vec<crate::FlowOutcome> {
        self.flows.iter().map(Flow::outcome).collect()
    }

    /// IP bytes that a link has serialised so far, towards the home or from it.
    pub fn served(&mut self, link: usize, to_home: bool) -> u64 {
        let link = &mut self.links[link];
        let direction = if to_home { &mut link.down } else { &mut link.up };
        direction.serialised(self.now)
    }

    /// IP bytes that wait in a link now, towards the home or from it.
    pub fn waiting(&self, link: usize, to_home: bool) -> u64 {
        let link = &self.links[link];
        let direction = if to_home { &link.down } else { &link.up };
        direction.counters().queued_bytes
    }

    /// Ends it here.
    pub fn finish(mut self) -> Outcome {
        let reports = |end: &End| -> Vec<PeerReport> {
            end.tunnel.report(end.local(self.now)).into_iter().map(|(_, r)| r).collect()
        };
        let homes: Vec<PeerReport> = self.homes.iter().flat_map(reports).collect();
        let concentrator = reports(&self.concentrator);
        let ends = self.homes.iter().chain([&self.concentrator]);
        let counters: Vec<_> = ends.map(|e| e.tunnel.counters()).collect();
        homes.iter().chain(&concentrator).for_each(|report| self.digest.on_report(report));
        counters.iter().for_each(|counters| self.digest.on_counters(counters));
        Outcome {
            flows: self.flows.iter().map(Flow::outcome).collect(),
            memory_high_water: self.memory_high_water,
            homes,
            concentrator,
            counters,
            digest: self.digest.value(),
            wakes: self.wakes,
            link_bytes: self
                .links
                .iter()
                .map(|l| (l.down.counters().bytes_out, l.up.counters().bytes_out))
                .collect(),
            violations: self.violations,
            captured: self.captured,
        }
    }

    fn next_deadline(&self) -> Time {
        let links = self.links.iter().flat_map(|l| [l.down.next_deadline(), l.up.next_deadline()]);
        let ends = self.homes.iter().chain([&self.concentrator]).map(|e| e.timer);
        let flows = self.flows.iter().map(|f| f.next_deadline(self.now));
        let event = self.events.last().map(|e| Time::ZERO + e.at);
        links
            .chain(ends)
            .chain(flows)
            .flatten()
            .chain(event)
            .chain(self.stalls.as_ref().map(StallClock::next))
            .min()
            .map_or(self.next_sample, |at| at.min(self.next_sample))
    }

    fn step(&mut self) {
        let now = self.now;
        while self.events.last().is_some_and(|e| Time::ZERO + e.at <= now) {
            if let Some(event) = self.events.pop() {
                self.act(event.action);
            }
        }
        self.stall();
        for index in 0..self.links.len() {
            while let Some(datagram) = self.links[index].up.poll(now) {
                self.arrive(EndId::Concentrator, index, datagram);
            }
            while let Some(datagram) = self.links[index].down.poll(now) {
                // Sent to an address that the link no longer has.
                if datagram.to == self.links[index].public && self.links[index].carrier {
                    let home = EndId::Home(self.links[index].spec.home);
                    self.arrive(home, index, datagram);
                }
            }
        }
        for id in self.ends() {
            self.release(id);
            let end = self.end(id);
            if end.timer.is_some_and(|at| at <= now) {
                let local = end.local(now);
                end.tunnel.handle_timeout(local);
                self.count_wakes(id);
                self.serve(id);
            }
        }
        self.poll_flows();
        if now >= self.next_sample {
            self.next_sample = now + self.sample;
            self.sample_memory();
        }
    }

    /// One of the ends stands still from now on, if it's time.
    fn stall(&mut self) {
        let (now, ends) = (self.now, self.homes.len() + 1);
        let Some(stall) = self.stalls.as_mut().and_then(|stalls| stalls.poll(now, ends)) else {
            return;
        };
        let last = stall.end == self.homes.len();
        let id = if last { EndId::Concentrator } else { EndId::Home(stall.end) };
        let end = self.end(id);
        end.stalled_until = end.stalled_until.max(stall.until);
        end.timer = Some(end.stalled_until);
    }

    fn poll_flows(&mut self) {
        let now = self.now;
        let mut out = Vec::new();
        for index in 0..self.flows.len() {
            let flow = &mut self.flows[index];
            let (home, lane) = (flow.traffic.home, flow.traffic.lane);
            let (homes, concentrator) = (&self.homes, &self.concentrator);
            let waiting = || match lane {
                Lane::Up => waiting(&homes[home], now, 0),
                Lane::Down => waiting(concentrator, now, home),
            };
            flow.poll(now, waiting, self.scenario.layer, &mut out);
            if out.is_empty() {
                continue;
            }
            for (lane, packet) in out.drain(..) {
                let end = match lane {
                    Lane::Up => &mut self.homes[home],
                    Lane::Down => &mut self.concentrator,
                };
                if end.stalled_until <= now {
                    let local = end.local(now);
                    end.tunnel.handle_inner(local, packet);
                } else if end.asleep_until <= now && end.held.len() < DEVICE_QUEUE {
                    end.held.push_back(Held::Packet(packet));
                }
            }
            for id in [EndId::Home(home), EndId::Concentrator] {
                if self.end(id).stalled_until <= now {
                    self.serve(id);
                }
            }
        }
    }

    fn count_wakes(&mut self, id: EndId) {
        self.wakes += 1;
        let ms = self.now.as_millis();
        let end = self.end(id);
        if end.woken.0 != ms {
            end.woken = (ms, 0);
        }
        end.woken.1 += 1;
        if end.woken.1 == BUSY {
            self.violate(format!("{id:?} is busy in a loop at {ms} ms"));
        }
    }

    fn sample_memory(&mut self) {
        let now = self.now;
        for end in self.homes.iter().chain([&self.concentrator]) {
            for (_, report) in end.tunnel.report(end.local(now)) {
                let held =
                    report.exit.held_bytes + report.entry.bytes + report.unacknowledged_bytes;
                self.memory_high_water = self.memory_high_water.max(held);
            }
        }
    }

    fn violate(&mut self, what: String) {
        if self.violations.len() < VIOLATIONS {
            let at = self.now.as_secs_f64();
            self.violations.push(format!("{at:.6} s: {what}"));
        }
    }

    fn ends(&self) -> impl Iterator<Item = EndId> + use<> {
        (0..self.homes.len()).map(EndId::Home).chain([EndId::Concentrator])
    }

    fn end(&mut self, id: EndId) -> &mut End {
        match id {
            EndId::Home(home) => &mut self.homes[home],
            EndId::Concentrator => &mut self.concentrator,
        }
    }
}

/// Bytes waiting at an end's entry queue for its peer number `peer`.
fn waiting(end: &End, now: Time, peer: usize) -> u64 {
    end.tunnel.report(end.local(now)).get(peer).map_or(0, |(_, report)| report.entry.bytes)
}
