//! Chooses which name servers to use, by which ones answer; pure.

use super::{Asked, Server};
use braid_linux::nft::{Asker, Destinations, Diversion};
use ipnet::IpNet;
use std::net::IpAddr;

/// The mark of queries that are routed like the host's own, but neither diverted nor let out by a
/// kill switch.
const AS_HOST_MARK: u32 = 0x6273_0000;

/// What the choice depends on, besides who answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Situation {
    /// The tunnel's device.
    pub tunnel: String,
    /// This end's addresses in the tunnel.
    pub inside: Vec<IpNet>,
    /// What is done about name servers.
    pub role: Role,
    /// Name servers from the config.
    pub named: Vec<IpAddr>,
    /// Whether a peer answers.
    pub working: bool,
    /// Nothing may leave beside the tunnel.
    pub strict: bool,
    /// The links.
    pub links: Vec<LinkOfNames>,
    /// Networks on this host's other devices.
    pub near: Vec<IpNet>,
}

/// What is done about name servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// Nothing.
    #[default]
    LeaveAlone,
    /// Keep queries of this host and its LAN answered.
    Home,
    /// Forward homes' queries to this end of the tunnel.
    Concentrator,
}

/// A link, with its last known data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkOfNames {
    /// Its device.
    pub device: String,
    /// Whether packets can leave by it.
    pub up: bool,
    /// Its routers.
    pub routers: Vec<IpAddr>,
    /// The networks on it.
    pub networks: Vec<IpNet>,
}

/// A name server that may take over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its address.
    pub address: IpAddr,
    via: Via,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Via {
    /// Routed like the host's own packets.
    AsHost,
    Tunnel,
    /// Over the device of a link that is up.
    Link(String),
}

/// The decision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// For the firewall.
    pub diversions: Vec<Diversion>,
    /// Routes to chosen servers, whatever a sender's address suggests.
    pub routes: Vec<HostRoute>,
    /// The host's name servers that don't answer.
    pub silent: Vec<IpAddr>,
}

/// How a server is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostRoute {
    /// The server.
    pub address: IpAddr,
    /// The device: the tunnel's or a link's.
    pub device: String,
    /// The link's router, if it has one.
    pub router: Option<IpAddr>,
}

impl Candidate {
    /// How it is asked.
    pub fn server(&self, situation: &Situation, link_mark: u32) -> Server {
        let (device, mark) = match &self.via {
            Via::AsHost => (None, AS_HOST_MARK),
            Via::Tunnel => (Some(situation.tunnel.clone()), AS_HOST_MARK),
            Via::Link(device) => (Some(device.clone()), link_mark),
        };
        Server { address: self.address, device, mark: Some(mark) }
    }
}

impl Situation {
    /// Whom to ask, preferred first; `hosts` are the host's own.
    pub fn candidates(&self, hosts: &[IpAddr]) -> Vec<Candidate> {
        let by = |addresses: &[IpAddr], via: Via| -> Vec<Candidate> {
            let candidate = |address: &IpAddr| Candidate { address: *address, via: via.clone() };
            addresses.iter().map(candidate).collect()
        };
        let up = || self.links.iter().filter(|link| link.up);
        let mut found = Vec::new();
        match self.role {
            Role::LeaveAlone => {}
            Role::Concentrator if self.named.is_empty() => found = by(hosts, Via::AsHost),
            Role::Concentrator => found = by(&self.named, Via::AsHost),
            Role::Home => {
                match self.working {
                    true => found.extend(by(&self.named, Via::Tunnel)),
                    false if self.strict => {}
                    false => found.extend(
                        up().flat_map(|link| by(&self.named, Via::Link(link.device.clone()))),
                    ),
                }
                // Also those that can't take over, to know whether they answer.
                found.extend(by(hosts, Via::AsHost));
                if self.working {
                    found.extend(by(&self.other_ends(), Via::Tunnel));
                }
                if !self.strict {
                    let routers =
                        up().flat_map(|link| by(&link.routers, Via::Link(link.device.clone())));
                    found.extend(routers.collect::<Vec<_>>());
                }
            }
        }
        found
    }

