//! RouterOS 7: everything from routes to the bond, as a script for `/import`. EoIP replaces GRETAP,
//! so the other end must be RouterOS, too.

use super::{Exported, Format, Inexpressible, head};
use crate::carrier;
use crate::engine::pppoe::{Pppoe, PppoeRole};
use crate::operation::Operation;
use crate::{
    BondMode, Bonding, Classifier, Ecmp, EcmpHash, Engine, Family, Group, GroupLink, LacpRate,
    Monitor, Over, Pcc, WireGuard, XmitHash,
};
use std::fmt::Write;

pub(super) fn export(group: &Group) -> Result<Vec<Exported>, Inexpressible> {
    let mut script = Script { group, text: head(group, "#") };
    match &group.engine {
        Engine::Bonding(bonding) => script.bond(bonding)?,
        Engine::Ecmp(ecmp) => script.ecmp(ecmp)?,
        Engine::Pcc(pcc) => script.pcc(pcc)?,
        Engine::PppoeMultilink(pppoe) => script.mlppp(pppoe)?,
        Engine::Team(_) | Engine::Teql | Engine::Mptcp(_) => {
            return Err(Format::Routeros.lacks_engine(group));
        }
    }
    Ok(vec![Exported { path: format!("{}.rsc", group.name), contents: script.text }])
}

/// A script under construction.
struct Script<'g> {
    group: &'g Group,
    text: String,
}

