use crate::side::Side;
use braid_lab::emulator::{Capacity, DirectionModel, LinkChange, LinkModel};
use braid_lab::topology::{CONCENTRATOR_V4, Topology, TopologyOptions};
use braid_linux::netns::NetNs;
use braid_units::{ByteSize, Rate};
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

/// The concentrator inside the tunnel.
pub const INSIDE_V4: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 77, 0, 1));
/// The concentrator inside the tunnel.
pub const INSIDE_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 1));

/// A home, a concentrator, and the links between them.
pub struct World {
    // Dropped in this order: the daemons go before their network.
    pub home: Side,
    pub concentrator: Side,
    pub topology: Topology,
    pub scratch: tempfile::TempDir,
}

/// What both configs say, apart from keys and links.
pub struct Tunnel<'a> {
    pub endpoint: String,
    /// Lines of the concentrator's `[interface]`.
    pub concentrator: &'a str,
    /// Lines of the home's `[interface]`.
    pub home: &'a str,
    /// More sections of the concentrator's config.
    pub more_homes: &'a str,
    /// Lines of the concentrator's `[routing]`.
    pub concentrator_routing: &'a str,
    /// Lines of the home's `[routing]`.
    pub home_routing: &'a str,
}

/// The host is as the test made it.
pub const LEAVE_HOST_ALONE: &str = "leave_host_alone = true";
/// The host's traffic goes through the tunnel, translated.
pub const CARRIES_ALL: &str = "default_route = true\nmasquerade = true";

impl Default for Tunnel<'_> {
    fn default() -> Self {
        Tunnel {
            endpoint: format!("{CONCENTRATOR_V4}:51900"),
            concentrator: "addresses = [\"10.77.0.1/24\", \"fd77::1/64\"]",
            home: "addresses = [\"10.77.0.2/24\", \"fd77::2/64\"]",
            more_homes: "",
            concentrator_routing: LEAVE_HOST_ALONE,
            home_routing: LEAVE_HOST_ALONE,
        }
    }
}

impl World {
    /// None where namespaces can't be made.
    pub fn new(links: &[LinkModel]) -> Option<World> {
        if let Err(error) = NetNs::new() {
            eprintln!("SKIPPED: no network namespaces here: {error}");
            return None;
        }
        let options = TopologyOptions { seed: 7, ..TopologyOptions::default() };
        let topology = Topology::build(links, &options).unwrap();
        let scratch = tempfile::tempdir().unwrap();
        let home = Side::new(topology.home(), &scratch.path().join("home"));
        let concentrator = Side::new(topology.concentrator(), &scratch.path().join("concentrator"));
        Some(World { home, concentrator, topology, scratch })
    }

    pub fn write_configs(&self, tunnel: &Tunnel<'_>) {
        let listen = format!("{}\nlisten = [\"{}\"]", tunnel.concentrator, tunnel.endpoint);
        let peer = self.home_as_peer() + tunnel.more_homes;
        self.concentrator.write_config(&listen, tunnel.concentrator_routing, &peer);
        let mut rest = String::new();
        for link in self.topology.links() {
            let _ = write!(rest, "[[link]]\nname = \"{0}\"\ninterface = \"{0}\"\n", link.device());
        }
        rest.push_str(&self.concentrator_as_peer(&tunnel.endpoint));
        self.home.write_config(tunnel.home, tunnel.home_routing, &rest);
    }

    /// The `[[peer]]` of a concentrator's config.
    pub fn home_as_peer(&self) -> String {
        format!(
            "[[peer]]\nname = \"home\"\npublic_key = \"{}\"\n\
             allowed_ips = [\"10.77.0.2\", \"fd77::2\"]\n",
            self.home.public_key()
        )
    }

    /// The home has this concentrator, too.
    pub fn add_stand_in(&self, second: &Side, address: &str) {
        self.home.append_to_config(&format!(
            "[[peer]]\nname = \"second\"\npublic_key = \"{}\"\n\
             endpoints = [\"{address}:51900\"]\nstands_in_for = \"concentrator\"\n",
            second.public_key()
        ));
    }

    /// The `[[peer]]` of a home's config.
    pub fn concentrator_as_peer(&self, endpoint: &str) -> String {
        format!(
            "[[peer]]\nname = \"concentrator\"\npublic_key = \"{}\"\nendpoints = [\"{endpoint}\"]\n\
             allowed_ips = [\"0.0.0.0/0\", \"::/0\"]\n",
            self.concentrator.public_key()
        )
    }

    /// Brings the tunnel up and waits until every link has a working path.
    pub fn start(&mut self, tunnel: &Tunnel<'_>) {
        self.write_configs(tunnel);
        self.concentrator.start();
        self.home.start();
        self.home.wait_for_active_paths(self.topology.links().len());
    }

    pub fn change(&self, link: usize, change: &LinkChange) {
        self.topology.apply(link, change).unwrap();
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("HOME\n{}", self.home.describe());
            println!("CONCENTRATOR\n{}", self.concentrator.describe());
        }
    }
}

/// A link of 20 Mbit/s and 10 ms in each direction.
pub fn link(name: &str) -> LinkModel {
    let direction = DirectionModel {
        capacity: Capacity::Rate(Rate::from_mbit(20)),
        delay: Duration::from_millis(10),
        queue: ByteSize::from_bytes(200_000),
        ..DirectionModel::ideal()
    };
    LinkModel { name: name.into(), down: direction.clone(), up: direction, mtu: 1500, nat: false }
}
