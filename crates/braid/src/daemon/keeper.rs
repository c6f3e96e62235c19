//! The thread that owns the config and keeps the tunnel as it says: sockets of
//! links that come and go, the host's routing, peers, quota counters.

use super::data_channel::{Command, DataPlaneEnded, DataPlaneHandle, Introduction};
use super::device;
use super::ending::Ending;
use super::endpoints::{Around, EndpointResolver};
use super::enrolments::{Admission, Enrolments};
use super::host_routing::{self, RoutedLink};
use super::kill_switch;
use super::names::{Choice, LinkOfNames, NameServers, Role, Situation};
use super::obstacles::obstacles;
use super::quota::QuotaKeeper;
use super::reconfigure::{Change, NewPeer, beginning, changes};
use super::supervise::supervise;
use super::ways::{HostNetwork, Way};
use braid_control::config::{Config, ConfigEditor, Link, Name};
use braid_control::request::{Refusal, Request};
use braid_control::status::{DnsStatus, LinkStatus, Traffic};
use braid_engines::{MAIN_TABLE, Operation, Route};
use braid_linux::journal::Journal;
use braid_linux::neighbour_proxy::NeighbourProxy;
use braid_linux::netlink::{Monitor, Netlink};
use braid_linux::nft::{self, Refusing, Split};
use braid_linux::poller::{Interest, Poller, Token, Waker};
use braid_linux::routing::HostRouting;
use braid_linux::udp::{LinkBind, LinkSocket};
use ipnet::{IpNet, Ipv6Net};
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Asks the keeper, from other threads.
pub struct KeeperHandle {
    questions: Sender<Question>,
    waker: Waker,
    view: Arc<Mutex<View>>,
}

/// What the keeper shows of its state.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// The config as it is now.
    pub config: Option<Arc<Config>>,
    /// The links.
    pub links: Vec<LinkStatus>,
    /// The name servers.
    pub dns: DnsStatus,
    /// Where traffic goes that the tunnel is for.
    pub traffic: Option<Traffic>,
    /// What works against the tunnel on the host.
    pub warnings: Vec<String>,
}

/// What the keeper needs.
pub struct Parts {
    /// The config file's text, for changes on top of it.
    pub editor: ConfigEditor,
    /// The same, read.
    pub config: Config,
    /// Of the calling thread's network namespace.
    pub netlink: Netlink,
    /// Empty: what a crash left was undone.
    pub journal: Journal,
    /// The data plane.
    pub data_plane: Arc<DataPlaneHandle>,
    /// Resolves the peers' endpoints.
    pub resolver: EndpointResolver,
    /// The quota counters.
    pub quotas: QuotaKeeper,
    /// Which homes have joined.
    pub enrolments: Enrolments,
    /// What brings connections to the proxy that splits them.
    pub split: Option<Split>,
    /// Told when the keeper can't go on.
    pub ending: Ending,
}

enum Question {
    Do(Box<Request>, Sender<Result<(), Refusal>>),
    /// Take back everything and end; without `for_good` the kill switch stays.
    Stop {
        for_good: bool,
        done: Sender<()>,
    },
}

struct Keeper {
    parts: Parts,
    monitor: Monitor,
    /// None in a kernel without nftables.
    firewall: Option<nft::Watch>,
    poller: Poller,
    questions: Receiver<Question>,
    host: HostNetwork,
    links: BTreeMap<Name, LinkState>,
    /// For public prefixes that the provider doesn't route here.
    proxies: Vec<NeighbourProxy>,
    /// How endpoints are looked up around the tunnel, as last told.
    around: Around,
    names: NameServers,
    /// What the choice of name servers depends on, as last told.
    situation: Situation,
    /// Which name servers are asked, as the routing was last planned for.
    choice: Choice,
    /// Why the device is no port of its bridge, as last told.
    bridge_trouble: Option<String>,
    /// What of the routing could not be done, as last told.
    routing_troubles: Vec<String>,
    /// What works against the tunnel on the host, as last told.
    obstacles: Vec<String>,
    /// Why the journal isn't on disk, as last told.
    journal_trouble: Option<String>,
    /// Closed at the end: taking back needs files, also when the process has none left.
    spare_files: Vec<File>,
    /// When what failed is tried again, if something did.
    retry_at: Option<Instant>,
    /// How long after it failed last.
    retry_after: Duration,
    /// Whether a peer answers, as the routing was last planned for.
    working: bool,
    view: Arc<Mutex<View>>,
}

