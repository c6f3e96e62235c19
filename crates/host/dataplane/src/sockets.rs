use braid_linux::poller::Interest;
use braid_linux::udp::{Family, LinkSocket, SendError, Transmit};
use std::collections::VecDeque;
use std::net::SocketAddr;

/// Maximum bytes waiting for a socket with a full buffer; more is lost, as in any full queue.
const PENDING: usize = 512 << 10;

/// The sockets of one link, one per IP version.
#[derive(Debug, Default)]
pub(crate) struct LinkSockets {
    /// For IPv4.
    pub v4: Option<LinkSocket>,
    /// For IPv6.
    pub v6: Option<LinkSocket>,
}

impl LinkSockets {
    /// The socket for this destination.
    pub fn towards(&self, remote: SocketAddr) -> Option<&LinkSocket> {
        if remote.is_ipv4() { self.v4.as_ref() } else { self.v6.as_ref() }
    }

    /// All its sockets.
    pub fn iter(&self) -> impl Iterator<Item = &LinkSocket> {
        self.v4.iter().chain(&self.v6)
    }

    /// The slot of the socket of this IP version.
    pub fn place(&mut self, family: Family) -> &mut Option<LinkSocket> {
        match family {
            Family::V4 => &mut self.v4,
            Family::V6 => &mut self.v6,
        }
    }

    /// The socket of this IP version.
    pub fn of(&self, family: Family) -> Option<&LinkSocket> {
        match family {
            Family::V4 => self.v4.as_ref(),
            Family::V6 => self.v6.as_ref(),
        }
    }
}

/// What a worker uses a socket for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SocketUse {
    /// Receiving and sending.
    #[default]
    Both,
    /// Sending; another worker receives and hands over.
    Sending,
    /// Receiving datagrams that belong to no session; sending uses another one.
    Strangers,
}

impl SocketUse {
    /// What such a socket is watched for; `writing` while data is pending.
    pub(crate) fn interest(self, writing: bool) -> Interest {
        match (self, writing) {
            (Self::Both, false) | (Self::Strangers, _) => Interest::Read,
            (Self::Both, true) => Interest::ReadWrite,
            (Self::Sending, false) => Interest::Nothing,
            (Self::Sending, true) => Interest::Write,
        }
    }
}

/// A link: its sockets and their pending data.
#[derive(Debug, Default)]
pub(crate) struct LinkOutput {
    pub sockets: LinkSockets,
    /// Sockets for strangers' datagrams, if separate from homes'.
    pub strangers: LinkSockets,
    pub use_of_sockets: SocketUse,
    pending: VecDeque<Pending>,
    pending_bytes: usize,
    /// Datagrams lost because the socket's buffer stayed full or it failed.
    pub dropped: u64,
}

#[derive(Debug)]
struct Pending {
    transmit: braid_tunnel::Transmit,
    contents: Vec<u8>,
}

/// The result of sending a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// The kernel has it, or it was lost, as on any link.
    Done,
    /// A datagram of this size was longer than the device's MTU.
    TooLong(usize),
}

impl LinkOutput {
    /// Drops pending data, as its socket is gone.
    pub fn forget_pending(&mut self) {
        self.pending.clear();
        self.pending_bytes = 0;
    }

    /// Drops and counts pending data, as nothing reports when there is room for it.
    pub fn lose_pending(&mut self) {
        self.dropped += self.pending.len() as u64;
        self.forget_pending();
    }

    /// Sends a batch, or keeps it until the socket is writable.
    pub fn send(&mut self, transmit: braid_tunnel::Transmit, contents: &[u8]) -> Sent {
        if !self.pending.is_empty() {
            self.keep(transmit, contents);
            return Sent::Done;
        }
        self.send_now(transmit, contents)
    }

    /// The socket is writable again.
    pub fn flush(&mut self) -> Sent {
        while let Some(Pending { transmit, contents }) = self.pending.pop_front() {
            self.pending_bytes -= contents.len();
            let waiting = self.pending.len();
            let sent = self.send_now(transmit, &contents);
            if sent != Sent::Done {
                return sent;
            }
            if self.pending.len() > waiting {
                // Full again: what was put back belongs at the front.
                self.pending.rotate_right(1);
                break;
            }
        }
        Sent::Done
    }

    /// Whether data is waiting for the socket to become writable.
    pub fn waits(&self) -> bool {
        !self.pending.is_empty()
    }

    fn send_now(&mut self, transmit: braid_tunnel::Transmit, contents: &[u8]) -> Sent {
        let Some(socket) = self.sockets.towards(transmit.remote) else {
            self.dropped += 1;
            return Sent::Done;
        };
        let single = contents.len() <= transmit.segment;
        let result = socket.send(&Transmit {
            remote: transmit.remote,
            local: transmit.local,
            traffic_class: 0,
            contents,
            segment_size: (!single).then_some(transmit.segment),
        });
        match result {
            Ok(()) => Sent::Done,
            Err(SendError::WouldBlock { sent }) => {
                self.keep(transmit, contents.get(sent..).unwrap_or(&[]));
                Sent::Done
            }
            Err(SendError::TooLong(_)) => {
                self.dropped += 1;
                Sent::TooLong(transmit.segment)
            }
            // Lost, as on any link: the core notices the missing feedback.
            Err(_) => {
                self.dropped += 1;
                Sent::Done
            }
        }
    }

    fn keep(&mut self, transmit: braid_tunnel::Transmit, contents: &[u8]) {
        if self.pending_bytes + contents.len() > PENDING {
            self.dropped += 1;
            return;
        }
        self.pending_bytes += contents.len();
        self.pending.push_back(Pending { transmit, contents: contents.to_vec() });
    }
}
