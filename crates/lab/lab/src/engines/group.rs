//! The kernel's engines as Braid sets them up (crate `braid-engines`), once at
//! each end.

mod apply;
mod settle;

use super::process::Side;
use super::{Bench, EngineError, Running};
use crate::topology::{CONCENTRATOR_V4, HOME_V4, InKernel};
use crate::traffic::Streams;
use braid_engines::{
    BondMode, Bonding, Classifier, Device, Ecmp, Egress, End, Engine, Feature, Group, GroupLink,
    LacpRate, Mptcp, Numbers, Over, Pcc, Pppoe, PppoeRole, Resilient, Runner, Team, XmitHash,
};
use ipnet::{IpNet, Ipv4Net};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

/// Both ends' addresses for engines with a device of their own.
const HOME: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 2);
const CONCENTRATOR: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 1);

/// One of the kernel's engines, with its settings, by its name in the lab.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupEngine {
    word: String,
    engine: Engine,
}

impl GroupEngine {
    /// All names.
    pub fn words() -> Vec<String> {
        all().into_iter().map(|(word, _)| word).collect()
    }

    /// The engine of this name, if there is one.
    pub fn named(text: &str) -> Option<Self> {
        all().into_iter().find(|(word, _)| word == text).map(|(word, engine)| Self { word, engine })
    }

    /// Whether it joins Ethernet devices.
    pub fn needs_ethernet(&self) -> bool {
        self.engine.kind().has_device()
    }

    /// What it needs from the kernel and from programs.
    pub fn needs(&self, ethernet: bool) -> Vec<Feature> {
        // Its addresses don't matter for that.
        let over = self.over(ethernet, End::First);
        let name = device_name(&self.engine, Side::Home);
        name.map(|name| empty(name, self.engine.clone(), over).setup().needs).unwrap_or_default()
    }

    fn over(&self, ethernet: bool, end: End) -> Over {
        if ethernet || !self.needs_ethernet() { Over::Direct } else { Over::Gretap { end } }
    }
}

impl fmt::Display for GroupEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.word)
    }
}

/// All names with their engines.
fn all() -> Vec<(String, Engine)> {
    let mut all = Vec::new();
    for &mode in BondMode::ALL {
        let bonding = Bonding { mode, lacp_rate: LacpRate::Fast, ..Bonding::default() };
        all.push((format!("bonding:{mode}"), Engine::Bonding(bonding.clone())));
        if mode == BondMode::BalanceXor {
            for hash in [XmitHash::Layer2, XmitHash::Layer23, XmitHash::Layer34] {
                let bonding = Bonding { hash, ..bonding.clone() };
                all.push((format!("bonding:{mode}:{hash}"), Engine::Bonding(bonding)));
            }
        }
    }
    for &runner in Runner::ALL {
        all.push((format!("team:{runner}"), Engine::Team(Team { runner, ..Team::default() })));
    }
    all.push(("teql".to_owned(), Engine::Teql));
    all.push(("ecmp:nexthop".to_owned(), Engine::Ecmp(Ecmp::default())));
    let resilient = Resilient { buckets: 128, idle_timer_s: 1, unbalanced_timer_s: 0 };
    let resilient = Ecmp { resilient: Some(resilient), ..Ecmp::default() };
    all.push(("ecmp:resilient".to_owned(), Engine::Ecmp(resilient)));
    all.push(("pppoe-multilink".to_owned(), Engine::PppoeMultilink(Pppoe::default())));
    all.push(("pcc".to_owned(), Engine::Pcc(Pcc::default())));
    let by_flow = Pcc { classifier: Classifier::Flow, ..Pcc::default() };
    all.push(("pcc:flow".to_owned(), Engine::Pcc(by_flow)));
    all
}

pub(super) fn bring_up(engine: &GroupEngine, bench: &Bench<'_>) -> Result<Running, EngineError> {
    let scenario = bench.scenario;
    let ethernet =
        scenario.links.iter().all(|link| link.ethernet) && scenario.in_kernel == InKernel::All;
    let own_device = engine.engine.kind().has_device();
    let server = if own_device { CONCENTRATOR } else { CONCENTRATOR_V4 };
    let mut running = Running::kernel(server.into(), Streams::Tcp);
    if !own_device && !masquerades(&engine.engine) {
        running.source = Some(HOME_V4.into());
    }
    let mut groups = Vec::new();
    for (side, end) in [(Side::Concentrator, End::First), (Side::Home, End::Second)] {
        let answers_only = masquerades(&engine.engine) && side == Side::Concentrator;
        if answers_only {
            // It sees each link's own address, and answers to it.
            continue;
        }
        let over = engine.over(ethernet, end);
        let group = group(engine, over, side, bench)?;
        apply::apply(&group, side, bench, &mut running)?;
        groups.push((side, group));
    }
    if scenario.in_kernel == InKernel::All {
        apply::no_super_packets(bench)?;
    }
    settle::settle(&groups, bench, &mut running)?;
    Ok(running)
}

