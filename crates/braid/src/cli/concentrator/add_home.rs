use super::super::Global;
use super::super::failure::{self, Failure};
use super::taken::{Adding, Taken};
use super::{AddHome, LineForHome, RemoveHome, Renew, Revoke, addresses};
use crate::cli::free_file::free_file;
use crate::daemon::own_endpoints;
use braid_control::client::ClientError;
use braid_control::config::{
    Config, ConfigEditor, EditError, Endpoint, Name, Peer, PeerLine, write_secret,
};
use braid_control::enrolled::EnrolledHomes;
use braid_control::fleet_homes::FleetHomes;
use braid_control::join_line::JoinLine;
use braid_control::qr_code::QrCode;
use braid_handshake::{EnrolmentToken, PublicKey, os_random};
use ipnet::IpNet;
use jiff::Timestamp;
use serde_json::json;
use std::io::{self, IsTerminal, Write};
use std::net::IpAddr;
use std::num::NonZeroU16;
use std::path::Path;
use std::time::Duration;

impl AddHome {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let config = known_homes(global)?;
        let Added { line, without_registry } = add(config.clone(), &self.line, &self.address)?;
        tell_tunnel(global)?;
        // Don't wait again for a registry that has just not answered.
        let stand_ins = if without_registry { Vec::new() } else { stand_ins(&config, &line) };
        give(global, &config, &line, self.line.qr, &stand_ins)
    }
}

impl Renew {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let config = known_homes(global)?;
        let Renewed { line, tidied } = renew(config.clone(), &self.line)?;
        tell_tunnel(global)?;
        let others_know = tell_if_others_have_not_heard(&config);
        let stand_ins = if others_know { stand_ins(&config, &line) } else { Vec::new() };
        give(global, &config, &line, self.line.qr, &stand_ins)?;
        tidied
    }
}

impl Revoke {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let config = known_homes(global)?;
        revoke(config.clone(), &self.name)?;
        tell_tunnel(global)?;
        tell_if_others_have_not_heard(&config);
        global.print(&json!({ "revoked": self.name }), || {
            format!("the join line of {} is revoked", self.name)
        })
    }
}

impl RemoveHome {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let config = known_homes(global)?;
        remove(config.clone(), &self.name)?;
        tell_tunnel(global)?;
        tell_if_others_have_not_heard(&config);
        global.print(&json!({ "removed": self.name }), || {
            format!("home {} is removed and can't connect any more", self.name)
        })
    }
}

/// Adds a home to the config's file, and returns its join line. `wanted` are its addresses, by
/// default the next free ones. The tunnel must still be reloaded.
pub fn add(config: Config, home: &LineForHome, wanted: &[IpAddr]) -> Result<Added, Failure> {
    let mut work = Work::of(&config)?;
    let mut without_registry = false;
    // Without the registry, local knowledge is used; duplicate addresses are reported later.
    let mut adding = Adding::to_fleet(&work.config).unwrap_or_else(|failure| {
        failure::tell(&format!(
            "the fleet's registry wasn't asked which names and addresses are taken, and there are \
             no lines for others of the fleet: {failure}"
        ));
        without_registry = true;
        Adding::default()
    });
    let addresses = work.addresses_of_new(home, wanted, &adding.taken)?;
    let endpoints = work.endpoints(&home.endpoint)?;
    let Work { config, editor, public_key } = &mut work;
    let line = home.with(addresses.clone(), public_key).add(config, editor, endpoints)?;
    adding.home(home.name.as_str(), &addresses);
    Ok(Added { line, without_registry })
}

/// A home was added.
pub struct Added {
    /// Its join line.
    pub line: JoinLine,
    /// The fleet's registry didn't answer.
    pub without_registry: bool,
}

/// What [`add`] would give a home: its inner addresses, and where it will find this host.
#[cfg(feature = "page")]
pub fn planned(
    config: Config,
    home: &LineForHome,
    wanted: &[IpAddr],
) -> Result<(Vec<IpNet>, Vec<Endpoint>), Failure> {
    let work = Work::of(&config)?;
    let taken = Taken::in_fleet(&work.config).unwrap_or_default();
    Ok((work.addresses_of_new(home, wanted, &taken)?, work.endpoints(&home.endpoint)?))
}

