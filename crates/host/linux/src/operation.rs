//! Carries out what an engine's set-up asks for, sees whether it is so, and
//! takes it back.

mod file;
mod process;
mod wireguard;

use crate::netlink::{Endpoint, Generic, Limits, Netlink, Rule, RuleAction};
use crate::nft;
use crate::routing::item::{found, gone};
use crate::routing::{Item, RouteItem};
use crate::udp::Family;
use braid_engines::{DeviceKind, Feature, Next, Operation};
use std::io;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

impl From<Operation> for Item {
    /// Operations that are not only the engines' have items of their own.
    fn from(operation: Operation) -> Item {
        match operation {
            Operation::Sysctl { key, value } => Item::Sysctl { key, value },
            Operation::Address { device, net } => Item::Address { interface: device, net },
            Operation::Route(route) => Item::Route(route_item(route)),
            Operation::Rule(rule) => Item::Rule(policy_rule(&rule)),
            Operation::Nft { group, chains } => {
                let interface = group.to_string();
                let ruleset = format!("table inet {} {{\n{chains}}}\n", nft::table(&interface));
                Item::Firewall { interface, ruleset }
            }
            other => Item::Operation(other),
        }
    }
}

/// How long a device may take to appear or vanish with its program or module.
const DEVICE_PATIENCE: Duration = Duration::from_secs(5);

/// Does it.
pub(crate) fn set(operation: &Operation, netlink: &mut Netlink) -> io::Result<()> {
    match operation {
        Operation::Module { name, provides } => {
            load(name).and_then(|()| wait_for(provides.as_str(), netlink)).map_err(lack(operation))
        }
        Operation::Create { device, kind } => {
            netlink.add_device(device, kind).map_err(lack(operation))?;
            let configured = match kind {
                DeviceKind::WireGuard { .. } => wireguard::configure(device, kind),
                _ => Ok(()),
            };
            if configured.is_err() {
                // A device without its keys is nobody's.
                netlink.delete_link(device.as_str())?;
            }
            configured
        }
        Operation::Mtu { device, mtu } => netlink.set_mtu(device.as_str(), *mtu),
        Operation::Enslave { device, master } => enslave(device.as_str(), master.as_str(), netlink),
        Operation::Primary { bond, port } => netlink.set_bond_primary(bond.as_str(), port.as_str()),
        Operation::Up { device } => netlink.set_up(device.as_str()),
        Operation::Down { device } => netlink.set_down(device.as_str()),
        Operation::Teql { device, teql } => {
            let index = netlink.link(device.as_str())?.index;
            netlink.add_root_qdisc(index, teql.as_str()).map_err(lack(operation))
        }
        Operation::NextHop { id, device, gateway, v6, on_link } => {
            let index = netlink.link(device.as_str())?.index;
            netlink.add_next_hop(*id, index, *gateway, *v6, *on_link).map_err(lack(operation))
        }
        Operation::NextHopGroup { id, members, resilient } => {
            netlink.set_next_hop_group(*id, members, *resilient).map_err(lack(operation))
        }
        Operation::MptcpLimits { .. } => {
            let limits = limits_of(operation);
            Generic::mptcp().map_err(lack(operation))?.set_mptcp_limits(limits)
        }
        Operation::MptcpEndpoint { .. } => match endpoint(operation, netlink)? {
            Some(endpoint) => {
                Generic::mptcp().map_err(lack(operation))?.add_mptcp_endpoint(&endpoint)
            }
            None => Ok(()),
        },
        Operation::File { path, contents, mode } => file::write(path, contents, *mode),
        Operation::Process { argv, pid_file, provides, .. } => {
            process::start(argv, pid_file).map_err(lack(operation))?;
            match provides {
                Some(device) => wait_for(device.as_str(), netlink),
                None => Ok(()),
            }
        }
        // They have items of their own.
        Operation::Sysctl { .. }
        | Operation::Address { .. }
        | Operation::Route(_)
        | Operation::Rule(_)
        | Operation::Nft { .. } => Item::from(operation.clone()).set(None, netlink),
    }
}

