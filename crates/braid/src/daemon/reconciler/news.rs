//! What wakes the reconciler: changes of the host's network and firewall, neighbour solicitations,
//! other threads.

use braid_linux::netlink::Monitor;
use braid_linux::nft;
use braid_linux::poller::{Interest, Poller, Token, Waker};
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

/// Listens to the kernel.
pub struct News {
    poller: Poller,
    monitor: Monitor,
    /// `None` on a kernel without nftables.
    firewall: Option<nft::Watch>,
}

const MONITOR: Token = Token(0);
const QUESTION: Token = Token(1);
const PROXY: Token = Token(2);
const FIREWALL: Token = Token(3);

impl News {
    /// Starts listening; other threads wake it with the waker.
    pub fn open() -> io::Result<(News, Waker)> {
        let poller = Poller::new()?;
        let waker = poller.waker(QUESTION)?;
        let monitor = Monitor::open()?;
        poller.add(&monitor, MONITOR, Interest::Read)?;
        // If this fails, so do rules, which is reported when some are set.
        let firewall = nft::Watch::open().ok();
        if let Some(firewall) = &firewall {
            poller.add(firewall, FIREWALL, Interest::Read)?;
        }
        Ok((News { poller, monitor, firewall }, waker))
    }

    /// Also wakes for neighbour solicitations here, until it is closed.
    pub fn listen_to(&self, proxy: &impl AsFd) -> io::Result<()> {
        self.poller.add(proxy, PROXY, Interest::Read)
    }

    /// Waits until something wakes it, or `most` has passed.
    pub fn wait(&mut self, most: Duration) -> io::Result<()> {
        self.poller.wait(Some(most)).map(|events| events.for_each(drop))
    }

    /// Whether the host's network or firewall has changed since it was last asked.
    pub fn have_come(&mut self) -> bool {
        self.of_network() | self.of_firewall()
    }

    fn of_network(&mut self) -> bool {
        self.monitor.drain().unwrap_or_else(|error| {
            tracing::warn!(%error, "network notifications from the kernel were lost");
            true
        })
    }

    /// Rules may be flushed, ours with them.
    fn of_firewall(&self) -> bool {
        let changed = self.firewall.as_ref().map_or(Ok(false), nft::Watch::drain);
        changed.unwrap_or_else(|error| {
            tracing::warn!(%error, "firewall notifications from the kernel were lost");
            true
        })
    }
}
