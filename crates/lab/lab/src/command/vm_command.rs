//! `braid lab vm`.

use super::{NO_LAB, NOT_MEASURED};
use braid_units::{ByteSize, QuantityError, parse_duration};
use braid_vm::{DiskImage, Vm, VmError};
use clap::Args;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// The exit status of timeout(1).
const TIME_OVER: u8 = 124;

/// `braid lab vm`.
#[derive(Debug, Args)]
pub struct VmArgs {
    /// Give it an empty disk of this size, such as 300MB: /dev/ubda, the next /dev/ubdb; may be
    /// repeated
    #[arg(short, long = "disk", value_name = "SIZE", value_parser = size)]
    pub disks: Vec<ByteSize>,
    /// Give it this file as a disk, after those of --disk; may be repeated
    #[arg(long = "image", value_name = "FILE")]
    pub images: Vec<PathBuf>,
    /// Let it write to this folder of the host; may be repeated
    #[arg(short, long, value_name = "DIR")]
    pub writable: Vec<PathBuf>,
    /// Its memory
    #[arg(short, long, default_value = "2GiB", value_parser = size)]
    pub memory: ByteSize,
    /// Argument for its kernel; may be repeated
    #[arg(short = 'a', long = "kernel-argument", value_name = "ARG")]
    pub kernel_arguments: Vec<String>,
    /// Cut its power after this time
    #[arg(short, long, default_value = "10m", value_name = "TIME", value_parser = parse_duration)]
    pub time_limit: Duration,
    /// Command to run in it
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub command: Vec<OsString>,
}

fn size(text: &str) -> Result<ByteSize, QuantityError> {
    text.parse()
}

pub(super) fn execute(args: &VmArgs) -> ExitCode {
    match run(args) {
        Ok(status) => ExitCode::from(u8::try_from(status).unwrap_or(u8::MAX)),
        Err(error) => {
            // Its console was shown while it ran.
            let (code, message) = match &error {
                VmError::Unavailable(_) => (NO_LAB, error.to_string()),
                VmError::TimeLimit { limit, .. } => {
                    (TIME_OVER, format!("the VM was cut off after {} s", limit.as_secs()))
                }
                VmError::Died { kernel_log, .. } => {
                    (NOT_MEASURED, format!("the VM ended before its command:\n{kernel_log}"))
                }
                _ => (NOT_MEASURED, error.to_string()),
            };
            eprintln!("braid lab vm: {message}");
            ExitCode::from(code)
        }
    }
}

fn run(args: &VmArgs) -> Result<i32, VmError> {
    let mut vm = Vm::find()?.memory(args.memory).time_limit(args.time_limit).echo();
    let failed = |what: String| move |source| VmError::Io { what, source };
    for size in &args.disks {
        vm = vm.disk(&DiskImage::temporary(*size).map_err(failed(format!("a disk of {size}")))?);
    }
    for path in &args.images {
        let image = DiskImage::existing(path).map_err(failed(path.display().to_string()))?;
        vm = vm.disk(&image);
    }
    for folder in &args.writable {
        vm = vm.writable(folder);
    }
    for argument in &args.kernel_arguments {
        vm = vm.kernel_argument(argument);
    }
    Ok(vm.run(&args.command)?.status)
}
