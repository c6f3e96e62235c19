//! The concentrators to which others have referred this home, on disk: it starts with them, so that
//! it finds one even if none in its config answers any longer.

use crate::config::{Config, Endpoint, Layer, Name, Peer};
use braid_durable::state_file;
use braid_handshake::PublicKey;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// By the key of the configured concentrator that they stand in for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReferredPeers(BTreeMap<PublicKey, Vec<ReferredPeer>>);

/// A concentrator to which the home was referred.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReferredPeer {
    /// Its name in its fleet.
    pub name: Name,
    /// Its key.
    pub public_key: PublicKey,
    /// Where it is reached.
    pub endpoints: Vec<Endpoint>,
}

/// The file's form of a [`ReferredPeer`].
#[derive(Serialize, Deserialize)]
struct Entry {
    stands_in_for: String,
    name: String,
    public_key: String,
    endpoints: Vec<String>,
}

/// The file's format version.
const VERSION: u32 = 1;
/// A peer whose name is in the config already gets a suffixed name; this many suffixes are tried.
const NAMES_TRIED: u8 = 9;
const LONGEST_NAME: usize = 32;

impl ReferredPeers {
    /// The file for the tunnel `interface`.
    pub fn path(state_dir: &Path, interface: &str) -> PathBuf {
        state_dir.join(format!("{interface}.referred.json"))
    }

    /// Reads the file. A missing file means no peers.
    ///
    /// # Errors
    /// The system's error; [`io::ErrorKind::InvalidData`] for a damaged file.
    pub fn read(file: &Path) -> io::Result<ReferredPeers> {
        match std::fs::read(file) {
            Ok(text) => ReferredPeers::parse(&text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(ReferredPeers::default()),
            Err(error) => Err(error),
        }
    }

    /// Reads the file's contents.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidData`] if they are invalid.
    pub fn parse(text: &[u8]) -> io::Result<ReferredPeers> {
        let damaged = |error: String| io::Error::new(io::ErrorKind::InvalidData, error);
        let entries: Vec<Entry> = state_file::from_json(VERSION, text)?;
        let key = |text: &str| text.parse::<PublicKey>().map_err(|e| damaged(e.to_string()));
        let mut all = BTreeMap::<PublicKey, Vec<ReferredPeer>>::new();
        for entry in entries {
            let name = entry.name.parse::<Name>().map_err(|error| damaged(error.to_string()))?;
            let public_key = key(&entry.public_key)?;
            let peer = ReferredPeer::new(name, public_key, &entry.endpoints)
                .ok_or_else(|| damaged(format!("{} has no endpoint", entry.name)))?;
            all.entry(key(&entry.stands_in_for)?).or_default().push(peer);
        }
        Ok(ReferredPeers(all))
    }

    /// Replaces the file atomically: after a crash it has the old peers or the new ones.
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
        let entries = self.0.iter().flat_map(|(owner, peers)| {
            peers.iter().map(move |peer| Entry {
                stands_in_for: owner.to_string(),
                name: peer.name.to_string(),
                public_key: peer.public_key.to_string(),
                endpoints: peer.endpoints.iter().map(ToString::to_string).collect(),
            })
        });
        state_file::to_json(VERSION, entries.collect::<Vec<_>>())
    }

    /// Sets the peers that stand in for this concentrator, and keeps earlier ones that are still
    /// `needed`. Returns whether that changes anything.
    pub fn replace(
        &mut self,
        owner: PublicKey,
        mut peers: Vec<ReferredPeer>,
        needed: impl Fn(&PublicKey) -> bool,
    ) -> bool {
        let before = self.0.get(&owner).map_or(&[][..], Vec::as_slice);
        for peer in before.iter().filter(|peer| needed(&peer.public_key)) {
            if peers.iter().all(|it| !it.is(peer)) {
                peers.push(peer.clone());
            }
        }
        if before == peers {
            return false;
        }
        match peers.is_empty() {
            true => drop(self.0.remove(&owner)),
            false => drop(self.0.insert(owner, peers)),
        }
        true
    }

    /// Removes those that stand in for concentrators no longer in the config.
    pub fn keep_those_of(&mut self, config: &Config) {
        self.0.retain(|owner, _| config.peers.iter().any(|peer| peer.public_key == *owner));
    }

    /// Adds them as peers, except those that are in the config or have this host's `own_key`.
    pub fn apply(&self, config: &mut Config, own_key: PublicKey) {
        // Where an Ethernet address is served is learnt, so nobody can stand in there.
        if config.interface.layer == Layer::L2 {
            return;
        }
        for (owner, referred) in &self.0 {
            let owner = config.peers.iter().find(|peer| {
                peer.public_key == *owner && peer.follows_referrals && peer.stands_in_for.is_none()
            });
            let Some(owner) = owner.filter(|owner| !owner.endpoints.is_empty()).cloned() else {
                continue;
            };
            for peer in referred {
                let known = config.peers.iter().any(|it| it.public_key == peer.public_key);
                let Some(name) = free_name(&peer.name, config) else { continue };
                if known || peer.public_key == own_key {
                    continue;
                }
                config.peers.push(Peer {
                    name,
                    public_key: peer.public_key,
                    enrolment: None,
                    enrolment_key_file: None,
                    endpoints: peer.endpoints.clone(),
                    stands_in_for: Some(owner.name.clone()),
                    allowed_ips: Vec::new(),
                    of_fleet: true,
                    // All concentrators of a fleet share one secret with a home, and are configured
                    // alike.
                    ..owner.clone()
                });
            }
        }
    }
}

