//! The running tunnel: everything around the data plane; or the running group
//! of links that an engine of the kernel joins (`group`).
//!
//! The *data plane* moves packets; the *reconciler* owns the config and keeps
//! devices, sockets and routes as the config and the host's links want them;
//! `braid-control` serves the control socket; the main thread brings all up and waits
//! for the end. A thread that fails is started again or ends the daemon in good order
//! ([`Ending`]); none is just gone.

mod beat;
mod bell;
mod bridge;
mod chosen;
mod classes;
mod control;
mod data_channel;
mod device;
mod egress;
mod ending;
mod endpoints;
mod enrolments;
#[cfg(feature = "page")]
mod examine;
mod fleet;
mod flows;
mod group;
pub mod hardware;
mod host_numbers;
mod host_routing;
mod journal_trouble;
mod kill_switch;
mod link_sockets;
pub mod links_now;
pub mod log;
pub mod look;
mod measure;
mod names;
pub mod network_manager;
mod observe;
mod obstacles;
mod own_certificate;
pub mod own_endpoints;
#[cfg(feature = "page")]
pub mod page;
mod pathless;
mod portals;
pub mod preview;
mod quota;
mod reconciler;
mod reconfigure;
mod referrals;
mod restart;
pub mod rules;
mod split;
mod supervise;
mod systemd_resolved;
#[cfg_attr(
    not(feature = "pools"),
    allow(dead_code, reason = "only their commands tell by it; `braid alert` shows how it goes")
)]
pub mod told;
mod traces;
mod transports;
mod treatments;
pub mod tunnel;

use braid_control::config::{AnyConfig, Config, GroupConfig, KeyFileError};
use braid_control::server;
use braid_engines::Group;
use braid_linux::claim::{Claim, Holder};
use braid_linux::confinement::{self, Capability};
use braid_linux::exec;
use braid_linux::netlink::Netlink;
use braid_linux::sd::ServiceManager;
use braid_runtime::Runtime;
use control::RunningTunnel;
use data_channel::Pulse;
use egress::HostNetwork;
use ending::Ending;
use group::RunningGroup;
use restart::{HandedOn, Program};
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, UnixListener};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use traces::Traces;

/// Why the tunnel could not come up, or ended.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// A key file.
    #[error(transparent)]
    Secret(#[from] KeyFileError),
    /// What the system said.
    #[error("{doing}: {error}{}", hint(.error))]
    System {
        /// What was tried.
        doing: String,
        /// The answer.
        error: io::Error,
    },
}

/// What to do, where the system's word alone doesn't tell.
pub fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        // pthread_create(3) says EAGAIN.
        io::ErrorKind::WouldBlock | io::ErrorKind::OutOfMemory => {
            "; there is no memory, or no thread, left for it (free, ulimit -a, MemoryMax and \
             TasksMax of its unit)"
        }
        _ => "",
    }
}

impl DaemonError {
    fn system(doing: impl Into<String>) -> impl FnOnce(io::Error) -> DaemonError {
        let doing = doing.into();
        move |error| DaemonError::System { doing, error }
    }
}

#[cfg(feature = "page")]
pub use page::PageHomes;
/// A small build has no page.
#[cfg(not(feature = "page"))]
pub type PageHomes = ();

/// The calling thread holds back what asks for the end, and so do all that are started from now
/// on, until [`run`] lets it through on this one alone: another would take what is meant for the
/// program that a restart leads to. To be called before any thread is started.
pub fn hold_signals_back() -> Result<(), DaemonError> {
    exec::block_signals().map_err(DaemonError::system("holding signals back"))
}

/// Brings the tunnel or group up and keeps it until it is told to end; then
/// takes back all that it set, or leaves it to the program that goes on with it.
pub fn run(config: AnyConfig, homes: PageHomes) -> Result<(), DaemonError> {
    let program =
        Program::of_this_process().map_err(DaemonError::system("finding this program"))?;
    if let Err(error) = confine(&config) {
        tracing::warn!(%error, "some rights that aren't needed can't be given up here");
    }
    // Serves the control socket, while this thread brings all up and takes it down.
    let control = Runtime::start("braid-control")
        .map_err(DaemonError::system("starting the control side"))?;
    let outcome = control.handle().block_on(async {
        match &config {
            AnyConfig::Tunnel(tunnel) => {
                let start = |inherited: Option<HandedOn>, ending| {
                    RunningTunnel::start(
                        (**tunnel).clone(),
                        program.clone(),
                        inherited,
                        ending,
                        homes,
                    )
                };
                live(&config, tunnel.interface.metrics, &program, start).await
            }
            AnyConfig::Group(group) => {
                let start = |inherited: Option<HandedOn>, ending| {
                    RunningGroup::start((**group).clone(), program.clone(), inherited, ending)
                };
                live(&config, group.metrics, &program, start).await
            }
        }
    });
    log::flush();
    outcome
}

