//! A split connection: two sockets, and what is on its way between them.

use crate::budget::Grant;
use crate::counters::Counters;
use crate::homes::Home;
use crate::relay::{Relay, Stopped};
use crate::sockets::Route;
use socket2::Socket;
use std::io::{self, Read};

/// Which socket of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leg {
    /// The one that was accepted.
    Client,
    /// The one that goes on.
    Onward,
}

#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) route: Route,
    pub(crate) home: Home,
    pub(crate) grant: Grant,
    client: Socket,
    phase: Phase,
    client_ready: Ready,
    onward_ready: Ready,
    up: Relay,
    down: Relay,
}

#[derive(Debug)]
enum Phase {
    /// It waits for the client's request, which goes with the first packet.
    Listens,
    /// The socket that goes on.
    Connects(Socket),
    Connected(Socket),
}

/// What a socket can do, as epoll last told or a call disproved.
#[derive(Clone, Copy, Debug, Default)]
struct Ready {
    read: bool,
    write: bool,
}

/// How a pair is after an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It waits for its sockets.
    Waits,
    /// The client has a request: time to connect.
    Asked,
    /// It could go on, but others have their turn first.
    Turn,
    /// Both directions have ended.
    Done,
    /// It never reached its server.
    Unreachable,
    /// A reset, or what amounts to it.
    Broken,
}

impl Pair {
    /// It isn't connected to its server yet.
    pub(crate) fn new(route: Route, home: Home, grant: Grant, client: Socket) -> Self {
        Pair {
            route,
            home,
            grant,
            client,
            phase: Phase::Listens,
            client_ready: Ready::default(),
            onward_ready: Ready::default(),
            up: Relay::default(),
            down: Relay::default(),
        }
    }

    pub(crate) fn client(&self) -> &Socket {
        &self.client
    }

    /// The socket that goes on, if there is one.
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

    /// epoll says that a socket can read or write, or that it failed.
    pub(crate) fn on_event(&mut self, leg: Leg, read: bool, write: bool, failed: bool) {
        let ready = match leg {
            Leg::Client => &mut self.client_ready,
            Leg::Onward => &mut self.onward_ready,
        };
        // What has failed says so when it is used.
        ready.read |= read || failed;
        ready.write |= write || failed;
    }

    /// What the client has said so far; nothing if it hasn't, or has ended already.
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

    /// It connects by `onward`; `rest` of the client's request is still to be sent.
    pub(crate) fn connects(&mut self, onward: Socket, rest: &[u8]) {
        self.up.keep(rest);
        self.phase = Phase::Connects(onward);
    }

    /// Moves what can be moved.
    pub(crate) fn go_on(&mut self, scratch: &mut [u8], counters: &Counters) -> State {
        self.phase = match std::mem::replace(&mut self.phase, Phase::Listens) {
            Phase::Listens => {
                return if self.client_ready.read { State::Asked } else { State::Waits };
            }
            Phase::Connects(onward) if !self.onward_ready.write => {
                self.phase = Phase::Connects(onward);
                return match self.client.take_error() {
                    Ok(None) => State::Waits,
                    Ok(Some(_)) | Err(_) => State::Broken,
                };
            }
            Phase::Connects(onward) => match onward.take_error() {
                Ok(None) => Phase::Connected(onward),
                Ok(Some(_)) | Err(_) => return State::Unreachable,
            },
            connected @ Phase::Connected(_) => connected,
        };
        match self.relay(scratch, counters) {
            Ok(state) => state,
            Err(_) => State::Broken,
        }
    }

    fn relay(&mut self, scratch: &mut [u8], counters: &Counters) -> io::Result<State> {
        let Phase::Connected(onward) = &self.phase else { return Ok(State::Waits) };
        let mut turn = false;
        for from_client in [true, false] {
            let (relay, from, to, from_ready, to_ready) = match from_client {
                true => (
                    &mut self.up,
                    &self.client,
                    onward,
                    &mut self.client_ready,
                    &mut self.onward_ready,
                ),
                false => (
                    &mut self.down,
                    onward,
                    &self.client,
                    &mut self.onward_ready,
                    &mut self.client_ready,
                ),
            };
            if relay.has_ended() || !from_ready.read || !to_ready.write {
                continue;
            }
            let (moved, stopped) = relay.run(from, to, scratch)?;
            counters.bytes(self.route.way, from_client).add(moved);
            match stopped {
                Stopped::NothingToRead => from_ready.read = false,
                Stopped::NoRoom => to_ready.write = false,
                Stopped::Turn => turn = true,
                Stopped::Ended => {}
            }
        }
        for socket in [&self.client, onward] {
            if let Some(error) = socket.take_error()? {
                return Err(error);
            }
        }
        Ok(match (self.up.has_ended() && self.down.has_ended(), turn) {
            (true, _) => State::Done,
            (false, true) => State::Turn,
            (false, false) => State::Waits,
        })
    }

    /// Ends it in good order: what is still to be sent is sent.
    pub(crate) fn finish(&self) {
        for socket in std::iter::once(&self.client).chain(self.onward()) {
            // Without this it would be a reset.
            let _ = socket.set_linger(None);
        }
    }
}
