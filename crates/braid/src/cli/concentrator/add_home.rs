use super::super::Global;
use super::super::failure::{self, Failure};
use super::{AddHome, LineForHome, RemoveHome, Renew, Revoke, addresses};
use crate::cli::free_file::free_file;
use braid_control::client::ClientError;
use braid_control::config::{
    Config, ConfigEditor, EditError, Endpoint, Name, Peer, PeerLine, read_private_key, write_secret,
};
use braid_control::enrolled::EnrolledHomes;
use braid_control::join_line::JoinLine;
use braid_handshake::{EnrolmentToken, PublicKey, os_random};
use ipnet::IpNet;
use jiff::Timestamp;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::Duration;

impl AddHome {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let mut work = Work::open(global)?;
        if work.config.peer(self.line.name.as_str()).is_some() {
            let name = &self.line.name;
            return Err(Failure::failed(format!(
                "there is a home {name:?} already; `braid concentrator renew {name}` makes another \
                 join line for it",
                name = name.as_str()
            )));
        }
        let endpoints = work.endpoints(&self.line.endpoint)?;
        let addresses = addresses::addresses(&work.config, &self.address)?;
        let Work { config, editor, public_key } = &mut work;
        let line = self.line.home(addresses, public_key).add(config, editor, endpoints)?;
        tell_tunnel(global)?;
        give(global, &self.line.name, &line)
    }
}

impl Renew {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let mut work = Work::open(global)?;
        let peer = work.peer(self.line.name.as_str())?;
        let endpoints = work.endpoints(&self.line.endpoint)?;
        let addresses = addresses::of_home(&work.config, &peer)?;
        let Work { config, editor, public_key } = &mut work;
        let line = self.line.home(addresses, public_key).renew(config, editor, endpoints)?;
        tell_tunnel(global)?;
        give(global, &self.line.name, &line)?;
        remove_preshared_key(config, &peer)
    }
}

impl LineForHome {
    fn home<'a>(&'a self, addresses: Vec<IpNet>, concentrator: &'a PublicKey) -> NewHome<'a> {
        NewHome { name: &self.name, addresses, concentrator, valid: self.valid }
    }
}

impl Revoke {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let work = Work::open(global)?;
        let peer = work.peer(&self.name)?;
        if peer.is_known() {
            let name = &self.name;
            return Err(Failure::failed(format!(
                "home {name:?} has joined; `braid concentrator remove-home {name}` shuts it out"
            )));
        }
        work.remove_for_good(&peer)?;
        tell_tunnel(global)?;
        global.print(&json!({ "revoked": self.name }), || {
            format!("the join line of {} lets nobody in any more", self.name)
        })
    }
}

impl RemoveHome {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let work = Work::open(global)?;
        let peer = work.peer(&self.name)?;
        work.remove_for_good(&peer)?;
        tell_tunnel(global)?;
        global.print(&json!({ "removed": self.name }), || format!("home {} is shut out", self.name))
    }
}

/// The config that is changed.
struct Work {
    config: Config,
    editor: ConfigEditor,
    public_key: PublicKey,
}

impl Work {
    fn open(global: &Global) -> Result<Work, Failure> {
        let config = known_homes(global)?;
        let editor = ConfigEditor::open(&config.file)?;
        let public_key = read_private_key(&config.interface.private_key_file)?.public_key();
        Ok(Work { config, editor, public_key })
    }

    fn peer(&self, name: &str) -> Result<Peer, Failure> {
        self.config.peer(name).cloned().ok_or_else(|| {
            let known: Vec<&str> =
                self.config.peers.iter().map(|peer| peer.name.as_str()).collect();
            Failure::failed(format!("no home is named {name:?}; there are: {}", known.join(", ")))
        })
    }

    fn endpoints(&self, given: &[Endpoint]) -> Result<Vec<Endpoint>, Failure> {
        match given {
            [] => known_endpoints(&self.config.file),
            given => Ok(given.to_vec()),
        }
    }

    fn remove_for_good(mut self, peer: &Peer) -> Result<(), Failure> {
        self.editor.remove_peer(peer.name.as_str());
        self.editor.save()?;
        remove_preshared_key(&self.config, peer)
    }
}

/// The config, with the keys of the homes that have joined.
pub fn known_homes(global: &Global) -> Result<Config, Failure> {
    let mut config = global.load_config()?;
    let file = EnrolledHomes::path(&config.interface.state_dir, config.interface.name.as_str());
    let homes = EnrolledHomes::read(&file)
        .map_err(|error| Failure::io(&format!("reading {}", file.display()), &error))?;
    homes.apply(&mut config);
    Ok(config)
}

/// The line, on standard output; what to do with it, beside.
pub fn give(global: &Global, name: &Name, line: &JoinLine) -> Result<(), Failure> {
    let text = line.to_string();
    let value = json!({ "home": name.as_str(), "line": text, "until": line.until.to_string() });
    global.print(&value, || text.clone())?;
    failure::tell(&format!(
        "this line lets one router in, once, until {}; on that router: `braid home join -`, and paste it",
        line.until
    ));
    Ok(())
}

