//! Resolves the peers' endpoints repeatedly, as addresses change.

use super::ending::Ending;
use super::names::{self, Asked, Server};
use super::supervise;
use braid_control::config::{Endpoint, Host, Peer};
use braid_handshake::PublicKey;
use braid_linux::resolv_conf::name_servers;
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Called with the addresses of a peer's endpoints whenever they change.
pub type OnChange = Box<dyn Fn(PublicKey, Vec<SocketAddr>) + Send>;

/// Asks the system for a name's addresses.
type LookUp = Box<dyn Fn(&str, u16) -> io::Result<Vec<SocketAddr>> + Send>;

/// Resolves on a thread of its own, since look-ups block.
pub struct EndpointResolver {
    news: Sender<News>,
}

enum News {
    Peers(Vec<(PublicKey, Vec<Endpoint>)>),
    Working(bool),
    Around(Around),
}

/// How to resolve names outside the tunnel when its kill switch blocks everything else: over each
/// link, and as the host would.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Around {
    /// Whether the kill switch is on.
    pub needed: bool,
    /// The mark that the kill switch lets pass.
    pub mark: u32,
    /// The links' devices with their routers, which often are name servers too.
    pub links: Vec<(String, Vec<IpAddr>)>,
}

impl Around {
    fn servers(&self, named: &[IpAddr]) -> (Vec<Server>, Vec<Server>) {
        let server = |address: &IpAddr, device: Option<&String>| Server {
            address: *address,
            device: device.cloned(),
            mark: Some(self.mark),
        };
        let mut first: Vec<Server> = named.iter().map(|address| server(address, None)).collect();
        for (device, _) in &self.links {
            first.extend(named.iter().map(|address| server(address, Some(device))));
        }
        let routers = self.links.iter().flat_map(|(device, routers)| {
            routers.iter().map(|router| server(router, Some(device)))
        });
        (first, routers.collect())
    }

    /// Routers are asked if no other server answers.
    fn look_up(&self, name: &str, port: u16) -> Vec<SocketAddr> {
        let (first, routers) = self.servers(&name_servers());
        for servers in [first, routers] {
            let mut found = Vec::new();
            for asked in names::look_up(name, &servers) {
                let Asked::Answered(addresses) = asked else { continue };
                for address in addresses.into_iter().map(|ip| SocketAddr::new(ip, port)) {
                    if !found.contains(&address) && found.len() < MOST {
                        found.push(address);
                    }
                }
            }
            if !found.is_empty() {
                return found;
            }
        }
        Vec::new()
    }
}

/// Maximum addresses of one name: each becomes a path to try.
const MOST: usize = 8;

const EVERY: Duration = Duration::from_secs(60);
/// Interval while a name was never found: the links may just be coming up.
const EVERY_MISSING: Duration = Duration::from_secs(3);
/// Interval while no peer works: it may have another address now.
const EVERY_IN_VAIN: Duration = Duration::from_secs(5);

impl EndpointResolver {
    /// Starts, without peers. Ends when dropped.
    pub fn start(ending: &Ending, on_change: OnChange) -> io::Result<EndpointResolver> {
        let of_system = |name: &str, port| Ok((name, port).to_socket_addrs()?.collect());
        Self::start_with(ending, Box::new(of_system), on_change)
    }

    fn start_with(
        ending: &Ending,
        look_up: LookUp,
        on_change: OnChange,
    ) -> io::Result<EndpointResolver> {
        let (news, received) = channel();
        let mut resolving = Resolving {
            received,
            look_up,
            on_change,
            peers: Vec::new(),
            known: HashMap::new(),
            working: false,
            around: Around::default(),
        };
        supervise::start("braid-resolve", ending, move || resolving.run())?;
        Ok(EndpointResolver { news })
    }

    /// Resolves these peers from now on, starting at once.
    pub fn set_peers(&self, peers: &[Peer]) {
        let wanted = peers.iter().map(|peer| (peer.public_key, peer.endpoints.clone())).collect();
        // The thread lives as long as the sender.
        let _ = self.news.send(News::Peers(wanted));
    }