#[derive(Default)]
struct LinkState {
    number: u32,
    ways: Vec<Way>,
    trouble: Option<String>,
    /// As it was when it was last there.
    names: Option<LinkOfNames>,
}

impl LinkState {
    /// How it is to its name servers, also when it is away.
    fn remember(&mut self, host: &HostNetwork) {
        let Some(device) = self.ways.iter().find_map(|way| way.device.as_ref()) else {
            if let Some(known) = &mut self.names {
                known.up = false;
            }
            return;
        };
        let on_it = host.addresses.iter().filter(|address| address.interface == device.index);
        self.names = Some(LinkOfNames {
            device: device.name.clone(),
            up: true,
            routers: self.ways.iter().filter_map(|way| way.gateway).collect(),
            networks: on_it.map(|address| address.net).collect(),
        });
    }
}

/// Less than the commands wait for.
const ANSWER: Duration = Duration::from_secs(9);
/// Some programs that don't end, one after the other; less than systemd waits for.
const FAREWELL: Duration = Duration::from_secs(17);
const MONITOR: Token = Token(0);
const QUESTION: Token = Token(1);
const PROXY: Token = Token(2);
const FIREWALL: Token = Token(3);
/// How soon a peer that came or went changes the default route.
const TICK: Duration = Duration::from_millis(500);
/// How soon what failed is tried again: files, memory or a port may be there now.
const RETRY: Duration = Duration::from_secs(3);
/// What starting `nft` takes: both ends of three pipes, and `/dev/null`.
const SPARE_FILES: usize = 7;
const RETRY_MOST: Duration = Duration::from_secs(60);
/// A DHCP client changes several things one after the other: wait for all.
const SETTLE: Duration = Duration::from_millis(50);
/// What the kernel tells nobody (settings below /proc/sys) is looked at this often.
const LOOK: Duration = Duration::from_secs(5);

impl KeeperHandle {
    /// Sets up peers and links and starts the thread, which sets up the routing
    /// before this returns.
    pub fn start(parts: Parts) -> io::Result<KeeperHandle> {
        let poller = Poller::new()?;
        let waker = poller.waker(QUESTION)?;
        let monitor = Monitor::open()?;
        poller.add(&monitor, MONITOR, Interest::Read)?;
        // Where that can't be had rules can't either, which is told when some are set.
        let firewall = nft::Watch::open().ok();
        if let Some(firewall) = &firewall {
            poller.add(firewall, FIREWALL, Interest::Read)?;
        }
        let mark = host_routing::mark(parts.config.interface.name.as_str());
        let names = NameServers::start(&parts.ending, mark)?;
        let (asked, questions) = channel();
        let view = Arc::new(Mutex::new(View::default()));
        let mut keeper = Keeper {
            parts,
            monitor,
            firewall,
            poller,
            questions,
            host: HostNetwork::default(),
            links: BTreeMap::new(),
            proxies: Vec::new(),
            around: Around::default(),
            names,
            situation: Situation::default(),
            choice: Choice::default(),
            bridge_trouble: None,
            routing_troubles: Vec::new(),
            obstacles: Vec::new(),
            journal_trouble: None,
            spare_files: (0..SPARE_FILES)
                .map(|_| File::open("/dev/null"))
                .collect::<Result<_, _>>()?,
            retry_at: None,
            retry_after: RETRY,
            working: false,
            view: view.clone(),
        };
        keeper.begin()?;
        let (looked, has_looked) = channel();
        std::thread::Builder::new()
            .name("braid-keeper".into())
            .spawn(move || keeper.run(looked))?;
        // Ends with the first look at the host, however that goes.
        let _ = has_looked.recv();
        Ok(KeeperHandle { questions: asked, waker, view })
    }

