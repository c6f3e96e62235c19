//! The links' sockets, opened and closed as the host's network changes.

use super::data_channel::{Command, DataPlaneEnded, DataPlaneHandle};
use super::egress::{Egress, HostNetwork};
use super::host_numbers::own_mark;
use super::host_routing::RoutedLink;
use super::reconfigure::Change;
use braid_control::config::{Config, Link, Name, Transport, TransportChoice};
use braid_linux::udp::{LinkBind, LinkSocket};
use std::collections::BTreeMap;
use std::io;

/// Each link has a socket in the data plane for each egress.
#[derive(Default)]
pub struct LinkSockets {
    links: BTreeMap<Name, LinkState>,
}

#[derive(Default)]
struct LinkState {
    /// Of its routing table.
    number: u32,
    /// The egresses that have sockets.
    egresses: Vec<Egress>,
    /// Whether it is metered, which puts it one tier later.
    metered: bool,
    /// Why it isn't usable, as last reported.
    trouble: Option<String>,
}

impl LinkSockets {
    /// Adds a link, without sockets yet.
    pub fn add(&mut self, name: &Name) {
        let taken = |number: &u32| self.links.values().any(|state| state.number == *number);
        let number = (0..).find(|number| !taken(number)).unwrap_or(0);
        self.links.insert(name.clone(), LinkState { number, ..LinkState::default() });
    }

    /// Removes a link and its sockets.
    pub fn remove(&mut self, name: &Name) {
        self.links.remove(name);
    }

    /// Closes the link's sockets; it gets new ones at the next [`Self::follow`].
    pub fn close(
        &mut self,
        name: &Name,
        data_plane: &DataPlaneHandle,
    ) -> Result<(), DataPlaneEnded> {
        let Some(state) = self.links.get_mut(name) else { return Ok(()) };
        state.egresses.drain(..).try_for_each(|egress| detach(data_plane, name, &egress))
    }

    /// Opens and closes sockets as the links' egresses change. Returns whether all that should be
    /// open are.
    pub fn follow(
        &mut self,
        config: &Config,
        host: &HostNetwork,
        data_plane: &DataPlaneHandle,
    ) -> Result<bool, DataPlaneEnded> {
        let mark = own_mark(config);
        let mut all_open = true;
        for link in &config.links {
            if let Some(state) = self.links.get_mut(&link.name) {
                all_open &= state.follow(link, host, mark, data_plane)?;
            }
        }
        Ok(all_open)
    }

    /// The links as the routing sees them.
    pub fn routed<'a>(&'a self, config: &'a Config) -> Vec<RoutedLink<'a>> {
        let routed = config.links.iter().filter_map(|link| {
            let state = self.links.get(&link.name)?;
            let (name, number, egresses) = (&link.name, state.number, state.egresses.as_slice());
            Some(RoutedLink {
                name,
                number,
                egresses,
                fwmark: link.binding.fwmark,
                tier: self.tier(link),
            })
        });
        routed.collect()
    }

    /// Its tier now.
    pub fn tier(&self, link: &Link) -> u8 {
        link.tier_if(self.is_metered(&link.name))
    }

    /// Whether it is metered.
    pub fn is_metered(&self, name: &Name) -> bool {
        self.links.get(name).is_some_and(|state| state.metered)
    }

    /// Each link's current egresses.
    pub fn egresses(&self) -> impl Iterator<Item = (&Name, &[Egress])> {
        self.links.iter().map(|(name, state)| (name, state.egresses.as_slice()))
    }

    /// Whether it can be used now.
    pub fn is_usable(&self, name: &Name) -> bool {
        self.links.get(name).is_some_and(|state| !state.egresses.is_empty())
    }

    /// Why it isn't usable, or not wholly.
    pub fn trouble(&self, name: &Name) -> Option<&str> {
        self.links.get(name)?.trouble.as_deref()
    }
}

