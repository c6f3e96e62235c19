use super::failure::Failure;
use super::{Global, JsonFlag};
use braid_control::client::Client;
use clap::Args;
use serde_json::json;
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
        let client = global.client()?;
        client.down()?;
        wait_until_gone(&client)?;
        global.print(&json!({ "down": true }), || "the tunnel is down".to_owned())
    }
}

fn wait_until_gone(client: &Client) -> Result<(), Failure> {
    let give_up = Instant::now() + PATIENCE;
    while Instant::now() < give_up {
        match client.is_running() {
            Ok(false) => return Ok(()),
            // It may close the socket while it answers.
            Ok(true) | Err(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    }
    Err(Failure::failed("the tunnel was asked to go down and is still there after 20 s"))
}
