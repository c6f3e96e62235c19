//! The running tunnel: everything around the data plane; or the running group
//! of links that an engine of the kernel joins (`group`).
//!
//! The *data plane* moves packets; the *reconciler* owns the config and keeps devices, sockets and
//! routes in the state that the config and the host's links require; `braid-control` serves the
//! control socket; the main thread brings everything up and waits for the end. A thread that fails
//! is restarted or ends the daemon in good order ([`Ending`]); none disappears silently.

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
    /// A system error.
    #[error("{doing}: {error}{}", hint(.error))]
    System {
        /// What was tried.
        doing: String,
        /// The answer.
        error: io::Error,
    },
}

/// What to do, where the system's error alone doesn't tell.
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

/// Blocks termination signals in the calling thread and all threads started from now on, until
/// [`run`] unblocks them in this one alone: another thread would catch signals meant for the
/// program that a restart leads to. Must be called before any thread is started.
pub fn hold_signals_back() -> Result<(), DaemonError> {
    exec::block_signals().map_err(DaemonError::system("blocking signals"))
}

/// Brings the tunnel or group up and runs it until told to stop; then undoes everything that it
/// set, or leaves it to the program that takes over.
pub fn run(config: AnyConfig, homes: PageHomes) -> Result<(), DaemonError> {
    let program =
        Program::of_this_process().map_err(DaemonError::system("finding this program"))?;
    if let Err(error) = confine(&config) {
        tracing::warn!(%error, "can't drop some unneeded privileges");
    }
    // Serves the control socket, while this thread brings everything up and takes it down.
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

/// Called before any other thread runs, however this was started: a systemd unit does the same and
/// more. Engines of groups run other programs, which need more rights.
fn confine(config: &AnyConfig) -> io::Result<()> {
    confinement::tighten_umask(confinement::PRIVATE);
    confinement::leave_no_core()?;
    let AnyConfig::Tunnel(config) = config else { return Ok(()) };
    let mut kept = vec![Capability::NetAdmin, Capability::NetRaw, Capability::NetBindService];
    // A user's own config, with the keys beside it: root needs this capability to read them.
    if std::fs::metadata(&config.file).is_ok_and(|file| file.uid() != 0) {
        kept.push(Capability::DacOverride);
    }
    confinement::keep_capabilities(&kept)
}

/// A group as it could be set up now: links that are away keep their settings from the config.
pub fn observed_group(config: &GroupConfig) -> io::Result<Group> {
    let host = HostNetwork::observe(&mut Netlink::open()?)?;
    Ok(group::observed(config, &host))
}

/// Whether a daemon that crashed left something set on the host, for [`take_back`].
pub fn has_left_something(config: &AnyConfig) -> bool {
    Traces::of(config).exist()
}

/// Undoes what a crashed daemon left on the host. An error if a daemon is running, or if something
/// can't be undone.
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
            Err(DaemonError::System { doing: "cleaning up after a crash".into(), error })
        }
        None => Ok(()),
    }
}

/// The process that runs a tunnel or group, even if its control socket is gone.
pub fn holder(config: &AnyConfig) -> Result<Option<Holder>, DaemonError> {
    let name = config.name();
    Claim::holder(name).map_err(DaemonError::system(format!("finding out who runs {name}")))
}

/// Enables only the kill switch, if the config asks for one: at boot, before the network is up.
/// Returns whether it does. An error if a daemon is running, which has it enabled already.
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

/// Only one daemon may set up a name: another would take what the first has set for a crash's
/// leftovers. The control socket alone can't show that, as somebody may have deleted it.
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

    /// Shows whether the data plane is alive; `None` if the kernel carries the packets.
    fn pulse(&self) -> Option<Pulse> {
        None
    }

    /// Takes everything down; blocking.
    fn stop(&self) -> Result<(), DaemonError>;

    /// Leaves everything in place for the program that takes over, and returns the device, if there
    /// is one; blocking. `None` if what is set on the host isn't recorded: then it can only be
    /// undone.
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
    // Before anything is set on the host: a signal during the start must undo everything.
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
    // On this thread, as there may be no memory for another.
    let undone = catch_unwind(AssertUnwindSafe(|| running.stop()));
    // The socket is removed last: `braid down` waits as long as it exists.
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

/// Takes over what was handed on; if that fails, sets everything up from the beginning.
fn started<T>(
    start: &impl Fn(Option<HandedOn>, Ending) -> Result<T, DaemonError>,
    inherited: Option<HandedOn>,
    ending: &Ending,
) -> Result<T, DaemonError> {
    if let Some(inherited) = inherited {
        match start(Some(inherited), ending.clone()) {
            Ok(running) => return Ok(running),
            Err(error) => tracing::error!("taking over the running tunnel: {error}; starting anew"),
        }
    }
    start(None, ending.clone())
}

/// Replaces this process by the newly installed program; returns the reason if that fails.
fn go_on(config: &AnyConfig, program: &Program, running: &impl Running) -> String {
    let Some(left) = running.leave() else {
        return "what is set on the host isn't recorded, so no other program can take over it"
            .to_owned();
    };
    tracing::info!(interface = config.name(), "now runs as the newly installed program");
    log::flush();
    let error = program.take_over(&left.queues);
    // What is set by now has no owner.
    let traces = Traces::of(config);
    match traces.take_back() {
        Ok((journal, _)) => traces.warn_of_damage(&journal),
        Err(error) => tracing::warn!("{error}"),
    }
    format!("another program can't take it over: {error}")
}

/// Signals that ask to stop: from a service manager, a key, a closed terminal.
struct Signals([Signal; 4]);

impl Signals {
    /// They no longer kill the process, and stay pending until unblocked.
    fn caught() -> Result<Signals, DaemonError> {
        let on = |kind| signal(kind).map_err(DaemonError::system("catching signals"));
        Ok(Signals([
            on(SignalKind::terminate())?,
            on(SignalKind::interrupt())?,
            on(SignalKind::hangup())?,
            on(SignalKind::quit())?,
        ]))
    }

    /// Unblocks them in this thread; the others keep them blocked.
    fn let_through(&self) -> Result<(), DaemonError> {
        exec::unblock_signals().map_err(DaemonError::system("catching signals"))
    }

    /// Blocks them for another program; returns whether one came before.
    async fn ask_in_time(&mut self) -> bool {
        if let Err(error) = exec::block_signals() {
            tracing::warn!(%error, "can't block signals");
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

/// Within this time a caught signal is reported and an answer is sent.
const TOLD: Duration = Duration::from_millis(50);
/// Time for answers in progress at the end.
const GRACE: Duration = Duration::from_secs(1);
/// Meanwhile some hundred processes may ask who has the claim.
const FORGET_ASKERS: Duration = Duration::from_secs(5);
/// Without a watchdog no sign of life is needed.
const NO_WATCHDOG: Duration = Duration::from_secs(3600);

/// Signs of life for the service manager, which kills a service without them.
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
                "the data plane hangs: the service manager, which restarts it, isn't told that it \
                 is alive"
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
                // It could no longer be controlled or seen.
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
