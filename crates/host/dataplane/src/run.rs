use crate::clock::Clock;
use crate::cpu_load::CpuLoad;
use crate::device::Device;
use crate::handle::{Command, LEAVES_WITHIN, Report};
use crate::leave::AllDone;
use crate::siblings::Siblings;
use crate::sockets::{LinkOutput, Sent, SocketUse};
use crate::unwatched::{Attachment, Unwatched};
use crate::wakefulness::Wakefulness;
use braid_inner::InnerPacket;
use braid_linux::poller::{self, Interest, Poller, Token, Waker};
use braid_linux::thread_time::ThreadTime;
use braid_linux::tun::{MAX_PACKET, Tun};
use braid_linux::udp::{Family, LinkSocket, ReceiveBuffers};
use braid_linux::wake_latency::LatencyRequest;
use braid_tunnel::{Change, Event, Handover, LinkConfig, LinkId, Tunnel};
use braid_units::Time;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::time::Duration;

const TUN: Token = Token(u64::MAX);
const WAKE: Token = Token(u64::MAX - 1);
/// Packets read from the device before the sockets get their turn.
const TUN_BATCH: usize = 16;
/// Packets up to this size are copied into a buffer of their own.
const COPIED: usize = 8192;
/// Bytes sent, or received by a socket, before others get their turn: some 200 µs of work. This
/// bounds how long urgent packets wait in the kernel, where they can't be prioritised.
const TURN: usize = 256 << 10;
/// After receiving this many bytes, their packets are delivered to the device: one receive call
/// returns up to 512 KB, and waiting for all of it would push packets out of the processor's cache.
const DELIVERED: usize = 128 << 10;
/// A send or receive call counts as at least this many bytes.
const LEAST_SENT: usize = TURN / 64;
const LEAST_RECEIVED: usize = TURN / 4;

/// One worker: a tunnel, a queue of the device, the links' sockets.
pub(crate) struct DataPlane {
    tunnel: Tunnel,
    device: Device,
    clock: Clock,
    poller: Poller,
    links: BTreeMap<LinkId, LinkOutput>,
    unwatched: Unwatched,
    channels: Channels,
    buffers: ReceiveBuffers,
    datagrams: Vec<u8>,
    /// Buffer for reading the device; without capacity while a large packet owns it.
    packet: Vec<u8>,
    wake_latency: Option<(LatencyRequest, Wakefulness)>,
    cpu_load: CpuLoad,
    stopping: bool,
    /// The device's packets are now for another program.
    device_left: bool,
    leaving: Option<Leaving>,
}

/// A worker's channels.
pub(crate) struct Channels {
    /// Commands from the control side.
    pub inbox: Receiver<Command>,
    /// Events for the control side...
    pub news: Sender<Event>,
    /// ...and the notification that there are some.
    pub on_news: OnNews,
    /// Handovers from other workers.
    pub handovers: Receiver<Vec<Handover>>,
    /// All workers, including this one.
    pub siblings: Siblings,
}

/// Called by a worker when there are events to fetch; must not block.
pub(crate) type OnNews = Arc<dyn Fn() + Send + Sync>;

/// State while handing over to another program.
struct Leaving {
    until: Time,
    _done: Arc<AllDone>,
}

/// How often it checks whether everything has arrived.
const LEAVING: Duration = Duration::from_millis(2);

impl DataPlane {
    /// Creates a worker that waits for this device and for its [`Self::waker`].
    pub fn new(
        tunnel: Tunnel,
        tun: Tun,
        clock: Clock,
        wake_latency: Option<LatencyRequest>,
        poller: Poller,
        channels: Channels,
    ) -> io::Result<Self> {
        poller.add(&tun, TUN, Interest::Read)?;
        Ok(Self {
            tunnel,
            device: Device::new(tun),
            clock,
            poller,
            links: BTreeMap::new(),
            unwatched: Unwatched::default(),
            channels,
            buffers: ReceiveBuffers::new(),
            datagrams: Vec::with_capacity(1 << 16),
            packet: Vec::new(),
            wake_latency: wake_latency.map(|latency| (latency, Wakefulness::default())),
            cpu_load: CpuLoad::default(),
            stopping: false,
            device_left: false,
            leaving: None,
        })
    }

    /// Creates the waker of the worker with this poller.
    pub fn waker(poller: &Poller) -> io::Result<Waker> {
        poller.waker(WAKE)
    }

