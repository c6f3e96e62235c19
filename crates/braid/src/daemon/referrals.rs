//! Concentrators that configured ones refer this home to: they become its peers, too.

use super::data_channel::Referring;
use braid_control::config::{Config, Interface};
use braid_control::referred_peers::{ReferredPeer, ReferredPeers};
use braid_handshake::PublicKey;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// A concentrator that a home has left announces it for 2 s longer (`reconciler/announcing.rs`),
/// and routers need a moment to notice the end: packets through it must still arrive until then.
const AFTER_SERVING: Duration = Duration::from_secs(10);

/// Keeps them, also on disk.
pub struct Referrals {
    file: PathBuf,
    peers: ReferredPeers,
    own_key: PublicKey,
    /// Those that serve this home or did so recently, and when they last did.
    served: BTreeMap<PublicKey, Instant>,
    /// Why they couldn't be saved, as last reported.
    trouble: Option<String>,
}

impl Referrals {
    /// Reads what earlier runs learnt. A damaged file is learnt again.
    pub fn open(interface: &Interface, own_key: PublicKey) -> Referrals {
        let file = ReferredPeers::path(&interface.state_dir, interface.name.as_str());
        let peers = ReferredPeers::read(&file).unwrap_or_else(|error| {
            tracing::warn!(
                file = %file.display(), %error,
                "can't read the list of concentrators that others have referred this home to: they \
                 become known once one of the configured concentrators answers"
            );
            ReferredPeers::default()
        });
        Referrals { file, peers, own_key, served: BTreeMap::new(), trouble: None }
    }

    /// Adds them to the config.
    pub fn apply(&self, config: &mut Config) {
        self.peers.apply(config, self.own_key);
    }

    /// Takes the concentrators' current referrals. Returns whether the config must be applied
    /// again.
    pub fn follow(&mut self, config: &Config, referring: &[Referring], now: Instant) -> bool {
        self.served.retain(|_, last| now.saturating_duration_since(*last) < AFTER_SERVING);
        self.served.extend(referring.iter().map(|it| (it.serves, now)));
        let mut peers = self.peers.clone();
        let mut news = false;
        for Referring { owner, referrals, .. } in referring {
            let referred = referrals.iter().filter_map(|referral| {
                let name = referral.name.parse().ok()?;
                ReferredPeer::new(name, referral.public_key, &referral.endpoints)
            });
            let needed = |key: &PublicKey| self.served.contains_key(key);
            news |= peers.replace(*owner, referred.collect(), needed);
        }
        if !news {
            return false;
        }
        peers.keep_those_of(config);
        // They can be used while this runs, even if the disk is full.
        let trouble = peers.write(&self.file).err().map(|error| error.to_string());
        if let Some(error) = trouble.as_ref().filter(|now| self.trouble.as_ref() != Some(*now)) {
            tracing::warn!(
                file = %self.file.display(), error,
                "can't save which concentrators this home was referred to: it is forgotten at the \
                 next start"
            );
        }
        self.trouble = trouble;
        self.peers = peers;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use braid_handshake::PrivateKey;
    use braid_tunnel::Referral;
    use std::path::Path;

    fn key(number: u8) -> PublicKey {
        PrivateKey::from_bytes(&[number; 32]).public_key()
    }

    fn says(serves: u8, others: &[u8]) -> Vec<Referring> {
        let referral = |number: &u8| Referral {
            name: format!("c{number}"),
            public_key: key(*number),
            endpoints: vec![format!("203.0.113.{number}:51900")],
        };
        let referrals = others.iter().map(referral).collect();
        vec![Referring { owner: key(1), serves: key(serves), referrals }]
    }

    /// Its packets come through the one that was left until routers know.
    #[test]
    fn one_that_was_left_stays_for_a_while() {
        let folder = tempfile::tempdir().unwrap();
        let text = format!(
            "[interface]\nprivate_key_file = \"k\"\naddresses = [\"10.77.0.2/24\"]\n\
             state_dir = \"{}\"\n[[link]]\nname = \"dsl\"\ninterface = \"eth0\"\n[[peer]]\n\
             name = \"c1\"\npublic_key = \"{}\"\nendpoints = [\"203.0.113.1:51900\"]\n\
             allowed_ips = [\"0.0.0.0/0\"]\n",
            folder.path().display(),
            key(1)
        );
        let config = Config::parse(&text, Path::new("c.toml")).unwrap();
        let mut referrals = Referrals::open(&config.interface, key(9));
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let peers = |referrals: &Referrals| -> Vec<String> {
            let mut config = config.clone();
            referrals.apply(&mut config);
            config.peers.iter().map(|peer| peer.name.to_string()).collect()
        };
        assert!(referrals.follow(&config, &says(3, &[2, 3]), at(0)), "new ones at once");
        assert_eq!(peers(&referrals), ["c1", "c2", "c3"]);
        assert!(!referrals.follow(&config, &says(3, &[2, 3]), at(60)));
        // The third one drains, so the first serves and speaks of it no more.
        assert!(!referrals.follow(&config, &says(1, &[2]), at(62)));
        assert!(!referrals.follow(&config, &says(1, &[2]), at(69)));
        assert_eq!(peers(&referrals), ["c1", "c2", "c3"]);
        assert!(referrals.follow(&config, &says(1, &[2]), at(70)));
        assert_eq!(peers(&referrals), ["c1", "c2"]);
    }
}