/// Whether it is so now.
pub(crate) fn is_set(operation: &Operation, netlink: &mut Netlink) -> io::Result<bool> {
    let mut link = |name: &str| found(netlink.link(name));
    match operation {
        Operation::Module { provides, .. } => Ok(link(provides.as_str())?.is_some()),
        Operation::Create { device, .. } => Ok(link(device.as_str())?.is_some()),
        // A port has its master's, which alone sets it (team refuses others).
        Operation::Mtu { device, mtu } => {
            Ok(link(device.as_str())?.is_some_and(|link| link.mtu == *mtu || link.master.is_some()))
        }
        Operation::Enslave { device, master } => {
            let Some(master) = link(master.as_str())? else { return Ok(false) };
            Ok(link(device.as_str())?.is_some_and(|link| link.master == Some(master.index)))
        }
        // The driver remembers it for a port that comes back.
        Operation::Primary { bond, port } => {
            let Some(bond) = link(bond.as_str())? else { return Ok(false) };
            Ok(link(port.as_str())?.is_some_and(|link| link.master == Some(bond.index)))
        }
        Operation::Up { device } => Ok(link(device.as_str())?.is_some_and(|link| link.up)),
        // Its program has set it up again when it is a port.
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
        Operation::MptcpLimits { .. } => {
            let now = Generic::mptcp().map_err(lack(operation))?.mptcp_limits()?;
            Ok(now == limits_of(operation))
        }
        Operation::MptcpEndpoint { id, .. } => {
            let Some(wanted) = endpoint(operation, netlink)? else { return Ok(false) };
            let endpoints = Generic::mptcp().map_err(lack(operation))?.mptcp_endpoints()?;
            Ok(endpoints.iter().any(|there| {
                there.id == *id
                    || (there.address == wanted.address && there.signal == wanted.signal)
            }))
        }
        Operation::File { path, contents, .. } => file::is(path, contents),
        Operation::Process { name, pid_file, .. } => process::is_running(name, pid_file),
        Operation::Sysctl { .. }
        | Operation::Address { .. }
        | Operation::Route(_)
        | Operation::Rule(_)
        | Operation::Nft { .. } => Item::from(operation.clone()).is_set(None, netlink),
    }
}

/// What was there before, where that has to be known to undo it.
pub(crate) fn prior(operation: &Operation, netlink: &mut Netlink) -> io::Result<Option<String>> {
    match operation {
        Operation::Mtu { device, .. } => Ok(Some(netlink.link(device.as_str())?.mtu.to_string())),
        Operation::Enslave { device, .. }
        | Operation::Up { device }
        | Operation::Down { device } => {
            let up = netlink.link(device.as_str())?.up;
            Ok(Some(if up { UP } else { DOWN }.to_owned()))
        }
        Operation::MptcpLimits { .. } => {
            let limits = Generic::mptcp().map_err(lack(operation))?.mptcp_limits()?;
            Ok(Some(format!("{} {}", limits.subflows, limits.add_addr_accepted)))
        }
        _ => Ok(None),
    }
}

/// Takes it back; it need not be there any more.
pub(crate) fn unset(
    operation: &Operation,
    prior: Option<&str>,
    netlink: &mut Netlink,
) -> io::Result<()> {
    match operation {
        // A module may be somebody's by now; a primary goes with its bond.
        Operation::Module { .. } | Operation::Primary { .. } => Ok(()),
        Operation::Create { device, .. } => gone(netlink.delete_link(device.as_str())),
        Operation::Mtu { device, mtu } => {
            let now = found(netlink.link(device.as_str()))?;
            match (now.filter(|link| link.mtu == *mtu), prior.and_then(|mtu| mtu.parse().ok())) {
                (Some(_), Some(before)) => gone(netlink.set_mtu(device.as_str(), before)),
                _ => Ok(()),
            }
        }
        Operation::Enslave { device, .. } => {
            let Some(link) = found(netlink.link(device.as_str()))? else { return Ok(()) };
            if link.master.is_some() {
                gone(netlink.release_port(device.as_str()))?;
            }
            restore_state(device.as_str(), prior, netlink)
        }
        Operation::Up { device } | Operation::Down { device } => {
            restore_state(device.as_str(), prior, netlink)
        }
        Operation::Teql { device, teql } => {
            let Some(link) = found(netlink.link(device.as_str()))? else { return Ok(()) };
            match netlink.root_qdisc(link.index)? {
                Some(kind) if kind == teql.as_str() => gone(netlink.delete_root_qdisc(link.index)),
                _ => Ok(()),
            }
        }
        Operation::NextHop { id, .. } | Operation::NextHopGroup { id, .. } => {
            gone(netlink.delete_next_hop(*id))
        }
        Operation::MptcpLimits { .. } => {
            let mut manager = Generic::mptcp()?;
            let numbers: Vec<u32> =
                prior.unwrap_or_default().split(' ').filter_map(|n| n.parse().ok()).collect();
            match (manager.mptcp_limits()? == limits_of(operation), numbers.as_slice()) {
                (true, &[subflows, add_addr_accepted]) => {
                    manager.set_mptcp_limits(Limits { subflows, add_addr_accepted })
                }
                _ => Ok(()),
            }
        }
        Operation::MptcpEndpoint { id, .. } => {
            let mut manager = Generic::mptcp()?;
            match manager.mptcp_endpoints()?.iter().any(|endpoint| endpoint.id == *id) {
                true => manager.delete_mptcp_endpoint(*id),
                false => Ok(()),
            }
        }
        Operation::File { path, .. } => file::remove(path),
        Operation::Process { name, pid_file, provides, .. } => {
            process::stop(name, pid_file)?;
            let Some(device) = provides else { return Ok(()) };
            wait_until_gone(device.as_str(), netlink)
        }
        Operation::Sysctl { .. }
        | Operation::Address { .. }
        | Operation::Route(_)
        | Operation::Rule(_)
        | Operation::Nft { .. } => Item::from(operation.clone()).unset(prior, netlink),
    }
}

