//! A journal that can't be written: the daemon continues, and reports that it needs space.

use braid_linux::journal::UndoJournal;

/// Why the journal isn't on disk, as last reported.
pub struct JournalTrouble {
    told: Option<String>,
    /// What a crash would leave behind meanwhile.
    left: &'static str,
}

impl JournalTrouble {
    /// No trouble yet; `left` says what a crash would leave behind meanwhile.
    pub fn new(left: &'static str) -> JournalTrouble {
        JournalTrouble { told: None, left }
    }

    /// Retries writing the journal. Returns whether it is written.
    pub fn follow(&mut self, journal: &mut UndoJournal) -> bool {
        journal.retry();
        let trouble = journal.trouble().map(str::to_owned);
        match &trouble {
            Some(trouble) if self.told.is_none() => tracing::warn!(
                "can't record what is set on the host ({trouble}): `braid down` undoes it, but \
                 after a crash {}",
                self.left
            ),
            None if self.told.is_some() => {
                tracing::info!("what is set on the host is recorded again");
            }
            _ => {}
        }
        self.told = trouble;
        self.told.is_none()
    }
}
