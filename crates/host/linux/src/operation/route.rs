//! Routes by their devices' names.

use super::absence::{found, gone};
use crate::netlink::{self, Netlink, PROTOCOL};
use braid_engines::{Family, Route, RouteKind};
use std::io;

/// The metric that the kernel gives an IPv6 route without one.
const IPV6_METRIC: u32 = 1024;

/// Adds it.
pub(super) fn set(route: &Route, netlink: &mut Netlink) -> io::Result<()> {
    let route = resolve(route, netlink)?;
    netlink.add_route(&route)
}

/// Whether it exists, whoever added it.
pub(super) fn is_set(route: &Route, netlink: &mut Netlink) -> io::Result<bool> {
    let Some(wanted) = found(resolve(route, netlink))? else { return Ok(false) };
    Ok(netlink.routes()?.iter().any(|there| is_same(route, &wanted, there)))
}

/// Deletes it, if it exists.
pub(super) fn unset(route: &Route, netlink: &mut Netlink) -> io::Result<()> {
    match found(resolve(route, netlink))? {
        Some(route) => gone(netlink.delete_route(&route)),
        None => Ok(()),
    }
}

fn resolve(route: &Route, netlink: &mut Netlink) -> io::Result<netlink::Route> {
    let interface = match &route.device {
        Some(name) => Some(netlink.link(name)?.index),
        None => None,
    };
    Ok(netlink::Route {
        table: route.table,
        kind: route.kind,
        gateway: route.gateway,
        on_link: route.on_link,
        interface,
        metric: route.metric,
        protocol: route.protocol.unwrap_or(PROTOCOL),
        next_hop: route.next_hop,
        source: route.source,
        initial_window: route.initial_window,
        ..netlink::Route::to(route.destination)
    })
}

/// Whether a kernel route equals this one (ours or not).
fn is_same(route: &Route, wanted: &netlink::Route, found: &netlink::Route) -> bool {
    let metric = match (route.metric, Family::of(route.destination.addr())) {
        (0, Family::V6) => IPV6_METRIC,
        (metric, _) => metric,
    };
    // The kernel shows IPv6 unreachable routes with device `lo`.
    let by = match route.next_hop {
        // Shown with the group's hops, one by one.
        Some(_) => found.next_hop == route.next_hop,
        None => {
            let same = (found.interface, found.gateway, found.initial_window)
                == (wanted.interface, wanted.gateway, wanted.initial_window);
            found.next_hop.is_none() && (route.kind != RouteKind::Unicast || same)
        }
    };
    by && (found.destination, found.table, found.kind, found.metric)
        == (wanted.destination, wanted.table, wanted.kind, metric)
}
