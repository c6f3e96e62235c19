use super::{More, finding};
use crate::code::Code;
use crate::facts::Facts;
use braid_control::config::{Config, Layer};
use braid_control::finding::Finding;
use braid_control::status::{Trouble, TroubleKind};
use braid_history::Severity;

/// Where the host sends packets.
pub(crate) fn routes(facts: &Facts, found: &mut Vec<Finding>) {
    let config = &facts.config;
    let tunnel = config.interface.name.as_str();
    for endpoint in &facts.host.routes.endpoints_into_tunnel {
        let what = format!(
            "the route to the concentrator {endpoint} leads into the tunnel itself: nothing can \
             leave"
        );
        let told = finding(Code::RouteLoop, Severity::Critical, tunnel, what).mend(format!(
            "ip route add {} via ROUTER dev DEVICE; or remove leave_host_alone from [routing]",
            endpoint.ip()
        ));
        found.push(told);
    }
    for link in facts.host.links.iter().filter(|link| link.rp_filter == 1 && link.exists) {
        // The tunnel's own routing rules make a strict filter harmless; without them it isn't.
        if !config.routing.leave_host_alone || !facts.has_several_links() {
            continue;
        }
        let device = link.device.as_deref().unwrap_or("all");
        let what = format!(
            "{device} drops packets from sources that it has no route to (strict rp_filter): \
             answers over link {} may not arrive",
            link.name
        );
        let told = finding(Code::RpFilter, Severity::Warning, &link.name, what)
            .mend(format!("sysctl -w net.ipv4.conf.{device}.rp_filter=2"));
        found.push(told);
    }
    if let Some(status) = &facts.status {
        for trouble in &status.troubles {
            found.push(of_trouble(tunnel, trouble));
        }
        // From a daemon that still runs an earlier version.
        for warning in status.warnings.iter().skip(status.troubles.len()) {
            let (kind, text) = (TroubleKind::Other, warning.clone());
            found.push(of_trouble(tunnel, &Trouble { kind, text, mend: None }));
        }
        if !status.dns.silent.is_empty() {
            let servers: Vec<String> = status.dns.silent.iter().map(ToString::to_string).collect();
            let instead: Vec<String> = status.dns.instead.iter().map(ToString::to_string).collect();
            let what = format!("name servers don't answer: {}", servers.join(", "));
            let told = finding(Code::DnsSilent, Severity::Warning, tunnel, what);
            let told = match instead.is_empty() {
                true => told,
                false => told.seen(format!("used instead: {}", instead.join(", "))),
            };
            found.push(told.mend("put a name server that answers into /etc/resolv.conf"));
        }
    }
    forwarding(facts, found);
    ipv6(facts, found);
    for (server, device) in &facts.host.routes.names_beside {
        if !config.routing.default_route {
            continue;
        }
        let what = format!(
            "DNS queries go to {server} over {device}, bypassing the tunnel: whoever operates that \
             line sees them, and they stop when it fails"
        );
        let told = finding(Code::DnsBeside, Severity::Note, device, what)
            .mend("put a public name server, or the concentrator's, into /etc/resolv.conf");
        found.push(told);
    }
}

fn of_trouble(tunnel: &str, trouble: &Trouble) -> Finding {
    let (code, severity, usual) = match trouble.kind {
        TroubleKind::RouteBeside => (Code::RouteBeside, Severity::Warning, "ip route show"),
        TroubleKind::RouteRefuses => (Code::RouteRefuses, Severity::Critical, "ip route show"),
        TroubleKind::Firewall => (Code::ForeignFirewall, Severity::Warning, "nft list ruleset"),
        TroubleKind::RuleFile => (
            Code::RuleIgnored,
            Severity::Warning,
            "correct the file, which is reread within a minute; `braid rule list` shows the rules \
             in effect",
        ),
        TroubleKind::RuleNames | TroubleKind::RuleMarks => (
            Code::RuleIgnored,
            Severity::Warning,
            "`braid rule list` shows the rules in effect; `braid explain HOST:PORT` shows where a \
             connection goes",
        ),
        TroubleKind::RuleConflict => (
            Code::RuleConflict,
            Severity::Note,
            "send these names the same way, or distinguish the connections by device or port",
        ),
        TroubleKind::Other => (Code::Warned, Severity::Warning, "braid status"),
    };
    let mend = trouble.mend.clone().unwrap_or_else(|| usual.to_owned());
    finding(code, severity, tunnel, trouble.text.clone()).mend(mend)
}

impl Facts {
    fn has_several_links(&self) -> bool {
        self.host.links.iter().filter(|link| link.exists).count() > 1
    }
}

fn forwarding(facts: &Facts, found: &mut Vec<Finding>) {
    let routing = &facts.config.routing;
    let routes_others = routing.masquerade || !facts.config.interface.listen.is_empty();
    let needs = routes_others && facts.config.interface.layer == Layer::L3;
    // Otherwise the daemon takes care of it.
    if facts.host.forwarding.is_some_and(|(v4, _)| !v4) && needs && routing.leave_host_alone {
        let what = "this host doesn't forward packets: hosts behind it can't reach the tunnel";
        let tunnel = facts.config.interface.name.as_str();
        let told = finding(Code::NotForwarding, Severity::Warning, tunnel, what)
            .mend("sysctl -w net.ipv4.ip_forward=1");
        found.push(told);
    }
}

fn ipv6(facts: &Facts, found: &mut Vec<Finding>) {
    let routes = &facts.host.routes;
    let tunnel = facts.config.interface.name.as_str();
    let (ours, others): (Vec<&String>, Vec<&String>) =
        routes.ipv6_default.iter().partition(|device| *device == tunnel);
    if !routes.ipv6_devices.is_empty() && ours.is_empty() && others.is_empty() {
        let devices = routes.ipv6_devices.join(", ");
        let what = format!(
            "{devices} has an IPv6 address and no route: each connection tries IPv6 first and waits"
        );
        let told = finding(Code::Ipv6NoRoute, Severity::Note, &devices, what).mend(
            "let the concentrator carry IPv6 (an address in [interface], ::/0 in allowed_ips)",
        );
        found.push(told);
    }
    if facts.config.routing.default_route && !carries_ipv6(&facts.config) && !others.is_empty() {
        let device = others[0];
        let what = format!(
            "IPv6 leaves by {device}, bypassing the tunnel, which carries IPv4 only: it gets one \
             link's rate and fails with it"
        );
        let told = finding(Code::Ipv6Beside, Severity::Note, device, what).mend(
            "give both ends an IPv6 address and ::/0 in allowed_ips, or sysctl -w net.ipv6.conf.all.disable_ipv6=1",
        );
        found.push(told);
    }
}

fn carries_ipv6(config: &Config) -> bool {
    let addresses = &config.interface.addresses;
    addresses.iter().any(|address| address.addr().is_ipv6())
}
