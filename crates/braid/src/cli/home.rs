use super::confirm::confirm;
use super::failure::{self, Failure};
use super::line_source;
use super::up::service;
use super::uplinks::{self, Uplink};
use super::{Global, JsonFlag};
use braid_control::config::{Config, DEFAULT_CONFIG, DeviceName, Layer, Name, write_secret};
use braid_control::join_line::JoinLine;
use clap::{Args, Subcommand};
use serde_json::json;
use std::fs;
use std::io::Write;
use std::path::Path;

#[derive(Subcommand)]
pub enum HomeCommand {
    /// Join a concentrator: find the uplinks, write the config, start
    Join(Join),
}

#[derive(Args)]
#[command(
    after_help = "Example:\n  braid home join braid-join:AQMF3A… --dry-run\n  braid home join -                       # paste it, press return"
)]
pub struct Join {
    #[command(flatten)]
    _json: JsonFlag,
    /// What `braid concentrator init` or `add-home` printed; `-` reads it from standard input, the
    /// name of a file from there: as an argument `ps` and the shell's history have it
    line: String,
    /// Use these devices as links, instead of all with a default route
    #[arg(long, value_name = "DEVICE")]
    interface: Vec<DeviceName>,
    /// Don't send this host's and its LAN's traffic through the tunnel
    #[arg(long)]
    no_default_route: bool,
    /// Let nothing out while the concentrator is gone
    #[arg(long, conflicts_with = "no_default_route")]
    kill_switch: bool,
    /// Only show what would be done
    #[arg(long)]
    dry_run: bool,
    /// Don't ask
    #[arg(short, long)]
    yes: bool,
    /// Write the files, but start nothing
    #[arg(long)]
    no_start: bool,
}

impl HomeCommand {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let HomeCommand::Join(join) = self;
        join.run(global)
    }
}

impl Join {
    fn run(&self, global: &Global) -> Result<(), Failure> {
        let line = line_source::join_line(&self.line)?;
        let file = global.config_file();
        if file.exists() && !self.dry_run {
            let file = file.display();
            return Err(Failure::failed(format!(
                "{file} exists; remove it first, or name another with --config"
            )));
        }
        let links = self.links()?;
        let text = self.config(&line, &links, &file)?;
        Config::parse(&text, &file)?;
        let plan = plan(&text, &links, &file, self.no_start);
        if self.dry_run {
            let value = json!({ "config": file, "links": links, "text": text, "done": false });
            return global.print(&value, || plan.clone());
        }
        failure::tell(&plan);
        if !self.yes {
            confirm()?;
        }
        write_files(&line, &text, &file)?;
        let started = match self.no_start {
            true => format!("written {}; start with `{}`", file.display(), up_command(&file)),
            false => service::start("braid-home.service", &file)?,
        };
        let value = json!({ "config": file, "links": links, "text": text, "done": true });
        global.print(&value, || started.clone())
    }

    fn links(&self) -> Result<Vec<Uplink>, Failure> {
        if !self.interface.is_empty() {
            let named = self
                .interface
                .iter()
                .map(|device| Uplink { interface: device.to_string(), gateways: Vec::new() });
            return Ok(named.collect());
        }
        let found =
            uplinks::find(DEVICE).map_err(|error| Failure::io("looking for uplinks", &error))?;
        if found.is_empty() {
            return Err(Failure::failed(
                "no network device has a default route; bring the links up, or name them with --interface DEVICE",
            ));
        }
        Ok(found)
    }

