use super::concentrator::overheard;
use super::failure::{Failure, FailureKind, print_line};
use super::{Global, JsonFlag};
use crate::daemon::links_now;
use crate::daemon::rules::{devices_unknown, troubles_of_files};
use braid_control::config::{AnyConfig, Config, ConfigErrors, Diagnostic, PoolsConfig, read_text};
use braid_pool::step::quoted;
use clap::Args;
use serde_json::json;
use std::path::PathBuf;

#[derive(Args)]
#[command(after_help = "Example:\n  braid config check /etc/braid/braid.toml")]
pub struct Check {
    #[command(flatten)]
    _json: JsonFlag,
    /// The config [default: --config's]
    file: Option<PathBuf>,
}

impl Check {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let file = self.file.clone().unwrap_or_else(|| global.config_file());
        // Read once, as the file may be a pipe.
        let read = read_text(&file).and_then(|text| match PoolsConfig::is_all_of(&text) {
            true => PoolsConfig::parse_if_any(&text, &file).map(|_| None),
            false => AnyConfig::parse(&text, &file).map(Some),
        });
        let config = match read {
            Ok(config) => config,
            Err(errors) if global.json => {
                print_line(&as_json(&errors).to_string())?;
                return Err(Failure::new(FailureKind::Config, errors.to_string()));
            }
            Err(errors) => return Err(errors.into()),
        };
        let mut advice = Vec::new();
        if let Some(AnyConfig::Tunnel(config)) = config {
            config.read_keys()?;
            advice.extend(devices_missing(&config));
            advice.extend(rules_wanting(&config));
            advice.extend(exposed(&config));
            let registry = config.fleet.as_ref().map(|fleet| &fleet.registry);
            advice.extend(registry.and_then(overheard).map(|what| Diagnostic {
                line: 0,
                what: format!("fleet.registry: {what}"),
                hint: None,
            }));
            advice.extend(config.advice);
        }
        let told = ConfigErrors { file: file.clone(), errors: advice };
        let advice = as_json(&told)["errors"].clone();
        let value = json!({ "file": file.display().to_string(), "errors": [], "advice": advice });
        global.print(&value, || match told.errors.as_slice() {
            [] => format!("{}: good", file.display()),
            _ => format!("{told}\n{}: good", file.display()),
        })
    }
}

/// Links whose devices don't exist now: a name may be misspelt, or a modem unplugged.
fn devices_missing(config: &Config) -> Vec<Diagnostic> {
    let now = links_now::of_tunnel(config).unwrap_or_default();
    let missing = config
        .links
        .iter()
        .zip(now)
        .filter(|(link, now)| link.binding.interface.is_some() && now.device.is_none());
    let told = missing.filter_map(|(_, now)| {
        let what = format!("link {}: {} now", now.name, now.trouble?);
        let hint = "it is used as soon as there is one; `ip link` lists this host's devices";
        Some(Diagnostic { line: 0, what, hint: Some(hint.to_owned()) })
    });
    told.collect()
}

/// Problems with rules' files, and devices without a lease.
fn rules_wanting(config: &Config) -> Vec<Diagnostic> {
    let told = troubles_of_files(config).into_iter().map(|what| {
        let hint = "it is reread as soon as it changes; until then rules that use it match less";
        Diagnostic { line: 0, what, hint: Some(hint.to_owned()) }
    });
    let nobody = devices_unknown(config).into_iter().map(|(rule, device)| {
        let what = format!("rule {rule}: no current DHCP lease has the name {device:?}");
        let hint =
            "the rule applies as soon as one does; the device's address works without a lease";
        Diagnostic { line: 0, what, hint: Some(hint.to_owned()) }
    });
    told.chain(nobody).collect()
}

/// A secret that every user of this host can read.
fn exposed(config: &Config) -> Option<Diagnostic> {
    config.exposed_mode().map(|mode| Diagnostic {
        line: 0,
        what: format!(
            "it contains a proxy's password, and its mode {mode:o} lets everybody read it"
        ),
        hint: Some(format!("`chmod o= {}`", quoted(&config.file.display().to_string()))),
    })
}

fn as_json(errors: &ConfigErrors) -> serde_json::Value {
    let list: Vec<_> = errors
        .errors
        .iter()
        .map(|error| json!({ "line": error.line, "what": error.what, "hint": error.hint }))
        .collect();
    json!({ "file": errors.file.display().to_string(), "errors": list })
}
