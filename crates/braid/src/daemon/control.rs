use super::bell::Bell;
use super::data_channel::{Command, DataPlaneHandle, Pulse, Setup, data_channel};
use super::ending::{Ending, last_words};
use super::endpoints::EndpointResolver;
use super::enrolments::Enrolments;
use super::fleet::FleetPart;
use super::flows::{DeviceSecond, FlowWatch};
use super::host_numbers::own_mark;
use super::measure::{self, Measuring};
use super::observe::{Observer, Seen};
#[cfg(feature = "page")]
use super::page::ServedPage;
use super::pathless::tell_pathless;
use super::quota::QuotaStore;
use super::reconciler::{self, Parts, ReconcilerHandle, Yields};
use super::referrals::Referrals;
use super::restart::{HandedOn, Program};
use super::rules::{Files, explained};
use super::split::SplitProxy;
use super::supervise::start_thread;
use super::traces::Traces;
use super::transports::{Resolved, listen_tls};
use super::treatments::{FlowTreatments, Judging};
use super::tunnel::Tunnel;
use super::{DaemonError, PageHomes, Running, bridge, device, kill_switch, observe, until_stopped};
use braid_carrier::Server;
use braid_control::config::{Action, AnyConfig, Config, ConfigEditor, Rule};
use braid_control::measured::{MeasureStatus, NewMeasure};
use braid_control::quota_file::QuotaCounters;
use braid_control::request::{
    Controlled, ExplainAnswer, ExplainQuery, LoginLink, Refusal, Request, UiRole,
};
use braid_control::server;
use braid_control::status::{LinkStatus, PeerStatus, QuotaStatus, Status};
use braid_control::traffic::TrafficStatus;
use braid_history::Recorder;
use braid_linux::journal::UndoJournal;
use braid_linux::netlink::Netlink;
use braid_linux::nft::Split;
use braid_linux::peer::{Peer, group_of_name};
use braid_linux::tun::Tun;
use braid_linux::udp::{Family, LinkBind, LinkSocket, Steered, Steering};
use braid_linux::wake_latency::{self, LatencyRequest};
use braid_tunnel::Worker;
use ipnet::IpNet;
use std::collections::BTreeSet;
use std::io;
use std::num::{NonZeroU8, NonZeroUsize};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::watch;

/// The tunnel as the control socket sees it.
pub struct RunningTunnel {
    config: Config,
    started: Instant,
    data_plane: Arc<DataPlaneHandle>,
    data_thread: Mutex<Option<JoinHandle<io::Result<()>>>>,
    reconciler: ReconcilerHandle,
    observer: Observer,
    flows: Mutex<Flows>,
    measuring: Measuring,
    /// The fleet's status, and the homes to leave to other concentrators.
    fleet: FleetPart,
    /// Set once it exists.
    this: OnceLock<Weak<RunningTunnel>>,
    _speed: Option<braid_speed::Server>,
    #[cfg(feature = "page")]
    page: OnceLock<ServedPage>,
    #[cfg_attr(not(feature = "page"), allow(dead_code))]
    homes: PageHomes,
    split: Option<SplitProxy>,
    _carriers: Option<Server>,
    program: Program,
    /// Who may use the control socket besides root, if configured.
    admits: Option<server::Admits>,
    /// Of the device, for the program that takes over.
    queues: Mutex<Vec<OwnedFd>>,
    ending: Ending,
    /// Whether somebody asked for that by `down`.
    down: AtomicBool,
}

