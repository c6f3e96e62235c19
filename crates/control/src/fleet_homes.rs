//! The homes of a fleet as this concentrator last knew them, on disk: it starts with them, and
//! keeps them while the registry is unreachable.

use crate::config::{Cap, Config, Enrolment, KeyFile, Name, Peer, Prefix};
use braid_durable::state_file;
use braid_handshake::PublicKey;
use braid_units::Rate;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Homes by their names.
#[derive(Clone, Debug, Default)]
pub struct FleetHomes {
    folder: PathBuf,
    homes: BTreeMap<String, FleetHome>,
    /// Parsed keys of homes that have joined, since parsing one costs a multiplication on the
    /// curve.
    public_keys: BTreeMap<String, PublicKey>,
    /// Homes that are no longer in the registry, and since when.
    missing: BTreeMap<String, Instant>,
}

/// One home.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetHome {
    /// Its own key; `None` until it has joined.
    pub public_key: Option<String>,
    /// The key of its join line, and when the line expires.
    pub enrolment: Option<(String, String)>,
    /// The preshared key of the home and the fleet.
    pub preshared_key: Option<String>,
    /// Its addresses and public prefixes.
    pub allowed_ips: Vec<String>,
    /// Maximum rate to the home.
    #[serde(default)]
    pub down_limit_bytes_per_sec: Option<u64>,
    /// Maximum rate from the home.
    #[serde(default)]
    pub up_limit_bytes_per_sec: Option<u64>,
    /// Whether it is in this concentrator's own config, or was until a moment ago.
    #[serde(default)]
    pub own: bool,
    /// How willing this concentrator is to serve it; 0 is the most willing.
    #[serde(default)]
    pub rank: u8,
}

/// How long after a home vanished from the registry it is forgotten. If the registry was restored
/// from an old snapshot, the concentrators get to write their homes into it again first.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(10);

/// The file's format version.
const VERSION: u32 = 1;
/// For root only: the file contains secrets.
const MODE: u32 = 0o600;

impl FleetHomes {
    /// The file for the tunnel `interface`; the homes' secrets are in a folder beside it.
    pub fn path(state_dir: &Path, interface: &str) -> PathBuf {
        state_dir.join(format!("{interface}.fleet.json"))
    }

    /// An empty list, to be kept in `file`.
    pub fn none(file: &Path) -> FleetHomes {
        FleetHomes { folder: file.with_extension("keys"), ..FleetHomes::default() }
    }

