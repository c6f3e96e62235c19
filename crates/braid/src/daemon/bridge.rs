//! Translates between the daemon's terms (names, config, status) and the data plane's (numbers, the
//! core's types). Runs on a thread of its own: [`start`].

mod asking;
mod challenges;
mod introductions;
mod links;
mod order;
mod quota;
mod report;
pub mod translate;
mod willingness;

pub use links::period_end;

use super::beat;
use super::bell::Bell;
use super::classes;
use super::data_channel::{Command, Commands, Introduction, Published, Referring, Setup, Snapshot};
use super::reconfigure::{Change, NewPeer};
use super::supervise::start_thread;
use asking::{Asking, Seen};
use braid_control::config::{Cap, Name, Transport, XorHash};
use braid_control::status::DeviceDrops;
use braid_dataplane::{Clock, Handle, Listening, Stopped};
use braid_handshake::PublicKey;
use braid_inner::Layer;
use braid_tunnel::routing::Room;
use braid_tunnel::{Change as Core, Event, LinkId, PeerId, Referral, Tunnel, TunnelConfig, Worker};
use challenges::Challenges;
use introductions::Introductions;
use links::{FIRST_LISTENING, FIRST_LISTENING_TLS, Links};
use report::Reporter;
use std::collections::BTreeMap;
use std::io;
use std::num::NonZeroU8;
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use willingness::Willingness;

/// How often a snapshot is published and quotas are counted.
pub const TICK: Duration = Duration::from_millis(200);
/// Delay between a command and the snapshot, as more commands may follow; and minimum time between
/// a snapshot and one for an event.
const SOON: Duration = Duration::from_millis(10);
/// How often flows are read: every this many ticks.
const FLOWS_EACH: u32 = 5;
/// Their name in the log.
const LISTENING: &str = "(listening)";

/// Starts the data plane. It ends after [`Command::Stop`], when the other end
/// of `commands` is dropped, or by itself (the device was deleted).
pub fn start(
    setup: Setup,
    commands: Commands,
    published: Published,
    bell: Bell,
) -> io::Result<JoinHandle<io::Result<()>>> {
    let clock = Clock::start();
    let (rules, modes) = classes::classes(&setup.rules, setup.mode, setup.xor_hash);
    let count = u8::try_from(setup.queues.len()).ok().and_then(NonZeroU8::new);
    let count = count.ok_or(io::ErrorKind::InvalidInput)?;
    // An Ethernet device doesn't accept bare IP packets.
    let carries_ip = setup.queues.iter().all(|queue| queue.layer() == Layer::L3);
    let addresses = if carries_ip { setup.addresses } else { Vec::new() };
    let room = Arc::new(setup.capacity.map_or_else(Room::default, Room::new));
    let tunnels = Worker::all(count).zip(setup.queues).map(|(worker, queue)| {
        let config = TunnelConfig {
            layer: queue.layer(),
            mode: classes::mode(setup.mode, setup.xor_hash),
            classes: rules.clone(),
            class_modes: modes.clone(),
            memory_per_peer: setup.memory_per_peer.bytes(),
            isolate_peers: setup.isolate_homes,
            announces: setup.announces,
            room: room.clone(),
            redundancy_budget: setup.redundancy_budget,
            worker,
            seed: seed(),
            epoch_unix_nanos: clock.epoch_unix_nanos(),
            ..TunnelConfig::new(setup.private_key.clone())
        };
        (Tunnel::new(config), queue)
    });
    let rings = bell.clone();
    let on_news = move || rings.ring();
    let plane = braid_dataplane::start(tunnels.collect(), clock, setup.wake_latency, on_news)?;
    let by_udp = (FIRST_LISTENING..).zip(setup.listen.into_iter().map(Listening::Steered));
    let by_tls = (FIRST_LISTENING_TLS..).zip(setup.listen_tls.into_iter().map(Listening::Shared));
    for (number, sockets) in by_udp.chain(by_tls) {
        plane.listen(LinkId(number), sockets).map_err(io::Error::other)?;
    }
    let bridge = Bridge {
        plane,
        room,
        xor_hash: setup.xor_hash,
        links: Links::default(),
        peers: BTreeMap::new(),
        introductions: Introductions::default(),
        reporter: Reporter::new(setup.mode),
        unwatched: BTreeMap::new(),
        willingness: Willingness::default(),
        referrals: BTreeMap::new(),
        challenges: Challenges::new(addresses),
        asking: Asking::default(),
        bell,
    };
    start_thread("braid-bridge", move || bridge.run(&commands, &published))
}

