//! `braid pool`: several disks used as one.

mod abandon;
mod add;
mod apply;
#[cfg(feature = "backup")]
mod backup;
#[cfg(feature = "bench")]
mod bench;
mod bytes_line;
pub(super) mod carry_out;
mod change;
mod clone;
mod close;
mod consent;
mod convert;
mod create;
mod destroy;
mod disks;
mod doctor;
mod encrypt;
pub(super) mod examined;
mod header;
mod health;
mod key;
mod locked;
mod mount_point;
mod named;
mod open;
mod plan;
mod pool_key;
#[cfg(feature = "page")]
pub(super) mod pools_look;
mod random_uuid;
mod reach;
mod rebalance;
mod remove;
mod replace;
mod replicate;
mod replicate_agent;
mod restore;
mod resume;
mod retain;
mod scrub;
mod secret;
mod seen;
mod snapshot;
mod status;
mod told;
mod verify;
mod volumes;
mod watch;
pub(super) mod watch_memory;

#[cfg(not(all(feature = "backup", feature = "bench")))]
use super::parts;
use super::{Failure, Global};
use clap::Subcommand;
use std::process::ExitCode;

/// What can be done with pools.
#[derive(Subcommand)]
pub enum PoolCommand {
    /// List every disk: model, health, contents, and whether it can be used
    Disks(disks::Disks),
    /// Rank the possible layouts of disks for a use; also of disks not bought yet
    Plan(plan::Plan),
    /// Show the state of every pool, one line each
    Status(status::Status),
    /// Report what is wrong, with the command that fixes it
    Doctor(doctor::Doctor),
    /// Check all pools, once or continuously; report only changes
    Watch(watch::Watch),
    /// Read all data and verify it against its checksums or copies
    #[command(subcommand)]
    Scrub(scrub::Scrub),
    /// Create a pool
    Create(create::Create),
    /// Add disks to a pool and spread its data over them
    Add(add::Add),
    /// Move a disk's data to the others and remove it from the pool
    Remove(remove::Remove),
    /// Replace a disk, working or dead, with another
    Replace(replace::Replace),
    /// Convert a pool to another layout
    Convert(convert::Convert),
    /// Reclaim space from half-empty chunks and spread data evenly
    Rebalance(rebalance::Rebalance),
    /// Destroy a pool: unmount it and empty its disks
    Destroy(destroy::Destroy),
    /// Open an encrypted pool's disks and mount it
    Open(open::Open),
    /// Unmount an encrypted pool and lock its disks
    Close(close::Close),
    /// List, add, change or remove the keys of an encrypted pool, or print its recovery sheet
    #[command(subcommand)]
    Key(key::Key),
    /// Back up the LUKS headers of an encrypted pool, or restore one
    #[command(subcommand)]
    Header(header::HeaderCommand),
    /// Make the pools match the config, step by step; what already matches is left alone
    Apply(apply::Apply),
    /// Measure a pool, or several layouts on the same disks
    #[cfg(feature = "bench")]
    Bench(bench::Bench),
    #[cfg(not(feature = "bench"))]
    #[command(hide = true)]
    Bench(parts::Missing),
    #[cfg(feature = "bench")]
    #[command(hide = true)]
    BenchGuardian(bench::BenchGuardian),
    /// Resume an interrupted change
    Resume(resume::Resume),
    /// Undo an interrupted change
    Abandon(abandon::Abandon),
    /// Take read-only snapshots of btrfs subvolumes, or list them
    Snapshot(snapshot::Snapshot),
    /// Delete old snapshots by policy, but never the last one a replica needs
    Retain(retain::Retain),
    /// Send snapshots to another filesystem or computer; resumes after any interruption
    Replicate(replicate::Replicate),
    #[command(hide = true)]
    ReplicateAgent(replicate_agent::ReplicateAgent),
    /// Back up to an object store, a server or a folder: encrypted, in restic's format
    #[cfg(feature = "backup")]
    Backup(Box<backup::Backup>),
    #[cfg(not(feature = "backup"))]
    #[command(hide = true)]
    Backup(parts::Missing),
    /// Compare a replica with its original, file by file
    Verify(verify::Verify),
    /// Restore a snapshot, or a file or folder from one
    Restore(restore::Restore),
    /// Copy a whole btrfs system to another filesystem and make it bootable
    Clone(clone::Clone),
}

impl PoolCommand {
    /// Runs the command.
    pub fn run(self, global: &Global) -> Result<ExitCode, Failure> {
        match self {
            PoolCommand::Disks(command) => command.run(global)?,
            PoolCommand::Plan(command) => command.run(global)?,
            PoolCommand::Status(command) => return command.run(global),
            PoolCommand::Doctor(command) => return command.run(global),
            PoolCommand::Watch(command) => return command.run(global),
            PoolCommand::Scrub(command) => return command.run(global),
            PoolCommand::Create(command) => command.run(global)?,
            PoolCommand::Add(command) => command.run(global)?,
            PoolCommand::Remove(command) => command.run(global)?,
            PoolCommand::Replace(command) => command.run(global)?,
            PoolCommand::Convert(command) => command.run(global)?,
            PoolCommand::Rebalance(command) => command.run(global)?,
            PoolCommand::Destroy(command) => command.run(global)?,
            PoolCommand::Open(command) => command.run(global)?,
            PoolCommand::Close(command) => command.run(global)?,
            PoolCommand::Key(command) => command.run(global)?,
            PoolCommand::Header(command) => command.run(global)?,
            PoolCommand::Apply(command) => command.run(global)?,
            #[cfg(feature = "bench")]
            PoolCommand::Bench(command) => command.run(global)?,
            #[cfg(not(feature = "bench"))]
            PoolCommand::Bench(command) => command.run("bench")?,
            #[cfg(feature = "bench")]
            PoolCommand::BenchGuardian(command) => command.run()?,
            PoolCommand::Resume(command) => command.run(global)?,
            PoolCommand::Abandon(command) => command.run(global)?,
            PoolCommand::Snapshot(command) => command.run(global)?,
            PoolCommand::Retain(command) => command.run(global)?,
            PoolCommand::Replicate(command) => command.run(global)?,
            PoolCommand::ReplicateAgent(command) => command.run()?,
            #[cfg(feature = "backup")]
            PoolCommand::Backup(command) => return command.run(global),
            #[cfg(not(feature = "backup"))]
            PoolCommand::Backup(command) => command.run("backup")?,
            PoolCommand::Verify(command) => command.run(global)?,
            PoolCommand::Restore(command) => command.run(global)?,
            PoolCommand::Clone(command) => command.run(global)?,
        }
        Ok(ExitCode::SUCCESS)
    }
}
