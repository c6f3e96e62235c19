//! The concentrators to which those of the config refer this home: they are its peers, too.

use super::data_channel::Referring;
use braid_control::config::{Config, Interface};
use braid_control::referred_peers::{ReferredPeer, ReferredPeers};
use braid_handshake::PublicKey;
use std::path::PathBuf;

/// Knows them, and keeps that on disk.
pub struct Referrals {
    file: PathBuf,
    peers: ReferredPeers,
    own_key: PublicKey,
    /// Why they couldn't be written down, as last told.
    trouble: Option<String>,
}

impl Referrals {
    /// Reads what earlier runs learnt. What is damaged is learnt again.
    pub fn open(interface: &Interface, own_key: PublicKey) -> Referrals {
        let file = ReferredPeers::path(&interface.state_dir, interface.name.as_str());
        let peers = ReferredPeers::read(&file).unwrap_or_else(|error| {
            tracing::warn!(
                file = %file.display(), %error,
                "the concentrators to which others have referred this home can't be read: they \
                 are known once one of the config's answers"
            );
            ReferredPeers::default()
        });
        Referrals { file, peers, own_key, trouble: None }
    }

    /// Adds them to the config.
    pub fn apply(&self, config: &mut Config) {
        self.peers.apply(config, self.own_key);
    }

    /// Takes what concentrators say now. Tells whether the config is to be applied anew.
    pub fn follow(&mut self, config: &Config, referring: &[Referring]) -> bool {
        let mut peers = self.peers.clone();
        let mut news = false;
        for Referring { owner, serves, referrals } in referring {
            let referred = referrals.iter().filter_map(|referral| {
                let name = referral.name.parse().ok()?;
                ReferredPeer::new(name, referral.public_key, &referral.endpoints)
            });
            news |= peers.replace(*owner, referred.collect(), *serves);
        }
        if !news {
            return false;
        }
        peers.keep_those_of(config);
        // They are of use while this runs, also where the disk is full.
        let trouble = peers.write(&self.file).err().map(|error| error.to_string());
        if let Some(error) = trouble.as_ref().filter(|now| self.trouble.as_ref() != Some(*now)) {
            tracing::warn!(
                file = %self.file.display(), error,
                "to which concentrators this home was referred is forgotten at the next start"
            );
        }
        self.trouble = trouble;
        self.peers = peers;
        true
    }
}
