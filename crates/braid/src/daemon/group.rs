//! A running group: links that an engine of the kernel joins. One thread, the
//! keeper, sets it up, follows the host's network and watches the links; the
//! main thread serves the control socket.

mod keeper;
mod observe;
mod proxy;
mod watcher;

use super::{DaemonError, Running, clean_journal, until_stopped};
use braid_control::config::GroupConfig;
use braid_control::group_server::{self, ControlledGroup};
use braid_control::group_status::GroupStatus;
use braid_engines::Engine;
use keeper::KeeperHandle;
pub use observe::observed;
use std::io;
use std::sync::Arc;
use std::time::Instant;
use tokio::net::UnixListener;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;

/// The group as the control socket sees it.
pub struct RunningGroup {
    config: GroupConfig,
    started: Instant,
    keeper: KeeperHandle,
    /// Told when the daemon shall end.
    ended: Arc<Notify>,
}

impl RunningGroup {
    /// Takes back what a crash left behind, then brings everything up. On an
    /// error, nothing stays.
    pub fn start(config: GroupConfig, ended: Arc<Notify>) -> Result<RunningGroup, DaemonError> {
        let journal = clean_journal(config.group.name.as_str(), &config.state_dir)?;
        // Before connections are brought to it.
        proxy::start(&config).map_err(DaemonError::system("starting the MPTCP proxy"))?;
        let keeper = KeeperHandle::start(config.clone(), journal)
            .map_err(DaemonError::system(format!("setting up {}", config.group.name)))?;
        Ok(RunningGroup { config, started: Instant::now(), keeper, ended })
    }
}

impl Running for RunningGroup {
    fn serve(
        self: &Arc<Self>,
        socket: UnixListener,
        stopped: watch::Receiver<bool>,
    ) -> JoinHandle<io::Result<()>> {
        tokio::spawn(group_server::serve(socket, self.clone(), until_stopped(stopped)))
    }

    fn stop(&self) -> Result<(), DaemonError> {
        self.keeper.stop().map_err(DaemonError::system("taking the group down"))
    }
}

impl ControlledGroup for RunningGroup {
    fn status(&self) -> GroupStatus {
        let group = &self.config.group;
        let view = self.keeper.view();
        let (device, links) = observe::devices(&self.config, &view);
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

    fn down(&self) {
        self.ended.notify_one();
    }
}

/// The engine's mode, where it has some.
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
