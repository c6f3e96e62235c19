//! Lets in homes that come with a join line, once, and records it first.

use super::data_channel::{Command, DataPlaneEnded, DataPlaneHandle, Introduction, Snapshot};
use super::reconfigure::{Change, NewPeer};
use braid_control::config::{Config, Interface};
use braid_control::enrolled::{EnrolledHome, EnrolledHomes};
use braid_control::fleet_homes::FleetHomes;
use braid_handshake::PublicKey;
use jiff::Timestamp;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Knows which homes have joined, and keeps that on disk.
pub struct Enrolments {
    file: PathBuf,
    /// `None` if the file is damaged: its contents must not be overwritten.
    homes: Option<EnrolledHomes>,
    /// The file with the fleet's homes.
    fleet_file: PathBuf,
    fleet: FleetHomes,
    own_key: PublicKey,
    /// Token files of this host that are no longer needed.
    done_with: BTreeSet<PathBuf>,
    /// Why the last home wasn't let in, as last reported.
    trouble: Option<String>,
}

/// The decision about a home that has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Admission {
    /// It is a peer from now on.
    LetIn,
    /// Its line isn't valid any more.
    Expired,
    /// Not now, or never.
    NotLetIn,
}

impl Enrolments {
    /// Reads what earlier runs learnt.
    pub fn open(interface: &Interface, own_key: PublicKey) -> Enrolments {
        let file = EnrolledHomes::path(&interface.state_dir, interface.name.as_str());
        let homes = None;
        let done_with = BTreeSet::new();
        let fleet_file = FleetHomes::path(&interface.state_dir, interface.name.as_str());
        let fleet = FleetHomes::default();
        let mut enrolments =
            Enrolments { file, homes, fleet_file, fleet, own_key, done_with, trouble: None };
        enrolments.read();
        enrolments
    }

    /// Reads the files again, as somebody may have repaired them.
    pub fn read(&mut self) {
        match FleetHomes::read(&self.fleet_file) {
            Ok(fleet) => self.fleet = fleet,
            Err(error) => tracing::error!(
                file = %self.fleet_file.display(), %error,
                "can't read the stored list of the fleet's homes: they are known once the registry \
                 answers"
            ),
        }
        match EnrolledHomes::read(&self.file) {
            Ok(homes) => self.homes = Some(homes),
            Err(error) => tracing::error!(
                file = %self.file.display(), %error,
                "can't read which homes have joined: no more can join; repair or remove the file, \
                 then `braid reload`"
            ),
        }
    }

    /// Gives the peers that have joined their own keys.
    pub fn apply(&self, config: &mut Config) {
        self.fleet.apply(config);
        if let Some(homes) = &self.homes {
            homes.apply(config);
        }
        // If two routers have the same line, the fleet knows which one is in.
        self.fleet.apply(config);
    }

    /// Lets in those that have come and are allowed; `config` has been [applied](Self::apply).
    /// Returns whether it has changed.
    pub fn admit_all(
        &mut self,
        config: &mut Config,
        introduced: &[Introduction],
        data_plane: &DataPlaneHandle,
    ) -> Result<bool, DataPlaneEnded> {
        let mut changed = false;
        for coming in introduced {
            match self.admit(config, coming, Timestamp::now()) {
                Admission::NotLetIn => {}
                Admission::Expired => data_plane.send(Command::ExpireEnrolment(coming.line))?,
                Admission::LetIn => {
                    self.apply(config);
                    let known = config.peers.iter().find(|peer| peer.public_key == coming.home);
                    let Some(peer) = known.map(NewPeer::read) else { continue };
                    data_plane.change(Change::RemovePeer(coming.line))?;
                    match peer {
                        Ok(peer) => data_plane.change(Change::AddPeer(peer))?,
                        Err(error) => tracing::error!("{error}"),
                    }
                    changed = true;
                }
            }
        }
        Ok(changed)
    }

    /// Decides about a home that has come; `config` has been [applied](Self::apply).
    fn admit(&mut self, config: &Config, coming: &Introduction, now: Timestamp) -> Admission {
        let line = |peer: &&braid_control::config::Peer| {
            !peer.is_known() && peer.public_key == coming.line
        };
        let Some((peer, enrolment)) =
            config.peers.iter().find(line).and_then(|peer| Some((peer, peer.enrolment?)))
        else {
            return Admission::NotLetIn;
        };
        if now > enrolment.until {
            return Admission::Expired;
        }
        let name = peer.name.as_str();
        let taken = config.peers.iter().any(|peer| peer.public_key == coming.home);
        if taken || coming.home == self.own_key {
            let from = coming.from;
            return self.not_let_in(format!(
                "{from} used the join line of {name} with a key that belongs to another home"
            ));
        }
        let Some(homes) = &self.homes else { return Admission::NotLetIn };
        let mut homes = homes.clone();
        homes.keep_those_of(config);
        homes.insert(coming.line, EnrolledHome { public_key: coming.home, since: now });
        if let Err(error) = homes.write(&self.file) {
            let file = self.file.display();
            return self.not_let_in(format!(
                "{name} can't join: writing {file}: {error}; it can join once that works"
            ));
        }
        self.homes = Some(homes);
        self.trouble = None;
        tracing::warn!("{name} has joined, from {}", coming.from);
        Admission::LetIn
    }

