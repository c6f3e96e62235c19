//! The proxy that splits TCP connections, as the config asks for it.

use super::ending::Ending;
use super::host_numbers::split_marks;
use braid_control::config::Config;
use braid_control::status::SplitTcpStatus;
use braid_linux::nft::Split;
use braid_split_tcp::{Counts, Handle, Proxy, Settings};
use ipnet::IpNet;
use std::io;
use std::sync::{Mutex, PoisonError};

/// The running proxy.
pub struct SplitProxy {
    handle: Mutex<Handle>,
    /// Redirects connections to it.
    pub rules: Split,
}

impl SplitProxy {
    /// Starts it; `None` if connections aren't split.
    pub fn start(config: &Config, ending: &Ending) -> io::Result<Option<SplitProxy>> {
        let Some(wanted) = &config.split_tcp else { return Ok(None) };
        let [tunnel_mark, outer_mark, local_mark] = split_marks(config.interface.name.as_str());
        let networks = |peer: &braid_control::config::Peer| -> Vec<IpNet> {
            peer.allowed_ips.iter().map(|prefix| prefix.net()).collect()
        };
        let connections = usize::try_from(wanted.connections).unwrap_or(usize::MAX);
        let settings = Settings {
            tunnel_mark,
            outer_mark,
            congestion: wanted.congestion.clone(),
            buffer: wanted.buffer.bytes(),
            memory: wanted.memory.bytes(),
            connections,
            homes: config.peers.iter().map(networks).collect(),
        };
        let most = connections.saturating_mul(config.peers.len().max(1));
        if let Some(allowed) = braid_split_tcp::allow_descriptors(most) {
            tracing::warn!(
                "split_tcp.connections: this process may have {allowed} descriptors, which is \
                 enough for {} connections; raise LimitNOFILE of its unit",
                braid_split_tcp::connections_by(allowed)
            );
        }
        let ending = ending.clone();
        let ended = move || ending.because("the proxy of [split_tcp] has ended".to_owned());
        let handle = Proxy::listen(settings)?.start(ended)?;
        let ports = handle.ports();
        let rules = Split {
            into: ports.into,
            out_of: ports.out_of,
            v6: ports.v6,
            tunnel_mark,
            outer_mark,
            local_mark,
        };
        Ok(Some(SplitProxy { handle: Mutex::new(handle), rules }))
    }

    /// Resets all connections.
    pub fn stop(&self) {
        self.handle.lock().unwrap_or_else(PoisonError::into_inner).stop();
    }

    /// Its counters.
    pub fn status(&self) -> SplitTcpStatus {
        let handle = self.handle.lock().unwrap_or_else(PoisonError::into_inner);
        let Counts { open, accepted, unreachable, over_limit, reset, bytes_into, bytes_out_of } =
            handle.counts();
        SplitTcpStatus {
            running: handle.is_running(),
            open,
            accepted,
            unreachable,
            over_limit,
            reset,
            tx_bytes: bytes_into,
            rx_bytes: bytes_out_of,
        }
    }
}
