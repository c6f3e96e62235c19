use super::super::data_channel::{Command, DataPlaneHandle};
use super::super::reconciler::Yields;
use super::super::reconfigure::Change;
use super::super::supervise;
use super::super::tunnel::Tunnel;
use crate::fleet_store::open;
use braid_control::config::{Config, Fleet, Name, Peer, read_preshared_key};
use braid_control::fleet_homes::{FleetHome, FleetHomes};
use braid_control::request::Request;
use braid_control::status::{FleetStatus, PeerStatus, Status};
use braid_handshake::PublicKey;
use braid_registry::placement::Places;
use braid_registry::{Concentrator, Fleet as Registered, Home, Known, Member, Own, Store};
use braid_tunnel::Referral;
use braid_units::Rate;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

/// How often the registry is read.
const EVERY: Duration = Duration::from_secs(1);
/// If reading takes long, it is done less often, so that it takes a tenth of the time; but at least
/// this often.
const AT_LEAST_EVERY: Duration = Duration::from_secs(3);
const REST: u32 = 9;
/// How often it is counted between two looks who is served here, and who was refused. The data
/// plane takes nobody on for whom there is no room, but others are to hear that there is none
/// before they come, and those that were refused of one that has some. More than there is room for
/// are here where the capacity was lowered, or homes had no other place: some that have one are to
/// go on.
const COUNTED_EVERY: Duration = Duration::from_millis(100);
/// A silent registry is reported at once, and then this often.
const TOLD_EVERY: Duration = Duration::from_secs(600);

/// What the thread works with.
pub struct Part {
    pub fleet: Fleet,
    pub public_key: PublicKey,
    pub yields: Yields,
    pub status: Arc<Mutex<Option<FleetStatus>>>,
    pub tunnel: Weak<dyn Tunnel>,
    pub data_plane: Arc<DataPlaneHandle>,
}

impl Part {
    /// Starts the thread, which ends with the tunnel.
    pub fn start(self) -> io::Result<()> {
        supervise::start_unneeded("braid-fleet", move || self.run()).map(drop)
    }

    fn run(&self) {
        let mut store: Option<Box<dyn Store>> = None;
        let mut member = Member::default();
        let mut health = Health::default();
        let mut copy: Option<FleetHomes> = None;
        let mut ranks = BTreeMap::new();
        let mut told: Option<Known> = None;
        let mut seen: Option<Registered> = None;
        let mut capacity = self.fleet.capacity;
        // If the registry isn't reached from the start, homes are asked from the start.
        let _ = self.data_plane.send(Command::LeaseRenewed(Instant::now()));
        loop {
            let Some(tunnel) = self.tunnel.upgrade() else { return };
            let config = tunnel.config_now();
            let own = self.own(&config, &tunnel.status());
            // The tunnel's end must not wait for a registry.
            drop(tunnel);
            let begun = Instant::now();
            let opened = match &mut store {
                Some(store) => Ok(store),
                none => open(&self.fleet.registry).map(|opened| none.insert(opened)),
            };
            let round = opened
                .and_then(|store| member.round(store.as_mut(), &own, Instant::now))
                .map_err(|error| error.to_string());
            let Some(tunnel) = self.tunnel.upgrade() else { return };
            if let Ok(known) = &round {
                // Of one that has ended the next change tells.
                let _ = self.data_plane.send(Command::LeaseRenewed(begun));
                self.yields
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .clone_from(&known.yields);
            }
            if let Err(error) = follow(&config, round.as_ref().ok(), &mut copy, &*tunnel) {
                tracing::warn!("the fleet's homes: {error}");
            }
            let now = copy.as_ref().map(FleetHomes::ranks).unwrap_or_default();
            if now != ranks && self.data_plane.change(Change::SetRanks(now.clone())).is_ok() {
                ranks = now;
            }
            // Parsing 10,000 keys takes longer than everything else here.
            if let Ok(known) = &round
                && !told.as_ref().is_some_and(|told| refers_as(told, known))
                && self.data_plane.change(Change::SetReferrals(referred(known))).is_ok()
            {
                told = Some(known.clone());
            }
            *self.status.lock().unwrap_or_else(PoisonError::into_inner) =
                Some(health.follow(&self.fleet, &round, Instant::now()));
            drop(tunnel);
            seen = round.map(|known| known.fleet).ok().or(seen);
            let now = capacity_of(&own, seen.as_ref());
            if now != capacity && self.data_plane.change(Change::SetCapacity(now)).is_ok() {
                capacity = now;
            }
            let until = Instant::now() + EVERY.max(begun.elapsed() * REST).min(AT_LEAST_EVERY);
            let last = (seen.as_ref(), &mut told);
            self.count(&mut member, own, &mut ranks, last, until);
        }
    }

