mod background;

use super::failure::{Failure, FailureKind};
use super::{Global, JsonFlag, openwrt, service};
use crate::cli::concentrator::ON_PAGE;
use crate::daemon;
use crate::daemon::log::LogError;
use crate::daemon::preview::{Preview, preview};
use braid_control::client::{Client, ClientError};
use braid_control::config::AnyConfig;
use clap::Args;
use serde_json::json;
use std::io::{self, Write};

#[derive(Args)]
#[command(
    after_help = "Examples:\n  braid up\n  braid up --dry-run\n  braid up --foreground --log info\n  braid up --config cabin      # /etc/braid/cabin.toml"
)]
pub struct Up {
    #[command(flatten)]
    _json: JsonFlag,
    /// Stay in the foreground and log to stderr, as a service
    #[arg(short, long)]
    foreground: bool,
    /// Print the reason for a failure to standard output too: the log may be on a full disk
    #[arg(long, hide = true, requires = "foreground")]
    reason_on_stdout: bool,
    /// Show what would change on this host without changing it
    #[arg(long, conflicts_with_all = ["foreground", "only_kill_switch"])]
    dry_run: bool,
    /// Enable the kill switch and nothing else, as at boot before the network is up
    #[arg(long, conflicts_with = "foreground")]
    only_kill_switch: bool,
}

impl Up {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        self.start(global).inspect_err(|failure| {
            if self.reason_on_stdout {
                // The process that started it may be gone.
                let _ = writeln!(std::io::stdout(), "{failure}");
            }
        })
    }

    fn start(&self, global: &Global) -> Result<(), Failure> {
        if self.foreground {
            // Before the first thread starts; asking whether a daemon runs starts one already.
            daemon::hold_signals_back()?;
        }
        let file = global.config_file();
        let mut config = global.load_any_config()?;
        if let Some(socket) = &global.args.socket {
            match &mut config {
                AnyConfig::Tunnel(config) => config.interface.control.clone_from(socket),
                AnyConfig::Group(config) => config.control.clone_from(socket),
            }
        }
        if self.dry_run {
            let preview = preview(&config)?;
            return global.print(&preview, || render(&preview));
        }
        let client = Client::of(&config);
        match client.is_running() {
            Ok(false) => {}
            Ok(true) => {
                let message = format!("{} is up already", config.name());
                return Err(Failure::new(FailureKind::AlreadyRunning, message));
            }
            Err(error @ ClientError::Anothers { .. }) => {
                return Err(Failure::new(FailureKind::AlreadyRunning, error.to_string()));
            }
            Err(error) => return Err(error.into()),
        }
        if self.only_kill_switch {
            let wanted = match &config {
                AnyConfig::Tunnel(config) => daemon::kill_switch_alone(config)?,
                AnyConfig::Group(_) => false,
            };
            return global.print(&json!({ "kill_switch": wanted }), || match wanted {
                true => "the kill switch is on; `braid down` turns it off".to_owned(),
                false => "the config doesn't enable the kill switch".to_owned(),
            });
        }
        if self.foreground {
            match daemon::log::init(&global.args.log, global.args.log_json) {
                Ok(()) => {}
                Err(LogError::Filter(why)) => return Err(Failure::new(FailureKind::Usage, why)),
                Err(LogError::Start(error)) => {
                    let doing = "logging".to_owned();
                    return Err(daemon::DaemonError::System { doing, error }.into());
                }
            }
            return daemon::run(config, ON_PAGE).map_err(Failure::from);
        }
        let interface = config.name().to_owned();
        // A custom socket means that no service is wanted.
        let usual = global.args.socket.is_none();
        let unit = service::unit_for(&file, &config).filter(|_| usual);
        let how = match (unit, openwrt::Service::of(&file).filter(|_| usual)) {
            (Some(unit), _) => {
                service::systemctl(&["start", &unit])?;
                format!("started {unit}")
            }
            (None, Some(service)) => {
                let client = global.client()?;
                service.start(|| client.is_running().unwrap_or(false))?;
                format!("started {}, now and at boot", openwrt::NAME)
            }
            (None, None) => match background::start(&file, &config, global)? {
                Some(log) => format!("{interface} is up; its log is {}", log.display()),
                None => format!("{interface} is up, without a log"),
            },
        };
        global.print(&json!({ "up": interface }), || how.clone())
    }
}

fn render(preview: &Preview) -> String {
    let mut lines =
        vec![format!("`braid up` would set, and `braid down` take back ({}):", preview.interface)];
    for planned in &preview.sets {
        lines.push(format!("  {}", planned.what));
        lines.push(format!("      now: {}; {}", planned.now, planned.effect));
    }
    lines.extend(preview.traffic.iter().map(|text| format!("traffic: {text}")));
    lines.extend(preview.warnings.iter().map(|text| format!("warning: {text}")));
    lines.push("nothing was changed; --json also shows the firewall rules".to_owned());
    lines.join("\n")
}

impl From<daemon::DaemonError> for Failure {
    fn from(error: daemon::DaemonError) -> Self {
        match error {
            daemon::DaemonError::Secret(error) => error.into(),
            daemon::DaemonError::System { doing, error } => {
                let told = format!("{error}{}", daemon::hint(&error));
                Failure::io(&doing, &io::Error::new(error.kind(), told))
            }
        }
    }
}