    fn config(&self, line: &JoinLine, links: &[Uplink], file: &Path) -> Result<String, Failure> {
        let quoted = |items: Vec<String>| {
            items.iter().map(|item| format!("\"{item}\"")).collect::<Vec<_>>().join(", ")
        };
        let addresses = quoted(line.addresses.iter().map(ToString::to_string).collect());
        let endpoints = quoted(line.endpoints.iter().map(ToString::to_string).collect());
        let (stem, name) = (file.file_stem().unwrap_or_default().to_string_lossy(), &line.name);
        let mut text = format!(
            "# Written by `braid home join`. `braid config check` checks it.\n\
             [interface]\n\
             name = \"{DEVICE}\"\n\
             private_key_file = \"{stem}.key\"\n\
             addresses = [{addresses}]\n\
             mtu = {}\n\
             layer = \"{}\"\n\
             # The concentrator knows this home as \"{name}\".\n",
            line.mtu, line.layer
        );
        for uplink in links {
            let link: Name = uplink
                .interface
                .replace(|c: char| !(c.is_ascii_alphanumeric() || "._-".contains(c)), "_")
                .parse()
                .map_err(|error| Failure::failed(format!("{error}")))?;
            text.push_str(&format!(
                "\n[[link]]\nname = \"{link}\"\ninterface = \"{}\"\n",
                uplink.interface
            ));
        }
        text.push_str(&format!(
            "\n[[peer]]\n\
             name = \"concentrator\"\n\
             public_key = \"{}\"\n\
             preshared_key_file = \"{stem}.psk\"\n\
             endpoints = [{endpoints}]\n\
             allowed_ips = [\"0.0.0.0/0\", \"::/0\"]\n\
             keepalive = \"15s\"\n",
            line.concentrator
        ));
        if line.layer == Layer::L3 && !self.no_default_route {
            let gone = if self.kill_switch { "block" } else { "direct" };
            text.push_str(&format!(
                "\n[routing]\ndefault_route = true\nwhen_concentrator_gone = \"{gone}\"\nmasquerade = true\n"
            ));
        }
        Ok(text)
    }
}

const DEVICE: &str = "braid0";

fn plan(text: &str, links: &[Uplink], file: &Path, no_start: bool) -> String {
    let mut lines = vec!["uplinks:".to_owned()];
    for uplink in links {
        let gateways: Vec<String> = uplink.gateways.iter().map(ToString::to_string).collect();
        let through = match gateways.is_empty() {
            true => String::new(),
            false => format!(" through {}", gateways.join(", ")),
        };
        lines.push(format!("  {}{through}", uplink.interface));
    }
    let (file_name, key) = (file.display(), file.with_extension("key"));
    lines.push(format!("will write {file_name}, {} and the preshared key:", key.display()));
    lines.extend(text.lines().map(|line| format!("  {line}").trim_end().to_owned()));
    if text.contains("default_route = true") {
        lines.push(
            "names: name servers that don't answer are replaced by the concentrator or a link's router \
             (routing.dns)"
                .to_owned(),
        );
    }
    if !no_start {
        lines.push("then start the tunnel, now and at boot".to_owned());
    }
    lines.join("\n")
}

/// What starts the tunnel of this config.
fn up_command(file: &Path) -> String {
    match file == Path::new(DEFAULT_CONFIG) {
        true => "braid up".to_owned(),
        false => format!("braid up --config {}", file.display()),
    }
}

fn write_files(line: &JoinLine, text: &str, file: &Path) -> Result<(), Failure> {
    let directory = file.parent().unwrap_or(Path::new("."));
    let io = |path: &Path| {
        let doing = format!("writing {}", path.display());
        move |error: std::io::Error| Failure::io(&doing, &error)
    };
    fs::create_dir_all(directory).map_err(io(directory))?;
    let (key, secret) = (file.with_extension("key"), file.with_extension("psk"));
    write_secret(&key, &line.private_key.to_base64()).map_err(io(&key))?;
    write_secret(&secret, &line.preshared_key.to_base64()).map_err(io(&secret))?;
    // Last, so that an attempt that broke off can be repeated once its keys
    // are removed, and no config names keys that aren't there.
    fs::File::create_new(file).and_then(|mut out| out.write_all(text.as_bytes())).map_err(io(file))
}