    /// Until it is time for the next look: says anew how willing it is, and to whom those are
    /// referred that it has refused, whenever it serves or refuses others than before. It goes by
    /// what was `seen` at the last look that succeeded, and `told` after it.
    fn count(
        &self,
        member: &mut Member,
        mut own: Own,
        ranks: &mut BTreeMap<PublicKey, u8>,
        (seen, told): (Option<&Registered>, &mut Option<Known>),
        until: Instant,
    ) {
        while Instant::now() < until {
            std::thread::sleep(COUNTED_EVERY);
            let peers = &self.data_plane.snapshot().peers;
            let (served, refused) = (served_here(peers), refused_here(peers));
            let Some((fleet, known)) = seen.zip(told.as_mut()) else { continue };
            if served.keys().eq(own.served.keys()) && refused == own.refused {
                continue;
            }
            (own.served, own.refused) = (served, refused);
            let now = member.ranks(fleet, &own.name, &own.served, &own.refused);
            let mut all = ranks.clone();
            all.extend(by_key(fleet, now));
            if all != *ranks && self.data_plane.change(Change::SetRanks(all.clone())).is_ok() {
                *ranks = all;
            }
            let before = std::mem::replace(&mut known.referrals, member.referrals());
            if before != known.referrals
                && self.data_plane.change(Change::SetReferrals(referred(known))).is_err()
            {
                known.referrals = before;
            }
        }
    }

    /// This concentrator's current state.
    fn own(&self, config: &Config, status: &Status) -> Own {
        let fleet = config.fleet.as_ref().unwrap_or(&self.fleet);
        let homes = || config.peers.iter().filter(|peer| peer.endpoints.is_empty());
        let joined = |peer: &&Peer| peer.of_fleet && peer.enrolment.is_some() && peer.is_known();
        let kbit = |peer: &PeerStatus| {
            let rates = peer.paths.iter().flat_map(|path| [path.rate_tx_mbps, path.rate_rx_mbps]);
            rates.flatten().sum::<f64>() * 1000.0
        };
        Own {
            name: self.fleet.name.to_string(),
            concentrator: Concentrator {
                public_key: self.public_key.to_string(),
                endpoints: fleet.endpoints.iter().map(ToString::to_string).collect(),
                capacity: fleet.capacity,
                site: fleet.site.as_ref().map(ToString::to_string),
                draining: false,
            },
            draining: config.interface.draining,
            homes: homes()
                .filter(|peer| !peer.of_fleet)
                .map(|peer| (peer.name.to_string(), record(peer)))
                .collect(),
            joined: homes()
                .filter(joined)
                .map(|peer| (peer.name.to_string(), peer.public_key.to_string()))
                .collect(),
            served: served_here(&status.peers),
            refused: refused_here(&status.peers),
            kbit: status.peers.iter().map(kbit).sum::<f64>() as u64,
        }
    }
}

/// The homes that say that they are served here, with the epochs of their statements.
fn served_here(peers: &[PeerStatus]) -> BTreeMap<String, u64> {
    let here = peers.iter().filter(|peer| peer.connected && peer.served_here != Some(false));
    here.map(|peer| (peer.name.clone(), peer.served_epoch.unwrap_or_default())).collect()
}

/// Those that were refused, and look for another.
fn refused_here(peers: &[PeerStatus]) -> BTreeSet<String> {
    peers.iter().filter(|peer| peer.refused).map(|peer| peer.name.clone()).collect()
}

/// How many homes are taken on: however many come, where no other is known to have room.
fn capacity_of(own: &Own, fleet: Option<&Registered>) -> u32 {
    let others = fleet.is_none_or(|fleet| Places::others_have_room(fleet, &own.name));
    if others { own.concentrator.capacity } else { u32::MAX }
}

/// Ranks of homes by key instead of name; only homes with known keys.
fn by_key(
    fleet: &Registered,
    ranks: BTreeMap<String, u8>,
) -> impl Iterator<Item = (PublicKey, u8)> {
    ranks.into_iter().filter_map(|(name, rank)| {
        let (home, _) = fleet.homes.get(&name)?;
        Some((home.public_key.as_ref()?.parse().ok()?, rank))
    })
}

/// Whether the referrals are the same.
fn refers_as(before: &Known, now: &Known) -> bool {
    before.referrals == now.referrals
        && before.fleet.homes == now.fleet.homes
        && before.fleet.concentrators == now.fleet.concentrators
}

/// Where homes are referred, by home key.
fn referred(known: &Known) -> BTreeMap<PublicKey, Vec<Arc<Referral>>> {
    let concentrators = known.fleet.concentrators.iter();
    let concentrators: BTreeMap<&String, Arc<Referral>> = concentrators
        .filter_map(|(name, (it, _))| {
            let public_key = it.public_key.parse().ok()?;
            let endpoints = it.endpoints.clone();
            Some((name, Arc::new(Referral { public_key, name: name.clone(), endpoints })))
        })
        .collect();
    let home = |(name, referrals): (&String, &Vec<String>)| {
        let (home, _) = known.fleet.homes.get(name)?;
        let referrals = referrals.iter().filter_map(|it| concentrators.get(it).cloned());
        Some((home.public_key.as_ref()?.parse().ok()?, referrals.collect()))
    };
    known.referrals.iter().filter_map(home).collect()
}