    /// Carries out a change and waits until it is done.
    pub fn execute(&self, request: Request) -> Result<(), Refusal> {
        let (answer, answered) = channel();
        let gone = || Refusal::Failed("not done: the tunnel is going down, or see its log".into());
        self.questions.send(Question::Do(Box::new(request), answer)).map_err(|_| gone())?;
        self.waker.wake();
        match answered.recv_timeout(ANSWER) {
            Ok(answer) => answer,
            Err(RecvTimeoutError::Disconnected) => Err(gone()),
            Err(RecvTimeoutError::Timeout) => Err(Refusal::Failed(format!(
                "begun, but not done within {} s: something on this host keeps it waiting, see its \
                 log; `braid status` shows whether it was done",
                ANSWER.as_secs()
            ))),
        }
    }

    /// Takes back all that was set on the host. The kill switch only goes
    /// `for_good`, by `braid down`: a service that is stopped or an error lets
    /// nothing out.
    pub fn stop(&self, for_good: bool) {
        let (done, is_done) = channel();
        if self.questions.send(Question::Stop { for_good, done }).is_ok() {
            self.waker.wake();
            match is_done.recv_timeout(FAREWELL) {
                // It may have ended: then it is done as well.
                Ok(()) | Err(RecvTimeoutError::Disconnected) => {}
                Err(RecvTimeoutError::Timeout) => tracing::error!(
                    "what was set on the host isn't all taken back: something keeps it waiting; \
                     another `braid down` takes back the rest"
                ),
            }
        }
    }