/// Before any other thread runs, and whoever started this: a systemd unit does
/// the same and more. Engines of groups run other programs, which need more.
fn confine(config: &AnyConfig) -> io::Result<()> {
    confinement::tighten_umask(confinement::PRIVATE);
    confinement::leave_no_core()?;
    let AnyConfig::Tunnel(config) = config else { return Ok(()) };
    let mut kept = vec![Capability::NetAdmin, Capability::NetRaw, Capability::NetBindService];
    // Somebody's own config, with his keys beside it: root may read them only so.
    if std::fs::metadata(&config.file).is_ok_and(|file| file.uid() != 0) {
        kept.push(Capability::DacOverride);
    }
    confinement::keep_capabilities(&kept)
}

/// A group as it could be set up now: links that are away keep what the config
/// says of them.
pub fn observed_group(config: &GroupConfig) -> io::Result<Group> {
    let host = HostNetwork::observe(&mut Netlink::open()?)?;
    Ok(group::observed(config, &host))
}

/// Whether a daemon that crashed left something set on the host, for [`take_back`].
pub fn has_left_something(config: &AnyConfig) -> bool {
    Traces::of(config).exist()
}

/// Takes back what a daemon that crashed left set on the host. An error when one
/// runs, and when something can't be taken back.
pub fn take_back(config: &AnyConfig) -> Result<(), DaemonError> {
    let traces = Traces::of(config);
    let take_back = || traces.take_back();
    let (journal, failures) = while_none_runs(config.name(), config.control(), take_back)?;
    let lacks = match failures.into_iter().next() {
        Some(failure) => Some(failure.to_string()),
        None => traces.untold(&journal),
    };
    match lacks {
        Some(lacks) => {
            let error = io::Error::other(lacks);
            Err(DaemonError::System { doing: "taking back what a crash left".into(), error })
        }
        None => Ok(()),
    }
}

/// The process that runs a tunnel or group, heard or not.
pub fn holder(config: &AnyConfig) -> Result<Option<Holder>, DaemonError> {
    let name = config.name();
    Claim::holder(name).map_err(DaemonError::system(format!("seeing who runs {name}")))
}

/// Puts the kill switch in force and nothing else, where the config asks for one:
/// at boot, before the network is there. Tells whether it does. An error when a
/// daemon runs, which has it in force already.
pub fn kill_switch_alone(config: &Config) -> Result<bool, DaemonError> {
    let interface = &config.interface;
    let Some(item) = kill_switch::alone(config, &observe(config)?) else { return Ok(false) };
    let hold = || Traces::of_tunnel(config).clean_but(&item);
    while_none_runs(interface.name.as_str(), &interface.control, hold).map(|_| true)
}

/// Does something while no daemon can start.
fn while_none_runs<T>(
    name: &str,
    control: &Path,
    act: impl FnOnce() -> Result<T, DaemonError>,
) -> Result<T, DaemonError> {
    let _claim = claim(name)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(DaemonError::system("starting the control side"))?;
    let _socket = runtime
        .block_on(server::bind(control))
        .map_err(DaemonError::system(format!("making the control socket {}", control.display())))?;
    let outcome = act();
    remove_socket(control);
    outcome
}

/// No two daemons set up one name: what the first has set would look like a crash's to the other.
/// The control socket alone can't tell, as somebody may have deleted it.
fn claim(name: &str) -> Result<Claim, DaemonError> {
    let taken = Claim::take(name).map_err(DaemonError::system(format!("claiming {name}")))?;
    taken.map_err(|Holder { process }| {
        let why = format!("process {process} runs it; `braid down` ends it");
        let error = io::Error::new(io::ErrorKind::AddrInUse, why);
        DaemonError::System { doing: format!("{name} is up already"), error }
    })
}

fn observe(config: &Config) -> Result<HostNetwork, DaemonError> {
    Netlink::open()
        .and_then(|mut netlink| HostNetwork::look(&mut netlink, config))
        .map_err(DaemonError::system("looking at the host's network"))
}

