//! How fio is called (fio(1)).

use crate::error::BenchError;
use crate::fio_answer::FioAnswer;
use crate::lifeline;
use crate::workload::Workload;
use braid_disks::tool::{self, ToolError};
use braid_units::ByteSize;
use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

/// How much longer than the requested time opening, laying out and the last fsync may take.
const PATIENCE: Duration = Duration::from_secs(600);
/// The shell's status when there is no such program.
const NOT_FOUND: i32 = 127;
/// Names of the files: number 0 is the first program's.
const FILE_NAMES: &str = "--filename_format=braid-bench.$jobnum";

/// What fio works on.
#[derive(Clone, Copy, Debug)]
pub enum Target<'a> {
    /// Files of its own in this folder.
    Folder(&'a Path),
    /// A whole device; writing destroys what it carries.
    Device(&'a str),
}

/// How much of it.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// Bytes of each program's file, or of the device from its beginning.
    pub size: ByteSize,
    /// Programs at the same time.
    pub programs: usize,
}

/// Runs `workload` for `time`, or until everything is read: every write has random bytes of its own
/// (`refill_buffers`), and goes to different places each time.
///
/// # Errors
/// [`BenchError::Tool`] when fio isn't installed or doesn't end in time, [`BenchError::Failed`]
/// when it fails, [`BenchError::Unreadable`] when its answer isn't fio 3's.
pub fn run(
    workload: Workload,
    target: Target<'_>,
    extent: Extent,
    time: Duration,
) -> Result<FioAnswer, BenchError> {
    let mut options = common(target, extent);
    options.extend(workload.options());
    options.push(format!("--runtime={}ms", time.as_millis()));
    if workload.reads() {
        // Never a reason to write to a disk that is only to be read.
        options.push("--readonly".to_owned());
    }
    ask(&options, time + PATIENCE)
}

/// Writes the files that are read later, once from beginning to end.
///
/// # Errors
/// [`BenchError::Tool`] when fio isn't installed or doesn't end in time, [`BenchError::Failed`]
/// when it fails, [`BenchError::Unreadable`] when its answer isn't fio 3's.
pub fn fill(folder: &Path, extent: Extent) -> Result<(), BenchError> {
    let mut options = common(Target::Folder(folder), extent);
    options.extend(["--rw=write", "--bs=1M", "--direct=1", "--end_fsync=1"].map(str::to_owned));
    options.extend(["--ioengine=libaio", "--iodepth=4"].map(str::to_owned));
    ask(&options, PATIENCE * 10).map(drop)
}

fn common(target: Target<'_>, extent: Extent) -> Vec<String> {
    let mut options: Vec<String> = [
        "--name=braid",
        "--output-format=json",
        "--group_reporting",
        "--refill_buffers",
        "--randrepeat=0",
        "--norandommap",
    ]
    .map(str::to_owned)
    .to_vec();
    options.push(format!("--size={}", extent.size.bytes()));
    options.push(format!("--numjobs={}", extent.programs));
    match target {
        Target::Folder(folder) => {
            options.extend([format!("--directory={}", escaped(&folder.to_string_lossy()))]);
            options.push(FILE_NAMES.to_owned());
        }
        Target::Device(path) => options.push(format!("--filename={}", escaped(path))),
    }
    options
}

/// fio takes several colon-separated paths.
fn escaped(path: &str) -> String {
    path.replace(':', "\\:")
}

fn ask(options: &[String], limit: Duration) -> Result<FioAnswer, BenchError> {
    let command: Vec<OsString> =
        std::iter::once("fio".into()).chain(options.iter().map(OsString::from)).collect();
    // On SIGTERM it ends its programs, in case this process is killed.
    let words = lifeline::arguments("TERM", &[], &command);
    // All of it was text.
    let words: Vec<&str> = words.iter().filter_map(|word| word.to_str()).collect();
    let answer = tool::ask(lifeline::PROGRAM, &words, limit)?;
    match answer.status {
        Some(0) => FioAnswer::parse(&answer.out),
        Some(NOT_FOUND) => Err(ToolError::Missing("fio".to_owned()).into()),
        _ => Err(BenchError::failed("fio", &[answer.err, answer.out].join("\n"))),
    }
}
