use super::backend::{InKernel, netem_obstacle, obstacle_in_change};
use super::command::{batch, nft};
use super::netem::Cable;
use super::{Topology, TopologyError, TopologyLink};
use crate::emulator::{
    Capacity, Carrier, DirectionCounters, DirectionModel, LinkChange, LinkCounters, LinkModel,
};
use braid_linux::netlink::Netlink;
use braid_linux::netns::NetNs;
use braid_units::Rate;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A bucket holds this many milliseconds at the link's rate: the shaper wakes some hundreds of
/// microseconds late, and must catch up.
const BURST_MILLIS: u64 = 2;
/// It holds at least two super-packets, otherwise the kernel splits them before shaping.
const MIN_BURST: u64 = 2 * 65_536;

/// A veth pair with a token bucket at both ends; or two pairs, with netem where they meet.
#[derive(Debug)]
pub(super) struct KernelLink {
    shaper: Shaper,
    /// The current figures, down and up, and whether the link is blacked out.
    shape: Mutex<Shape>,
    home: DeviceCounters,
    provider: DeviceCounters,
}

#[derive(Debug)]
enum Shaper {
    TokenBucket,
    /// Netem is in the middle, so that both ends' devices are free for an engine's queueing
    /// discipline, and lose their carrier when the cable is pulled.
    Netem(Cable),
}

#[derive(Debug)]
struct Shape {
    down: DirectionModel,
    up: DirectionModel,
    dark: bool,
}

impl KernelLink {
    /// Creates the pair, both ends down.
    pub(super) fn create(
        home: &NetNs,
        device: &str,
        concentrator: &NetNs,
        provider_device: &str,
        model: &LinkModel,
        in_kernel: InKernel,
    ) -> io::Result<Self> {
        let shaper = match in_kernel {
            InKernel::Fast => {
                home.run(|| {
                    Netlink::open()?.add_veth(device, provider_device, Some(concentrator))
                })??;
                Shaper::TokenBucket
            }
            InKernel::All => {
                Shaper::Netem(Cable::lay((home, device), (concentrator, provider_device))?)
            }
        };
        let shape = Shape { down: model.down.clone(), up: model.up.clone(), dark: false };
        Ok(KernelLink {
            shaper,
            shape: Mutex::new(shape),
            home: DeviceCounters::open(home, device)?,
            provider: DeviceCounters::open(concentrator, provider_device)?,
        })
    }

    /// Sets the token buckets or netems.
    ///
    /// # Errors
    /// The command that failed.
    pub(super) fn shape(
        &self,
        topology: &Topology,
        link: &TopologyLink,
    ) -> Result<(), TopologyError> {
        let shape = self.lock();
        match &self.shaper {
            Shaper::TokenBucket => {
                let down = bucket(&link.provider_device, &shape.down);
                batch(&topology.concentrator, "tc", &[down])?;
                batch(&topology.home, "tc", &[bucket(&link.device, &shape.up)])
            }
            Shaper::Netem(cable) => {
                for (ns, device) in [
                    (&topology.home, &link.device),
                    (&topology.concentrator, &link.provider_device),
                ] {
                    // A super-packet would be shaped, lost and reordered as one.
                    batch(ns, "ip", &[format!("link set dev {device} gso_max_segs 1")])?;
                }
                cable.shape(&shape.down, &shape.up, shape.dark)
            }
        }
    }

