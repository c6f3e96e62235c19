//! A scenario as plain data: it can be printed, drawn at random and shrunk.

use crate::clock::ClockSpec;
use crate::end_id::EndId;
use crate::network::LinkSpec;
use crate::traffic::Traffic;
use braid_inner::Layer;
use braid_link_model::DirectionModel;
use braid_tunnel::entry::{LimitRate, Treatment};
use braid_tunnel::{Heuristics, Mode};
use std::time::Duration;

/// All that is simulated.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Seeds links, clocks and tunnels.
    pub seed: u64,
    /// How many homes there are.
    pub homes: usize,
    /// Their links.
    pub links: Vec<LinkSpec>,
    /// What happens to them, in any order.
    pub events: Vec<Timed>,
    /// What runs through the tunnel.
    pub traffic: Vec<Traffic>,
    /// How long. Sources that don't stop by themselves end then...
    pub duration: Duration,
    /// ...and what is under way gets this long to arrive.
    pub drain: Duration,
    /// The mode of both ends.
    pub mode: Mode,
    /// IP packets or Ethernet frames.
    pub layer: Layer,
    /// The ends' processors are taken away now and then.
    pub stalls: Option<Stalls>,
    /// Which of the core's heuristics are on.
    pub heuristics: Heuristics,
    /// Memory for one peer in bytes.
    pub memory: u64,
    /// How long nothing may come by a path before the concentrator closes it.
    pub path_expiry: Duration,
    /// Peers share a further secret.
    pub preshared_key: bool,
    /// The homes' clock.
    pub home_clock: ClockSpec,
    /// The concentrator's clock.
    pub concentrator_clock: ClockSpec,
}

/// Both ends stand still for 5 to 80 ms at random: what comes meanwhile waits, as
/// in the buffers of sockets and device.
#[derive(Clone, Copy, Debug)]
pub struct Stalls {
    /// The mean time between two of them.
    pub every: Duration,
}

/// Something that happens at a time.
#[derive(Clone, Debug)]
pub struct Timed {
    /// When.
    pub at: Duration,
    /// What.
    pub action: Action,
}

/// What may happen. Links are named by their place in [`Scenario::links`].
#[derive(Clone, Debug)]
pub enum Action {
    /// Both directions swallow everything, or no longer.
    Blackout(usize, bool),
    /// The home's device loses or regains its carrier, and the tunnel is told.
    Carrier(usize, bool),
    /// Other figures towards the home.
    SetDown(usize, DirectionModel),
    /// Other figures towards the concentrator.
    SetUp(usize, DirectionModel),
    /// Larger packets vanish from now on; nobody is told.
    Mtu(usize, u16),
    /// The NAT forgets the link and gives it another port.
    Rebind(usize),
    /// The link has another public address.
    Roam(usize),
    /// The link is removed from the home's tunnel.
    Remove(usize),
    /// It is added again.
    Add(usize),
    /// A home's program restarts without a goodbye.
    RestartHome(usize),
    /// A home's wall clock is wrong by so many seconds: read when the program
    /// starts, so from the next [`Self::RestartHome`] on.
    WallClock(usize, i64),
    /// The concentrator's program restarts without a goodbye.
    RestartConcentrator,
    /// An end's program says that it restarts, and doesn't run for so long.
    Replace(EndId, Duration),
    /// A home wants another mode.
    SetMode(usize, Mode),
    /// A home wants flows, by their places in [`Scenario::traffic`], treated so, and limits to
    /// have these rates up, and down.
    Treat(usize, Vec<(usize, Treatment)>, Vec<LimitRate>, Vec<LimitRate>),
    /// An end's machine sleeps for so long: nothing reaches it, and its clock stands
    /// still (Linux' `CLOCK_MONOTONIC`).
    Suspend(EndId, Duration),
}

impl Scenario {
    /// Ten seconds of one home with these links and nothing to do.
    pub fn new(links: Vec<LinkSpec>) -> Self {
        Self {
            seed: 1,
            homes: 1,
            links,
            events: Vec::new(),
            traffic: Vec::new(),
            duration: Duration::from_secs(10),
            drain: Duration::from_secs(4),
            mode: Mode::Adaptive,
            layer: Layer::L3,
            stalls: None,
            heuristics: Heuristics::ALL,
            memory: 32 << 20,
            path_expiry: Duration::from_secs(600),
            preshared_key: false,
            home_clock: ClockSpec { offset: Duration::from_secs(77), drift_ppm: 20 },
            concentrator_clock: ClockSpec { offset: Duration::from_secs(5000), drift_ppm: -30 },
        }
    }

    /// Adds an event.
    pub fn event(mut self, at: Duration, action: Action) -> Self {
        self.events.push(Timed { at, action });
        self
    }

    /// Adds traffic.
    pub fn traffic(mut self, traffic: Traffic) -> Self {
        self.traffic.push(traffic);
        self
    }

    /// Sets the duration.
    pub fn lasting(mut self, duration: Duration) -> Self {
        self.duration = duration;
        self
    }

    /// IP bytes that the links could carry to the homes (or from them) between
    /// two moments, with all changes of their rates, blackouts and carriers.
    pub fn capacity(&self, to_home: bool, from: Duration, to: Duration) -> u64 {
        (0..self.links.len()).map(|link| self.link_capacity(link, to_home, from, to)).sum()
    }

    /// As [`Self::capacity`], of one link.
    pub fn link_capacity(&self, link: usize, to_home: bool, from: Duration, to: Duration) -> u64 {
        let spec = &self.links[link];
        let mut capacity = if to_home { &spec.down } else { &spec.up }.capacity.clone();
        let (mut since, mut started) = (Duration::ZERO, Duration::ZERO);
        let (mut dark, mut carrier) = (false, true);
        let mut events: Vec<&Timed> = self.events.iter().collect();
        events.sort_by_key(|e| e.at);
        let mut total = 0;
        let mut add = |capacity: &crate::Capacity, since: Duration, until, started, works| {
            let (low, high) = (since.max(from), to.min(until));
            if works && high > low {
                total += capacity.bytes_between(low - started, high - started);
            }
        };
        for event in events {
            let works = !dark && carrier;
            match &event.action {
                Action::Blackout(l, on) if *l == link => dark = *on,
                Action::Carrier(l, up) if *l == link => carrier = *up,
                Action::SetDown(l, _) if *l == link && to_home => {}
                Action::SetUp(l, _) if *l == link && !to_home => {}
                _ => continue,
            }
            add(&capacity, since, event.at, started, works);
            since = event.at;
            if let Action::SetDown(_, spec) | Action::SetUp(_, spec) = &event.action {
                capacity = spec.capacity.clone();
                started = event.at;
            }
        }
        add(&capacity, since, Duration::MAX, started, !dark && carrier);
        total
    }
}
