use super::failure::{Failure, FailureKind};
use super::{Global, JsonFlag};
use braid_control::config::{AnyConfig, ConfigErrors, PoolsConfig};
use braid_uci::{ConversionError, from_uci, to_uci};
use clap::Args;
use serde_json::json;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The config's path on OpenWrt.
const UCI_CONFIG: &str = "/etc/config/braid";

#[derive(Args)]
#[command(
    after_help = "Comments are dropped.\n\nExample:\n  braid config to-uci /etc/braid/braid.toml > /etc/config/braid"
)]
pub struct ToUci {
    #[command(flatten)]
    _json: JsonFlag,
    /// The config, - for standard input [default: --config's]
    file: Option<PathBuf>,
}

#[derive(Args)]
#[command(
    after_help = "Example:\n  braid config from-uci --out /var/run/braid/braid.toml /etc/config/braid"
)]
pub struct FromUci {
    #[command(flatten)]
    _json: JsonFlag,
    /// Write it to this file (mode 0600), replacing an existing one
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// The OpenWrt config, - for standard input
    #[arg(default_value = UCI_CONFIG)]
    file: PathBuf,
}

impl ToUci {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let file = self.file.clone().unwrap_or_else(|| global.config_file());
        let uci = to_uci(&read(&file)?).map_err(|error| wrong(&file, &error))?;
        global.print(&json!({ "uci": uci }), || uci.trim_end().to_owned())
    }
}

impl FromUci {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let toml = from_uci(&read(&self.file)?).map_err(|error| wrong(&self.file, &error))?;
        let Some(out) = &self.out else {
            return global.print(&json!({ "toml": toml }), || toml.trim_end().to_owned());
        };
        let text = format!("# Made of {}: change that.\n{toml}", self.file.display());
        // An invalid config must not replace a file.
        check(&text, &self.file)?;
        let written = braid_durable::replace(out, text.as_bytes(), Some(0o600));
        written.map_err(|error| Failure::io(&format!("writing {}", out.display()), &error))?;
        global.print(&json!({ "written": out.display().to_string() }), || {
            format!("{}: written", out.display())
        })
    }
}

/// Checks the config converted from `file`, except its key files.
fn check(text: &str, file: &Path) -> Result<(), ConfigErrors> {
    let read = match PoolsConfig::is_all_of(text) {
        true => PoolsConfig::parse_if_any(text, file).map(drop),
        false => AnyConfig::parse(text, file).map(drop),
    };
    read.map_err(|mut wrong| {
        // Line numbers would refer to the unwritten output.
        wrong.errors.iter_mut().for_each(|error| error.line = 0);
        wrong
    })
}

fn read(file: &Path) -> Result<String, Failure> {
    let mut text = String::new();
    let read = match file == Path::new("-") {
        true => std::io::stdin().read_to_string(&mut text).map(|_| text),
        false => fs::read_to_string(file),
    };
    read.map_err(|error| Failure::io(&format!("reading {}", file.display()), &error))
}

fn wrong(file: &Path, error: &ConversionError) -> Failure {
    let place = format!("{}:{}", file.display(), error.line);
    let hint = error.hint.as_ref().map(|hint| format!("\n  {hint}")).unwrap_or_default();
    Failure::new(FailureKind::Config, format!("{place}: {}{hint}", error.what))
}
