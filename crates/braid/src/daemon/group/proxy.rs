//! The MPTCP proxy of a group, where its config asks for one.

use braid_control::config::{GroupConfig, MptcpProxy, ProxyEnd};
use braid_engines::{Operation, nft_table};
use braid_mptcp_proxy::{Access, End, Home, Proxy, Rules};
use std::io;

/// Starts it, on a thread that lives as long as the daemon.
pub fn start(config: &GroupConfig) -> io::Result<()> {
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
    let proxy = Proxy::listen(end, *port)?;
    std::thread::Builder::new().name("mptcp-proxy".into()).spawn(|| proxy.serve())?;
    Ok(())
}

/// The rules that bring connections to it.
pub fn rules(config: &GroupConfig) -> Option<Operation> {
    let MptcpProxy { port, end: ProxyEnd::Home { toward, .. } } = config.proxy.as_ref()? else {
        return None;
    };
    let interface = config.group.name.to_string();
    let rules = Rules {
        table: nft_table(&interface),
        port: *port,
        mark: config.group.numbers.mark,
        toward: toward.clone(),
    };
    Some(Operation::Firewall { ruleset: rules.nftables(), interface })
}
