//! The line of a link, for its page.

use super::{network, observe};
use braid_control::config::{Config, Link};
use braid_page::{Line, LineAddress};

/// The current line of this link; `None` if no device is known.
pub fn of(config: &Config, link: &Link) -> Option<Line> {
    let network = observe(config);
    let device = network.device_of(&link.binding).ok()??;
    let facts = network::facts_of(link, &network);
    let own = network.addresses.iter().filter(|it| it.interface == device.index && it.global);
    let addresses = own.map(|it| LineAddress {
        address: it.net.addr(),
        prefix_length: it.net.prefix_len(),
        valid_for: it.valid_for,
    });
    let mut routers = facts.gateways;
    routers.sort_unstable();
    routers.dedup();
    Some(Line {
        device: device.name.clone(),
        speed_mbps: facts.speed_mbps,
        full_duplex: facts.full_duplex,
        kind: facts.kind,
        carrier: facts.carrier,
        mtu: facts.mtu,
        addresses: addresses.collect(),
        routers,
    })
}
