//! Carries out [`Operation`]s on this host: applies, checks and undoes them. Each is recorded
//! first: see [`crate::journal`].

pub(crate) mod absence;
mod before;
mod device;
mod docker_user;
mod file;
mod forwarding;
mod module;
mod mptcp;
mod process;
mod route;
mod sysctl;
mod wireguard;

pub use before::{Before, before};

use crate::netlink::{Generic, Limits, Netlink};
use crate::nft;
use absence::{found, gone};
use braid_engines::{DeviceKind, Feature, Operation};
use std::io;

/// Applies it. `prior` is what [`prior`] found.
pub(crate) fn set(
    operation: &Operation,
    prior: Option<&str>,
    netlink: &mut Netlink,
) -> io::Result<()> {
    match operation {
        Operation::Sysctl { key, value } => sysctl::write(key, value),
        Operation::Forwarding(family) => forwarding::set(*family, prior),
        Operation::Address { device, net } => {
            let index = netlink.link(device)?.index;
            netlink.add_address(index, *net).map_err(is_off(Some(device), net.addr().is_ipv6()))
        }
        Operation::Route(route) => {
            let v6 = route.destination.addr().is_ipv6();
            route::set(route, netlink).map_err(is_off(route.device.as_deref(), v6))
        }
        Operation::Rule(rule) => netlink.add_rule(rule),
        Operation::Firewall(table) => nft::replace(table),
        Operation::DockerUser { family, rule } => docker_user::set(*family, rule),
        Operation::Module { name, provides } => {
            module::with(operation.needs(), || module::load(name))
                .and_then(|()| device::wait_for(provides.as_str(), netlink))
                .map_err(lack(operation))
        }
        Operation::Create { device, kind } => {
            module::with(operation.needs(), || netlink.add_device(device, kind))
                .map_err(lack(operation))?;
            let configured = match kind {
                DeviceKind::WireGuard { .. } => wireguard::configure(device, kind),
                _ => Ok(()),
            };
            if configured.is_err() {
                // A device without keys is useless.
                netlink.delete_link(device.as_str())?;
            }
            configured
        }
        Operation::Mtu { device, mtu } => netlink.set_mtu(device.as_str(), *mtu),
        Operation::Enslave { device, master } => {
            device::enslave(device.as_str(), master.as_str(), netlink)
        }
        Operation::Primary { bond, port } => netlink.set_bond_primary(bond.as_str(), port.as_str()),
        Operation::Up { device } => netlink.set_up(device.as_str()),
        Operation::Down { device } => netlink.set_down(device.as_str()),
        Operation::Teql { device, teql } => {
            let index = netlink.link(device.as_str())?.index;
            module::with(operation.needs(), || netlink.add_root_qdisc(index, teql.as_str()))
                .map_err(lack(operation))
        }
        Operation::NextHop { id, device, gateway, v6, on_link } => {
            let index = netlink.link(device.as_str())?.index;
            netlink.add_next_hop(*id, index, *gateway, *v6, *on_link).map_err(lack(operation))
        }
        Operation::NextHopGroup { id, members, resilient } => {
            netlink.set_next_hop_group(*id, members, *resilient).map_err(lack(operation))
        }
        Operation::MptcpLimits { subflows, add_addr_accepted } => {
            let limits = limits(*subflows, *add_addr_accepted);
            Generic::mptcp().map_err(lack(operation))?.set_mptcp_limits(limits)
        }
        Operation::MptcpEndpoint { .. } => match mptcp::endpoint(operation, netlink)? {
            Some(endpoint) => {
                Generic::mptcp().map_err(lack(operation))?.add_mptcp_endpoint(&endpoint)
            }
            None => Ok(()),
        },
        Operation::File { path, contents, mode } => file::write(path, contents, *mode),
        Operation::Process { name, argv, pid_file, provides } => {
            let feature = operation.needs().and_then(Feature::of_kernel);
            module::with_program(feature, || process::start(argv, pid_file))
                .map_err(lack(operation))?;
            match provides {
                Some(device) => device::wait_for_program(device.as_str(), name, pid_file, netlink),
                None => Ok(()),
            }
        }
    }
}

