//! The kernel's MPTCP over all links (RFC 8684; ip-mptcp(8)).

use super::command::{batch, sysctls};
use super::{Topology, TopologyError};

/// MPTCP_PM_ADDR_MAX of net/mptcp/protocol.h.
const MAX_LINKS: usize = 8;

pub(super) fn set_up(topology: &Topology) -> Result<(), TopologyError> {
    if topology.links.len() > MAX_LINKS {
        return Err(TopologyError::Unsupported {
            link: format!("all {}", topology.links.len()),
            problem: format!("the kernel's MPTCP uses at most {MAX_LINKS}"),
        });
    }
    let limits = format!("mptcp limits set subflows {MAX_LINKS} add_addr_accepted {MAX_LINKS}");
    // The home opens the connections and all subflows, so it works through NAT.
    let endpoints = topology.links.iter().zip(1..).map(|(link, id)| {
        let (address, device) = (link.addresses.home_v4, &link.device);
        format!("mptcp endpoint add {address} dev {device} id {id} subflow")
    });
    let home: Vec<String> = std::iter::once(limits.clone()).chain(endpoints).collect();
    for (ns, lines) in [(&topology.home, home), (&topology.concentrator, vec![limits])] {
        sysctls(ns, &[("mptcp/enabled", "1")])?;
        batch(ns, "ip", &lines)?;
    }
    Ok(())
}
