//! The thread that owns the config and keeps the host in line with it: sockets of links that come
//! and go, the host's routing, peers, quota counters.
//!
//! [`Reconciler`] only connects its parts; each has its own state, and gets access to others'
//! through its methods' arguments.

mod announcing;
mod handle;
mod naming;
mod news;
mod proxies;
mod routing;
mod schedule;
mod settings;
mod view;

pub use handle::ReconcilerHandle;

use super::data_channel::{DataPlaneEnded, DataPlaneHandle};
use super::device::{BridgePort, is_there};
use super::egress::HostNetwork;
use super::ending::Ending;
use super::endpoints::EndpointResolver;
use super::enrolments::Enrolments;
use super::host_numbers;
use super::host_routing;
use super::kill_switch;
use super::link_sockets::LinkSockets;
use super::names::NameServers;
use super::network_manager::Connections;
use super::obstacles::Obstacles;
use super::portals::Portals;
use super::quota::QuotaStore;
use super::reconfigure::{Change, beginning, changes};
use super::referrals::Referrals;
use super::rules::{Counts, Rules, candidates};
use super::supervise::{start_thread, supervise};
use super::transports::{Resolved, Transports};
use announcing::Announcing;
use braid_control::config::{Config, ConfigEditor};
use braid_control::request::{Refusal, Request};
use braid_control::status::{PeerStatus, Traffic};
use braid_linux::journal::UndoJournal;
use braid_linux::netlink::Netlink;
use braid_linux::nft::{self, Refusing, Split};
use braid_linux::poller::Waker;
use braid_linux::routing::{ANNOUNCED_PROTOCOL, Announced};
use braid_rules::Candidate;
use handle::{Farewell, Parted, Question, channels};
use jiff::Zoned;
use naming::Naming;
use news::News;
use proxies::NeighbourProxies;
use routing::Routing;
use schedule::{Schedule, TICK};
use settings::Settings;
use std::collections::BTreeMap;
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use view::{Published, View};

/// The parts of the reconciler.
pub struct Parts {
    /// The config file's text, for changes on top of it.
    pub editor: ConfigEditor,
    /// The same, parsed.
    pub config: Config,
    /// Of the calling thread's network namespace.
    pub netlink: Netlink,
    /// Empty, as leftovers of a crash were undone; or what the previous program has set.
    pub journal: UndoJournal,
    /// Whether it is what the previous program has set.
    pub goes_on: bool,
    /// The data plane.
    pub data_plane: Arc<DataPlaneHandle>,
    /// Resolves the peers' endpoints.
    pub resolver: EndpointResolver,
    /// The quota counters.
    pub quotas: QuotaStore,
    /// Which homes have joined.
    pub enrolments: Enrolments,
    /// The concentrators that this home is referred to.
    pub referrals: Referrals,
    /// Redirects connections to the proxy that splits them.
    pub split: Option<Split>,
    /// The peers' resolved addresses.
    pub resolved: Resolved,
    /// Homes that made a later statement to another concentrator, from the fleet.
    pub yields: Yields,
    /// Notified when the reconciler can't continue.
    pub ending: Ending,
}

/// Names of homes with the epochs of their statements, see [`Parts::yields`].
pub type Yields = Arc<Mutex<BTreeMap<String, u64>>>;

struct Reconciler {
    questions: Receiver<Question>,
    settings: Settings,
    enrolments: Enrolments,
    referrals: Referrals,
    data_plane: Arc<DataPlaneHandle>,
    netlink: Netlink,
    news: News,
    schedule: Schedule,
    host: HostNetwork,
    connections: Connections,
    links: LinkSockets,
    transports: Transports,
    routing: Routing,
    obstacles: Obstacles,
    naming: Naming,
    portals: Portals,
    rules: Rules,
    counts: Counts,
    proxies: NeighbourProxies,
    bridge: BridgePort,
    announcing: Announcing,
    yields: Yields,
    quotas: QuotaStore,
    /// Whether a peer answered when the routing was last planned.
    working: bool,
    /// Until when the host stays as the previous program left it, unless a peer answers.
    stays_until: Option<Instant>,
    view: Published,
    /// Ends the wait for news.
    waker: Waker,
    ending: Ending,
}

