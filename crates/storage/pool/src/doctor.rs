//! What is wrong with pools, how bad it is, and the command that mends it.

mod backup;
mod btrfs;
mod disk;
mod encryption;
mod host;
mod md;

pub use backup::{BackupState, CheckState, LockState, TargetState};
pub use encryption::{EncryptionState, HeaderBackup, KeyFile};

use crate::absent_mounts;
use crate::disk::{Disk, Usability};
use crate::observed::{BtrfsErrors, ObservedHost, ObservedPool};
use crate::step::quoted;
use crate::untrusted::Untrusted;
use crate::uuid::Uuid;
use braid_units::ByteSize;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// A problem.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// A stable name for it, for scripts.
    pub code: Code,
    /// How bad it is.
    pub severity: Severity,
    /// The pool that it is about; none for the host as a whole.
    pub pool: Option<String>,
    /// What is wrong, and why it matters.
    pub what: String,
    /// The command that mends it. `NEW` in it stands for a disk that the host doesn't have yet.
    pub mend: String,
}

/// Placeholder in a command for a disk that the host doesn't have, or isn't known to have.
const NEW: &str = "NEW";
const ANOTHER: &str = "ANOTHER";

impl Finding {
    /// Whether its command still lacks a disk.
    pub fn lacks_a_disk(&self) -> bool {
        self.mend.split(' ').any(|word| [NEW, ANOTHER].contains(&word))
    }
}

/// From least to worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Good to know.
    Note,
    /// Should be mended; the data is safe for now.
    Attention,
    /// Redundancy is lost, or data is in danger.
    Danger,
    /// Data can't be reached.
    Lost,
}

/// The kinds of findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Code {
    /// A member isn't there.
    MissingMember,
    /// A member's name is there, but it doesn't answer.
    DeadMember,
    /// A member's superblock can't be read.
    UnreadableSuperblock,
    /// fstab mounts it and it isn't mounted.
    NotMounted,
    /// An array or filesystem runs with less redundancy than it should.
    Degraded,
    /// More members are gone than the layout survives.
    TooManyLost,
    /// A member was kicked out.
    FaultyMember,
    /// A member missed writes.
    StaleMember,
    /// Error counters rose since they were last checked.
    RisingErrors,
    /// Error counters aren't zero.
    Errors,
    /// Errors that a scrub could not correct, or copies that differ.
    Uncorrectable,
    /// `single` chunks beside redundant ones.
    LeftoverSingle,
    /// More than one profile of a purpose.
    MixedProfiles,
    /// Little is unallocated.
    LowUnallocated,
    /// There is hardly any room left.
    Full,
    /// Metadata has fewer copies than data.
    WeakMetadata,
    /// No scrub for too long.
    ScrubOverdue,
    /// Quota groups are on.
    Quotas,
    /// nodatacow on redundant btrfs.
    Nodatacow,
    /// It is mounted with `degraded`, or fstab says so, although it is complete.
    DegradedOption,
    /// A change of a pool was interrupted.
    Interrupted,
    /// A replication was interrupted.
    UnfinishedReplication,
    /// A backup was cut off.
    UnfinishedBackup,
    /// The newest backup is too old, or there is none.
    BackupOverdue,
    /// The newest backup lacks files that could not be read.
    IncompleteBackup,
    /// A check or a restore of backups found something wrong.
    DamagedBackup,
    /// Backups weren't checked for too long.
    UncheckedBackup,
    /// Nothing was restored from backups for too long.
    UntriedBackup,
    /// The key that opens backups isn't there.
    MissingBackupKey,
    /// The user may not read everything that the doctor looks at.
    NotAllSeen,
    /// The backups' lock ends too early, or couldn't be extended.
    BackupLock,
    /// An operation is paused.
    Paused,
    /// Mounted read-only although not asked for.
    ReadOnly,
    /// The array is not in mdadm.conf by UUID.
    NotInMdadmConf,
    /// Another host's name is in the array's.
    ForeignHomehost,
    /// Old metadata, which has no name.
    OldMetadata,
    /// The initramfs has an old mdadm.conf.
    StaleInitramfs,
    /// No write-intent bitmap.
    NoBitmap,
    /// Two members on one disk.
    SamePhysicalDisk,
    /// A member's partition begins within a physical sector.
    Misaligned,
    /// A member's disk reports that it is failing.
    FailingDisk,
    /// The kernel gives up on a disk before the disk itself does.
    Timeout,
    /// btrfs-progs too old for send protocol 2.
    OldBtrfsProgs,
    /// Encrypted disks aren't open.
    Locked,
    /// An encrypted disk has left the pool, and its keys are still on it.
    FormerMember,
    /// It isn't known whether an encrypted disk is a member of the pool that its label names.
    UnknownMember,
    /// Two encrypted pools have the same name.
    SameName,
    /// A LUKS header is damaged or gone.
    DamagedHeader,
    /// There is no backup of a LUKS header as it is now.
    HeaderNotBackedUp,
    /// An encrypted disk isn't in crypttab.
    NotInCrypttab,
    /// The key file isn't there.
    MissingKeyFile,
    /// Others can read the key file.
    ExposedKeyFile,
    /// The key file is on the pool that it opens.
    KeyFileOnPool,
    /// There is no second key, or none that needs no other machine.
    NoSpareKey,
    /// Some keys don't open all disks.
    UnevenKeys,
    /// A key may be guessed quickly.
    WeakKey,
    /// Some disks of an encrypted pool are not encrypted.
    PartlyEncrypted,
}

