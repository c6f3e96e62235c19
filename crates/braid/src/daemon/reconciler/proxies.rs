//! Answers neighbour discovery for public prefixes that the provider doesn't route here.

use super::news::News;
use braid_linux::neighbour_proxy::NeighbourProxy;
use braid_linux::netlink::Netlink;
use ipnet::{IpNet, Ipv6Net};
use std::collections::BTreeMap;

/// One proxy per device with such prefixes.
#[derive(Default)]
pub struct NeighbourProxies {
    open: Vec<NeighbourProxy>,
}

impl NeighbourProxies {
    /// Updates the proxies to answer for the `wanted` prefixes on existing devices. Returns whether
    /// it does so on all.
    pub fn follow(
        &mut self,
        wanted: BTreeMap<String, Vec<IpNet>>,
        netlink: &mut Netlink,
        news: &News,
    ) -> bool {
        let mut kept = std::mem::take(&mut self.open);
        let mut all_open = true;
        for (device, prefixes) in wanted {
            let prefixes: Vec<Ipv6Net> = prefixes.into_iter().filter_map(v6).collect();
            let same = |proxy: &NeighbourProxy| proxy.is_for(netlink, &device, &prefixes);
            if let Some(at) = kept.iter().position(same) {
                self.open.push(kept.swap_remove(at));
                continue;
            }
            let opened = NeighbourProxy::open(netlink, &device, prefixes)
                .and_then(|proxy| news.listen_to(&proxy).map(|()| proxy));
            match opened {
                Ok(proxy) => self.open.push(proxy),
                Err(error) => {
                    tracing::warn!(device, %error, "can't answer neighbour discovery for public \
                                                    prefixes");
                    all_open = false;
                }
            }
        }
        all_open
    }

    /// Answers all pending solicitations.
    pub fn answer(&self) {
        for proxy in &self.open {
            if let Err(error) = proxy.answer_all() {
                tracing::debug!(%error, "answering for public prefixes");
            }
        }
    }
}

fn v6(net: IpNet) -> Option<Ipv6Net> {
    match net {
        IpNet::V6(net) => Some(net),
        IpNet::V4(_) => None,
    }
}
