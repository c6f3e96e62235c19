//! The replicas of a folder of snapshots, recorded in the folder itself.

use super::choose::series_of;
use crate::error::Error;
use crate::exact_path::ExactPath;
use crate::files::{Stored, read_state, write_state};
use crate::folder::Snapshot;
use crate::shown::shown;
use crate::wire::{Inventory, StreamId};
use braid_pool::place::Place;
use braid_pool::uuid::Uuid;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The file in the snapshots' folder.
const FILE: &str = ".braid-replicas.json";
const VERSION: u32 = 1;

/// Suffix of a place's name if streams are stored there.
pub(crate) const STREAMS: &str = " (streams)";

/// All replicas of a folder.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Replicas {
    #[serde(default)]
    replicas: BTreeMap<String, Replica>,
    #[serde(skip)]
    changed: bool,
}

/// The replicas at one place.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Replica {
    /// For each subvolume, the newest snapshot that is there too.
    #[serde(default)]
    pub common: BTreeMap<ExactPath, Common>,
    /// What is being sent.
    #[serde(default)]
    pub sending: Option<Sending>,
}

/// A snapshot that both sides have.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Common {
    /// Its name here.
    pub name: ExactPath,
    /// The transaction that made it, to determine which is newer.
    pub made_in: u64,
}

/// The cost so far of sending one snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sending {
    /// Which stream.
    pub stream: StreamId,
    /// Bytes sent, with framing.
    pub bytes: u64,
    /// How often it was begun or continued.
    pub tries: u32,
}

impl Replicas {
    /// The records of a folder; empty where there are none yet.
    ///
    /// # Errors
    /// They exist but can't be read.
    pub fn load(folder: &Path) -> Result<Replicas, Error> {
        let path = folder.join(FILE);
        match read_state(&path, VERSION)? {
            Stored::Whole(replicas) => Ok(replicas),
            Stored::Absent => Ok(Replicas::default()),
            Stored::Damaged(error) => Err(Error::Refused(format!(
                "{}: {error}; if you delete it, the next replication asks each place what it has",
                shown(&path).display()
            ))),
        }
    }

    /// Writes what changed.
    ///
    /// # Errors
    /// The folder can't be written.
    pub fn save(&mut self, folder: &Path) -> Result<(), Error> {
        if !std::mem::take(&mut self.changed) {
            return Ok(());
        }
        write_state(&folder.join(FILE), VERSION, self)
    }

    /// Both sides have this snapshot.
    pub fn common(&mut self, place: &str, snapshot: &Snapshot) {
        let replica = self.replicas.entry(place.to_owned()).or_default();
        let common = Common { name: snapshot.name.clone().into(), made_in: snapshot.about.made_in };
        let series = ExactPath::from(series_of(&snapshot.name).to_owned());
        if replica.sending.is_some_and(|sending| sending.stream.uuid == snapshot.uuid()) {
            replica.sending = None;
            self.changed = true;
        }
        if replica.common.get(&series).is_none_or(|known| known.made_in < common.made_in) {
            replica.common.insert(series, common);
            self.changed = true;
        }
    }

    /// Adds this many bytes and one attempt; returns the sums.
    pub(super) fn sent(&mut self, place: &str, stream: StreamId, bytes: u64) -> Sending {
        let replica = self.replicas.entry(place.to_owned()).or_default();
        let before = replica.sending.filter(|sending| sending.stream.uuid == stream.uuid);
        let sending = Sending {
            stream,
            bytes: before.map_or(0, |sending| sending.bytes).saturating_add(bytes),
            tries: before.map_or(0, |sending| sending.tries).saturating_add(1),
        };
        replica.sending = Some(sending);
        self.changed = true;
        sending
    }

    /// Each place to which something is being sent, with the UUIDs that are
    /// needed for it: the parent's, and the snapshot's own.
    pub fn being_sent(&self) -> Vec<(String, Option<Uuid>)> {
        let sending = self
            .replicas
            .iter()
            .filter_map(|(place, replica)| replica.sending.map(|sending| (place, sending.stream)));
        let both = |(place, stream): (&String, StreamId)| {
            [(place.clone(), stream.parent), (place.clone(), Some(stream.uuid))]
        };
        sending.flat_map(both).collect()
    }

    /// If a folder has none of what it had by these records: the newest snapshot's name. The folder
    /// counts, not the filesystem: a different one may be mounted there by mistake.
    pub(super) fn lost(&self, now: &Inventory) -> Option<ExactPath> {
        let folder = folder_of(&now.place);
        let there = self.replicas.iter().filter(|(place, _)| folder_of(place) == folder);
        let known: Vec<&Common> = there.flat_map(|(_, replica)| replica.common.values()).collect();
        let is_there = |common: &&Common| now.present.iter().any(|one| one.name == common.name);
        match known.iter().any(is_there) {
            true => None,
            false => known.iter().max_by_key(|common| common.made_in).map(|one| one.name.clone()),
        }
    }

