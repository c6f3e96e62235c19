//! Multipath TCP (RFC 8684; ip-mptcp(8); Documentation/networking/mptcp.rst).

use crate::group::{Group, Trouble};
use crate::operation::Operation;
use crate::port::Port;
use crate::words::words;
use crate::{Feature, policy};
use serde::{Deserialize, Serialize};

/// Settings of Multipath TCP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mptcp {
    /// Whether this end opens the subflows.
    pub role: MptcpRole,
    /// Maximum subflows of a connection besides its first.
    pub subflows: u8,
    /// Maximum number of accepted addresses that the other end announces.
    pub add_addr_accepted: u8,
    /// Opens a subflow from every link to every address of the other end.
    pub fullmesh: bool,
}

words! {
    /// Which end opens the subflows.
    MptcpRole {
        /// This end: the one that opens connections, behind NAT or not.
        Initiator = "initiator",
        /// The other end; this one announces its addresses.
        Responder = "responder",
    }
}

/// `MPTCP_PM_ADDR_MAX` of net/mptcp/protocol.h.
pub(crate) const MAX_ENDPOINTS: usize = 8;

impl Default for Mptcp {
    fn default() -> Mptcp {
        Mptcp {
            role: MptcpRole::Initiator,
            subflows: MAX_ENDPOINTS as u8,
            add_addr_accepted: MAX_ENDPOINTS as u8,
            fullmesh: false,
        }
    }
}

pub(crate) fn check(mptcp: &Mptcp, group: &Group, found: &mut Vec<Trouble>) {
    if group.links.len() > MAX_ENDPOINTS {
        found.push(Trouble::new(
            "link",
            format!("{} links: the kernel's MPTCP uses at most {MAX_ENDPOINTS}", group.links.len()),
            "remove some, or use the tunnel",
        ));
    }
    for (key, limit) in
        [("subflows", mptcp.subflows), ("add_addr_accepted", mptcp.add_addr_accepted)]
    {
        if usize::from(limit) > MAX_ENDPOINTS {
            found.push(Trouble::new(
                key,
                format!("the kernel allows at most {MAX_ENDPOINTS}, not {limit}"),
                "write 8 or less",
            ));
        }
    }
}

pub(crate) fn needs() -> Vec<Feature> {
    vec![Feature::PolicyRouting, Feature::Mptcp]
}

pub(crate) fn operations(mptcp: &Mptcp, group: &Group, ports: &[Port]) -> Vec<Operation> {
    let mut operations = policy::sysctls(ports);
    operations.extend(policy::link_tables(group, ports));
    operations.push(Operation::MptcpLimits {
        subflows: mptcp.subflows,
        add_addr_accepted: mptcp.add_addr_accepted,
    });
    operations.push(Operation::Sysctl { key: "net/mptcp/enabled".into(), value: "1".into() });
    let endpoints = ports
        .iter()
        .flat_map(|port| port.egresses.iter().map(move |egress| (port, egress.source.addr())))
        .take(MAX_ENDPOINTS);
    operations.extend(endpoints.zip(1_u8..).map(|((port, address), number)| {
        Operation::MptcpEndpoint {
            // Far from ids that people choose.
            id: FIRST_ENDPOINT + number,
            address,
            device: port.device.clone(),
            subflow: mptcp.role == MptcpRole::Initiator,
            signal: mptcp.role == MptcpRole::Responder,
            backup: port.standby,
            fullmesh: mptcp.fullmesh && mptcp.role == MptcpRole::Initiator,
        }
    }));
    operations
}

const FIRST_ENDPOINT: u8 = 176;
