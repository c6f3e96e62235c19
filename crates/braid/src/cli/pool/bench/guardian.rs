//! Cleans up after a bench that was killed: a separate process, which outlives it. While the bench
//! runs, it holds the other end of the guardian's input open; if that closes without a word, the
//! bench was killed.

use super::Bench;
use crate::cli::failure::Failure;
use crate::cli::pool::carry_out::{StateFolders, go_back};
use braid_diskbench::{remains, temporary_pool};
use clap::Args;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// fio and the servers are stopped when the bench ends, but may keep writing for a while.
const PATIENCE: Duration = Duration::from_secs(120);
const TRY_EVERY: Duration = Duration::from_millis(500);

#[derive(Args)]
pub struct BenchGuardian {
    /// The bench's process
    #[arg(long)]
    of: u32,
    /// Where it makes files
    #[arg(long)]
    folder: Vec<PathBuf>,
    /// It makes pools of disks
    #[arg(long)]
    takes_down: bool,
    #[command(flatten)]
    place: StateFolders,
}

impl BenchGuardian {
    pub fn run(&self) -> Result<(), Failure> {
        let mut word = Vec::new();
        let heard = std::io::stdin().read_to_end(&mut word);
        heard.map_err(|error| Failure::io("listening to the bench", &error))?;
        if !word.is_empty() {
            return Ok(());
        }
        let begun = Instant::now();
        loop {
            let failed = match self.clean_up() {
                Ok(()) => return Ok(()),
                Err(failure) if begun.elapsed() > PATIENCE => failure,
                Err(_) => {
                    std::thread::sleep(TRY_EVERY);
                    continue;
                }
            };
            return Err(failed);
        }
    }

    fn clean_up(&self) -> Result<(), Failure> {
        for folder in &self.folder {
            remains::remove(folder, |pid| pid == self.of)?;
        }
        if self.takes_down { take_down(&self.place) } else { Ok(()) }
    }
}

/// This process's guardian. It exits when told that all is done; if this process ends otherwise, it
/// cleans up.
pub struct Guarded(Child);

impl Guarded {
    /// Starts it in its own process group, which Ctrl-C doesn't reach.
    pub fn start(
        bench: &Bench,
        folder: &std::path::Path,
        takes_down: bool,
    ) -> Result<Guarded, Failure> {
        let failed = |error| Failure::io("starting the bench's guardian", &error);
        let mut command = Command::new(std::env::current_exe().map_err(failed)?);
        command.args(["pool", "bench-guardian", "--of", &std::process::id().to_string()]);
        command.arg("--folder").arg(folder).arg("--folder").arg(std::env::temp_dir());
        if takes_down {
            command.arg("--takes-down");
        }
        bench.consent.place.pass_on(&mut command);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        command.current_dir("/").spawn().map(Guarded).map_err(failed)
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        if let Some(mut input) = self.0.stdin.take() {
            // It may have exited already.
            let _ = input.write_all(b"done");
        }
        let _ = self.0.wait();
    }
}

/// Takes down the pool that an earlier bench left, if any. It is an error if a bench still runs, or
/// was just killed and still holds its journal, which may outlast the guardian's input for a
/// moment.
pub fn take_down(place: &StateFolders) -> Result<(), Failure> {
    let left = place.state().unfinished()?;
    if !left.iter().any(|(pool, _)| pool == temporary_pool::NAME) {
        return Ok(());
    }
    let mut journal = place.state().reopen(temporary_pool::NAME)?;
    go_back(&mut journal, place).map(drop)
}
