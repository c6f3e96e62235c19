//! Name resolution: the host's name servers and their replacements, and the peers' endpoints,
//! outside a kill switch if there is one.

use super::super::egress::{Device, Egress, HostNetwork};
use super::super::endpoints::{Around, EndpointResolver};
use super::super::host_numbers;
use super::super::kill_switch;
use super::super::link_sockets::LinkSockets;
use super::super::names::{Choice, LinkOfNames, NameServers, Role, Situation};
use super::super::systemd_resolved::SystemdResolved;
use braid_control::config::{Config, Name, Peer};
use braid_control::status::DnsStatus;
use ipnet::IpNet;
use std::collections::BTreeMap;
use std::time::Instant;

/// Passes changes to the resolving threads, and takes their decisions.
pub struct Naming {
    servers: NameServers,
    resolver: EndpointResolver,
    /// Each link's last known state.
    links: BTreeMap<Name, LinkOfNames>,
    /// What the choice of name servers depends on, as last passed on.
    situation: Situation,
    /// How endpoints are resolved outside the tunnel, as last passed on.
    around: Around,
    /// The last decision about name servers.
    choice: Choice,
    /// systemd-resolved, which queries per device.
    resolved: SystemdResolved,
}

impl Naming {
    /// Knows nothing yet.
    pub fn new(servers: NameServers, resolver: EndpointResolver) -> Naming {
        Naming {
            servers,
            resolver,
            links: BTreeMap::new(),
            situation: Situation::default(),
            around: Around::default(),
            choice: Choice::default(),
            resolved: SystemdResolved::default(),
        }
    }

    /// Resolves these peers' endpoints, starting at once.
    pub fn set_peers(&self, peers: &[Peer]) {
        self.resolver.set_peers(peers);
    }

    /// While no peer answers, they are resolved more often.
    pub fn set_working(&self, working: bool) {
        self.resolver.set_working(working);
    }

    /// The config, the host's network or the links may have changed.
    pub fn follow(
        &mut self,
        config: &Config,
        host: &HostNetwork,
        links: &LinkSockets,
        working: bool,
    ) {
        self.remember(host, links);
        self.resolved.follow(config, working, Instant::now());
        let situation = self.situation(config, host, working);
        if situation != self.situation {
            self.servers.set(situation.clone());
            self.situation = situation;
        }
        let around = around(config, links);
        if around != self.around {
            self.resolver.set_around(around.clone());
            self.around = around;
        }
    }

    /// Takes the latest decision. Returns whether it has changed.
    pub fn choose(&mut self) -> bool {
        let choice = self.servers.choice();
        if choice == self.choice {
            return false;
        }
        for silent in choice.silent.iter().filter(|it| !self.choice.silent.contains(it)) {
            tracing::warn!("the name server {silent} doesn't answer");
        }
        for diversion in choice.diversions.iter().filter(|it| !self.choice.diversions.contains(it))
        {
            tracing::warn!("name servers that don't answer are replaced by {}", diversion.to);
        }
        self.choice = choice;
        true
    }

    /// Which name servers are asked, for the routing.
    pub fn choice(&self) -> &Choice {
        &self.choice
    }

    /// The same, for the status.
    pub fn status(&self) -> DnsStatus {
        DnsStatus {
            silent: self.choice.silent.clone(),
            instead: self.choice.diversions.iter().map(|it| it.to).collect(),
            by_resolved: self.resolved.is_told(),
        }
    }

    fn remember(&mut self, host: &HostNetwork, links: &LinkSockets) {
        let mut before = std::mem::take(&mut self.links);
        for (name, egresses) in links.egresses() {
            let known = before.remove(name).map(|link| LinkOfNames { up: false, ..link });
            let now = device(egresses).map(|device| of_names(device, egresses, host));
            self.links.extend(now.or(known).map(|link| (name.clone(), link)));
        }
    }

    fn situation(&self, config: &Config, host: &HostNetwork, working: bool) -> Situation {
        let own = config.interface.name.as_str();
        let links: Vec<LinkOfNames> = self.links.values().cloned().collect();
        Situation {
            tunnel: own.to_owned(),
            inside: config.interface.addresses.clone(),
            role: role(config),
            named: config.routing.dns.clone().unwrap_or_default(),
            working,
            strict: kill_switch::is_wanted(config),
            near: near(own, host, &links),
            links,
        }
    }
}

fn role(config: &Config) -> Role {
    let routing = &config.routing;
    let concentrator = !config.interface.listen.is_empty();
    match (routing.default_route, concentrator && routing.masquerade) {
        _ if routing.leave_host_alone || routing.dns.as_deref() == Some(&[]) => Role::LeaveAlone,
        (true, _) => Role::Home,
        (false, true) => Role::Concentrator,
        (false, false) => Role::LeaveAlone,
    }
}

/// The link's data for the choice of name servers.
fn of_names(device: &Device, egresses: &[Egress], host: &HostNetwork) -> LinkOfNames {
    let on_it = host.addresses.iter().filter(|address| address.interface == device.index);
    LinkOfNames {
        device: device.name.clone(),
        up: true,
        routers: egresses.iter().filter_map(|egress| egress.gateway).collect(),
        networks: on_it.map(|address| address.net).collect(),
    }
}

/// Networks on devices that are neither links nor lead to the Internet.
fn near(own: &str, host: &HostNetwork, links: &[LinkOfNames]) -> Vec<IpNet> {
    let known = |device: &str| links.iter().any(|link| link.device == device);
    let leads_on = |index| host.default_routes.iter().any(|route| route.interface == Some(index));
    let near = host
        .links
        .iter()
        .filter(|device| !known(&device.name) && device.name != own && !leads_on(device.index));
    let near = near.flat_map(|device| {
        let addresses = host.addresses.iter();
        addresses.filter(|it| it.interface == device.index).map(|it| it.net)
    });
    near.collect()
}

/// With a kill switch, endpoints are resolved over the existing links.
fn around(config: &Config, links: &LinkSockets) -> Around {
    let devices = links.egresses().filter_map(|(_, egresses)| {
        let routers = egresses.iter().filter_map(|egress| egress.gateway);
        Some((device(egresses)?.name.clone(), routers.collect()))
    });
    Around {
        needed: kill_switch::is_wanted(config),
        mark: host_numbers::mark(config.interface.name.as_str()),
        links: devices.collect(),
    }
}

fn device(egresses: &[Egress]) -> Option<&Device> {
    egresses.iter().find_map(|egress| egress.device.as_ref())
}