impl LinkState {
    /// Returns whether each egress has its socket.
    fn follow(
        &mut self,
        link: &Link,
        host: &HostNetwork,
        mark: Option<u32>,
        data_plane: &DataPlaneHandle,
    ) -> Result<bool, DataPlaneEnded> {
        let metered = link.metered.unwrap_or_else(|| host.is_metered(&link.binding));
        if std::mem::replace(&mut self.metered, metered) != metered {
            let tier = link.tier_if(metered);
            tracing::info!(link = %link.name, metered, tier, "link in another tier");
            data_plane.change(Change::SetLink(Link { tier, ..link.clone() }))?;
        }
        let (egresses, trouble) = match host.egresses(&link.binding) {
            Ok(egresses) => (egresses, None),
            Err(trouble) => (Vec::new(), Some(trouble)),
        };
        let by = interface(&egresses);
        if trouble != self.trouble {
            match &trouble {
                Some(trouble) => tracing::warn!(link = %link.name, "link not usable: {trouble}"),
                None => tracing::info!(link = %link.name, interface = by, "link usable"),
            }
        } else if let (Some(by), Some(former)) = (by, interface(&self.egresses))
            && by != former
        {
            tracing::info!(link = %link.name, interface = by, former, "link uses another interface \
                                                                       now");
        }
        let before = std::mem::replace(&mut self.trouble, trouble);
        for gone in &self.egresses {
            if !egresses.iter().any(|egress| egress.family == gone.family) {
                detach(data_plane, &link.name, gone)?;
            }
        }
        let (mut kept, mut all_open) = (Vec::new(), true);
        for egress in egresses {
            if self.egresses.contains(&egress) {
                kept.push(egress);
                continue;
            }
            if link.transport == TransportChoice::Tls {
                // `Transports` handles it.
                kept.push(egress);
                continue;
            }
            match open_socket(link, &egress, mark) {
                Ok(socket) => {
                    let device_mtu = egress.device.as_ref().map(|device| device.mtu);
                    let link = link.name.clone();
                    let transport = Transport::Udp;
                    data_plane.send(Command::AttachSocket {
                        link,
                        transport,
                        socket,
                        device_mtu,
                    })?;
                    kept.push(egress);
                }
                Err(error) => {
                    let trouble = format!("can't open its socket: {error}");
                    if before.as_ref() != Some(&trouble) {
                        tracing::warn!(link = %link.name, "{trouble}");
                    }
                    self.trouble = Some(trouble);
                    all_open = false;
                    // The socket for its former address is useless, and its file descriptor may be
                    // the one that is needed.
                    detach(data_plane, &link.name, &egress)?;
                }
            }
        }
        self.egresses = kept;
        Ok(all_open)
    }
}

fn interface(egresses: &[Egress]) -> Option<&str> {
    egresses.iter().find_map(|egress| Some(egress.device.as_ref()?.name.as_str()))
}

fn detach(
    data_plane: &DataPlaneHandle,
    link: &Name,
    egress: &Egress,
) -> Result<(), DataPlaneEnded> {
    data_plane.send(Command::DetachSocket { link: link.clone(), family: egress.family })
}

/// A UDP socket that leaves by the link; `mark` is that of the tunnel's own datagrams.
pub fn open_socket(link: &Link, egress: &Egress, mark: Option<u32>) -> io::Result<LinkSocket> {
    LinkSocket::open(&LinkBind {
        device: egress.device.as_ref().map(|device| device.name.clone()),
        source: link.binding.source,
        fwmark: link.binding.fwmark.or(mark),
        port: 0,
        family: egress.family,
    })
}

#[cfg(test)]
mod tests {
    use super::super::data_channel::{Commands, data_channel};
    use super::*;
    use braid_linux::netlink::{Address, Link as Interface};
    use std::path::Path;