    /// Reads the file. A missing file means no homes.
    ///
    /// # Errors
    /// The system's error; [`io::ErrorKind::InvalidData`] for a damaged file.
    pub fn read(file: &Path) -> io::Result<FleetHomes> {
        let none = FleetHomes::none(file);
        match std::fs::read(file) {
            Ok(text) => {
                let mut read = none;
                read.know(state_file::from_json(VERSION, &text)?);
                Ok(read)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(none),
            Err(error) => Err(error),
        }
    }

    /// Replaces the file's homes by the registry's `homes`, and keeps those missing there for a
    /// while. Returns whether any home was added, removed or changed.
    ///
    /// # Errors
    /// The system's error, or that a newer Braid wrote the file.
    pub fn replace(
        &mut self,
        file: &Path,
        mut homes: BTreeMap<Name, FleetHome>,
        now: Instant,
    ) -> io::Result<bool> {
        let mut missing = BTreeMap::new();
        for (name, home) in &self.homes {
            let Ok(parsed) = name.parse::<Name>() else { continue };
            if homes.contains_key(&parsed) {
                continue;
            }
            let since = self.missing.get(name).copied().unwrap_or(now);
            if now.saturating_duration_since(since) < FORGOTTEN_AFTER {
                missing.insert(name.clone(), since);
                homes.insert(parsed, home.clone());
            }
        }
        self.missing = missing;
        let homes: BTreeMap<String, FleetHome> =
            homes.into_iter().map(|(name, home)| (name.to_string(), home)).collect();
        if homes == self.homes {
            return Ok(false);
        }
        state_file::refuse_newer(file, VERSION)?;
        std::fs::create_dir_all(&self.folder)?;
        for (name, home) in &homes {
            let before = self.homes.get(name).and_then(|before| before.preshared_key.as_ref());
            if let Some(secret) = home.preshared_key.as_ref().filter(|it| Some(*it) != before) {
                braid_durable::replace(&self.secret_file(name), secret.as_bytes(), Some(MODE))?;
            }
        }
        state_file::replace(file, VERSION, &homes, Some(MODE))?;
        for name in self.homes.keys().filter(|name| !homes.contains_key(*name)) {
            braid_durable::remove(&self.secret_file(name))?;
        }
        let unranked = |homes: &BTreeMap<String, FleetHome>| -> Vec<(String, FleetHome)> {
            let homes = homes.iter();
            homes
                .map(|(name, home)| (name.clone(), FleetHome { rank: 0, ..home.clone() }))
                .collect()
        };
        let others = unranked(&homes) != unranked(&self.homes);
        self.know(homes);
        Ok(others)
    }

    fn know(&mut self, homes: BTreeMap<String, FleetHome>) {
        let (before, mut read) =
            (std::mem::take(&mut self.homes), std::mem::take(&mut self.public_keys));
        let public_key = |(name, home): (&String, &FleetHome)| {
            let same = before.get(name).is_some_and(|it| it.public_key == home.public_key);
            let known = read.remove(name).filter(|_| same);
            Some((name.clone(), known.or_else(|| home.public_key())?))
        };
        self.public_keys = homes.iter().filter_map(public_key).collect();
        self.homes = homes;
    }

    /// How willing this concentrator is to serve the homes that have joined, by their keys.
    pub fn ranks(&self) -> BTreeMap<PublicKey, u8> {
        let keys = self.public_keys.iter();
        keys.filter_map(|(name, key)| Some((*key, self.homes.get(name)?.rank))).collect()
    }

    /// Adds the homes that the config lacks, and gives those in it the keys with which they have
    /// joined elsewhere. Unreadable entries are skipped.
    pub fn apply(&self, config: &mut Config) {
        if config.fleet.is_none() {
            return;
        }
        for (name, home) in &self.homes {
            let enrolment = home.enrolment();
            let public_key = self.public_keys.get(name).copied();
            let known = config.peers.iter_mut().find(|peer| peer.name.as_str() == name);
            if let Some(peer) = known {
                let same_line = peer
                    .enrolment
                    .is_some_and(|own| enrolment.is_some_and(|enrolment| enrolment.key == own.key));
                if let Some(public_key) = public_key.filter(|_| same_line || peer.of_fleet) {
                    peer.public_key = public_key;
                }
                continue;
            }
            if home.own {
                continue;
            }
            let Some(key) = public_key.or(enrolment.map(|line| line.key)) else { continue };
            let Ok(name) = name.parse::<Name>() else { continue };
            let allowed_ips: Vec<Prefix> =
                home.allowed_ips.iter().filter_map(|net| net.parse().ok()).collect();
            // Such a home would be ambiguous.
            let taken = |peer: &Peer| {
                peer.public_key == key || peer.allowed_ips.iter().any(|it| allowed_ips.contains(it))
            };
            if config.peers.iter().any(taken) {
                continue;
            }
            let secret = home.preshared_key.as_ref();
            let secret = secret.map(|_| KeyFile::unnamed(self.secret_file(name.as_str())));
            config.peers.push(Peer {
                name,
                public_key: key,
                enrolment,
                enrolment_key_file: None,
                preshared_key_file: secret,
                endpoints: Vec::new(),
                fallback_port: None,
                stands_in_for: None,
                allowed_ips,
                limit: home.limit(),
                keepalive: None,
                follows_referrals: false,
                of_fleet: true,
            });
        }
    }

    fn secret_file(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.psk"))
    }
}

impl FleetHome {
    fn public_key(&self) -> Option<PublicKey> {
        self.public_key.as_ref()?.parse().ok()
    }

    fn limit(&self) -> Cap {
        let rate =
            |bytes: Option<u64>| bytes.filter(|bytes| *bytes > 0).map(Rate::from_bytes_per_sec);
        Cap { down: rate(self.down_limit_bytes_per_sec), up: rate(self.up_limit_bytes_per_sec) }
    }

