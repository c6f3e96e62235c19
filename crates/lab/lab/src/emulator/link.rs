use super::device::LinkDevice;
use super::{Carrier, Direction, DirectionCounters, LinkChange, LinkCounters, LinkModel, Nat};
use braid_units::Time;
use std::io;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many packets are read from a device before others have their turn.
const BATCH: usize = 64;

/// The parts of an emulated link.
#[derive(Debug)]
pub struct LinkParts {
    /// What it does to packets.
    pub model: LinkModel,
    /// The device at home.
    pub home: LinkDevice,
    /// The device at the provider.
    pub provider: LinkDevice,
    /// The addresses that its NAT translates between; `None` without NAT.
    pub nat: Option<NatAddresses>,
}

/// What a link's NAT translates between.
#[derive(Clone, Copy, Debug)]
pub struct NatAddresses {
    /// The link's address at home.
    pub private: Ipv4Addr,
    /// The initial public address. A rebinding takes the next one in its /24, and wraps around
    /// after the last.
    pub public: Ipv4Addr,
}

/// A running link: the pure models, and the devices around them.
#[derive(Debug)]
pub(super) struct RunningLink {
    home: LinkDevice,
    provider: LinkDevice,
    down: Direction<Vec<u8>>,
    up: Direction<Vec<u8>>,
    nat: Option<Nat>,
    mtu: usize,
    blackout: bool,
    carrier: Carrier,
}

/// Which end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Home,
    Provider,
}

impl RunningLink {
    pub(super) fn new(parts: LinkParts, seed: u64, now: Time) -> Self {
        let LinkParts { model, home, provider, nat } = parts;
        RunningLink {
            home,
            provider,
            down: Direction::new(model.down, seed ^ 0x646f_776e, now),
            up: Direction::new(model.up, seed ^ 0x7570, now),
            nat: nat.map(|addresses| Nat::new(addresses.private, addresses.public, seed)),
            mtu: usize::from(model.mtu),
            blackout: false,
            carrier: Carrier::Up,
        }
    }

    pub(super) fn device(&self, end: End) -> &LinkDevice {
        match end {
            End::Home => &self.home,
            End::Provider => &self.provider,
        }
    }

    /// Reads up to a batch of packets from the device at `end`, into buffers from `pool`.
    ///
    /// # Errors
    /// The device is gone.
    pub(super) fn take_in(
        &mut self,
        end: End,
        now: Time,
        scratch: &mut [u8],
        pool: &mut Vec<Vec<u8>>,
    ) -> io::Result<()> {
        let device = match end {
            End::Home => &self.home,
            End::Provider => &self.provider,
        };
        for _ in 0..BATCH {
            let Some(packet) = device.read(scratch)? else { return Ok(()) };
            let bytes = packet.len() as u32;
            let (direction, translated) = match (end, &mut self.nat) {
                (End::Home, Some(nat)) => (&mut self.up, nat.outbound(now, packet).is_ok()),
                (End::Home, None) => (&mut self.up, true),
                (End::Provider, Some(nat)) => (&mut self.down, nat.inbound(now, packet).is_ok()),
                (End::Provider, None) => (&mut self.down, true),
            };
            if !translated || packet.len() > self.mtu {
                direction.count_refused(bytes);
                continue;
            }
            let mut copy = pool.pop().unwrap_or_default();
            copy.clear();
            copy.extend_from_slice(packet);
            if let Err(dropped) = direction.enqueue(now, bytes, copy) {
                pool.push(dropped);
            }
        }
        Ok(())
    }

    /// Passes packets that have arrived by `now` to the devices.
    pub(super) fn give_out(&mut self, now: Time, pool: &mut Vec<Vec<u8>>) {
        for (direction, device) in [(&mut self.down, &self.home), (&mut self.up, &self.provider)] {
            while let Some(packet) = direction.poll(now) {
                // A device that is down loses packets, as any does.
                device.write(&packet);
                pool.push(packet);
            }
        }
    }

    pub(super) fn next_deadline(&self) -> Option<Time> {
        let (down, up) = (self.down.next_deadline(), self.up.next_deadline());
        down.into_iter().chain(up).min()
    }

    pub(super) fn restart_traces(&mut self, now: Time) {
        self.down.restart_trace(now);
        self.up.restart_trace(now);
    }

