//! MPTCP's path manager.

use crate::netlink::{Endpoint, Generic, Limits, Netlink};
use braid_engines::Operation;
use std::io;

/// The limits now, for [`restore_limits`].
pub(super) fn limits() -> io::Result<String> {
    let limits = Generic::mptcp()?.mptcp_limits()?;
    Ok(format!("{} {}", limits.subflows, limits.add_addr_accepted))
}

/// Restores the previous limits, unless somebody has changed them from `ours` since.
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

/// Whether an endpoint has this number, or the same address and flags.
pub(super) fn has_endpoint(wanted: &Endpoint) -> io::Result<bool> {
    let endpoints = Generic::mptcp()?.mptcp_endpoints()?;
    Ok(endpoints.iter().any(|there| {
        there.id == wanted.id || (there.address == wanted.address && there.signal == wanted.signal)
    }))
}

/// Removes an endpoint, if it exists.
pub(super) fn remove_endpoint(id: u8) -> io::Result<()> {
    let mut manager = Generic::mptcp()?;
    match manager.mptcp_endpoints()?.iter().any(|endpoint| endpoint.id == id) {
        true => manager.delete_mptcp_endpoint(id),
        false => Ok(()),
    }
}

/// The endpoint of the operation, with its interface's index; `None` if it is another operation.
pub(super) fn endpoint(
    operation: &Operation,
    netlink: &mut Netlink,
) -> io::Result<Option<Endpoint>> {
    let &Operation::MptcpEndpoint { id, address, ref device, subflow, signal, backup, fullmesh } =
        operation
    else {
        return Ok(None);
    };
    // The kernel announces only addresses that aren't bound to a device.
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
