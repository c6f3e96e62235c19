//! Which homes have joined by their join lines, on disk: a daemon keeps what it learns apart from
//! the config, which belongs to the administrator.

use crate::config::Config;
use braid_durable::state_file;
use braid_handshake::PublicKey;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// Homes by their join lines' keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EnrolledHomes(BTreeMap<PublicKey, EnrolledHome>);

/// A home that has joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EnrolledHome {
    /// Its own key.
    pub public_key: PublicKey,
    /// When it joined.
    pub since: Timestamp,
}

const VERSION: u32 = 1;

/// The file's form of an entry.
#[derive(Serialize, Deserialize)]
struct Entry {
    enrolment_key: String,
    public_key: String,
    since: String,
}

impl EnrolledHomes {
    /// The file for the tunnel `interface`.
    pub fn path(state_dir: &Path, interface: &str) -> PathBuf {
        state_dir.join(format!("{interface}.enrolled.json"))
    }

    /// Reads the file. A missing file means no homes.
    ///
    /// # Errors
    ///
    /// The system's error; [`io::ErrorKind::InvalidData`] for a damaged file.
    pub fn read(file: &Path) -> io::Result<EnrolledHomes> {
        match std::fs::read(file) {
            Ok(text) => EnrolledHomes::parse(&text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(EnrolledHomes::default()),
            Err(error) => Err(error),
        }
    }

    /// Reads the file's contents.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::InvalidData`] if they are invalid, or a newer Braid wrote them.
    pub fn parse(text: &[u8]) -> io::Result<EnrolledHomes> {
        let damaged = |error: String| io::Error::new(io::ErrorKind::InvalidData, error);
        let entries: Vec<Entry> = state_file::from_json_or_bare(VERSION, text)
            .map_err(|error| damaged(error.to_string()))?;
        let key = |text: &str| text.parse::<PublicKey>().map_err(|e| damaged(e.to_string()));
        let homes = entries.iter().map(|entry| {
            let since = entry.since.parse().map_err(|_| damaged("no time".into()))?;
            let home = EnrolledHome { public_key: key(&entry.public_key)?, since };
            Ok((key(&entry.enrolment_key)?, home))
        });
        homes.collect::<io::Result<_>>().map(EnrolledHomes)
    }

    /// Replaces the file atomically: after a crash it has the old homes or the new ones.
    ///
    /// # Errors
    /// The system's error, or that a newer Braid wrote the file, which then stays unchanged.
    pub fn write(&self, file: &Path) -> io::Result<()> {
        state_file::refuse_newer(file, VERSION)?;
        braid_durable::replace(file, &self.to_json()?, None)
    }

    /// The file's contents.
    ///
    /// # Errors
    /// None so far.
    pub fn to_json(&self) -> io::Result<Vec<u8>> {
        let entries = self.0.iter().map(|(key, home)| Entry {
            enrolment_key: key.to_string(),
            public_key: home.public_key.to_string(),
            since: home.since.to_string(),
        });
        state_file::to_json(VERSION, entries.collect::<Vec<_>>())
    }

    /// The home that joined by the line with this key.
    pub fn get(&self, enrolment_key: &PublicKey) -> Option<&EnrolledHome> {
        self.0.get(enrolment_key)
    }

    /// Records that a home joined by the line with this key.
    pub fn insert(&mut self, enrolment_key: PublicKey, home: EnrolledHome) {
        self.0.insert(enrolment_key, home);
    }

    /// Forgets the homes whose lines are no longer in the config.
    pub fn keep_those_of(&mut self, config: &Config) {
        let has = |key: &PublicKey| {
            let mut lines = config.peers.iter().filter_map(|peer| peer.enrolment);
            lines.any(|line| line.key == *key)
        };
        self.0.retain(|key, _| has(key));
    }

    /// Sets the own keys of the peers that have joined.
    pub fn apply(&self, config: &mut Config) {
        for peer in &mut config.peers {
            let line = peer.enrolment.map(|enrolment| enrolment.key);
            if let Some(home) = line.and_then(|line| self.get(&line)) {
                peer.public_key = home.public_key;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use braid_handshake::PrivateKey;

    fn key(number: u8) -> PublicKey {
        PrivateKey::from_bytes(&[number; 32]).public_key()
    }

    fn homes() -> EnrolledHomes {
        let mut homes = EnrolledHomes::default();
        let since = "2026-12-24T18:00:00Z".parse().unwrap();
        homes.insert(key(1), EnrolledHome { public_key: key(2), since });
        homes.insert(key(3), EnrolledHome { public_key: key(4), since });
        homes
    }

    #[test]
    fn who_has_joined_is_known_after_a_restart() {
        let directory = tempfile::tempdir().unwrap();
        let file = EnrolledHomes::path(&directory.path().join("deep"), "braid0");
        assert_eq!(EnrolledHomes::read(&file).unwrap(), EnrolledHomes::default());
        homes().write(&file).unwrap();
        assert_eq!(EnrolledHomes::read(&file).unwrap(), homes());
        // The format before it had a version.
        let entries: serde_json::Value =
            serde_json::from_slice(&homes().to_json().unwrap()).unwrap();
        std::fs::write(&file, entries["content"].to_string()).unwrap();
        assert_eq!(EnrolledHomes::read(&file).unwrap(), homes());
        let newer = state_file::to_json(VERSION + 1, Vec::<Entry>::new()).unwrap();
        let why = EnrolledHomes::parse(&newer).unwrap_err().to_string();
        assert!(why.contains("a newer braid wrote it"), "{why}");
        std::fs::write(&file, "[{}]").unwrap();
        assert_eq!(EnrolledHomes::read(&file).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn a_peer_has_its_own_key_from_then_on_and_a_line_that_is_gone_is_forgotten() {
        let text = format!(
            "[interface]\nprivate_key_file = \"k\"\nlisten = \"0.0.0.0:1\"\n\
             [[peer]]\nname = \"a\"\nenrolment_key = \"{}\"\nenrol_until = \"2026-12-24T18:00:00Z\"\n\
             [[peer]]\nname = \"b\"\nenrolment_key = \"{}\"\nenrol_until = \"2026-12-24T18:00:00Z\"\n",
            key(1),
            key(5)
        );
        let mut config = Config::parse(&text, Path::new("c.toml")).unwrap();
        assert!(config.peers.iter().all(|peer| !peer.is_known()));
        homes().apply(&mut config);
        let known: Vec<bool> = config.peers.iter().map(|peer| peer.is_known()).collect();
        assert_eq!((known, config.peers[0].public_key), (vec![true, false], key(2)));
        let mut homes = homes();
        homes.keep_those_of(&config);
        assert!(homes.get(&key(1)).is_some() && homes.get(&key(3)).is_none());
    }
}
