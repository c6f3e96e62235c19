//! The thread that serves all connections.

use crate::counters::Counters;
use crate::homes::{Homes, Limits};
use crate::pair::{Leg, Pair, State};
use crate::relay::CHUNK;
use crate::sockets::{self, Ports as OwnPorts, Route, accepted, connect, ends, is_loopback};
use crate::{Counts, Ports, Settings, Way, descriptors};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use socket2::{Domain, Socket};
use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Events fetched from the kernel per call.
const BATCH: usize = 256;
/// Connections accepted before existing ones have their turn.
const ACCEPTS: usize = 64;
/// How long a listener waits when there are no descriptors left.
const PAUSE: Duration = Duration::from_secs(1);
/// How long to wait for a client's first bytes, to send them with the connection's first packet: a
/// round trip to a Wi-Fi client. With protocols in which the server speaks first, each connection
/// is delayed by this.
const REQUEST_WITHIN: Duration = Duration::from_millis(10);
/// How often unused memory of connections returns to their home: some round trips of the longest
/// path.
const PERIOD: Duration = Duration::from_secs(2);

/// A proxy that listens but doesn't serve yet.
#[derive(Debug)]
pub struct Proxy {
    settings: Settings,
    listeners: Vec<(Way, Socket)>,
    ports: Ports,
}

/// A proxy that serves.
#[derive(Debug)]
pub struct Handle {
    thread: Option<JoinHandle<()>>,
    stop: Arc<OwnedFd>,
    counters: Arc<Counters>,
    ports: Ports,
}

