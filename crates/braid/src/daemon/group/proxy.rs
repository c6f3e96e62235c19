//! The MPTCP proxy of a group, where its config asks for one.

use super::super::ending::Ending;
use super::super::supervise;
use braid_control::config::{GroupConfig, MptcpProxy, ProxyEnd};
use braid_engines::{FirewallTable, Operation};
use braid_mptcp_proxy::{Access, End, Home, Proxy, Rules};
use std::io;

const THREAD: &str = "mptcp-proxy";

/// Starts it, on threads that live as long as the daemon.
pub fn start(config: &GroupConfig, ending: &Ending) -> io::Result<()> {
    let Some(MptcpProxy { port, end }) = &config.proxy else { return Ok(()) };
    let end = match end {
        ProxyEnd::Home { far_end, .. } => {
            let mark = config.group.numbers.mark;
            End::Home(Home { far_end: *far_end, far_port: *port, mark })
        }
        ProxyEnd::Far { homes, servers } => {
            End::Far(Access { homes: homes.clone(), servers: servers.clone() })
        }
    };
    for server in Proxy::listen(end, *port)?.servers() {
        supervise::start(THREAD, ending, server)?;
    }
    Ok(())
}

/// The rules that bring connections to it.
pub fn rules(config: &GroupConfig) -> Option<Operation> {
    let MptcpProxy { port, end: ProxyEnd::Home { toward, .. } } = config.proxy.as_ref()? else {
        return None;
    };
    let rules = Rules { port: *port, mark: config.group.numbers.mark, toward: toward.clone() };
    let table = FirewallTable::of(config.group.name.to_string(), &rules.chains());
    Some(Operation::Firewall(table))
}
