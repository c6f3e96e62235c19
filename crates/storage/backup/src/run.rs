//! One backup: from a folder to a target.

use crate::Error;
use crate::courier::Delivery;
use crate::heard;
use crate::lost::Named;
use crate::quiet::caught;
use crate::source::{From, Ground};
use crate::vault::{INCOMPLETE, Vault};
use crate::walk::Walk;
use rustic_core::repofile::SnapshotFile;
use rustic_core::{BackupOptions, SnapshotOptions};
use serde::Serialize;
use std::collections::HashSet;
use std::path::PathBuf;

/// What is wanted.
pub struct Backup<'a> {
    /// To where.
    pub vault: &'a Vault,
    /// What.
    pub ground: &'a Ground,
    /// Whether an earlier run to the same target was cut off: what it sent is taken in first.
    pub resumed: bool,
    /// Nothing is written.
    pub dry_run: bool,
}

/// What has become of it.
#[derive(Clone, Debug, Serialize)]
pub struct Finished {
    /// The snapshot's id; none when nothing was written.
    pub snapshot: Option<String>,
    /// What was backed up.
    pub path: PathBuf,
    /// From what it was read.
    pub from: From,
    /// Files that were looked at.
    pub files: u64,
    /// Of them new or changed.
    pub changed_files: u64,
    /// Bytes of all files.
    pub bytes: u64,
    /// Bytes that weren't there yet, before they are compressed.
    pub new_bytes: u64,
    /// Bytes that were stored for them.
    pub stored_bytes: u64,
    /// How often something was tried again.
    pub retries: u64,
    /// Packs that the target had lost: what they held was sent again as far as it is here, and
    /// older backups may lack it.
    pub lost_packs: usize,
    /// Files that couldn't be read.
    pub left_out: Left,
    /// Subvolumes inside, which are to be backed up by themselves.
    pub without: Vec<PathBuf>,
    /// How long it took.
    pub seconds: f64,
}

/// What a backup lacks.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Left {
    /// They went away while it ran: nothing is wrong with that.
    pub vanished: usize,
    /// Why others couldn't be read; the first hundred.
    pub unreadable: Vec<String>,
    /// How many those are.
    pub unreadable_count: usize,
}

const MOST_TOLD: usize = 100;