impl Script<'_> {
    fn line(&mut self, line: impl AsRef<str>) {
        // Writing to a String can't fail.
        let _ = writeln!(self.text, "{}", line.as_ref());
    }

    fn part(&mut self, what: &str) {
        self.line(format!("\n# {what}"));
    }

    fn bond(&mut self, bonding: &Bonding) -> Result<(), Inexpressible> {
        let group = self.group;
        let name = &group.name;
        let ports = match &group.over {
            Over::Direct => group.links.iter().map(|link| link.device.to_string()).collect(),
            Over::Vxlan { .. } => return Err(Format::Routeros.lacks("VXLAN as port of a bond")),
            over => self.tunnels(over)?,
        };
        self.part("The bond");
        let mut line = format!(
            "/interface bonding add name={name} mode={} slaves={}",
            bonding.mode,
            ports.join(",")
        );
        if bonding.mode.hashes() {
            let _ = write!(line, " transmit-hash-policy={}", hash(bonding.hash)?);
        }
        match &bonding.monitor {
            // EoIP has no carrier: its own keepalive serves as one.
            Monitor::Carrier { interval_ms, up_delay_ms, down_delay_ms } => {
                let _ = write!(
                    line,
                    " link-monitoring=mii mii-interval={interval_ms}ms up-delay={up_delay_ms}ms down-delay={down_delay_ms}ms"
                );
            }
            Monitor::Arp { interval_ms, targets, .. } => {
                let targets: Vec<String> = targets.iter().map(ToString::to_string).collect();
                let _ = write!(
                    line,
                    " link-monitoring=arp arp-interval={interval_ms}ms arp-ip-targets={}",
                    targets.join(",")
                );
            }
        }
        if bonding.mode == BondMode::Ieee8023ad {
            let rate = if bonding.lacp_rate == LacpRate::Fast { "1sec" } else { "30secs" };
            let _ = write!(line, " lacp-rate={rate} min-links={}", bonding.min_links);
        }
        let primary = group.setup().operations.into_iter().find_map(|operation| match operation {
            Operation::Primary { port, .. } => Some(port),
            _ => None,
        });
        // By position, since RouterOS' tunnels have other names.
        let ours = carrier::carry(group).ports;
        let place = ours.iter().position(|port| Some(&port.device) == primary.as_ref());
        let primary = place.and_then(|place| ports.get(place));
        line.extend(primary.map(|port| format!(" primary={port}")));
        // The clamp below uses it, too.
        line.extend(group.own_mtu(&ours).map(|mtu| format!(" mtu={mtu}")));
        self.line(line);
        self.part("Addresses and routes through the bond");
        for net in &group.addresses {
            let path = version(Family::of(net.addr()));
            self.line(format!("{path} address add address={net} interface={name}"));
        }
        for route in &group.routes {
            let family = Family::of(route.addr());
            let gateway = group.gateway.filter(|&ip| Family::of(ip) == family);
            let by = gateway.map_or_else(|| name.to_string(), |ip| ip.to_string());
            self.line(format!(
                "{} route add dst-address={} gateway={by} check-gateway=ping",
                version(family),
                route.trunc()
            ));
        }
        if group.over != Over::Direct {
            self.part("TCP learns of the tunnels' smaller MTU, also where ICMP is filtered away");
            for side in ["out", "in"] {
                self.line(format!(
                    "/ip firewall mangle add chain=forward {side}-interface={name} protocol=tcp tcp-flags=syn action=change-mss new-mss=clamp-to-pmtu passthrough=yes"
                ));
            }
        }
        Ok(())
    }

    /// Each link's route to the other end, and an EoIP tunnel over it; their names.
    fn tunnels(&mut self, over: &Over) -> Result<Vec<String>, Inexpressible> {
        let group = self.group;
        self.part("Each link by a table of its own, as long as its router answers");
        for link in &group.links {
            self.own_table(link)?;
        }
        if let Over::WireGuard { settings, .. } = over {
            self.wireguard(settings)?;
        }
        self.part("Ethernet over each link (RouterOS at the other end, same tunnel-id there)");
        let inside = carrier::carry(group);
        let mut names = Vec::new();
        for link in &group.links {
            let name = format!("eoip-{}", link.name);
            let id = group.numbers.tunnel + link.number;
            let (local, remote) = match over {
                Over::WireGuard { .. } => {
                    let inner = carrier::inner_way(link.number, over.end());
                    (Some(inner.source.addr()), inner.gateway)
                }
                _ => {
                    let family = link.remote.map_or(Family::V4, Family::of);
                    (link.egress(family).map(|egress| egress.source.addr()), link.remote)
                }
            };
            let port = inside.ports.iter().find(|port| port.number == link.number);
            let mtu = port.map_or(DEFAULT_MTU, |port| port.mtu);
            let mut line = format!("/interface eoip add name={name} tunnel-id={id} mtu={mtu}");
            line.extend(local.map(|ip| format!(" local-address={ip}")));
            line.extend(remote.map(|ip| format!(" remote-address={ip}")));
            line.push_str(" keepalive=1s,3 clamp-tcp-mss=yes allow-fast-path=no");
            self.line(line);
            names.push(name);
        }
        Ok(names)
    }

    fn wireguard(&mut self, settings: &WireGuard) -> Result<(), Inexpressible> {
        let group = self.group;
        self.part(&format!(
            "WireGuard over each link; between the quotes: what is in {}",
            settings.private_key_file.display()
        ));
        self.line(":local privateKey \"\"");
        for link in &group.links {
            let name = format!("wg-{}", link.name);
            let port = settings.port.saturating_add(link.number.saturating_sub(1) as u16);
            let remote = link.remote.map(|ip| ip.to_string()).unwrap_or_default();
            let inner = carrier::inner_way(link.number, group.over.end());
            let outer = if link.remote.is_some_and(|ip| ip.is_ipv6()) { 40 } else { 20 };
            let mtu = link.mtu.saturating_sub(outer + carrier::WIREGUARD_OVERHEAD);
            self.line(format!(
                "/interface wireguard add name={name} listen-port={port} private-key=$privateKey mtu={mtu}"
            ));
            self.line(format!(
                "/interface wireguard peers add interface={name} public-key=\"{}\" endpoint-address={remote} endpoint-port={port} allowed-address=0.0.0.0/0,::/0 persistent-keepalive=25s",
                settings.peer_public_key
            ));
            self.line(format!("/ip address add address={} interface={name}", inner.source));
            // WireGuard's sockets have no address of their own: its port identifies the link.
            self.line(format!(
                "/ip firewall mangle add chain=output protocol=udp src-port={port} action=mark-routing new-routing-mark=by-{} passthrough=no",
                link.name
            ));
        }
        Ok(())
    }

    /// A link's table: a route via its router while that answers.
    fn own_table(&mut self, link: &GroupLink) -> Result<(), Inexpressible> {
        let table = format!("by-{}", link.name);
        self.line(format!("/routing table add name={table} fib"));
        for egress in &link.egresses {
            let source = egress.source.addr();
            let path = version(Family::of(source));
            let all = Family::of(source).everything();
            let by = match egress.gateway {
                Some(gateway) => format!("{gateway}%{} check-gateway=ping", link.device),
                None => link.device.to_string(),
            };
            self.line(format!(
                "{path} route add dst-address={all} gateway={by} routing-table={table}"
            ));
            self.line(format!(
                "/routing rule add src-address={}/{} action=lookup-only-in-table table={table}",
                source,
                if source.is_ipv6() { 128 } else { 32 }
            ));
        }
        match link.egresses.is_empty() {
            true => Err(Inexpressible {
                format: Format::Routeros,
                what: format!("the link {} without its address and router", link.name),
                hint: "write source and gateway into its [[link]]".into(),
            }),
            false => Ok(()),
        }
    }

    fn ecmp(&mut self, ecmp: &Ecmp) -> Result<(), Inexpressible> {
        let group = self.group;
        if ecmp.resilient.is_some() {
            return Err(Format::Routeros.lacks("resilient next-hop groups"));
        }
        if group.links.iter().any(|link| link.weight.get() != 1) {
            return Err(Format::Routeros.lacks("weights of equal-cost routes (pcc has them)"));
        }
        if group.over != Over::Direct {
            return Err(Format::Routeros.lacks("multipath routes over tunnels in this export"));
        }
        self.part("Each link by a table of its own, for what has its address");
        for link in &group.links {
            self.own_table(link)?;
        }
        self.part("Routes of equal distance: RouterOS makes them one of several hops");
        let policy = match ecmp.hash {
            EcmpHash::Layer3 => "l3",
            EcmpHash::Layer34 => "l4",
            EcmpHash::Inner => "l3-inner",
        };
        self.line(format!("/ip settings set ipv4-multipath-hash-policy={policy}"));
        for route in &group.routes {
            let family = Family::of(route.addr());
            for link in &group.links {
                if let Some(gateway) = link.egress(family).and_then(|egress| egress.gateway) {
                    let distance = if link.standby { 2 } else { 1 };
                    self.line(format!(
                        "{} route add dst-address={} gateway={gateway}%{} distance={distance} check-gateway=ping",
                        version(family),
                        route.trunc(),
                        link.device
                    ));
                }
            }
        }
        if ecmp.masquerade {
            self.masquerade();
        }
        Ok(())
    }

    fn pcc(&mut self, pcc: &Pcc) -> Result<(), Inexpressible> {
        let group = self.group;
        if group.over != Over::Direct {
            return Err(Format::Routeros.lacks("connections over tunnels in this export"));
        }
        self.part("Each link by a table of its own, as long as its router answers");
        for link in &group.links {
            self.own_table(link)?;
        }
        self.part("What came by a link is answered by it");
        for link in &group.links {
            let (device, name) = (&link.device, &link.name);
            self.line(format!("/ip firewall mangle add chain=prerouting in-interface={device} connection-mark=no-mark action=mark-connection new-connection-mark=by-{name} passthrough=yes"));
        }
        self.part("New connections are shared out");
        let active: Vec<&GroupLink> = group.links.iter().filter(|link| !link.standby).collect();
        let total: u32 = active.iter().map(|link| u32::from(link.weight.get())).sum();
        let mut slice = 0;
        for link in &active {
            for _ in 0..link.weight.get() {
                let which = match pcc.classifier {
                    // Each rule sees what the previous ones left.
                    Classifier::Turns => format!("nth={},1", total - slice),
                    Classifier::Addresses => {
                        format!("per-connection-classifier=both-addresses:{total}/{slice}")
                    }
                    Classifier::Flow => {
                        format!(
                            "per-connection-classifier=both-addresses-and-ports:{total}/{slice}"
                        )
                    }
                    Classifier::Source => {
                        format!("per-connection-classifier=src-address:{total}/{slice}")
                    }
                };
                self.line(format!("/ip firewall mangle add chain=prerouting dst-address-type=!local connection-mark=no-mark connection-state=new {which} action=mark-connection new-connection-mark=by-{} passthrough=yes", link.name));
                slice += 1;
            }
        }
        self.part("A connection's packets take its link");
        for chain in ["prerouting", "output"] {
            for link in &group.links {
                let name = &link.name;
                let lan = match chain {
                    "prerouting" => format!(" in-interface=!{}", link.device),
                    _ => String::new(),
                };
                self.line(format!("/ip firewall mangle add chain={chain} connection-mark=by-{name}{lan} action=mark-routing new-routing-mark=by-{name} passthrough=no"));
            }
        }
        if pcc.masquerade {
            self.masquerade();
        }
        Ok(())
    }

    /// RouterOS' client bundles several links; its server doesn't.
    fn mlppp(&mut self, pppoe: &Pppoe) -> Result<(), Inexpressible> {
        if pppoe.role == PppoeRole::Server {
            return Err(Format::Routeros.lacks("a PPPoE server for bundles of links"));
        }
        let devices: Vec<&str> = self.group.links.iter().map(|link| link.device.as_str()).collect();
        self.part("One client over all links (MLPPP); its password is yours to add");
        let user = pppoe.user.as_deref().unwrap_or_default();
        self.line(format!(
            "/interface pppoe-client add name={} interface={} mrru={} user=\"{user}\" add-default-route={} disabled=no",
            self.group.name,
            devices.join(","),
            pppoe.mrru,
            if self.group.routes.iter().any(|net| net.prefix_len() == 0) { "yes" } else { "no" }
        ));
        Ok(())
    }

    fn masquerade(&mut self) {
        self.part("What leaves by a link has that link's address");
        for link in &self.group.links {
            let device = &link.device;
            self.line(format!(
                "/ip firewall nat add chain=srcnat out-interface={device} action=masquerade"
            ));
        }
    }
}

/// Of EoIP over Ethernet's 1500 bytes.
const DEFAULT_MTU: u32 = 1458;

fn version(family: Family) -> &'static str {
    match family {
        Family::V4 => "/ip",
        Family::V6 => "/ipv6",
    }
}

fn hash(hash: XmitHash) -> Result<&'static str, Inexpressible> {
    match hash {
        XmitHash::Layer2 => Ok("layer-2"),
        XmitHash::Layer23 => Ok("layer-2-and-3"),
        XmitHash::Layer34 => Ok("layer-3-and-4"),
        XmitHash::Encap23 => Ok("encap-2-and-3"),
        XmitHash::Encap34 => Ok("encap-3-and-4"),
        XmitHash::VlanSrcmac => Err(Format::Routeros.lacks("the hash vlan+srcmac")),
    }
}