/// Something that was brought up and has a control socket.
trait Running: Send + Sync + 'static {
    /// Serves the control socket until `stopped` says so.
    fn serve(
        self: &Arc<Self>,
        socket: UnixListener,
        stopped: watch::Receiver<bool>,
    ) -> JoinHandle<io::Result<()>>;

    /// Serves metrics by TCP, where it has some.
    fn serve_metrics(self: &Arc<Self>, _listener: TcpListener, _stopped: watch::Receiver<bool>) {}

    /// Tells whether what carries the packets still turns; none where the kernel does.
    fn pulse(&self) -> Option<Pulse> {
        None
    }

    /// Takes everything down; blocking.
    fn stop(&self) -> Result<(), DaemonError>;

    /// Leaves everything as it is for the program that goes on with it, and gives the device
    /// that it needs, if there is one; blocking. None when what is set on the host isn't
    /// written down: it can only be taken back.
    fn leave(&self) -> Option<HandedOn>;
}

async fn live<T: Running>(
    config: &AnyConfig,
    metrics: Option<SocketAddr>,
    program: &Program,
    start: impl Fn(Option<HandedOn>, Ending) -> Result<T, DaemonError>,
) -> Result<(), DaemonError> {
    let (name, control) = (config.name(), config.control());
    let manager = ServiceManager::from_environment()
        .map_err(DaemonError::system("finding the service manager"))?;
    // Before anything is set on the host: whoever ends this while it starts wants all taken back.
    let mut signals = Signals::caught()?;
    let inherited = HandedOn::take();
    // First, so that two daemons never set up the same tunnel.
    let claim = claim(name)?;
    let socket = server::bind(control)
        .await
        .map_err(DaemonError::system(format!("making the control socket {}", control.display())))?;
    let metrics = match metrics {
        Some(address) => Some(
            TcpListener::bind(address)
                .await
                .map_err(DaemonError::system(format!("listening on {address} for metrics")))?,
        ),
        None => None,
    };
    let ending = Ending::default();
    let running = match started(&start, inherited, &ending) {
        Ok(running) => Arc::new(running),
        Err(error) => {
            remove_socket(control);
            return Err(error);
        }
    };
    let (stop, stopped) = watch::channel(false);
    let mut serving = running.serve(socket, stopped.clone());
    if let Some(listener) = metrics {
        running.serve_metrics(listener, stopped);
    }
    if let Err(error) = signals.let_through() {
        ending.because(error.to_string());
    }
    manager.ready();
    tracing::info!(interface = name, "up");

    let watchdog = Watchdog { manager: &manager, pulse: running.pulse() };
    wait_for_the_end(watchdog, &ending, &claim, &mut signals, &mut serving).await;

    if ending.is_restart() && !signals.ask_in_time().await {
        manager.reloading();
        ending.because(go_on(config, program, &*running));
    }
    manager.stopping();
    // On this thread: there may be no memory for another.
    let undone = catch_unwind(AssertUnwindSafe(|| running.stop()));
    // The socket goes last: as long as it is there, `braid down` waits.
    remove_socket(control);
    // Receivers that are gone have nothing left to stop.
    let _ = stop.send(true);
    if !serving.is_finished() {
        let _ = tokio::time::timeout(GRACE, serving).await;
    }
    match undone {
        Ok(result) => result?,
        Err(panic) => {
            let error = io::Error::other(ending::last_words(&*panic));
            return Err(DaemonError::System { doing: "taking it down".into(), error });
        }
    }
    tracing::info!(interface = name, "down");
    match ending.reason() {
        None => Ok(()),
        Some(reason) => {
            let doing = format!("{name} went down");
            Err(DaemonError::System { doing, error: io::Error::other(reason) })
        }
    }
}

/// Goes on with what was handed on; where that can't be, all is set up from the beginning.
fn started<T>(
    start: &impl Fn(Option<HandedOn>, Ending) -> Result<T, DaemonError>,
    inherited: Option<HandedOn>,
    ending: &Ending,
) -> Result<T, DaemonError> {
    if let Some(inherited) = inherited {
        match start(Some(inherited), ending.clone()) {
            Ok(running) => return Ok(running),
            Err(error) => tracing::error!("going on with what ran: {error}; it begins anew"),
        }
    }
    start(None, ending.clone())
}

