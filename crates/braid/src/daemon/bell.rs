//! Makes the bridge read the data plane's events as soon as there are some.

use super::data_channel::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Weak};

/// Rings by sending a command, at most one at a time.
#[derive(Clone)]
pub struct Bell {
    commands: Weak<Sender<Command>>,
    rung: Arc<AtomicBool>,
}

impl Bell {
    /// A bell for the receiver of these commands.
    pub fn new(commands: Weak<Sender<Command>>) -> Bell {
        Bell { commands, rung: Arc::default() }
    }

    /// Signals that there is an event.
    pub fn ring(&self) {
        if !self.rung.swap(true, Ordering::AcqRel)
            && let Some(commands) = self.commands.upgrade()
        {
            // If this fails, the receiver is gone.
            let _ = commands.send(Command::Hear);
        }
    }

    /// Call it before reading: events from now on ring again.
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