    /// Links by source address on `lo`, which every host has, so nothing else of the host is
    /// needed.
    fn config() -> Config {
        let text = "[interface]\nprivate_key_file = \"k\"\n\
            [[link]]\nname = \"a\"\nsource = \"127.0.0.1\"\n\
            [[link]]\nname = \"b\"\nsource = \"192.0.2.7\"\n\
            [[peer]]\nname = \"c\"\npublic_key = \"hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=\"\n\
            endpoints = [\"192.0.2.1:1\"]\n[routing]\nleave_host_alone = true";
        Config::parse(text, Path::new("c.toml")).unwrap()
    }

    /// A simulated host; the kernel needn't really have the second address.
    fn host(up: bool, addresses: &[&str]) -> HostNetwork {
        let name = "lo".to_owned();
        let address = |net: &&str| Address {
            interface: 1,
            net: net.parse().unwrap(),
            global: true,
            preferred: true,
            valid_for: None,
        };
        HostNetwork {
            links: vec![Interface { index: 1, name, up, carrier: up, ..Interface::default() }],
            addresses: addresses.iter().map(address).collect(),
            default_routes: Vec::new(),
            ..HostNetwork::default()
        }
    }

    fn told(commands: &Commands) -> Vec<String> {
        let told = commands.try_iter().map(|command| match command {
            Command::AttachSocket { link, .. } => format!("+{link}"),
            Command::DetachSocket { link, .. } => format!("-{link}"),
            _ => "?".to_owned(),
        });
        told.collect()
    }

    #[test]
    fn a_socket_comes_and_goes_with_the_way_that_its_link_leaves_by() {
        let (data_plane, commands, _published) = data_channel();
        let (config, mut links) = (config(), LinkSockets::default());
        let [a, b] = [&config.links[0].name, &config.links[1].name];
        links.add(a);
        links.add(b);
        let (there, away) = (host(true, &["127.0.0.1/8"]), host(false, &["127.0.0.1/8"]));
        assert_eq!(links.follow(&config, &there, &data_plane), Ok(true));
        assert_eq!(told(&commands), ["+a"]);
        assert!(links.is_usable(a) && !links.is_usable(b));
        assert_eq!(links.trouble(b), Some("no device has the address 192.0.2.7"));
        assert_eq!(links.follow(&config, &there, &data_plane), Ok(true));
        assert_eq!(told(&commands), [""; 0], "nothing has changed");
        assert_eq!(links.follow(&config, &away, &data_plane), Ok(true));
        assert_eq!(told(&commands), ["-a"]);
        assert_eq!(links.trouble(a), Some("lo is down"));
        assert_eq!(links.follow(&config, &there, &data_plane), Ok(true));
        assert_eq!(links.close(a, &data_plane), Ok(()));
        assert_eq!(links.follow(&config, &there, &data_plane), Ok(true));
        assert_eq!(told(&commands), ["+a", "-a", "+a"], "closed, it gets a new one");
    }

    #[test]
    fn a_socket_that_cannot_be_opened_is_told_and_asks_for_another_try() {
        let (data_plane, commands, _published) = data_channel();
        let (config, mut links) = (config(), LinkSockets::default());
        links.add(&config.links[1].name);
        let host = host(true, &["192.0.2.7/24"]);
        assert_eq!(links.follow(&config, &host, &data_plane), Ok(false));
        assert_eq!(told(&commands), ["-b"]);
        let trouble = links.trouble(&config.links[1].name).unwrap();
        assert!(trouble.contains("can't open its socket"), "{trouble}");
    }

    #[test]
    fn a_number_is_used_again_when_its_link_is_gone() {
        let (config, mut links) = (config(), LinkSockets::default());
        let numbers = |links: &LinkSockets| -> Vec<u32> {
            links.routed(&config).iter().map(|link| link.number).collect()
        };
        let [a, b] = [&config.links[0].name, &config.links[1].name];
        links.add(a);
        links.add(b);
        assert_eq!(numbers(&links), [0, 1]);
        links.remove(a);
        assert_eq!(numbers(&links), [1]);
        links.add(a);
        assert_eq!(numbers(&links), [0, 1]);
    }
}
