use super::super::failure::Failure;
use super::taken::Taken;
use braid_control::config::{Config, Endpoint, Peer};
use ipnet::IpNet;
use std::net::{IpAddr, SocketAddr, UdpSocket};

/// The usual port.
pub const DEFAULT_PORT: u16 = 51900;

/// A free UDP port: `wanted`, or one of the hundred starting with the default.
pub fn free_port(wanted: Option<u16>) -> Result<u16, Failure> {
    let is_free = |port: u16| UdpSocket::bind(("0.0.0.0", port)).is_ok();
    if let Some(port) = wanted {
        return match is_free(port) {
            true => Ok(port),
            false => Err(Failure::failed(format!("UDP port {port} is taken; choose another"))),
        };
    }
    (DEFAULT_PORT..DEFAULT_PORT + 100).find(|port| is_free(*port)).ok_or_else(|| {
        Failure::failed("UDP ports 51900 to 51999 are all taken; choose one with --port")
    })
}

/// This host's public addresses.
pub fn public_endpoints(port: u16) -> Vec<Endpoint> {
    // Documentation addresses (RFC 5737, RFC 3849): a connected UDP socket
    // shows the route's source address, and sends nothing.
    ["198.51.100.1:9", "[2001:db8::1]:9"]
        .iter()
        .filter_map(|target| {
            let target: SocketAddr = target.parse().ok()?;
            let any = if target.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
            let socket = UdpSocket::bind(any).ok()?;
            socket.connect(target).ok()?;
            let address = socket.local_addr().ok()?.ip();
            is_public(address).then(|| Endpoint::from(SocketAddr::new(address, port)))
        })
        .collect()
}

fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            let [a, b, ..] = address.octets();
            let shared = a == 100 && (64..128).contains(&b); // RFC 6598
            !(address.is_private()
                || address.is_loopback()
                || address.is_link_local()
                || address.is_unspecified()
                || shared)
        }
        // 2000::/3 is what IANA has given out of global unicast.
        IpAddr::V6(address) => address.octets()[0] >> 5 == 1,
    }
}

/// Addresses for a new home, one of each of our networks, with the network's prefix length: those
/// that are wanted, else the first that nobody has. `taken` are those of a fleet.
pub fn addresses(config: &Config, wanted: &[IpAddr], taken: &Taken) -> Result<Vec<IpNet>, Failure> {
    let networks = &config.interface.addresses;
    for address in wanted {
        if !networks.iter().any(|network| network.contains(address)) {
            let networks: Vec<String> =
                networks.iter().map(|network| network.trunc().to_string()).collect();
            return Err(Failure::failed(format!(
                "{address} is in none of this tunnel's networks: {}",
                networks.join(", ")
            )));
        }
        let has = |peer: &&Peer| {
            let hosts = peer.allowed_ips.iter().map(|prefix| prefix.net());
            hosts.filter(|net| net.prefix_len() > 0).any(|net| net.contains(address))
        };
        if let Some(peer) = config.peers.iter().find(has) {
            return Err(Failure::failed(format!("{address} is home {:?}'s", peer.name.as_str())));
        }
        if let Some(home) = taken.home_at(*address) {
            return Err(Failure::failed(format!("{address} is home {home:?}'s, of this fleet")));
        }
        if networks.iter().any(|network| network.contains(address) && is_edge(network, *address)) {
            let what = "is the network address or the broadcast address";
            return Err(Failure::failed(format!("{address} {what}: a home can't use it")));
        }
        if networks.iter().any(|network| network.addr() == *address) {
            return Err(Failure::failed(format!("{address} is this host's own")));
        }
    }
    let chosen = |network: &IpNet| {
        let wanted = wanted.iter().find(|address| network.contains(*address))?;
        IpNet::new(*wanted, network.prefix_len()).ok()
    };
    networks
        .iter()
        .map(|network| match chosen(network) {
            Some(address) => Ok(address),
            None => free_address(*network, &config.peers, taken),
        })
        .collect()
}