/// Whether it is in effect, whoever set it. `prior` is given if we did.
pub(crate) fn is_set(
    operation: &Operation,
    prior: Option<&str>,
    netlink: &mut Netlink,
) -> io::Result<bool> {
    let mut link = |name: &str| found(netlink.link(name));
    match operation {
        Operation::Sysctl { key, value } => Ok(sysctl::read(key)? == *value),
        Operation::Forwarding(family) => forwarding::is_set(*family, prior),
        Operation::Address { device, net } => {
            let Some(index) = link(device)?.map(|link| link.index) else { return Ok(false) };
            let addresses = netlink.addresses()?;
            Ok(addresses.iter().any(|a| a.interface == index && a.net == *net))
        }
        Operation::Route(route) => route::is_set(route, netlink),
        Operation::Rule(rule) => Ok(netlink.rules()?.contains(rule)),
        Operation::Firewall(table) => nft::exists(&table.interface),
        Operation::DockerUser { family, rule } => docker_user::is_set(*family, rule),
        Operation::Module { provides, .. } => Ok(link(provides.as_str())?.is_some()),
        Operation::Create { device, .. } => Ok(link(device.as_str())?.is_some()),
        // A port has its master's MTU, which only the master sets (team refuses others).
        Operation::Mtu { device, mtu } => {
            Ok(link(device.as_str())?.is_some_and(|link| link.mtu == *mtu || link.master.is_some()))
        }
        Operation::Enslave { device, master } => {
            let Some(master) = link(master.as_str())? else { return Ok(false) };
            Ok(link(device.as_str())?.is_some_and(|link| link.master == Some(master.index)))
        }
        // The driver remembers the primary for a port that returns.
        Operation::Primary { bond, port } => {
            let Some(bond) = link(bond.as_str())? else { return Ok(false) };
            Ok(link(port.as_str())?.is_some_and(|link| link.master == Some(bond.index)))
        }
        Operation::Up { device } => Ok(link(device.as_str())?.is_some_and(|link| link.up)),
        // Once it is a port, its program has set it up again.
        Operation::Down { device } => {
            Ok(link(device.as_str())?.is_some_and(|link| !link.up || link.master.is_some()))
        }
        Operation::Teql { device, teql } => {
            let Some(link) = link(device.as_str())? else { return Ok(false) };
            Ok(netlink.root_qdisc(link.index)?.as_deref() == Some(teql.as_str()))
        }
        Operation::NextHop { id, .. } => {
            Ok(netlink.next_hops().map_err(lack(operation))?.iter().any(|hop| hop.id == *id))
        }
        Operation::NextHopGroup { id, members, .. } => {
            let hops = netlink.next_hops().map_err(lack(operation))?;
            Ok(hops.iter().any(|hop| hop.id == *id && hop.members == *members))
        }
        Operation::MptcpLimits { subflows, add_addr_accepted } => {
            let now = Generic::mptcp().map_err(lack(operation))?.mptcp_limits()?;
            Ok(now == limits(*subflows, *add_addr_accepted))
        }
        Operation::MptcpEndpoint { .. } => match mptcp::endpoint(operation, netlink)? {
            Some(wanted) => mptcp::has_endpoint(&wanted).map_err(lack(operation)),
            None => Ok(false),
        },
        Operation::File { path, contents, .. } => file::is(path, contents),
        Operation::Process { name, pid_file, .. } => process::is_running(name, pid_file),
    }
}

/// The previous state, if undoing needs it.
pub(crate) fn prior(operation: &Operation, netlink: &mut Netlink) -> io::Result<Option<String>> {
    match operation {
        Operation::Sysctl { key, .. } => sysctl::read(key).map(Some),
        Operation::Forwarding(family) => forwarding::prior(*family).map(Some),
        Operation::Mtu { device, .. } => Ok(Some(netlink.link(device.as_str())?.mtu.to_string())),
        Operation::Enslave { device, .. }
        | Operation::Up { device }
        | Operation::Down { device } => device::state(device.as_str(), netlink).map(Some),
        Operation::MptcpLimits { .. } => mptcp::limits().map(Some).map_err(lack(operation)),
        _ => Ok(None),
    }
}