    /// Decides from the candidates' answers.
    pub fn choose(&self, hosts: &[IpAddr], asked: &[(Candidate, Asked)]) -> Choice {
        let answers = |found: &&(Candidate, Asked)| matches!(found.1, Asked::Answered(_));
        let silent: Vec<IpAddr> = asked
            .iter()
            .filter(|found| !answers(found) && found.0.via == Via::AsHost)
            .map(|(candidate, _)| candidate.address)
            .filter(|address| hosts.contains(address))
            .collect();
        let mut choice = Choice::default();
        for v4 in [true, false] {
            let mut answering =
                asked.iter().filter(answers).filter(|found| found.0.address.is_ipv4() == v4);
            let Some((chosen, _)) = answering.next() else { continue };
            let Some(from) = self.destinations(chosen.address, &silent) else { continue };
            let asker = match self.role {
                Role::Concentrator => Asker::Homes,
                Role::Home | Role::LeaveAlone => Asker::HostAndLan,
            };
            choice.diversions.push(Diversion { to: chosen.address, from, asker });
            choice.routes.extend(self.route_to(chosen));
        }
        choice.silent = silent;
        choice
    }

    /// Which servers' queries are diverted, of the IP version of `to`.
    fn destinations(&self, to: IpAddr, silent: &[IpAddr]) -> Option<Destinations> {
        let of_version = |net: &IpNet| net.addr().is_ipv4() == to.is_ipv4();
        let only = |nets: Vec<IpNet>| {
            let nets: Vec<IpNet> = nets.into_iter().filter(of_version).collect();
            (!nets.is_empty()).then_some(Destinations::Only(nets))
        };
        if self.role == Role::Concentrator {
            return only(self.inside.iter().map(|net| net.addr().into()).collect());
        }
        if self.working && !self.named.is_empty() {
            let near = self.near.iter().copied().filter(of_version);
            return Some(Destinations::AllBut(near.chain([to.into()]).collect()));
        }
        let cut_off = self.links.iter().filter(|link| !link.up || self.strict);
        let cut_off = cut_off.flat_map(|link| link.networks.iter().map(IpNet::trunc));
        only(silent.iter().map(|&address| address.into()).chain(cut_off).collect())
    }

    /// `None` if the host's own routes are right.
    fn route_to(&self, chosen: &Candidate) -> Option<HostRoute> {
        let address = chosen.address;
        let mut on_links = self.links.iter().filter(|link| link.up);
        let near = self.near.iter().chain(&self.inside).any(|net| net.contains(&address))
            || on_links.any(|link| link.networks.iter().any(|net| net.contains(&address)));
        if near || self.role == Role::Concentrator {
            return None;
        }
        let (device, router) = match &chosen.via {
            Via::Link(device) => {
                let link = self.links.iter().find(|link| link.device == *device)?;
                let of_version = |ip: &&IpAddr| ip.is_ipv4() == address.is_ipv4();
                (device, link.routers.iter().find(of_version).copied())
            }
            Via::AsHost if !self.working => return None,
            Via::Tunnel | Via::AsHost => (&self.tunnel, None),
        };
        Some(HostRoute { address, device: device.clone(), router })
    }