    fn not_let_in(&mut self, why: String) -> Admission {
        if self.trouble.as_ref() != Some(&why) {
            tracing::warn!("{why}");
        }
        self.trouble = Some(why);
        Admission::NotLetIn
    }

    /// Removes the used tokens of this host. If the service may not write, they stay, but are
    /// worthless.
    pub fn forget_tokens(&mut self, config: &Config, snapshot: &Snapshot) {
        for peer in config.peers.iter().filter(|peer| snapshot.met.contains(&peer.public_key)) {
            let Some(file) = &peer.enrolment_key_file else { continue };
            if self.done_with.insert(file.to_path_buf())
                && let Err(error) = braid_durable::remove(file)
            {
                tracing::debug!(file = %file.display(), %error, "the used token stays");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use braid_handshake::PrivateKey;
    use std::path::Path;

    fn key(number: u8) -> PublicKey {
        PrivateKey::from_bytes(&[number; 32]).public_key()
    }

    fn time(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    const NOW: &str = "2026-06-01T12:00:00Z";

    /// One home that has joined with key 1, and one whose line has key 7.
    fn config(folder: &Path) -> Config {
        let text = format!(
            "[interface]\nprivate_key_file = \"k\"\nlisten = \"0.0.0.0:1\"\nstate_dir = \"state\"\n\
             [[peer]]\nname = \"old\"\npublic_key = \"{}\"\n\
             [[peer]]\nname = \"new\"\nenrolment_key = \"{}\"\nenrol_until = \"2026-06-02T00:00:00Z\"\n",
            key(1),
            key(7)
        );
        Config::parse(&text, &folder.join("c.toml")).unwrap()
    }

    fn open(config: &Config) -> Enrolments {
        Enrolments::open(&config.interface, key(99))
    }

    fn coming(home: u8) -> Introduction {
        Introduction { line: key(7), home: key(home), from: "192.0.2.1:1".parse().unwrap() }
    }

    #[test]
    fn the_first_home_is_let_in_and_known_after_a_restart_and_the_next_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let mut config = config(folder.path());
        let mut enrolments = open(&config);
        assert_eq!(enrolments.admit(&config, &coming(2), time(NOW)), Admission::LetIn);
        enrolments.apply(&mut config);
        assert!(config.peers[1].is_known() && config.peers[1].public_key == key(2));
        assert_eq!(enrolments.admit(&config, &coming(3), time(NOW)), Admission::NotLetIn);

        let mut again = self::config(folder.path());
        let mut enrolments = open(&again);
        enrolments.apply(&mut again);
        assert_eq!(again.peers[1].public_key, key(2));
        assert_eq!(enrolments.admit(&again, &coming(3), time(NOW)), Admission::NotLetIn);
    }

    #[test]
    fn a_line_ends_at_its_time() {
        let folder = tempfile::tempdir().unwrap();
        let config = config(folder.path());
        let mut enrolments = open(&config);
        let late = time("2026-06-02T00:00:01Z");
        assert_eq!(enrolments.admit(&config, &coming(2), late), Admission::Expired);
        // If the clock isn't set yet, nobody is kept out.
        assert_eq!(enrolments.admit(&config, &coming(2), Timestamp::UNIX_EPOCH), Admission::LetIn);
    }

    #[test]
    fn nobody_takes_anothers_key_with_a_line() {
        let folder = tempfile::tempdir().unwrap();
        let config = config(folder.path());
        let mut enrolments = open(&config);
        for taken in [1, 99] {
            assert_eq!(enrolments.admit(&config, &coming(taken), time(NOW)), Admission::NotLetIn);
        }
        // The line's own key is known to everyone who has the line.
        assert_eq!(enrolments.admit(&config, &coming(7), time(NOW)), Admission::NotLetIn);
    }

    #[test]
    fn who_cannot_be_written_down_is_let_in_later() {
        let folder = tempfile::tempdir().unwrap();
        let config = config(folder.path());
        let state = folder.path().join("state");
        std::fs::write(&state, "no folder").unwrap();
        let mut enrolments = Enrolments { homes: Some(EnrolledHomes::default()), ..open(&config) };
        assert_eq!(enrolments.admit(&config, &coming(2), time(NOW)), Admission::NotLetIn);
        std::fs::remove_file(&state).unwrap();
        assert_eq!(enrolments.admit(&config, &coming(2), time(NOW)), Admission::LetIn);
    }

    #[test]
    fn what_is_damaged_is_not_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let config = config(folder.path());
        let file = EnrolledHomes::path(&config.interface.state_dir, "braid0");
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, "half of it").unwrap();
        let mut enrolments = open(&config);
        assert_eq!(enrolments.admit(&config, &coming(2), time(NOW)), Admission::NotLetIn);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "half of it");
    }
}
