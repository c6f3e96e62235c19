mod device;
mod files;
mod joined;
mod proposal;
mod secrets;
mod stand_in;
mod waiting;

use super::confirm::confirm;
use super::failure::{self, Failure};
use super::line_source;
use super::service;
use super::uplinks::{self, Uplink};
use super::{Global, JsonFlag};
use braid_control::config::{Config, DeviceName, JoinedAnew, Layer, Name};
use braid_control::join_line::JoinLine;
use braid_linux::peer::group_of_name;
use clap::{Args, Subcommand};
use device::free_device;
use files::Files;
use joined::Joined;
use proposal::{By, Proposed, by_kind, by_name, is_laptop};
use serde_json::json;
use std::num::NonZeroU16;
use std::path::Path;

/// A home's name for the first concentrator that it joins.
const CONCENTRATOR: &str = "concentrator";

/// The group that packages create, for users who control the tunnel without being root.
const CONTROL_GROUP: &str = "braid";

#[derive(Subcommand)]
pub enum HomeCommand {
    /// Join a concentrator: find the uplinks, write the config, start
    Join(Join),
}

#[derive(Args)]
#[command(
    after_help = "Example:\n  braid home join braid-join:AQMF3A… --dry-run\n  braid home join -                       # paste it, press return\n  braid home join - --stand-in            # a second concentrator, for when the first is gone"
)]
pub struct Join {
    #[command(flatten)]
    _json: JsonFlag,
    /// The line that `braid concentrator init` or `add-home` printed, `-` to read it from standard
    /// input, or the name of a file to read it from
    line: String,
    /// Use these devices as links instead of all that have a default route
    #[arg(long, value_name = "DEVICE")]
    interface: Vec<DeviceName>,
    /// Name the devices in the config, even on a laptop, where links are otherwise matched by kind:
    /// Ethernet, Wi-Fi, a phone
    #[arg(long)]
    by_name: bool,
    /// Don't send this host's and its LAN's traffic through the tunnel
    #[arg(long)]
    no_default_route: bool,
    /// Let no traffic out except through the tunnel, even while the concentrator is unreachable
    #[arg(long, conflicts_with = "no_default_route")]
    kill_switch: bool,
    /// Split TCP connections at this end of the tunnel; short and very fast ones become quicker,
    /// most if the concentrator does it too
    #[arg(long, conflicts_with = "no_default_route")]
    split_tcp: bool,
    /// Join another concentrator as a stand-in for the one that this router has joined: traffic
    /// switches to it within a second when the first is gone
    #[arg(long, conflicts_with_all = [
        "interface", "by_name", "no_default_route", "kill_switch", "split_tcp", "no_start", "replace"
    ])]
    stand_in: bool,
    /// Show what would be done without doing it
    #[arg(long)]
    dry_run: bool,
    /// Don't ask for confirmation
    #[arg(short, long)]
    yes: bool,
    /// Write the files, but start nothing
    #[arg(long)]
    no_start: bool,
    /// Join again on a router that has already joined: its links, rules and settings stay, its key
    /// and its concentrator are new; a copy of its config is kept. With the line that it has joined
    /// by, which may have been broken off, it goes on with its key
    #[arg(long)]
    replace: bool,
}

impl HomeCommand {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let HomeCommand::Join(join) = self;
        match join.stand_in {
            true => join.join_as_stand_in(global),
            false => join.run(global),
        }
    }
}