/// Becomes the program that is there now; else says why not.
fn go_on(config: &AnyConfig, program: &Program, running: &impl Running) -> String {
    let Some(left) = running.leave() else {
        return "what is set on the host isn't written down, so no other program can go on with \
                it"
        .to_owned();
    };
    tracing::info!(interface = config.name(), "goes on as the program that is there now");
    log::flush();
    let error = program.take_over(&left.queues);
    // What is set by now is nobody's.
    let traces = Traces::of(config);
    match traces.take_back() {
        Ok((journal, _)) => traces.warn_of_damage(&journal),
        Err(error) => tracing::warn!("{error}"),
    }
    format!("another program can't go on with it: {error}")
}

/// By which somebody asks for the end: a service manager, a key, a terminal that is closed.
struct Signals([Signal; 4]);

impl Signals {
    /// They end nothing by themselves, and wait until they are let through.
    fn caught() -> Result<Signals, DaemonError> {
        let on = |kind| signal(kind).map_err(DaemonError::system("catching signals"));
        Ok(Signals([
            on(SignalKind::terminate())?,
            on(SignalKind::interrupt())?,
            on(SignalKind::hangup())?,
            on(SignalKind::quit())?,
        ]))
    }

    /// From now on this thread gets them; the others hold them back as it did when they began.
    fn let_through(&self) -> Result<(), DaemonError> {
        exec::unblock_signals().map_err(DaemonError::system("catching signals"))
    }

    /// Holds them back for another program; whether one came before.
    async fn ask_in_time(&mut self) -> bool {
        if let Err(error) = exec::block_signals() {
            tracing::warn!(%error, "signals can't be held back");
        }
        tokio::time::timeout(TOLD, self.any()).await.is_ok()
    }

    /// Until one comes, or since one came.
    async fn any(&mut self) {
        let [terminate, interrupt, hangup, quit] = &mut self.0;
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = hangup.recv() => {}
            _ = quit.recv() => {}
        }
    }
}

async fn until_stopped(mut stopped: watch::Receiver<bool>) {
    // A sender that is gone is a stop too.
    let _ = stopped.wait_for(|stopped| *stopped).await;
}

/// What was caught is told this soon, and an answer has left.
const TOLD: Duration = Duration::from_millis(50);
/// For answers that are under way at the end.
const GRACE: Duration = Duration::from_secs(1);
/// Some hundred may ask in the meantime who has the claim.
const FORGET_ASKERS: Duration = Duration::from_secs(5);
/// Without a watchdog nobody needs a sign of life.
const NO_WATCHDOG: Duration = Duration::from_secs(3600);

/// Signs of life for the service manager, which ends what gives none.
struct Watchdog<'a> {
    manager: &'a ServiceManager,
    pulse: Option<Pulse>,
}

impl Watchdog<'_> {
    fn interval(&self) -> Duration {
        self.manager.watchdog_interval().unwrap_or(NO_WATCHDOG)
    }

    fn tell(&mut self) {
        if self.pulse.as_mut().is_none_or(Pulse::beats) {
            self.manager.alive();
        } else {
            tracing::error!(
                "the data plane stands still: the service manager, which begins it anew, isn't \
                 told that it is alive"
            );
        }
    }
}

async fn wait_for_the_end(
    mut watchdog: Watchdog<'_>,
    ending: &Ending,
    claim: &Claim,
    signals: &mut Signals,
    serving: &mut JoinHandle<io::Result<()>>,
) {
    let mut alive = tokio::time::interval(watchdog.interval());
    let mut askers = tokio::time::interval(FORGET_ASKERS);
    loop {
        tokio::select! {
            () = signals.any() => return,
            () = ending.asked() => return,
            served = &mut *serving => {
                // Nobody could ask it for anything any more, nor see that it runs.
                ending.because(match served {
                    Ok(Ok(())) => "the control socket is no longer served".to_owned(),
                    Ok(Err(error)) => format!("serving the control socket: {error}"),
                    Err(error) => format!("serving the control socket: {error}"),
                });
                return;
            }
            _ = alive.tick() => watchdog.tell(),
            _ = askers.tick() => claim.forget_askers(),
        }
    }
}

fn remove_socket(path: &std::path::Path) {
    if let Err(error) = std::fs::remove_file(path) {
        tracing::warn!(path = %path.display(), %error, "can't remove the control socket");
    }
}