    /// Runs until it is told to stop.
    pub fn run(mut self) -> io::Result<()> {
        // If it is forbidden, packets wait a little longer for the processor.
        let _ = braid_linux::scheduling::run_soon();
        // Without it the CPU is never considered a bottleneck: sending costs a little more.
        let thread_time = ThreadTime::of_this_thread().ok();
        let mut ready: Vec<poller::Event> = Vec::with_capacity(32);
        loop {
            let now = self.clock.now();
            if let Some(thread_time) = &thread_time
                && self.cpu_load.is_due(now)
                && let Ok(wanted) = thread_time.wanted()
            {
                self.cpu_load.on_window(wanted, now);
                self.tunnel.set_cpu_bound(self.cpu_load.is_bound());
            }
            if self.tunnel.next_timeout().is_some_and(|at| at <= now) {
                self.tunnel.handle_timeout(now);
            }
            for again in self.unwatched.due(now) {
                self.attach(again, now);
            }
            let more = self.transmit();
            self.device.deliver(&mut self.tunnel);
            self.tell();
            if self.stopping {
                return Ok(());
            }
            self.channels.siblings.hand_over(&mut self.tunnel);
            self.leave_when_done();
            let timeout = if more { Some(Duration::ZERO) } else { self.time_to_wait() };
            // Packets come one at a time or in bursts; single ones are sent before the device is
            // read again.
            let in_rows = ready.iter().any(|event| event.token == TUN);
            let most = if in_rows { TUN_BATCH } else { 1 };
            ready.clear();
            ready.extend(self.poller.wait(timeout)?);
            self.stay_awake(ready.iter().any(|event| event.token != WAKE));
            for event in &ready {
                match event.token {
                    TUN if self.device_left => {}
                    TUN => self.read_device(most)?,
                    WAKE => {
                        self.obey();
                        self.take_handovers();
                    }
                    token => {
                        if event.writable {
                            self.flush(token);
                        }
                        if event.readable && is_of_strangers(token) {
                            self.receive_of_strangers(token);
                        } else if event.readable {
                            self.receive(token);
                        }
                    }
                }
            }
        }
    }

    fn tell(&mut self) {
        let mut any = false;
        while let Some(event) = self.tunnel.poll_event() {
            any |= self.channels.news.send(event).is_ok();
        }
        if any {
            (self.channels.on_news)();
        }
    }

    fn time_to_wait(&self) -> Option<Duration> {
        let wakefulness = self.wake_latency.as_ref().map(|(_, wakefulness)| wakefulness);
        let sleep = wakefulness.and_then(Wakefulness::next_timeout);
        let again = self.unwatched.next_timeout();
        let next = self.tunnel.next_timeout().into_iter().chain(sleep).chain(again).min();
        let wait = next.map(|at| at - self.clock.now());
        match self.leaving {
            Some(_) => Some(wait.map_or(LEAVING, |wait| wait.min(LEAVING))),
            None => wait,
        }
    }

    fn leave_when_done(&mut self) {
        let now = self.clock.now();
        let done = |leaving: &mut Leaving| now >= leaving.until || self.tunnel.has_sent_all();
        let Some(_leaving) = self.leaving.take_if(done) else { return };
        self.tunnel.close_for_restart(now);
        while self.transmit() {}
        // Whatever arrives now was sent before the peer knew, and will be retransmitted.
        self.links.clear();
        self.unwatched = Unwatched::default();
    }

    /// Lets the processors sleep deeply or not, depending on recent packets.
    fn stay_awake(&mut self, packets: bool) {
        let Some((latency, wakefulness)) = &mut self.wake_latency else { return };
        let now = self.clock.now();
        if packets {
            wakefulness.on_packets(now);
        } else {
            wakefulness.on_time(now);
        }
        // If refused, packets just wait a little longer.
        let _ = latency.hold(wakefulness.is_awake());
    }

    /// Sends what the core has to send; returns true if there may be more.
    fn transmit(&mut self) -> bool {
        let mut sent = 0;
        while sent < TURN {
            let now = self.clock.now();
            let Some(transmit) = self.tunnel.poll_transmit(now, &mut self.datagrams) else {
                return false;
            };
            sent += self.datagrams.len().max(LEAST_SENT);
            let Some(link) = self.links.get_mut(&transmit.link) else { continue };
            let waited = link.waits();
            if let Sent::TooLong(size) = link.send(transmit, &self.datagrams) {
                self.tunnel.on_message_too_long(transmit.link, size);
            }
            if link.waits() && !waited {
                // Otherwise nothing would report when there is room for the pending data.
                let watched = watch_writing(&self.poller, transmit.link, link, true);
                watched.unwrap_or_else(|_| link.lose_pending());
            }
        }
        true
    }