impl RunningTunnel {
    /// Undoes what a crash left behind, or takes over what is handed on, then brings everything up.
    /// On an error only the kill switch stays; of what was handed on, everything except the device.
    pub fn start(
        mut config: Config,
        program: Program,
        inherited: Option<HandedOn>,
        ending: Ending,
        homes: PageHomes,
    ) -> Result<RunningTunnel, DaemonError> {
        let goes_on = inherited.is_some();
        // Before anything is set on the host.
        let admits = admitted(&config)?;
        let journal = match goes_on {
            true => Traces::of_tunnel(&config).adopt()?,
            false => first_journal(&config)?,
        };
        let private_key = config.read_keys()?;
        let public_key = private_key.public_key();
        let enrolments = Enrolments::open(&config.interface, private_key.public_key());
        enrolments.apply(&mut config);
        let referrals = Referrals::open(&config.interface, public_key);
        referrals.apply(&mut config);
        let interface = &config.interface;
        let netlink = Netlink::open().map_err(DaemonError::system("opening netlink"))?;
        let handed_on = inherited.map(|inherited| inherited.queues).unwrap_or_default();
        let workers = device::workers(interface.workers.count(processors()), &handed_on);
        let listen = listen_sockets(&config, workers)?;
        let (carriers, listen_tls) = listen_tls(&config, private_key.public_key())?;
        let split = SplitProxy::start(&config, &ending)
            .map_err(DaemonError::system("starting the proxy of [split_tcp]"))?;
        let queues = device::create(interface, workers, handed_on)?;
        let held = hold(&queues)?;
        let setup = Setup {
            queues,
            addresses: interface.addresses.iter().map(|net| net.addr()).collect(),
            private_key,
            mode: interface.mode,
            xor_hash: interface.xor_hash,
            rules: config.rules.clone(),
            redundancy_budget: interface.redundancy_budget,
            memory_per_peer: interface.memory_per_peer,
            announces: config.routing.announce_table.is_some(),
            isolate_homes: !interface.listen.is_empty() && !interface.home_to_home,
            capacity: config.fleet.as_ref().map(|fleet| fleet.capacity),
            wake_latency: open_wake_latency(interface.wake_latency),
            listen,
            listen_tls,
        };
        let (data_plane, data_thread) = start_data_plane(setup, ending.clone())
            .map_err(DaemonError::system("starting the data plane"))?;
        let data_plane = Arc::new(data_plane);
        let rules = split.as_ref().map(|split| split.rules);
        let host = Host { journal, goes_on, netlink };
        let yields = Yields::default();
        let of_host = (rules, yields.clone());
        let reconciler =
            start_reconciler(&config, host, (enrolments, referrals), &data_plane, of_host, &ending);
        let reconciler = match reconciler {
            Ok(reconciler) => reconciler,
            Err(error) => {
                // It may have ended by itself.
                let _ = data_plane.send(Command::Stop);
                let _ = data_thread.join();
                return Err(error);
            }
        };
        let observer = observer(&config);
        let speed = measure::serve(&config);
        Ok(RunningTunnel {
            flows: Mutex::new(Flows::of(&config)),
            config,
            started: Instant::now(),
            data_plane,
            data_thread: Mutex::new(Some(data_thread)),
            reconciler,
            observer,
            measuring: Measuring::default(),
            fleet: FleetPart::new(public_key, yields),
            this: OnceLock::new(),
            _speed: speed,
            #[cfg(feature = "page")]
            page: OnceLock::new(),
            homes,
            split,
            _carriers: carriers,
            program,
            admits,
            queues: Mutex::new(held),
            ending,
            down: AtomicBool::new(false),
        })
    }
}

impl Running for RunningTunnel {
    fn serve(
        self: &Arc<Self>,
        socket: UnixListener,
        stopped: watch::Receiver<bool>,
    ) -> tokio::task::JoinHandle<io::Result<()>> {
        // Only one is ever set.
        let _ = self.this.set(Arc::downgrade(self));
        let told = Arc::downgrade(self);
        let alerts = move || told.upgrade().map(|running| running.config_now().alerts);
        if let Err(error) = self.observer.tell(&self.config, alerts) {
            tracing::warn!(%error, "nobody is notified of events: no thread can be started");
        }
        let watched = Arc::downgrade(self);
        let seen = move || {
            let running = watched.upgrade()?;
            Some(Seen { devices: running.look_at_flows(), status: running.status() })
        };
        if let Err(error) = self.observer.look_at(seen) {
            tracing::warn!(%error, "history has nothing to keep: its thread can't be started");
        }
        let this: Arc<dyn Tunnel> = self.clone();
        self.fleet.start(&self.config, Arc::downgrade(&this), &self.data_plane);
        #[cfg(feature = "page")]
        match ServedPage::start(&self.config, &this, self.homes) {
            Ok(page) => drop(self.page.set(page)),
            Err(error) => tracing::warn!("the page can't be served: {error}"),
        }
        let running = self.clone();
        tokio::spawn(async move {
            let file = running.config.file.clone();
            let Some(admits) = running.admits.clone() else {
                return server::serve(socket, running, &file, until_stopped(stopped)).await;
            };
            server::serve_admitted(socket, admits, running, &file, until_stopped(stopped)).await
        })
    }

