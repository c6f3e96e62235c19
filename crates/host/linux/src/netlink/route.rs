//! Routes (`RTM_*ROUTE`).

use super::message::{Request, attributes, u16_at, u32_at};
use super::{Netlink, family, ip, octets, unspecified};
use braid_engines::{MAIN_TABLE, RouteKind};
use ipnet::IpNet;
use std::io;
use std::net::IpAddr;

/// `RTA_VIA` of linux/rtnetlink.h: a gateway of the other IP version.
const RTA_VIA: u16 = 18;
const RTA_NH_ID: u16 = 30;
const RTAX_MTU: u16 = 2;
const RTAX_INITCWND: u16 = 11;
const RTAX_INITRWND: u16 = 14;
/// The kernel's own table of this host's addresses (`RT_TABLE_LOCAL`).
const LOCAL_TABLE: u32 = 255;
const RTNH_F_ONLINK: u32 = 4;
/// Bytes of `struct rtnexthop`.
const NEXT_HOP_LEN: usize = 8;

/// A route. A multipath route is represented by one per next hop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Destination network.
    pub destination: IpNet,
    /// The routing table.
    pub table: u32,
    /// What happens to packets that match.
    pub kind: RouteKind,
    /// The next hop; none when the destination is on the link itself.
    pub gateway: Option<IpAddr>,
    /// The gateway is on the link even if none of our addresses implies that.
    pub on_link: bool,
    /// The outgoing interface's number.
    pub interface: Option<u32>,
    /// The source address if the sender chose none.
    pub source: Option<IpAddr>,
    /// Lower is preferred. IPv6 routes without one get 1024.
    pub metric: u32,
    /// MTU of the route, bytes.
    pub mtu: Option<u32>,
    /// Initial window of TCP connections in both directions, in segments.
    pub initial_window: Option<u32>,
    /// Who set it (`RTPROT_…`).
    pub protocol: u8,
    /// The next-hop object or group that it uses.
    pub next_hop: Option<u32>,
}

impl Route {
    /// A unicast route in the main table, set by us.
    pub fn to(destination: IpNet) -> Route {
        Route {
            destination,
            table: MAIN_TABLE,
            kind: RouteKind::Unicast,
            gateway: None,
            on_link: false,
            interface: None,
            source: None,
            metric: 0,
            mtu: None,
            initial_window: None,
            protocol: libc::RTPROT_STATIC,
            next_hop: None,
        }
    }

    /// Whether the kernel derived it from an address.
    pub fn is_the_kernels(&self) -> bool {
        self.protocol == libc::RTPROT_KERNEL
    }

    /// Whether it is a default route.
    pub fn is_default(&self) -> bool {
        self.destination.prefix_len() == 0
    }
}

impl Netlink {
    /// All routes of all tables except `local`, both IP versions.
    ///
    /// # Errors
    /// Those of the socket.
    pub fn routes(&mut self) -> io::Result<Vec<Route>> {
        let mut routes = Vec::new();
        for family in [libc::AF_INET, libc::AF_INET6] {
            let mut header = [0; 12];
            header[0] = family as u8;
            let request = Request::new(libc::RTM_GETROUTE, libc::NLM_F_DUMP).fixed(&header);
            self.query(request, |kind, body| {
                if kind == libc::RTM_NEWROUTE {
                    routes.extend(parse(body));
                }
            })?;
        }
        Ok(routes)
    }

    /// All tables' default routes through an interface, those of the main table first, then by
    /// metric: the links' gateways.
    ///
    /// # Errors
    /// Those of the socket.
    pub fn default_routes(&mut self) -> io::Result<Vec<Route>> {
        let mut routes = self.routes()?;
        routes.retain(|route| {
            let sends = route.kind == RouteKind::Unicast && route.interface.is_some();
            route.is_default() && sends
        });
        routes.sort_by_key(|route| (route.table != MAIN_TABLE, route.metric));
        Ok(routes)
    }

