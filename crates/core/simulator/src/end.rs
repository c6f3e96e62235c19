//! One end: a tunnel with its own clock.

use crate::clock::ClockSpec;
use braid_handshake::{PresharedKey, PrivateKey, PublicKey};
use braid_inner::InnerPacket;
use braid_tunnel::{LinkConfig, LinkId, PeerConfig, Tunnel, TunnelConfig};
use braid_units::Time;
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use crate::end_id::EndId;
use crate::network::Datagram;
use crate::scenario::Scenario;
use crate::traffic::home_host;

/// Where the concentrator listens.
pub(crate) const CONCENTRATOR: SocketAddr =
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(203, 0, 113, 1)), 51_820);
/// The concentrator's only link.
pub(crate) const CONCENTRATOR_LINK: LinkId = LinkId(0);

#[derive(Debug)]
pub(crate) struct End {
    pub id: EndId,
    pub tunnel: Tunnel,
    pub clock: ClockSpec,
    /// When the tunnel wants to be woken, true time.
    pub timer: Option<Time>,
    /// Times it was woken in the current millisecond.
    pub woken: (u64, u32),
    /// It stands still until then.
    pub stalled_until: Time,
    /// It sleeps until then.
    pub asleep_until: Time,
    /// No program runs until then.
    pub absent_until: Time,
    /// For so long its clock has stood still.
    slept: Duration,
    /// What came meanwhile.
    pub held: VecDeque<Held>,
    starts: u64,
    /// Seconds by which its wall clock is wrong.
    pub wall_clock_off: i64,
}

/// What comes to an end that stands still.
#[derive(Debug)]
pub(crate) enum Held {
    /// By a link.
    Datagram(LinkId, Datagram),
    /// From its device.
    Packet(InnerPacket),
}

/// What wall clocks show in the beginning: nanoseconds since 1970.
const EPOCH_UNIX_NANOS: u64 = 1_700_000_000_000_000_000;

impl End {
    pub fn new(id: EndId, scenario: &Scenario) -> Self {
        let clock = match id {
            EndId::Home(_) => scenario.home_clock,
            EndId::Concentrator => scenario.concentrator_clock,
        };
        let mut end = Self {
            id,
            tunnel: Tunnel::new(TunnelConfig::new(private_key(id))),
            clock,
            timer: Some(Time::ZERO),
            woken: (0, 0),
            stalled_until: Time::ZERO,
            asleep_until: Time::ZERO,
            absent_until: Time::ZERO,
            slept: Duration::ZERO,
            held: VecDeque::new(),
            starts: 0,
            wall_clock_off: 0,
        };
        end.start(scenario, Time::ZERO);
        end
    }

    /// The program starts (again) at `now`, true time.
    pub fn start(&mut self, scenario: &Scenario, now: Time) {
        self.starts += 1;
        let mut config = TunnelConfig::new(private_key(self.id));
        config.layer = scenario.layer;
        config.mode = scenario.mode;
        config.heuristics = scenario.heuristics;
        config.memory_per_peer = scenario.memory;
        config.path_expiry = scenario.path_expiry;
        config.seed = scenario.seed
            ^ match self.id {
                EndId::Home(home) => (home as u64 + 1) << 32 | self.starts << 16,
                EndId::Concentrator => self.starts << 16 | 0xc,
            };
        // The tunnel's own clock goes on over a restart; a machine's too.
        config.epoch_unix_nanos = EPOCH_UNIX_NANOS
            .saturating_add_signed(self.wall_clock_off.saturating_mul(1_000_000_000));
        self.tunnel = Tunnel::new(config);
        let local = self.local(now);
        let psk = scenario.preshared_key.then(|| PresharedKey::from_bytes(&[0x5c; 32]));
        match self.id {
            EndId::Home(home) => {
                let mine = scenario.links.iter().enumerate().filter(|(_, l)| l.home == home);
                for (index, link) in mine {
                    self.tunnel.add_link(link_id(index), link.config, local);
                }
                let everything = ["0.0.0.0/0", "::/0"];
                self.tunnel.add_peer(
                    PeerConfig {
                        preshared_key: psk,
                        endpoints: vec![CONCENTRATOR],
                        allowed_ips: everything.iter().filter_map(|n| n.parse().ok()).collect(),
                        keepalive: Some(Duration::from_secs(10)),
                        ..PeerConfig::new(public_key(EndId::Concentrator))
                    },
                    local,
                );
            }
            EndId::Concentrator => {
                let config = LinkConfig { listens: true, ..LinkConfig::default() };
                self.tunnel.add_link(CONCENTRATOR_LINK, config, local);
                for home in 0..scenario.homes {
                    let host = IpAddr::V4(home_host(home));
                    self.tunnel.add_peer(
                        PeerConfig {
                            public_key: public_key(EndId::Home(home)),
                            preshared_key: psk.clone(),
                            endpoints: Vec::new(),
                            allowed_ips: vec![host.into()],
                            keepalive: None,
                            follow_mode: true,
                        },
                        local,
                    );
                }
            }
        }
    }

    /// What its clock shows.
    pub fn local(&self, now: Time) -> Time {
        let awake = match self.asleep_until > now {
            // What its clock showed when it fell asleep, until it has slept.
            true => self.asleep_until,
            false => now,
        };
        self.clock.local(Time::ZERO + (awake - Time::ZERO).saturating_sub(self.slept))
    }

    /// The first true time at which its clock shows `local` or more.
    pub fn truth(&self, local: Time) -> Time {
        self.clock.truth(local) + self.slept
    }

    /// Another program goes on with the device after so long: what comes by it waits, what comes
    /// by links is lost.
    pub fn replace(&mut self, scenario: &Scenario, now: Time, after: Duration) {
        self.start(scenario, now);
        self.absent_until = now + after;
        self.stalled_until = self.stalled_until.max(self.absent_until);
        self.timer = Some(self.stalled_until);
    }

    /// It sleeps from now on, for so long.
    pub fn fall_asleep(&mut self, now: Time, time: Duration) {
        self.slept += time;
        self.asleep_until = now + time;
        self.stalled_until = self.stalled_until.max(self.asleep_until);
        self.timer = Some(self.stalled_until);
        self.held.clear();
    }
}

/// The link's name at its home.
pub(crate) fn link_id(index: usize) -> LinkId {
    LinkId(index as u16)
}

/// The key of an end, always the same.
pub fn private_key(id: EndId) -> PrivateKey {
    let byte = match id {
        EndId::Home(home) => home as u8 + 1,
        EndId::Concentrator => 0xcc,
    };
    PrivateKey::from_bytes(&[byte; 32])
}

fn public_key(id: EndId) -> PublicKey {
    private_key(id).public_key()
}
