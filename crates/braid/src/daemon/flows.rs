//! Who uses the tunnel: turns the core's flows into devices with names and rates. Devices behind
//! this host's NAT are found through connection tracking.

mod behind;
mod devices;

use super::data_channel::PeerFlows;
use behind::Behind;
use braid_control::traffic::{FlowTraffic, LinkShare, TrafficStatus};
use braid_inner::{Class, FlowKey, Selector};
use braid_rules::Lease;
use braid_tunnel::{Carried, FlowReport};
use braid_units::Time;
use devices::Devices;
use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Remembers counters between calls.
pub struct FlowWatch {
    /// Whether this is the initiating end: the flows' sender is the device.
    at_home: bool,
    seen: Arc<Vec<PeerFlows>>,
    looked: Instant,
    flows: HashMap<FlowName, Rates>,
    others: Rates,
    behind: Behind,
    devices: Devices,
    known: Vec<KnownFlow>,
    shown: Arc<TrafficStatus>,
    /// Keys of the flows shown.
    keys: Vec<FlowKey>,
}

/// A flow to a peer whose initiator is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownFlow {
    /// The peer's name.
    pub peer: String,
    /// As packets to the peer have it.
    pub key: FlowKey,
    /// Its device's name.
    pub device: String,
    /// The device's address; `None` if this host began it.
    pub address: Option<IpAddr>,
    /// Bytes carried in both directions.
    pub bytes: u64,
}

/// What a device sent and received in a second.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceSecond {
    /// Its name.
    pub name: String,
    /// Bytes from the peer.
    pub rx_bytes: u64,
    /// Bytes to the peer.
    pub tx_bytes: u64,
}

/// Successive flows with the same ends are distinguished by their start.
#[derive(Clone, PartialEq, Eq, Hash)]
struct FlowName {
    peer: String,
    key: FlowKey,
    began: Time,
}

/// Previous byte counters, and the rates since.
#[derive(Clone, Copy, Default)]
struct Rates {
    rx: Rate,
    tx: Rate,
}

#[derive(Clone, Copy, Default)]
struct Rate {
    bytes: u64,
    grown: u64,
    mbit: f64,
}

/// IP protocol numbers with well-known names.
const PROTOCOLS: [(u8, &str); 6] =
    [(1, "icmp"), (6, "tcp"), (17, "udp"), (47, "gre"), (50, "esp"), (58, "icmpv6")];

impl FlowWatch {
    /// Nothing seen yet. `own` are this host's addresses in the tunnel.
    pub fn new(at_home: bool, own: Vec<IpAddr>, now: Instant) -> FlowWatch {
        FlowWatch {
            at_home,
            seen: Arc::default(),
            looked: now,
            flows: HashMap::new(),
            others: Rates::default(),
            behind: Behind::new(own),
            devices: Devices::default(),
            known: Vec::new(),
            shown: Arc::default(),
            keys: Vec::new(),
        }
    }

    /// What was seen last.
    pub fn shown(&self) -> Arc<TrafficStatus> {
        self.shown.clone()
    }

    /// The flows of the last call whose initiators are known; empty at the concentrator.
    pub fn known(&self) -> &[KnownFlow] {
        &self.known
    }

