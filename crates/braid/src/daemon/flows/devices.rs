//! What each device sent and received. Flows come and go; their bytes stay with the device.

use super::DeviceSecond;
use braid_control::traffic::{DeviceTraffic, FlowTraffic, LinkShare};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

/// By peer and name.
#[derive(Default)]
pub struct Devices {
    known: BTreeMap<(String, String), Device>,
    /// Names with a history of their own.
    kept: BTreeSet<String>,
}

#[derive(Default)]
struct Device {
    shown: DeviceTraffic,
    /// Since the last time.
    grown: (u64, u64),
    flows: usize,
    links: BTreeMap<String, LinkShare>,
}

/// Maximum devices remembered, so that one with thousands of addresses doesn't exhaust memory.
const MOST: usize = 1000;
/// Devices that history records per second, the busiest first.
const MOST_IN_HISTORY: usize = 16;
/// Maximum devices with their own history until the tunnel is restarted; the others share one.
const MOST_KEPT: usize = 200;
const OTHERS: &str = "others";

impl Devices {
    /// A flow of the device's, with what came and went since the last time.
    pub fn count(&mut self, flow: &FlowTraffic, address: Option<IpAddr>, rx: u64, tx: u64) {
        let key = (flow.peer.clone(), flow.device.clone());
        let device = self.known.entry(key).or_insert_with(|| Device {
            shown: DeviceTraffic {
                name: flow.device.clone(),
                peer: flow.peer.clone(),
                ..DeviceTraffic::default()
            },
            ..Device::default()
        });
        device.shown.address = address.or(device.shown.address);
        device.flows += 1;
        device.grown.0 += rx;
        device.grown.1 += tx;
        for share in &flow.links {
            let sum = device.links.entry(share.link.clone()).or_default();
            sum.link.clone_from(&share.link);
            sum.rx_bytes += share.rx_bytes;
            sum.tx_bytes += share.tx_bytes;
        }
    }

    /// Call after counting all flows: returns each device's traffic since the last call.
    pub fn settle(&mut self, elapsed: Duration) -> Vec<DeviceSecond> {
        let mut seconds = Vec::new();
        for device in self.known.values_mut() {
            let (rx, tx) = std::mem::take(&mut device.grown);
            let mbit = |bytes: u64| bytes as f64 * 8e-6 / elapsed.as_secs_f64();
            let shown = &mut device.shown;
            (shown.rate_rx_mbps, shown.rate_tx_mbps) = (mbit(rx), mbit(tx));
            shown.rx_bytes += rx;
            shown.tx_bytes += tx;
            shown.flows = std::mem::take(&mut device.flows);
            shown.links = std::mem::take(&mut device.links).into_values().collect();
            if rx + tx > 0 {
                let name = shown.name.clone();
                seconds.push(DeviceSecond { name, rx_bytes: rx, tx_bytes: tx });
            }
        }
        while self.known.len() > MOST {
            let least = self.known.iter().min_by_key(|(_, device)| {
                (device.shown.flows, device.shown.rx_bytes + device.shown.tx_bytes)
            });
            let Some(least) = least.map(|(key, _)| key.clone()) else { break };
            self.known.remove(&least);
        }
        seconds.sort_by_key(|second| std::cmp::Reverse(second.rx_bytes + second.tx_bytes));
        seconds.truncate(MOST_IN_HISTORY);
        let mut others = DeviceSecond { name: OTHERS.to_owned(), rx_bytes: 0, tx_bytes: 0 };
        seconds.retain(|second| {
            if self.kept.len() < MOST_KEPT {
                self.kept.insert(second.name.clone());
            }
            let known = self.kept.contains(&second.name);
            if !known {
                others.rx_bytes += second.rx_bytes;
                others.tx_bytes += second.tx_bytes;
            }
            known
        });
        if others.rx_bytes + others.tx_bytes > 0 {
            seconds.push(others);
        }
        seconds
    }

    /// The devices' current state, busiest first.
    pub fn shown(&self) -> Vec<DeviceTraffic> {
        let mut shown: Vec<DeviceTraffic> =
            self.known.values().map(|device| device.shown.clone()).collect();
        let busy = |device: &DeviceTraffic| device.rate_rx_mbps + device.rate_tx_mbps;
        let all = |device: &DeviceTraffic| device.rx_bytes + device.tx_bytes;
        shown.sort_by(|a, b| busy(b).total_cmp(&busy(a)).then_with(|| all(b).cmp(&all(a))));
        shown
    }
}
