use crate::console::Console;
use crate::disk::DiskImage;
use crate::error::{Unavailable, VmError};
use crate::guard::Guard;
use crate::guest::Errand;
use crate::parts::{self, Parts};
use crate::processor::Processor;
use crate::running::{Output, Running};
use braid_units::ByteSize;
use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// The limit of User Mode Linux's driver (arch/um/drivers/ubd_kern.c).
const MAX_DISKS: usize = 16;
/// How far the kernel counts for a busy wait of 10 ms: on a slower processor it waits longer.
const LOOPS_PER_JIFFY: u32 = 20_000_000;
const DEFAULT_MEMORY: ByteSize = ByteSize::from_bytes(1 << 31);
const DEFAULT_TIME_LIMIT: Duration = Duration::from_secs(600);

/// A machine to start, once or several times, each time from scratch.
#[derive(Clone, Debug)]
pub struct Vm {
    parts: Parts,
    memory: ByteSize,
    disks: Vec<DiskImage>,
    writable: Vec<PathBuf>,
    kernel_arguments: Vec<String>,
    variables: Vec<(OsString, OsString)>,
    host_name: String,
    time_limit: Duration,
    echo: bool,
    record: Option<PathBuf>,
}

impl Vm {
    /// A machine from what is installed here: 2 GiB of memory (used as needed), no disks, 10
    /// minutes.
    ///
    /// # Errors
    /// What is missing.
    pub fn find() -> Result<Self, Unavailable> {
        Ok(Vm {
            parts: Parts::find()?,
            memory: DEFAULT_MEMORY,
            disks: Vec::new(),
            writable: Vec::new(),
            kernel_arguments: Vec::new(),
            variables: Vec::new(),
            host_name: "vm".to_owned(),
            time_limit: DEFAULT_TIME_LIMIT,
            echo: false,
            record: None,
        })
    }

    /// Sets its memory. Files written outside the disks and writable folders are in there, too.
    pub fn memory(mut self, size: ByteSize) -> Self {
        self.memory = size;
        self
    }

    /// Adds a disk: the first is /dev/ubda, the second /dev/ubdb. The command finds all in
    /// `$VM_DISKS`.
    pub fn disk(mut self, image: &DiskImage) -> Self {
        self.disks.push(image.clone());
        self
    }

    /// Makes a folder of the host writable, at the same path.
    pub fn writable(mut self, folder: &Path) -> Self {
        self.writable.push(folder.to_path_buf());
        self
    }

    /// Adds a kernel argument, such as `max_loop=8`.
    pub fn kernel_argument(mut self, argument: &str) -> Self {
        self.kernel_arguments.push(argument.to_owned());
        self
    }

    /// Sets a variable in the command's environment, which is otherwise clean.
    pub fn variable(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.variables.push((name.into(), value.into()));
        self
    }

    /// Sets its host name; the default is `vm`.
    pub fn host_name(mut self, name: &str) -> Self {
        self.host_name = name.to_owned();
        self
    }

    /// Sets the time after which it is ended.
    pub fn time_limit(mut self, limit: Duration) -> Self {
        self.time_limit = limit;
        self
    }

    /// Copies the command's output to standard output while it runs.
    pub fn echo(mut self) -> Self {
        self.echo = true;
        self
    }

    /// Records everything that it does to its disks in this file, which is overwritten, for
    /// [`Recording`](crate::Recording).
    pub fn record(mut self, to: &Path) -> Self {
        self.record = Some(to.to_path_buf());
        self
    }

    /// Boots, runs the command as root in the current folder, and returns when it has ended.
    ///
    /// # Errors
    /// The machine couldn't be started, or it or the time ended first. A command
    /// that fails is no error: see [`Output::status`].
    pub fn run<W: Into<OsString>>(
        &self,
        argv: impl IntoIterator<Item = W>,
    ) -> Result<Output, VmError> {
        self.start(argv)?.wait()
    }