    /// Sets how to resolve outside the tunnel from now on.
    pub fn set_around(&self, around: Around) {
        let _ = self.news.send(News::Around(around));
    }

    /// Whether some peer works; if none does, they are resolved more often.
    pub fn set_working(&self, working: bool) {
        let _ = self.news.send(News::Working(working));
    }
}

struct Resolving {
    received: Receiver<News>,
    look_up: LookUp,
    on_change: OnChange,
    peers: Vec<(PublicKey, Vec<Endpoint>)>,
    known: HashMap<PublicKey, Vec<SocketAddr>>,
    working: bool,
    around: Around,
}

impl Resolving {
    /// Runs until all senders are gone.
    fn run(&mut self) {
        let mut wait = EVERY;
        loop {
            match self.received.recv_timeout(wait) {
                Ok(News::Peers(changed)) => {
                    self.peers = changed;
                    // Peers that were removed and added again must be reported again.
                    self.known.clear();
                }
                Ok(News::Working(now)) => self.working = now,
                Ok(News::Around(now)) => self.around = now,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            let missing = self.resolve_all();
            wait = match (missing, self.working) {
                (true, _) => EVERY_MISSING,
                (false, false) => EVERY_IN_VAIN,
                (false, true) => EVERY,
            };
        }
    }

    /// Resolves as every program does; outside a kill switch with /etc/hosts, then over the links.
    fn look_up(&self, name: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        // While the tunnel works, queries go through it, like everyone else's.
        if self.working || !self.around.needed {
            return (self.look_up)(name, port);
        }
        let written = std::fs::read_to_string("/etc/hosts").unwrap_or_default();
        let mut found: Vec<SocketAddr> = in_hosts(&written, name, port).collect();
        if found.is_empty() {
            found = self.around.look_up(name, port);
        }
        if found.is_empty() { (self.look_up)(name, port) } else { Ok(found) }
    }

    /// Whether some name was not found.
    fn resolve_all(&mut self) -> bool {
        let mut missing = false;
        for (key, endpoints) in &self.peers {
            let before = self.known.get(key).map(Vec::as_slice).unwrap_or_default();
            let (addresses, complete) =
                resolve(endpoints, before, |name, port| self.look_up(name, port));
            missing |= !complete;
            if !addresses.is_empty() && addresses != before {
                (self.on_change)(*key, addresses.clone());
                self.known.insert(*key, addresses);
            }
        }
        missing
    }
}

/// hosts(5)
fn in_hosts(text: &str, name: &str, port: u16) -> impl Iterator<Item = SocketAddr> {
    text.lines().filter_map(move |line| {
        let mut words = line.split('#').next()?.split_ascii_whitespace();
        let address: IpAddr = words.next()?.parse().ok()?;
        let named = words.any(|word| word.eq_ignore_ascii_case(name));
        named.then(|| SocketAddr::new(address, port))
    })
}

/// All addresses, in the config's order; and whether every name was found. If a name isn't found,
/// all earlier addresses are kept.
fn resolve(
    endpoints: &[Endpoint],
    before: &[SocketAddr],
    look_up: impl Fn(&str, u16) -> io::Result<Vec<SocketAddr>>,
) -> (Vec<SocketAddr>, bool) {
    let mut addresses: Vec<SocketAddr> = Vec::new();
    let mut complete = true;
    for endpoint in endpoints {
        let found = match &endpoint.host {
            Host::Address(address) => vec![SocketAddr::new(*address, endpoint.port)],
            Host::Name(name) => match look_up(name, endpoint.port) {
                Ok(found) => found,
                Err(error) => {
                    tracing::debug!(%endpoint, %error, "can't look up");
                    complete = false;
                    Vec::new()
                }
            },
        };
        for address in found {
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
    }
    if !complete {
        addresses.extend(
            before.iter().filter(|old| !addresses.contains(old)).copied().collect::<Vec<_>>(),
        );
    }
    (addresses, complete)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn addresses_come_in_order_and_a_failed_look_up_forgets_none() {
        let endpoints: Vec<Endpoint> =
            ["192.0.2.1:1", "nowhere.invalid:1", "192.0.2.2:1", "192.0.2.1:1"]
                .iter()
                .map(|text| text.parse().unwrap())
                .collect();
        let no_names: LookUp = Box::new(|_, _| Err(io::ErrorKind::NotFound.into()));
        let before: Vec<SocketAddr> = vec!["192.0.2.9:1".parse().unwrap()];
        let (addresses, complete) = resolve(&endpoints, &before, &no_names);
        let shown: Vec<String> = addresses.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["192.0.2.1:1", "192.0.2.2:1", "192.0.2.9:1"]);
        assert!(!complete);
    }

    #[test]
    fn changes_are_told_once() {
        let (told, heard) = channel();
        let resolver = EndpointResolver::start(
            &Ending::default(),
            Box::new(move |key, addresses| {
                told.send((key, addresses)).unwrap();
            }),
        )
        .unwrap();
        resolver.set_peers(&peers("192.0.2.1:1"));
        let (_, addresses) = heard.recv_timeout(Duration::from_secs(20)).unwrap();
        assert_eq!(addresses, ["192.0.2.1:1".parse().unwrap()]);
        drop(resolver);
        // The thread ends and drops its sender: nothing more is told.
        assert!(heard.recv_timeout(Duration::from_secs(20)).is_err());
    }

    /// For one that works, a minute later would do.
    #[test]
    fn a_peer_that_does_not_work_is_looked_up_again_soon() {
        let (told, heard) = channel();
        let moved = std::sync::atomic::AtomicU8::new(1);
        let look_up = move |_: &str, port| {
            let last = moved.fetch_add(1, Ordering::Relaxed);
            Ok(vec![SocketAddr::from(([192, 0, 2, last], port))])
        };
        let on_change = move |_, addresses: Vec<SocketAddr>| drop(told.send(addresses));
        let ending = Ending::default();
        let resolver =
            EndpointResolver::start_with(&ending, Box::new(look_up), Box::new(on_change)).unwrap();
        resolver.set_peers(&peers("vpn.example.org:1"));
        for last in ["192.0.2.1:1", "192.0.2.2:1"] {
            let addresses = heard.recv_timeout(Duration::from_secs(40)).unwrap();
            assert_eq!(addresses, [last.parse().unwrap()]);
        }
    }

    #[test]
    fn a_look_up_that_panics_is_tried_again() {
        let (told, heard) = channel();
        let calls = std::sync::atomic::AtomicU8::new(0);
        let look_up = move |_: &str, port| match calls.fetch_add(1, Ordering::Relaxed) {
            0 => panic!("in the resolver"),
            _ => Ok(vec![SocketAddr::from(([192, 0, 2, 1], port))]),
        };
        let on_change = move |_, addresses: Vec<SocketAddr>| drop(told.send(addresses));
        let ending = Ending::default();
        let resolver =
            EndpointResolver::start_with(&ending, Box::new(look_up), Box::new(on_change)).unwrap();
        resolver.set_peers(&peers("vpn.example.org:1"));
        resolver.set_working(false);
        heard.recv_timeout(Duration::from_secs(40)).unwrap();
        assert_eq!(ending.reason(), None);
    }

    #[test]
    fn a_name_that_the_host_itself_gives_an_address_has_it() {
        let text = "127.0.0.1 localhost\n203.0.113.7 x vpn.example.org # mine\n\
                    # 203.0.113.8 vpn.example.org\n2001:db8::7 VPN.example.org\n";
        let found: Vec<String> =
            in_hosts(text, "vpn.example.org", 1).map(|address| address.to_string()).collect();
        assert_eq!(found, ["203.0.113.7:1", "[2001:db8::7]:1"]);
    }

    fn peers(endpoint: &str) -> Vec<Peer> {
        let text = format!(
            "[interface]\nprivate_key_file = \"k\"\nlisten = \"0.0.0.0:1\"\n[[peer]]\nname = \"p\"\n\
             public_key = \"hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=\"\nendpoints = [\"{endpoint}\"]"
        );
        let file = std::path::Path::new("c");
        braid_control::config::Config::parse(&text, file).unwrap().peers
    }
}
