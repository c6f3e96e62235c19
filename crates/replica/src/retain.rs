//! Which snapshots of a folder stay, and the deletion of the others.

use crate::error::Error;
use crate::exact_path::ExactPath;
use crate::snapshot::{self, Present};
use crate::source::Replicas;
use crate::{sink, subvolume};
use braid_pool::retention::{CommonParent, Policy, Reason, Snapshot, select};
use braid_pool::uuid::Uuid;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

/// What becomes of one snapshot, and why.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// Its name.
    pub name: ExactPath,
    /// Whether it stays.
    pub keep: bool,
    /// Every reason.
    pub because: Vec<Reason>,
    #[serde(skip)]
    uuid: Uuid,
}

/// Says what the policy means for each snapshot in the folder; those of each
/// subvolume are counted for themselves. Newest first.
///
/// # Errors
/// The folder or its records can't be read.
pub fn judge(folder: &Path, policy: &Policy) -> Result<Vec<Verdict>, Error> {
    let present = snapshot::list(folder)?;
    let parents = common_parents(folder, &present)?;
    let mut series: BTreeMap<&ExactPath, Vec<&Present>> = BTreeMap::new();
    for one in &present {
        series.entry(&one.series).or_default().push(one);
    }
    let mut verdicts = vec![];
    for of_series in series.values() {
        let snapshots: Vec<Snapshot> = of_series
            .iter()
            .map(|one| Snapshot { name: one.name.to_string(), taken: one.taken })
            .collect();
        for verdict in select(policy, &snapshots, &parents) {
            let one = of_series.iter().find(|one| one.name.to_string() == verdict.snapshot);
            verdicts.extend(one.map(|one| Verdict {
                name: one.name.clone(),
                keep: verdict.keep,
                because: verdict.because,
                uuid: one.uuid,
            }));
        }
    }
    Ok(verdicts)
}

/// Deletes those that don't stay; returns how many that were.
///
/// # Errors
/// One can't be deleted, or its name now means another subvolume.
pub fn carry_out(folder: &Path, verdicts: &[Verdict]) -> Result<usize, Error> {
    let inside = subvolume::open_folder(folder)?;
    let mut deleted = 0;
    for verdict in verdicts.iter().filter(|verdict| !verdict.keep) {
        let path = folder.join(verdict.name.as_path());
        let (_, now) = subvolume::open(&path)?;
        if now.uuid != verdict.uuid {
            return Err(Error::Refused(format!("{} was exchanged meanwhile", path.display())));
        }
        subvolume::delete(&inside, verdict.name.as_name())
            .map_err(|e| Error::io("deleting the snapshot", &path, e))?;
        deleted += 1;
    }
    Ok(deleted)
}

/// What must stay for replicas, by the records of those that were made from
/// this folder, and by the Received UUIDs of those that are in it.
fn common_parents(folder: &Path, present: &[Present]) -> Result<Vec<CommonParent>, Error> {
    let records = Replicas::load(folder)?;
    let mut parents: Vec<CommonParent> = records
        .common_parents()
        .into_iter()
        .map(|(replica, name)| CommonParent { snapshot: name.to_string(), replica })
        .collect();
    let mut needed = records.being_sent();
    if let Some(stream) = sink::begun(folder)? {
        needed.push(("the one being received here".to_owned(), stream.parent));
    }
    for (replica, uuid) in needed {
        let known = |one: &&Present| {
            uuid.is_some_and(|uuid| one.uuid == uuid || one.received_uuid == Some(uuid))
        };
        parents.extend(
            present.iter().find(known).map(|one| CommonParent {
                snapshot: one.name.to_string(),
                replica: replica.clone(),
            }),
        );
    }
    // Present is sorted by time: later ones replace earlier ones.
    let received = present.iter().filter(|one| one.received_uuid.is_some());
    let newest: BTreeMap<&ExactPath, &Present> = received.map(|one| (&one.series, one)).collect();
    parents.extend(newest.values().map(|one| CommonParent {
        snapshot: one.name.to_string(),
        replica: "where it was received from".to_owned(),
    }));
    Ok(parents)
}
