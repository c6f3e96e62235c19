//! Why a connection would go where it goes.

use super::files::Files;
use super::forwarder::KnownNames;
use braid_control::config::{Action, Config, Device, Protocol};
use braid_control::request::{ConsideredRule, ExplainAnswer, ExplainQuery, ExplainedWay, Refusal};
use braid_control::status::Traffic;
use braid_rules::{Candidate, Connection, Lease, Rule, Sender, Transport, Way, explain};
use ipnet::IpNet;

/// Explains by `rules`; `traffic` is where traffic without a rule goes, `names` what is known about
/// the rules' domains.
pub fn explained(
    config: &Config,
    (rules, candidates): &(Vec<Rule>, Vec<Candidate>),
    traffic: Option<&Traffic>,
    names: Option<&KnownNames>,
    query: &ExplainQuery,
) -> Result<ExplainAnswer, Refusal> {
    let sender = match &query.from {
        None => Sender::Host { user: query.uid.unwrap_or(0) },
        Some(device) => sender(device, &Files::default().leases(config))?,
    };
    let clients = match &sender {
        Sender::Device { addresses, .. } => addresses.clone(),
        // Connections of this host initially have the tunnel's address.
        Sender::Host { .. } => config.interface.addresses.iter().map(IpNet::addr).collect(),
    };
    let known_for = names.map(|names| names.rules_for(query.to, &clients)).unwrap_or_default();
    let connection = Connection {
        sender,
        to: query.to,
        transport: match query.protocol {
            Protocol::Tcp => Transport::Tcp,
            Protocol::Udp => Transport::Udp,
            Protocol::Icmp => Transport::Icmp,
        },
        port: query.port,
        dscp: query.dscp.unwrap_or(0),
        known_for,
    };
    let explanation = explain(rules, candidates, &connection);
    let of_rule = |name: &str| config.rules.iter().find(|rule| rule.name.as_str() == name);
    let line = |name: &str| of_rule(name).map_or(0, |rule| rule.line);
    let way = |way: Way| match way {
        Way::Link(link) => ExplainedWay::Direct { link: Some(link) },
        Way::Refused => ExplainedWay::Blocked,
        Way::Tunnel => rest(traffic),
    };
    let considered = explanation.considered.into_iter().map(|considered| ConsideredRule {
        line: line(&considered.rule),
        rule: considered.rule,
        mismatch: considered.mismatch,
    });
    let treated = match explanation.rule.as_deref().and_then(of_rule).map(|rule| &rule.action) {
        Some(Action::Tunnel(treatment)) => treatment.words(),
        _ => Vec::new(),
    };
    Ok(ExplainAnswer {
        rule: explanation.rule,
        treated,
        way: way(explanation.way),
        if_link_died: explanation.if_it_died.map(way),
        considered: considered.collect(),
    })
}

fn rest(traffic: Option<&Traffic>) -> ExplainedWay {
    match traffic {
        Some(Traffic::Tunnel) => ExplainedWay::Tunnel,
        Some(Traffic::Direct { link }) => ExplainedWay::Direct { link: link.clone() },
        Some(Traffic::Blocked) => ExplainedWay::Blocked,
        None => ExplainedWay::Direct { link: None },
    }
}

fn sender(device: &str, leases: &[Lease]) -> Result<Sender, Refusal> {
    let same = |lease: &&Lease| match device.parse() {
        Ok(Device::Address(address)) => lease.address == address,
        Ok(Device::Mac(mac)) => lease.mac == Some(mac),
        Ok(Device::Host(name)) => lease.host.eq_ignore_ascii_case(&name),
        Err(_) => false,
    };
    let known: Vec<&Lease> = leases.iter().filter(same).collect();
    let mut mac = known.iter().find_map(|lease| lease.mac);
    let mut addresses: Vec<_> = known.iter().map(|lease| lease.address).collect();
    match device.parse().map_err(Refusal::Invalid)? {
        Device::Address(address) if addresses.is_empty() => addresses.push(address),
        Device::Mac(address) => mac = Some(address),
        Device::Host(name) if known.is_empty() => {
            let what = format!("no DHCP lease has the name {name:?}");
            return Err(Refusal::Invalid(format!("{what}; give the device's address")));
        }
        Device::Address(_) | Device::Host(_) => {}
    }
    Ok(Sender::Device { mac, addresses })
}
