//! The running tunnel: everything around the data plane.
//!
//! Three threads: the *data plane* moves packets; the *keeper* owns the config
//! and keeps devices, sockets and routes as the config and the host's links
//! want them; the main thread serves the control socket and waits for the end.

mod control;
mod data_channel;
mod dataplane;
mod device;
mod endpoints;
mod host_routing;
mod keeper;
pub mod log;
mod quota;
mod reconfigure;
mod ways;

use braid_control::config::{Config, SecretError};
use braid_control::server;
use braid_linux::sd::ServiceManager;
use control::RunningTunnel;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Notify, watch};

/// Why the tunnel could not come up, or ended.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// A key file.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// What the system said.
    #[error("{doing}: {error}")]
    System {
        /// What was tried.
        doing: String,
        /// The answer.
        error: io::Error,
    },
}

impl DaemonError {
    fn system(doing: impl Into<String>) -> impl FnOnce(io::Error) -> DaemonError {
        let doing = doing.into();
        move |error| DaemonError::System { doing, error }
    }
}

/// Brings the tunnel up and keeps it until it is told to end; then takes back
/// all that it set.
pub fn run(config: Config) -> Result<(), DaemonError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(DaemonError::system("starting the control side"))?;
    runtime.block_on(serve(config))
}

async fn serve(config: Config) -> Result<(), DaemonError> {
    let interface = config.interface.clone();
    let manager = ServiceManager::from_environment()
        .map_err(DaemonError::system("finding the service manager"))?;
    // First, so that two daemons never set up the same tunnel.
    let socket = server::bind(&interface.control).await.map_err(DaemonError::system(format!(
        "making the control socket {}",
        interface.control.display()
    )))?;
    let metrics = match interface.metrics {
        Some(address) => Some(
            TcpListener::bind(address)
                .await
                .map_err(DaemonError::system(format!("listening on {address} for metrics")))?,
        ),
        None => None,
    };
    let ended = Arc::new(Notify::new());
    let tunnel = match RunningTunnel::start(config, ended.clone()) {
        Ok(tunnel) => Arc::new(tunnel),
        Err(error) => {
            remove_socket(&interface.control);
            return Err(error);
        }
    };
    let (stop, stopped) = watch::channel(false);
    let until_stopped = |mut stopped: watch::Receiver<bool>| async move {
        // A sender that is gone is a stop too.
        let _ = stopped.wait_for(|stopped| *stopped).await;
    };
    let control = server::serve(socket, tunnel.clone(), until_stopped(stopped.clone()));
    let control = tokio::spawn(control);
    if let Some(listener) = metrics {
        tokio::spawn(server::serve_metrics(listener, tunnel.clone(), until_stopped(stopped)));
    }
    manager.ready();
    tracing::info!(interface = %interface.name, "tunnel up");

    let outcome = wait_for_the_end(&manager, &ended).await;

    manager.stopping();
    let undone = tokio::task::spawn_blocking({
        let tunnel = tunnel.clone();
        move || tunnel.stop()
    });
    let undone = undone.await;
    // The socket goes last: as long as it is there, `braid down` waits.
    remove_socket(&interface.control);
    // Receivers that are gone have nothing left to stop.
    let _ = stop.send(true);
    let _ = tokio::time::timeout(GRACE, control).await;
    tracing::info!(interface = %interface.name, "tunnel down");
    outcome?;
    match undone {
        Ok(result) => result,
        Err(error) => {
            let error = io::Error::other(error);
            Err(DaemonError::System { doing: "taking the tunnel down".into(), error })
        }
    }
}

/// For answers that are under way at the end.
const GRACE: Duration = Duration::from_secs(1);
/// Without a watchdog nobody needs a sign of life.
const NO_WATCHDOG: Duration = Duration::from_secs(3600);

async fn wait_for_the_end(manager: &ServiceManager, ended: &Notify) -> Result<(), DaemonError> {
    let on = |kind| signal(kind).map_err(DaemonError::system("catching signals"));
    let (mut terminate, mut interrupt) =
        (on(SignalKind::terminate())?, on(SignalKind::interrupt())?);
    let mut alive = tokio::time::interval(manager.watchdog_interval().unwrap_or(NO_WATCHDOG));
    loop {
        tokio::select! {
            _ = terminate.recv() => return Ok(()),
            _ = interrupt.recv() => return Ok(()),
            () = ended.notified() => return Ok(()),
            _ = alive.tick() => manager.alive(),
        }
    }
}

fn remove_socket(path: &std::path::Path) {
    if let Err(error) = std::fs::remove_file(path) {
        tracing::warn!(path = %path.display(), %error, "can't remove the control socket");
    }
}
