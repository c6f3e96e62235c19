use super::super::failure::{Failure, FailureKind};
use super::super::{Global, failure};
use super::super::{openwrt, service};
use super::add_home::{NewHome, show_qr_code};
use super::overheard::overheard;
use super::taken::{Adding, Taken};
use super::{Init, addresses};
use crate::daemon::own_endpoints;
use braid_control::config::{Config, ConfigEditor, Endpoint, Name, Registry, write_secret};
use braid_handshake::{PrivateKey, os_random};
use ipnet::IpNet;
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};

/// Where state is on OpenWrt, whose `/var` is memory: who joined, and the certificate that join
/// lines name, must be there after a reboot. History would wear out the flash.
const ON_FLASH: (&str, &str) =
    ("state_dir = \"state\"\n", "\n[history]\nfile = \"/var/lib/braid/history.db\"\n");

impl Init {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let file = global.config_file();
        if file.exists() {
            let file = file.display();
            return Err(Failure::failed(format!(
                "{file} already exists; to add another home: `braid concentrator add-home NAME`. If \
                 setting it up was broken off: `braid up`, then `braid concentrator renew NAME` for \
                 a home that `braid concentrator list` shows"
            )));
        }
        self.check_fleet(&file)?;
        let port = addresses::free_port(self.port)?;
        let endpoints = self.endpoints(port)?;
        let key = PrivateKey::generate(&mut os_random());
        let key_file = file.with_extension("key");
        let is_on_openwrt = openwrt::Service::of(&file).is_some();
        let text = self.config(port, &key_file, is_on_openwrt)? + &self.fleet(&endpoints);
        // Checked before anything is written.
        let mut editor = ConfigEditor::from_text(&text, &file)?;
        let planned = editor.check()?;
        let mut adding = Adding::to_fleet(&planned)?;
        let first = self.first_home(&adding.taken)?;
        adding.concentrator(&planned, &key.public_key(), &endpoints)?;