impl Join {
    fn run(&self, global: &Global) -> Result<(), Failure> {
        let line = line_source::join_line(&self.line)?;
        let file = global.config_file();
        let old = Joined::find(&file, &line)?;
        if let Some(never) = old.as_ref().and_then(Joined::never) {
            return Err(Failure::failed(never));
        }
        if let Some(old) = old.as_ref().filter(|_| !self.replace && !self.dry_run) {
            return Err(Failure::failed(old.refusal()));
        }
        let files = Files::beside(&file, old.as_ref());
        let device = match old.as_ref().and_then(|old| old.device.clone()) {
            Some(device) => device,
            None => free_device(&file)?,
        };
        let links = self.links(&device)?;
        let proposed = match self.interface.is_empty() && !self.by_name && is_laptop() {
            true => by_kind(&links),
            false => by_name(&links),
        };
        let kept = old.as_ref().map(|old| old.keep(&self.anew(&line, &files)));
        let text = match &kept {
            Some(Ok(kept)) => kept.text.clone(),
            Some(Err(_)) | None => self.config(&line, &proposed, &files, &device)?,
        };
        Config::parse(&text, &file)?;
        let becomes = old.as_ref().zip(kept.as_ref());
        let becomes = becomes.map(|(old, kept)| old.what_becomes_of_it(kept)).unwrap_or_default();
        let plan = self.plan(&text, &links, &files, becomes);
        let report = |done: bool| {
            let config = file.display().to_string();
            json!({ "config": config, "links": links, "text": text, "done": done })
        };
        if self.dry_run {
            return global.print(&report(false), || plan.clone());
        }
        failure::tell(&plan);
        if !self.yes {
            confirm()?;
        }
        files.write(&line, &text, old.as_ref())?;
        let done = match self.no_start {
            true => {
                let command = service::up_command(&file);
                format!("written {}; start with `{command}`", file.display())
            }
            false => {
                failure::tell(&service::start("braid-home.service", &file)?);
                let links = waiting::wait(&line, &Config::load(&file)?, CONCENTRATOR)?;
                format!("connected to {} by {}", line.concentrator_words(), links.join(", "))
            }
        };
        global.print(&report(true), || done.clone())
    }

    /// What this join changes in an existing config.
    fn anew(&self, line: &JoinLine, files: &Files) -> JoinedAnew {
        JoinedAnew {
            private_key_file: file_name(&files.key),
            addresses: line.addresses.iter().map(ToString::to_string).collect(),
            mtu: line.mtu,
            layer: line.layer.to_string(),
            public_key: line.concentrator.to_string(),
            preshared_key_file: file_name(&files.preshared_key),
            enrolment_key_file: file_name(&files.token),
            endpoints: line.endpoints.iter().map(ToString::to_string).collect(),
            fallback_port: line.fallback_port.map(NonZeroU16::get),
            interfaces: self.interface.iter().map(ToString::to_string).collect(),
            default_route: match (self.no_default_route, self.kill_switch) {
                (true, _) => Some(false),
                (false, true) => Some(true),
                (false, false) => None,
            },
            kill_switch: self.kill_switch,
            split_tcp: self.split_tcp,
            keeps_key: files.are_kept,
        }
    }

    fn links(&self, device: &DeviceName) -> Result<Vec<Uplink>, Failure> {
        if !self.interface.is_empty() {
            let named = self
                .interface
                .iter()
                .map(|device| Uplink { interface: device.to_string(), gateways: Vec::new() });
            return Ok(named.collect());
        }
        let found = uplinks::find(device.as_str())
            .map_err(|error| Failure::io("looking for uplinks", &error))?;
        if found.is_empty() {
            return Err(Failure::failed(
                "no network device has a default route; bring the links up, or name them with --interface DEVICE",
            ));
        }
        Ok(found)
    }