/// Multipath TCP with a subflow over each link. The home opens the connections and all subflows, so
/// it works through NAT; the other end just accepts them. Traffic other than TCP takes the first
/// link.
pub(super) fn mptcp(bench: &Bench<'_>) -> Result<Running, EngineError> {
    let engine = GroupEngine { word: "mptcp".to_owned(), engine: Engine::Mptcp(Mptcp::default()) };
    let mut running = Running::kernel(CONCENTRATOR_V4.into(), Streams::Mptcp);
    for side in [Side::Concentrator, Side::Home] {
        let mut group = group(&engine, Over::Direct, side, bench)?;
        if side == Side::Concentrator {
            group.links.clear();
        }
        apply::apply(&group, side, bench, &mut running)?;
    }
    Ok(running)
}

/// Whether the home gives each connection the address of its link.
fn masquerades(engine: &Engine) -> bool {
    match engine {
        Engine::Pcc(pcc) => pcc.masquerade,
        Engine::Ecmp(ecmp) => ecmp.masquerade,
        _ => false,
    }
}

/// One end's group.
fn group(
    engine: &GroupEngine,
    over: Over,
    side: Side,
    bench: &Bench<'_>,
) -> Result<Group, EngineError> {
    let nat = bench.scenario.links.iter().find(|link| link.model.nat);
    if let Some(link) = nat
        && over != Over::Direct
    {
        return Err(EngineError::Unfit(format!(
            "{engine} crosses the links by GRETAP, which does not pass the NAT of {:?}",
            link.model.name
        )));
    }
    let mut settings = engine.engine.clone();
    match &mut settings {
        Engine::PppoeMultilink(pppoe) => {
            pppoe.role = match side {
                Side::Home => PppoeRole::Client,
                Side::Concentrator => PppoeRole::Server,
            };
            pppoe.server = Some(CONCENTRATOR);
            pppoe.client = Some(HOME);
        }
        Engine::Ecmp(ecmp) => ecmp.masquerade = nat.is_some(),
        _ => {}
    }
    let device =
        |name: &str| name.parse::<Device>().map_err(|error| EngineError::Unfit(error.to_string()));
    let name = device_name(&settings, side)
        .ok_or_else(|| EngineError::Unfit(format!("{engine} has no device's name")))?;
    let (own, other) = match side {
        Side::Home => (HOME_V4, CONCENTRATOR_V4),
        Side::Concentrator => (CONCENTRATOR_V4, HOME_V4),
    };
    let inner = match side {
        Side::Home => HOME,
        Side::Concentrator => CONCENTRATOR,
    };
    let mut group = empty(name, settings, over);
    group.state_dir = bench.scratch.join(side.to_string());
    match group.engine.kind() {
        kind if kind.routes() => {
            group.routes = vec![IpNet::from(IpAddr::V4(other))];
            group.addresses = vec![IpNet::from(IpAddr::V4(own))];
        }
        _ if matches!(group.engine, Engine::PppoeMultilink(_)) => {}
        _ => group.addresses = vec![IpNet::V4(Ipv4Net::new_assert(inner, 24))],
    }
    for (number, (place, link)) in
        (1u32..).zip(bench.topology.links().iter().zip(&bench.scenario.links))
    {
        let addresses = place.addresses();
        let (name, source, gateway) = match side {
            Side::Home => (place.device(), addresses.home_v4, addresses.gateway_v4),
            Side::Concentrator => {
                (place.provider_device(), addresses.gateway_v4, addresses.home_v4)
            }
        };
        let mut member = GroupLink::new(number, device(name)?);
        member.mtu = u32::from(link.model.mtu);
        member.egresses = vec![Egress {
            source: IpNet::V4(Ipv4Net::new_assert(source, 24)),
            gateway: Some(gateway.into()),
        }];
        member.remote = Some(gateway.into());
        if matches!(group.engine, Engine::PppoeMultilink(_)) {
            member.peer_mac = Some(apply::peer_mac(number, side)?);
        }
        group.links.push(member);
    }
    if let Some(trouble) = group.check().into_iter().next() {
        return Err(EngineError::Unfit(format!("{engine}: {}; {}", trouble.what, trouble.hint)));
    }
    Ok(group)
}

fn empty(name: Device, engine: Engine, over: Over) -> Group {
    Group {
        numbers: Numbers::of(name.as_str()),
        name,
        engine,
        over,
        addresses: Vec::new(),
        mtu: None,
        routes: Vec::new(),
        gateway: None,
        links: Vec::new(),
        state_dir: std::path::PathBuf::new(),
    }
}

/// TEQL's devices are created by the kernel, numbered for the whole machine.
fn device_name(engine: &Engine, side: Side) -> Option<Device> {
    let name = match (engine, side) {
        (Engine::Teql, Side::Home) => "teql0",
        (Engine::Teql, Side::Concentrator) => "teql1",
        _ => "joined0",
    };
    name.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_engine_has_its_word_and_says_what_it_needs() {
        for word in GroupEngine::words() {
            let engine = GroupEngine::named(&word).unwrap();
            assert_eq!(engine.to_string(), word);
            assert!(!engine.needs(true).is_empty(), "{word}");
            assert_eq!(
                engine.needs(false).contains(&Feature::Gretap),
                engine.needs_ethernet(),
                "{word}"
            );
        }
        assert!(GroupEngine::named("bonding").is_none());
        assert!(GroupEngine::named("bonding:balance-xor:layer9").is_none());
    }
}