/// How long peers may take to answer after another program has taken over: some handshakes over a
/// slow link. Traffic doesn't bypass the tunnel meanwhile.
const ANSWER_AFTER_RESTART: Duration = Duration::from_secs(4);

/// Sets up peers and links and starts the thread, which sets up the routing before this
/// returns.
///
/// # Errors
/// The kernel refuses something, or a secret can't be read.
pub fn start(parts: Parts) -> io::Result<ReconcilerHandle> {
    let Parts { editor, config, netlink, journal, .. } = parts;
    let ending = parts.ending;
    let mark = host_numbers::mark(config.interface.name.as_str());
    let (news, waker) = News::open()?;
    let (handle, questions, view) = channels(waker.clone());
    parts.data_plane.wake_on_news(waker.clone());
    let goes_on = parts.goes_on;
    let mut reconciler = Reconciler {
        questions,
        settings: Settings::new(editor, config),
        enrolments: parts.enrolments,
        referrals: parts.referrals,
        data_plane: parts.data_plane,
        netlink,
        news,
        schedule: Schedule::default(),
        host: HostNetwork::default(),
        connections: Connections::default(),
        links: LinkSockets::default(),
        transports: Transports::new(parts.resolved),
        routing: Routing::new(journal, parts.split)?,
        obstacles: Obstacles::default(),
        naming: Naming::new(NameServers::start(&ending, mark)?, parts.resolver),
        portals: Portals::default(),
        rules: Rules::new(&ending),
        counts: Counts::default(),
        proxies: NeighbourProxies::default(),
        bridge: BridgePort::default(),
        announcing: Announcing::default(),
        yields: parts.yields,
        quotas: parts.quotas,
        working: false,
        stays_until: parts.goes_on.then(|| Instant::now() + ANSWER_AFTER_RESTART),
        view,
        waker,
        ending: ending.clone(),
    };
    reconciler.begin()?;
    if goes_on {
        reconciler.adopt_announced()?;
    }
    let (looked, has_looked) = channel();
    start_thread(THREAD, move || reconciler.run(&ending, looked))?;
    // Returns after the first pass over the host, whatever its result.
    let _ = has_looked.recv();
    Ok(handle)
}

/// The maximum length of a thread's name.
const THREAD: &str = "braid-reconcile";

impl Reconciler {
    fn begin(&mut self) -> io::Result<()> {
        let beginning = beginning(&self.settings.config, self.quotas.counters());
        for change in beginning.map_err(io::Error::other)? {
            self.carry_out(change).map_err(io::Error::other)?;
        }
        self.naming.set_peers(&self.settings.config.peers);
        Ok(())
    }

    fn adopt_announced(&mut self) -> io::Result<()> {
        let config = &self.settings.config;
        let Some(table) = config.routing.announce_table else { return Ok(()) };
        let routes = self.netlink.routes()?;
        let found: Vec<_> = routes
            .iter()
            .filter(|route| (route.table, route.protocol) == (table, ANNOUNCED_PROTOCOL))
            .map(|route| route.destination)
            .collect();
        self.announcing.adopt(config, &found, Instant::now());
        Ok(())
    }

    /// After a panic it starts over. If that doesn't help, the daemon ends, and this waits to undo
    /// everything.
    fn run(mut self, ending: &Ending, looked: Sender<()>) {
        let mut looked = Some(looked);
        if !supervise(THREAD, ending, || self.follow(&mut looked)) {
            self.wait_for_the_end();
        }
    }

    fn wait_for_the_end(mut self) {
        while let Ok(question) = self.questions.recv() {
            if let Question::Stop(farewell, done) = question {
                let _ = done.send(self.end(farewell));
                return;
            }
            // Dropping the channel tells the caller that the tunnel is going down.
        }
    }