/// The name of pools that are made to be measured (`braid pool bench`), and that only remain if
/// they are yet to be undone; there is one at a time.
pub const MEASURED_POOL: &str = "braid-bench";

/// A change of a pool that was begun and is neither finished nor running.
#[derive(Clone, Copy, Debug)]
pub struct Interrupted<'a> {
    /// The pool's name.
    pub pool: &'a str,
    /// The plan's title.
    pub title: &'a str,
    /// How many of its steps are done.
    pub done: usize,
    /// How many it has.
    pub steps: usize,
    /// It was being undone, or only remains to be undone.
    pub to_be_undone: bool,
}

impl Interrupted<'_> {
    /// What is wrong with that.
    pub fn finding(&self) -> Finding {
        let Interrupted { pool, title, done, steps, to_be_undone } = self;
        let verb = if *to_be_undone { "abandon" } else { "resume" };
        Finding {
            code: Code::Interrupted,
            severity: Severity::Attention,
            pool: Some((*pool).to_owned()),
            what: format!("this was interrupted after {done} of {steps} steps: {title}"),
            mend: format!("braid pool {verb} {}", quoted(pool)),
        }
    }
}

/// A replication that was begun and is neither finished nor running.
#[derive(Clone, Copy, Debug)]
pub struct UnfinishedReplication<'a> {
    /// The local pool that it sends from or receives to.
    pub pool: Option<&'a str>,
    /// Source, as given to the command.
    pub from: &'a str,
    /// To where.
    pub to: &'a str,
    /// Arguments of `braid pool replicate` to start it again.
    pub words: &'a [String],
    /// The other computer on which it was started; none for this one.
    pub ordered_on: Option<&'a str>,
    /// The local folder that sends or receives.
    pub here: &'a str,
    /// The part received of an incomplete snapshot, if this computer receives.
    pub half: Option<HalfReceived<'a>>,
}

/// A part of a snapshot's stream.
#[derive(Clone, Copy, Debug)]
pub struct HalfReceived<'a> {
    /// The snapshot's name.
    pub name: &'a str,
    /// The folder that receives it.
    pub folder: &'a str,
    /// The byte of the stream at which it can continue.
    pub bytes: u64,
}