/// A home that is to join.
pub struct NewHome<'a> {
    pub name: &'a Name,
    /// Its inner addresses.
    pub addresses: Vec<IpNet>,
    pub concentrator: &'a PublicKey,
    /// How long its line is valid.
    pub valid: Duration,
}

impl NewHome<'_> {
    /// Adds its `[[peer]]` to the config, and gives the line that lets it in.
    pub fn add(
        self,
        config: &Config,
        editor: &mut ConfigEditor,
        endpoints: Vec<Endpoint>,
    ) -> Result<JoinLine, Failure> {
        let hosts: Vec<String> =
            self.addresses.iter().map(|address| format!("\"{}\"", address.addr())).collect();
        let name = self.name;
        self.give(config, editor, endpoints, |editor, line| {
            let PeerLine { enrolment_key, enrol_until, preshared_key_file } = line;
            editor.append(&format!(
                "[[peer]]\nname = \"{name}\"\nenrolment_key = \"{enrolment_key}\"\n\
                 enrol_until = \"{enrol_until}\"\npreshared_key_file = \"{preshared_key_file}\"\n\
                 allowed_ips = [{}]\n",
                hosts.join(", "),
            ))
        })
    }

    /// Gives its `[[peer]]` another line, which lets it in as the one before did.
    fn renew(
        self,
        config: &Config,
        editor: &mut ConfigEditor,
        endpoints: Vec<Endpoint>,
    ) -> Result<JoinLine, Failure> {
        let name = self.name.as_str();
        self.give(config, editor, endpoints, |editor, line| editor.renew_peer(name, line))
    }

    /// Makes a line, which `enter` writes into the config.
    fn give(
        self,
        config: &Config,
        editor: &mut ConfigEditor,
        endpoints: Vec<Endpoint>,
        enter: impl FnOnce(&mut ConfigEditor, &PeerLine) -> Result<(), EditError>,
    ) -> Result<JoinLine, Failure> {
        let token = EnrolmentToken::generate(&mut os_random());
        let until = until(Timestamp::now(), self.valid)?;
        let named: Vec<PathBuf> =
            config.peers.iter().filter_map(|peer| peer.preshared_key_file.clone()).collect();
        let wanted = config.file.with_file_name(format!("{}.psk", self.name));
        let secret_file = free_file(&wanted, &named);
        let secret_name = secret_file.file_name().unwrap_or_default().to_string_lossy();
        let line = PeerLine {
            enrolment_key: token.key().public_key().to_string(),
            enrol_until: until.to_string(),
            preshared_key_file: secret_name.into_owned(),
        };
        enter(editor, &line)?;
        let preshared_key = token.preshared_key();
        write_secret(&secret_file, &preshared_key.to_base64())
            .map_err(|error| Failure::io(&format!("writing {}", secret_file.display()), &error))?;
        if let Err(error) = editor.save() {
            // Of no use to anybody; what is told is the first error.
            let _ = braid_durable::remove(&secret_file);
            return Err(error.into());
        }
        Ok(JoinLine {
            layer: config.interface.layer,
            mtu: config.interface.mtu,
            token,
            until,
            concentrator: *self.concentrator,
            name: self.name.clone(),
            addresses: self.addresses,
            endpoints,
        })
    }
}

/// In whole seconds, as lines have it.
fn until(now: Timestamp, valid: Duration) -> Result<Timestamp, Failure> {
    let seconds = i64::try_from(valid.as_secs()).unwrap_or(i64::MAX);
    Timestamp::from_second(now.as_second().saturating_add(seconds))
        .map_err(|_| Failure::failed("this host's clock is wrong: set it"))
}

/// Where `init` keeps how homes reach this host.
pub fn endpoints_file(config: &Path) -> PathBuf {
    config.with_extension("endpoints")
}

fn known_endpoints(config: &Path) -> Result<Vec<Endpoint>, Failure> {
    let file = endpoints_file(config);
    let text = std::fs::read_to_string(&file).map_err(|error| {
        Failure::failed(format!(
            "{}: {error}; say how homes reach this host: --endpoint HOST:PORT",
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

/// One that `add-home` made; another's stays.
fn remove_preshared_key(config: &Config, peer: &Peer) -> Result<(), Failure> {
    let folder = config.file.parent();
    let is_own = |file: &&PathBuf| {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        file.parent() == folder && name.starts_with(peer.name.as_str()) && name.ends_with(".psk")
    };
    match peer.preshared_key_file.as_ref().filter(is_own) {
        Some(file) => braid_durable::remove(file)
            .map_err(|error| Failure::io(&format!("removing {}", file.display()), &error)),
        None => Ok(()),
    }
}

fn tell_tunnel(global: &Global) -> Result<(), Failure> {
    match global.client()?.reload() {
        Ok(()) => Ok(()),
        Err(ClientError::NotRunning(_) | ClientError::Anothers { .. }) => {
            failure::tell("no tunnel is running; this counts from the next `braid up` on");
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}
