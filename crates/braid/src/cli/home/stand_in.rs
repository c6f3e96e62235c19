//! Joins a further concentrator, which stands in for the home's first.

use super::super::confirm::confirm;
use super::super::failure::{self, Failure};
use super::super::free_file::free_file;
use super::super::{Global, line_source};
use super::secrets::Secrets;
use super::{Join, fallback, file_name, waiting};
use crate::cli::service;
use braid_control::client::{Client, ClientError};
use braid_control::config::{Config, ConfigEditor, Layer, Name, Peer};
use braid_control::join_line::JoinLine;
use serde_json::json;
use std::path::{Path, PathBuf};

impl Join {
    /// Adds the concentrator of the line to the config, and waits until it answers.
    pub(super) fn join_as_stand_in(&self, global: &Global) -> Result<(), Failure> {
        let line = line_source::join_line(&self.line)?;
        let config = Config::load(&global.config_file())?;
        let joining = StandIn::plan(&config, line)?;
        let mut editor = ConfigEditor::open(&config.file)?;
        let section = joining.section();
        editor.append(&section)?;
        editor.check()?;
        let plan = format!("will add to {}:\n{section}", config.file.display());
        let value = |done: bool| {
            json!({
                "config": config.file, "peer": joining.name.as_str(),
                "stands_in_for": joining.owner.as_str(), "text": section, "done": done,
            })
        };
        if self.dry_run {
            return global.print(&value(false), || plan.clone());
        }
        failure::tell(&plan);
        if !self.yes {
            confirm()?;
        }
        let mut editor = ConfigEditor::open_alone(&config.file)?;
        editor.append(&section)?;
        let secrets = joining.secrets();
        secrets.write()?;
        let config = match editor.save() {
            Ok(config) => config,
            Err(error) => {
                secrets.remove();
                return Err(error.into());
            }
        };
        let client = Client::new(&config.interface.control).for_config(&config.file);
        let done = match client.reload() {
            Ok(()) => {
                let links = waiting::wait(&joining.line, &config, joining.name.as_str())?;
                let to = joining.line.concentrator_words();
                format!(
                    "connected to {to} by {}: it stands in for {}",
                    links.join(", "),
                    joining.owner
                )
            }
            Err(ClientError::NotRunning(_) | ClientError::Anothers { .. }) => {
                format!(
                    "written; no tunnel is running: `{}` starts it",
                    service::up_command(&config.file)
                )
            }
            Err(error) => return Err(error.into()),
        };
        global.print(&value(true), || done.clone())
    }
}

/// What to write.
struct StandIn {
    line: JoinLine,
    /// The new peer's name.
    name: Name,
    /// The name of the peer that it stands in for.
    owner: Name,
    preshared_key: PathBuf,
    token: PathBuf,
}

impl StandIn {
    fn plan(config: &Config, line: JoinLine) -> Result<StandIn, Failure> {
        let is_called = |peer: &&Peer| !peer.endpoints.is_empty() && peer.stands_in_for.is_none();
        let owner = config.peers.iter().find(is_called).ok_or_else(|| {
            Failure::failed(format!(
                "{} has no concentrator yet for another one to stand in for: join without \
                 --stand-in",
                config.file.display()
            ))
        })?;
        if config.peers.iter().any(|peer| peer.public_key == line.concentrator) {
            return Err(Failure::failed("this router has joined that concentrator already"));
        }
        let ours = &config.interface;
        if line.layer != Layer::L3 || ours.layer != Layer::L3 {
            return Err(Failure::failed(
                "only tunnels with layer = \"l3\" can have a stand-in concentrator",
            ));
        }
        let is_ours =
            |address: &ipnet::IpNet| ours.addresses.iter().any(|own| own.addr() == address.addr());
        if let Some(other) = line.addresses.iter().find(|address| !is_ours(address)) {
            let own: Vec<String> =
                ours.addresses.iter().map(|own| format!("--address {}", own.addr())).collect();
            return Err(Failure::failed(format!(
                "that concentrator gives this router the address {}, which it doesn't have at the \
                 other one; there: `braid concentrator add-home {} {}`",
                other.addr(),
                line.name,
                own.join(" ")
            )));
        }
        if line.mtu != ours.mtu {
            return Err(Failure::failed(format!(
                "that concentrator's tunnel has mtu = {}, and this one {}: make them equal",
                line.mtu, ours.mtu
            )));
        }
        let name = free_name(config)?;
        let named: Vec<&Path> = config.key_files().collect();
        let file = |extension: &str| {
            free_file(&config.file.with_file_name(format!("{name}.{extension}")), &named)
        };
        let (preshared_key, token) = (file("psk"), file("enrol"));
        Ok(StandIn { name, owner: owner.name.clone(), preshared_key, token, line })
    }

    fn section(&self) -> String {
        let endpoints: Vec<String> =
            self.line.endpoints.iter().map(|endpoint| format!("\"{endpoint}\"")).collect();
        format!(
            "[[peer]]\n\
             name = \"{}\"\n\
             public_key = \"{}\"\n\
             preshared_key_file = \"{}\"\n\
             # Of the join line; gone when it has been used.\n\
             enrolment_key_file = \"{}\"\n\
             endpoints = [{}]\n{}\
             stands_in_for = \"{}\"\n\
             keepalive = \"15s\"\n",
            self.name,
            self.line.concentrator,
            file_name(&self.preshared_key),
            file_name(&self.token),
            endpoints.join(", "),
            fallback(&self.line),
            self.owner,
        )
    }

    fn secrets(&self) -> Secrets<'_, 2> {
        Secrets([
            (&self.preshared_key, self.line.token.preshared_key().to_base64()),
            (&self.token, self.line.token.key().to_base64()),
        ])
    }
}

/// `concentrator-2` and so on.
fn free_name(config: &Config) -> Result<Name, Failure> {
    let names = (2..=config.peers.len() + 2).map(|number| format!("concentrator-{number}"));
    let free = |name: &String| config.peer(name).is_none();
    let name = names.into_iter().find(free).unwrap_or_default();
    name.parse().map_err(|error| Failure::failed(format!("{error}")))
}
