//! The engine `null`: the cost of a tunnel that does nothing.

use super::external::{self, Commands, External};
use super::{Bench, EngineError, Running};
use crate::topology::CONCENTRATOR_V4;
use std::net::{IpAddr, Ipv4Addr};

/// Addresses inside the tunnel.
const CONCENTRATOR: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 1);
const HOME: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 2);
const PORT: u16 = 51_901;
const DEVICE: &str = "null0";

/// Starts a loop at each end, over the first link.
pub(super) fn bring_up(bench: &Bench<'_>) -> Result<Running, EngineError> {
    let program = bench.program.display();
    let end = |address: Ipv4Addr, how: String| Commands {
        up: vec![format!("'{program}' lab null-loop {DEVICE} {how}")],
        after: vec![
            format!("until ip link show {DEVICE} 2>/dev/null; do sleep 0.05; done"),
            format!("ip address add {address}/24 dev {DEVICE} && ip link set {DEVICE} up"),
        ],
        ..Commands::default()
    };
    let commands = External {
        server: IpAddr::V4(CONCENTRATOR),
        home: end(HOME, format!("--to {CONCENTRATOR_V4}:{PORT} --link $DEVICE_1")),
        concentrator: end(CONCENTRATOR, format!("--port {PORT}")),
    };
    external::bring_up(&commands, bench)
}