    /// Sets the rules that the flows of the last call match.
    pub fn name_rules<'r>(&mut self, rule_of: impl Fn(&FlowKey) -> Option<&'r str>) {
        let shown = Arc::make_mut(&mut self.shown);
        for (key, flow) in self.keys.iter().zip(&mut shown.flows) {
            flow.rule = rule_of(key).map(str::to_owned);
        }
    }

    /// Takes what flows have carried by now. Returns what each device sent and received since the
    /// last call, once per new report. `at_once`: look up new flows' initiators immediately.
    pub fn look(
        &mut self,
        seen: &Arc<Vec<PeerFlows>>,
        leases: &[Lease],
        at_once: bool,
        now: Instant,
    ) -> Vec<DeviceSecond> {
        if Arc::ptr_eq(seen, &self.seen) {
            return Vec::new();
        }
        let elapsed = now.duration_since(self.looked).max(Duration::from_millis(1));
        (self.seen, self.looked) = (seen.clone(), now);
        if self.at_home {
            let keys = seen.iter().flat_map(|peer| &peer.report.flows).map(|flow| flow.key);
            self.behind.follow(keys, at_once, now);
        }
        self.known.clear();
        let mut known = HashMap::new();
        let mut flows = Vec::new();
        let mut others = Carried::default();
        for peer in seen.iter() {
            others.received_bytes += peer.report.others.received_bytes;
            others.sent_bytes += peer.report.others.sent_bytes;
            for flow in &peer.report.flows {
                let name = FlowName { peer: peer.peer.clone(), key: flow.key, began: flow.began };
                let before = self.flows.get(&name).copied().unwrap_or_default();
                let rates = before.next(&flow.carried, elapsed);
                let address = self.device_of(&flow.key);
                let shown = self.flow(peer, flow, &rates, address, leases);
                self.devices.count(&shown, address, rates.rx.grown, rates.tx.grown);
                if self.at_home && self.behind.is_known(&flow.key) {
                    let address = address.filter(|_| !self.behind.is_own(&flow.key));
                    let (device, bytes) = (shown.device.clone(), shown.rx_bytes + shown.tx_bytes);
                    let (peer, key) = (peer.peer.clone(), flow.key);
                    self.known.push(KnownFlow { peer, key, device, address, bytes });
                }
                flows.push((flow.key, shown));
                known.insert(name, rates);
            }
        }
        self.flows = known;
        self.others = self.others.next(&others, elapsed);
        let seconds = self.devices.settle(elapsed);
        let busy = |flow: &FlowTraffic| flow.rate_rx_mbps + flow.rate_tx_mbps;
        let all = |flow: &FlowTraffic| flow.rx_bytes + flow.tx_bytes;
        flows.sort_by(|(_, a), (_, b)| {
            busy(b).total_cmp(&busy(a)).then_with(|| all(b).cmp(&all(a)))
        });
        let (keys, flows): (Vec<_>, Vec<_>) = flows.into_iter().unzip();
        self.keys = keys;
        self.shown = Arc::new(TrafficStatus {
            devices: self.devices.shown(),
            flows_known: flows.len(),
            flows,
            others_rx_mbps: self.others.rx.mbit,
            others_tx_mbps: self.others.tx.mbit,
            others_rx_bytes: self.others.rx.bytes,
            others_tx_bytes: self.others.tx.bytes,
        });
        seconds
    }

    /// The address on the home's side.
    fn device_of(&self, key: &FlowKey) -> Option<IpAddr> {
        match (key, self.at_home) {
            (FlowKey::Ip { src, .. }, true) => Some(self.behind.device(key).unwrap_or(*src)),
            (FlowKey::Ip { dst, .. }, false) => Some(*dst),
            _ => None,
        }
    }

    fn flow(
        &self,
        peer: &PeerFlows,
        flow: &FlowReport,
        rates: &Rates,
        address: Option<IpAddr>,
        leases: &[Lease],
    ) -> FlowTraffic {
        let (from, to) = ends(&flow.key);
        let (local, remote) = if self.at_home { (from, to) } else { (to, from) };
        // As the device has it, if it is behind this host's NAT.
        let local = self.behind.end(&flow.key).map_or(local, |end| end.to_string());
        let lease = leases.iter().find(|lease| Some(lease.address) == address);
        let device = match (lease, address) {
            (Some(lease), _) => plain(&lease.host),
            (None, Some(address)) => address.to_string(),
            (None, None) => local.clone(),
        };
        FlowTraffic {
            peer: peer.peer.clone(),
            device,
            protocol: protocol(&flow.key),
            local,
            remote,
            class: class(flow.class).to_owned(),
            rule: None,
            age_s: flow.age.as_secs_f64(),
            idle_s: flow.silent_for.as_secs_f64(),
            rate_rx_mbps: rates.rx.mbit,
            rate_tx_mbps: rates.tx.mbit,
            rx_bytes: flow.carried.received_bytes,
            tx_bytes: flow.carried.sent_bytes,
            retransmitted_bytes: flow.repaired_bytes,
            duplicated_bytes: flow.copied_bytes,
            links: shares(peer, flow),
        }
    }
}

impl Rates {
    fn next(self, carried: &Carried, elapsed: Duration) -> Rates {
        Rates {
            rx: self.rx.next(carried.received_bytes, elapsed),
            tx: self.tx.next(carried.sent_bytes, elapsed),
        }
    }
}

impl Rate {
    fn next(self, bytes: u64, elapsed: Duration) -> Rate {
        let grown = bytes.saturating_sub(self.bytes);
        Rate { bytes, grown, mbit: grown as f64 * 8e-6 / elapsed.as_secs_f64() }
    }
}

/// Two paths over the same link are added up.
fn shares(peer: &PeerFlows, flow: &FlowReport) -> Vec<LinkShare> {
    let mut links: BTreeMap<String, LinkShare> = BTreeMap::new();
    for share in &flow.paths {
        let link = peer.links.get(&share.path).cloned().unwrap_or_else(|| share.path.to_string());
        let sum = links.entry(link.clone()).or_insert(LinkShare { link, ..LinkShare::default() });
        sum.rx_bytes += share.received_bytes;
        sum.tx_bytes += share.sent_bytes;
    }
    links.into_values().collect()
}

/// Both ends, as packets to the peer have them.
fn ends(key: &FlowKey) -> (String, String) {
    match *key {
        FlowKey::Ip { src, dst, selector: Selector::Ports { src: from, dst: to }, .. } => {
            (SocketAddr::new(src, from).to_string(), SocketAddr::new(dst, to).to_string())
        }
        FlowKey::Ip { src, dst, .. } => (src.to_string(), dst.to_string()),
        FlowKey::Ethernet { src, dst, .. } => (mac(src), mac(dst)),
        FlowKey::Unreadable => (String::new(), String::new()),
    }
}

fn mac(address: [u8; 6]) -> String {
    address.map(|byte| format!("{byte:02x}")).join(":")
}

fn protocol(key: &FlowKey) -> String {
    let FlowKey::Ip { protocol, .. } = key else { return "ethernet".to_owned() };
    let known = PROTOCOLS.iter().find(|(number, _)| number == protocol);
    known.map_or_else(|| protocol.to_string(), |(_, name)| (*name).to_owned())
}

fn class(class: Class) -> &'static str {
    match class {
        Class::Precious => "precious",
        Class::Realtime => "realtime",
        Class::PureAck => "acknowledgements",
        Class::Interactive => "interactive",
        Class::Bulk => "bulk",
    }
}

/// Devices choose their own name, so it is sanitised.
fn plain(host: &str) -> String {
    /// RFC 1035, section 2.3.4: a label.
    const LONGEST: usize = 63;
    host.chars()
        .take(LONGEST)
        .map(|c| if c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | ':') { c } else { '_' })
        .collect()
}

#[cfg(test)]
mod tests;
