//! Links played by the kernel's netem (tc-netem(8)).

use super::TopologyError;
use super::command::batch;
use crate::emulator::{Capacity, DirectionModel, Loss};
use braid_linux::netlink::Netlink;
use braid_linux::netns::NetNs;
use braid_units::{Rate, Ratio};

/// The part of a packet that netem counts, but the model doesn't.
const ETHERNET_HEADER: u64 = 14;
/// A full Ethernet packet, as netem counts its queue.
const PACKET: u64 = 1500 + ETHERNET_HEADER;
/// The shortest queue, packets.
const LEAST_QUEUE: u64 = 10;

/// The cable's own ends, in its namespace.
const TO_HOME: &str = "to-home";
const TO_PROVIDER: &str = "to-provider";

/// Whether this kernel has netem, and what else cables need.
pub fn has_netem() -> bool {
    let try_it = || {
        let (home, provider) = (NetNs::new().ok()?, NetNs::new().ok()?);
        let cable = Cable::lay((&home, "a"), (&provider, "b")).ok()?;
        cable.shape(&DirectionModel::ideal(), &DirectionModel::ideal(), false).ok()
    };
    try_it().is_some()
}

/// Connects two Ethernet devices: a veth pair to each, whose near ends pass every frame to each
/// other (tc-mirred(8)), shaped by netem.
#[derive(Debug)]
pub(super) struct Cable {
    namespace: NetNs,
}

impl Cable {
    /// Creates a device in each of two namespaces, both down, and the cable between them.
    pub(super) fn lay(
        (home, home_device): (&NetNs, &str),
        (provider, provider_device): (&NetNs, &str),
    ) -> std::io::Result<Self> {
        let namespace = NetNs::new()?;
        namespace.run(|| {
            let mut netlink = Netlink::open()?;
            // A device keeps the name it was created with when it moves to a namespace.
            netlink.add_veth(TO_HOME, home_device, Some(home))?;
            netlink.add_veth(TO_PROVIDER, provider_device, Some(provider))
        })??;
        let pass = |from: &str, to: &str| {
            [
                format!("qdisc add dev {from} ingress"),
                format!(
                    "filter add dev {from} parent ffff: matchall action mirred egress redirect \
                     dev {to}"
                ),
            ]
        };
        let lines = [pass(TO_HOME, TO_PROVIDER), pass(TO_PROVIDER, TO_HOME)].concat();
        let cable = Cable { namespace };
        batch(&cable.namespace, "tc", &lines)
            .and_then(|()| cable.set("up"))
            .map_err(|error| std::io::Error::other(error.to_string()))?;
        Ok(cable)
    }

    /// Plugs it in (`up`) or unplugs it (`down`).
    pub(super) fn set(&self, state: &str) -> Result<(), TopologyError> {
        let lines = [TO_HOME, TO_PROVIDER].map(|device| format!("link set dev {device} {state}"));
        batch(&self.namespace, "ip", &lines)
    }

    /// Sets both directions; `dark` loses everything.
    pub(super) fn shape(
        &self,
        down: &DirectionModel,
        up: &DirectionModel,
        dark: bool,
    ) -> Result<(), TopologyError> {
        let lines = [line(TO_HOME, down, dark), line(TO_PROVIDER, up, dark)];
        batch(&self.namespace, "tc", &lines)
    }
}

/// The line for tc(8) that shapes what a device sends; `dark` loses everything.
pub(super) fn line(device: &str, direction: &DirectionModel, dark: bool) -> String {
    let mut line = format!("qdisc replace dev {device} root netem");
    let mut in_flight = 0;
    if let Capacity::Rate(rate) = direction.capacity {
        // A rate of zero would mean no limit.
        let rate = rate.max(Rate::from_bytes_per_sec(1));
        line.push_str(&format!(" rate {}bit -{ETHERNET_HEADER}", rate.bits_per_sec()));
        in_flight = rate.bytes_in(direction.delay + direction.jitter);
    }
    // Its only queue also holds packets in transit.
    let queue = ((direction.queue.bytes() + in_flight) / PACKET).max(LEAST_QUEUE);
    line.push_str(&format!(" limit {queue}"));
    let jitter = direction.jitter / 2;
    if !(direction.delay + jitter).is_zero() {
        line.push_str(&format!(" delay {}us", (direction.delay + jitter).as_micros()));
        if !jitter.is_zero() {
            // Uniform around the middle; with a rate, netem keeps the order.
            line.push_str(&format!(" {}us", jitter.as_micros()));
        }
    }
    if dark {
        line.push_str(" loss 100%");
        return line;
    }
    let percent = |ratio: Ratio| format!("{}%", ratio.fraction() * 100.0);
    match direction.loss {
        Loss::None => {}
        Loss::Random(ratio) => line.push_str(&format!(" loss {}", percent(ratio))),
        Loss::GilbertElliott { p_good_to_bad, p_bad_to_good, loss_good, loss_bad } => {
            line.push_str(&format!(
                " loss gemodel {} {} {} {}",
                percent(p_good_to_bad),
                percent(p_bad_to_good),
                // What tc(8) calls 1-h and 1-k: loss while bad, and while good.
                percent(loss_bad),
                percent(loss_good),
            ));
        }
    }
    for (what, share) in [("duplicate", direction.duplicate), ("corrupt", direction.corrupt)] {
        if share != Ratio::ZERO {
            line.push_str(&format!(" {what} {}", percent(share)));
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use braid_units::ByteSize;
    use std::time::Duration;

    #[test]
    fn every_figure_has_its_word() {
        let mut direction = DirectionModel {
            capacity: Capacity::Rate(Rate::from_mbit(20)),
            delay: Duration::from_millis(10),
            jitter: Duration::from_millis(4),
            loss: Loss::Random(Ratio::from_fraction(0.01)),
            queue: ByteSize::from_bytes(151_400),
            ..DirectionModel::ideal()
        };
        // 100 queued packets, and 14 ms at 20 Mbit/s in transit.
        assert_eq!(
            line("d", &direction, false),
            "qdisc replace dev d root netem rate 20000000bit -14 limit 123 delay 12000us 2000us \
             loss 1%"
        );
        assert!(line("d", &direction, true).ends_with(" loss 100%"));
        direction.loss = Loss::bursty(Ratio::from_fraction(0.5), 2.0);
        assert!(line("d", &direction, false).ends_with(" loss gemodel 50% 50% 100% 0%"));
        direction.duplicate = Ratio::from_fraction(0.25);
        direction.corrupt = Ratio::from_fraction(0.5);
        assert!(line("d", &direction, false).ends_with(" duplicate 25% corrupt 50%"));
        let ideal = DirectionModel::ideal();
        assert_eq!(line("d", &ideal, false), "qdisc replace dev d root netem limit 660");
    }
}
