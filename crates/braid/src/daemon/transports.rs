//! The transports of each link: turns [`Selector`]'s decisions into sockets.

use super::DaemonError;
use super::data_channel::{Command, DataPlaneEnded, DataPlaneHandle, Snapshot};
use super::egress::Egress;
use super::host_numbers::own_mark;
use super::link_sockets::{LinkSockets, open_socket};
use super::{own_certificate, own_endpoints};
use braid_carrier::proxy::{Proxy, ProxyTrouble};
use braid_carrier::selector::{Seen, SeenAll, Selector, Transport as Selected};
use braid_carrier::{Certificate, Home, Leaving, Server, ServerSettings, Target, Targets};
use braid_control::config::{
    CertificateFiles, Config, Host, Link, Name, Peer, Transport, TransportChoice,
};
use braid_control::status::{PathState, PathStatus};
use braid_handshake::PublicKey;
use braid_linux::udp::{LinkSocket, PortInstead};
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// The peers' addresses, as last resolved.
#[derive(Clone, Default)]
pub struct Resolved(Arc<Mutex<HashMap<PublicKey, Vec<SocketAddr>>>>);

impl Resolved {
    /// Sets a peer's addresses.
    pub fn set(&self, peer: PublicKey, addresses: &[SocketAddr]) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(peer, addresses.to_vec());
    }

    fn of(&self, peer: &PublicKey) -> Vec<SocketAddr> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(peer).cloned().unwrap_or_default()
    }
}

/// The transports of all links.
pub struct Transports {
    resolved: Resolved,
    targets: Targets,
    /// Created when first needed.
    carriers: Option<Home>,
    links: BTreeMap<Name, LinkTransports>,
    /// Why one couldn't be opened, as last reported.
    trouble: Option<String>,
}

#[derive(Default)]
struct LinkTransports {
    selector: Selector,
    /// The link's egresses when the transports were opened.
    egresses: Vec<Egress>,
    /// Open transports besides UDP to the peers' ports.
    open: Vec<Transport>,
    proxy: ProxyTrouble,
}

impl Transports {
    /// Starts with only UDP.
    pub fn new(resolved: Resolved) -> Transports {
        Transports {
            resolved,
            targets: Targets::default(),
            carriers: None,
            links: BTreeMap::new(),
            trouble: None,
        }
    }

    /// Opens and closes transports according to the links' paths.
    pub fn follow(
        &mut self,
        config: &Config,
        links: &LinkSockets,
        data_plane: &DataPlaneHandle,
        now: Instant,
    ) -> Result<(), DataPlaneEnded> {
        let Some(peer) = config.peers.iter().find(|peer| peer.fallback_port.is_some()) else {
            return Ok(());
        };
        self.targets.set(targets(config, &self.resolved));
        let snapshot = data_plane.snapshot();
        for (name, egresses) in links.egresses() {
            let Some(link) = config.link(name.as_str()) else { continue };
            let mut known = self.links.remove(name).unwrap_or_default();
            if known.egresses != egresses {
                // Another network, without history yet.
                close(name, known.open.drain(..), data_plane)?;
                known = LinkTransports { egresses: egresses.to_vec(), ..LinkTransports::default() };
            }
            let wanted = if egresses.is_empty() { &[] } else { known.wanted(link, &snapshot, now) };
            let gone: Vec<Transport> =
                known.open.iter().copied().filter(|open| !wanted.contains(open)).collect();
            known.open.retain(|open| wanted.contains(open));
            close(name, gone.into_iter(), data_plane)?;
            for &transport in wanted.iter().filter(|it| **it != Transport::Udp) {
                if !known.open.contains(&transport)
                    && self.open(config, link, &known, peer, transport, data_plane)?
                {
                    known.open.push(transport);
                }
            }
            self.links.insert(name.clone(), known);
        }
        Ok(())
    }

    /// Closes those of a link whose egress changes.
    pub fn close(
        &mut self,
        name: &Name,
        data_plane: &DataPlaneHandle,
    ) -> Result<(), DataPlaneEnded> {
        let known = self.links.remove(name).unwrap_or_default();
        close(name, known.open.into_iter(), data_plane)
    }

    /// A link is gone.
    pub fn remove(&mut self, name: &Name) {
        self.links.remove(name);
    }

    /// Returns whether it could be opened.
    fn open(
        &mut self,
        config: &Config,
        link: &Link,
        known: &LinkTransports,
        peer: &Peer,
        transport: Transport,
        data_plane: &DataPlaneHandle,
    ) -> Result<bool, DataPlaneEnded> {
        let mark = own_mark(config);
        let mut sockets = Vec::new();
        for egress in &known.egresses {
            let told = &known.proxy;
            let opened = match transport {
                Transport::Udp => continue,
                Transport::UdpFallback => fallback_socket(link, egress, mark, peer),
                Transport::Tls => self.carry(link, egress, mark, told.clone()).map(Some),
            };
            match opened {
                Ok(socket) => sockets.extend(socket),
                Err(error) => {
                    let trouble = format!("{}: can't try {transport}: {error}", link.name);
                    if self.trouble.as_ref() != Some(&trouble) {
                        tracing::warn!("{trouble}");
                    }
                    self.trouble = Some(trouble);
                    return Ok(false);
                }
            }
        }
        for socket in sockets {
            let link = link.name.clone();
            let attach = Command::AttachSocket { link, transport, socket, device_mtu: None };
            data_plane.send(attach)?;
        }
        Ok(true)
    }

    /// What is wrong with a link's proxy while it is used.
    pub fn trouble(&self, link: &Name) -> Option<String> {
        let known = self.links.get(link)?;
        known.open.contains(&Transport::Tls).then(|| known.proxy.latest())?
    }

