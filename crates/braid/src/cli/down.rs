use super::failure::Failure;
use super::{Global, JsonFlag};
use crate::daemon;
use braid_control::client::{Client, ClientError};
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
        let client = match global.running_without_file() {
            Some(client) => client,
            None => global.client()?,
        };
        match client.down() {
            Ok(()) => {}
            Err(ClientError::NotRunning(socket)) => return after_a_crash(global, socket),
            Err(error) => return Err(error.into()),
        }
        wait_until_gone(&client)?;
        global.print(&json!({ "down": true, "after_crash": false }), || {
            "the tunnel is down".to_owned()
        })
    }
}

/// No daemon runs, but one that crashed may have left rules and routes.
fn after_a_crash(global: &Global, socket: PathBuf) -> Result<(), Failure> {
    let config = match &global.args.socket {
        None => Some(global.load_any_config()?).filter(daemon::has_left_something),
        // The config may be another tunnel's.
        Some(_) => None,
    };
    let Some(config) = config else {
        return Err(ClientError::NotRunning(socket).into());
    };
    daemon::take_back(&config)?;
    global.print(&json!({ "down": true, "after_crash": true }), || {
        "no tunnel was running; what a crash had left is taken back".to_owned()
    })
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