struct Bridge {
    plane: Handle,
    room: Arc<Room>,
    xor_hash: XorHash,
    links: Links,
    peers: BTreeMap<PeerId, BridgedPeer>,
    introductions: Introductions,
    reporter: Reporter,
    /// See [`Snapshot::unwatched`].
    unwatched: BTreeMap<String, String>,
    willingness: Willingness,
    /// Where homes are referred, from the fleet.
    referrals: BTreeMap<PublicKey, Vec<Arc<Referral>>>,
    /// Challenges for a home's connections after it moved.
    challenges: Challenges,
    /// Homes are asked whether they are still here, without the registry.
    asking: Asking,
    bell: Bell,
}

struct BridgedPeer {
    name: Name,
    public_key: PublicKey,
    last_handshake: Option<Instant>,
    /// As last reported.
    trouble: Option<String>,
    /// As the config says.
    stands_in_for: Option<Name>,
    /// Packets to its addresses go to this one.
    served_by: Option<PeerId>,
    /// Where it refers us; `None` before it has said so.
    refers_to: Option<Vec<Referral>>,
}

impl Bridge {
    fn run(mut self, commands: &Commands, published: &Published) -> io::Result<()> {
        let mut next = Instant::now();
        let mut published_at = next;
        let mut traffic = Arc::default();
        let mut ticks = 0;
        let mut works = false;
        let mut news = false;
        loop {
            match commands.recv_timeout(next.saturating_duration_since(Instant::now())) {
                Ok(Command::Stop) | Err(RecvTimeoutError::Disconnected) => break,
                Ok(Command::Hear) => {
                    self.bell.heard();
                    if self.note_events() {
                        news = true;
                        next = next.min(published_at + SOON);
                    }
                }
                Ok(Command::LeaseRenewed(at)) => self.asking.on_renewed(at),
                Ok(command) => {
                    if self.carry_out(command).is_err() {
                        break;
                    }
                    // So that whoever changed something sees the result.
                    next = next.min(Instant::now() + SOON);
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            if self.challenges.is_waiting() {
                if self.plane.deliver(self.challenges.next()).is_err() {
                    break;
                }
                next = next.min(Instant::now() + SOON);
            }
            if Instant::now() < next {
                continue;
            }
            published_at = Instant::now();
            next = beat::next(TICK, Duration::ZERO, Instant::now());
            let Ok(report) = self.plane.report() else { break };
            self.links.count_quotas(&report, &self.plane);
            self.follow_troubles(&report);
            self.follow_unwatched(&report);
            if self.ask_silent(&report).is_err() {
                break;
            }
            if ticks % FLOWS_EACH == 0 {
                let Ok(flows) = self.plane.report_traffic() else { break };
                let flows = self.reporter.flows(flows, &report, &self.peers, &self.links);
                traffic = Arc::new(flows);
            }
            ticks = ticks.wrapping_add(1);
            let peers = self.reporter.peers(&report, &self.peers, &self.links);
            let one_works = peers.iter().any(|peer| peer.connected);
            news |= std::mem::replace(&mut works, one_works) != one_works;
            published.publish(Snapshot {
                peers,
                drops: DeviceDrops {
                    not_fetched: report.tun_dropped + report.handover_drops,
                    refused: report.tun.refused,
                    malformed: report.tun.malformed,
                },
                traffic: Arc::clone(&traffic),
                quotas: self.links.quotas(),
                unwatched: self.unwatched.clone(),
                introduced: self.introductions.waiting(),
                referring: self.referring(),
                met: self
                    .peers
                    .values()
                    .filter(|peer| peer.last_handshake.is_some())
                    .map(|peer| peer.public_key)
                    .collect(),
            });
            if std::mem::take(&mut news) {
                published.wake();
            }
        }
        self.plane.stop()
    }

    fn carry_out(&mut self, command: Command) -> Result<(), Stopped> {
        match command {
            Command::Change(change) => self.change(*change),
            Command::AttachSocket { link, transport, socket, device_mtu } => {
                let Some((id, config)) = self.links.attach(&link, transport, device_mtu) else {
                    return Ok(());
                };
                match transport {
                    Transport::Udp => tracing::info!(link = link.as_str(), "link in use"),
                    other => tracing::info!(link = link.as_str(), "trying {other}"),
                }
                self.plane.attach(id, config, socket)
            }
            Command::DetachSocket { link, family } => self.links.detach(&link, family, &self.plane),
            Command::CloseTransport { link, transport } => {
                self.links.close(&link, transport, &self.plane)
            }
            Command::ExpireEnrolment(line) => {
                self.introductions.expire(&line);
                self.plane.change(Core::SetEnrolments(self.introductions.states()))
            }
            Command::SetEndpoints { peer, endpoints } => match self.peer_of(&peer) {
                Some(id) => self.plane.change(Core::SetEndpoints(id, endpoints)),
                None => Ok(()),
            },
            Command::Treat { peer, treatments } => match self.peer_of(&peer) {
                Some(id) => self.plane.change(Core::Treat(id, treatments)),
                None => Ok(()),
            },
            Command::Leave(done) => self.plane.leave(done),
            Command::Hear | Command::LeaseRenewed(_) | Command::Stop => Ok(()),
        }
    }

    fn change(&mut self, change: Change) -> Result<(), Stopped> {
        match change {
            Change::AddLink { link, used } => self.links.add(link, used, &self.plane),
            // The reconciler has closed the sockets of a link that has another egress now.
            Change::SetLink(link) | Change::RebindLink(link) => self.links.set(link, &self.plane),
            Change::RemoveLink(name) => self.links.remove(&name, &self.plane),
            Change::AddPeer(new) => self.add_peer(new),
            Change::RemovePeer(key) => self.remove_peer(&key),
            Change::SetLimit { home, limit } => match self.peer_of(&home) {
                Some(id) => self.plane.change(limited(id, limit)),
                None => Ok(()),
            },
            Change::SetMode(mode) => {
                self.reporter.set_mode(mode);
                self.plane.change(Core::SetMode(classes::mode(mode, self.xor_hash)))
            }
            Change::SetDraining(draining) => {
                let before = self.ranks_now();
                self.willingness.draining = draining;
                self.say_ranks(&before)
            }
            Change::SetRanks(ranks) => {
                let before = self.ranks_now();
                self.willingness.ranks = ranks;
                self.say_ranks(&before)
            }
            Change::SetCapacity(capacity) => {
                self.room.set_capacity(capacity);
                Ok(())
            }
            Change::Announced(homes) => {
                for (id, _) in self.peers.iter().filter(|(_, peer)| homes.contains(&peer.name)) {
                    self.plane.change(Core::Announced(*id))?;
                }
                Ok(())
            }
            Change::SetReferrals(referrals) => {
                let before = std::mem::replace(&mut self.referrals, referrals);
                for (id, peer) in &self.peers {
                    let now = self.referrals.get(&peer.public_key);
                    if now != before.get(&peer.public_key) {
                        self.plane.change(refer(*id, now))?;
                    }
                }
                Ok(())
            }
        }
    }

    /// The referrals of the concentrators that serve this home.
    fn referring(&self) -> Vec<Referring> {
        let owners = self.peers.iter().filter(|(_, peer)| peer.stands_in_for.is_none());
        owners
            .filter_map(|(id, owner)| {
                let serves = self.peers.get(&owner.served_by.unwrap_or(*id))?;
                let referrals = serves.refers_to.clone()?;
                let (owner, serves) = (owner.public_key, serves.public_key);
                Some(Referring { owner, serves, referrals })
            })
            .collect()
    }

    fn ranks_now(&self) -> BTreeMap<PeerId, u8> {
        self.peers.iter().map(|(id, peer)| (*id, self.willingness.rank(&peer.public_key))).collect()
    }

    /// Tells those homes whose rank has changed.
    fn say_ranks(&self, before: &BTreeMap<PeerId, u8>) -> Result<(), Stopped> {
        for (id, rank) in self.ranks_now() {
            if before.get(&id) != Some(&rank) {
                self.plane.change(Core::SetRank(id, rank))?;
            }
        }
        Ok(())
    }

    fn add_peer(&mut self, new: NewPeer) -> Result<(), Stopped> {
        let NewPeer { peer, preshared_key, token } = new;
        if self.introductions.add(&peer) {
            self.plane.change(Core::SetEnrolments(self.introductions.states()))?;
        }
        if !peer.is_known() {
            return Ok(());
        }
        // Peers that we connect to are reached over the first worker's links.
        let calls = peer.endpoints.is_empty() && peer.stands_in_for.is_none();
        let id = self.plane.add_peer(translate::peer(&peer, preshared_key), calls)?;
        if let Some(token) = token {
            self.plane.change(Core::Introduce(id, token))?;
        }
        if peer.limit != Cap::default() {
            self.plane.change(limited(id, peer.limit))?;
        }
        let peer_key = peer.public_key;
        let known = BridgedPeer {
            name: peer.name,
            public_key: peer.public_key,
            last_handshake: None,
            trouble: None,
            served_by: None,
            refers_to: None,
            stands_in_for: peer.stands_in_for,
        };
        self.peers.insert(id, known);
        let rank = self.willingness.rank(&peer_key);
        if rank != willingness::MOST {
            self.plane.change(Core::SetRank(id, rank))?;
        }
        if let Some(referrals) = self.referrals.get(&peer_key) {
            self.plane.change(refer(id, Some(referrals)))?;
        }
        self.line_up(id)
    }

    /// Tells the core which peers stand in for which, as far as the new one is involved.
    fn line_up(&mut self, new: PeerId) -> Result<(), Stopped> {
        let named = |name: &Name| self.peers.iter().find(|(_, peer)| peer.name == *name);
        for (id, peer) in &self.peers {
            let Some((owner, _)) = peer.stands_in_for.as_ref().and_then(named) else { continue };
            if *id == new || *owner == new {
                self.plane.change(Core::StandIn(*id, *owner))?;
            }
        }
        Ok(())
    }

    fn remove_peer(&mut self, key: &PublicKey) -> Result<(), Stopped> {
        if self.introductions.remove(key) {
            self.plane.change(Core::SetEnrolments(self.introductions.states()))?;
        }
        let Some(id) = self.peer_of(key) else { return Ok(()) };
        self.peers.remove(&id);
        for peer in self.peers.values_mut().filter(|peer| peer.served_by == Some(id)) {
            peer.served_by = None;
        }
        if self.peers.is_empty() {
            // Another peer's paths count from 0.
            self.links.forget_counters();
        }
        self.plane.change(Core::RemovePeer(id))
    }

    fn peer_of(&self, key: &PublicKey) -> Option<PeerId> {
        self.peers.iter().find(|(_, p)| p.public_key == *key).map(|(id, _)| *id)
    }

    /// Handles events. Returns whether others must act: a peer came or went, or is served
    /// elsewhere.
    fn note_events(&mut self) -> bool {
        let mut news = false;
        for event in self.plane.events() {
            match event {
                Event::Handshake { peer, anew } => {
                    if let Some(known) = self.peers.get_mut(&peer) {
                        known.last_handshake = Some(Instant::now());
                        if anew {
                            news = true;
                            tracing::info!(peer = known.name.as_str(), "connected");
                        } else {
                            tracing::debug!(peer = known.name.as_str(), "new keys");
                        }
                    }
                }
                Event::Closed { peer } => {
                    news = true;
                    if let Some(known) = self.peers.get(&peer) {
                        tracing::info!(peer = known.name.as_str(), "the peer has gone");
                    }
                }
                Event::Introduced { token, home, from } => {
                    news = true;
                    self.introductions.note(Introduction { line: token, home, from });
                }
                Event::Refused { token, refusal, from } => {
                    self.introductions.note_refused(&token, refusal, from, Instant::now());
                }
                Event::NotEnrolled { peer, refusal } => {
                    self.introductions.note_not_enrolled(peer, refusal);
                }
                Event::Moved { owner, from, to } => {
                    news = true;
                    if let Some(peer) = self.peers.get_mut(&owner) {
                        peer.served_by = (to != owner).then_some(to);
                    }
                    self.challenges.on_move();
                    let name = |id| self.peers.get(&id).map_or("", |peer| peer.name.as_str());
                    tracing::warn!(from = name(from), to = name(to), "another peer serves");
                }
                Event::Referred { peer, referrals } => {
                    news = true;
                    if let Some(known) = self.peers.get_mut(&peer) {
                        let names: Vec<&str> =
                            referrals.iter().map(|it| it.name.as_str()).collect();
                        tracing::info!(by = known.name.as_str(), ?names, "referred to");
                        known.refers_to = Some(referrals);
                    }
                }
                Event::Served { peer, here } => {
                    news = true;
                    let peer = self.peers.get(&peer).map_or("", |peer| peer.name.as_str());
                    match here {
                        true => tracing::debug!(peer, "is served here"),
                        false => tracing::debug!(peer, "is not served here"),
                    }
                }
                Event::Path { peer, link, path, state } => {
                    let peer = self.peers.get(&peer).map_or("", |p| p.name.as_str());
                    let link = self.links.name_of(link).map_or("-", Name::as_str);
                    tracing::debug!(peer, link, path, ?state, "path");
                }
            }
        }
        news
    }

    /// Updates the troubles between this host and its peers.
    fn follow_troubles(&mut self, report: &braid_dataplane::Report) {
        for (id, state) in &report.peers {
            let Some(peer) = self.peers.get_mut(id) else { continue };
            let trouble = self.introductions.trouble(*id, peer.public_key, state);
            if trouble == peer.trouble {
                continue;
            }
            match &trouble {
                Some(trouble) => tracing::warn!(peer = peer.name.as_str(), "{trouble}"),
                None => tracing::info!(peer = peer.name.as_str(), "no longer in trouble"),
            }
            peer.trouble = trouble;
        }
    }

    /// Asks homes that may be elsewhere by now.
    fn ask_silent(&mut self, report: &braid_dataplane::Report) -> Result<(), Stopped> {
        let peers = report.peers.iter().map(|(id, peer)| (*id, Seen::from(peer)));
        let due = self.asking.due(peers, Instant::now());
        due.into_iter().try_for_each(|id| self.plane.change(Core::Ask(id)))
    }

    /// Reports sockets that the kernel refuses to watch, and those that it watches again.
    fn follow_unwatched(&mut self, report: &braid_dataplane::Report) {
        let name = |id: &LinkId| self.links.name_of(*id).map_or(LISTENING, Name::as_str).to_owned();
        let now: BTreeMap<String, String> = report
            .unwatched
            .iter()
            .map(|(id, error)| {
                let trouble = format!("can't watch its socket: {error}; retrying every second");
                (name(id), trouble)
            })
            .collect();
        for (link, trouble) in now.iter().filter(|(link, _)| !self.unwatched.contains_key(*link)) {
            tracing::warn!(link, "link not usable: {trouble}");
        }
        for link in self.unwatched.keys().filter(|link| !now.contains_key(*link)) {
            tracing::info!(link, "its socket is watched now");
        }
        self.unwatched = now;
    }
}

fn limited(home: PeerId, limit: Cap) -> Core {
    Core::SetLimits { home, to: limit.down, from: limit.up }
}

fn refer(home: PeerId, referrals: Option<&Vec<Arc<Referral>>>) -> Core {
    let referrals = referrals.into_iter().flatten();
    Core::Refer(home, referrals.map(|referral| Referral::clone(referral)).collect())
}

/// An unpredictable number, for the flow hash's key and the instance.
fn seed() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}
