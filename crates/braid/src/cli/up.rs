mod background;
pub mod service;

use super::failure::{Failure, FailureKind};
use super::{Global, JsonFlag, failure};
use crate::daemon;
use braid_control::client::Client;
use braid_control::config::AnyConfig;
use clap::Args;
use serde_json::json;
use std::io::Write;

#[derive(Args)]
#[command(
    after_help = "Examples:\n  braid up\n  braid up --foreground --log info\n  braid up --config cabin      # /etc/braid/cabin.toml"
)]
pub struct Up {
    #[command(flatten)]
    _json: JsonFlag,
    /// Stay in the foreground and log to stderr, as a service
    #[arg(short, long)]
    foreground: bool,
    /// Say on standard output, too, why it failed: the log may be on a full disk
    #[arg(long, hide = true, requires = "foreground")]
    reason_on_stdout: bool,
    /// Put the kill switch in force and nothing else, as at boot before the network
    #[arg(long, conflicts_with = "foreground")]
    only_kill_switch: bool,
}

impl Up {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        self.start(global).inspect_err(|failure| {
            if self.reason_on_stdout {
                // Who started it may have gone.
                let _ = writeln!(std::io::stdout(), "{failure}");
            }
        })
    }

    fn start(&self, global: &Global) -> Result<(), Failure> {
        let file = global.config_file();
        let mut config = global.load_any_config()?;
        if let Some(socket) = &global.args.socket {
            match &mut config {
                AnyConfig::Tunnel(config) => config.interface.control.clone_from(socket),
                AnyConfig::Group(config) => config.control.clone_from(socket),
            }
        }
        let client = Client::new(config.control());
        if client.is_running()? {
            let message = format!("{} is up already", config.name());
            return Err(Failure::new(FailureKind::AlreadyRunning, message));
        }
        if self.only_kill_switch {
            let wanted = match &config {
                AnyConfig::Tunnel(config) => daemon::kill_switch_alone(config)?,
                AnyConfig::Group(_) => false,
            };
            return global.print(&json!({ "kill_switch": wanted }), || match wanted {
                true => "the kill switch is in force; `braid down` lifts it".to_owned(),
                false => "the config asks for no kill switch".to_owned(),
            });
        }
        if self.foreground {
            daemon::log::init(&global.args.log, global.args.log_json)
                .map_err(|error| Failure::new(FailureKind::Usage, error))?;
            return daemon::run(config).map_err(Failure::from);
        }
        let interface = config.name().to_owned();
        let how = match service::unit_for(&file, &config).filter(|_| global.args.socket.is_none()) {
            Some(unit) => {
                service::systemctl(&["start", &unit])?;
                format!("started {unit}")
            }
            None => match background::start(&file, &config, global)? {
                Some(log) => format!("{interface} is up; its log is {}", log.display()),
                None => format!("{interface} is up, without a log"),
            },
        };
        global.print(&json!({ "up": interface }), || how.clone())
    }
}

impl From<daemon::DaemonError> for Failure {
    fn from(error: daemon::DaemonError) -> Self {
        match error {
            daemon::DaemonError::Secret(error) => error.into(),
            daemon::DaemonError::System { doing, error } => Failure::io(&doing, &error),
        }
    }
}

/// What `service` and `background` tell besides.
fn tell(text: &str) {
    failure::tell(text);
}
