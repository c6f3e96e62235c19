//! A host that exists only in memory, and can be killed at any moment: for tests.

use crate::journal::{Event, JournalError, Log, Record, bytes_of};
use crate::progress::Progress;
use crate::system::{Answer, LeftBehind, System, SystemError, Waking};
use braid_pool::step::{Action, Condition, Plan};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::rc::Rc;

/// Counts the moments at which a process can be killed, and kills it at one of them. From then
/// on nothing has any effect, until [`Fate::revive`].
#[derive(Clone, Debug, Default)]
pub struct Fate {
    left: Rc<Cell<Option<u32>>>,
    passed: Rc<Cell<u32>>,
}

/// Files and kernel values, without disks. It has two programs: `set PATH VALUE…` sets kernel
/// values one after the other, so that it can be killed half way, and `unset PATH…` removes them.
#[derive(Clone, Debug)]
pub struct SimulatedHost {
    /// Text by path.
    pub files: BTreeMap<String, String>,
    /// Directories.
    pub folders: Vec<String>,
    /// Values by path.
    pub kernel: BTreeMap<String, String>,
    fate: Fate,
}

/// A host's contents. A file without lines counts as none: undoing leaves it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostState {
    files: BTreeMap<String, Vec<String>>,
    folders: BTreeSet<String>,
    kernel: BTreeMap<String, String>,
}

/// A journal in memory. The line that a killed process was writing is torn.
#[derive(Clone, Debug)]
pub struct SimulatedLog {
    bytes: Vec<u8>,
    record: Record,
    fate: Fate,
}

impl Fate {
    /// Dies after this many moments.
    pub fn dies_after(moments: u32) -> Fate {
        let fate = Fate::default();
        fate.left.set(Some(moments));
        fate
    }

    /// Whether it is over; each call is a moment that passes.
    pub fn strikes(&self) -> bool {
        self.passed.set(self.passed.get() + 1);
        match self.left.get() {
            None => false,
            Some(0) => true,
            Some(left) => {
                self.left.set(Some(left - 1));
                false
            }
        }
    }

    /// Restarts the process, to die after this many moments, or never again.
    pub fn revive(&self, moments: Option<u32>) {
        self.left.set(moments);
    }

    /// Total number of moments passed.
    pub fn passed(&self) -> u32 {
        self.passed.get()
    }
}

impl SimulatedHost {
    /// An empty host.
    pub fn new(fate: &Fate) -> SimulatedHost {
        SimulatedHost {
            files: BTreeMap::new(),
            folders: Vec::new(),
            kernel: BTreeMap::new(),
            fate: fate.clone(),
        }
    }

    /// Its contents, for comparison.
    pub fn state(&self) -> HostState {
        let lines = |text: &String| text.lines().map(str::to_owned).collect::<Vec<_>>();
        HostState {
            files: self
                .files
                .iter()
                .map(|(path, text)| (path.clone(), lines(text)))
                .filter(|(_, lines)| !lines.is_empty())
                .collect(),
            folders: self.folders.iter().cloned().collect(),
            kernel: self.kernel.clone(),
        }
    }

    /// The same host, with a fate of its own.
    pub fn with_fate(&self, fate: &Fate) -> SimulatedHost {
        SimulatedHost { fate: fate.clone(), ..self.clone() }
    }

    /// Kernel state is lost.
    pub fn reboot(&mut self) {
        self.kernel.clear();
    }

    fn alive(&self) -> Result<(), SystemError> {
        match self.fate.strikes() {
            true => Err(SystemError::Failed("killed".to_owned())),
            false => Ok(()),
        }
    }

    fn edit(&mut self, file: &str, edit: impl FnOnce(&str) -> String) {
        let old = self.files.get(file).cloned();
        let new = edit(old.as_deref().unwrap_or(""));
        if old.is_some() || !new.is_empty() {
            self.files.insert(file.to_owned(), new);
        }
    }

    fn has_line(&self, file: &str, line: &str) -> bool {
        self.files.get(file).is_some_and(|text| text.lines().any(|each| each == line))
    }
}

