use super::failure::Failure;
use super::{Global, JsonFlag, openwrt};
use crate::daemon;
use braid_control::client::{Client, ClientError};
use braid_control::config::AnyConfig;
use braid_linux::claim::Holder;
use clap::Args;
use serde_json::json;
use std::path::PathBuf;
use std::time::{Duration, Instant};

#[derive(Args)]
#[command(after_help = "Example:\n  braid down")]
pub struct Down {
    #[command(flatten)]
    _json: JsonFlag,
}

/// Long enough to undo every rule and route on a slow router.
const PATIENCE: Duration = Duration::from_secs(20);
/// Polling interval.
const STEP: Duration = Duration::from_millis(50);

impl Down {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let client = match global.running_without_config() {
            Some(client) => client,
            None => global.client()?,
        };
        let running = Running::of(global);
        match client.down() {
            Ok(()) => {}
            Err(ClientError::NotRunning(socket)) => return unheard(global, socket),
            Err(error @ ClientError::Broken { .. }) => return deaf(global, error),
            Err(error) => return Err(error.into()),
        }
        wait_until_gone(&client)?;
        if let Some(service) = openwrt::Service::of(&global.config_file()) {
            service.stay_down()?;
        }
        running.map_or(Ok(()), Running::take_back_the_rest)?;
        told(global)
    }
}

/// The daemon that is asked to stop, and its config.
struct Running {
    config: AnyConfig,
    holder: Holder,
}

impl Running {
    /// `None` when unknown: with only a socket given, the config may be another tunnel's.
    fn of(global: &Global) -> Option<Running> {
        let config = match global.args.socket {
            Some(_) => None,
            None => global.load_any_config().ok(),
        }?;
        let holder = daemon::holder(&config).ok()??;
        Some(Running { config, holder })
    }

    /// This process may have the resources that the daemon lacked to undo everything.
    fn take_back_the_rest(self) -> Result<(), Failure> {
        let Running { config, holder } = self;
        if !daemon::has_left_something(&config) {
            return Ok(());
        }
        // It closes its socket before it ends.
        let give_up = Instant::now() + PATIENCE;
        loop {
            match daemon::holder(&config)? {
                None => return daemon::take_back(&config).map_err(Failure::from),
                Some(now) if now == holder && Instant::now() > give_up => {
                    return Err(does_not_end(holder));
                }
                Some(now) if now == holder => std::thread::sleep(STEP),
                // Somebody has started another daemon, which owns what is set.
                Some(_) => return Ok(()),
            }
        }
    }
}

fn does_not_end(Holder { process }: Holder) -> Failure {
    Failure::failed(format!(
        "process {process} runs the tunnel and doesn't stop: `kill -9 {process}`, then `braid \
         down` again"
    ))
}

/// Nothing listens: either the socket of a running daemon was deleted, or it crashed and may have
/// left rules and routes.
fn unheard(global: &Global, socket: PathBuf) -> Result<(), Failure> {
    // With only a socket given, the config may be another tunnel's.
    if global.args.socket.is_some() {
        return Err(ClientError::NotRunning(socket).into());
    }
    let config = global.load_any_config()?;
    if let Some(holder) = daemon::holder(&config)? {
        end_by_signal(&config, holder)?;
        // As after every signal, a kill switch stays on.
        if daemon::has_left_something(&config) {
            daemon::take_back(&config)?;
        }
        return told(global);
    }
    if !daemon::has_left_something(&config) {
        return Err(ClientError::NotRunning(socket).into());
    }
    daemon::take_back(&config)?;
    global.print(&json!({ "down": true, "after_crash": true }), || {
        "no tunnel was running; what a crash had left behind is cleaned up".to_owned()
    })
}

/// It listens but doesn't answer: it may lack file descriptors or memory. A signal needs neither.
fn deaf(global: &Global, error: ClientError) -> Result<(), Failure> {
    let Some(Running { config, holder }) = Running::of(global) else { return Err(error.into()) };
    end_by_signal(&config, holder)?;
    if daemon::has_left_something(&config) {
        daemon::take_back(&config)?;
    }
    told(global)
}

fn end_by_signal(config: &AnyConfig, holder: Holder) -> Result<(), Failure> {
    let process = holder.process;
    holder
        .ask_to_end()
        .map_err(|error| Failure::io(&format!("ending process {process}"), &error))?;
    let give_up = Instant::now() + PATIENCE;
    while daemon::holder(config)?.is_some() {
        if Instant::now() > give_up {
            return Err(does_not_end(holder));
        }
        std::thread::sleep(STEP);
    }
    Ok(())
}

fn told(global: &Global) -> Result<(), Failure> {
    global.print(&json!({ "down": true, "after_crash": false }), || "the tunnel is down".to_owned())
}

pub fn wait_until_gone(client: &Client) -> Result<(), Failure> {
    let give_up = Instant::now() + PATIENCE;
    while Instant::now() < give_up {
        match client.is_running() {
            Ok(false) => return Ok(()),
            // It may close the socket while it answers.
            Ok(true) | Err(_) => std::thread::sleep(STEP),
        }
    }
    Err(Failure::failed("the tunnel is still up 20 s after it was told to stop; see its log"))
}
