use super::super::Global;
use super::super::failure::{self, Failure};
use super::{AddHome, RemoveHome, addresses};
use braid_control::client::ClientError;
use braid_control::config::{Config, ConfigEditor, Endpoint, Name, read_private_key, write_secret};
use braid_control::join_line::JoinLine;
use braid_handshake::{PresharedKey, PrivateKey, PublicKey, os_random};
use serde_json::json;
use std::path::{Path, PathBuf};

impl AddHome {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let file = global.config_file();
        let config = global.load_config()?;
        let mut editor = ConfigEditor::open(&file)?;
        let key = read_private_key(&config.interface.private_key_file)?;
        let endpoints = match self.endpoint.is_empty() {
            true => known_endpoints(&file)?,
            false => self.endpoint.clone(),
        };
        let line = new_home(&config, &mut editor, &self.name, &key.public_key(), endpoints)?;
        tell_tunnel(global)?;
        let value = json!({ "home": self.name.as_str(), "line": line });
        global.print(&value, || line.clone())
    }
}

impl RemoveHome {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let file = global.config_file();
        let config = global.load_config()?;
        let mut editor = ConfigEditor::open(&file)?;
        if !editor.remove_peer(&self.name) {
            let known: Vec<&str> = config.peers.iter().map(|peer| peer.name.as_str()).collect();
            let (name, known) = (&self.name, known.join(", "));
            return Err(Failure::failed(format!("no home is named {name:?}; there are: {known}")));
        }
        editor.save()?;
        let secret = config.peer(&self.name).and_then(|peer| peer.preshared_key_file.clone());
        if let Some(secret) =
            secret.filter(|secret| *secret == preshared_key_file(&file, &self.name))
        {
            std::fs::remove_file(&secret)
                .map_err(|error| Failure::io(&format!("removing {}", secret.display()), &error))?;
        }
        tell_tunnel(global)?;
        global.print(&json!({ "removed": self.name }), || format!("home {} is shut out", self.name))
    }
}

/// Makes a home's keys and addresses, adds its `[[peer]]` to the config, and
/// gives the line that takes it in.
pub fn new_home(
    config: &Config,
    editor: &mut ConfigEditor,
    name: &Name,
    concentrator: &PublicKey,
    endpoints: Vec<Endpoint>,
) -> Result<String, Failure> {
    let private_key = PrivateKey::generate(&mut os_random());
    let preshared_key = PresharedKey::generate(&mut os_random());
    let addresses = addresses::free_addresses(config)?;
    let hosts: Vec<String> =
        addresses.iter().map(|address| format!("\"{}\"", address.addr())).collect();
    let secret_file = preshared_key_file(&config.file, name.as_str());
    let secret_name = secret_file.file_name().unwrap_or_default().to_string_lossy();
    editor.append(&format!(
        "[[peer]]\nname = \"{name}\"\npublic_key = \"{}\"\npreshared_key_file = \"{secret_name}\"\nallowed_ips = [{}]\n",
        private_key.public_key(),
        hosts.join(", "),
    ))?;
    let line = JoinLine {
        layer: config.interface.layer,
        mtu: config.interface.mtu,
        private_key,
        preshared_key: preshared_key.clone(),
        concentrator: *concentrator,
        name: name.clone(),
        addresses,
        endpoints,
    };
    write_secret(&secret_file, &preshared_key.to_base64())
        .map_err(|error| Failure::io(&format!("writing {}", secret_file.display()), &error))?;
    editor.save()?;
    Ok(line.to_string())
}

/// Where `init` keeps how homes reach this host.
pub fn endpoints_file(config: &Path) -> PathBuf {
    config.with_extension("endpoints")
}

fn known_endpoints(config: &Path) -> Result<Vec<Endpoint>, Failure> {
    let file = endpoints_file(config);
    let text = std::fs::read_to_string(&file).map_err(|error| {
        Failure::failed(format!(
            "{}: {error}; tell how homes reach this host: --endpoint HOST:PORT",
            file.display()
        ))
    })?;
    text.lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
        .map(|(index, line)| {
            line.trim().parse().map_err(|error| {
                Failure::failed(format!("{}:{}: {error}", file.display(), index + 1))
            })
        })
        .collect()
}

fn preshared_key_file(config: &Path, home: &str) -> PathBuf {
    config.with_file_name(format!("{home}.psk"))
}

fn tell_tunnel(global: &Global) -> Result<(), Failure> {
    match global.client()?.reload() {
        Ok(()) => Ok(()),
        Err(ClientError::NotRunning(_)) => {
            failure::tell("no tunnel is running; this counts from the next `braid up` on");
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}