    /// Runs until told to stop. `looked` is dropped after the first pass.
    fn follow(&mut self, looked: &mut Option<Sender<()>>) {
        self.follow_host();
        *looked = None;
        loop {
            // Whatever the reason for waking, everything is checked.
            let wait = self.schedule.wait(Instant::now());
            let announcing = self.announcing.wait(Instant::now());
            let wait = announcing.map_or(wait, |until| wait.min(until));
            if let Err(error) = self.news.wait(wait) {
                tracing::error!(%error, "waiting for changes of the host's network");
                std::thread::sleep(TICK);
            }
            if self.news.have_come() {
                self.schedule.news(Instant::now());
            }
            if self.schedule.is_due(Instant::now()) || self.connections.have_changed() {
                self.follow_host();
            }
            while let Ok(question) = self.questions.try_recv() {
                match question {
                    Question::Do(request, answer) => {
                        // A caller that went away needs no answer.
                        let _ = answer.send(self.execute(*request));
                    }
                    Question::Stop(farewell, done) => {
                        let _ = done.send(self.end(farewell));
                        return;
                    }
                }
            }
            self.proxies.answer();
            self.follow_peers();
            if self.naming.choose() {
                self.route();
                self.show();
            }
        }
    }

    /// Devices, addresses or routes may have changed.
    fn follow_host(&mut self) {
        self.schedule.begin(Instant::now());
        match HostNetwork::observe(&mut self.netlink) {
            Ok(mut host) => {
                let config = &self.settings.config;
                self.connections.follow(config, &self.waker, &self.ending);
                host.choose(config, self.connections.now(), &self.host.chosen);
                self.host = host;
            }
            Err(error) => {
                tracing::warn!(%error, "can't see the host's network");
                self.schedule.failed(Instant::now());
                return;
            }
        }
        let config = &self.settings.config;
        let device = config.interface.name.as_str();
        if !is_there(&mut self.netlink, &self.host, device) {
            self.ending
                .because(format!("{device} is gone: somebody has deleted, renamed or moved it"));
            return;
        }
        match self.links.follow(config, &self.host, &self.data_plane) {
            Ok(all_open) => self.retry_unless(all_open),
            Err(DataPlaneEnded) => return,
        }
        if self.follow_transports().is_err() {
            return;
        }
        self.follow_rules();
        self.route();
        self.follow_names();
        let config = &self.settings.config;
        let wanted = host_routing::on_link(config, |net| net.addr().is_ipv6());
        let all_open = self.proxies.follow(wanted, &mut self.netlink, &self.news);
        self.retry_unless(all_open);
        self.bridge.follow(&mut self.netlink, &self.settings.config.interface);
        self.show();
        self.schedule.done();
    }

    fn route(&mut self) {
        if self.stays_until.is_some_and(|until| !self.working && Instant::now() < until) {
            return;
        }
        self.stays_until = None;
        let config = &self.settings.config;
        let firewalls = refusing_firewalls(config);
        let links = self.links.routed(config);
        let rules = self.rules.routing(config, &links);
        let mut plan =
            host_routing::plan(config, &links, &self.host, self.working, &firewalls, rules);
        let networks = self.announcing.networks(config);
        let announced = |table| Announced { table, networks };
        plan.announced = config.routing.announce_table.map(announced);
        plan.firewall.forwarder = self.rules.forwarder().cloned();
        // Before the table is replaced.
        self.counts.read(config.interface.name.as_str());
        let all_done = self.routing.apply(plan, self.naming.choice());
        self.counts.follow(self.rules.now().iter().map(|rule| rule.name.as_str()));
        self.rules.end_connections(config);
        self.obstacles.follow(config, &self.host, &mut self.netlink, &firewalls);
        self.retry_unless(all_done);
    }

    /// Files, the clock, or which links work may have changed.
    fn follow_rules(&mut self) {
        let candidates = self.candidates();
        let opened = self.portals.opened().map(|(link, to)| (link.to_string(), to.to_vec()));
        self.rules.open(opened.collect());
        self.rules.follow(&self.settings.config, candidates, &Zoned::now());
    }

    fn candidates(&self) -> Vec<Candidate> {
        let peers = &self.data_plane.snapshot().peers;
        candidates(&self.settings.config, peers, |link| self.links.is_usable(&link.name))
    }

    fn retry_unless(&mut self, done: bool) {
        if !done {
            self.schedule.failed(Instant::now());
        }
    }

    fn follow_transports(&mut self) -> Result<(), DataPlaneEnded> {
        let now = Instant::now();
        let (config, data_plane) = (&self.settings.config, &self.data_plane);
        self.transports.follow(config, &self.links, data_plane, now)
    }