    /// Adds a route.
    ///
    /// # Errors
    /// `AlreadyExists`, or the kernel's error (such as a gateway that isn't on a link).
    pub fn add_route(&mut self, route: &Route) -> io::Result<()> {
        let flags = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
        self.change(request(libc::RTM_NEWROUTE, flags, route))
    }

    /// Adds a route, or replaces the one of the same destination, table and
    /// metric.
    ///
    /// # Errors
    /// The kernel's error (such as a gateway that isn't on a link).
    pub fn replace_route(&mut self, route: &Route) -> io::Result<()> {
        let flags = libc::NLM_F_CREATE | libc::NLM_F_REPLACE;
        self.change(request(libc::RTM_NEWROUTE, flags, route))
    }

    /// Deletes a route.
    ///
    /// # Errors
    /// ESRCH when there is none like it.
    pub fn delete_route(&mut self, route: &Route) -> io::Result<()> {
        self.change(request(libc::RTM_DELROUTE, 0, route))
    }
}

/// Reads the body of an `RTM_NEWROUTE` or `RTM_DELROUTE`: empty for kinds of routes that we don't
/// use (this host's own addresses, multicast, cached).
pub(super) fn parse(body: &[u8]) -> Vec<Route> {
    parse_all(body).unwrap_or_default()
}

fn parse_all(body: &[u8]) -> Option<Vec<Route>> {
    let &[family, prefix_len, _, _, table, protocol, _, kind, ..] = body.first_chunk::<12>()?;
    let flags = u32_at(body, 8)?;
    if flags & libc::RTM_F_CLONED != 0 {
        return None;
    }
    let mut route = Route::to(IpNet::new(unspecified(family)?, 0).ok()?);
    route.kind = kind_of(kind)?;
    (route.table, route.protocol) = (table.into(), protocol);
    route.on_link = flags & RTNH_F_ONLINK != 0;
    let mut hops = Vec::new();
    for (kind, payload) in attributes(body.get(12..)?) {
        match kind {
            libc::RTA_DST => route.destination = IpNet::new(ip(payload)?, prefix_len).ok()?,
            libc::RTA_TABLE => route.table = u32_at(payload, 0)?,
            libc::RTA_PREFSRC => route.source = ip(payload),
            libc::RTA_PRIORITY => route.metric = u32_at(payload, 0)?,
            libc::RTA_METRICS => {
                let metric = |wanted: u16| {
                    let mut metrics = attributes(payload);
                    metrics.find(|(kind, _)| *kind == wanted).and_then(|(_, it)| u32_at(it, 0))
                };
                route.mtu = metric(RTAX_MTU);
                route.initial_window = metric(RTAX_INITCWND);
            }
            libc::RTA_OIF => route.interface = u32_at(payload, 0),
            libc::RTA_GATEWAY | RTA_VIA => route.gateway = gateway(kind, payload),
            RTA_NH_ID => route.next_hop = u32_at(payload, 0),
            libc::RTA_MULTIPATH => hops = next_hops(payload),
            _ => {}
        }
    }
    if (route.kind, route.table) == (RouteKind::Local, LOCAL_TABLE) {
        return None;
    }
    if hops.is_empty() {
        return Some(vec![route]);
    }
    let by = |(interface, gateway)| Route { interface: Some(interface), gateway, ..route.clone() };
    Some(hops.into_iter().map(by).collect())
}

fn gateway(kind: u16, payload: &[u8]) -> Option<IpAddr> {
    match kind {
        // The address follows its family.
        RTA_VIA => ip(payload.get(2..)?),
        _ => ip(payload),
    }
}

fn next_hops(mut rest: &[u8]) -> Vec<(u32, Option<IpAddr>)> {
    let mut hops = Vec::new();
    while let (Some(len), Some(interface)) = (u16_at(rest, 0), u32_at(rest, 4)) {
        let Some(inner) = rest.get(NEXT_HOP_LEN..usize::from(len)) else { break };
        let gateway = attributes(inner).find_map(|(kind, payload)| match kind {
            libc::RTA_GATEWAY | RTA_VIA => gateway(kind, payload),
            _ => None,
        });
        hops.push((interface, gateway));
        rest = rest.get(usize::from(len).next_multiple_of(4)..).unwrap_or_default();
    }
    hops
}