/// A home has a new line.
pub struct Renewed {
    /// The line.
    pub line: JoinLine,
    /// Whether the previous line's secret was removed.
    pub tidied: Result<(), Failure>,
}

/// Gives a home a new line in the config's file. The tunnel must still be reloaded.
pub fn renew(config: Config, home: &LineForHome) -> Result<Renewed, Failure> {
    let mut work = Work::of(&config)?;
    let peer = work.peer(home.name.as_str())?;
    if peer.of_fleet {
        return Err(Failure::failed(format!(
            "home {name:?} is in another concentrator's config, see `braid concentrator status`: \
             renew it there",
            name = peer.name.as_str()
        )));
    }
    let endpoints = work.endpoints(&home.endpoint)?;
    let addresses = addresses::of_home(&work.config, &peer)?;
    let Work { config, editor, public_key } = &mut work;
    let line = home.with(addresses, public_key).renew(config, editor, endpoints)?;
    Ok(Renewed { line, tidied: remove_preshared_key(config, &peer) })
}

/// Removes a home that has yet to join from the config's file. The tunnel must still be reloaded.
pub fn revoke(config: Config, name: &str) -> Result<(), Failure> {
    let work = Work::of(&config)?;
    let peer = work.peer(name)?;
    if peer.is_known() {
        return Err(Failure::failed(format!(
            "home {name:?} has joined; `braid concentrator remove-home {name}` removes it"
        )));
    }
    work.remove_for_good(&peer)
}

/// Removes a home from the config's file. The tunnel must still be reloaded.
pub fn remove(config: Config, name: &str) -> Result<(), Failure> {
    let work = Work::of(&config)?;
    let peer = work.peer(name)?;
    work.remove_for_good(&peer)
}

impl LineForHome {
    fn with<'a>(&'a self, addresses: Vec<IpNet>, concentrator: &'a PublicKey) -> NewHome<'a> {
        NewHome { name: &self.name, addresses, concentrator, valid: self.valid }
    }
}

/// A config being changed.
struct Work {
    config: Config,
    editor: ConfigEditor,
    public_key: PublicKey,
}

impl Work {
    /// Others may have changed the config since it was read.
    fn of(config: &Config) -> Result<Work, Failure> {
        let editor = ConfigEditor::open_alone(&config.file)?;
        let config = with_joined(editor.check()?)?;
        let public_key = config.read_private_key()?.public_key();
        Ok(Work { config, editor, public_key })
    }

    fn peer(&self, name: &str) -> Result<Peer, Failure> {
        self.config.peer(name).cloned().ok_or_else(|| {
            let known: Vec<&str> =
                self.config.peers.iter().map(|peer| peer.name.as_str()).collect();
            Failure::failed(format!(
                "no home is named {name:?}; the homes are: {}",
                known.join(", ")
            ))
        })
    }

    fn addresses_of_new(
        &self,
        home: &LineForHome,
        wanted: &[IpAddr],
        taken: &Taken,
    ) -> Result<Vec<IpNet>, Failure> {
        let name = &home.name;
        if self.config.peer(name.as_str()).is_some() {
            return Err(Failure::failed(format!(
                "a home {name:?} already exists; `braid concentrator renew {name}` makes another \
                 join line for it",
                name = name.as_str()
            )));
        }
        if taken.has(name.as_str()) {
            return Err(Failure::failed(format!(
                "the fleet already has a home {:?}; `braid concentrator status` lists all",
                name.as_str()
            )));
        }
        addresses::addresses(&self.config, wanted, taken)
    }

    fn endpoints(&self, given: &[Endpoint]) -> Result<Vec<Endpoint>, Failure> {
        match given {
            [] => known_endpoints(&self.config.file),
            given => Ok(given.to_vec()),
        }
    }

    fn remove_for_good(mut self, peer: &Peer) -> Result<(), Failure> {
        if peer.of_fleet {
            return remove_from_fleet(&self.config, peer.name.as_str());
        }
        self.editor.remove_peer(peer.name.as_str());
        self.editor.save()?;
        remove_preshared_key(&self.config, peer)
    }
}