        make_directory(&file)?;
        write_secret(&key_file, &key.to_base64())
            .map_err(|error| Failure::io(&format!("writing {}", key_file.display()), &error))?;
        write_new(&file, &text)?;
        let listed: Vec<String> = endpoints.iter().map(ToString::to_string).collect();
        write_new(&own_endpoints::file(&file), &format!("{}\n", listed.join("\n")))?;
        let config = Config::load(&file)?;
        let line = match &first {
            None => None,
            Some(name) => {
                let addresses = addresses::addresses(&config, &[], &adding.taken)?;
                let (concentrator, valid) = (&key.public_key(), self.valid);
                let home = NewHome { name, addresses: addresses.clone(), concentrator, valid };
                let line = home.add(&config, &mut editor, endpoints)?;
                adding.home(name.as_str(), &addresses);
                Some(line)
            }
        };
        let homes_of_fleet = adding.taken.homes();
        drop(adding);
        if !self.no_start {
            let started = service::start("braid-concentrator.service", &file)?;
            failure::tell(&started);
        }
        let start = match self.no_start {
            true => format!("\n  0. start it: `{}`", service::up_command(&file)),
            false => String::new(),
        };
        let Some(line) = line else {
            let value = json!({
                "config": file, "port": port, "home": null, "line": null, "until": null,
                "homes_of_fleet": homes_of_fleet,
            });
            return global.print(&value, || {
                format!(
                    "the fleet has {}. Next:{start}\n  \
                     1. open UDP port {port} in this host's firewall, and in its provider's if \
                     there is one\n  \
                     2. `braid concentrator status` shows who is served where; `braid concentrator \
                     add-home NAME` adds another home",
                    counted(homes_of_fleet)
                )
            });
        };
        let (text, until) = (line.to_string(), line.until);
        let value = json!({
            "config": file, "port": port, "home": line.name.as_str(), "line": text,
            "until": until.to_string(),
        });
        global.print(&value, || text.clone())?;
        if self.qr {
            show_qr_code(&text)?;
        }
        failure::tell(&format!(
            "this line lets one router join, once, until {until}. Next:{start}\n  1. open UDP port {port} in this host's firewall, and in its provider's if there is one\n  2. on the router at home: `braid home join -`, and paste the line\n  3. here: `braid concentrator list` shows whether it has joined"
        ));
        Ok(())
    }

    /// A fleet's homes connect by themselves.
    fn first_home(&self, taken: &Taken) -> Result<Option<Name>, Failure> {
        match &self.home {
            Some(name) if taken.has(name.as_str()) => Err(Failure::failed(format!(
                "the fleet already has a home {:?}, which will connect here by itself: without \
                 --home none is added",
                name.as_str()
            ))),
            Some(name) => Ok(Some(name.clone())),
            None if taken.homes() > 0 => Ok(None),
            None => "home".parse().map(Some).map_err(|error| Failure::failed(format!("{error}"))),
        }
    }

    fn endpoints(&self, port: u16) -> Result<Vec<Endpoint>, Failure> {
        if !self.endpoint.is_empty() {
            return Ok(self.endpoint.clone());
        }
        let found = addresses::public_endpoints(port);
        if found.is_empty() {
            return Err(Failure::failed(
                "this host has no public address of its own; give the address where homes reach \
                 it: --endpoint HOST:PORT",
            ));
        }
        Ok(found)
    }

    /// Reports errors in terms of the options, as there is no config yet.
    fn check_fleet(&self, config: &Path) -> Result<(), Failure> {
        let wrong = |what: &str| Err(Failure::new(FailureKind::Usage, what.to_owned()));
        let Some(registry) = &self.fleet else { return Ok(()) };
        let registry = Registry::parse(registry, config.parent().unwrap_or(Path::new("/")));
        let registry = match registry {
            Err(what) => return wrong(&format!("--fleet: {what}")),
            Ok(registry) => registry,
        };
        let (is_file, is_plain) =
            (matches!(registry, Registry::File(_)), registry.plain_members().next().is_some());
        if !is_file && !is_plain && self.ca_file.is_none() {
            return wrong(
                "etcds:// needs --ca-file FILE: the PEM file of the CA that signed etcd's \
                 certificates",
            );
        }
        if is_plain && self.etcd_user.is_some() {
            return wrong(
                "--etcd-user without TLS: the password would cross the network unencrypted; \
                 --fleet etcds://… and --ca-file FILE",
            );
        }
        for (option, file) in
            [("--ca-file", &self.ca_file), ("--etcd-password-file", &self.etcd_password_file)]
        {
            if let Some(file) = file {
                let doing = || format!("reading {option} {}", file.display());
                fs::File::open(file).map_err(|error| Failure::io(&doing(), &error))?;
            }
        }
        if let Some(warning) = overheard(&registry) {
            failure::tell(&format!("warning: {warning}"));
        }
        Ok(())
    }

    /// The config's `[fleet]`.
    fn fleet(&self, endpoints: &[Endpoint]) -> String {
        let (Some(registry), Some(name)) = (&self.fleet, &self.name) else { return String::new() };
        let endpoints: Vec<String> = endpoints.iter().map(|it| format!("\"{it}\"")).collect();
        // The config's are relative to its own folder.
        let file = |key: &str, file: &Option<PathBuf>| match file {
            Some(file) => {
                let file = std::path::absolute(file).unwrap_or_else(|_| file.clone());
                format!("{key} = {:?}\n", file.display())
            }
            None => String::new(),
        };
        let user = self.etcd_user.iter().map(|user| format!("user = {user:?}\n"));
        format!(
            "\n[fleet]\nname = \"{name}\"\nregistry = {registry:?}\nendpoints = [{}]\n{}{}{}",
            endpoints.join(", "),
            file("ca_file", &self.ca_file),
            user.collect::<String>(),
            file("password_file", &self.etcd_password_file)
        )
    }

    fn config(&self, port: u16, key_file: &Path, is_on_openwrt: bool) -> Result<String, Failure> {
        let ours = [IpNet::from(self.network), IpNet::from(self.network6)].map(|network| {
            let first = network.hosts().find(|address| *address != network.network());
            first.map(|address| format!("\"{address}/{}\"", network.prefix_len()))
        });
        let [Some(v4), Some(v6)] = ours else {
            return Err(Failure::failed(
                "--network and --network6 need at least two host addresses each",
            ));
        };
        let key_name = key_file.file_name().unwrap_or_default().to_string_lossy();
        let (state, history) = if is_on_openwrt { ON_FLASH } else { ("", "") };
        let split_tcp = if self.split_tcp { "\n[split_tcp]\n" } else { "" };
        Ok(format!(
            "# Written by `braid concentrator init`. `braid config check` checks it.\n\
             [interface]\n\
             name = \"braid0\"\n\
             private_key_file = \"{key_name}\"\n\
             addresses = [{v4}, {v6}]\n\
             listen = [\"0.0.0.0:{port}\", \"[::]:{port}\"]\n\
             {state}\n\
             [routing]\n\
             masquerade = true\n{split_tcp}{history}"
        ))
    }
}

fn counted(homes: usize) -> String {
    match homes {
        1 => "a home, which will connect here by itself".to_owned(),
        homes => format!("{homes} homes, which will connect here by themselves"),
    }
}

fn make_directory(file: &Path) -> Result<(), Failure> {
    let directory = file.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(directory)
        .map_err(|error| Failure::io(&format!("making {}", directory.display()), &error))
}

fn write_new(file: &Path, text: &str) -> Result<(), Failure> {
    braid_durable::create(file, text.as_bytes(), 0o644)
        .map_err(|error| Failure::io(&format!("writing {}", file.display()), &error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Alone {
        #[command(flatten)]
        init: Init,
    }

    fn config(is_on_openwrt: bool) -> Config {
        let file = Path::new("/etc/braid/braid.toml");
        let Alone { init } = Alone::parse_from(["init"]);
        let text = init.config(51900, &file.with_extension("key"), is_on_openwrt).unwrap();
        Config::parse(&text, file).unwrap()
    }

    #[test]
    fn on_openwrt_state_is_on_flash_and_history_in_memory() {
        let router = config(true);
        assert_eq!(router.interface.state_dir, Path::new("/etc/braid/state"));
        assert_eq!(router.history.file.as_deref(), Some("/var/lib/braid/history.db".as_ref()));
        assert!(router.routing.masquerade);
        assert_eq!(config(false).interface.state_dir, Path::new("/var/lib/braid"));
    }
}
