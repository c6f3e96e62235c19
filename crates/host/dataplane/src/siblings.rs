//! What one worker has for the others: handed over by the batch, one wake-up each.

use braid_linux::poller::Waker;
use braid_tunnel::{Handover, Tunnel};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Batches that wait for a worker at the most, of a turn of another's each; more are lost, as in
/// any full queue. Some 20 ms of what one carries.
const WAITING: usize = 64;

/// All workers, as one of them sees them.
pub(crate) struct Siblings {
    all: Vec<Sibling>,
    /// For each of them, until the turn's end.
    batches: Vec<Vec<Handover>>,
    /// Lost since a worker had too much.
    dropped: u64,
}

/// Another worker.
#[derive(Clone)]
pub(crate) struct Sibling {
    inbox: SyncSender<Vec<Handover>>,
    waker: Waker,
}

impl Sibling {
    /// A way to hand over to the worker that this waker wakes, and its end there.
    pub fn new(waker: Waker) -> (Self, Receiver<Vec<Handover>>) {
        let (inbox, handovers) = sync_channel(WAITING);
        (Self { inbox, waker }, handovers)
    }
}

impl Siblings {
    /// In the order of their numbers.
    pub fn new(all: Vec<Sibling>) -> Self {
        let batches = all.iter().map(|_| Vec::new()).collect();
        Self { all, batches, dropped: 0 }
    }

    /// Hands over what the tunnel has for others.
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

    /// Datagrams and packets that a worker couldn't take.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}