/// Removes a home that is in another concentrator's config; that concentrator registers it again if
/// it is alive.
#[cfg(feature = "fleet")]
fn remove_from_fleet(config: &Config, name: &str) -> Result<(), Failure> {
    let mut registry = super::fleet::Registry::of(config)?;
    let fleet = registry.read()?;
    let from = fleet.homes.get(name).map(|(home, _)| home.from.clone()).unwrap_or_default();
    if fleet.alive.contains_key(&from) {
        return Err(Failure::failed(format!(
            "home {name:?} is in the config of {from}: remove it there"
        )));
    }
    registry.remove_home(name)
}

#[cfg(not(feature = "fleet"))]
fn remove_from_fleet(_: &Config, _: &str) -> Result<(), Failure> {
    Err(Failure::failed("this build of braid has no fleet"))
}

/// The fleet's other concentrators learn of it through the registry; until then they let the home
/// in as before. Returns whether they have learnt of it.
pub fn tell_if_others_have_not_heard(config: &Config) -> bool {
    let heard = Taken::in_fleet(config).map(drop);
    if let Err(failure) = &heard {
        failure::tell(&format!(
            "it takes effect here; the fleet's other concentrators let the home in as before until \
             they hear of it: {failure}"
        ));
    }
    heard.is_ok()
}

/// The config, with the keys of the homes that have joined.
pub fn known_homes(global: &Global) -> Result<Config, Failure> {
    with_joined(global.load_config()?)
}

/// The config, with the keys of the homes that have joined.
pub fn with_joined(mut config: Config) -> Result<Config, Failure> {
    let file = EnrolledHomes::path(&config.interface.state_dir, config.interface.name.as_str());
    let homes = EnrolledHomes::read(&file)
        .map_err(|error| Failure::io(&format!("reading {}", file.display()), &error))?;
    let file = FleetHomes::path(&config.interface.state_dir, config.interface.name.as_str());
    let fleet = FleetHomes::read(&file)
        .map_err(|error| Failure::io(&format!("reading {}", file.display()), &error))?;
    fleet.apply(&mut config);
    homes.apply(&mut config);
    fleet.apply(&mut config);
    Ok(config)
}

/// Prints the line on standard output, and instructions on standard error.
fn give(
    global: &Global,
    config: &Config,
    line: &JoinLine,
    qr: bool,
    stand_ins: &[serde_json::Value],
) -> Result<(), Failure> {
    let text = line.to_string();
    let mut value =
        json!({ "home": line.name.as_str(), "line": text, "until": line.until.to_string() });
    if config.fleet.is_some() {
        value["stand_ins"] = json!(stand_ins);
    }
    global.print(&value, || text.clone())?;
    if qr {
        show_qr_code(&text)?;
    }
    failure::tell(&format!(
        "this line lets one router join, once, until {}; on that router run `braid home join -` \
         and paste it",
        line.until
    ));
    if let Ok(editor) = ConfigEditor::open(&config.file) {
        failure::tell(&format!("its [[peer]]: {}", editor.place_of("peer", line.name.as_str())));
    }
    for stand_in in stand_ins {
        failure::tell(&format!(
            "and for the stand-in {}: run `braid home join - --stand-in` and paste\n{}",
            stand_in["concentrator"].as_str().unwrap_or_default(),
            stand_in["line"].as_str().unwrap_or_default()
        ));
    }
    Ok(())
}

/// Lines for the fleet's other concentrators. If the registry doesn't answer, the one line must do.
#[cfg(feature = "fleet")]
fn stand_ins(config: &Config, line: &JoinLine) -> Vec<serde_json::Value> {
    if config.fleet.is_none() {
        return Vec::new();
    }
    let lines = super::fleet::Registry::of(config).and_then(|mut it| it.stand_ins(config, line));
    lines.unwrap_or_else(|error| {
        failure::tell(&format!("no join lines for the fleet's other concentrators: {error}"));
        Vec::new()
    })
}