    fn read_device(&mut self, most: usize) -> io::Result<()> {
        for _ in 0..most {
            let mut bytes = std::mem::take(&mut self.packet);
            if bytes.capacity() == 0 {
                bytes = self.tunnel.take_buffer(MAX_PACKET);
            }
            let now = self.clock.now();
            let offload = match self.device.tun.read(&mut bytes) {
                Ok(Some(offload)) => offload,
                Ok(None) => {
                    self.packet = bytes;
                    break;
                }
                Err(error) => {
                    self.packet = bytes;
                    return self.device.may_fail(error, now);
                }
            };
            self.device.unreadable = None;
            if bytes.len() <= COPIED {
                // A large buffer for a small packet would waste memory while it waits.
                let mut small = self.tunnel.take_buffer(bytes.len());
                small.extend_from_slice(&bytes);
                self.packet = std::mem::replace(&mut bytes, small);
            }
            self.tunnel.handle_inner(now, InnerPacket { bytes, offload });
        }
        Ok(())
    }

    fn receive(&mut self, token: Token) {
        let (id, family) = link_of(token);
        let mut taken = 0;
        while taken < TURN {
            let Some(socket) = self.links.get(&id).and_then(|l| l.sockets.of(family)) else {
                return;
            };
            let now = self.clock.now();
            let (tunnel, device) = (&mut self.tunnel, &mut self.device);
            let (mut bytes, mut delivered) = (0, 0);
            let received = socket.receive(&mut self.buffers, |datagram| {
                bytes += datagram.bytes.len();
                tunnel.handle_datagram(now, id, datagram.remote, datagram.local, datagram.bytes);
                if bytes - delivered >= DELIVERED {
                    delivered = bytes;
                    device.deliver(tunnel);
                }
            });
            taken += bytes.max(LEAST_RECEIVED);
            self.device.deliver(&mut self.tunnel);
            // An error (such as a device that went down) is reported once and then cleared.
            if !received.is_ok_and(|received| received.more) {
                break;
            }
        }
    }

    /// Receives one batch, then known peers get their turn: this bounds the cost of strangers,
    /// however many there are. The kernel drops the excess.
    fn receive_of_strangers(&mut self, token: Token) {
        let (id, family) = link_of(token);
        let Some(socket) = self.links.get(&id).and_then(|l| l.strangers.of(family)) else {
            return;
        };
        let (now, tunnel) = (self.clock.now(), &mut self.tunnel);
        // An error is reported once and then cleared.
        let _ = socket.receive(&mut self.buffers, |datagram| {
            tunnel.handle_datagram(now, id, datagram.remote, datagram.local, datagram.bytes);
        });
    }

    fn flush(&mut self, token: Token) {
        let (id, _) = link_of(token);
        let Some(link) = self.links.get_mut(&id) else { return };
        if let Sent::TooLong(size) = link.flush() {
            self.tunnel.on_message_too_long(id, size);
        }
        if !link.waits() {
            // If refused, it is requested again at once, since there is room.
            let _ = watch_writing(&self.poller, id, link, false);
        }
    }

    fn take_handovers(&mut self) {
        while let Ok(handovers) = self.channels.handovers.try_recv() {
            let now = self.clock.now();
            for handover in handovers {
                self.tunnel.handle_handover(now, handover);
            }
            self.stay_awake(true);
        }
    }

    fn obey(&mut self) {
        while let Ok(command) = self.channels.inbox.try_recv() {
            let now = self.clock.now();
            match command {
                Command::Attach(attachment) => self.attach(attachment, now),
                Command::DetachSocket { id, family } => {
                    self.unwatched.forget(id, family);
                    self.detach(id, family, now);
                }
                Command::Change(change) => self.change(change, now),
                Command::AddPeer(config, answer) => {
                    let _ = answer.send(self.tunnel.add_peer(*config, now));
                }
                Command::Deliver(packets) => {
                    for packet in packets {
                        // What the kernel doesn't take is counted by the device.
                        let _ = self.device.tun.write(&packet);
                    }
                }
                Command::Report(answer) => {
                    let _ = answer.send(Report {
                        peers: self.tunnel.report(now),
                        counters: self.tunnel.counters(),
                        tun: self.device.tun.counters(),
                        tun_dropped: self.device.tun.dropped().unwrap_or(0),
                        send_drops: self.links.iter().map(|(id, l)| (*id, l.dropped)).collect(),
                        handover_drops: self.channels.siblings.dropped(),
                        unwatched: self.unwatched.told(),
                    });
                }
                Command::ReportTraffic(answer) => {
                    let _ = answer.send(self.tunnel.report_traffic(now));
                }
                Command::Leave(done) => {
                    // From now on packets wait there for the other program.
                    let _ = self.poller.remove(&self.device.tun);
                    self.device_left = true;
                    self.leaving = Some(Leaving { until: now + LEAVES_WITHIN, _done: done });
                }
                Command::Stop => {
                    self.tunnel.close(now);
                    self.stopping = true;
                }
            }
        }
    }