impl Backup<'_> {
    /// Does it. When this returns well the snapshot, and all that it needs, was seen at the target.
    ///
    /// # Errors
    /// The target fails for good; what has come there is used by the next run.
    pub fn run(&self) -> Result<Finished, Error> {
        let began = std::time::Instant::now();
        self.ground.refuse_itself(self.vault.target())?;
        let courier = self.vault.courier();
        let heard = heard::listen();
        let before = courier.delivery().written.len();
        let repository = self.vault.repository(true)?;
        let mut lost = 0;
        if !self.dry_run {
            if self.resumed {
                courier.tidy();
            }
            lost = self.vault.take_stock(&repository, self.resumed)?;
        }
        let counted_on = self.vault.named_packs(&repository)?;
        let repository = self.vault.told(repository.to_indexed_ids())?;
        let source = self.vault.told(self.ground.source(courier))?;
        let snapshot = self.vault.told(SnapshotOptions::default().to_snapshot())?;
        let mut options = BackupOptions::default().dry_run(self.dry_run);
        options.as_path = Some(self.ground.path.clone());
        // A snapshot's files have the inode numbers and change times of what it is a snapshot of.
        options.parent_opts = self.vault.parent(&repository, &snapshot, &self.ground.path)?;
        courier.hold_snapshots(true);
        let path = [self.ground.read().to_owned()];
        let archived = caught(|| repository.archive(&options, &source, snapshot, &path));
        courier.hold_snapshots(false);
        let mut snapshot = match archived {
            Ok(archived) => self.vault.told(archived)?,
            Err(said) => {
                return Err(courier.error_of(said));
            }
        };
        if let Some(failure) = courier.failure() {
            return Err(failure);
        }
        let left_out = left_out(&heard.lines());
        let mut id = None;
        if !self.dry_run {
            self.refuse_without_what_went(&counted_on, &snapshot)?;
            if left_out.unreadable_count > 0 {
                snapshot.tags.add(INCOMPLETE.to_owned());
            }
            self.vault.told(repository.save_snapshots(vec![snapshot.clone()]))?;
            courier.look_again(before)?;
            let delivery = courier.delivery();
            id = delivery.last_snapshot();
            if id.is_none() {
                return Err(Error::Damaged("the snapshot's file was not written".to_owned()));
            }
        }
        let finished = self.finished(&snapshot, id, left_out, began.elapsed().as_secs_f64());
        Ok(Finished { lost_packs: lost, ..finished })
    }

    /// Another computer may have removed what no backup needed, and this one counted on: until it
    /// is done nothing says that it needs it, and it may take days.
    fn refuse_without_what_went(
        &self,
        counted_on: &Named,
        snapshot: &SnapshotFile,
    ) -> Result<(), Error> {
        let repository = self.vault.repository(true)?;
        let named = self.vault.named_packs(&repository)?;
        if counted_on.packs.keys().all(|id| !named.is_new(id)) {
            return Ok(());
        }
        let repository = self.vault.told(repository.to_indexed())?;
        let lack = Walk::new(self.vault, &repository, &HashSet::new()).lack_of(snapshot)?;
        if !lack.is_some() {
            return Ok(());
        }
        Err(Error::Target {
            target: self.vault.target().shown(),
            what: format!(
                "another computer has removed what {} files and {} folders of this backup counted \
                 on, while it ran: run it again, which sends only that",
                lack.lost_files, lack.lost_folders
            ),
        })
    }

    fn finished(
        &self,
        snapshot: &SnapshotFile,
        id: Option<String>,
        left_out: Left,
        seconds: f64,
    ) -> Finished {
        let summary = snapshot.summary.clone().unwrap_or_default();
        Finished {
            snapshot: id,
            path: self.ground.path.clone(),
            from: self.ground.from.clone(),
            files: summary.total_files_processed,
            changed_files: summary.files_new + summary.files_changed,
            bytes: summary.total_bytes_processed,
            new_bytes: summary.data_added_files,
            stored_bytes: summary.data_added_packed,
            retries: self.vault.courier().delivery().retries,
            lost_packs: 0,
            left_out,
            without: self.ground.without.clone(),
            seconds,
        }
    }
}

impl Delivery {
    fn last_snapshot(&self) -> Option<String> {
        let mut snapshots = self.written.iter().rev();
        let (_, id, _) = snapshots.find(|(kind, ..)| *kind == rustic_core::FileType::Snapshot)?;
        Some(id.to_hex().as_str().to_owned())
    }
}

/// The library leaves out what it can't read, and says so to its log only.
fn left_out(lines: &[String]) -> Left {
    let mut left = Left::default();
    for line in lines {
        // What a file that went away is to the system: ENOENT.
        if line.contains("(os error 2)") {
            left.vanished += 1;
            continue;
        }
        // Without attributes is incomplete, too; the rest are remarks.
        if !line.contains("ignoring error") {
            continue;
        }
        left.unreadable_count += 1;
        if left.unreadable.len() < MOST_TOLD {
            let line = line.trim_start_matches("ignoring error").trim_start_matches([':', ' ']);
            left.unreadable.push(line.trim_start_matches("Error: ").to_owned());
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_went_away_is_told_apart_from_what_cannot_be_read() {
        let lines = [
            "ignoring error: Error: Failed to open x: caused by: No such file or directory (os error 2)",
            "ignoring error: Error: Error while backing up /a: Input/output error (os error 5)",
            "something else",
        ];
        let left = left_out(&lines.map(str::to_owned));
        assert_eq!((left.vanished, left.unreadable_count), (1, 1));
        assert!(left.unreadable[0].starts_with("Error while backing up /a"), "{left:?}");
    }
}
