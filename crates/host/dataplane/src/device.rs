//! The TUN/TAP device as the data plane uses it.

use braid_inner::{Checksums, Coalescer, InnerPacket};
use braid_linux::tun::{MAX_PACKET, Tun};
use braid_tunnel::Tunnel;
use braid_units::Time;
use std::io;
use std::time::Duration;

/// Packets up to this size are merged with their likes.
const MERGED: usize = 2048;
/// As long the loop may ask in vain, at the cost of a processor.
const UNREADABLE_FOR: Duration = Duration::from_secs(5);

/// The device, and what is merged on its way there.
pub(crate) struct Device {
    /// The device itself.
    pub tun: Tun,
    /// Since when it can't be read.
    pub unreadable: Option<Time>,
    coalescer: Coalescer,
    merged: Vec<InnerPacket>,
}

impl Device {
    /// With nothing on its way.
    pub fn new(tun: Tun) -> Self {
        let coalescer = Coalescer::new(tun.layer(), Checksums::Verify);
        Self { tun, unreadable: None, coalescer, merged: Vec::new() }
    }

    /// A packet that could not be read is lost. It ends nothing, unless that lasts: memory that
    /// lacks for a moment is there again. Who sees the device deleted says so sooner.
    pub fn may_fail(&mut self, error: io::Error, now: Time) -> io::Result<()> {
        let since = *self.unreadable.get_or_insert(now);
        match now - since < UNREADABLE_FOR {
            true => Ok(()),
            false => Err(io::Error::new(error.kind(), format!("reading the device: {error}"))),
        }
    }

    /// Gives the kernel what has arrived. Small packets of a flow go as one
    /// super-packet, as a network card's receive offload does.
    pub fn deliver(&mut self, tunnel: &mut Tunnel) {
        let mut merged = std::mem::take(&mut self.merged);
        let mut waiting = tunnel.poll_inner();
        while let Some(packet) = waiting {
            waiting = tunnel.poll_inner();
            let (alone, small) = (waiting.is_none(), packet.bytes.len() <= MERGED);
            if small && !(alone && self.coalescer.is_empty()) {
                if self.coalescer.wants_room() {
                    self.coalescer.lend(tunnel.take_buffer(MAX_PACKET));
                }
                self.coalescer.push(packet, &mut merged);
                self.coalescer.drain_joined().for_each(|bytes| tunnel.recycle(bytes));
            } else {
                // Those of its flow that came before go first.
                self.coalescer.flush(&mut merged);
                merged.push(packet);
            }
            if waiting.is_none() {
                self.coalescer.flush(&mut merged);
            }
            for packet in merged.drain(..) {
                // What the kernel doesn't take is counted by the device.
                let _ = self.tun.write(&packet);
                tunnel.recycle(packet.bytes);
            }
        }
        self.merged = merged;
    }
}
