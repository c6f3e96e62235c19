//! A split connection: two sockets, and the data in between.

use crate::budget::{Grant, Share};
use crate::counters::Counters;
use crate::homes::Home;
use crate::relay::{CHUNK, Relay, Stopped};
use crate::sockets::{self, Class, Route};
use socket2::Socket;
use std::io::{self, Read};
use std::time::{Duration, Instant};

/// After a reset, the other end gets this long to make any progress in receiving earlier data,
/// before it is reset without having received all.
const STANDS_STILL: Duration = Duration::from_secs(10);
/// The next check of earlier data comes after this fraction of the time that it has been unchanged.
const ASKED_AGAIN: u32 = 4;
const ASKED_AGAIN_WITHIN: Duration = Duration::from_millis(5);
const ASKED_AGAIN_AFTER: Duration = Duration::from_millis(250);
/// The same for a connection that ended in order: nothing waits for it.
const ENDED_ASKED_AGAIN_AFTER: Duration = Duration::from_secs(5);
/// When both directions have ended and at most this many bytes (a few packets) are unacknowledged,
/// the kernel does the rest.
const REST: u64 = 4 << 10;

/// Which socket of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leg {
    /// The accepted socket.
    Client,
    /// The socket to the server.
    Onward,
}

#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) route: Route,
    pub(crate) home: Home,
    /// Grants for the client's data, and for the answers to it.
    grants: [Grant; 2],
    /// Whether the proxy has it in its list of those with more than an idle grant.
    pub(crate) listed: bool,
    pub(crate) class: Class,
    client: Socket,
    phase: Phase,
    client_ready: Ready,
    onward_ready: Ready,
    up: Relay,
    down: Relay,
    /// Whether part of the client's request was sent with the SYN.
    asked_with_first_packet: bool,
    failed: Option<Failed>,
    /// Since when both directions have ended.
    ended: Option<Instant>,
}

/// A socket was reset, or can't be used for another reason.
#[derive(Clone, Copy, Debug)]
struct Failed {
    leg: Leg,
    since: Instant,
    /// How much the other end still has to receive, and since when it is that much.
    left: u64,
    stands_since: Instant,
}

#[derive(Debug)]
enum Phase {
    /// It waits for the client's request, which is sent with the first packet.
    Listens,
    /// It connects with this socket.
    Connects(Socket),
    Connected(Socket),
}

/// What a socket can do, according to the last epoll event or call.
#[derive(Clone, Copy, Debug, Default)]
struct Ready {
    read: bool,
    write: bool,
}

/// The state of a pair after an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It waits for its sockets.
    Waits,
    /// The client has a request: time to connect.
    Asked,
    /// It could continue, but others have their turn first.
    Turn,
    /// One end was reset, or both have ended, but not all earlier data is delivered. Check again at
    /// this time.
    Delivers(Instant),
    /// Both directions have ended.
    Done,
    /// It couldn't reach its server.
    Unreachable,
    /// It was reset, or failed in a similar way.
    Broken,
}

impl Pair {
    /// Creates a pair that isn't connected to its server yet.
    pub(crate) fn new(route: Route, home: Home, grants: [Grant; 2], client: Socket) -> Self {
        Pair {
            route,
            home,
            grants,
            listed: false,
            class: Class::default(),
            client,
            phase: Phase::Listens,
            client_ready: Ready::default(),
            onward_ready: Ready::default(),
            up: Relay::default(),
            down: Relay::default(),
            asked_with_first_packet: false,
            failed: None,
            ended: None,
        }
    }

    pub(crate) fn client(&self) -> &Socket {
        &self.client
    }

    /// The socket to the server, if there is one.
    pub(crate) fn onward(&self) -> Option<&Socket> {
        match &self.phase {
            Phase::Listens => None,
            Phase::Connects(onward) | Phase::Connected(onward) => Some(onward),
        }
    }

    /// Whether it waits for the client's request.
    pub(crate) fn listens(&self) -> bool {
        matches!(self.phase, Phase::Listens)
    }

    /// Handles an epoll event: a socket can read or write, or failed.
    pub(crate) fn on_event(&mut self, leg: Leg, read: bool, write: bool, failed: bool) {
        let ready = match leg {
            Leg::Client => &mut self.client_ready,
            Leg::Onward => &mut self.onward_ready,
        };
        // A failed socket returns the error when it is used.
        ready.read |= read || failed;
        ready.write |= write || failed;
    }

