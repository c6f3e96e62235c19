//! A running group: links that an engine of the kernel joins. One thread, the
//! reconciler, sets it up, follows the host's network and watches the links;
//! `braid-control` serves the control socket.

mod observe;
mod proxy;
mod reconciler;
mod view;
mod watcher;

use super::ending::Ending;
use super::restart::{HandedOn, Program, TO_CHANGE_MORE};
use super::traces::Traces;
use super::{DaemonError, Running, until_stopped};
use braid_control::config::{AnyConfig, GroupConfig};
use braid_control::group_server::{self, ControlledGroup};
use braid_control::group_status::GroupStatus;
use braid_control::request::Refusal;
use braid_engines::Engine;
pub use observe::observed;
use reconciler::ReconcilerHandle;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The group as the control socket sees it.
pub struct RunningGroup {
    /// Taken over last.
    config: Mutex<Arc<GroupConfig>>,
    started: Instant,
    reconciler: ReconcilerHandle,
    program: Program,
    ending: Ending,
}

impl RunningGroup {
    /// Undoes what a crash left behind, or takes over what is set, then brings everything up. On an
    /// error, nothing stays.
    pub fn start(
        config: GroupConfig,
        program: Program,
        inherited: Option<HandedOn>,
        ending: Ending,
    ) -> Result<RunningGroup, DaemonError> {
        let traces = Traces::of_group(&config);
        let journal = if inherited.is_some() { traces.adopt() } else { traces.clean() }?;
        // Before connections are redirected to it.
        proxy::start(&config, &ending).map_err(DaemonError::system("starting the MPTCP proxy"))?;
        let reconciler = ReconcilerHandle::start(config.clone(), journal, ending.clone())
            .map_err(DaemonError::system(format!("setting up {}", config.group.name)))?;
        let config = Mutex::new(Arc::new(config));
        Ok(RunningGroup { config, started: Instant::now(), reconciler, program, ending })
    }

    fn config(&self) -> Arc<GroupConfig> {
        self.config.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Running for RunningGroup {
    fn serve(
        self: &Arc<Self>,
        socket: UnixListener,
        stopped: watch::Receiver<bool>,
    ) -> JoinHandle<io::Result<()>> {
        let running = self.clone();
        tokio::spawn(async move {
            let file = running.config().file.clone();
            group_server::serve(socket, running, &file, until_stopped(stopped)).await
        })
    }

    fn serve_metrics(self: &Arc<Self>, listener: TcpListener, stopped: watch::Receiver<bool>) {
        tokio::spawn(group_server::serve_metrics(listener, self.clone(), until_stopped(stopped)));
    }

    fn stop(&self) -> Result<(), DaemonError> {
        self.reconciler.stop().map_err(DaemonError::system("taking the group down"))
    }

    fn leave(&self) -> Option<HandedOn> {
        self.reconciler.leave().then_some(HandedOn { queues: Vec::new() })
    }
}

impl ControlledGroup for RunningGroup {
    fn status(&self) -> GroupStatus {
        let config = self.config();
        let group = &config.group;
        let view = self.reconciler.view();
        let (device, links) = observe::devices(&config, &view);
        GroupStatus {
            version: env!("CARGO_PKG_VERSION").into(),
            interface: group.name.to_string(),
            engine: group.engine.kind(),
            mode: mode(&group.engine),
            pid: std::process::id(),
            uptime_s: self.started.elapsed().as_secs_f64(),
            addresses: group.addresses.clone(),
            device,
            links,
            troubles: view.troubles,
        }
    }

    fn reload(&self) -> Result<(), Refusal> {
        // Serialised, as a second reload would compare with an outdated config.
        let mut running = self.config.lock().unwrap_or_else(PoisonError::into_inner);
        let read = AnyConfig::load(&running.file)
            .map_err(|errors| Refusal::Invalid(errors.to_string()))?;
        let AnyConfig::Group(config) = read else {
            return Err(Refusal::Invalid(format!(
                "it has become a tunnel's config; {TO_CHANGE_MORE}"
            )));
        };
        can_take_over(&running, &config).map_err(Refusal::Invalid)?;
        self.reconciler
            .reload((*config).clone())
            .map_err(|error| Refusal::Failed(error.to_string()))?;
        *running = Arc::from(config);
        Ok(())
    }

    fn restart(&self) -> Result<(), Refusal> {
        let config = AnyConfig::Group(Box::new((*self.config()).clone()));
        self.program.can_take_over(&config)?;
        self.ending.ask_for_restart();
        Ok(())
    }

    fn down(&self) {
        self.ending.ask();
    }
}

/// Whether a running group can switch to `new`: its identity, and what is started only once, must
/// stay the same.
fn can_take_over(running: &GroupConfig, new: &GroupConfig) -> Result<(), String> {
    let changed = [
        ("interface.name", running.group.name != new.group.name),
        ("interface.engine", running.group.engine.kind() != new.group.engine.kind()),
        ("interface.control", running.control != new.control),
        ("interface.state_dir", running.state_dir != new.state_dir),
        ("interface.metrics", running.metrics != new.metrics),
        ("the MPTCP proxy in [engine]", running.proxy != new.proxy),
    ];
    match changed.into_iter().find(|(_, changed)| *changed) {
        Some((key, _)) => Err(format!("{key} has changed; {TO_CHANGE_MORE}")),
        None => Ok(()),
    }
}

/// The engine's mode, if it has modes.
fn mode(engine: &Engine) -> Option<String> {
    match engine {
        Engine::Bonding(bonding) if bonding.mode.hashes() => {
            Some(format!("{} {}", bonding.mode, bonding.hash))
        }
        Engine::Bonding(bonding) => Some(bonding.mode.to_string()),
        Engine::Team(team) => Some(team.runner.to_string()),
        Engine::Ecmp(ecmp) => Some(ecmp.hash.to_string()),
        Engine::Mptcp(mptcp) => Some(mptcp.role.to_string()),
        Engine::PppoeMultilink(pppoe) => Some(pppoe.role.to_string()),
        Engine::Pcc(pcc) => Some(pcc.classifier.to_string()),
        Engine::Teql => None,
    }
}