    fn enrolment(&self) -> Option<Enrolment> {
        let (key, until) = self.enrolment.as_ref()?;
        Some(Enrolment { key: key.parse::<PublicKey>().ok()?, until: until.parse().ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::read_preshared_key;

    const LINE: &str = "dcCGx1vXn1wUwsC4GkS2EZfgsc0r3ybvTbNYQuHF5Ec=";
    const KEY: &str = "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=";

    fn config(rest: &str) -> Config {
        let text = format!(
            "[interface]\nprivate_key_file = \"k\"\nlisten = [\"0.0.0.0:51900\"]\n\
             addresses = [\"10.77.0.1/24\"]\n[fleet]\nname = \"c1\"\nregistry = \"sqlite:f\"\n\
             endpoints = [\"a:1\"]\n{rest}"
        );
        Config::parse(&text, Path::new("c.toml")).unwrap()
    }

    fn homes(public_key: Option<&str>) -> BTreeMap<Name, FleetHome> {
        let home = FleetHome {
            public_key: public_key.map(str::to_owned),
            enrolment: Some((LINE.into(), "2026-12-24T18:00:00Z".into())),
            preshared_key: Some(LINE.into()),
            allowed_ips: vec!["10.77.0.2/32".into(), "nonsense".into()],
            down_limit_bytes_per_sec: Some(1_250_000),
            up_limit_bytes_per_sec: None,
            own: false,
            rank: 3,
        };
        BTreeMap::from([("cabin".parse().unwrap(), home)])
    }

    #[test]
    fn homes_of_the_fleet_are_peers_with_their_secrets_and_go_with_them() {
        let folder = tempfile::tempdir().unwrap();
        let file = FleetHomes::path(folder.path(), "braid0");
        let mut known = FleetHomes::read(&file).unwrap();
        let now = Instant::now();
        assert!(known.replace(&file, homes(None), now).unwrap());
        assert!(!known.replace(&file, homes(None), now).unwrap(), "the same");
        let known = FleetHomes::read(&file).unwrap();
        let mut fleet = config("");
        known.apply(&mut fleet);
        let [cabin] = fleet.peers.as_slice() else { panic!("{:?}", fleet.peers) };
        assert_eq!(cabin.limit, Cap { down: Some(Rate::from_mbit(10)), up: None });
        assert!(cabin.of_fleet && !cabin.is_known() && cabin.allowed_ips.len() == 1);
        let secret = cabin.preshared_key_file.clone().unwrap();
        assert_eq!(read_preshared_key(&secret).unwrap().to_base64().as_str(), LINE);
        let mut known = known;
        assert!(!known.replace(&file, BTreeMap::new(), now).unwrap(), "it may be back");
        assert!(!known.replace(&file, homes(None), now + FORGOTTEN_AFTER).unwrap(), "and is");
        let later = now + FORGOTTEN_AFTER;
        assert!(!known.replace(&file, BTreeMap::new(), later).unwrap());
        assert!(secret.exists());
        assert!(known.replace(&file, BTreeMap::new(), later + FORGOTTEN_AFTER).unwrap());
        assert!(!secret.exists());
    }

    #[test]
    fn ranks_are_kept_and_are_no_news_of_homes() {
        let folder = tempfile::tempdir().unwrap();
        let file = FleetHomes::path(folder.path(), "braid0");
        let mut known = FleetHomes::read(&file).unwrap();
        known.replace(&file, homes(Some(KEY)), Instant::now()).unwrap();
        let mut others = homes(Some(KEY));
        others.values_mut().for_each(|home| home.rank = 7);
        assert!(!known.replace(&file, others, Instant::now()).unwrap());
        let read = FleetHomes::read(&file).unwrap();
        assert_eq!(read.ranks(), BTreeMap::from([(KEY.parse().unwrap(), 7)]));
    }

    #[test]
    fn a_home_of_the_config_hears_that_it_has_joined_elsewhere_and_none_takes_anothers_addresses() {
        let folder = tempfile::tempdir().unwrap();
        let mut known = FleetHomes::read(&FleetHomes::path(folder.path(), "x")).unwrap();
        let file = FleetHomes::path(folder.path(), "x");
        known.replace(&file, homes(Some(KEY)), Instant::now()).unwrap();
        let own = format!(
            "[[peer]]\nname = \"cabin\"\nenrolment_key = \"{LINE}\"\n\
             enrol_until = \"2026-12-24T18:00:00Z\"\nallowed_ips = [\"10.77.0.2\"]\n"
        );
        let mut fleet = config(&own);
        known.apply(&mut fleet);
        assert_eq!(fleet.peers[0].public_key.to_string(), KEY);
        let other = format!(
            "[[peer]]\nname = \"other\"\npublic_key = \"{LINE}\"\nallowed_ips = [\"10.77.0.2\"]\n"
        );
        let mut fleet = config(&other);
        known.apply(&mut fleet);
        assert_eq!(fleet.peers.len(), 1);
    }
}