    /// What it shows now.
    pub fn view(&self) -> View {
        self.view.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Keeper {
    fn begin(&mut self) -> io::Result<()> {
        let beginning = beginning(&self.parts.config, self.parts.quotas.counters());
        for change in beginning.map_err(io::Error::other)? {
            self.carry_out(change).map_err(io::Error::other)?;
        }
        self.parts.resolver.set_peers(&self.parts.config.peers);
        Ok(())
    }

    /// After a panic it looks at everything anew. When that doesn't help the daemon
    /// ends, and this waits to take all back.
    fn run(mut self, looked: Sender<()>) {
        let ending = self.parts.ending.clone();
        let mut looked = Some(looked);
        if !supervise("braid-keeper", &ending, || self.follow(&mut looked)) {
            self.wait_for_the_end();
        }
    }

    fn wait_for_the_end(mut self) {
        while let Ok(question) = self.questions.recv() {
            if let Question::Stop { for_good, done } = question {
                self.end(for_good);
                let _ = done.send(());
                return;
            }
            // Dropped, an asker hears that the tunnel is going down.
        }
    }

    /// Until it is told to stop. `looked` is dropped after the first look.
    fn follow(&mut self, looked: &mut Option<Sender<()>>) {
        self.follow_host();
        *looked = None;
        let mut settling: Option<Instant> = None;
        let mut looked = Instant::now();
        loop {
            let now = Instant::now();
            let wait = settling.map_or(TICK, |until| until.saturating_duration_since(now));
            // Woken for whatever reason, everything is looked at.
            if let Err(error) = self.poller.wait(Some(wait)).map(|events| events.for_each(drop)) {
                tracing::error!(%error, "waiting for changes of the host's network");
                std::thread::sleep(TICK);
            }
            if self.drain_monitor() | self.drain_firewall() || looked.elapsed() >= LOOK {
                settling.get_or_insert_with(|| Instant::now() + SETTLE);
            }
            let due = |at: Option<Instant>| at.is_some_and(|at| Instant::now() >= at);
            if due(settling) || due(self.retry_at) {
                settling = None;
                looked = Instant::now();
                self.follow_host();
            }
            while let Ok(question) = self.questions.try_recv() {
                match question {
                    Question::Do(request, answer) => {
                        // An asker that went away needs no answer.
                        let _ = answer.send(self.execute(*request));
                    }
                    Question::Stop { for_good, done } => {
                        self.end(for_good);
                        let _ = done.send(());
                        return;
                    }
                }
            }
            self.answer_neighbours();
            self.follow_peers();
            self.follow_answers();
        }
    }

    fn drain_monitor(&mut self) -> bool {
        self.monitor.drain().unwrap_or_else(|error| {
            tracing::warn!(%error, "the kernel's news of the network are lost");
            true
        })
    }

    /// Whether somebody changed the firewall: its rules may be flushed, ours with them.
    fn drain_firewall(&self) -> bool {
        let changed = self.firewall.as_ref().map_or(Ok(false), nft::Watch::drain);
        changed.unwrap_or_else(|error| {
            tracing::warn!(%error, "the kernel's news of the firewall are lost");
            true
        })
    }

    /// Devices, addresses or routes may have changed.
    fn follow_host(&mut self) {
        self.retry_at = None;
        match HostNetwork::observe(&mut self.parts.netlink) {
            Ok(host) => self.host = host,
            Err(error) => {
                tracing::warn!(%error, "can't see the host's network");
                self.retry_soon();
                return;
            }
        }
        for link in self.parts.config.links.clone() {
            if self.follow_link(&link).is_err() {
                return;
            }
        }
        self.route();
        self.follow_name_servers();
        self.follow_proxies();
        self.follow_bridge();
        self.show();
        if self.retry_at.is_none() {
            self.retry_after = RETRY;
        }
    }

    fn retry_soon(&mut self) {
        if self.retry_at.is_none() {
            self.retry_at = Some(Instant::now() + self.retry_after);
            self.retry_after = (self.retry_after * 2).min(RETRY_MOST);
        }
    }

    /// The bridge that the device is a port of may have been made anew.
    fn follow_bridge(&mut self) {
        let interface = &self.parts.config.interface;
        let outcome = device::rejoin_bridge(&mut self.parts.netlink, interface);
        let missed = outcome.as_ref().err().map(ToString::to_string);
        match outcome {
            Ok(true) => tracing::info!("a port of its bridge again"),
            Ok(false) => {}
            Err(error) if missed == self.bridge_trouble => tracing::debug!(%error, "no bridge"),
            Err(error) => tracing::warn!(%error, "no port of its bridge"),
        }
        self.bridge_trouble = missed;
    }

    /// Answers for public prefixes on the devices that are there now.
    fn follow_proxies(&mut self) {
        let wanted = host_routing::on_link(&self.parts.config, |net| net.addr().is_ipv6());
        let netlink = &mut self.parts.netlink;
        let mut kept = std::mem::take(&mut self.proxies);
        let mut failed = false;
        for (device, prefixes) in wanted {
            let prefixes: Vec<Ipv6Net> = prefixes.into_iter().filter_map(v6).collect();
            let same = |proxy: &NeighbourProxy| proxy.is_for(netlink, &device, &prefixes);
            if let Some(at) = kept.iter().position(same) {
                self.proxies.push(kept.swap_remove(at));
                continue;
            }
            let opened = NeighbourProxy::open(netlink, &device, prefixes)
                .and_then(|proxy| self.poller.add(&proxy, PROXY, Interest::Read).map(|()| proxy));
            match opened {
                Ok(proxy) => self.proxies.push(proxy),
                Err(error) => {
                    tracing::warn!(device, %error, "can't answer for public prefixes");
                    failed = true;
                }
            }
        }
        if failed {
            self.retry_soon();
        }
    }

    fn answer_neighbours(&self) {
        for proxy in &self.proxies {
            if let Err(error) = proxy.answer_all() {
                tracing::debug!(%error, "answering for public prefixes");
            }
        }
    }

    /// Opens and closes the link's sockets as its ways have changed.
    fn follow_link(&mut self, link: &Link) -> Result<(), DataPlaneEnded> {
        let found = self.host.ways(&link.binding);
        let Some(state) = self.links.get_mut(&link.name) else {
            return Ok(());
        };
        let (ways, trouble) = match found {
            Ok(ways) => (ways, None),
            Err(trouble) => (Vec::new(), Some(trouble)),
        };
        if trouble != state.trouble {
            match &trouble {
                Some(trouble) => tracing::warn!(link = %link.name, "link not usable: {trouble}"),
                None => tracing::info!(link = %link.name, "link usable"),
            }
        }
        let before = std::mem::replace(&mut state.trouble, trouble);
        let mut failed = false;
        for gone in &state.ways {
            if !ways.iter().any(|way| way.family == gone.family) {
                let (link, family) = (link.name.clone(), gone.family);
                self.parts.data_plane.send(Command::DetachSocket { link, family })?;
            }
        }
        let mut kept = Vec::new();
        let mark = match self.parts.config.routing.leave_host_alone {
            true => None,
            false => Some(host_routing::mark(self.parts.config.interface.name.as_str())),
        };
        for way in ways {
            if state.ways.contains(&way) {
                kept.push(way);
                continue;
            }
            match open_socket(link, &way, mark) {
                Ok(socket) => {
                    let device_mtu = way.device.as_ref().map(|device| device.mtu);
                    let link = link.name.clone();
                    self.parts.data_plane.send(Command::AttachSocket {
                        link,
                        socket,
                        device_mtu,
                    })?;
                    kept.push(way);
                }
                Err(error) => {
                    let trouble = format!("can't open its socket: {error}");
                    if before.as_ref() != Some(&trouble) {
                        tracing::warn!(link = %link.name, "{trouble}");
                    }
                    state.trouble = Some(trouble);
                    failed = true;
                    // The one for its former address is of no use, and the file that it
                    // takes may be the one that is missing.
                    let (link, family) = (link.name.clone(), way.family);
                    self.parts.data_plane.send(Command::DetachSocket { link, family })?;
                }
            }
        }
        state.ways = kept;
        if failed {
            self.retry_soon();
        }
        Ok(())
    }

    fn route(&mut self) {
        let routed: Vec<RoutedLink<'_>> = self
            .parts
            .config
            .links
            .iter()
            .filter_map(|link| {
                let state = self.links.get(&link.name)?;
                let (number, ways) = (state.number, state.ways.as_slice());
                Some(RoutedLink { number, ways, fwmark: link.binding.fwmark, tier: link.tier })
            })
            .collect();
        let firewalls = refusing_firewalls(&self.parts.config);
        let plan =
            host_routing::plan(&self.parts.config, &routed, &self.host, self.working, &firewalls);
        let failures = self.parts.journal.reconcile(&self.with_names(plan));
        let troubles: Vec<String> = failures.iter().map(ToString::to_string).collect();
        for trouble in troubles.iter().filter(|it| !self.routing_troubles.contains(it)) {
            tracing::warn!("routing: {trouble}");
        }
        self.routing_troubles = troubles;
        for item in self.parts.journal.take_restored() {
            tracing::warn!("{item}: somebody took it away; it is set again");
        }
        self.follow_obstacles(&firewalls);
        self.follow_journal();
        if !self.routing_troubles.is_empty() || self.journal_trouble.is_some() {
            self.retry_soon();
        }
    }

    /// Who can do something about it is told.
    fn follow_obstacles(&mut self, firewalls: &[Refusing]) {
        let config = &self.parts.config;
        let routes = match config.routing.default_route && !config.routing.leave_host_alone {
            true => self.parts.netlink.routes().unwrap_or_default(),
            false => Vec::new(),
        };
        let found = obstacles(config, &self.host, &routes, firewalls);
        for obstacle in found.iter().filter(|it| !self.obstacles.contains(it)) {
            tracing::warn!("{obstacle}");
        }
        for gone in self.obstacles.iter().filter(|it| !found.contains(it)) {
            tracing::info!("no longer so: {gone}");
        }
        self.obstacles = found;
    }

    /// The tunnel goes on without it; who has to make room is told.
    fn follow_journal(&mut self) {
        self.parts.journal.retry();
        let trouble = self.parts.journal.trouble().map(str::to_owned);
        match &trouble {
            Some(trouble) if self.journal_trouble.is_none() => tracing::warn!(
                "can't write down what is set on the host ({trouble}): `braid down` takes it back, \
                 but after a crash changed settings below /proc/sys would stay"
            ),
            None if self.journal_trouble.is_some() => {
                tracing::info!("what is set on the host is written down again");
            }
            _ => {}
        }
        self.journal_trouble = trouble;
    }

    /// The plan, with name servers that answer.
    fn with_names(&self, mut plan: HostRouting) -> Vec<Operation> {
        plan.firewall.diversions.clone_from(&self.choice.diversions);
        plan.split = self.parts.split;
        let mut desired = plan.desired();
        desired.extend(self.choice.ways.iter().map(|way| {
            Operation::Route(Route {
                gateway: way.router,
                device: Some(way.device.clone()),
                ..Route::new(way.address.into(), MAIN_TABLE)
            })
        }));
        desired
    }

    /// Others may answer than did.
    fn follow_answers(&mut self) {
        let choice = self.names.choice();
        if choice == self.choice {
            return;
        }
        for silent in choice.silent.iter().filter(|it| !self.choice.silent.contains(it)) {
            tracing::warn!("the name server {silent} doesn't answer");
        }
        for diversion in choice.diversions.iter().filter(|it| !self.choice.diversions.contains(it))
        {
            tracing::warn!("name servers that don't answer are replaced by {}", diversion.to);
        }
        self.choice = choice;
        self.route();
        self.show();
    }

    fn follow_situation(&mut self) {
        let config = &self.parts.config;
        let (routing, dns) = (&config.routing, config.routing.dns.as_deref());
        let concentrator = !config.interface.listen.is_empty();
        let role = match (routing.default_route, concentrator && routing.masquerade) {
            _ if routing.leave_host_alone || dns == Some(&[]) => Role::LeaveAlone,
            (true, _) => Role::Home,
            (false, true) => Role::Concentrator,
            (false, false) => Role::LeaveAlone,
        };
        let mut links = Vec::new();
        for state in self.links.values_mut() {
            state.remember(&self.host);
            links.extend(state.names.clone());
        }
        let known = |device: &str| links.iter().any(|link| link.device == device);
        let own = config.interface.name.as_str();
        let near = self.host.links.iter().filter(|device| {
            let leads_on = self.host.default_routes.iter();
            let leads_on = leads_on.filter(|route| route.interface == Some(device.index)).count();
            !known(&device.name) && device.name != own && leads_on == 0
        });
        let near = near.flat_map(|device| {
            let addresses = self.host.addresses.iter();
            addresses.filter(|it| it.interface == device.index).map(|it| it.net)
        });
        let situation = Situation {
            tunnel: own.to_owned(),
            inside: config.interface.addresses.clone(),
            role,
            named: dns.unwrap_or_default().to_vec(),
            working: self.working,
            strict: kill_switch::is_wanted(config),
            near: near.collect(),
            links,
        };
        if situation != self.situation {
            self.names.set(situation.clone());
            self.situation = situation;
        }
    }

    /// Around a kill switch endpoints are asked for by the links that there are.
    fn follow_name_servers(&mut self) {
        self.follow_situation();
        let devices = self.links.values().filter_map(|state| {
            let device = state.ways.iter().find_map(|way| way.device.as_ref())?;
            let routers = state.ways.iter().filter_map(|way| way.gateway);
            Some((device.name.clone(), routers.collect()))
        });
        let around = Around {
            needed: kill_switch::is_wanted(&self.parts.config),
            mark: host_routing::mark(self.parts.config.interface.name.as_str()),
            links: devices.collect(),
        };
        if around != self.around {
            self.parts.resolver.set_around(around.clone());
            self.around = around;
        }
    }

    /// Follows what the data plane found of peers and quotas.
    fn follow_peers(&mut self) {
        let snapshot = self.parts.data_plane.snapshot();
        let working = snapshot.peers.iter().any(|peer| peer.connected);
        if working != self.working {
            self.working = working;
            self.tell_working();
            self.parts.resolver.set_working(working);
            self.follow_situation();
            self.route();
            self.show();
        }
        self.parts.quotas.keep(&snapshot, &self.parts.config.links, Instant::now());
        self.parts.enrolments.forget_tokens(&self.parts.config, &snapshot);
        for coming in &snapshot.introduced {
            if self.admit(coming).is_err() {
                return;
            }
        }
    }

    /// A home has come with a join line.
    fn admit(&mut self, coming: &Introduction) -> Result<(), DataPlaneEnded> {
        let Parts { enrolments, config, data_plane, .. } = &mut self.parts;
        match enrolments.admit(config, coming, Timestamp::now()) {
            Admission::NotLetIn => Ok(()),
            Admission::Expired => data_plane.send(Command::ExpireEnrolment(coming.line)),
            Admission::LetIn => {
                enrolments.apply(config);
                let known = config.peers.iter().find(|peer| peer.public_key == coming.home);
                let Some(peer) = known.map(NewPeer::read) else { return Ok(()) };
                data_plane.change(Change::RemovePeer(coming.line))?;
                match peer {
                    Ok(peer) => data_plane.change(Change::AddPeer(peer))?,
                    Err(error) => tracing::error!("{error}"),
                }
                self.show();
                Ok(())
            }
        }
    }

    fn tell_working(&self) {
        let calls = self.parts.config.peers.iter().any(|peer| !peer.endpoints.is_empty());
        match (self.working, self.traffic()) {
            // Homes come and go.
            (working, _) if !calls => tracing::info!(working, "peers"),
            (true, _) => tracing::warn!("the concentrator answers"),
            (false, Some(Traffic::Blocked)) => {
                tracing::warn!("the concentrator doesn't answer: traffic is blocked");
            }
            (false, Some(Traffic::Direct { link: Some(link) })) => {
                tracing::warn!("the concentrator doesn't answer: traffic goes direct by {link}");
            }
            (false, _) => tracing::warn!("the concentrator doesn't answer"),
        }
    }

    fn execute(&mut self, request: Request) -> Result<(), Refusal> {
        let mut editor = self.parts.editor.clone();
        let edited = match request {
            Request::AddLink(new) => editor.add_link(&new.name, &new.link),
            Request::SetLink { name, change } => {
                self.must_exist(&name)?;
                editor.set_link(&name, &change)
            }
            Request::RemoveLink { name } => {
                self.must_exist(&name)?;
                editor.remove_link(&name)
            }
            Request::SetMode(mode) => editor.set_mode(mode),
            Request::Reload => match ConfigEditor::open(&self.parts.config.file) {
                Ok(read) => {
                    self.parts.enrolments.read();
                    editor = read;
                    Ok(())
                }
                Err(error) => Err(error),
            },
            // The main thread's.
            Request::Down | Request::Stop => Ok(()),
        };
        edited.map_err(|error| Refusal::Invalid(error.to_string()))?;
        let mut config = editor.check().map_err(|errors| Refusal::Invalid(errors.to_string()))?;
        self.parts.enrolments.apply(&mut config);
        // As `config check` and `up` read them.
        config.read_keys().map_err(|error| Refusal::Invalid(error.to_string()))?;
        let found = changes(&self.parts.config, &config, self.parts.quotas.counters())
            .map_err(Refusal::Invalid)?;
        self.parts.config = config;
        self.parts.editor = editor;
        let outcome = found.into_iter().try_for_each(|change| self.carry_out(change));
        self.parts.resolver.set_peers(&self.parts.config.peers);
        self.follow_host();
        outcome.map_err(|ended| Refusal::Failed(ended.to_string()))
    }

    fn must_exist(&self, name: &str) -> Result<(), Refusal> {
        match self.parts.config.link(name) {
            Some(_) => Ok(()),
            None => Err(Refusal::NotFound(format!("the running tunnel has no link {name:?}"))),
        }
    }

    /// Does here what goes with a change, and hands it on to the data plane.
    fn carry_out(&mut self, change: Change) -> Result<(), DataPlaneEnded> {
        match &change {
            Change::AddLink { link, .. } => self.add_link(&link.name),
            Change::RebindLink(link) => {
                if let Some(state) = self.links.get_mut(&link.name) {
                    // Ways that are forgotten get new sockets.
                    for way in state.ways.drain(..) {
                        let (link, family) = (link.name.clone(), way.family);
                        self.parts.data_plane.send(Command::DetachSocket { link, family })?;
                    }
                }
            }
            Change::RemoveLink(name) => {
                // It may come back in the same period.
                self.parts.quotas.save(&self.parts.data_plane.snapshot());
                self.links.remove(name);
            }
            Change::SetLink(_)
            | Change::AddPeer(_)
            | Change::RemovePeer(_)
            | Change::SetMode(_) => {}
        }
        self.parts.data_plane.change(change)
    }

    fn add_link(&mut self, name: &Name) {
        let taken = |number: &u32| self.links.values().any(|state| state.number == *number);
        let number = (0..).find(|number| !taken(number)).unwrap_or(0);
        self.links.insert(name.clone(), LinkState { number, ..LinkState::default() });
    }

    fn show(&self) {
        let links = self.parts.config.links.iter().map(|link| {
            let state = self.links.get(&link.name);
            LinkStatus {
                name: link.name.to_string(),
                interface: link.binding.interface.as_ref().map(ToString::to_string),
                present: state.is_some_and(|state| !state.ways.is_empty()),
                trouble: state.and_then(|state| state.trouble.clone()),
                tier: link.tier,
                standby: link.standby,
                quota: None,
            }
        });
        let view = View {
            config: Some(Arc::new(self.parts.config.clone())),
            links: links.collect(),
            dns: DnsStatus {
                silent: self.choice.silent.clone(),
                instead: self.choice.diversions.iter().map(|it| it.to).collect(),
            },
            traffic: self.traffic(),
            warnings: self.obstacles.clone(),
        };
        *self.view.lock().unwrap_or_else(PoisonError::into_inner) = view;
    }

    fn traffic(&self) -> Option<Traffic> {
        let config = &self.parts.config;
        if !config.routing.default_route {
            return None;
        }
        let usable =
            |link: &&Link| self.links.get(&link.name).is_some_and(|state| !state.ways.is_empty());
        Some(match (self.working, kill_switch::is_wanted(config)) {
            (true, _) => Traffic::Tunnel,
            (false, true) => Traffic::Blocked,
            (false, false) => {
                let best = config.links.iter().filter(usable).min_by_key(|link| link.tier);
                Traffic::Direct { link: best.map(|link| link.name.to_string()) }
            }
        })
    }

    fn end(&mut self, for_good: bool) {
        self.spare_files.clear();
        self.parts.quotas.save(&self.parts.data_plane.snapshot());
        let stays = kill_switch::alone(&self.parts.config, &self.host).filter(|_| !for_good);
        if stays.is_some() {
            tracing::warn!("the kill switch stays in force; `braid down` lifts it");
        }
        for failure in self.parts.journal.reconcile(stays.as_slice()) {
            tracing::warn!("taking back: {failure}");
        }
    }
}

fn v6(net: IpNet) -> Option<Ipv6Net> {
    match net {
        IpNet::V6(net) => Some(net),
        IpNet::V4(_) => None,
    }
}

fn open_socket(link: &Link, way: &Way, mark: Option<u32>) -> io::Result<LinkSocket> {
    LinkSocket::open(&LinkBind {
        device: way.device.as_ref().map(|device| device.name.clone()),
        source: link.binding.source,
        fwmark: link.binding.fwmark.or(mark),
        port: 0,
        family: way.family,
    })
}

/// Without nft there is no table of anybody's.
fn refusing_firewalls(config: &Config) -> Vec<Refusing> {
    match host_routing::forwards(config) {
        true => nft::refusing(config.interface.name.as_str()).unwrap_or_default(),
        false => Vec::new(),
    }
}