    fn serve_metrics(self: &Arc<Self>, listener: TcpListener, stopped: watch::Receiver<bool>) {
        tokio::spawn(server::serve_metrics(listener, self.clone(), until_stopped(stopped)));
    }

    fn pulse(&self) -> Option<Pulse> {
        Some(self.data_plane.pulse())
    }

    /// The result says why the data plane ended, if it did so by itself.
    fn stop(&self) -> Result<(), DaemonError> {
        #[cfg(feature = "page")]
        if let Some(page) = self.page.get() {
            page.stop();
        }
        self.observer.stop();
        // While both ends can still be notified.
        if let Some(split) = &self.split {
            split.stop();
        }
        // Routes first: as long as they are there, something should answer.
        let taken_back = self.reconciler.stop(self.down.load(Ordering::Relaxed));
        drop(self.take_queues());
        // It may have ended by itself; joining tells.
        let _ = self.data_plane.send(Command::Stop);
        let thread = self.data_thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        match thread.map(JoinHandle::join) {
            None | Some(Ok(Ok(()))) => taken_back.map_err(DaemonError::system("taking it down")),
            Some(Ok(Err(error))) => Err(DaemonError::system("the data plane")(error)),
            Some(Err(_)) => {
                Err(DaemonError::system("the data plane")(io::Error::other("it panicked")))
            }
        }
    }

    /// The data plane leaves last: packets from then on wait in the device.
    fn leave(&self) -> Option<HandedOn> {
        // Its connections end with this process; do it while both ends can still be notified.
        if let Some(split) = &self.split {
            split.stop();
        }
        let stays = self.reconciler.leave();
        self.observer.stop();
        self.data_plane.leave();
        stays.then(|| HandedOn { queues: self.take_queues() })
    }
}

