use super::super::down::wait_until_gone;
use super::super::failure::{self, Failure};
use super::super::free_file::free_file;
use super::super::{RUN, openwrt, running_of};
use braid_control::client::{Client, ClientError};
use braid_control::config::{
    AnyConfig, Config, ConfigEditor, DEFAULT_CONFIG, DeviceName, JoinedAnew, read_preshared_key,
    read_private_key,
};
use braid_control::join_line::JoinLine;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// What exists of an earlier join of a config that joins again.
pub struct Joined {
    file: PathBuf,
    /// Its tunnel's device; `None` if the config can't be read.
    pub device: Option<DeviceName>,
    /// The client for its tunnel, whether that runs or not.
    client: Option<Client>,
    running: bool,
    /// The secrets next to the config that it names, whether they exist or not.
    pub secrets: Vec<PathBuf>,
    /// The secrets of an earlier, perhaps interrupted, join by the same line: its key may be the
    /// one that the line has let in.
    pub by_this_line: Option<Secrets>,
    /// Whether it joined the concentrator that the line is from.
    same_concentrator: bool,
    /// Whether it is a concentrator's config.
    is_concentrator: bool,
    /// Where a copy of the config is saved.
    pub copy: PathBuf,
}

/// The files of a join's secrets, beside the config.
#[derive(Clone)]
pub struct Secrets {
    pub key: PathBuf,
    pub preshared_key: PathBuf,
    /// The token; its file is gone once it has been used.
    pub token: PathBuf,
}

/// The resulting config.
pub struct Kept {
    /// Its text.
    pub text: String,
    /// The stand-ins that were removed.
    pub gone: Vec<String>,
}

impl Joined {
    /// Looks for an earlier join; `None` if there is none.
    pub fn find(file: &Path, line: &JoinLine) -> Result<Option<Joined>, Failure> {
        let found = |client: Option<Client>, running| Joined {
            file: file.to_owned(),
            device: None,
            client,
            running,
            secrets: Vec::new(),
            by_this_line: None,
            same_concentrator: false,
            is_concentrator: false,
            copy: free_file(&file.with_extension("old"), &[]),
        };
        if !file.exists() {
            // The tunnel is running, but its files were removed.
            return Ok(running_of(file, Path::new(RUN)).map(|client| found(Some(client), true)));
        }
        let Ok(config) = AnyConfig::load(file) else { return Ok(Some(found(None, false))) };
        let client = Client::of(&config);
        let running = matches!(client.is_running(), Ok(true));
        let mut joined = found(Some(client), running);
        if let AnyConfig::Tunnel(config) = &config {
            joined.device = Some(config.interface.name.clone());
            joined.secrets = secrets(config);
            joined.by_this_line = secrets_of(config, line);
            let is_it = |key| key == line.concentrator;
            joined.same_concentrator = config.peers.iter().any(|peer| is_it(peer.public_key));
            joined.is_concentrator = !config.interface.listen.is_empty();
        }
        Ok(Some(joined))
    }

    /// Why `--replace` is required.
    pub fn refusal(&self) -> String {
        let file = self.file.display();
        if !self.file.exists() {
            return format!(
                "a tunnel of {file} is still running, though that file is gone: `braid down \
                 --config {file}` takes it down, `--replace` does so and joins again"
            );
        }
        // If it was interrupted after the files were written, the line may be used up.
        let to = match self.same_concentrator {
            true => " to this concentrator (`braid up` continues it, if it was interrupted)",
            false => "",
        };
        let beside = match self.file == Path::new(DEFAULT_CONFIG) {
            true => "`--config second` sets up another tunnel beside it",
            false => "`--config NAME` with another name sets up another tunnel beside it",
        };
        format!(
            "{file} exists: this router has joined{to}. `--replace` joins again in its place; \
             {beside}"
        )
    }

    /// Why not even `--replace` helps.
    pub fn never(&self) -> Option<String> {
        let file = self.file.display();
        let why = format!(
            "{file} is the config of a concentrator with homes: `--config NAME` with another name \
             sets up a tunnel beside it"
        );
        self.is_concentrator.then_some(why)
    }