impl System for SimulatedHost {
    fn look(&mut self, condition: &Condition, _left: &LeftBehind) -> Result<Answer, SystemError> {
        self.alive()?;
        let so = match condition {
            Condition::Directory { path } => self.folders.contains(path),
            Condition::FileHasLine { file, line } => self.has_line(file, line),
            Condition::FileHolds { path, text } => self.files.get(path) == Some(text),
            Condition::KernelHas { path, value } => self.kernel.get(path) == Some(value),
            other => return Err(SystemError::Failed(format!("not simulated: {other}"))),
        };
        Ok(Answer::when(so, || "it is not so".to_owned()))
    }

    fn perform(
        &mut self,
        action: &Action,
        _tell: &mut dyn FnMut(&Progress),
    ) -> Result<(), SystemError> {
        self.alive()?;
        match action {
            Action::Run(argv) if argv.program == "set" => {
                for pair in argv.args.chunks_exact(2) {
                    let [path, value] = pair else { continue };
                    self.kernel.insert(path.clone(), value.clone());
                    self.alive()?;
                }
            }
            Action::Run(argv) if argv.program == "unset" => {
                argv.args.iter().for_each(|path| drop(self.kernel.remove(path)));
            }
            Action::SetKernel { path, value } => {
                self.kernel.insert(path.clone(), value.clone());
            }
            Action::WriteFile { path, text, .. } => {
                self.files.insert(path.clone(), text.clone());
            }
            Action::RemoveFile { path } => {
                self.files.remove(path);
            }
            Action::EnsureLine { file, line, instead_of } => {
                self.edit(file, |text| crate::host::with_line(text, line, instead_of.as_deref()))
            }
            Action::RemoveLine { file, line } => {
                self.edit(file, |text| crate::host::without_line(text, line));
            }
            Action::MakeDirectory { path } => {
                if !self.folders.contains(path) {
                    self.folders.push(path.clone());
                }
            }
            Action::RemoveDirectory { path } => self.folders.retain(|folder| folder != path),
            other => return Err(SystemError::Failed(format!("not simulated: {other}"))),
        }
        self.alive()
    }

    fn wake(&mut self, _plan: &Plan, _waking: Waking) -> Result<(), SystemError> {
        self.alive()
    }
}

impl SimulatedLog {
    /// A journal of this plan, not yet started.
    pub fn begin(plan: Plan, fate: &Fate) -> SimulatedLog {
        let plan = Box::new(plan);
        let record = Record::new((*plan).clone());
        let bytes = bytes_of(Event::Plan { version: crate::journal::VERSION, plan });
        SimulatedLog { bytes, record, fate: fate.clone() }
    }

    /// The same journal, with a fate of its own.
    pub fn with_fate(self, fate: &Fate) -> SimulatedLog {
        SimulatedLog { fate: fate.clone(), ..self }
    }

    /// What a new process reads from it.
    ///
    /// # Errors
    /// As [`Record::replay`] says.
    pub fn reopen(&self) -> Result<SimulatedLog, crate::journal::RecordError> {
        let (record, whole) = Record::replay(&self.bytes)?;
        let bytes = self.bytes[..whole].to_vec();
        Ok(SimulatedLog { bytes, record, fate: self.fate.clone() })
    }
}

impl Log for SimulatedLog {
    fn record(&self) -> &Record {
        &self.record
    }

    fn write(&mut self, event: Event) -> Result<(), JournalError> {
        let killed = || JournalError::Io {
            path: PathBuf::from("journal"),
            error: io::Error::other("killed"),
        };
        if self.fate.strikes() {
            return Err(killed());
        }
        let bytes = bytes_of(event.clone());
        if self.fate.strikes() {
            self.bytes.extend(&bytes[..bytes.len() / 2]);
            return Err(killed());
        }
        self.bytes.extend(&bytes);
        self.record.add(&event);
        if self.fate.strikes() { Err(killed()) } else { Ok(()) }
    }
}