    /// Whether something was ever replicated.
    pub fn has_some(&self) -> bool {
        !self.replicas.is_empty()
    }

    /// Nothing is being sent there any more: what was needed for that may go.
    pub fn forget_sending(&mut self, to: &Place) {
        let is_there = |place: &str| {
            let folder = folder_of(place);
            let folder = Path::new(folder.split_once(':').map_or(folder, |(_, path)| path));
            match to {
                Place::Local(to) => fs::canonicalize(to).map_or(folder == to, |to| folder == to),
                // Relative to a home folder, or to the folder that a listener serves.
                _ => folder.ends_with(to.path().strip_prefix("/").unwrap_or(to.path())),
            }
        };
        for (place, replica) in &mut self.replicas {
            if replica.sending.is_some() && is_there(place) {
                replica.sending = None;
                self.changed = true;
            }
        }
    }

    /// Each place with the name of a snapshot that its next difference needs.
    pub fn common_parents(&self) -> Vec<(String, ExactPath)> {
        let of_place = |(place, replica): (&String, &Replica)| -> Vec<(String, ExactPath)> {
            replica.common.values().map(|common| (place.clone(), common.name.clone())).collect()
        };
        self.replicas.iter().flat_map(of_place).collect()
    }
}

/// Host and folder of a place, as an [`Inventory`] names it.
fn folder_of(place: &str) -> &str {
    let on_btrfs = place.rsplit_once(" on ").filter(|(_, id)| id.parse::<Uuid>().is_ok());
    on_btrfs.map_or(place, |(folder, _)| folder).trim_end_matches(STREAMS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subvolume::{SendKind, Subvolume};
    use crate::wire::Present;
    use std::ffi::OsStr;
    use std::time::SystemTime;

    fn snapshot(name: &str, number: u8) -> Snapshot {
        let about = Subvolume {
            id: 256,
            parent_id: 5,
            name: name.into(),
            read_only: true,
            uuid: Uuid::from_bytes([number; 16]),
            parent_uuid: None,
            received_uuid: None,
            changed_in: 1,
            made_in: u64::from(number),
            sent_in: 0,
            made_at: SystemTime::UNIX_EPOCH,
        };
        Snapshot { name: name.into(), path: name.into(), about, stored: None }
    }

    #[test]
    fn what_is_not_sent_any_more_is_needed_no_more() {
        let uuid = Uuid::from_bytes([1; 16]);
        let stream = StreamId { uuid, parent: None, kind: SendKind::default() };
        let mut records = Replicas::default();
        for place in ["nas:/backup on 2", "nas:/served/other"] {
            records.sent(place, stream, 5);
        }
        records.forget_sending(&"/backup on 2".parse().unwrap());
        let left: Vec<String> = records.being_sent().into_iter().map(|(place, _)| place).collect();
        assert_eq!(left, ["nas:/served/other", "nas:/served/other"]);
        records.forget_sending(&"tcp://10.0.0.1:7000/other".parse().unwrap());
        assert_eq!(records.being_sent(), []);
    }

    #[test]
    fn a_folder_that_had_replicas_and_has_none_is_noticed_whatever_filesystem_is_there() {
        let id = |number| Uuid::from_bytes([number; 16]);
        let place = format!("nas:/backup on it on {}", id(9));
        let now = |place: &str, names: &[&str]| {
            let present = names.iter().map(|name| Present {
                name: OsStr::new(name).to_owned().into(),
                uuid: id(8),
                received: None,
            });
            Inventory {
                place: place.to_owned(),
                present: present.collect(),
                unfinished: None,
                accepts: SendKind::default(),
                not_to_build_on: vec![],
            }
        };
        let mut records = Replicas::default();
        assert_eq!(records.lost(&now(&place, &[])), None, "nothing was sent yet");
        records.common(&place, &snapshot("home.1", 1));
        records.common(&place, &snapshot("root.2", 2));
        assert_eq!(records.lost(&now(&place, &["root.2"])), None);
        for other in [place.as_str(), &format!("nas:/backup on it on {}", id(7))] {
            let lost = records.lost(&now(other, &["foreign"]));
            assert_eq!(lost.unwrap().to_string(), "root.2", "{other}");
        }
        assert!(records.lost(&now("nas:/backup on it (streams)", &[])).is_some());
        for elsewhere in ["nas:/backup (streams)", "nas:/backup on it/x", "other:/backup on it"] {
            assert_eq!(records.lost(&now(elsewhere, &[])), None, "{elsewhere}");
        }
    }
}