    /// The config with everything kept that the line doesn't set, or why that is impossible.
    pub fn keep(&self, anew: &JoinedAnew) -> Result<Kept, String> {
        let told = |error: &dyn std::fmt::Display| error.to_string();
        let mut editor = ConfigEditor::open(&self.file).map_err(|error| told(&error))?;
        let gone = editor.rejoin(anew).map_err(|error| told(&error))?;
        editor.check().map_err(|error| told(&error))?;
        Ok(Kept { text: editor.to_string(), gone })
    }

    /// What the plan says about it.
    pub fn what_becomes_of_it(&self, kept: &Result<Kept, String>) -> Vec<String> {
        let file = self.file.display();
        let mut lines = Vec::new();
        if let Some(secrets) = &self.by_this_line {
            let key = secrets.key.display();
            lines.push(format!(
                "continues the join with this line and the key already made for it: {key}"
            ));
        }
        if self.file.exists() {
            lines.push(match kept {
                Ok(_) => format!(
                    "{file} keeps its links, rules and settings, and joins again; its current \
                     version goes to {}",
                    self.copy.display()
                ),
                Err(why) => format!(
                    "{file} is replaced, as its contents can't be kept: {why}\nits current version goes to {}",
                    self.copy.display()
                ),
            });
        }
        if let Ok(Kept { gone, .. }) = kept {
            lines.extend(gone.iter().map(|name| {
                format!(
                    "{name} no longer stands in, as it knows this router by its old key: join it \
                     again with --stand-in"
                )
            }));
        }
        if self.running {
            lines.push("its running tunnel goes down meanwhile".to_owned());
        }
        lines
    }

    /// Saves a copy of the config if `new` differs from it.
    pub fn save_copy(&self, new: &str) -> Result<(), Failure> {
        if !self.file.exists() {
            return Ok(());
        }
        let text = std::fs::read(&self.file);
        if text.as_ref().is_ok_and(|text| text == new.as_bytes()) {
            return Ok(());
        }
        let mode = std::fs::metadata(&self.file).map(|it| it.permissions().mode() & 0o777);
        text.and_then(|text| braid_durable::create(&self.copy, &text, mode?))
            .map_err(|error| Failure::io(&format!("writing {}", self.copy.display()), &error))
    }

    /// Takes its tunnel down; a kill switch stays in force.
    pub fn stop(&self) -> Result<(), Failure> {
        let Some(client) = &self.client else { return Ok(()) };
        match client.stop() {
            Ok(()) => {
                wait_until_gone(client)?;
                openwrt::Service::of(&self.file).map_or(Ok(()), |service| service.stay_down())
            }
            Err(ClientError::NotRunning(_) | ClientError::Anothers { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes the secrets of the replaced join; the new one's have other names. Does nothing if
    /// the join is continued.
    pub fn remove_secrets(&self) {
        if self.by_this_line.is_some() {
            return;
        }
        for file in &self.secrets {
            if let Err(error) = braid_durable::remove(file) {
                failure::tell(&format!(
                    "{} is no longer needed, but can't be removed: {error}",
                    file.display()
                ));
            }
        }
    }
}

/// The secrets that a join wrote next to the config.
fn secrets(config: &Config) -> Vec<PathBuf> {
    let beside = config.key_files().filter(|file| file.parent() == config.file.parent());
    beside.map(Path::to_path_buf).collect()
}

/// The secrets of a join by this line, if the config's tunnel can use them.
fn secrets_of(config: &Config, line: &JoinLine) -> Option<Secrets> {
    let peer = config.peers.iter().find(|peer| peer.public_key == line.concentrator)?;
    let (secret, token) = (peer.preshared_key_file.as_ref()?, peer.enrolment_key_file.as_ref()?);
    // Each line contains a secret of its own.
    let of_line = line.token.preshared_key().to_base64();
    let is_it = *read_preshared_key(secret).ok()?.to_base64() == *of_line;
    let key = &config.interface.private_key_file;
    let files = [&**key, &**secret, &**token];
    let beside = files.iter().all(|file| file.parent() == config.file.parent());
    let usable = is_it && beside && peer.stands_in_for.is_none() && read_private_key(key).is_ok();
    let [key, preshared_key, token] = files.map(Path::to_path_buf);
    usable.then_some(Secrets { key, preshared_key, token })
}