/// Undoes it; it need not exist any more.
pub(crate) fn unset(
    operation: &Operation,
    prior: Option<&str>,
    netlink: &mut Netlink,
) -> io::Result<()> {
    match operation {
        Operation::Sysctl { key, value } => sysctl::restore(key, value, prior),
        Operation::Forwarding(family) => forwarding::unset(*family, prior),
        Operation::Address { device, net } => match found(netlink.link(device))? {
            Some(link) => gone(netlink.delete_address(link.index, *net)),
            None => Ok(()),
        },
        Operation::Route(route) => route::unset(route, netlink),
        Operation::Rule(rule) => gone(netlink.delete_rule(rule)),
        Operation::Firewall(table) => nft::delete(&table.interface),
        Operation::DockerUser { family, rule } => docker_user::unset(*family, rule),
        // A module may be used by others by now; a primary goes with its bond.
        Operation::Module { .. } | Operation::Primary { .. } => Ok(()),
        Operation::Create { device, .. } => gone(netlink.delete_link(device.as_str())),
        Operation::Mtu { device, mtu } => {
            device::restore_mtu(device.as_str(), *mtu, prior, netlink)
        }
        Operation::Enslave { device, .. } => device::release(device.as_str(), prior, netlink),
        Operation::Up { device } | Operation::Down { device } => {
            device::restore_state(device.as_str(), prior, netlink)
        }
        Operation::Teql { device, teql } => {
            device::remove_teql(device.as_str(), teql.as_str(), netlink)
        }
        Operation::NextHop { id, .. } | Operation::NextHopGroup { id, .. } => {
            gone(netlink.delete_next_hop(*id))
        }
        Operation::MptcpLimits { subflows, add_addr_accepted } => {
            mptcp::restore_limits(limits(*subflows, *add_addr_accepted), prior)
        }
        Operation::MptcpEndpoint { id, .. } => mptcp::remove_endpoint(*id),
        Operation::File { path, .. } => file::remove(path),
        Operation::Process { name, pid_file, provides, .. } => {
            process::stop(name, pid_file)?;
            let Some(device) = provides else { return Ok(()) };
            device::wait_until_gone(device.as_str(), netlink)
        }
    }
}

/// Undoes what a [`set`] that failed halfway did, for operations of several steps.
pub(crate) fn undo_half(operation: &Operation, prior: Option<&str>) -> io::Result<()> {
    match operation {
        Operation::Forwarding(family) => forwarding::unset(*family, prior),
        _ => Ok(()),
    }
}

/// Whether applying `other` replaces this one atomically.
pub(crate) fn is_replaced_by(operation: &Operation, other: &Operation) -> bool {
    match (operation, other) {
        (Operation::NextHopGroup { id: a, .. }, Operation::NextHopGroup { id: b, .. }) => a == b,
        (Operation::Firewall(a), Operation::Firewall(b)) => a.interface == b.interface,
        _ => false,
    }
}

/// Whether something else may have its name: then it is applied in any case, which reports a
/// conflict.
pub(crate) fn is_exclusive(operation: &Operation) -> bool {
    matches!(
        operation,
        // A table with our name is ours, but may have other contents.
        Operation::Firewall(_)
            | Operation::Create { .. }
            | Operation::Primary { .. }
            | Operation::NextHop { .. }
            | Operation::File { .. }
            | Operation::Process { .. }
    )
}

/// Whether it survives a reboot. The state recorded before the reboot no longer applies.
pub(crate) fn outlives_boot(operation: &Operation) -> bool {
    matches!(operation, Operation::File { .. })
}

fn limits(subflows: u8, add_addr_accepted: u8) -> Limits {
    Limits { subflows: subflows.into(), add_addr_accepted: add_addr_accepted.into() }
}

/// If IPv6 is disabled, the kernel only reports a permission error.
fn is_off(device: Option<&str>, v6: bool) -> impl FnOnce(io::Error) -> io::Error {
    let key = device.filter(|_| v6).map(|device| format!("net.ipv6.conf.{device}.disable_ipv6"));
    move |error| match key {
        Some(key) if sysctl::read(&key).is_ok_and(|value| value == "1") => io::Error::new(
            io::ErrorKind::Unsupported,
            format!("IPv6 is disabled there ({key}=1), so only IPv4 goes through the tunnel"),
        ),
        _ => error,
    }
}

/// Adds how to get what the kernel or the host lacks.
fn lack(operation: &Operation) -> impl FnOnce(io::Error) -> io::Error {
    let feature: Option<Feature> = operation.needs();
    move |error| {
        let absent = error.raw_os_error().is_some_and(|code| module::LACKING.contains(&code));
        match feature.filter(|_| absent || error.kind() == io::ErrorKind::NotFound) {
            Some(feature) => io::Error::new(io::ErrorKind::Unsupported, feature.how_to_get()),
            None => error,
        }
    }
}