impl UnfinishedReplication<'_> {
    /// What is wrong with that.
    pub fn finding(&self) -> Finding {
        let UnfinishedReplication { pool, from, to, words, ordered_on, here, half } = self;
        let mut what = format!("a replication from {from} to {to}");
        if let Some(host) = ordered_on {
            what += &format!(", ordered on {},", plain(host));
        }
        let forget = if ordered_on.is_some() { here } else { to };
        what += " was interrupted";
        what +=
            &format!(" (not wanted any more? braid pool replicate --forget {})", quoted(forget));
        what += &match half {
            None => "; every replica that has its name is complete".to_owned(),
            Some(HalfReceived { name, folder, bytes: 0 }) => {
                format!("; of {name} nothing has come to {folder} that could be used")
            }
            Some(HalfReceived { name, folder, bytes }) => format!(
                "; of {name} {} are in {folder}, and it goes on from there",
                ByteSize::from_bytes(*bytes)
            ),
        };
        let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
        let there = ordered_on.map_or_else(String::new, |host| format!("  # on {}", plain(host)));
        Finding {
            code: Code::UnfinishedReplication,
            severity: Severity::Attention,
            pool: pool.map(str::to_owned),
            what,
            mend: format!("braid pool replicate {}{there}", words.join(" ")),
        }
    }
}

/// Another computer's name for itself, which could contain anything.
fn plain(host: &str) -> String {
    host.chars().filter(|c| c.is_ascii_alphanumeric() || "-._".contains(*c)).collect()
}

/// The doctor's thresholds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// A scrub older than this is overdue.
    pub scrub_within: Duration,
}

impl Default for Limits {
    /// Scrubs are monthly by default; a few days' delay is nothing.
    fn default() -> Self {
        Limits { scrub_within: Duration::from_secs(35 * 24 * 3600) }
    }
}

/// Error counters when last checked, by pool UUID and devid or disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Baseline(BTreeMap<String, u64>);

impl Baseline {
    /// The current counters.
    pub fn of(pools: &[ObservedPool]) -> Baseline {
        let mut counters = BTreeMap::new();
        for pool in pools {
            match pool {
                ObservedPool::Btrfs(pool) => counters.extend(
                    pool.members.iter().map(|m| (btrfs::counter_name(pool, m), m.errors.sum())),
                ),
                ObservedPool::Md(pool) => counters.extend(
                    pool.members
                        .iter()
                        .filter_map(|m| Some((md::counter_name(pool, m)?, m.errors))),
                ),
            }
        }
        Baseline(counters)
    }

    /// How much a counter rose; `None` when it was never checked.
    fn rise(&self, name: &str, now: u64) -> Option<u64> {
        // Less than before: it was reset meanwhile.
        self.0.get(name).map(|before| if now < *before { now } else { now - before })
    }
}

/// Examines all pools, worst first.
pub fn examine(
    pools: &[ObservedPool],
    disks: &[Disk],
    host: &ObservedHost,
    before: &Baseline,
    limits: Limits,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for pool in pools {
        let same = pools.iter().filter(|other| other.name() == pool.name()).count();
        let word = match pool.name() {
            // Neither an option nor an ambiguous name.
            name if same == 1 && !name.starts_with('-') => name,
            _ => pool.uuid().to_string(),
        };
        let ward = Ward { pool: pool.name(), word, disks, host, before, limits };
        match pool {
            ObservedPool::Btrfs(pool) => btrfs::examine(&ward, pool, &mut findings),
            ObservedPool::Md(pool) => md::examine(&ward, pool, &mut findings),
        }
        disk::examine(&ward, pool, &mut findings);
        findings.extend(host::not_mounted(&ward, pool));
        findings.extend(host::full(&ward, pool));
    }
    host::examine(pools, host, &mut findings);
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    findings
}

