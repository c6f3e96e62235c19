//! Networks that require a login (captive portals, RFC 8952), such as in hotels and trains: they
//! block everything, but redirect HTTP requests to their own page. And networks that work although
//! no peer answers: the host's name servers do.

use super::data_channel::Snapshot;
use super::egress::Egress;
use super::host_numbers::own_mark;
use super::kill_switch;
use super::link_sockets::LinkSockets;
use super::supervise::start_thread;
use braid_control::config::{Config, Link, Name};
use braid_control::status::PathState;
use braid_linux::portal::{Page, Question, wanted};
use braid_linux::resolv_conf::name_servers;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What is known about the links' portals.
#[derive(Default)]
pub struct Portals {
    links: BTreeMap<Name, Looking>,
    /// As last reported: all that were found, and which are open.
    told: Vec<(Name, Portal, bool)>,
    /// Links over which a known host answers but no peer, as last reported.
    reached: BTreeMap<Name, IpAddr>,
}

/// The login page of a link's network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Portal {
    /// Its URL.
    pub url: String,
    /// Its host's addresses, as far as known.
    pub addresses: Vec<IpAddr>,
}

/// State of a link that carries nothing.
struct Looking {
    /// The link's egresses at the time.
    egresses: Vec<Egress>,
    silent_since: Instant,
    asked: Option<Instant>,
    /// When a user asked for access to it.
    wished: Option<Instant>,
    found: Arc<Mutex<Found>>,
}

#[derive(Default)]
struct Found {
    is_asked: bool,
    portal: Option<Portal>,
    /// A name server that answered the last query over this link: the link works, so it is the
    /// peers that are silent.
    known_host: Option<IpAddr>,
    /// Unanswered requests since then.
    unanswered: u32,
}

/// After this many the portal counts as gone: one request may be lost, or the page may be slow.
const MOST_UNANSWERED: u32 = 2;

/// How long to wait: a new link needs a moment, and an interrupted one may return.
const SILENCE: Duration = Duration::from_secs(3);
/// How soon a login, or a train's departure from a station, is noticed. A link that is silent for
/// long is probed less often.
const AGAIN: Duration = Duration::from_secs(10);
const AGAIN_LATER: Duration = Duration::from_secs(60);
/// How long access to a page stays open: enough to find a voucher and type it in.
const OPEN: Duration = Duration::from_secs(15 * 60);

impl Portals {
    /// Probes links that carry nothing. Returns whether something has changed.
    pub fn follow(
        &mut self,
        config: &Config,
        links: &LinkSockets,
        snapshot: &Snapshot,
        now: Instant,
    ) -> bool {
        let mark = own_mark(config);
        // With a kill switch nothing is probed outside the tunnel, unless a user asks for it.
        let quiet = kill_switch::is_wanted(config);
        self.links.retain(|name, _| config.link(name.as_str()).is_some());
        for (name, egresses) in links.egresses() {
            let Some(link) = config.link(name.as_str()) else { continue };
            if egresses.is_empty() || works(link, snapshot) {
                self.links.remove(name);
                continue;
            }
            let known =
                self.links.entry(name.clone()).or_insert_with(|| Looking::new(egresses, now));
            if known.egresses != egresses {
                *known = Looking::new(egresses, now);
            }
            if !quiet || known.is_open(now) {
                known.ask(link, mark, now);
            }
        }
        let found = self.links.iter().filter_map(|(name, looking)| {
            let portal = looking.lock().portal.clone()?;
            Some((name.clone(), portal, looking.is_open(now)))
        });
        let found = found.collect();
        let reached = self.links.iter();
        let reached = reached.filter_map(|(name, it)| Some((name.clone(), it.lock().known_host?)));
        let reached = reached.collect();
        let changed = found != self.told || reached != self.reached;
        (self.told, self.reached) = (found, reached);
        changed
    }

