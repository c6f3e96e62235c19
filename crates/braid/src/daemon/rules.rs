//! Where the config's rules currently send connections: addresses of domains, working links, the
//! marks that keep connections on their link, and counters.

mod candidates;
mod cgroups;
mod counts;
mod explained;
mod files;
mod forwarder;
mod resolve;

pub use candidates::candidates;
pub use counts::Counts;
pub use explained::explained;
pub use files::Files;
pub use forwarder::KnownNames;

use super::egress::HostNetwork;
use super::ending::Ending;
use super::host_numbers;
use super::host_routing::RoutedLink;
use braid_control::config::{self as configured, Config, Device, Name};
use braid_control::request::{ExplainAnswer, ExplainQuery, Refusal};
use braid_control::status::{Traffic, Trouble, TroubleKind};
use braid_linux::netlink::{Netlink, forget_connections};
use braid_linux::nft::{Fate, NameForwarder, RuledTraffic};
use braid_linux::routing::{DirectRouting, RuledRouting};
use braid_rules::{Candidate, Conditions, Destinations, Marks, Otherwise, Rule, Targets, Verdict};
use forwarder::Forwarder;
use ipnet::IpNet;
use jiff::Zoned;
use resolve::{Known, resolve};
use std::collections::BTreeSet;
use std::net::IpAddr;

/// Explains a connection by the config alone: existing links count as working, and everything else
/// takes the tunnel, if it is for all traffic.
pub fn explained_by_config(
    config: &Config,
    query: &ExplainQuery,
) -> Result<ExplainAnswer, Refusal> {
    let host = Netlink::open().and_then(|mut netlink| HostNetwork::look(&mut netlink, config));
    let host = host.map_err(|error| Refusal::Failed(format!("looking at the host: {error}")))?;
    let mut rules = Rules::only_looked_at();
    let candidates = candidates(config, &[], |link| host.egresses(&link.binding).is_ok());
    rules.follow(config, candidates, &Zoned::now());
    let traffic = config.routing.default_route.then_some(Traffic::Tunnel);
    explained(config, &(rules.rules, rules.candidates), traffic.as_ref(), None, query)
}

/// Problems with the files that the config's rules name: without them rules match less, or nothing.
pub fn troubles_of_files(config: &Config) -> Vec<String> {
    let (mut files, mut troubles) = (Files::default(), Vec::new());
    files.networks(config, &mut troubles);
    files.origins(config, &mut troubles);
    files.domains(config, &mut troubles);
    troubles.into_iter().map(|trouble| trouble.text).collect()
}

/// Rules for a device that has no current lease: they don't match it.
pub fn devices_unknown(config: &Config) -> Vec<(Name, String)> {
    let leases = Files::default().leases(config);
    let is_known = |name: &str| leases.iter().any(|lease| lease.host.eq_ignore_ascii_case(name));
    let of_rule = |rule: &configured::Rule| {
        let hosts = rule.matches.devices.iter().filter_map(|device| match device {
            Device::Host(name) if !is_known(name) => Some(name.clone()),
            _ => None,
        });
        hosts.map(|host| (rule.name.clone(), host)).collect::<Vec<_>>()
    };
    config.rules.iter().flat_map(of_rule).collect()
}

/// The current state of the rules.
#[derive(Default)]
pub struct Rules {
    /// Whether this is only a preview, and nothing is started.
    preview: bool,
    files: Files,
    marks: Marks,
    rules: Vec<Rule>,
    candidates: Vec<Candidate>,
    /// Marks whose connections were ended, and that aren't in use again.
    given_up: BTreeSet<u32>,
    /// The DNS forwarder, once a rule has domains.
    forwarder: Option<Forwarder>,
    /// Problems with them, as last reported.
    troubles: Vec<Trouble>,
    /// Before all rules: these addresses only over this link.
    opened: Vec<(String, Vec<IpAddr>)>,
    /// Notified when DNS queries can't be forwarded any more.
    ending: Ending,
}

/// The firewall's numbers for opened addresses, after those of all rules.
const OPENED: usize = 1_000_000;