    fn carry(
        &mut self,
        link: &Link,
        egress: &Egress,
        mark: Option<u32>,
        trouble: ProxyTrouble,
    ) -> io::Result<LinkSocket> {
        let carriers = match self.carriers.take() {
            Some(carriers) => carriers,
            None => Home::start(self.targets.clone())?,
        };
        let proxy = link.proxy.as_ref().map(|proxy| Proxy {
            host: proxy.host.clone(),
            port: proxy.port,
            credentials: proxy.credentials.clone(),
        });
        let leaving = Leaving {
            device: egress.device.as_ref().map(|device| device.name.clone()),
            source: link.binding.source,
            fwmark: link.binding.fwmark.or(mark),
            family: egress.family,
            proxy,
        };
        self.carriers.insert(carriers).carry(leaving, trouble)
    }
}

impl LinkTransports {
    fn wanted(&mut self, link: &Link, snapshot: &Snapshot, now: Instant) -> &'static [Transport] {
        match link.transport {
            TransportChoice::Udp => return &[Transport::Udp],
            TransportChoice::Tls => return &[Transport::Tls],
            TransportChoice::Auto => {}
        }
        match self.selector.observe(&seen(link, snapshot), now) {
            [Selected::Udp] => &[Transport::Udp],
            [Selected::Udp, Selected::Tls] => &[Transport::Udp, Transport::Tls],
            [Selected::Udp, Selected::OtherPort] => &[Transport::Udp, Transport::UdpFallback],
            _ => &[Transport::Udp, Transport::UdpFallback, Transport::Tls],
        }
    }
}

/// The link's paths as the data plane sees them.
fn seen(link: &Link, snapshot: &Snapshot) -> SeenAll {
    let paths = || {
        let all = snapshot.peers.iter().flat_map(|peer| &peer.paths);
        all.filter(|path| path.link == link.name.as_str())
    };
    let of = |transport: Transport| {
        let by = || paths().filter(move |path| path.transport == transport);
        let sum = |count: fn(&PathStatus) -> u64| by().map(count).sum();
        Seen {
            works: by().any(|path| {
                use PathState::{Active, OverQuota, Standby};
                matches!(path.state, Active | Standby | OverQuota)
            }),
            sent: sum(|path| path.tx_packets),
            lost: sum(|path| path.lost_packets),
            bytes: sum(|path| path.tx_bytes + path.rx_bytes),
        }
    };
    SeenAll {
        udp: of(Transport::Udp),
        other_port: of(Transport::UdpFallback),
        tls: of(Transport::Tls),
    }
}

fn close(
    link: &Name,
    transports: impl Iterator<Item = Transport>,
    data_plane: &DataPlaneHandle,
) -> Result<(), DataPlaneEnded> {
    for transport in transports {
        data_plane.send(Command::CloseTransport { link: link.clone(), transport })?;
    }
    Ok(())
}

/// Each address of each peer that has a port for this.
fn targets(config: &Config, resolved: &Resolved) -> HashMap<SocketAddr, Target> {
    let mut targets = HashMap::new();
    for peer in &config.peers {
        let Some(port) = peer.fallback_port else { continue };
        let name = peer.endpoints.iter().find_map(|endpoint| match &endpoint.host {
            Host::Name(name) => Some(name.clone()),
            Host::Address(_) => None,
        });
        for address in resolved.of(&peer.public_key) {
            targets.insert(address, Target { key: peer.public_key, port, name: name.clone() });
        }
    }
    targets
}

/// `None` if the peer's usual port is the same.
fn fallback_socket(
    link: &Link,
    egress: &Egress,
    mark: Option<u32>,
    peer: &Peer,
) -> io::Result<Option<LinkSocket>> {
    let (named, used) = (peer.endpoints.first().map(|it| it.port), peer.fallback_port);
    let Some((named, used)) = named.zip(used).filter(|(named, used)| named != used) else {
        return Ok(None);
    };
    open_socket(link, egress, mark)
        .map(|it| Some(it.with_port_instead(PortInstead { named, used })))
}

/// At a concentrator whose config asks for it: listens for homes' TLS connections.
pub fn listen_tls(
    config: &Config,
    key: PublicKey,
) -> Result<(Option<Server>, Vec<LinkSocket>), DaemonError> {
    let interface = &config.interface;
    if interface.listen_tls.is_empty() {
        return Ok((None, Vec::new()));
    }
    let doing = || DaemonError::system("listening for TLS (interface.listen_tls)");
    let certificate = match &interface.tls_certificate {
        Some(given) => Certificate::read(&given.chain, &given.key),
        None => {
            let name = interface.name.as_str();
            let file = |end: &str| interface.state_dir.join(format!("{name}.tls.{end}"));
            let own = CertificateFiles { chain: file("pem"), key: file("key") };
            own_certificate::ensure(&own, || names(config)).map_err(doing())?;
            Certificate::read(&own.chain, &own.key)
        }
    };
    let settings = ServerSettings {
        listen: interface.listen_tls.clone(),
        fwmark: own_mark(config),
        key,
        certificate: certificate.map_err(|error| doing()(io::Error::other(error)))?,
    };
    let (server, sockets) =
        Server::start(settings).map_err(|error| doing()(io::Error::other(error)))?;
    Ok((Some(server), sockets))
}

/// The names by which homes reach this host.
fn names(config: &Config) -> Vec<String> {
    let told = own_endpoints::hosts(config);
    if !told.is_empty() {
        return told;
    }
    let listen = config.interface.listen_tls.iter().map(SocketAddr::ip);
    listen.filter(|ip| !ip.is_unspecified()).map(|ip| ip.to_string()).collect()
}