    /// A socket that the kernel doesn't watch would never be read: its link is unusable until a
    /// retry succeeds.
    fn attach(&mut self, attachment: Attachment, now: Time) {
        if attachment.use_of_it == SocketUse::Strangers {
            return self.attach_for_strangers(attachment, now);
        }
        let Attachment { id, ref socket, use_of_it, .. } = attachment;
        let family = socket.family();
        self.unwatched.forget(id, family);
        if let Err(error) = self.poller.add(socket, token_of(id, family), use_of_it.interest(false))
        {
            // The previous socket is useless to a link that now leaves another way.
            self.detach(id, family, now);
            self.unwatched.put(attachment, error, now);
            return;
        }
        let known = self.links.contains_key(&id);
        let link = self.links.entry(id).or_default();
        link.use_of_sockets = use_of_it;
        link.forget_pending();
        *link.sockets.place(family) = Some(attachment.socket);
        let config = with_families(attachment.config, link);
        if known {
            self.tunnel.apply(Change::SetLink(id, config), now);
            self.tunnel.on_link(id, true, now);
        } else {
            self.tunnel.add_link(id, config, now);
        }
    }

    /// The link already exists, with the socket for known peers.
    fn attach_for_strangers(&mut self, attachment: Attachment, now: Time) {
        let (id, family) = (attachment.id, attachment.socket.family());
        let (token, interest) =
            (token_of_strangers(id, family), attachment.use_of_it.interest(false));
        let Some(link) = self.links.get_mut(&id) else {
            // The link's main socket was refused: both are retried.
            return self.unwatched.put(attachment, io::ErrorKind::NotConnected.into(), now);
        };
        match self.poller.add(&attachment.socket, token, interest) {
            Ok(()) => *link.strangers.place(family) = Some(attachment.socket),
            Err(error) => self.unwatched.put(attachment, error, now),
        }
    }

    fn detach(&mut self, id: LinkId, family: Family, now: Time) {
        let Some(link) = self.links.get_mut(&id) else { return };
        link.forget_pending();
        *link.sockets.place(family) = None;
        *link.strangers.place(family) = None;
        if link.sockets.iter().next().is_none() {
            self.tunnel.on_link(id, false, now);
        }
    }

    fn change(&mut self, mut change: Change, now: Time) {
        match &mut change {
            Change::SetLink(id, config) => {
                self.unwatched.set(*id, *config);
                match self.links.get(id) {
                    Some(link) => *config = with_families(*config, link),
                    // It will get its settings with its first socket.
                    None => return,
                }
            }
            Change::RemoveLink(id) => {
                self.unwatched.forget_link(*id);
                self.links.remove(id);
            }
            _ => {}
        }
        self.tunnel.apply(change, now);
    }
}

fn with_families(config: LinkConfig, link: &LinkOutput) -> LinkConfig {
    let sockets = &link.sockets;
    LinkConfig { ipv4: sockets.v4.is_some(), ipv6: sockets.v6.is_some(), ..config }
}

fn token_of(link: LinkId, family: Family) -> Token {
    Token(u64::from(link.0) << 1 | u64::from(family == Family::V6))
}

/// Beyond the tokens of links.
const STRANGERS: u64 = 1 << 32;

fn token_of_strangers(link: LinkId, family: Family) -> Token {
    Token(token_of(link, family).0 | STRANGERS)
}

fn is_of_strangers(token: Token) -> bool {
    token.0 & STRANGERS != 0
}

fn link_of(token: Token) -> (LinkId, Family) {
    let family = if token.0 & 1 == 1 { Family::V6 } else { Family::V4 };
    (LinkId((token.0 >> 1) as u16), family)
}

fn watch_writing(poller: &Poller, id: LinkId, link: &LinkOutput, writing: bool) -> io::Result<()> {
    let interest = link.use_of_sockets.interest(writing);
    let watch =
        |socket: &LinkSocket| poller.modify(socket, token_of(id, socket.family()), interest);
    link.sockets.iter().try_for_each(watch)
}