impl RunningTunnel {
    fn take_queues(&self) -> Vec<OwnedFd> {
        std::mem::take(&mut self.queues.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// What each device sent and received since the last call. Tells the core the flows' owners and
    /// their treatment by rules.
    fn look_at_flows(&self) -> Vec<DeviceSecond> {
        let snapshot = self.data_plane.snapshot();
        let config = self.config_now();
        let mut flows = self.flows.lock().unwrap_or_else(PoisonError::into_inner);
        let Flows { watch, files, treatments } = &mut *flows;
        let leases = files.leases(&config);
        let treats =
            |rule: &Rule| matches!(rule.action, Action::Tunnel(it) if it.by_connection().is_some());
        let at_once = config.rules.iter().any(treats);
        let devices = watch.look(&snapshot.traffic, &leases, at_once, Instant::now());
        let view = self.reconciler.view();
        let (rules, _) = &*view.deciding;
        let names = view.known_names.as_ref();
        let judging = Judging { config: &config, rules, names, leases: &leases };
        for (peer, wanted) in treatments.follow(watch.known(), &judging) {
            // It has ended: so does this.
            let _ = self.data_plane.send(Command::Treat { peer, treatments: wanted });
        }
        watch.name_rules(|key| treatments.rule_name(key, &config));
        devices
    }
}

impl Tunnel for RunningTunnel {
    fn config_now(&self) -> Config {
        let view = self.reconciler.view();
        view.config.as_deref().unwrap_or(&self.config).clone()
    }
}

impl Controlled for RunningTunnel {
    fn status(&self) -> Status {
        let snapshot = self.data_plane.snapshot();
        let view = self.reconciler.view();
        let config = view.config.as_deref().unwrap_or(&self.config);
        let interface = &config.interface;
        let mut links = with_quotas(view.links, config, &snapshot.quotas);
        for link in links.iter_mut().filter(|link| link.trouble.is_none()) {
            link.trouble = snapshot.unwatched.get(&link.name).cloned();
        }
        // For peers that connect to this host it isn't known how to reach them.
        if config.peers.iter().any(|peer| !peer.endpoints.is_empty()) {
            tell_pathless(&mut links, &snapshot.peers);
        }
        Status {
            version: env!("CARGO_PKG_VERSION").into(),
            interface: interface.name.to_string(),
            pid: std::process::id(),
            layer: interface.layer,
            mode: interface.mode,
            mtu: interface.mtu,
            drops: snapshot.drops,
            uptime_s: self.started.elapsed().as_secs_f64(),
            listen: interface.listen.clone(),
            draining: interface.draining,
            links,
            warnings: view.troubles.iter().map(|trouble| trouble.text.clone()).collect(),
            troubles: view.troubles,
            peers: with_announced(&snapshot.peers, &view.announced),
            dns: view.dns,
            traffic: view.traffic,
            rules: view.rules,
            split_tcp: self.split.as_ref().map(SplitProxy::status),
            fleet: self.fleet.status(),
            alerts: self.observer.alerts(&config.alerts),
        }
    }

    fn execute(&self, request: Request) -> Result<(), Refusal> {
        if matches!(request, Request::Down | Request::Stop) {
            self.down.store(request == Request::Down, Ordering::Relaxed);
            self.ending.ask();
            return Ok(());
        }
        let restarts = request == Request::Restart;
        if restarts {
            self.program.can_take_over(&AnyConfig::Tunnel(Box::new(self.config.clone())))?;
        }
        self.reconciler.execute(request)?;
        if restarts {
            self.ending.ask_for_restart();
        }
        Ok(())
    }

    fn history(&self) -> Option<&Recorder> {
        self.observer.recorder()
    }

    fn measure(&self, wish: &NewMeasure) -> Result<(), Refusal> {
        self.measuring.start(self.this.get().cloned().unwrap_or_default(), wish)
    }

    fn measuring(&self) -> MeasureStatus {
        self.measuring.status()
    }

    fn traffic(&self) -> TrafficStatus {
        let flows = self.flows.lock().unwrap_or_else(PoisonError::into_inner);
        flows.watch.shown().as_ref().clone()
    }

    fn explain(&self, query: &ExplainQuery) -> Result<ExplainAnswer, Refusal> {
        let view = self.reconciler.view();
        let config = view.config.as_deref().unwrap_or(&self.config);
        let (traffic, names) = (view.traffic.as_ref(), view.known_names.as_ref());
        explained(config, &view.deciding, traffic, names, query)
    }

    #[cfg(not(feature = "page"))]
    fn login_link(&self, _: UiRole) -> Result<LoginLink, Refusal> {
        Err(Refusal::NotFound("this build of braid has no page".into()))
    }

    #[cfg(feature = "page")]
    fn login_link(&self, role: UiRole) -> Result<LoginLink, Refusal> {
        let link = self.page.get().and_then(|page| page.login_link(role));
        link.ok_or_else(|| {
            Refusal::NotFound("the page is off: see [ui] listen in the config, and the log".into())
        })
    }
}

/// Who may control the tunnel besides root.
fn admitted(config: &Config) -> Result<Option<server::Admits>, DaemonError> {
    let group = config.interface.control_group.as_deref();
    let admits = group.map(members_of).transpose();
    admits.map_err(DaemonError::system("letting a group control the tunnel"))
}

/// A tunnel without history is better than none.
fn observer(config: &Config) -> Observer {
    Observer::start(config).unwrap_or_else(|error| {
        tracing::warn!(%error, "no history is kept: its thread can't be started");
        Observer::none()
    })
}

/// The users of the tunnel, and the source of their names.
struct Flows {
    watch: FlowWatch,
    files: Files,
    treatments: FlowTreatments,
}

impl Flows {
    fn of(config: &Config) -> Flows {
        let at_home = config.interface.listen.is_empty();
        let own = config.interface.addresses.iter().map(IpNet::addr).collect();
        Flows {
            watch: FlowWatch::new(at_home, own, Instant::now()),
            files: Files::default(),
            treatments: FlowTreatments::default(),
        }
    }
}

/// Root, this user, and the group's members.
fn members_of(group: &str) -> io::Result<server::Admits> {
    let missing = || {
        let what = format!("interface.control_group: there is no group {group:?} here");
        let hint = format!("`groupadd --system {group}` makes it");
        io::Error::new(io::ErrorKind::NotFound, format!("{what}; {hint}"))
    };
    let number = group_of_name(group)?.ok_or_else(missing)?;
    Ok(Arc::new(move |stream| {
        Peer::of(stream).is_ok_and(|peer| peer.is_root_or_own() || peer.is_in(number))
    }))
}

/// Opens the journal, and sets the kill switch first of all if the config asks for it.
fn first_journal(config: &Config) -> Result<UndoJournal, DaemonError> {
    let traces = Traces::of_tunnel(config);
    match kill_switch::alone(config, &observe(config)?) {
        Some(item) => traces.clean_but(&item),
        None => traces.clean(),
    }
}

/// A tunnel works without it; if the config asks for it, a failure is reported.
fn open_wake_latency(setting: braid_units::WakeLatency) -> Option<LatencyRequest> {
    use braid_units::WakeLatency::{Auto, Off, Within};
    let limit = match setting {
        Off => return None,
        Auto if !wake_latency::processors_are_dedicated() => return None,
        Auto => return LatencyRequest::open(Duration::ZERO).ok(),
        Within(limit) => limit,
    };
    LatencyRequest::open(limit)
        .inspect_err(|error| {
            tracing::warn!(
                "interface.wake_latency has no effect: {}: {error}; it takes root, and no \
                 container in between",
                LatencyRequest::DEVICE
            );
        })
        .ok()
}

/// The processors that the machine and our parent process allow us.
fn processors() -> NonZeroUsize {
    std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

/// Each worker gets the datagrams of its sessions.
const STEERING: Steering =
    Steering { first_byte: Worker::SESSION_KIND, by_byte_at: Worker::SESSION_BYTE };

/// For each address one socket per worker, and one for strangers.
fn listen_sockets(config: &Config, workers: NonZeroU8) -> Result<Vec<Steered>, DaemonError> {
    let mark = own_mark(config);
    let open = |address: &std::net::SocketAddr| {
        let bind = LinkBind {
            device: None,
            source: (!address.ip().is_unspecified()).then_some(address.ip()),
            fwmark: mark,
            port: address.port(),
            family: Family::of(address.ip()),
        };
        open_when_ready(&bind, workers)
            .map_err(|error| match error.kind() {
                // AddrInUse would mean another tunnel of the same name.
                io::ErrorKind::AddrInUse => {
                    io::Error::other("the port is taken (`ss -lnup` shows by whom)")
                }
                _ => error,
            })
            .map_err(DaemonError::system(format!("listening on {address}")))
    };
    config.interface.listen.iter().map(open).collect()
}

/// A new IPv6 address can't be used for a second or two, during duplicate address detection (RFC
/// 4862, section 5.4).
fn open_when_ready(bind: &LinkBind, workers: NonZeroU8) -> io::Result<Steered> {
    const PATIENCE: Duration = Duration::from_secs(5);
    const PAUSE: Duration = Duration::from_millis(100);
    let begun = Instant::now();
    loop {
        match LinkSocket::open_steered(bind, workers, STEERING) {
            Err(error)
                if error.kind() == io::ErrorKind::AddrNotAvailable
                    && bind.family == Family::V6
                    && begun.elapsed() < PATIENCE =>
            {
                std::thread::sleep(PAUSE);
            }
            opened => return opened,
        }
    }
}

/// The returned thread ends with the data plane, and returns its result.
fn start_data_plane(
    setup: Setup,
    ending: Ending,
) -> io::Result<(DataPlaneHandle, JoinHandle<io::Result<()>>)> {
    let (handle, commands, published) = data_channel();
    let bell = Bell::new(handle.commands());
    let plane = bridge::start(setup, commands, published, bell)?;
    let watch = start_thread("braid-watch", move || {
        let outcome = plane.join().unwrap_or_else(|panic| {
            Err(io::Error::other(format!("it panicked: {}", last_words(&*panic))))
        });
        // The daemon must not live on without it.
        match &outcome {
            Ok(()) => ending.ask(),
            Err(error) => ending.because(format!("the data plane has ended: {error}")),
        }
        outcome
    })?;
    Ok((handle, watch))
}

/// What the reconciler starts with.
struct Host {
    journal: UndoJournal,
    /// What the journal contains is set, and belongs to this tunnel.
    goes_on: bool,
    netlink: Netlink,
}

/// Keeps the device while its queues are elsewhere.
fn hold(queues: &[Tun]) -> Result<Vec<OwnedFd>, DaemonError> {
    let held: io::Result<Vec<OwnedFd>> = queues.iter().map(Tun::hold).collect();
    held.map_err(DaemonError::system("holding the device"))
}

fn start_reconciler(
    config: &Config,
    host: Host,
    (enrolments, referrals): (Enrolments, Referrals),
    data_plane: &Arc<DataPlaneHandle>,
    (split, yields): (Option<Split>, Yields),
    ending: &Ending,
) -> Result<ReconcilerHandle, DaemonError> {
    let starting = || DaemonError::system("starting the reconciler");
    let editor = ConfigEditor::open(&config.file)
        .map_err(|error| starting()(io::Error::other(error.to_string())))?;
    let plane = data_plane.clone();
    let resolved = Resolved::default();
    let found = resolved.clone();
    let resolver = EndpointResolver::start(
        ending,
        Box::new(move |peer, endpoints| {
            tracing::debug!(?endpoints, "endpoints resolved");
            found.set(peer, &endpoints);
            // Without data plane the daemon is ending.
            let _ = plane.send(Command::SetEndpoints { peer, endpoints });
        }),
    )
    .map_err(starting())?;
    let parts = Parts {
        editor,
        config: config.clone(),
        netlink: host.netlink,
        journal: host.journal,
        goes_on: host.goes_on,
        data_plane: data_plane.clone(),
        resolver,
        quotas: QuotaStore::open(&config.interface),
        enrolments,
        referrals,
        split,
        resolved,
        yields,
        ending: ending.clone(),
    };
    reconciler::start(parts).map_err(starting())
}

fn with_announced(peers: &[PeerStatus], announced: &BTreeSet<String>) -> Vec<PeerStatus> {
    let mut peers = peers.to_vec();
    for peer in &mut peers {
        peer.announced = announced.contains(&peer.name);
    }
    peers
}

fn with_quotas(
    mut links: Vec<LinkStatus>,
    config: &Config,
    counters: &QuotaCounters,
) -> Vec<LinkStatus> {
    for status in &mut links {
        let quota = config.link(&status.name).and_then(|link| link.quota);
        let counter = counters.get(&status.name);
        status.quota = quota.map(|quota| QuotaStatus {
            limit_bytes: quota.bytes.bytes(),
            used_bytes: counter.map_or(0, |counter| counter.used_bytes),
            period_start_unix: counter.map(|counter| counter.period_start_unix),
            period_end_unix: counter
                .filter(|counter| counter.period_start_unix > 0)
                .map(|counter| bridge::period_end(quota.period, counter.period_start_unix)),
        });
    }
    links
}