impl Proxy {
    /// Listens.
    ///
    /// # Errors
    /// `CAP_NET_ADMIN` is missing, or the ports that the kernel assigned for IPv4 are taken in
    /// IPv6.
    pub fn listen(settings: Settings) -> io::Result<Self> {
        let mut listeners = Vec::new();
        let mut ports = Ports { into: 0, out_of: 0, v6: false };
        for (way, port) in [(Way::Into, &mut ports.into), (Way::OutOf, &mut ports.out_of)] {
            let v4 = sockets::listen(way, Domain::IPV4, 0, &settings)?;
            *port = v4.local_addr()?.as_socket().map(|own| own.port()).unwrap_or_default();
            listeners.push((way, v4));
            match sockets::listen(way, Domain::IPV6, *port, &settings) {
                Ok(v6) => {
                    listeners.push((way, v6));
                    ports.v6 = true;
                }
                Err(error) if has_no_v6(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Proxy { settings, listeners, ports })
    }

    /// Serves in its own thread; calls `ended` if that ends unexpectedly.
    ///
    /// # Errors
    /// Those of epoll_create1(2), eventfd(2), and of starting threads.
    pub fn start(self, ended: impl FnOnce() + Send + 'static) -> io::Result<Handle> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        epoll::add(&epoll, &*stop, EventData::new_u64(STOP), EventFlags::IN)?;
        for (number, (_, listener)) in self.listeners.iter().enumerate() {
            let data = EventData::new_u64(LISTENERS + number as u64);
            epoll::add(&epoll, listener, data, EventFlags::IN)?;
        }
        let counters = Arc::new(Counters::default());
        let ports = self.ports;
        let Settings { connections, memory, buffer, .. } = self.settings;
        let limits = Limits { connections, all: descriptors::room(), memory, buffer };
        let mut serving = Serving {
            epoll,
            homes: Homes::new(&self.settings.homes, limits),
            ports: OwnPorts::new(),
            settings: self.settings,
            listeners: self.listeners,
            paused_until: None,
            pairs: Vec::new(),
            free: Vec::new(),
            silent: VecDeque::new(),
            delivering: Vec::new(),
            busy: Vec::new(),
            period_ends: None,
            turns: VecDeque::new(),
            scratch: vec![0; CHUNK],
            counters: counters.clone(),
        };
        let run = move || {
            let mut ended = Ended(Some(ended));
            if serving.run() == Outcome::Stopped {
                ended.0 = None;
            }
        };
        let thread = std::thread::Builder::new().name("braid-split".into()).spawn(run)?;
        Ok(Handle { thread: Some(thread), stop, counters, ports })
    }
}

impl Handle {
    /// Where packets must be directed.
    pub fn ports(&self) -> Ports {
        self.ports
    }

    /// Its counters.
    pub fn counts(&self) -> Counts {
        self.counters.now()
    }

    /// Whether it serves.
    pub fn is_running(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Resets all connections and ends.
    pub fn stop(&mut self) {
        let _ = rustix::io::write(&*self.stop, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            // The panic's own message has reported it.
            let _ = thread.join();
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Notifies when a thread ends, including by a panic.
struct Ended<F: FnOnce()>(Option<F>);

impl<F: FnOnce()> Drop for Ended<F> {
    fn drop(&mut self) {
        if let Some(tell) = self.0.take() {
            tell();
        }
    }
}

/// Why the thread's loop is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Stopped,
    Failed,
}

struct Serving {
    epoll: OwnedFd,
    settings: Settings,
    listeners: Vec<(Way, Socket)>,
    /// No file descriptors were left: nothing is accepted until then.
    paused_until: Option<Instant>,
    pairs: Vec<Slot>,
    free: Vec<u32>,
    /// Pairs whose clients have sent nothing yet, with their generation, and until when to wait.
    silent: VecDeque<(Instant, u32, u32)>,
    /// Pairs of which one end was reset or both have ended, likewise, and when to check them again.
    delivering: Vec<(Instant, u32, u32)>,
    /// Pairs with more memory than an idle one, with their generation; and when to check next
    /// whether they use it.
    busy: Vec<(u32, u32)>,
    period_ends: Option<Instant>,
    /// Pairs that have more to do, each once.
    turns: VecDeque<u32>,
    scratch: Vec<u8>,
    homes: Homes,
    ports: OwnPorts,
    counters: Arc<Counters>,
}

/// Where a pair is kept; `generation` identifies events of an earlier one.
#[derive(Default)]
struct Slot {
    generation: u32,
    pair: Option<Box<Pair>>,
    has_turn: bool,
    /// Whether it will be checked again even if nothing happens.
    is_delivering: bool,
}

/// Edge-triggered: a socket is used until it would block.
const EVENTS: EventFlags =
    EventFlags::IN.union(EventFlags::OUT).union(EventFlags::RDHUP).union(EventFlags::ET);

/// epoll's data: a pair's leg, or one of these, which have all upper bits.
const LISTENERS: u64 = u64::MAX - 15;
const STOP: u64 = u64::MAX;

/// A pair's leg as epoll data: 31 bits generation, 32 bits place, one bit leg.
fn data_of(place: u32, generation: u32, leg: Leg) -> EventData {
    let generation = u64::from(generation & (u32::MAX >> 2));
    EventData::new_u64(generation << 33 | u64::from(place) << 1 | u64::from(leg == Leg::Onward))
}

impl Serving {
    fn run(&mut self) -> Outcome {
        let mut events = [MaybeUninit::<epoll::Event>::uninit(); BATCH];
        loop {
            let wait = self.patience();
            let ready = match epoll::wait(&self.epoll, &mut events, wait.as_ref()) {
                Ok((ready, _)) => ready,
                Err(rustix::io::Errno::INTR) => continue,
                // It can't fail for another reason (epoll_wait(2)).
                Err(_) => return Outcome::Failed,
            };
            if self.paused_until.is_some_and(|until| until <= Instant::now()) {
                self.listen(true);
            }
            for event in ready {
                match event.data.u64() {
                    STOP => return Outcome::Stopped,
                    data if data >= LISTENERS => self.accept((data - LISTENERS) as usize),
                    data => self.on_event(data, event.flags),
                }
            }
            self.connect_silent();
            self.look_at_delivering();
            self.end_period();
            for _ in 0..self.turns.len() {
                if let Some(place) = self.turns.pop_front() {
                    if let Some(place) = self.pairs.get_mut(place as usize) {
                        place.has_turn = false;
                    }
                    self.go_on(place);
                }
            }
        }
    }

    fn on_event(&mut self, data: u64, flags: EventFlags) {
        let place = (data >> 1) as u32;
        let leg = if data & 1 == 1 { Leg::Onward } else { Leg::Client };
        let Some(Slot { generation, pair: Some(pair), .. }) = self.pairs.get_mut(place as usize)
        else {
            return;
        };
        if data_of(place, *generation, leg).u64() != data {
            return;
        }
        let any = |wanted: EventFlags| flags.intersects(wanted);
        let read = any(EventFlags::IN | EventFlags::RDHUP | EventFlags::HUP);
        pair.on_event(leg, read, any(EventFlags::OUT), any(EventFlags::ERR));
        self.go_on(place);
    }

    fn go_on(&mut self, number: u32) {
        let Some(place) = self.pairs.get_mut(number as usize) else { return };
        let Some(pair) = &mut place.pair else { return };
        let share = self.homes.share(pair.home);
        let state = pair.go_on(&mut self.scratch, &self.counters, share);
        if !pair.is_small() && !std::mem::replace(&mut pair.listed, true) {
            self.busy.push((number, place.generation));
            self.period_ends.get_or_insert_with(|| Instant::now() + PERIOD);
        }
        match state {
            State::Waits => {}
            State::Delivers(again) => {
                if !std::mem::replace(&mut place.is_delivering, true) {
                    self.delivering.push((again, number, place.generation));
                }
            }
            State::Asked => {
                // What can't be reached is counted, and its client reset.
                let _ = self.connect(number);
            }
            State::Turn => {
                if !std::mem::replace(&mut place.has_turn, true) {
                    self.turns.push_back(number);
                }
            }
            State::Done => {
                pair.finish();
                self.forget(number);
            }
            State::Unreachable => {
                self.counters.unreachable.add(1);
                self.forget(number);
            }
            State::Broken => {
                self.counters.reset.add(1);
                self.forget(number);
            }
        }
    }

    /// What isn't finished is reset.
    fn forget(&mut self, number: u32) {
        let Some(place) = self.pairs.get_mut(number as usize) else { return };
        let Some(pair) = place.pair.take() else { return };
        place.generation = place.generation.wrapping_add(1);
        place.is_delivering = false;
        self.free.push(number);
        self.counters.open.one_less();
        self.homes.leave(pair.home, pair.into_grants());
    }

    fn accept(&mut self, listener: usize) {
        for _ in 0..ACCEPTS {
            let Some((way, socket)) = self.listeners.get(listener) else { return };
            match socket.accept() {
                Ok((client, address)) => {
                    let way = *way;
                    if let Err(error) = self.begin(way, client, &address)
                        && out_of_descriptors(&error)
                    {
                        self.listen(false);
                        return;
                    }
                }
                Err(error) if out_of_descriptors(&error) => {
                    self.listen(false);
                    return;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                // The client has already left.
                Err(_) => {}
            }
        }
    }

    /// Starts a pair for a client; on failure the client is reset.
    fn begin(&mut self, way: Way, client: Socket, address: &socket2::SockAddr) -> io::Result<()> {
        client.set_linger(Some(Duration::ZERO))?;
        let (from, to) = ends(&client, address)?;
        // A program on this host connected to the proxy itself.
        if is_loopback(to.ip()) {
            return Ok(());
        }
        let Some((home, grants)) = self.homes.admit(way, from, to) else {
            self.counters.over_limit.add(1);
            return Ok(());
        };
        let number = self.free.pop().unwrap_or_else(|| {
            self.pairs.push(Slot::default());
            (self.pairs.len() - 1) as u32
        });
        let Some(place) = self.pairs.get_mut(number as usize) else { return Ok(()) };
        let generation = place.generation;
        let route = Route { way, client: from, server: to };
        let pair = place.pair.insert(Box::new(Pair::new(route, home, grants, client)));
        pair.listed = true;
        self.busy.push((number, generation));
        self.period_ends.get_or_insert_with(|| Instant::now() + PERIOD);
        self.counters.accepted.add(1);
        self.counters.open.add(1);
        let data = data_of(number, generation, Leg::Client);
        let watched = accepted(pair.client(), from).and_then(|class| {
            pair.class = class;
            pair.size()?;
            Ok(epoll::add(&self.epoll, pair.client(), data, EVENTS)?)
        });
        match (watched, way) {
            (Err(error), _) => {
                self.forget(number);
                Err(error)
            }
            (Ok(()), Way::Into) => {
                self.silent.push_back((Instant::now() + REQUEST_WITHIN, number, generation));
                Ok(())
            }
            (Ok(()), Way::OutOf) => self.connect(number),
        }
    }

    /// Connects to the server, with the client's data so far.
    fn connect(&mut self, number: u32) -> io::Result<()> {
        let Some(place) = self.pairs.get_mut(number as usize) else { return Ok(()) };
        let generation = place.generation;
        let Some(pair) = &mut place.pair else { return Ok(()) };
        let request = match pair.route.way {
            Way::Into => pair.request(&mut self.scratch),
            // Servers out there needn't know of this.
            Way::OutOf => Ok(&[][..]),
        };
        let connected = request.and_then(|request| {
            let (ports, settings) = (&mut self.ports, &self.settings);
            let (onward, sent) = connect(pair.route, request, ports, settings, pair.class)?;
            let data = data_of(number, generation, Leg::Onward);
            epoll::add(&self.epoll, &onward, data, EVENTS)?;
            self.counters.bytes(pair.route.way, true).add(sent as u64);
            pair.connects(onward, request, sent)
        });
        if let Err(error) = connected {
            let counter = match out_of_descriptors(&error) {
                true => &self.counters.over_limit,
                false => &self.counters.unreachable,
            };
            counter.add(1);
            self.forget(number);
            return Err(error);
        }
        Ok(())
    }

    /// Connects for clients that have sent nothing in time.
    fn connect_silent(&mut self) {
        let now = Instant::now();
        while let Some((due, number, generation)) = self.silent.front().copied()
            && due <= now
        {
            self.silent.pop_front();
            if let Some(place) = self.pairs.get(number as usize)
                && place.generation == generation
                && place.pair.as_ref().is_some_and(|pair| pair.listens())
            {
                // What can't be reached is counted, and its client reset.
                let _ = self.connect(number);
            }
        }
    }

    /// Checks the pairs with data still to deliver.
    fn look_at_delivering(&mut self) {
        let now = Instant::now();
        let due: Vec<_> = self.delivering.extract_if(.., |(due, ..)| *due <= now).collect();
        for (_, number, generation) in due {
            let Some(place) = self.pairs.get_mut(number as usize) else { continue };
            if place.generation == generation {
                place.is_delivering = false;
                self.go_on(number);
            }
        }
    }

    /// Returns unused memory.
    fn end_period(&mut self) {
        if self.period_ends.is_none_or(|end| end > Instant::now()) {
            return;
        }
        for (number, generation) in std::mem::take(&mut self.busy) {
            let Some(place) = self.pairs.get_mut(number as usize) else { continue };
            let Some(pair) = place.pair.as_mut().filter(|_| place.generation == generation) else {
                continue;
            };
            // A socket that failed returns the error when it is used.
            let _ = pair.period(self.homes.share(pair.home));
            pair.listed = !pair.is_small();
            if pair.listed {
                self.busy.push((number, generation));
            }
        }
        self.period_ends = (!self.busy.is_empty()).then(|| Instant::now() + PERIOD);
    }

    /// How long epoll may wait.
    fn patience(&self) -> Option<Timespec> {
        let turns = (!self.turns.is_empty()).then_some(Duration::ZERO);
        let silent = self.silent.front().map(|(due, ..)| *due);
        let delivering = self.delivering.iter().map(|(due, ..)| *due).min();
        let due = [silent, delivering, self.period_ends, self.paused_until];
        let due = due.into_iter().flatten().min();
        let due = due.map(|due| due.saturating_duration_since(Instant::now()));
        let wait = [turns, due].into_iter().flatten().min()?;
        // None of them is longer than some seconds, so it fits.
        Timespec::try_from(wait).ok()
    }

    /// Whether new connections are accepted.
    fn listen(&mut self, wanted: bool) {
        self.paused_until = (!wanted).then(|| Instant::now() + PAUSE);
        let flags = if wanted { EventFlags::IN } else { EventFlags::empty() };
        for (number, (_, listener)) in self.listeners.iter().enumerate() {
            let data = EventData::new_u64(LISTENERS + number as u64);
            // They are there as long as this is.
            let _ = epoll::modify(&self.epoll, listener, data, flags);
        }
    }
}

fn out_of_descriptors(error: &io::Error) -> bool {
    // The last one is epoll's, of sockets that it watches.
    let lacks = [libc::EMFILE, libc::ENFILE, libc::ENOBUFS, libc::ENOMEM, libc::ENOSPC];
    error.raw_os_error().is_some_and(|code| lacks.contains(&code))
}

fn has_no_v6(error: &io::Error) -> bool {
    let lacks = [libc::EAFNOSUPPORT, libc::EADDRNOTAVAIL];
    error.raw_os_error().is_some_and(|code| lacks.contains(&code))
}