    /// # Errors
    /// The change that the kernel can't play, or the command that failed.
    pub(super) fn apply(
        &self,
        topology: &Topology,
        link: &TopologyLink,
        change: &LinkChange,
    ) -> Result<(), TopologyError> {
        let obstacle = match self.shaper {
            Shaper::TokenBucket => obstacle_in_change(change),
            Shaper::Netem(_) => netem_obstacle(change),
        };
        if let Some(obstacle) = obstacle {
            return Err(TopologyError::Unsupported {
                link: link.model.name.clone(),
                problem: format!(
                    "is played by the kernel, which can't do {obstacle}; \
                     name the change when the topology is built"
                ),
            });
        }
        match change {
            LinkChange::Blackout(begin) if matches!(self.shaper, Shaper::Netem(_)) => {
                self.lock().dark = *begin;
                self.shape(topology, link)
            }
            LinkChange::Blackout(begin) => {
                set_dark(&topology.home, &link.device, *begin)?;
                set_dark(&topology.concentrator, &link.provider_device, *begin)
            }
            LinkChange::Carrier(carrier) => {
                // The home's end loses its carrier when the other end is down.
                let state = if *carrier == Carrier::Up { "up" } else { "down" };
                match &self.shaper {
                    Shaper::Netem(cable) => cable.set(state),
                    Shaper::TokenBucket => {
                        let line = format!("link set dev {} {state}", link.provider_device);
                        batch(&topology.concentrator, "ip", &[line])
                    }
                }
            }
            LinkChange::Set { down, up, .. } => {
                {
                    let mut shape = self.lock();
                    down.iter().for_each(|change| shape.down.apply(change));
                    up.iter().for_each(|change| shape.up.apply(change));
                }
                self.shape(topology, link)
            }
            LinkChange::Rebind => Ok(()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Shape> {
        self.shape.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn counters(&self) -> LinkCounters {
        let (home, provider) = (self.home.read(), self.provider.read());
        LinkCounters { down: between(&provider, &home), up: between(&home, &provider) }
    }
}

fn bucket(device: &str, direction: &DirectionModel) -> String {
    match direction.capacity {
        Capacity::Unlimited | Capacity::Trace { .. } => {
            format!("qdisc replace dev {device} root pfifo limit 1000")
        }
        Capacity::Rate(rate) => {
            let burst = (rate.bytes_per_sec() * BURST_MILLIS / 1000).max(MIN_BURST);
            // tc-tbf(8) refuses a rate of zero; this is a byte per second.
            let rate = rate.max(Rate::from_bytes_per_sec(1)).bits_per_sec();
            let limit = direction.queue.bytes().clamp(MIN_BURST, u64::from(u32::MAX));
            format!(
                "qdisc replace dev {device} root tbf rate {rate}bit burst {burst} limit {limit}"
            )
        }
    }
}

/// Makes a device drop everything that arrives, or not.
fn set_dark(ns: &NetNs, device: &str, dark: bool) -> Result<(), TopologyError> {
    // The first hook, so that no filter of a tunnel sees the packet.
    nft(
        ns,
        "table inet braid_lab_blackout {
            set dark { type ifname; }
            chain arrivals {
                type filter hook prerouting priority -500;
                iifname @dark drop
            }
        }\n",
    )?;
    // Add before deleting: deleting a missing element would be an error.
    let element = format!("element inet braid_lab_blackout dark {{ \"{device}\" }}\n");
    let mut ruleset = format!("add {element}");
    if !dark {
        ruleset.push_str(&format!("delete {element}"));
    }
    nft(ns, &ruleset)
}

/// A device's line of `/proc/net/dev`, in its namespace.
#[derive(Debug)]
struct DeviceCounters {
    file: File,
    device: String,
}

#[derive(Debug, Default)]
struct DeviceFigures {
    received_bytes: u64,
    received_packets: u64,
    sent_bytes: u64,
    sent_packets: u64,
}

impl DeviceCounters {
    fn open(ns: &NetNs, device: &str) -> io::Result<Self> {
        // The open file stays with the namespace it was opened in.
        let file = ns.run(|| File::open("/proc/thread-self/net/dev"))??;
        Ok(DeviceCounters { file, device: device.to_owned() })
    }

    fn read(&self) -> DeviceFigures {
        let mut text = vec![0; 65_536];
        let length = self.file.read_at(&mut text, 0).unwrap_or(0);
        text.truncate(length);
        parse_figures(&String::from_utf8_lossy(&text), &self.device).unwrap_or_default()
    }
}

/// proc_pid_net(5): eight columns received, eight sent; bytes and packets first.
fn parse_figures(text: &str, device: &str) -> Option<DeviceFigures> {
    let (_, columns) = text
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.trim() == device)?;
    let columns: Vec<u64> =
        columns.split_whitespace().map_while(|column| column.parse().ok()).collect();
    Some(DeviceFigures {
        received_bytes: *columns.first()?,
        received_packets: *columns.get(1)?,
        sent_bytes: *columns.get(8)?,
        sent_packets: *columns.get(9)?,
    })
}

fn between(from: &DeviceFigures, to: &DeviceFigures) -> DirectionCounters {
    DirectionCounters {
        packets_in: from.sent_packets,
        bytes_in: from.sent_bytes,
        packets_out: to.received_packets,
        bytes_out: to.received_bytes,
        ..DirectionCounters::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_a_device_are_found() {
        let text = "Inter-| Receive\n face |bytes\n    lo: 1 2 3 4 5 6 7 8 9 10 11\n  g1:100 2 0 0 0 0 0 0 700 9 0 0 0 0 0 0\n";
        let figures = parse_figures(text, "g1").unwrap();
        assert_eq!((figures.received_bytes, figures.received_packets), (100, 2));
        assert_eq!((figures.sent_bytes, figures.sent_packets), (700, 9));
        assert!(parse_figures(text, "g").is_none());
    }
}