    fn follow_names(&mut self) {
        self.naming.follow(&self.settings.config, &self.host, &self.links, self.working);
    }

    /// Follows the data plane's state of peers and quotas.
    fn follow_peers(&mut self) {
        let snapshot = self.data_plane.snapshot();
        let working = snapshot.peers.iter().any(|peer| peer.connected);
        if working != self.working {
            self.working = working;
            self.tell_working();
            self.naming.set_working(working);
            self.follow_names();
            self.route();
            self.show();
        }
        if self.settings.config.routing.announce_table.is_some() {
            self.announce(&snapshot.peers);
        }
        if !self.settings.config.rules.is_empty() && self.candidates() != self.rules.candidates() {
            self.follow_rules();
            self.route();
            self.show();
        }
        if self.follow_transports().is_err() {
            return;
        }
        let (config, links) = (&self.settings.config, &self.links);
        if self.portals.follow(config, links, &snapshot, Instant::now()) {
            self.follow_rules();
            self.route();
            self.show();
        }
        self.quotas.keep(&snapshot, &self.settings.config.links, Instant::now());
        let config = &mut self.settings.config;
        self.enrolments.forget_tokens(config, &snapshot);
        let admitted = self.enrolments.admit_all(config, &snapshot.introduced, &self.data_plane);
        if matches!(admitted, Ok(true)) {
            self.show();
        }
        if self.referrals.follow(&self.settings.config, &snapshot.referring, Instant::now())
            && let Err(error) = self.execute(Request::ReadHomes)
        {
            tracing::warn!(%error, "can't use the concentrators that others refer to");
        }
    }

    /// The peers, corrected by the fleet's knowledge of who serves them.
    fn as_served(&self, peers: &[PeerStatus]) -> Vec<PeerStatus> {
        let yields = self.yields.lock().unwrap_or_else(PoisonError::into_inner);
        let mut peers = peers.to_vec();
        for peer in &mut peers {
            let word = peer.served_epoch.unwrap_or_default();
            if yields.get(&peer.name).is_some_and(|elsewhere| *elsewhere >= word) {
                peer.served_here = Some(false);
            }
        }
        peers
    }

    fn tell_working(&self) {
        let calls = self.settings.config.peers.iter().any(|peer| !peer.endpoints.is_empty());
        match (self.working, self.traffic()) {
            // Homes come and go.
            (working, _) if !calls => tracing::info!(working, "peers"),
            (true, _) => tracing::warn!("the concentrator answers"),
            (false, Some(Traffic::Blocked)) => {
                tracing::warn!("the concentrator doesn't answer: traffic is blocked");
            }
            (false, Some(Traffic::Direct { link: Some(link) })) => {
                tracing::warn!("the concentrator doesn't answer: traffic goes direct over {link}");
            }
            (false, _) => tracing::warn!("the concentrator doesn't answer"),
        }
    }

    fn execute(&mut self, request: Request) -> Result<(), Refusal> {
        if let Request::OpenPortal { link } = &request {
            return self.open_portal(link);
        }
        if request == Request::Restart {
            return self.routing.can_stay();
        }
        let settings = self.settings.changed(request, &mut self.enrolments, &self.referrals)?;
        let found = changes(&self.settings.config, &settings.config, self.quotas.counters())
            .map_err(Refusal::Invalid)?;
        self.settings = settings;
        let outcome = found.into_iter().try_for_each(|change| self.carry_out(change));
        self.naming.set_peers(&self.settings.config.peers);
        self.follow_host();
        outcome.map_err(|ended| Refusal::Failed(ended.to_string()))
    }

    fn open_portal(&mut self, link: &str) -> Result<(), Refusal> {
        // The observation that the link fell silent a moment ago is right.
        self.follow_peers();
        let config = &self.settings.config;
        let Some(link) = config.link(link) else {
            return Err(Refusal::NotFound(format!("the running tunnel has no link {link:?}")));
        };
        let routing = &config.routing;
        if routing.leave_host_alone || routing.link_marks.bits() == 0 {
            let what = "the way there is a rule of the host's firewall, which";
            return Err(Refusal::Invalid(format!(
                "{what} routing.leave_host_alone = true or link_marks = \"off\" rules out"
            )));
        }
        let name = &link.name;
        match (self.links.is_usable(name), self.portals.open(name, Instant::now())) {
            (true, true) => Ok(()),
            (true, false) => {
                Err(Refusal::Invalid(format!("link {name} works: its network requires no login")))
            }
            (false, _) => {
                let why = self.links.trouble(name).unwrap_or("it has no device or no address");
                Err(Refusal::Invalid(format!("link {name}: {why}")))
            }
        }
    }

