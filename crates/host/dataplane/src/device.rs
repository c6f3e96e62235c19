//! The TUN/TAP device as the data plane uses it.

use braid_inner::{Checksums, Coalescer, InnerPacket};
use braid_linux::tun::{MAX_PACKET, Tun};
use braid_tunnel::Tunnel;
use braid_units::Time;
use std::io;
use std::time::Duration;

/// Packets up to this size are merged with others of their flow.
const MERGED: usize = 2048;
/// How long the loop may keep trying in vain, at the cost of a processor.
const UNREADABLE_FOR: Duration = Duration::from_secs(5);

/// The device, and the packets being merged for it.
pub(crate) struct Device {
    /// The device itself.
    pub tun: Tun,
    /// Since when reading has failed.
    pub unreadable: Option<Time>,
    coalescer: Coalescer,
    merged: Vec<InnerPacket>,
}

impl Device {
    /// Wraps a device, with no packets pending.
    pub fn new(tun: Tun) -> Self {
        let coalescer = Coalescer::new(tun.layer(), Checksums::Verify);
        Self { tun, unreadable: None, coalescer, merged: Vec::new() }
    }

    /// A packet that could not be read is lost. This is fatal only if it lasts: a shortage of
    /// memory may be over soon. The deletion of the device is noticed elsewhere, and sooner.
    pub fn may_fail(&mut self, error: io::Error, now: Time) -> io::Result<()> {
        let since = *self.unreadable.get_or_insert(now);
        match now - since < UNREADABLE_FOR {
            true => Ok(()),
            false => Err(io::Error::new(error.kind(), format!("reading the device: {error}"))),
        }
    }

    /// Passes arrived packets to the kernel. Small packets of a flow are merged into a
    /// super-packet, like a network card's receive offload.
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
                // Earlier packets of its flow go first.
                self.coalescer.flush(&mut merged);
                merged.push(packet);
            }
            if waiting.is_none() {
                self.coalescer.flush(&mut merged);
            }
            for packet in merged.drain(..) {
                // The device counts packets that the kernel refuses.
                let _ = self.tun.write(&packet);
                tunnel.recycle(packet.bytes);
            }
        }
        self.merged = merged;
    }
}
