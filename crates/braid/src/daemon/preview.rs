//! What `braid up` would set on this host, and the effect on the current state: planned like in the
//! daemon, but not applied.

use super::host_numbers;
use super::host_routing::{self, RoutedLink};
use super::obstacles::obstacles;
use super::rules::{Rules, candidates};
use super::{DaemonError, HostNetwork, group, kill_switch};
use braid_control::config::{AnyConfig, Config, GroupConfig, Link, WhenConcentratorGone};
use braid_engines::Operation;
use braid_linux::netlink::Netlink;
use braid_linux::nft;
use braid_linux::operation::{Before, before};
use jiff::Zoned;
use serde::Serialize;

/// The complete preview.
#[derive(Debug, Serialize)]
pub struct Preview {
    /// The tunnel's or group's name.
    pub interface: String,
    /// What would be set, in this order; undone in reverse.
    pub sets: Vec<Planned>,
    /// Where traffic would go.
    pub traffic: Vec<String>,
    /// Expected problems.
    pub warnings: Vec<String>,
}

/// One thing that would be set.
#[derive(Debug, Serialize)]
pub struct Planned {
    /// The operation in the notation of common tools.
    pub what: String,
    /// The current state.
    pub now: String,
    /// Its effect on the current state.
    pub effect: String,
    /// The rules of a firewall's table, in nft's language.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ruleset: Option<String>,
}

/// Inspects the host without changing anything.
pub fn preview(config: &AnyConfig) -> Result<Preview, DaemonError> {
    let looking = || DaemonError::system("looking at the host's network");
    let mut netlink = Netlink::open().map_err(looking())?;
    match config {
        AnyConfig::Tunnel(config) => {
            let host = HostNetwork::look(&mut netlink, config).map_err(looking())?;
            of_tunnel(config, &host, &mut netlink)
        }
        AnyConfig::Group(config) => {
            let host = HostNetwork::observe(&mut netlink).map_err(looking())?;
            Ok(of_group(config, &host, &mut netlink))
        }
    }
}

fn of_tunnel(
    config: &Config,
    host: &HostNetwork,
    netlink: &mut Netlink,
) -> Result<Preview, DaemonError> {
    let mut warnings = Vec::new();
    let egresses: Vec<_> = config.links.iter().map(|link| host.egresses(&link.binding)).collect();
    for (link, egresses) in config.links.iter().zip(&egresses) {
        if let Err(trouble) = egresses {
            warnings.push(format!("link {}: {trouble}; it is used as soon as possible", link.name));
        }
    }
    let links: Vec<RoutedLink<'_>> = (0..)
        .zip(config.links.iter().zip(&egresses))
        .map(|(number, (link, egresses))| RoutedLink {
            name: &link.name,
            number,
            egresses: egresses.as_deref().unwrap_or_default(),
            fwmark: link.binding.fwmark,
            tier: link.tier,
        })
        .collect();
    let interface = config.interface.name.as_str();
    let firewalls = match host_routing::forwards(config) {
        true => nft::refusing(interface).unwrap_or_default(),
        false => Vec::new(),
    };
    let mut rules = Rules::only_looked_at();
    let usable =
        |link: &Link| links.iter().any(|it| it.name == &link.name && !it.egresses.is_empty());
    rules.follow(config, candidates(config, &[], usable), &Zoned::now());
    warnings.extend(rules.troubles().iter().map(|trouble| trouble.text.clone()));
    let ruled = rules.routing(config, &links);
    let plan = host_routing::plan(config, &links, host, true, &firewalls, ruled);
    let mut sets = vec![device(config, host)];
    sets.extend(plan.desired().iter().map(|operation| planned(operation, netlink)));
    let routes = netlink.routes().map_err(DaemonError::system("reading the host's routes"))?;
    let obstacles = obstacles(config, host, &routes, &firewalls);
    warnings.extend(obstacles.into_iter().map(|obstacle| obstacle.text));
    let (interface, traffic) = (interface.to_owned(), traffic(config));
    Ok(Preview { interface, sets, traffic, warnings })
}

fn of_group(config: &GroupConfig, host: &HostNetwork, netlink: &mut Netlink) -> Preview {
    let setup = group::observed(config, host).setup();
    Preview {
        interface: config.group.name.to_string(),
        sets: setup.operations.iter().map(|operation| planned(operation, netlink)).collect(),
        traffic: Vec::new(),
        warnings: setup.notes,
    }
}