/// The addresses that a home has of our networks, with the networks' prefix lengths.
pub fn of_home(config: &Config, home: &Peer) -> Result<Vec<IpNet>, Failure> {
    let networks = &config.interface.addresses;
    let in_ours = home.allowed_ips.iter().filter_map(|prefix| {
        let host = prefix.net();
        let network = networks.iter().find(|network| network.contains(&host.addr()))?;
        let is_host = host.prefix_len() == host.max_prefix_len();
        is_host.then(|| IpNet::new(host.addr(), network.prefix_len()).ok())?
    });
    let found: Vec<IpNet> = in_ours.collect();
    match found.is_empty() && !networks.is_empty() {
        true => Err(Failure::failed(format!(
            "home {:?} has no address in the tunnel's networks: edit its [[peer]] by hand",
            home.name.as_str()
        ))),
        false => Ok(found),
    }
}

/// More homes than this fit no reasonable concentrator; bounds the search in a /64.
const MAX_TRIED: usize = 1 << 16;

fn free_address(network: IpNet, peers: &[Peer], of_fleet: &Taken) -> Result<IpNet, Failure> {
    let taken = |address: IpAddr| {
        address == network.addr()
            || of_fleet.home_at(address).is_some()
            || peers.iter().flat_map(|peer| &peer.allowed_ips).any(|prefix| {
                // A default route or the like doesn't occupy single addresses.
                prefix.net().prefix_len() > network.prefix_len() && prefix.contains(address)
            })
    };
    network
        .hosts()
        .take(MAX_TRIED)
        .find(|address| !taken(*address) && !is_edge(&network, *address))
        .and_then(|address| IpNet::new(address, network.prefix_len()).ok())
        .ok_or_else(|| Failure::failed(format!("no address is left in {}", network.trunc())))
}

/// Networks of one or two addresses have no edges (RFC 3021), and IPv6's last address is nothing
/// special.
fn is_edge(network: &IpNet, address: IpAddr) -> bool {
    let has_edges = network.max_prefix_len() - network.prefix_len() > 1;
    has_edges && (address == network.network() || address == network.broadcast())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn each_home_gets_the_next_address() {
        let text = r#"
            [interface]
            private_key_file = "k"
            listen = "0.0.0.0:51900"
            addresses = ["10.77.0.1/29", "fd77::1/64"]
            [[peer]]
            name = "a"
            public_key = "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo="
            allowed_ips = ["10.77.0.2", "fd77::2", "10.77.0.3/32"]
        "#;
        let config = Config::parse(text, Path::new("c.toml")).unwrap();
        let free: Vec<String> = addresses(&config, &[], &Taken::default())
            .unwrap()
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(free, ["10.77.0.4/29", "fd77::3/64"]);
        let full = text.replace("10.77.0.3/32", "10.77.0.3/32\", \"10.77.0.4/30");
        let config = Config::parse(&full, Path::new("c.toml")).unwrap();
        assert!(
            addresses(&config, &[], &Taken::default()).is_err(),
            "1 to 7 are taken or the broadcast address"
        );
    }

    #[test]
    fn a_home_gets_the_address_that_is_wanted_if_it_is_free() {
        let text = "[interface]\nprivate_key_file = \"k\"\nlisten = \"0.0.0.0:51900\"\n\
            addresses = [\"10.77.0.1/24\", \"fd77::1/64\"]\n\
            [[peer]]\nname = \"a\"\npublic_key = \"hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=\"\n\
            allowed_ips = [\"10.77.0.2\", \"fd77::2\"]\n";
        let config = Config::parse(text, Path::new("c.toml")).unwrap();
        let of_fleet = Taken::of("b", &["10.77.0.4/32", "fd77::3/128"]);
        let wanted = |address: &str| addresses(&config, &[address.parse().unwrap()], &of_fleet);
        let given: Vec<String> =
            wanted("10.77.0.9").unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(given, ["10.77.0.9/24", "fd77::4/64"]);
        for taken in ["10.77.0.2", "10.77.0.1", "10.78.0.1", "10.77.0.4"] {
            assert!(wanted(taken).is_err(), "{taken}");
        }
    }

    #[test]
    fn only_public_addresses_are_offered() {
        for (address, public) in [
            ("203.0.113.7", true),
            ("192.168.1.1", false),
            ("100.64.3.4", false),
            ("2a01::1", true),
            ("fd77::1", false),
            ("fe80::1", false),
        ] {
            assert_eq!(is_public(address.parse().unwrap()), public, "{address}");
        }
    }
}
