//! Which snapshots of a folder stay, and deletion of the others.

mod known_policy;

use crate::archive;
use crate::error::Error;
use crate::exact_path::ExactPath;
use crate::snapshot::{self, Present};
use crate::source::{Replicas, series_of};
use crate::{sink, subvolume};
use braid_pool::retention::{
    Caution, CommonParent, Fate, Policy, Reason, Snapshot, caution, select,
};
use braid_pool::uuid::Uuid;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// The fate of one snapshot, and why.
#[derive(Clone, Debug, Serialize)]
pub struct Decision {
    /// Its name.
    pub name: ExactPath,
    /// Whether it stays.
    pub keep: bool,
    /// Every reason.
    pub because: Vec<Reason>,
    #[serde(skip)]
    uuid: Uuid,
    #[serde(skip)]
    series: ExactPath,
    #[serde(skip)]
    taken: Duration,
}

/// Decides about each snapshot in the folder by the policy, separately for each subvolume. Newest
/// first; those later than `now` are set aside.
///
/// # Errors
/// The folder or its records can't be read.
pub fn judge(folder: &Path, policy: &Policy, now: SystemTime) -> Result<Vec<Decision>, Error> {
    let stored = archive::entries(folder)?;
    let present = match stored.is_empty() {
        true => snapshot::list(folder)?,
        false => stored.iter().map(|one| stored_one(folder, one)).collect::<Result<_, _>>()?,
    };
    let parents = common_parents(folder, &present)?;
    let mut series: BTreeMap<&ExactPath, Vec<&Present>> = BTreeMap::new();
    for one in &present {
        series.entry(&one.series).or_default().push(one);
    }
    let mut decisions = vec![];
    for of_series in series.values() {
        let snapshots: Vec<Snapshot> = of_series
            .iter()
            .map(|one| Snapshot { name: one.name.written(), taken: one.taken })
            .collect();
        for decision in select(policy, &snapshots, &parents, since_epoch(now)) {
            let one = of_series.iter().find(|one| one.name.written() == decision.snapshot);
            decisions.extend(one.map(|one| Decision {
                name: one.name.clone(),
                keep: decision.keep,
                because: decision.because,
                uuid: one.uuid,
                series: one.series.clone(),
                taken: one.taken,
            }));
        }
    }
    keep_bases(&mut decisions, &stored);
    Ok(decisions)
}

/// Warnings before that is carried out: for each subvolume that would lose its history at once.
///
/// # Errors
/// The record of the last policy can't be read.
pub fn cautions(
    folder: &Path,
    policy: &Policy,
    decisions: &[Decision],
    now: SystemTime,
) -> Result<Vec<Caution>, Error> {
    let is_known = known_policy::is(folder, policy)?;
    let mut series: BTreeMap<&ExactPath, Vec<(String, &Decision)>> = BTreeMap::new();
    for decision in decisions {
        series.entry(&decision.series).or_default().push((decision.name.to_string(), decision));
    }
    let of_series = |of: &Vec<(String, &Decision)>| {
        let fates: Vec<Fate<'_>> = of
            .iter()
            .map(|(name, one)| Fate { snapshot: name, taken: one.taken, keep: one.keep })
            .collect();
        caution(&fates, is_known, since_epoch(now))
    };
    Ok(series.values().filter_map(of_series).collect())
}

/// What a stored stream builds on stays as long as the stream does.
fn keep_bases(decisions: &mut [Decision], stored: &[archive::Entry]) {
    // Bases precede what builds on them, so in reverse order each comes after everything that needs
    // it.
    for entry in stored.iter().rev() {
        let is_it = |decision: &&Decision| decision.uuid == entry.uuid() && decision.keep;
        let Some(child) = decisions.iter().find(is_it).map(|decision| decision.name.to_string())
        else {
            continue;
        };
        let is_base = |decision: &&mut Decision| Some(decision.uuid) == entry.begin.stream.parent;
        if let Some(base) = decisions.iter_mut().find(is_base) {
            let reason = Reason::BaseOf { snapshot: child };
            match base.keep {
                true => base.because.push(reason),
                false => base.because = vec![reason],
            }
            base.keep = true;
        }
    }
}

/// By its name, or else by its file's time: an unknown age must not mean 1970.
fn stored_one(folder: &Path, entry: &archive::Entry) -> Result<Present, Error> {
    let name = entry.begin.name.clone();
    let file = entry.file(folder);
    let taken = match snapshot::time_in(name.as_name()) {
        Some(taken) => taken,
        None => fs::metadata(&file)
            .and_then(|about| about.modified())
            .map(since_epoch)
            .map_err(|e| Error::io("asking about", &file, e))?,
    };
    Ok(Present {
        series: series_of(name.as_name()).to_owned().into(),
        taken,
        uuid: entry.uuid(),
        received_uuid: Some(entry.uuid()),
        replicas: vec![],
        name,
    })
}

fn since_epoch(time: SystemTime) -> Duration {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// Deletes those that don't stay, and records that the policy is known here from now on; returns
/// the number deleted.
///
/// # Errors
/// One can't be deleted, or its name now means another subvolume.
pub fn carry_out(folder: &Path, policy: &Policy, decisions: &[Decision]) -> Result<usize, Error> {
    let deleted = delete(folder, decisions)?;
    match known_policy::note(folder, policy) {
        // The deletion is done: without room for the record the next run warns as if the policy
        // were new.
        Err(Error::Io { error, .. }) if sink::is_full(&error) => {}
        other => other?,
    }
    Ok(deleted)
}

fn delete(folder: &Path, decisions: &[Decision]) -> Result<usize, Error> {
    let inside = subvolume::open_folder(folder)?;
    let mut deleted = 0;
    // Newer streams build on older ones, so the newest goes first.
    for entry in archive::entries(folder)?.iter().rev() {
        let goes = |decision: &Decision| !decision.keep && decision.uuid == entry.uuid();
        if decisions.iter().any(goes) {
            entry.delete(folder)?;
            deleted += 1;
        }
    }
    if deleted > 0 || archive::is_archive(folder) {
        return Ok(deleted);
    }
    for decision in decisions.iter().filter(|decision| !decision.keep) {
        let path = folder.join(decision.name.as_path());
        let (_, now) = subvolume::open(&path)?;
        if now.uuid != decision.uuid {
            return Err(Error::Refused(format!("{} was exchanged meanwhile", path.display())));
        }
        subvolume::delete(&inside, decision.name.as_name())
            .map_err(|e| Error::io("deleting the snapshot", &path, e))?;
        deleted += 1;
    }
    Ok(deleted)
}

/// What must stay for replicas: by the records of those made from this folder, and by the Received
/// UUIDs of those in it.
fn common_parents(folder: &Path, present: &[Present]) -> Result<Vec<CommonParent>, Error> {
    let records = Replicas::load(folder)?;
    let mut parents: Vec<CommonParent> = records
        .common_parents()
        .into_iter()
        .map(|(replica, name)| CommonParent { snapshot: name.written(), replica })
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
            present
                .iter()
                .find(known)
                .map(|one| CommonParent { snapshot: one.name.written(), replica: replica.clone() }),
        );
    }
    // Present is sorted by time: later ones replace earlier ones.
    let received = present.iter().filter(|one| one.received_uuid.is_some());
    let newest: BTreeMap<&ExactPath, &Present> = received.map(|one| (&one.series, one)).collect();
    parents.extend(newest.values().map(|one| CommonParent {
        snapshot: one.name.written(),
        replica: "where it was received from".to_owned(),
    }));
    Ok(parents)
}