#[cfg(not(feature = "fleet"))]
fn stand_ins(_: &Config, _: &JoinLine) -> Vec<serde_json::Value> {
    Vec::new()
}

/// On standard error, black on white whatever the terminal's colours are: scripts read the line.
pub fn show_qr_code(line: &str) -> Result<(), Failure> {
    let code = QrCode::of(line).map_err(|error| Failure::failed(error.to_string()))?;
    let mut terminal = io::stderr();
    let (paint, reset) = match terminal.is_terminal() {
        true => ("\x1b[38;5;16;48;5;231m", "\x1b[0m"),
        false => ("", ""),
    };
    let text: String = code.lines().iter().map(|line| format!("{paint}{line}{reset}\n")).collect();
    // If stderr is closed, it can't be shown.
    let _ = terminal.write_all(text.as_bytes());
    Ok(())
}

/// A home to add.
pub struct NewHome<'a> {
    pub name: &'a Name,
    /// Its inner addresses.
    pub addresses: Vec<IpNet>,
    pub concentrator: &'a PublicKey,
    /// How long its line is valid.
    pub valid: Duration,
}

impl NewHome<'_> {
    /// Adds its `[[peer]]` to the config, and returns its join line.
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

    /// Gives its `[[peer]]` a new line that replaces the previous one.
    fn renew(
        self,
        config: &Config,
        editor: &mut ConfigEditor,
        endpoints: Vec<Endpoint>,
    ) -> Result<JoinLine, Failure> {
        let name = self.name.as_str();
        self.give(config, editor, endpoints, |editor, line| editor.renew_peer(name, line))
    }

    /// Creates a line, which `enter` writes into the config.
    fn give(
        self,
        config: &Config,
        editor: &mut ConfigEditor,
        endpoints: Vec<Endpoint>,
        enter: impl FnOnce(&mut ConfigEditor, &PeerLine) -> Result<(), EditError>,
    ) -> Result<JoinLine, Failure> {
        let token = EnrolmentToken::generate(&mut os_random());
        let until = until(Timestamp::now(), self.valid)?;
        let named: Vec<&Path> = config.key_files().collect();
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
            // It is useless now; report the first error.
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
            fallback_port: config
                .interface
                .listen_tls
                .first()
                .and_then(|address| NonZeroU16::new(address.port())),
        })
    }
}

/// In whole seconds, like join lines.
fn until(now: Timestamp, valid: Duration) -> Result<Timestamp, Failure> {
    let seconds = i64::try_from(valid.as_secs()).unwrap_or(i64::MAX);
    Timestamp::from_second(now.as_second().saturating_add(seconds))
        .map_err(|_| Failure::failed("this host's clock is wrong: set it"))
}

fn known_endpoints(config: &Path) -> Result<Vec<Endpoint>, Failure> {
    let file = own_endpoints::file(config);
    let text = std::fs::read_to_string(&file).map_err(|error| {
        Failure::failed(format!(
            "{}: {error}; give the address where homes reach this host: --endpoint HOST:PORT",
            file.display()
        ))
    })?;
    let wrong = |line, error| Failure::failed(format!("{}:{line}: {error}", file.display()));
    own_endpoints::each(&text)
        .map(|(line, endpoint)| endpoint.map_err(|error| wrong(line, error)))
        .collect()
}

/// Removes a key created by `add-home`; others stay.
fn remove_preshared_key(config: &Config, peer: &Peer) -> Result<(), Failure> {
    let folder = config.file.parent();
    let is_own = |file: &&Path| {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        file.parent() == folder && name.starts_with(peer.name.as_str()) && name.ends_with(".psk")
    };
    match peer.preshared_key_file.as_deref().filter(is_own) {
        Some(file) => braid_durable::remove(file)
            .map_err(|error| Failure::io(&format!("removing {}", file.display()), &error)),
        None => Ok(()),
    }
}

pub fn tell_tunnel(global: &Global) -> Result<(), Failure> {
    match global.client()?.reload() {
        Ok(()) => Ok(()),
        Err(ClientError::NotRunning(_) | ClientError::Anothers { .. }) => {
            failure::tell("no tunnel is running; this takes effect with the next `braid up`");
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}
