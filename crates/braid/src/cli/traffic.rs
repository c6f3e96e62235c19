//! `braid traffic`: who uses the tunnel, and for what.

use super::status_table::columns;
use super::{Failure, Global, JsonFlag};
use braid_control::traffic::{DeviceTraffic, FlowTraffic, LinkShare, TrafficStatus};
use braid_units::ByteSize;
use clap::Args;

#[derive(Args)]
#[command(
    after_help = "Down is towards homes. Retransmissions and duplicates are those that this end sent. Devices are shown by the name in their DHCP lease, or else by address; `braid history --device NAME` shows a device's traffic by day.\n\nExamples:\n  braid traffic\n  braid traffic --top 50 --json | jq -r '.flows[] | [.device, .remote, .rate_rx_mbps] | @tsv'"
)]
pub struct Traffic {
    #[command(flatten)]
    _json: JsonFlag,
    /// Number of flows to show, busiest first
    #[arg(long, value_name = "COUNT", default_value_t = 15)]
    top: u32,
}

impl Traffic {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let client = global.client()?;
        let traffic = client.traffic(self.top)?;
        if global.json {
            return global.print(&traffic, String::new);
        }
        let at_home = client.status()?.listen.is_empty();
        global.print(&traffic, || render(&traffic, at_home))
    }
}

const DEVICES: [&str; 6] = ["DEVICE", "DOWN", "UP", "CARRIED", "FLOWS", "LINKS"];
const FLOWS: [&str; 8] = ["FLOW", "", "DOWN", "UP", "CARRIED", "CLASS", "LINKS", "AGAIN/TWICE"];

fn render(traffic: &TrafficStatus, at_home: bool) -> String {
    if traffic.devices.is_empty() {
        return "nobody has used the tunnel yet".to_owned();
    }
    let mut devices = vec![DEVICES.map(str::to_owned).to_vec()];
    devices.extend(traffic.devices.iter().map(|device| device_row(device, at_home)));
    let mut lines = columns(&devices);
    if !traffic.flows.is_empty() {
        let mut flows = vec![FLOWS.map(str::to_owned).to_vec()];
        flows.extend(traffic.flows.iter().map(|flow| flow_row(flow, at_home)));
        lines.push(String::new());
        lines.extend(columns(&flows));
    }
    let more = traffic.flows_known - traffic.flows.len().min(traffic.flows_known);
    if more > 0 {
        lines.push(format!("and {more} more flows (--top)"));
    }
    let others = traffic.others_rx_bytes.saturating_add(traffic.others_tx_bytes);
    if others > 0 {
        lines.push(format!("{} of flows beyond those that are tracked", size(others)));
    }
    lines.join("\n")
}

fn device_row(device: &DeviceTraffic, at_home: bool) -> Vec<String> {
    let (down, up) = turned(at_home, device.rate_rx_mbps, device.rate_tx_mbps);
    let carried = size(device.rx_bytes.saturating_add(device.tx_bytes));
    let name = match at_home {
        true => device.name.clone(),
        false => format!("{} ({})", device.name, device.peer),
    };
    vec![name, mbit(down), mbit(up), carried, device.flows.to_string(), links(&device.links)]
}

fn flow_row(flow: &FlowTraffic, at_home: bool) -> Vec<String> {
    let (down, up) = turned(at_home, flow.rate_rx_mbps, flow.rate_tx_mbps);
    let carried = size(flow.rx_bytes.saturating_add(flow.tx_bytes));
    let again = format!("{}/{}", size(flow.retransmitted_bytes), size(flow.duplicated_bytes));
    let name = match flow.local.starts_with(&flow.device) {
        true => flow.local.clone(),
        false => format!("{} ({})", flow.local, flow.device),
    };
    let ends = format!("{name} > {}", flow.remote);
    let (protocol, class) = (flow.protocol.clone(), flow.class.clone());
    vec![ends, protocol, mbit(down), mbit(up), carried, class, links(&flow.links), again]
}

fn turned(at_home: bool, received: f64, sent: f64) -> (f64, f64) {
    if at_home { (received, sent) } else { (sent, received) }
}

fn mbit(rate: f64) -> String {
    format!("{rate:.2} Mbit/s")
}

fn size(bytes: u64) -> String {
    ByteSize::from_bytes(bytes).to_string()
}

fn links(shares: &[LinkShare]) -> String {
    let bytes = |share: &LinkShare| share.rx_bytes.saturating_add(share.tx_bytes);
    let all: u64 = shares.iter().map(bytes).sum();
    let share = |share: &LinkShare| {
        format!("{} {:.0} %", share.link, bytes(share) as f64 * 100.0 / all.max(1) as f64)
    };
    let shares: Vec<String> = shares.iter().filter(|link| bytes(link) > 0).map(share).collect();
    if shares.is_empty() { "-".to_owned() } else { shares.join(", ") }
}