impl ReferredPeer {
    /// A peer with those of these endpoints that can be parsed; `None` if none can.
    pub fn new(name: Name, public_key: PublicKey, endpoints: &[String]) -> Option<ReferredPeer> {
        let endpoints: Vec<Endpoint> =
            endpoints.iter().filter_map(|endpoint| endpoint.parse().ok()).collect();
        (!endpoints.is_empty()).then_some(ReferredPeer { name, public_key, endpoints })
    }

    fn is(&self, other: &ReferredPeer) -> bool {
        self.public_key == other.public_key
    }
}

fn free_name(wanted: &Name, config: &Config) -> Option<Name> {
    let taken = |name: &Name| config.peers.iter().any(|peer| peer.name == *name);
    if !taken(wanted) {
        return Some(wanted.clone());
    }
    let begins = wanted.as_str().get(..LONGEST_NAME - 2).unwrap_or(wanted.as_str());
    let mut names =
        (2..=NAMES_TRIED).filter_map(|number| format!("{begins}-{number}").parse().ok());
    names.find(|name| !taken(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use braid_handshake::PrivateKey;

    fn key(number: u8) -> PublicKey {
        PrivateKey::from_bytes(&[number; 32]).public_key()
    }

    fn referred(name: &str, number: u8) -> ReferredPeer {
        let endpoints = [format!("{name}.example.org:51900"), "no endpoint".to_owned()];
        ReferredPeer::new(name.parse().unwrap(), key(number), &endpoints).unwrap()
    }

    fn config(rest: &str) -> Config {
        let text = format!(
            "[interface]\nprivate_key_file = \"k\"\naddresses = [\"10.77.0.2/24\"]\n\
             [[link]]\nname = \"dsl\"\ninterface = \"eth0\"\n\
             [[peer]]\nname = \"vpn\"\npublic_key = \"{}\"\nendpoints = [\"vpn.example.org:51900\"]\n\
             allowed_ips = [\"0.0.0.0/0\"]\npreshared_key_file = \"s\"\nfallback_port = 443\n{rest}",
            key(1)
        );
        Config::parse(&text, Path::new("/c/c.toml")).unwrap()
    }

    fn known() -> ReferredPeers {
        let mut known = ReferredPeers::default();
        let all = vec![referred("vpn", 1), referred("b", 2), referred("vpn", 3), referred("me", 9)];
        assert!(known.replace(key(1), all.clone(), |_| false));
        assert!(!known.replace(key(1), all, |_| false), "the same");
        known
    }

    #[test]
    fn they_are_peers_that_stand_in_with_the_first_ones_secret() {
        let mut config = config("");
        known().apply(&mut config, key(9));
        let names: Vec<&str> = config.peers.iter().map(|peer| peer.name.as_str()).collect();
        assert_eq!(names, ["vpn", "b", "vpn-2"], "neither one that is there nor this host");
        let second = &config.peers[1];
        assert_eq!(second.stands_in_for.as_ref().unwrap().as_str(), "vpn");
        assert_eq!(second.endpoints.len(), 1);
        assert!(second.allowed_ips.is_empty() && second.of_fleet);
        assert_eq!(second.preshared_key_file, config.peers[0].preshared_key_file);
        assert_eq!(second.fallback_port, Some(443));
        let again = config.clone();
        known().apply(&mut config, key(9));
        assert_eq!(config.peers, again.peers);
    }

    #[test]
    fn a_home_that_does_not_want_to_or_has_another_concentrator_follows_none() {
        let mut alone = config("follow_referrals = false\n");
        known().apply(&mut alone, key(9));
        assert_eq!(alone.peers.len(), 1);
        let mut others = known();
        let mut config = config("");
        config.peers[0].public_key = key(7);
        others.apply(&mut config, key(9));
        assert_eq!(config.peers.len(), 1);
        others.keep_those_of(&config);
        assert_eq!(others, ReferredPeers::default());
    }

    #[test]
    fn one_that_is_needed_stays_until_it_is_not() {
        let mut known = known();
        let second = |it: &PublicKey| *it == key(2);
        assert!(known.replace(key(1), vec![referred("c", 4)], second));
        assert_eq!(known.0[&key(1)], [referred("c", 4), referred("b", 2)]);
        assert!(!known.replace(key(1), vec![referred("c", 4)], second));
        assert!(known.replace(key(1), vec![referred("c", 4)], |_| false));
        assert_eq!(known.0[&key(1)], [referred("c", 4)]);
        assert!(known.replace(key(1), vec![], |_| false) && known.0.is_empty());
    }

    #[test]
    fn the_file_is_as_it_was_written_and_a_damaged_one_is_said_to_be() {
        let folder = tempfile::tempdir().unwrap();
        let file = ReferredPeers::path(folder.path(), "braid0");
        assert_eq!(ReferredPeers::read(&file).unwrap(), ReferredPeers::default());
        known().write(&file).unwrap();
        assert_eq!(ReferredPeers::read(&file).unwrap(), known());
        std::fs::write(&file, "half of it").unwrap();
        let error = ReferredPeers::read(&file).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }
}