    /// Announces the homes served here to routers, and then tells the data plane.
    fn announce(&mut self, peers: &[PeerStatus]) {
        let before = self.announcing.clone();
        if !self.announcing.follow(&self.as_served(peers), Instant::now()) {
            return;
        }
        self.route();
        let names = self.settings.config.peers.iter().map(|peer| &peer.name);
        let new =
            names.filter(|name| self.announcing.has(name.as_str()) && !before.has(name.as_str()));
        // The end of the data plane is noticed elsewhere.
        let _ = self.data_plane.change(Change::Announced(new.cloned().collect()));
        self.show();
    }

    /// Applies a change here, and passes it on to the data plane.
    fn carry_out(&mut self, mut change: Change) -> Result<(), DataPlaneEnded> {
        match &change {
            Change::AddLink { link, .. } => self.links.add(&link.name),
            Change::RebindLink(link) => {
                self.links.close(&link.name, &self.data_plane)?;
                self.transports.close(&link.name, &self.data_plane)?;
            }
            Change::RemoveLink(name) => {
                // It may return in the same period.
                self.quotas.save(&self.data_plane.snapshot());
                self.links.remove(name);
                self.transports.remove(name);
            }
            Change::SetLink(_)
            | Change::AddPeer(_)
            | Change::RemovePeer(_)
            | Change::SetMode(_)
            | Change::SetDraining(_)
            | Change::SetLimit { .. }
            | Change::SetRanks(_)
            | Change::SetCapacity(_)
            | Change::Announced(_)
            | Change::SetReferrals(_) => {}
        }
        // The config's tier is that of links that aren't metered.
        if let Change::RebindLink(link) | Change::SetLink(link) = &mut change {
            link.tier = self.links.tier(link);
        }
        self.data_plane.change(change)
    }

    fn show(&self) {
        let config = &self.settings.config;
        self.view.publish(View {
            config: Some(Arc::new(config.clone())),
            links: view::links(config, &self.host, &self.links, &self.portals, &self.transports),
            dns: self.naming.status(),
            traffic: self.traffic(),
            troubles: [self.obstacles.now(), self.rules.troubles()].concat(),
            rules: view::rules(config, &self.rules, &self.counts),
            announced: {
                let names = config.peers.iter().map(|peer| peer.name.to_string());
                Arc::new(names.filter(|name| self.announcing.has(name)).collect())
            },
            known_names: self.rules.known_names(),
            deciding: Arc::new((self.rules.now().to_vec(), self.rules.candidates().to_vec())),
        });
    }

    fn traffic(&self) -> Option<Traffic> {
        view::traffic(&self.settings.config, &self.links, self.working)
    }

    fn end(&mut self, farewell: Farewell) -> Parted {
        self.routing.free_files();
        self.quotas.save(&self.data_plane.snapshot());
        if farewell == Farewell::AllStays && self.routing.can_stay().is_ok() {
            return Parted::AsAsked;
        }
        let stays = kill_switch::alone(&self.settings.config, &self.host)
            .filter(|_| farewell != Farewell::ForGood);
        if stays.is_some() {
            tracing::warn!("the kill switch stays on; `braid down` turns it off");
        }
        match (self.routing.take_back(stays.as_slice()), farewell) {
            (Err(left), _) => Parted::Left(left),
            (Ok(()), Farewell::AllStays) => Parted::TakenBack,
            (Ok(()), Farewell::ForGood | Farewell::KillSwitchStays) => Parted::AsAsked,
        }
    }
}

/// Without nft there is no table of anybody's.
fn refusing_firewalls(config: &Config) -> Vec<Refusing> {
    match host_routing::forwards(config) {
        true => nft::refusing(config.interface.name.as_str()).unwrap_or_default(),
        false => Vec::new(),
    }
}
