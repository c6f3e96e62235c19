//! Sockets that the kernel refuses to watch: each needs kernel memory, and the number per user is
//! limited (epoll(7), `max_user_watches`). Their links are unusable meanwhile.

use crate::sockets::SocketUse;
use braid_linux::udp::{Family, LinkSocket};
use braid_tunnel::{LinkConfig, LinkId};
use braid_units::Time;
use std::io;
use std::time::Duration;

/// Retry interval. A shortage of memory is over soon, and a retry costs one call.
const AGAIN: Duration = Duration::from_secs(1);

/// A socket for a link.
#[derive(Debug)]
pub(crate) struct Attachment {
    /// Which link.
    pub id: LinkId,
    /// How the link is to be used.
    pub config: LinkConfig,
    /// Replaces a socket of the same IP version.
    pub socket: LinkSocket,
    /// What it is for.
    pub use_of_it: SocketUse,
}

/// Sockets waiting for a retry.
#[derive(Debug, Default)]
pub(crate) struct Unwatched {
    waiting: Vec<(Attachment, io::Error)>,
    again: Option<Time>,
}

impl Unwatched {
    /// Adds a refused socket.
    pub fn put(&mut self, refused: Attachment, error: io::Error, now: Time) {
        self.waiting.push((refused, error));
        self.again.get_or_insert(now + AGAIN);
    }

    /// All of them, if it is time to retry.
    pub fn due(&mut self, now: Time) -> Vec<Attachment> {
        match self.again.take_if(|at| *at <= now) {
            Some(_) => self.waiting.drain(..).map(|(attachment, _)| attachment).collect(),
            None => Vec::new(),
        }
    }

    /// When they are due.
    pub fn next_timeout(&self) -> Option<Time> {
        self.again
    }

    /// Drops the socket: the link has another of this IP version, or shall have none.
    pub fn forget(&mut self, id: LinkId, family: Family) {
        self.retain(|waiting| waiting.id != id || waiting.socket.family() != family);
    }

    /// Drops the sockets of a removed link.
    pub fn forget_link(&mut self, id: LinkId) {
        self.retain(|waiting| waiting.id != id);
    }

    /// Changes the settings of a link.
    pub fn set(&mut self, id: LinkId, config: LinkConfig) {
        let of_it = self.waiting.iter_mut().filter(|(waiting, _)| waiting.id == id);
        of_it.for_each(|(waiting, _)| waiting.config = config);
    }

    /// Their links, and the kernel's errors.
    pub fn told(&self) -> Vec<(LinkId, String)> {
        self.waiting.iter().map(|(waiting, error)| (waiting.id, error.to_string())).collect()
    }

    fn retain(&mut self, stays: impl Fn(&Attachment) -> bool) {
        self.waiting.retain(|(waiting, _)| stays(waiting));
        if self.waiting.is_empty() {
            self.again = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use braid_linux::udp::LinkBind;

    fn attachment(id: u16) -> Attachment {
        let socket = LinkSocket::open(&LinkBind {
            device: None,
            source: Some(std::net::Ipv4Addr::LOCALHOST.into()),
            fwmark: None,
            port: 0,
            family: Family::V4,
        });
        let (config, use_of_it) = (LinkConfig::default(), SocketUse::Both);
        Attachment { id: LinkId(id), config, socket: socket.unwrap(), use_of_it }
    }

    fn refused() -> io::Error {
        io::ErrorKind::OutOfMemory.into()
    }

    #[test]
    fn what_was_refused_is_due_once_and_again_when_it_is_refused_again() {
        let (mut unwatched, start) = (Unwatched::default(), Time::ZERO);
        assert_eq!(unwatched.next_timeout(), None);
        unwatched.put(attachment(1), refused(), start);
        unwatched.put(attachment(2), refused(), start + AGAIN / 2);
        assert_eq!(unwatched.told().len(), 2);
        assert!(unwatched.due(start + AGAIN / 2).is_empty());
        assert_eq!(unwatched.next_timeout(), Some(start + AGAIN));
        let due = unwatched.due(start + AGAIN);
        assert_eq!(due.iter().map(|it| it.id.0).collect::<Vec<_>>(), [1, 2]);
        assert_eq!((unwatched.told(), unwatched.next_timeout()), (Vec::new(), None));
        for again in due {
            unwatched.put(again, refused(), start + AGAIN);
        }
        assert_eq!(unwatched.next_timeout(), Some(start + 2 * AGAIN));
    }

    #[test]
    fn what_becomes_of_a_link_meanwhile_counts() {
        let (mut unwatched, start) = (Unwatched::default(), Time::ZERO);
        for id in [1, 2, 3] {
            unwatched.put(attachment(id), refused(), start);
        }
        let config = LinkConfig { listens: true, ..LinkConfig::default() };
        unwatched.set(LinkId(1), config);
        unwatched.forget(LinkId(1), Family::V6);
        unwatched.forget(LinkId(2), Family::V4);
        unwatched.forget_link(LinkId(3));
        let due = unwatched.due(start + AGAIN);
        assert_eq!(due.iter().map(|it| (it.id.0, it.config)).collect::<Vec<_>>(), [(1, config)]);
        unwatched.put(attachment(4), refused(), start);
        unwatched.forget_link(LinkId(4));
        assert_eq!(unwatched.next_timeout(), None, "nothing waits");
    }
}
