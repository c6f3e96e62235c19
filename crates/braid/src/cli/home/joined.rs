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

/// What is there of a config that is joined by again.
pub struct Joined {
    file: PathBuf,
    /// Of its tunnel; none of a config that can't be read.
    pub device: Option<DeviceName>,
    /// Where its tunnel would be asked, whether it runs or not.
    client: Option<Client>,
    running: bool,
    /// Those beside the config that it names, whether they are there or not.
    pub secrets: Vec<PathBuf>,
    /// Those of a join by this very line, which may have been broken off: its key may be the one
    /// that the line has let in, once.
    pub by_this_line: Option<Secrets>,
    /// It is joined to the concentrator that the line is of.
    same_concentrator: bool,
    /// Homes call here.
    is_concentrator: bool,
    /// A copy of the config goes there.
    pub copy: PathBuf,
}

/// The files of a join's secrets, beside the config.
#[derive(Clone)]
pub struct Secrets {
    pub key: PathBuf,
    pub preshared_key: PathBuf,
    /// Gone when it has been used.
    pub token: PathBuf,
}

/// The config as it becomes.
pub struct Kept {
    /// Its text.
    pub text: String,
    /// The stand-ins that it has no more.
    pub gone: Vec<String>,
}

impl Joined {
    /// None where nothing is there yet.
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
            // Its files were removed while it runs.
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

    /// Why nothing is done without `--replace`.
    pub fn refusal(&self) -> String {
        let file = self.file.display();
        if !self.file.exists() {
            return format!(
                "a tunnel of {file} is still running, though that file is gone: `braid down \
                 --config {file}` takes it down, `--replace` does so and joins again"
            );
        }
        // Whoever broke it off after the files were there may have used up the line.
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

    /// Why not even `--replace` does.
    pub fn never(&self) -> Option<String> {
        let file = self.file.display();
        let why = format!(
            "{file} is the config of a concentrator with homes: `--config NAME` with another name \
             sets up a tunnel beside it"
        );
        self.is_concentrator.then_some(why)
    }

    /// All that the config has but what the line gives, or why that can't be kept.
    pub fn keep(&self, anew: &JoinedAnew) -> Result<Kept, String> {
        let told = |error: &dyn std::fmt::Display| error.to_string();
        let mut editor = ConfigEditor::open(&self.file).map_err(|error| told(&error))?;
        let gone = editor.rejoin(anew).map_err(|error| told(&error))?;
        editor.check().map_err(|error| told(&error))?;
        Ok(Kept { text: editor.to_string(), gone })
    }

    /// For the plan.
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

    /// The config as it was, where it becomes `new`.
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

    /// Those of the join that is replaced; the new one's have other names. None of one that goes
    /// on.
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

/// The secrets that a join has put beside the config.
fn secrets(config: &Config) -> Vec<PathBuf> {
    let beside = config.key_files().filter(|file| file.parent() == config.file.parent());
    beside.map(Path::to_path_buf).collect()
}

/// Those of a join by this line, as far as the config's tunnel can do with them.
fn secrets_of(config: &Config, line: &JoinLine) -> Option<Secrets> {
    let peer = config.peers.iter().find(|peer| peer.public_key == line.concentrator)?;
    let (secret, token) = (peer.preshared_key_file.as_ref()?, peer.enrolment_key_file.as_ref()?);
    // The line gives a secret of its own.
    let of_line = line.token.preshared_key().to_base64();
    let is_it = *read_preshared_key(secret).ok()?.to_base64() == *of_line;
    let key = &config.interface.private_key_file;
    let files = [&**key, &**secret, &**token];
    let beside = files.iter().all(|file| file.parent() == config.file.parent());
    let usable = is_it && beside && peer.stands_in_for.is_none() && read_private_key(key).is_ok();
    let [key, preshared_key, token] = files.map(Path::to_path_buf);
    usable.then_some(Secrets { key, preshared_key, token })
}