    /// # Errors
    /// Rebinding a link without NAT, and the kernel's error when changing the carrier.
    pub(super) fn apply(&mut self, now: Time, change: &LinkChange) -> io::Result<()> {
        match change {
            LinkChange::Blackout(blackout) => {
                self.blackout = *blackout;
                self.darken(now);
            }
            LinkChange::Carrier(carrier) => {
                self.home.set_carrier(*carrier == Carrier::Up)?;
                self.carrier = *carrier;
                self.darken(now);
            }
            LinkChange::Rebind => {
                let nat = self.nat.as_mut().ok_or_else(|| {
                    io::Error::new(io::ErrorKind::InvalidInput, "rebind: the link has no NAT")
                })?;
                nat.rebind(next_public(nat.public_address()));
            }
            LinkChange::Set { down, up, mtu } => {
                if let Some(change) = down {
                    self.down.change(now, change);
                }
                if let Some(change) = up {
                    self.up.change(now, change);
                }
                if let Some(mtu) = mtu {
                    self.mtu = usize::from(*mtu);
                }
            }
        }
        Ok(())
    }

    pub(super) fn counters(&self) -> LinkCounters {
        LinkCounters { down: self.down.counters(), up: self.up.counters() }
    }

    fn darken(&mut self, now: Time) {
        let dark = self.blackout || self.carrier == Carrier::Down;
        self.down.set_blackout(now, dark);
        self.up.set_blackout(now, dark);
    }
}

/// The next host of the /24, from .2 to .254.
fn next_public(address: Ipv4Addr) -> Ipv4Addr {
    let [a, b, c, host] = address.octets();
    Ipv4Addr::new(a, b, c, if (2..254).contains(&host) { host + 1 } else { 2 })
}

/// A link's counters for other threads to read while it runs.
#[derive(Debug, Default)]
pub(super) struct SharedCounters {
    cells: [[AtomicU64; FIELDS]; 2],
}

const FIELDS: usize = 13;

impl SharedCounters {
    pub(super) fn publish(&self, counters: &LinkCounters) {
        for (cells, direction) in self.cells.iter().zip([&counters.down, &counters.up]) {
            for (cell, value) in cells.iter().zip(fields(direction)) {
                cell.store(value, Ordering::Relaxed);
            }
        }
    }

    pub(super) fn read(&self) -> LinkCounters {
        let [down, up] = [0, 1].map(|direction: usize| {
            let values =
                std::array::from_fn(|field| self.cells[direction][field].load(Ordering::Relaxed));
            from_fields(values)
        });
        LinkCounters { down, up }
    }
}

fn fields(c: &DirectionCounters) -> [u64; FIELDS] {
    [
        c.packets_in,
        c.bytes_in,
        c.bytes_serialised,
        c.packets_out,
        c.bytes_out,
        c.dropped_queue,
        c.dropped_loss,
        c.dropped_blackout,
        c.refused,
        c.reordered,
        c.duplicated,
        c.corrupted,
        c.queued_bytes,
    ]
}

fn from_fields(values: [u64; FIELDS]) -> DirectionCounters {
    let [
        packets_in,
        bytes_in,
        bytes_serialised,
        packets_out,
        bytes_out,
        dropped_queue,
        dropped_loss,
        dropped_blackout,
        refused,
        reordered,
        duplicated,
        corrupted,
        queued_bytes,
    ] = values;
    DirectionCounters {
        packets_in,
        bytes_in,
        bytes_serialised,
        packets_out,
        bytes_out,
        dropped_queue,
        dropped_loss,
        dropped_blackout,
        refused,
        reordered,
        duplicated,
        corrupted,
        queued_bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rebinding_stays_in_its_network() {
        assert_eq!(next_public(Ipv4Addr::new(100, 64, 1, 2)), Ipv4Addr::new(100, 64, 1, 3));
        assert_eq!(next_public(Ipv4Addr::new(100, 64, 1, 254)), Ipv4Addr::new(100, 64, 1, 2));
    }

    #[test]
    fn counters_cross_threads_unchanged() {
        let values = std::array::from_fn(|field| field as u64 + 1);
        let down = from_fields(values);
        assert_eq!(fields(&down), values);
        let counters = LinkCounters { down, up: DirectionCounters::default() };
        let shared = SharedCounters::default();
        shared.publish(&counters);
        assert_eq!(shared.read(), counters);
    }
}
