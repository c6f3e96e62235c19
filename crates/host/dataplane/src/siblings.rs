//! Handovers from one worker to the others, in batches with one wake-up each.

use braid_linux::poller::Waker;
use braid_tunnel::{Handover, Tunnel};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Maximum batches waiting for a worker, each from one turn of another; more are lost, as in any
/// full queue. Some 20 ms of a worker's rate.
const WAITING: usize = 64;

/// All workers, from the view of one of them.
pub(crate) struct Siblings {
    all: Vec<Sibling>,
    /// Handovers for each of them, collected until the end of the turn.
    batches: Vec<Vec<Handover>>,
    /// Lost because a worker's queue was full.
    dropped: u64,
}

/// Another worker.
#[derive(Clone)]
pub(crate) struct Sibling {
    inbox: SyncSender<Vec<Handover>>,
    waker: Waker,
}

impl Sibling {
    /// A channel to the worker with this waker, and the receiver for it.
    pub fn new(waker: Waker) -> (Self, Receiver<Vec<Handover>>) {
        let (inbox, handovers) = sync_channel(WAITING);
        (Self { inbox, waker }, handovers)
    }
}

impl Siblings {
    /// Takes the workers in order of their numbers.
    pub fn new(all: Vec<Sibling>) -> Self {
        let batches = all.iter().map(|_| Vec::new()).collect();
        Self { all, batches, dropped: 0 }
    }

    /// Hands over what the tunnel has for other workers.
    pub fn hand_over(&mut self, tunnel: &mut Tunnel) {
        let mut any = false;
        while let Some((to, handover)) = tunnel.poll_handover() {
            any = true;
            if let Some(batch) = self.batches.get_mut(usize::from(to)) {
                batch.push(handover);
            }
        }
        if !any {
            return;
        }
        for (sibling, batch) in self.all.iter().zip(&mut self.batches) {
            if batch.is_empty() {
                continue;
            }
            let count = batch.len() as u64;
            match sibling.inbox.try_send(std::mem::take(batch)) {
                Ok(()) => sibling.waker.wake(),
                Err(_) => self.dropped += count,
            }
        }
    }

    /// Datagrams and packets that a worker couldn't accept.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}