    /// Like [`Vm::run`], but returns at once.
    ///
    /// # Errors
    /// The machine couldn't be started.
    pub fn start<W: Into<OsString>>(
        &self,
        argv: impl IntoIterator<Item = W>,
    ) -> Result<Running, VmError> {
        let argv: Vec<OsString> = argv.into_iter().map(Into::into).collect();
        self.check(&argv)?;
        let share = tempfile::Builder::new()
            .prefix("braid-vm-")
            .tempdir_in(parts::shared_folder())
            .map_err(VmError::io("can't make a folder for the VM"))?;
        let init = self.errand(&argv, share.path())?;
        let mut command = self.command(share.path(), &init)?;
        let log = share.path().join("kernel.log");
        let stderr = File::create(&log).map_err(VmError::io("can't make the VM's log"))?;
        let processor = Processor::choose();
        if let Some(processor) = &processor {
            processor.run_there(&mut command);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(stderr);
        let kernel = self.parts.kernel.display();
        let mut child = command.spawn().map_err(VmError::io(format!("can't start {kernel}")))?;
        let console = child.stdout.take().map(|stdout| Console::read(stdout, self.echo));
        // From here on, dropping this ends the machine.
        let mut running = Running::new(child, console, share, log, self.time_limit, processor);
        let guard = Guard::of(running.id()).map_err(VmError::io("can't start the VM's guard"))?;
        running.guard(guard);
        Ok(running)
    }

    fn check(&self, argv: &[OsString]) -> Result<(), VmError> {
        if argv.is_empty() {
            return Err(VmError::Unfit("there is no command for the VM".to_owned()));
        }
        if self.disks.len() > MAX_DISKS {
            return Err(VmError::Unfit(format!("a VM can have {MAX_DISKS} disks")));
        }
        if self.host_name.is_empty() || self.host_name.contains(char::is_whitespace) {
            return Err(VmError::Unfit(format!("{:?} is no host name", self.host_name)));
        }
        let spaced = self.disks.iter().map(DiskImage::path).find(|path| has_space(path));
        if let Some(path) = spaced {
            // The kernel's command line doesn't support quotes.
            return Err(VmError::Unfit(format!("{}: no spaces, please", path.display())));
        }
        Ok(())
    }

    fn errand(&self, argv: &[OsString], share: &Path) -> Result<PathBuf, VmError> {
        let writable = self
            .writable
            .iter()
            .map(|folder| {
                folder
                    .canonicalize()
                    .map_err(VmError::io(format!("can't share {}", folder.display())))
            })
            .collect::<Result<Vec<_>, _>>()?;
        let mut variables = self.variables.clone();
        let disks: Vec<String> = (0..self.disks.len()).filter_map(Self::disk_device).collect();
        variables.push(("VM_DISKS".into(), disks.join(" ").into()));
        Errand {
            argv,
            variables: &variables,
            working_folder: &std::env::current_dir().unwrap_or_else(|_| "/".into()),
            host_name: &self.host_name,
            writable: &writable,
            modules: &self.parts.modules,
        }
        .write(share)
    }

    /// The device of disk number `number`, from 0; `None` past the last possible.
    pub fn disk_device(number: usize) -> Option<String> {
        let letter = char::from(b'a' + u8::try_from(number).ok().filter(|&n| n < 16)?);
        Some(format!("/dev/ubd{letter}"))
    }

    fn command(&self, share: &Path, init: &Path) -> Result<Command, VmError> {
        let mut command = Command::new(&self.parts.kernel);
        command.arg(format!("mem={}K", self.memory.bytes() / 1024));
        command.args(["rootfstype=hostfs", "rootflags=/", "ro"]);
        command.args(["quiet", "loglevel=3", "panic=-1"]);
        // Otherwise it would start a process for each of 512 unused terminals, and calibrate its
        // busy loop: half a second.
        command.args(["pty.legacy_count=0", &format!("lpj={LOOPS_PER_JIFFY}")]);
        // The first console takes the kernel's messages, the second the command's.
        command.args(["con=null", "con0=null,fd:2", "con1=null,fd:1"]);
        let mut with_path = |name: &str, path: &Path| {
            let mut argument = OsString::from(name);
            argument.push(path);
            command.arg(argument);
        };
        with_path("init=", init);
        with_path("uml_dir=", share);
        for (number, disk) in self.disks.iter().enumerate() {
            with_path(&format!("ubd{number}="), disk.path());
        }
        command.args(&self.kernel_arguments);
        command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        command.env("TMPDIR", parts::memory_folder(self.memory));
        // Otherwise the host would handle restartable sequences at each of its processes' many
        // stops.
        command.env("GLIBC_TUNABLES", "glibc.pthread.rseq=0");
        let mut libraries =
            vec![("ptrace.so", parts::PTRACE_LIBRARY), ("clock.so", parts::CLOCK_LIBRARY)];
        if let Some(record) = &self.record {
            File::create(record)
                .map_err(VmError::io(format!("can't record in {}", record.display())))?;
            command.env("BRAID_VM_RECORD", record);
            libraries.push(("record.so", parts::RECORD_LIBRARY));
        }
        command.env("LD_PRELOAD", preloaded(share, &libraries)?);
        // Its own process group, which its many processes share and end with.
        command.process_group(0);
        Ok(command)
    }
}

/// Writes the non-empty libraries to `share`; returns the value of ld.so(8)'s preload list.
fn preloaded(share: &Path, libraries: &[(&str, &[u8])]) -> Result<OsString, VmError> {
    let mut paths = OsString::new();
    for (name, bytes) in libraries.iter().filter(|(_, bytes)| !bytes.is_empty()) {
        let path = share.join(name);
        fs::write(&path, bytes).map_err(VmError::io(format!("can't write {}", path.display())))?;
        if !paths.is_empty() {
            paths.push(":");
        }
        paths.push(path);
    }
    Ok(paths)
}

fn has_space(path: &Path) -> bool {
    path.to_string_lossy().contains(char::is_whitespace)
}
