//! MPTCP's path manager.

use crate::netlink::{Endpoint, Generic, Limits, Netlink};
use braid_engines::Operation;
use std::io;

/// The limits now, for [`restore_limits`].
pub(super) fn limits() -> io::Result<String> {
    let limits = Generic::mptcp()?.mptcp_limits()?;
    Ok(format!("{} {}", limits.subflows, limits.add_addr_accepted))
}

/// Sets the limits that were before, unless somebody has set others than `ours` since.
pub(super) fn restore_limits(ours: Limits, prior: Option<&str>) -> io::Result<()> {
    let mut manager = Generic::mptcp()?;
    let numbers: Vec<u32> =
        prior.unwrap_or_default().split(' ').filter_map(|n| n.parse().ok()).collect();
    match (manager.mptcp_limits()? == ours, numbers.as_slice()) {
        (true, &[subflows, add_addr_accepted]) => {
            manager.set_mptcp_limits(Limits { subflows, add_addr_accepted })
        }
        _ => Ok(()),
    }
}

/// Whether an endpoint has this number, or this one's address and use.
pub(super) fn has_endpoint(wanted: &Endpoint) -> io::Result<bool> {
    let endpoints = Generic::mptcp()?.mptcp_endpoints()?;
    Ok(endpoints.iter().any(|there| {
        there.id == wanted.id || (there.address == wanted.address && there.signal == wanted.signal)
    }))
}

/// Removes an endpoint, if it is there.
pub(super) fn remove_endpoint(id: u8) -> io::Result<()> {
    let mut manager = Generic::mptcp()?;
    match manager.mptcp_endpoints()?.iter().any(|endpoint| endpoint.id == id) {
        true => manager.delete_mptcp_endpoint(id),
        false => Ok(()),
    }
}

/// None for what is no endpoint; an endpoint by its interface's number.
pub(super) fn endpoint(
    operation: &Operation,
    netlink: &mut Netlink,
) -> io::Result<Option<Endpoint>> {
    let &Operation::MptcpEndpoint { id, address, ref device, subflow, signal, backup, fullmesh } =
        operation
    else {
        return Ok(None);
    };
    // The kernel announces an address that is bound to no device.
    let interface = netlink.link(device.as_str())?.index;
    Ok(Some(Endpoint {
        id,
        address,
        interface: Some(interface),
        subflow,
        signal,
        backup,
        fullmesh,
    }))
}
