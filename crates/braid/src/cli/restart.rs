use super::failure::Failure;
use super::{Global, JsonFlag};
use braid_control::client::{Client, ClientError};
use braid_control::config::AnyConfig;
use clap::Args;
use serde_json::json;
use std::time::{Duration, Instant};

#[derive(Args)]
#[command(
    after_help = "Examples:\n  braid restart\n  braid restart --config cabin      # /etc/braid/cabin.toml"
)]
pub struct Restart {
    #[command(flatten)]
    _json: JsonFlag,
}

/// Long enough for a program on slow flash on a slow router.
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(20);

/// A program that runs a tunnel or group.
struct Running {
    version: String,
    uptime: Duration,
}

impl Restart {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        // The daemon would report this too, but here it sets the exit code.
        let config = global.load_any_config()?;
        let client = global.client()?;
        let before = running(&client, &config)?;
        let asked = Instant::now();
        match client.restart() {
            Ok(()) => {}
            // It may be gone before its answer arrives.
            Err(ClientError::Broken { .. } | ClientError::NotRunning(_)) => {}
            Err(ClientError::Refused { not_found: true, .. }) => {
                return Err(Failure::failed(format!(
                    "braid {} is running, which can't be restarted this way: run `braid down`, \
                     then `braid up`",
                    before.version
                )));
            }
            Err(error) => return Err(error.into()),
        }
        let now = wait_for_another(&client, &config, asked)?;
        let name = config.name();
        let told = json!({ "restarted": name, "version": now.version, "before": before.version });
        global.print(&told, || match now.version == before.version {
            true => format!("{name} now runs braid {}, freshly started", now.version),
            false => {
                format!("{name} now runs braid {}; before it was {}", now.version, before.version)
            }
        })
    }
}

fn wait_for_another(
    client: &Client,
    config: &AnyConfig,
    asked: Instant,
) -> Result<Running, Failure> {
    let mut last = None;
    while asked.elapsed() < PATIENCE {
        match running(client, config) {
            Ok(running) if running.uptime < asked.elapsed() => return Ok(running),
            Ok(_) => last = None,
            Err(error) => last = Some(error),
        }
        std::thread::sleep(PAUSE);
    }
    Err(last.map_or_else(
        || Failure::failed("the old program is still running; see its log"),
        |error| Failure::failed(format!("{error}: 30 s after the restart; see the log")),
    ))
}

fn running(client: &Client, config: &AnyConfig) -> Result<Running, ClientError> {
    let (version, uptime_s) = match config {
        AnyConfig::Tunnel(_) => client.status().map(|status| (status.version, status.uptime_s)),
        AnyConfig::Group(_) => {
            client.group_status().map(|status| (status.version, status.uptime_s))
        }
    }?;
    Ok(Running { version, uptime: Duration::try_from_secs_f64(uptime_s).unwrap_or_default() })
}