fn device(config: &Config, host: &HostNetwork) -> Planned {
    let interface = &config.interface;
    let exists = host.links.iter().any(|link| link.name == interface.name.as_str());
    Planned {
        what: format!("device {} ({}, mtu {})", interface.name, interface.layer, interface.mtu),
        now: if exists { "exists, perhaps not ours" } else { "doesn't exist" }.to_owned(),
        effect: "the tunnel's own; removed when it goes down".to_owned(),
        ruleset: None,
    }
}

fn planned(operation: &Operation, netlink: &mut Netlink) -> Planned {
    let before = before(operation, netlink);
    let ruleset = match operation {
        Operation::Firewall(table) => Some(table.ruleset.clone()),
        _ => None,
    };
    let now = match &before {
        Before::Absent => "doesn't exist".to_owned(),
        Before::AsWanted => "so already".to_owned(),
        Before::Value(value) => value.clone(),
        Before::Unseen(why) => format!("can't read it: {why}"),
    };
    let effect = effect(operation, &before);
    Planned { what: operation.to_string(), now, effect, ruleset }
}

/// Its effect on the current state, in words.
fn effect(operation: &Operation, before: &Before) -> String {
    let stays = "stays as it is";
    match (operation, before) {
        (Operation::Firewall(_), Before::AsWanted) => {
            "left by a crash or a kill switch: replaced".to_owned()
        }
        (_, Before::AsWanted) => format!("{stays}, also afterwards"),
        (Operation::Forwarding(_), _) => "this host forwards packets; what the kernel changes \
                                          along with it (routes by router advertisements, each \
                                          device's setting) stays"
            .to_owned(),
        (Operation::Sysctl { key, .. }, _) => sysctl_effect(key).to_owned(),
        (Operation::Address { .. }, _) => "the device's own".to_owned(),
        (Operation::Route(route), _) if host_numbers::is_our_table(route.table) => {
            "in the tunnel's own table: only traffic that the rules below send there is affected"
                .to_owned()
        }
        (Operation::Route(_), _) => {
            "added to the host's own table, existing routes stay".to_owned()
        }
        (Operation::Rule(_), _) => {
            "takes precedence over the host's own tables; its rules stay".to_owned()
        }
        (Operation::Firewall(_), _) => "a separate table; others' tables stay".to_owned(),
        (Operation::DockerUser { .. }, _) => {
            "lets the tunnel's packets through Docker's firewall, in the chain that Docker provides"
                .to_owned()
        }
        _ => "added, and removed again".to_owned(),
    }
}

fn sysctl_effect(key: &str) -> &'static str {
    match key.rsplit('/').next().unwrap_or_default() {
        "rp_filter" => {
            "replies may leave by another link than requests came in by; a source that no route \
             leads to is still dropped"
        }
        "src_valid_mark" => "the source check above takes the tunnel's marks into account",
        "accept_ra" => {
            "the device keeps accepting router advertisements although this host forwards"
        }
        "proxy_arp" => "lets the provider's router find the addresses behind the tunnel",
        _ => "as before when the tunnel is down",
    }
}

fn traffic(config: &Config) -> Vec<String> {
    let (interface, routing) = (&config.interface.name, &config.routing);
    if routing.leave_host_alone {
        return vec![format!("only traffic sent to {interface} itself takes the tunnel")];
    }
    if !routing.default_route {
        return vec![format!("only traffic to the peers' own networks takes {interface}")];
    }
    let mut said = vec![format!(
        "all traffic of this host and its LAN takes {interface}, except to networks that are \
         connected here, and connections that came in by a link"
    )];
    said.push(match routing.when_concentrator_gone {
        WhenConcentratorGone::Direct => {
            "while no peer answers, it leaves directly over the best link".to_owned()
        }
        WhenConcentratorGone::Block => "while no peer answers, it is blocked (kill switch), even \
                                        when the tunnel has crashed or is stopped; `braid down` \
                                        turns that off"
            .to_owned(),
    });
    if routing.dns.as_deref() != Some(&[]) {
        said.push(match kill_switch::is_wanted(config) {
            true => "DNS queries go through the tunnel only".to_owned(),
            false => "name servers that don't answer are replaced by others meanwhile".to_owned(),
        });
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;
    use braid_linux::udp::Family;

    #[test]
    fn what_is_so_already_is_left_to_whoever_set_it() {
        let operation = Operation::Forwarding(Family::V4);
        assert_eq!(effect(&operation, &Before::AsWanted), "stays as it is, also afterwards");
        assert!(effect(&operation, &Before::Value("0".into())).contains("forwards packets"));
    }
}
