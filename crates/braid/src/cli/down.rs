use super::failure::Failure;
use super::{Global, JsonFlag};
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

/// Long enough for every rule and route to be taken back on a slow router.
const PATIENCE: Duration = Duration::from_secs(20);

impl Down {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let client = match global.running_without_config() {
            Some(client) => client,
            None => global.client()?,
        };
        match client.down() {
            Ok(()) => {}
            Err(ClientError::NotRunning(socket)) => return unheard(global, socket),
            Err(error @ ClientError::Broken { .. }) => return Err(stuck(global, error)),
            Err(error) => return Err(error.into()),
        }
        wait_until_gone(&client)?;
        told(global)
    }
}

/// Nobody listens: somebody deleted the socket of one that runs, or it crashed and may have left
/// rules and routes.
fn unheard(global: &Global, socket: PathBuf) -> Result<(), Failure> {
    // With a socket alone the config may be another tunnel's.
    if global.args.socket.is_some() {
        return Err(ClientError::NotRunning(socket).into());
    }
    let config = global.load_any_config()?;
    if let Some(holder) = daemon::holder(&config)? {
        end_by_signal(&config, holder)?;
        // As after every signal a kill switch stays in force.
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
        "no tunnel was running; what a crash had left is taken back".to_owned()
    })
}

/// It listens and doesn't answer.
fn stuck(global: &Global, error: ClientError) -> Failure {
    let config = global.load_any_config().ok();
    match config.and_then(|config| daemon::holder(&config).ok()?) {
        Some(Holder { process }) => Failure::failed(format!(
            "{error}; if that stays so: `kill -9 {process}`, then `braid down` takes all back"
        )),
        None => error.into(),
    }
}

fn end_by_signal(config: &AnyConfig, holder: Holder) -> Result<(), Failure> {
    let process = holder.process;
    holder
        .ask_to_end()
        .map_err(|error| Failure::io(&format!("ending process {process}"), &error))?;
    let give_up = Instant::now() + PATIENCE;
    while daemon::holder(config)?.is_some() {
        if Instant::now() > give_up {
            return Err(Failure::failed(format!(
                "process {process} runs the tunnel and doesn't end; `kill -9 {process}`, then \
                 `braid down` again"
            )));
        }
        std::thread::sleep(Duration::from_millis(50));
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
            Ok(true) | Err(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    }
    Err(Failure::failed("the tunnel is still up 20 s after it was told to go down"))
}
