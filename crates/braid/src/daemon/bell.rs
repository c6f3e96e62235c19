//! Has the bridge look at what the data plane tells, as soon as there is something.

use super::data_channel::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Weak};

/// Rings by a command, of which no more than one waits.
#[derive(Clone)]
pub struct Bell {
    commands: Weak<Sender<Command>>,
    rung: Arc<AtomicBool>,
}

impl Bell {
    /// One for who takes these commands.
    pub fn new(commands: Weak<Sender<Command>>) -> Bell {
        Bell { commands, rung: Arc::default() }
    }

    /// There is something.
    pub fn ring(&self) {
        if !self.rung.swap(true, Ordering::AcqRel)
            && let Some(commands) = self.commands.upgrade()
        {
            // Nobody is there to hear it any more, else.
            let _ = commands.send(Command::Hear);
        }
    }

    /// Before one looks: what is told from now on rings again.
    pub fn heard(&self) {
        self.rung.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{TryRecvError, channel};

    #[test]
    fn it_rings_once_until_it_was_heard_and_keeps_nobody_waiting() {
        let (sender, commands) = channel();
        let sender = Arc::new(sender);
        let bell = Bell::new(Arc::downgrade(&sender));
        bell.ring();
        bell.clone().ring();
        assert!(matches!(commands.try_recv(), Ok(Command::Hear)));
        assert!(matches!(commands.try_recv(), Err(TryRecvError::Empty)));
        bell.heard();
        bell.ring();
        assert!(matches!(commands.try_recv(), Ok(Command::Hear)));
        bell.heard();
        drop(sender);
        bell.ring();
        assert!(matches!(commands.try_recv(), Err(TryRecvError::Disconnected)));
    }
}
