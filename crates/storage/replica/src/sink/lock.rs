use crate::error::Error;
use crate::files::open_own;
use std::fs::{File, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::Path;
use std::time::{Duration, Instant};

/// While it exists, nobody else receives into the folder.
pub struct Lock {
    _file: File,
}

/// Longer than a receiver waits for a silent source, so that a client reconnecting after a broken
/// connection outlasts its remains.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK_AGAIN: Duration = Duration::from_millis(100);

impl Lock {
    /// Takes the lock at `path`, waiting a while for its holder.
    ///
    /// # Errors
    /// It is held all the time.
    pub fn take(path: &Path) -> Result<Lock, Error> {
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = open_own(path, &mut options).map_err(|e| Error::io("opening", path, e))?;
        let until = Instant::now() + PATIENCE;
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => return Err(Error::io("locking", path, error)),
            }
            if Instant::now() > until {
                let mut holder = String::new();
                // The process id is only a hint.
                let _ = file.read_to_string(&mut holder);
                return Err(Error::Refused(format!(
                    "another replication into this folder is running (process {}); wait for it",
                    holder.trim()
                )));
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        let say_who = |file: &mut File| -> std::io::Result<()> {
            file.set_len(0)?;
            file.rewind()?;
            writeln!(file, "{}", std::process::id())
        };
        // If there is no room for it the lock still holds: it may be held to make room.
        let _ = say_who(&mut file);
        Ok(Lock { _file: file })
    }
}