    /// The client's data so far; empty if there is none, or it has ended already.
    pub(crate) fn request<'s>(&mut self, scratch: &'s mut [u8]) -> io::Result<&'s [u8]> {
        match (&self.client).read(scratch) {
            Ok(length) => Ok(scratch.get(..length).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.client_ready.read = false;
                Ok(&[])
            }
            Err(error) => Err(error),
        }
    }

    /// It connects with `onward`, which has taken the first `sent` bytes of the client's request.
    pub(crate) fn connects(
        &mut self,
        onward: Socket,
        request: &[u8],
        sent: usize,
    ) -> io::Result<()> {
        self.up.keep(request.get(sent..).unwrap_or_default());
        self.asked_with_first_packet = sent > 0;
        self.phase = Phase::Connects(onward);
        self.size()
    }

    /// Sets the sockets' buffers according to the grants.
    pub(crate) fn size(&self) -> io::Result<()> {
        size(&self.client, self.onward(), &self.grants[0])?;
        match self.onward() {
            Some(onward) => size(onward, Some(&self.client), &self.grants[1]),
            None => sockets::send_buffer(&self.client, self.grants[1].send(CHUNK)),
        }
    }

    /// Returns its grants, for its home.
    pub(crate) fn into_grants(self) -> [Grant; 2] {
        self.grants
    }

    /// Whether it has only idle grants.
    pub(crate) fn is_small(&self) -> bool {
        self.grants.iter().all(Grant::is_idle)
    }

    /// A period has passed: unused memory returns to its home.
    pub(crate) fn period(&mut self, share: &mut Share) -> io::Result<()> {
        let (Phase::Connects(onward) | Phase::Connected(onward)) = &self.phase else {
            return Ok(());
        };
        let [up, down] = &mut self.grants;
        for (grant, relay, from, to) in
            [(up, &self.up, &self.client, onward), (down, &self.down, onward, &self.client)]
        {
            let held = || {
                let kept = relay.pending() as u64;
                kept + sockets::unread(from) + sockets::unacknowledged(to)
            };
            if share.period(grant, held) {
                sockets::receive_buffer(from, grant.receive())?;
                sockets::send_buffer(to, grant.send(CHUNK))?;
            }
        }
        Ok(())
    }

    /// Moves as much data as possible.
    pub(crate) fn go_on(
        &mut self,
        scratch: &mut [u8],
        counters: &Counters,
        share: &mut Share,
    ) -> State {
        self.phase = match std::mem::replace(&mut self.phase, Phase::Listens) {
            Phase::Listens => {
                return if self.client_ready.read { State::Asked } else { State::Waits };
            }
            Phase::Connects(onward) if !self.onward_ready.write => {
                // A client that left before the server connected: its data, if any, must still be
                // delivered.
                if self.failed.is_none() && !matches!(self.client.take_error(), Ok(None)) {
                    self.fail(Leg::Client);
                }
                let said = self.up.pending() > 0
                    || sockets::unread(&self.client) > 0
                    || self.asked_with_first_packet;
                self.phase = Phase::Connects(onward);
                return if self.failed.is_some() && !said { State::Broken } else { State::Waits };
            }
            Phase::Connects(onward) => match onward.take_error() {
                Ok(None) => Phase::Connected(onward),
                Ok(Some(_)) | Err(_) => return State::Unreachable,
            },
            connected @ Phase::Connected(_) => connected,
        };
        if self.failed.is_none()
            && let Some(state) = self.relay(scratch, counters, share)
        {
            return state;
        }
        self.deliver(scratch, counters)
    }

    /// Relays both directions; nothing if one of the sockets has failed.
    fn relay(
        &mut self,
        scratch: &mut [u8],
        counters: &Counters,
        share: &mut Share,
    ) -> Option<State> {
        let Phase::Connected(onward) = &self.phase else { return Some(State::Waits) };
        let mut turn = false;
        let mut failed = None;
        let idle = self.is_small();
        let [up, down] = &mut self.grants;
        if idle && (self.client_ready.read || self.onward_ready.read) {
            // Data in one direction brings an answer in the other, so make room for it.
            let woken = [share.wake(up), share.wake(down)];
            let sized = (!woken.contains(&true)).then_some(Ok(()));
            let sized = sized.unwrap_or_else(|| {
                size(&self.client, Some(onward), up)?;
                size(onward, Some(&self.client), down)
            });
            if sized.is_err() {
                return Some(State::Broken);
            }
        }
        for leg in [Leg::Client, Leg::Onward] {
            let (relay, grant, from, to, from_ready, to_ready) = match leg {
                Leg::Client => (
                    &mut self.up,
                    &mut *up,
                    &self.client,
                    onward,
                    &mut self.client_ready,
                    &mut self.onward_ready,
                ),
                Leg::Onward => (
                    &mut self.down,
                    &mut *down,
                    onward,
                    &self.client,
                    &mut self.onward_ready,
                    &mut self.client_ready,
                ),
            };
            if relay.has_ended() || !from_ready.read || !to_ready.write {
                continue;
            }
            if share.wake(grant) && size(from, Some(to), grant).is_err() {
                return Some(State::Broken);
            }
            let chunk = grant.chunk(scratch.len());
            let chunk = scratch.get_mut(..chunk).unwrap_or_default();
            let (moved, stopped) = relay.run(from, to, chunk);
            counters.bytes(self.route.way, leg == Leg::Client).add(moved);
            if share.moved(grant, moved) && size(from, Some(to), grant).is_err() {
                return Some(State::Broken);
            }
            match stopped {
                Stopped::NothingToRead => from_ready.read = false,
                Stopped::NoRoom => to_ready.write = false,
                Stopped::Turn => turn = true,
                Stopped::Ended => {}
                Stopped::SenderFailed => failed = failed.or(Some(leg)),
                Stopped::ReceiverFailed => failed = failed.or(Some(leg.other())),
            }
        }
        for (leg, socket) in [(Leg::Client, &self.client), (Leg::Onward, onward)] {
            if !matches!(socket.take_error(), Ok(None)) {
                failed = failed.or(Some(leg));
            }
        }
        if let Some(leg) = failed {
            self.fail(leg);
            return None;
        }
        Some(match (self.up.has_ended() && self.down.has_ended(), turn) {
            (true, _) => self.ends(),
            (false, true) => State::Turn,
            (false, false) => State::Waits,
        })
    }

    /// Both directions have ended. While an end is slow to accept the last bytes, they are in our
    /// buffers and count for its home.
    fn ends(&mut self) -> State {
        let sockets = std::iter::once(&self.client).chain(self.onward());
        if sockets.map(sockets::unacknowledged).sum::<u64>() <= REST {
            return State::Done;
        }
        let now = Instant::now();
        let again = now.duration_since(*self.ended.get_or_insert(now)) / ASKED_AGAIN;
        State::Delivers(now + again.clamp(ASKED_AGAIN_WITHIN, ENDED_ASKED_AGAIN_AFTER))
    }

    fn fail(&mut self, leg: Leg) {
        let now = Instant::now();
        self.failed = Some(Failed { leg, since: now, left: u64::MAX, stands_since: now });
    }

    /// One end was reset. Delivers its earlier data to the other, which is then reset.
    fn deliver(&mut self, scratch: &mut [u8], counters: &Counters) -> State {
        let (Some(failed), Phase::Connected(onward)) = (&mut self.failed, &self.phase) else {
            return State::Broken;
        };
        let (relay, grant, from, to, to_ready) = match failed.leg {
            Leg::Client => {
                (&mut self.up, &self.grants[0], &self.client, onward, &mut self.onward_ready)
            }
            Leg::Onward => {
                (&mut self.down, &self.grants[1], onward, &self.client, &mut self.client_ready)
            }
        };
        let mut all = false;
        if to_ready.write {
            let chunk = grant.chunk(scratch.len());
            let chunk = scratch.get_mut(..chunk).unwrap_or_default();
            let (moved, stopped) = relay.deliver(from, to, chunk);
            counters.bytes(self.route.way, failed.leg == Leg::Client).add(moved);
            match stopped {
                Stopped::Turn => return State::Turn,
                Stopped::NoRoom => to_ready.write = false,
                Stopped::Ended => all = true,
                Stopped::NothingToRead | Stopped::SenderFailed | Stopped::ReceiverFailed => {
                    return State::Broken;
                }
            }
        }
        let left = relay.pending() as u64 + sockets::unread(from) + sockets::unacknowledged(to);
        let now = Instant::now();
        if left < failed.left {
            (failed.left, failed.stands_since) = (left, now);
        }
        if all && left == 0
            || now.duration_since(failed.stands_since) >= STANDS_STILL
            || !matches!(to.take_error(), Ok(None))
        {
            return State::Broken;
        }
        let again = now.duration_since(failed.since) / ASKED_AGAIN;
        State::Delivers(now + again.clamp(ASKED_AGAIN_WITHIN, ASKED_AGAIN_AFTER))
    }

    /// Ends it in order: pending data is still sent.
    pub(crate) fn finish(&self) {
        for socket in std::iter::once(&self.client).chain(self.onward()) {
            // Otherwise closing would reset it.
            let _ = socket.set_linger(None);
        }
    }
}

impl Leg {
    fn other(self) -> Leg {
        match self {
            Leg::Client => Leg::Onward,
            Leg::Onward => Leg::Client,
        }
    }
}

/// Sets the buffers of a direction's sockets according to its grant.
fn size(from: &Socket, to: Option<&Socket>, grant: &Grant) -> io::Result<()> {
    sockets::more_receive_buffer(from, grant.receive())?;
    to.map_or(Ok(()), |to| sockets::send_buffer(to, grant.send(CHUNK)))
}