/// A trouble that no single command fixes.
fn trouble(kind: TroubleKind, text: String) -> Trouble {
    Trouble { kind, text, mend: None }
}

impl Rules {
    /// None yet.
    pub fn new(ending: &Ending) -> Rules {
        Rules { ending: ending.clone(), ..Rules::default() }
    }

    /// For a preview.
    pub fn only_looked_at() -> Rules {
        Rules { preview: true, ..Rules::default() }
    }

    /// Checks files and the clock again. `candidates` are the config's links.
    pub fn follow(&mut self, config: &Config, candidates: Vec<Candidate>, now: &Zoned) {
        let mut troubles = Vec::new();
        if config.rules.is_empty() || config.routing.leave_host_alone {
            self.rules.clear();
        } else {
            let known = Known {
                leases: self.files.leases(config),
                networks: self.files.networks(config, &mut troubles),
                origins: self.files.origins(config, &mut troubles),
                cgroup: &cgroups::find,
                now,
            };
            self.rules = resolve(config, &known);
        }
        self.follow_names(config, &mut troubles);
        self.candidates = candidates;
        let mask = config.routing.link_marks.bits();
        let own = host_numbers::mark(config.interface.name.as_str());
        match self.marks.assign(&self.lists(), mask, own) {
            // Connections of one list must not be taken for those of another.
            Ok(taken) => self.forget(&taken, mask),
            Err(most) => troubles.push(trouble(
                TroubleKind::RuleMarks,
                format!(
                    "the rules with do = \"direct\" name more than {most} pairs of a list and a \
                     link, which is more than routing.link_marks has room for: the last go unmarked"
                ),
            )),
        }
        for trouble in troubles.iter().filter(|it| !self.troubles.contains(it)) {
            tracing::warn!("{}", trouble.text);
        }
        self.troubles = troubles;
    }

    /// From the next [`Rules::follow`] on, these addresses are reached only over this link.
    pub fn open(&mut self, opened: Vec<(String, Vec<IpAddr>)>) {
        self.opened = opened;
    }