    fn config(
        &self,
        line: &JoinLine,
        links: &[Proposed],
        files: &Files,
        device: &DeviceName,
    ) -> Result<String, Failure> {
        let quoted = |items: Vec<String>| {
            items.iter().map(|item| format!("\"{item}\"")).collect::<Vec<_>>().join(", ")
        };
        let addresses = quoted(line.addresses.iter().map(ToString::to_string).collect());
        let endpoints = quoted(line.endpoints.iter().map(ToString::to_string).collect());
        let name = &line.name;
        let [key, secret, token] =
            [&files.key, &files.preshared_key, &files.token].map(|file| file_name(file));
        let mut text = format!(
            "# Written by `braid home join`. `braid config check` checks it.\n\
             [interface]\n\
             name = \"{device}\"\n\
             private_key_file = \"{key}\"\n\
             addresses = [{addresses}]\n\
             mtu = {}\n\
             layer = \"{}\"\n\
             # The concentrator knows this home as \"{name}\".\n",
            line.mtu, line.layer
        );
        if group_of_name(CONTROL_GROUP).is_ok_and(|group| group.is_some()) {
            text.push_str(&format!("control_group = \"{CONTROL_GROUP}\"\n"));
        }
        for link in links {
            let name: Name = link
                .name
                .replace(|c: char| !(c.is_ascii_alphanumeric() || "._-".contains(c)), "_")
                .parse()
                .map_err(|error| Failure::failed(format!("{error}")))?;
            let by = match &link.by {
                By::Interface(interface) => format!("interface = \"{interface}\""),
                By::Kind(kind) => format!("match = {{ kind = \"{kind}\" }}"),
            };
            text.push_str(&format!("\n[[link]]\nname = \"{name}\"\n{by}\n"));
        }
        text.push_str(&format!(
            "\n[[peer]]\n\
             name = \"{CONCENTRATOR}\"\n\
             public_key = \"{}\"\n\
             preshared_key_file = \"{secret}\"\n\
             # Of the join line; gone when it has been used.\n\
             enrolment_key_file = \"{token}\"\n\
             endpoints = [{endpoints}]\n{}\
             allowed_ips = [\"0.0.0.0/0\", \"::/0\"]\n\
             keepalive = \"15s\"\n",
            line.concentrator,
            fallback(line)
        ));
        if line.layer == Layer::L3 && !self.no_default_route {
            let gone = if self.kill_switch { "block" } else { "direct" };
            text.push_str(&format!(
                "\n[routing]\ndefault_route = true\nwhen_concentrator_gone = \"{gone}\"\nmasquerade = true\n"
            ));
        }
        if self.split_tcp {
            text.push_str("\n[split_tcp]\n");
        }
        Ok(text)
    }

    fn plan(&self, text: &str, links: &[Uplink], files: &Files, becomes: Vec<String>) -> String {
        let mut lines = vec!["uplinks:".to_owned()];
        // They may appear later, or be mistyped.
        let absent = uplinks::absent(links).unwrap_or_default();
        for uplink in links {
            let gateways: Vec<String> = uplink.gateways.iter().map(ToString::to_string).collect();
            let through = match gateways.is_empty() {
                true if absent.contains(&uplink.interface.as_str()) => {
                    ", which doesn't exist now: `ip -brief link` shows which do".to_owned()
                }
                true => String::new(),
                false => format!(" through {}", gateways.join(", ")),
            };
            lines.push(format!("  {}{through}", uplink.interface));
        }
        lines.extend(becomes);
        let (config, key) = (files.config.display(), files.key.display());
        lines.push(match files.are_kept {
            true => format!("will write {config}:"),
            false => format!("will write {config}, {key} and two secrets from the join line:"),
        });
        lines.extend(text.lines().map(|line| format!("  {line}").trim_end().to_owned()));
        if text.contains("default_route = true") {
            lines.push(
                "names: name servers that don't answer are replaced by the concentrator or a link's \
                 router (routing.dns)"
                    .to_owned(),
            );
        }
        if text.contains("default_route = true") && !self.split_tcp {
            lines.push(
                "TCP connections run end to end through the tunnel; --split-tcp makes short and \
                 very fast ones quicker (split_tcp)"
                    .to_owned(),
            );
        }
        if !self.no_start {
            lines.push(match service::starts_at_boot("braid-home.service", &files.config) {
                true => "then start the tunnel now and at boot".to_owned(),
                false => "then start the tunnel now; nothing starts it at boot here".to_owned(),
            });
        }
        lines.join("\n")
    }
}

/// The line with a `[[peer]]`'s fallback port, for networks that block UDP; empty if it has none.
fn fallback(line: &JoinLine) -> String {
    line.fallback_port.map_or(String::new(), |port| format!("fallback_port = {port}\n"))
}

fn file_name(file: &Path) -> String {
    file.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