    /// Opens access to the login page of a link's network. False if the link carries traffic, or
    /// doesn't exist.
    pub fn open(&mut self, link: &Name, now: Instant) -> bool {
        let Some(looking) = self.links.get_mut(link) else { return false };
        looking.wished = Some(now);
        looking.asked = None;
        true
    }

    /// The login page of a link's network, if one was found.
    pub fn of(&self, link: &Name) -> Option<&Portal> {
        self.told.iter().find(|(name, ..)| name == link).map(|(_, portal, _)| portal)
    }

    /// A name server that answers over this link although no peer does.
    pub fn known_host(&self, link: &Name) -> Option<IpAddr> {
        self.reached.get(link).copied()
    }

    /// The addresses to which access is open, each over one link only.
    pub fn opened(&self) -> impl Iterator<Item = (&Name, &[IpAddr])> {
        let open = self.told.iter().filter(|(_, _, open)| *open);
        open.map(|(name, portal, _)| (name, portal.addresses.as_slice()))
    }
}

impl Looking {
    fn new(egresses: &[Egress], now: Instant) -> Looking {
        let found = Arc::default();
        Looking { egresses: egresses.to_vec(), silent_since: now, asked: None, wished: None, found }
    }

    fn ask(&mut self, link: &Link, mark: Option<u32>, now: Instant) {
        let silence = now.saturating_duration_since(self.silent_since);
        let pause = (silence / 8).clamp(AGAIN, AGAIN_LATER);
        let due = self.asked.is_none_or(|at| now.saturating_duration_since(at) >= pause);
        if silence < SILENCE || !due || self.lock().is_asked {
            return;
        }
        self.asked = Some(now);
        let mark = link.binding.fwmark.or(mark);
        let questions: Vec<Question> = self
            .egresses
            .iter()
            .map(|egress| Question {
                device: egress.device.as_ref().map(|device| device.name.clone()),
                source: link.binding.source.or(egress.source),
                mark,
                family: egress.family,
            })
            .collect();
        self.lock().is_asked = true;
        let (found, name) = (self.found.clone(), link.name.clone());
        let asking = move || {
            let portal = questions.iter().find_map(ask);
            let servers = if portal.is_none() { name_servers() } else { Vec::new() };
            let known_host = questions.iter().find_map(|it| it.answering(&servers));
            let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
            found.is_asked = false;
            if let Some(host) = known_host.filter(|_| found.known_host.is_none()) {
                tracing::warn!(link = %name, "no peer answers over this link, but name server \
                                              {host}");
            }
            found.known_host = known_host;
            match portal {
                Some(portal) => {
                    if found.portal.as_ref() != Some(&portal) {
                        tracing::warn!(link = %name, "this link requires a login: {}", portal.url);
                    }
                    (found.portal, found.unanswered) = (Some(portal), 0);
                }
                None => {
                    found.unanswered += 1;
                    if found.unanswered >= MOST_UNANSWERED {
                        found.portal = None;
                    }
                }
            }
        };
        if let Err(error) = start_thread("braid-portal", asking) {
            tracing::debug!(%error, "looking for a captive portal");
            self.lock().is_asked = false;
        }
    }

    fn is_open(&self, now: Instant) -> bool {
        self.wished.is_some_and(|at| now.saturating_duration_since(at) < OPEN)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Found> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn ask(question: &Question) -> Option<Portal> {
    let Page { url, host } = wanted(&question.fetch().ok()?, question.target())?;
    let mut addresses = match host.trim_matches(['[', ']']).parse::<IpAddr>() {
        Ok(address) => vec![address],
        Err(_) => question.look_up(&host),
    };
    // Some portals show it at any address.
    addresses.push(question.target());
    addresses.dedup();
    Some(Portal { url, addresses })
}

fn works(link: &Link, snapshot: &Snapshot) -> bool {
    let paths = snapshot.peers.iter().flat_map(|peer| &peer.paths);
    let lives = [PathState::Active, PathState::Standby, PathState::OverQuota];
    paths.filter(|path| path.link == link.name.as_str()).any(|path| lives.contains(&path.state))
}