    /// What the routing must do, with these links.
    pub fn routing(&self, config: &Config, links: &[RoutedLink<'_>]) -> RuledRouting {
        let mask = config.routing.link_marks.bits();
        let own = host_numbers::mark(config.interface.name.as_str());
        let number = |name: &str| {
            let mut known = config.links.iter().filter(|link| link.name.as_str() == name);
            let name = &known.next()?.name;
            links.iter().find(|link| link.name == name).map(|link| link.number)
        };
        let direct =
            self.marks.pairs().iter().filter_map(|pair| {
                Some(DirectRouting { mark: pair.mark, link: number(&pair.link)? })
            });
        let Some(refused) = Marks::refused(mask, own) else { return RuledRouting::default() };
        let counting = self.rules.iter().enumerate().filter(|(_, rule)| rule.counts_now);
        let rules = counting.map(|(number, rule)| RuledTraffic {
            number,
            conditions: rule.conditions.clone(),
            fate: self.fate(&rule.verdict),
        });
        let opened = self.opened.iter().enumerate().map(|(number, (link, to))| {
            let networks = to.iter().map(|address| IpNet::from(*address)).collect();
            let to = Some(Destinations { networks, known_as: None });
            let mark = self.marks.of(std::slice::from_ref(link), false, link);
            RuledTraffic {
                number: OPENED + number,
                conditions: Conditions { to, ..Conditions::default() },
                fate: mark.map_or(Fate::Tunnel, Fate::Marked),
            }
        });
        let rules = opened.chain(rules).collect();
        RuledRouting { rules, direct: direct.collect(), refused }
    }

    /// Ends connections whose link no longer works, or that should return to a preferred one; call
    /// it after applying [`Rules::routing`].
    pub fn end_connections(&mut self, config: &Config) {
        let giving_up = self.marks.pairs().iter().filter(|pair| {
            let targets = Targets {
                links: pair.links.clone(),
                otherwise: Otherwise::Tunnel,
                end_on_recovery: pair.end_on_recovery && pair.in_use,
            };
            targets.gives_up(&pair.link, &self.candidates)
        });
        let giving_up: BTreeSet<u32> = giving_up.map(|pair| pair.mark).collect();
        let new: Vec<u32> = giving_up.difference(&self.given_up).copied().collect();
        self.forget(&new, config.routing.link_marks.bits());
        self.given_up = giving_up;
    }

    /// Where the firewall must redirect DNS queries.
    pub fn forwarder(&self) -> Option<&NameForwarder> {
        self.forwarder.as_ref().map(|forwarder| &forwarder.way)
    }

    /// What it has learnt, for queries about addresses.
    pub fn known_names(&self) -> Option<KnownNames> {
        self.forwarder.as_ref().map(Forwarder::known_names)
    }

    /// The rules in order.
    pub fn now(&self) -> &[Rule] {
        &self.rules
    }

    /// The links that they choose from.
    pub fn candidates(&self) -> &[Candidate] {
        &self.candidates
    }

    /// What prevents them from working.
    pub fn troubles(&self) -> &[Trouble] {
        &self.troubles
    }

    /// Without a rule with domains, DNS queries aren't redirected.
    fn follow_names(&mut self, config: &Config, troubles: &mut Vec<Trouble>) {
        let by_name =
            |rule: &&Rule| rule.conditions.to.as_ref().is_some_and(|to| to.known_as.is_some());
        if self.preview || self.rules.iter().find(by_name).is_none() {
            self.forwarder = None;
            return;
        }
        let table = self.files.domains(config, troubles);
        if self.forwarder.is_none() {
            match Forwarder::start(config, &self.ending) {
                Ok(forwarder) => self.forwarder = Some(forwarder),
                Err(error) => {
                    let effect = "rules with domains match nothing";
                    let text = format!("can't forward DNS queries: {error}; {effect}");
                    troubles.push(trouble(TroubleKind::RuleNames, text));
                }
            }
        }
        if let Some(forwarder) = &self.forwarder {
            forwarder.set(table, config.routing.dns.clone().unwrap_or_default());
            let conflicts = forwarder.conflicts().into_iter();
            troubles.extend(conflicts.map(|text| trouble(TroubleKind::RuleConflict, text)));
            troubles.extend(forwarder.deaf.as_ref().map(|error| {
                let text = format!(
                    "the kernel doesn't pass on connections' first packets (nfnetlink_log: \
                     {error}): rules with domains don't apply to devices that resolve names over \
                     HTTPS"
                );
                trouble(TroubleKind::RuleNames, text)
            }));
        }
    }

    fn lists(&self) -> Vec<(Vec<String>, bool)> {
        let opened = self.opened.iter().map(|(link, _)| (vec![link.clone()], false));
        let mut lists: Vec<(Vec<String>, bool)> = opened.collect();
        for rule in &self.rules {
            if let Verdict::Direct(targets) = &rule.verdict {
                let list = (targets.links.clone(), targets.end_on_recovery);
                if !lists.contains(&list) {
                    lists.push(list);
                }
            }
        }
        lists
    }

    fn fate(&self, verdict: &Verdict) -> Fate {
        let targets = match verdict {
            Verdict::Tunnel => return Fate::Tunnel,
            Verdict::Block => return Fate::Refused,
            Verdict::Direct(targets) => targets,
        };
        let mark = targets
            .now(&self.candidates)
            .and_then(|link| self.marks.of(&targets.links, targets.end_on_recovery, link));
        match (mark, targets.otherwise) {
            (Some(mark), _) => Fate::Marked(mark),
            (None, Otherwise::Tunnel) => Fate::Tunnel,
            (None, Otherwise::Block) => Fate::Refused,
        }
    }

    fn forget(&self, marks: &[u32], mask: u32) {
        for &mark in marks {
            if let Err(error) = forget_connections(mark, mask) {
                tracing::debug!(%error, "connections of a link that is gone stay until they time out");
            }
        }
    }
}