/// Whether setting `other` replaces this one at once, without a gap.
pub(crate) fn is_replaced_by(operation: &Operation, other: &Operation) -> bool {
    match (operation, other) {
        (Operation::NextHopGroup { id: a, .. }, Operation::NextHopGroup { id: b, .. }) => a == b,
        _ => false,
    }
}

/// Whether what is there under its name may be somebody else's.
pub(crate) fn is_exclusive(operation: &Operation) -> bool {
    matches!(
        operation,
        Operation::Create { .. }
            | Operation::Primary { .. }
            | Operation::NextHop { .. }
            | Operation::File { .. }
            | Operation::Process { .. }
    )
}

const UP: &str = "up";
const DOWN: &str = "down";

fn restore_state(device: &str, prior: Option<&str>, netlink: &mut Netlink) -> io::Result<()> {
    let Some(link) = found(netlink.link(device))? else { return Ok(()) };
    match prior {
        Some(UP) if !link.up => gone(netlink.set_up(device)),
        Some(DOWN) if link.up => gone(netlink.set_down(device)),
        _ => Ok(()),
    }
}

fn limits_of(operation: &Operation) -> Limits {
    match operation {
        Operation::MptcpLimits { subflows, add_addr_accepted } => {
            Limits { subflows: (*subflows).into(), add_addr_accepted: (*add_addr_accepted).into() }
        }
        _ => Limits { subflows: 0, add_addr_accepted: 0 },
    }
}

fn enslave(device: &str, master: &str, netlink: &mut Netlink) -> io::Result<()> {
    // First, since routes by a device go when it is set down.
    netlink.link(master)?;
    let was_up = netlink.link(device)?.up;
    netlink.set_down(device)?;
    match netlink.set_bridge(device, master) {
        Ok(()) => netlink.set_up(device),
        Err(error) => {
            if was_up {
                netlink.set_up(device)?;
            }
            Err(error)
        }
    }
}

/// None for what is no endpoint; an endpoint by its interface's number.
fn endpoint(operation: &Operation, netlink: &mut Netlink) -> io::Result<Option<Endpoint>> {
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

/// Loads a kernel module.
fn load(name: &str) -> io::Result<()> {
    let mut command = Command::new("modprobe");
    command.arg(name).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    match command.status()?.success() {
        true => Ok(()),
        false => Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP)),
    }
}

fn wait_for(device: &str, netlink: &mut Netlink) -> io::Result<()> {
    wait(|| Ok(found(netlink.link(device))?.is_some())).map_err(|error| match error.kind() {
        io::ErrorKind::TimedOut => io::Error::new(
            io::ErrorKind::NotFound,
            format!("the device {device} did not appear (it can only be in the first network namespace, if it is TEQL's)"),
        ),
        _ => error,
    })
}

fn wait_until_gone(device: &str, netlink: &mut Netlink) -> io::Result<()> {
    wait(|| Ok(found(netlink.link(device))?.is_none()))
}

fn wait(mut until: impl FnMut() -> io::Result<bool>) -> io::Result<()> {
    let give_up = Instant::now() + DEVICE_PATIENCE;
    while !until()? {
        if Instant::now() >= give_up {
            return Err(io::Error::from(io::ErrorKind::TimedOut));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Says what brings what the kernel or the host lacks.
fn lack(operation: &Operation) -> impl FnOnce(io::Error) -> io::Error {
    let feature: Option<Feature> = operation.needs();
    move |error| {
        let code = error.raw_os_error();
        let absent = matches!(code, Some(libc::EOPNOTSUPP | libc::ENOENT | libc::EAFNOSUPPORT));
        match feature.filter(|_| absent || error.kind() == io::ErrorKind::NotFound) {
            Some(feature) => io::Error::new(io::ErrorKind::Unsupported, feature.how_to_get()),
            None => error,
        }
    }
}

fn route_item(route: braid_engines::Route) -> RouteItem {
    let (gateway, interface, on_link, next_hop) = match route.next {
        Next::Device { device, gateway, on_link } => {
            (gateway, Some(device.to_string()), on_link, None)
        }
        Next::Group(id) => (None, None, false, Some(id)),
    };
    RouteItem {
        gateway,
        interface,
        on_link,
        next_hop,
        source: route.source,
        metric: route.metric,
        ..RouteItem::new(route.destination, route.table)
    }
}

fn policy_rule(rule: &braid_engines::Rule) -> Rule {
    let family = if rule.v6 { Family::V6 } else { Family::V4 };
    let action =
        RuleAction::Lookup { table: rule.table, suppress_prefix_len: rule.suppress_prefix_len };
    Rule { from: rule.from, fwmark: rule.fwmark, ..Rule::new(family, rule.priority, action) }
}