/// The registry's record of a home in this concentrator's config.
fn record(peer: &Peer) -> Home {
    let secret = peer.preshared_key_file.as_deref();
    let secret = secret.and_then(|file| read_preshared_key(file).ok());
    Home {
        public_key: peer.is_known().then(|| peer.public_key.to_string()),
        enrolment_key: peer.enrolment.map(|line| line.key.to_string()),
        enrol_until: peer.enrolment.map(|line| line.until.to_string()),
        preshared_key: secret.map(|secret| secret.to_base64().to_string()),
        down_limit_bytes_per_sec: peer.limit.down.map(Rate::bytes_per_sec),
        up_limit_bytes_per_sec: peer.limit.up.map(Rate::bytes_per_sec),
        addresses: peer.allowed_ips.iter().map(ToString::to_string).collect(),
        ..Home::default()
    }
}

/// Updates this host's copy of the fleet's homes; `copy` is the previous one, once read.
fn follow(
    config: &Config,
    known: Option<&Known>,
    copy: &mut Option<FleetHomes>,
    tunnel: &dyn Tunnel,
) -> Result<(), String> {
    let interface = &config.interface;
    let file = FleetHomes::path(&interface.state_dir, interface.name.as_str());
    let told = |error: io::Error| format!("{}: {error}", file.display());
    let copy = match copy {
        Some(copy) => copy,
        none => none.insert(read_copy(&file).map_err(told)?),
    };
    let Some(known) = known else { return Ok(()) };
    let own = config.fleet.as_ref().map(|fleet| fleet.name.to_string()).unwrap_or_default();
    let homes = known.fleet.homes.iter().filter_map(|(name, (home, _))| {
        let rank = known.ranks.get(name).copied()?;
        let name: Name = name.parse().ok()?;
        let home = FleetHome {
            public_key: home.public_key.clone(),
            enrolment: home.enrolment_key.clone().zip(home.enrol_until.clone()),
            preshared_key: home.preshared_key.clone().filter(|_| home.from != own),
            own: home.from == own,
            allowed_ips: home.addresses.clone(),
            down_limit_bytes_per_sec: home.down_limit_bytes_per_sec,
            up_limit_bytes_per_sec: home.up_limit_bytes_per_sec,
            rank,
        };
        Some((name, home))
    });
    if copy.replace(&file, homes.collect(), Instant::now()).map_err(told)? {
        tunnel.execute(Request::ReadHomes).map_err(|refusal| refusal.to_string())?;
    }
    Ok(())
}

/// A damaged copy is rewritten from the registry.
fn read_copy(file: &Path) -> io::Result<FleetHomes> {
    FleetHomes::read(file).or_else(|error| match error.kind() {
        io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => Ok(FleetHomes::none(file)),
        _ => Err(error),
    })
}

/// The registry's recent state.
#[derive(Default)]
struct Health {
    reached: Option<Instant>,
    last: FleetStatus,
    told: Option<(Vec<String>, Instant)>,
}

impl Health {
    fn follow(
        &mut self,
        fleet: &Fleet,
        round: &Result<Known, String>,
        now: Instant,
    ) -> FleetStatus {
        let reachable = round.is_ok();
        let troubles = match round {
            Ok(known) => {
                self.reached = Some(now);
                self.last.homes = known.fleet.homes.len() as u64;
                self.last.concentrators = known.fleet.concentrators.len() as u64;
                known.troubles.clone()
            }
            Err(error) => vec![format!(
                "{error}; traffic and known homes continue, but changes aren't exchanged with the \
                 other concentrators"
            )],
        };
        self.tell(&troubles, now);
        self.last = FleetStatus {
            name: fleet.name.to_string(),
            reachable,
            reached_s: self.reached.map(|at| now.saturating_duration_since(at).as_secs()),
            troubles,
            ..self.last.clone()
        };
        self.last.clone()
    }

    fn tell(&mut self, troubles: &[String], now: Instant) {
        let before = self.told.as_ref();
        let was_amiss = before.is_some_and(|(told, _)| !told.is_empty());
        let long_ago = before.is_none_or(|(_, at)| now.saturating_duration_since(*at) > TOLD_EVERY);
        if troubles.is_empty() && was_amiss {
            tracing::info!("the fleet: everything works again");
        } else if !troubles.is_empty() && (long_ago || !was_amiss) {
            troubles.iter().for_each(|trouble| tracing::warn!("the fleet: {trouble}"));
        } else {
            return;
        }
        self.told = Some((troubles.to_vec(), now));
    }
}
