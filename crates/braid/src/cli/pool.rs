//! `braid pool`: many disks act as one.

mod abandon;
mod add;
mod apply;
mod bench;
mod bytes_line;
mod carry_out;
mod change;
mod clone;
mod convert;
mod create;
mod disks;
mod doctor;
mod examined;
mod named;
mod plan;
mod progress;
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
mod seen;
mod snapshot;
mod status;
mod time_left;
mod verdict;
mod verify;
mod watch;
mod watch_memory;

use super::{Failure, Global};
use clap::Subcommand;
use std::process::ExitCode;

/// What can be done with pools.
#[derive(Subcommand)]
pub enum PoolCommand {
    /// List every disk: what it is, how it is, what is on it, whether it can be used
    Disks(disks::Disks),
    /// Rank the layouts that disks allow for a use; also for disks not bought yet
    Plan(plan::Plan),
    /// Show how the pools are, one line each
    Status(status::Status),
    /// Find what is wrong, and the command that mends it
    Doctor(doctor::Doctor),
    /// Look at all pools, once or again and again; tell only what changed
    Watch(watch::Watch),
    /// Read everything and compare it with its checksums or copies
    #[command(subcommand)]
    Scrub(scrub::Scrub),
    /// Make a pool of disks
    Create(create::Create),
    /// Take disks into a pool, and spread its data over them
    Add(add::Add),
    /// Move a disk's data to the others and let it go
    Remove(remove::Remove),
    /// Put a disk in the place of another one, also of a dead one
    Replace(replace::Replace),
    /// Give a pool another layout
    Convert(convert::Convert),
    /// Give back room that half empty chunks hold, and spread data evenly
    Rebalance(rebalance::Rebalance),
    /// Bring the pools of the config there, step by step; what is so already is left alone
    Apply(apply::Apply),
    /// Measure a pool, or several layouts on the same disks
    Bench(bench::Bench),
    #[command(hide = true)]
    BenchGuardian(bench::BenchGuardian),
    /// Go on with what was interrupted
    Resume(resume::Resume),
    /// Undo what was interrupted
    Abandon(abandon::Abandon),
    /// Take read-only snapshots of btrfs subvolumes, or list them
    Snapshot(snapshot::Snapshot),
    /// Delete old snapshots by a policy, never the last that a replica needs
    Retain(retain::Retain),
    /// Send snapshots to another filesystem or computer; goes on after any interruption
    Replicate(replicate::Replicate),
    #[command(hide = true)]
    ReplicateAgent(replicate_agent::ReplicateAgent),
    /// Compare a replica with its original, file by file
    Verify(verify::Verify),
    /// Bring back a snapshot, or a file or folder of one
    Restore(restore::Restore),
    /// Copy a whole btrfs system to another filesystem, bootable there
    Clone(clone::Clone),
}

impl PoolCommand {
    /// Does it.
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
            PoolCommand::Apply(command) => command.run(global)?,
            PoolCommand::Bench(command) => command.run(global)?,
            PoolCommand::BenchGuardian(command) => command.run()?,
            PoolCommand::Resume(command) => command.run(global)?,
            PoolCommand::Abandon(command) => command.run(global)?,
            PoolCommand::Snapshot(command) => command.run(global)?,
            PoolCommand::Retain(command) => command.run(global)?,
            PoolCommand::Replicate(command) => command.run(global)?,
            PoolCommand::ReplicateAgent(command) => command.run()?,
            PoolCommand::Verify(command) => command.run(global)?,
            PoolCommand::Restore(command) => command.run(global)?,
            PoolCommand::Clone(command) => command.run(global)?,
        }
        Ok(ExitCode::SUCCESS)
    }
}
