//! What the reconciler shows of its state.

use super::super::egress::HostNetwork;
use super::super::kill_switch;
use super::super::link_sockets::LinkSockets;
use super::super::portals::Portals;
use super::super::rules::{Counts, KnownNames, Rules};
use super::super::transports::Transports;
use braid_control::config::{Config, Link};
use braid_control::status::{DnsStatus, LinkStatus, RuleDoes, RuleStatus, Traffic, Trouble};
use braid_rules::{Candidate, Rule, Verdict};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

/// The reconciler's visible state.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// The config as it is now.
    pub config: Option<Arc<Config>>,
    /// The links.
    pub links: Vec<LinkStatus>,
    /// The name servers.
    pub dns: DnsStatus,
    /// Where the tunnel's traffic goes.
    pub traffic: Option<Traffic>,
    /// Conditions on the host that work against the tunnel and its rules.
    pub troubles: Vec<Trouble>,
    /// The rules.
    pub rules: Vec<RuleStatus>,
    /// The homes whose addresses are announced.
    pub announced: Arc<BTreeSet<String>>,
    /// What is known about the rules' domains.
    pub known_names: Option<KnownNames>,
    /// The rules in full, with the links that they choose from.
    pub deciding: Arc<(Vec<Rule>, Vec<Candidate>)>,
}

/// Shares the view with other threads.
#[derive(Clone, Default)]
pub struct Published(Arc<Mutex<View>>);

impl Published {
    /// Replaces it.
    pub fn publish(&self, view: View) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = view;
    }

    /// As last published.
    pub fn latest(&self) -> View {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The config's links; quotas come from the data plane.
pub fn links(
    config: &Config,
    host: &HostNetwork,
    sockets: &LinkSockets,
    portals: &Portals,
    transports: &Transports,
) -> Vec<LinkStatus> {
    let wants_login = |link: &Link| {
        let (name, portal) = (&link.name, portals.of(&link.name)?);
        let url = &portal.url;
        Some(format!(
            "this link requires a login: {url} (`braid link login {name}` gives access to it)"
        ))
    };
    let peers_are_silent = |link: &Link| {
        let host = portals.known_host(&link.name)?;
        Some(format!(
            "no concentrator answers over this link, but name server {host} does: the link works, \
             and they are down or its network lets nothing through to them"
        ))
    };
    let interface = |link: &Link| match (&link.binding.interface, &link.binding.matches) {
        (Some(named), _) => Some(named.to_string()),
        (None, Some(_)) => Some(host.device_of(&link.binding).ok()??.name.clone()),
        (None, None) => None,
    };
    let shown = config.links.iter().map(|link| LinkStatus {
        name: link.name.to_string(),
        portal: portals.of(&link.name).map(|portal| portal.url.clone()),
        interface: interface(link),
        present: sockets.is_usable(&link.name),
        trouble: sockets
            .trouble(&link.name)
            .map(str::to_owned)
            .or_else(|| wants_login(link))
            .or_else(|| transports.trouble(&link.name))
            .or_else(|| peers_are_silent(link)),
        tier: sockets.tier(link),
        metered: sockets.is_metered(&link.name),
        standby: link.standby,
        quota: None,
    });
    shown.collect()
}

/// The config's rules, and what they decide now.
pub fn rules(config: &Config, rules: &Rules, counts: &Counts) -> Vec<RuleStatus> {
    let shown = config.rules.iter().zip(rules.now()).map(|(written, rule)| {
        let count = counts.of(&rule.name);
        let (does, link) = match &rule.verdict {
            Verdict::Tunnel => (RuleDoes::Tunnel, None),
            Verdict::Block => (RuleDoes::Block, None),
            Verdict::Direct(targets) => (RuleDoes::Direct, targets.now(rules.candidates())),
        };
        RuleStatus {
            name: rule.name.clone(),
            line: written.line,
            does,
            link: link.map(str::to_owned),
            counts_now: rule.counts_now,
            connections: count.connections,
            packets: count.packets,
            bytes: count.bytes,
        }
    });
    shown.collect()
}

/// Where the tunnel's traffic goes, if the tunnel takes all; `working` states whether a peer
/// answers.
pub fn traffic(config: &Config, sockets: &LinkSockets, working: bool) -> Option<Traffic> {
    if !config.routing.default_route {
        return None;
    }
    let usable = |link: &&Link| sockets.is_usable(&link.name);
    Some(match (working, kill_switch::is_wanted(config)) {
        (true, _) => Traffic::Tunnel,
        (false, true) => Traffic::Blocked,
        (false, false) => {
            let best = config.links.iter().filter(usable).min_by_key(|link| sockets.tier(link));
            Traffic::Direct { link: best.map(|link| link.name.to_string()) }
        }
    })
}
