use super::{Datagram, HEADERS, LinkSpec};
use braid_link_model::Direction;
use braid_units::Time;
use std::net::{Ipv4Addr, SocketAddr};

/// A running link between a home and the concentrator, with its NAT.
#[derive(Debug)]
pub(crate) struct Link {
    pub spec: LinkSpec,
    pub down: Direction<Datagram>,
    pub up: Direction<Datagram>,
    /// Where the home is seen from outside.
    pub public: SocketAddr,
    /// The NAT has a mapping.
    mapped: bool,
    dark: bool,
    pub carrier: bool,
    generation: u16,
    number: u8,
}

impl Link {
    pub fn new(spec: LinkSpec, number: u8, seed: u64) -> Self {
        let mut link = Self {
            down: Direction::new(spec.down.clone(), seed ^ 0xd0, Time::ZERO),
            up: Direction::new(spec.up.clone(), seed ^ 0x0b, Time::ZERO),
            public: ([0, 0, 0, 0], 0).into(),
            mapped: !spec.nat,
            dark: false,
            carrier: true,
            generation: 0,
            number,
            spec,
        };
        link.public = link.address(0);
        link
    }

    /// From the home to the concentrator.
    pub fn send_up(&mut self, now: Time, to: SocketAddr, bytes: Vec<u8>) {
        if self.fits(&bytes) && self.carrier {
            self.mapped = true;
            enqueue(&mut self.up, now, Datagram { from: self.public, to, bytes });
        }
    }

    /// From the concentrator to the home.
    pub fn send_down(&mut self, now: Time, from: SocketAddr, bytes: Vec<u8>) {
        if self.fits(&bytes) && self.mapped && self.carrier {
            enqueue(&mut self.down, now, Datagram { from, to: self.public, bytes });
        }
    }

    pub fn set_dark(&mut self, now: Time, dark: bool) {
        self.dark = dark;
        self.darken(now);
    }

    pub fn set_carrier(&mut self, now: Time, carrier: bool) {
        self.carrier = carrier;
        self.darken(now);
    }

    /// Another public port, as a NAT that forgot gives; another address too if
    /// the home `moved`.
    pub fn rebind(&mut self, moved: bool) {
        self.generation += 1;
        let next = self.address(self.generation);
        let ip = if moved { next.ip() } else { self.public.ip() };
        self.public = SocketAddr::new(ip, next.port());
        self.mapped = !self.spec.nat;
    }

    fn darken(&mut self, now: Time) {
        let dark = self.dark || !self.carrier;
        self.down.set_blackout(now, dark);
        self.up.set_blackout(now, dark);
    }

    fn fits(&self, bytes: &[u8]) -> bool {
        bytes.len() + HEADERS <= usize::from(self.spec.mtu)
    }

    fn address(&self, generation: u16) -> SocketAddr {
        let [high, low] = generation.to_be_bytes();
        SocketAddr::new(Ipv4Addr::new(100, self.number, high, low).into(), 40_000 + generation)
    }
}

/// What the direction drops, nobody hears of.
fn enqueue(direction: &mut Direction<Datagram>, now: Time, datagram: Datagram) {
    let bytes = (datagram.bytes.len() + HEADERS) as u32;
    let _ = direction.enqueue(now, bytes, datagram);
}
