//! A journal that can't be written: the daemon goes on, and who has to make room is told.

use braid_linux::journal::UndoJournal;

/// Why the journal isn't on disk, as last told.
pub struct JournalTrouble {
    told: Option<String>,
    /// What a crash would leave meanwhile.
    left: &'static str,
}

impl JournalTrouble {
    /// None yet; `left` says what becomes of the host after a crash meanwhile.
    pub fn new(left: &'static str) -> JournalTrouble {
        JournalTrouble { told: None, left }
    }

    /// Has the journal write what it couldn't before. Tells whether all is written.
    pub fn follow(&mut self, journal: &mut UndoJournal) -> bool {
        journal.retry();
        let trouble = journal.trouble().map(str::to_owned);
        match &trouble {
            Some(trouble) if self.told.is_none() => tracing::warn!(
                "can't write down what is set on the host ({trouble}): `braid down` takes it back, \
                 but after a crash {}",
                self.left
            ),
            None if self.told.is_some() => {
                tracing::info!("what is set on the host is written down again");
            }
            _ => {}
        }
        self.told = trouble;
        self.told.is_none()
    }
}