/// What fstab mounts but no disk of the host has; call it only if all pools of the host were
/// observed.
pub fn absent(pools: &[ObservedPool], host: &ObservedHost) -> Vec<Finding> {
    let absent = absent_mounts::of_no_pool(pools, &host.fstab).into_iter();
    let finding = |(uuid, at): (Uuid, String)| Finding {
        code: Code::NotMounted,
        severity: Severity::Danger,
        pool: None,
        what: format!(
            "fstab mounts the btrfs {uuid} at {}, and no disk here has it: what is written there lands on the disk below",
            Untrusted(at)
        ),
        mend: "btrfs device scan && braid pool disks".to_owned(),
    };
    absent.map(finding).collect()
}

/// What is known besides the pool that is examined.
struct Ward<'a> {
    pool: String,
    /// Its name in commands.
    word: String,
    disks: &'a [Disk],
    host: &'a ObservedHost,
    before: &'a Baseline,
    limits: Limits,
}

impl Ward<'_> {
    fn finding(
        &self,
        code: Code,
        severity: Severity,
        what: impl Into<String>,
        mend: impl Into<String>,
    ) -> Finding {
        let pool = Some(self.pool.clone());
        Finding { code, severity, pool, what: what.into(), mend: mend.into() }
    }

    /// `braid pool VERB POOL REST`, to be pasted into a shell.
    fn braid(&self, verb: &str, rest: &[&str]) -> String {
        let words = [verb, &self.word].into_iter().chain(rest.iter().copied());
        let words: Vec<String> = words.map(quoted).collect();
        format!("braid pool {}", words.join(" "))
    }

    fn scrub(&self) -> String {
        format!("braid pool scrub start --wait {}", quoted(&self.word))
    }

    /// The smallest whole empty disk of the host with this much room; else `NEW`. An empty
    /// partition may be on a member's disk, or be reserved for something.
    fn new_disk(&self, at_least_bytes: u64) -> String {
        self.smallest_free(at_least_bytes, None).unwrap_or_else(|| NEW.to_owned())
    }

    /// Another one, besides the one already named.
    fn new_disk_but(&self, named: &str, at_least_bytes: u64) -> String {
        let lent = self.smallest_free(at_least_bytes, Some(named));
        lent.unwrap_or_else(|| ANOTHER.to_owned())
    }

    /// This many empty disks of the host with this much room each, smallest first; `NEW` for each
    /// one lacking.
    fn new_disks(&self, count: usize, at_least_bytes: u64) -> Vec<String> {
        let is_enough = |disk: &&Disk| disk.size_bytes >= at_least_bytes;
        let mut free: Vec<&Disk> = self.disks.iter().filter(is_offered).filter(is_enough).collect();
        free.sort_by_key(|disk| disk.size_bytes);
        let named = free.into_iter().map(|disk| disk.stable_path().to_owned());
        named.chain(std::iter::repeat(NEW.to_owned())).take(count).collect()
    }

    fn smallest_free(&self, at_least_bytes: u64, but: Option<&str>) -> Option<String> {
        let fits = |disk: &&Disk| {
            is_offered(disk) && disk.size_bytes >= at_least_bytes && but != Some(disk.stable_path())
        };
        let smallest = self.disks.iter().filter(fits).min_by_key(|disk| disk.size_bytes);
        smallest.map(|disk| disk.stable_path().to_owned())
    }
}

fn is_offered(disk: &&Disk) -> bool {
    disk.partition.is_none() && disk.usability() == Usability::Free
}

fn describe_errors(errors: BtrfsErrors) -> String {
    let BtrfsErrors { write, read, flush, corruption, generation } = errors;
    let all = [
        (write, "failed writes"),
        (read, "failed reads"),
        (flush, "failed flushes"),
        (corruption, "wrong checksums"),
        (generation, "stale blocks"),
    ];
    let some = all.into_iter().filter(|(count, _)| *count > 0);
    some.map(|(count, what)| format!("{count} {what}")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