    /// The concentrator's addresses in the tunnel, as `concentrator init` gives
    /// them: the first of each network.
    fn other_ends(&self) -> Vec<IpAddr> {
        let first = |net: &IpNet| net.hosts().next().filter(|first| *first != net.addr());
        self.inside
            .iter()
            .filter(|net| net.prefix_len() < net.max_prefix_len())
            .filter_map(first)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn home(up: bool, working: bool, strict: bool) -> Situation {
        let link = |device: &str, up, number| LinkOfNames {
            device: device.into(),
            up,
            routers: vec![ip(&format!("192.168.{number}.1"))],
            networks: vec![format!("192.168.{number}.5/24").parse().unwrap()],
        };
        Situation {
            tunnel: "braid0".into(),
            inside: vec!["10.77.0.2/24".parse().unwrap()],
            role: Role::Home,
            named: Vec::new(),
            working,
            strict,
            links: vec![link("wan1", up, 1), link("wan2", true, 2)],
            near: vec!["192.168.50.1/24".parse().unwrap()],
        }
    }

    /// The decision when only these answer.
    fn choice(situation: &Situation, hosts: &[&str], answering: &[&str]) -> Choice {
        let hosts: Vec<IpAddr> = hosts.iter().map(|host| ip(host)).collect();
        let asked = situation.candidates(&hosts).into_iter().map(|candidate| {
            let answers = answering.contains(&candidate.address.to_string().as_str());
            let said = if answers { Asked::Answered(Vec::new()) } else { Asked::Failed };
            (candidate, said)
        });
        situation.choose(&hosts, &asked.collect::<Vec<_>>())
    }

    fn shown(choice: &Choice) -> String {
        let parts = choice.diversions.iter().map(|diversion| {
            let (not, nets) = match &diversion.from {
                Destinations::Only(nets) => ("", nets),
                Destinations::AllBut(nets) => ("not ", nets),
            };
            let nets: Vec<String> = nets.iter().map(ToString::to_string).collect();
            format!("{not}{} -> {}", nets.join(" "), diversion.to)
        });
        parts.collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn who_answers_is_left_alone_and_who_does_not_is_replaced() {
        let modem = "192.168.1.1";
        let all = [modem, "10.77.0.1", "192.168.2.1"];
        for (situation, hosts, answering, expected) in [
            (home(true, true, false), &[modem][..], &all[..], ""),
            (home(true, true, false), &["9.9.9.9"], &["9.9.9.9"], ""),
            // Its link is gone: over the tunnel; without that over another link.
            (
                home(false, true, false),
                &[modem],
                &all[1..],
                "192.168.1.1/32 192.168.1.0/24 -> 10.77.0.1",
            ),
            (
                home(false, false, false),
                &[modem],
                &all[2..],
                "192.168.1.1/32 192.168.1.0/24 -> 192.168.2.1",
            ),
            (home(false, true, false), &[modem], &[], ""),
            // Whoever configured another one, it answers.
            (home(false, true, false), &["9.9.9.9"], &["9.9.9.9"], "192.168.1.0/24 -> 9.9.9.9"),
            // Nothing may leave beside the tunnel.
            (
                home(true, true, true),
                &[modem],
                &["10.77.0.1"],
                "192.168.1.1/32 192.168.1.0/24 192.168.2.0/24 -> 10.77.0.1",
            ),
            (home(true, false, true), &[modem], &["192.168.2.1"], ""),
        ] {
            assert_eq!(
                shown(&choice(&situation, hosts, answering)),
                expected,
                "{hosts:?} {answering:?}"
            );
        }
    }

    #[test]
    fn those_of_the_config_are_asked_through_the_tunnel_by_everybody() {
        let named =
            |working| Situation { named: vec![ip("9.9.9.9")], ..home(true, working, false) };
        let working = choice(&named(true), &["192.168.1.1"], &["192.168.1.1", "9.9.9.9"]);
        assert_eq!(shown(&working), "not 192.168.50.1/24 9.9.9.9/32 -> 9.9.9.9");
        let via = |device: &str, router| {
            [HostRoute { address: ip("9.9.9.9"), device: device.into(), router }]
        };
        assert_eq!(working.routes, via("braid0", None));
        let alone = choice(&named(false), &["192.168.1.1"], &["9.9.9.9"]);
        assert_eq!(shown(&alone), "192.168.1.1/32 -> 9.9.9.9");
        assert_eq!(alone.routes, via("wan1", Some(ip("192.168.1.1"))));
    }

    #[test]
    fn a_concentrator_passes_questions_on() {
        let situation = Situation {
            inside: vec!["10.77.0.1/24".parse().unwrap(), "fd77::1/64".parse().unwrap()],
            role: Role::Concentrator,
            links: Vec::new(),
            ..home(true, true, false)
        };
        let choice = choice(&situation, &["185.12.64.1"], &["185.12.64.1"]);
        assert_eq!(shown(&choice), "10.77.0.1/32 -> 185.12.64.1");
        assert_eq!(choice.diversions[0].asker, Asker::Homes);
    }
}