fn request(kind: u16, flags: libc::c_int, route: &Route) -> Request {
    let destination = route.destination.network();
    let scope = match (route.kind, route.gateway) {
        (RouteKind::Local, _) if destination.is_ipv4() => libc::RT_SCOPE_HOST,
        // Only IPv4 has scopes; a destination on the link itself has scope link.
        (RouteKind::Unicast, None) if route.next_hop.is_none() && destination.is_ipv4() => {
            libc::RT_SCOPE_LINK
        }
        _ => libc::RT_SCOPE_UNIVERSE,
    };
    // struct rtmsg: family, lengths, tos, table (too small for ours), …
    let mut header = [0; 12];
    header[0] = family(destination);
    header[1] = route.destination.prefix_len();
    header[5] = route.protocol;
    header[6] = scope;
    header[7] = number_of(route.kind);
    if route.on_link {
        header[8..12].copy_from_slice(&RTNH_F_ONLINK.to_ne_bytes());
    }
    let mut request = Request::new(kind, flags).fixed(&header).u32(libc::RTA_TABLE, route.table);
    if !route.is_default() {
        request = request.attribute(libc::RTA_DST, &octets(destination));
    }
    if let Some(gateway) = route.gateway {
        request = match gateway.is_ipv4() == destination.is_ipv4() {
            true => request.attribute(libc::RTA_GATEWAY, &octets(gateway)),
            false => {
                let mut via = u16::from(family(gateway)).to_ne_bytes().to_vec();
                via.extend(octets(gateway));
                request.attribute(RTA_VIA, &via)
            }
        };
    }
    if let Some(interface) = route.interface {
        request = request.u32(libc::RTA_OIF, interface);
    }
    if let Some(next_hop) = route.next_hop {
        request = request.u32(RTA_NH_ID, next_hop);
    }
    if let Some(source) = route.source {
        request = request.attribute(libc::RTA_PREFSRC, &octets(source));
    }
    let metrics = [
        (RTAX_MTU, route.mtu),
        (RTAX_INITCWND, route.initial_window),
        (RTAX_INITRWND, route.initial_window),
    ];
    if metrics.iter().any(|(_, value)| value.is_some()) {
        request = request.nested(libc::RTA_METRICS, |nested| {
            let set = metrics.iter().filter_map(|(kind, value)| Some((*kind, (*value)?)));
            set.fold(nested, |nested, (kind, value)| nested.u32(kind, value))
        });
    }
    if route.metric != 0 {
        request = request.u32(libc::RTA_PRIORITY, route.metric);
    }
    request
}

fn kind_of(number: u8) -> Option<RouteKind> {
    match number {
        libc::RTN_UNICAST => Some(RouteKind::Unicast),
        libc::RTN_UNREACHABLE => Some(RouteKind::Unreachable),
        libc::RTN_BLACKHOLE => Some(RouteKind::Blackhole),
        libc::RTN_PROHIBIT => Some(RouteKind::Prohibit),
        libc::RTN_THROW => Some(RouteKind::Throw),
        libc::RTN_LOCAL => Some(RouteKind::Local),
        _ => None,
    }
}

fn number_of(kind: RouteKind) -> u8 {
    match kind {
        RouteKind::Unicast => libc::RTN_UNICAST,
        RouteKind::Unreachable => libc::RTN_UNREACHABLE,
        RouteKind::Blackhole => libc::RTN_BLACKHOLE,
        RouteKind::Prohibit => libc::RTN_PROHIBIT,
        RouteKind::Throw => libc::RTN_THROW,
        RouteKind::Local => libc::RTN_LOCAL,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn any_body_is_read_or_skipped(body: Vec<u8>) {
            parse(&body);
        }
    }
}
