//! Two concentrators without BGP, as on rented servers: each translates what its homes send to an
//! address of its own. A home's move between them ends its connections, which has to be seen by
//! who has one, and new ones work.

use crate::side::Side;
use crate::world::{CARRIES_ALL, INSIDE_V4, Tunnel, World, link};
use braid_linux::netlink::Netlink;
use braid_linux::netns::NetNs;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

const FIRST: &str = "203.0.113.1";
const SECOND: &str = "203.0.113.2";
/// A server in the Internet, and as whom it sees the homes of each concentrator.
const SERVER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(198, 51, 100, 7)), 7000);
const BY_FIRST: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
const BY_SECOND: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 5));
/// Who hears nothing for so long hangs.
const HANGS: Duration = Duration::from_secs(60);

#[test]
fn a_move_resets_open_connections_and_new_ones_work() {
    let Some(mut ground) = Ground::new() else { return };
    ground.connect();
    assert_eq!(ground.seen_as(), BY_FIRST);

    let open = ground.connections();
    ground.second.braid_ok(&["concentrator", "move-home", "home", "c2"]);
    ground.wait_until_served_by("second");
    all_are_reset(&open);
    assert_eq!(ground.seen_as(), BY_SECOND);
    let told = String::from_utf8(ground.world.home.braid_ok(&["status"])).unwrap();
    assert!(told.contains("second now stands in for it"), "{told}");
    let events = |side: &Side| String::from_utf8(side.braid_ok(&["events"])).unwrap();
    let home = &ground.world.home;
    let of_second = || events(home).contains("second now serves this home instead of");
    home.wait_until("the move is an event", of_second);
    // The concentrator is about to see that it has lasted, too.
    thread::sleep(Duration::from_secs(3));

    // Nobody sends resets for a concentrator that is dead: who only waits for data has to be woken.
    let open = ground.connections();
    ground.second.kill();
    ground.wait_until_served_by("");
    all_are_reset(&open);
    assert_eq!(ground.seen_as(), BY_FIRST);
    let first = &ground.world.concentrator;
    let of_first = || events(first).contains("home is served here now");
    first.wait_until("it is an event there", of_first);
}

/// What a connection is for.
#[derive(Clone, Copy, Debug)]
enum Use {
    Download,
    Upload,
    /// Nothing is said.
    Idle,
}

impl Use {
    const ALL: [Use; 3] = [Use::Download, Use::Upload, Use::Idle];

    fn of(letter: u8) -> Option<Use> {
        Self::ALL.into_iter().find(|one| one.letter() == letter)
    }

    fn letter(self) -> u8 {
        match self {
            Use::Download => b'd',
            Use::Upload => b'u',
            Use::Idle => b'i',
        }
    }
}

/// A connection that is open, and what ends it.
struct Open {
    what: String,
    ended: Receiver<ErrorKind>,
}

fn all_are_reset(open: &[Open]) {
    let ends = open.iter().map(|Open { what, ended }| {
        (what, ended.recv_timeout(2 * HANGS).unwrap_or(ErrorKind::TimedOut))
    });
    let others: Vec<_> = ends.filter(|(_, how)| *how != ErrorKind::ConnectionReset).collect();
    assert!(others.is_empty(), "{others:?}");
}

struct Ground {
    world: World,
    second: Side,
    device: NetNs,
    _server: NetNs,
}

impl Ground {
    fn new() -> Option<Ground> {
        let world = World::new(&[link("dsl"), link("lte")])?;
        let second = Side::new(&NetNs::new().unwrap(), &world.scratch.path().join("second"));
        let (server, device) = (NetNs::new().unwrap(), NetNs::new().unwrap());
        let pair = |at: &NetNs, near: &str, other: &NetNs, far: &str| {
            let mut netlink = at.run(Netlink::open).unwrap().unwrap();
            netlink.add_veth(near, far, Some(other)).unwrap();
        };
        let first = &world.concentrator;
        pair(&second.namespace, "c2", &first.namespace, "r2");
        pair(&server, "s1", &first.namespace, "isp");
        pair(&server, "s2", &second.namespace, "isp");
        pair(&device, "eth0", &world.home.namespace, "lan");
        // What is for homes goes nowhere in the Internet, once a concentrator is dead.
        let internet = "ip route add blackhole 10.77.0.0/24 metric 4000";
        second.sh(internet);
        first.sh(internet);
        second.sh(&format!(
            "ip link set lo up; ip addr add {SECOND}/30 dev c2; ip link set c2 up \
             && ip addr add {BY_SECOND}/30 dev isp && ip link set isp up \
             && ip route add default via {FIRST} && ip route add {} via 192.0.2.6",
            SERVER.ip()
        ));
        first.sh(&format!(
            "sysctl -qw net.ipv4.ip_forward=1 && ip link set r2 up \
             && ip route add {SECOND} dev r2 src {FIRST} \
             && ip addr add {BY_FIRST}/30 dev isp && ip link set isp up \
             && ip route add {} via 192.0.2.2",
            SERVER.ip()
        ));
        world.home.sh("ip addr add 192.168.50.1/24 dev lan && ip link set lan up");
        let sh = |namespace: &NetNs, script: &str| {
            assert!(namespace.command("sh").args(["-ec", script]).status().unwrap().success());
        };
        sh(
            &server,
            &format!(
                "ip link set lo up; ip addr add {}/32 dev lo
                 ip addr add 192.0.2.2/30 dev s1; ip link set s1 up
                 ip addr add 192.0.2.6/30 dev s2; ip link set s2 up",
                SERVER.ip()
            ),
        );
        sh(
            &device,
            "ip link set lo up; ip addr add 192.168.50.10/24 dev eth0; ip link set eth0 up
             ip route add default via 192.168.50.1",
        );
        serve(&server);
        Some(Ground { world, second, device, _server: server })
    }

    /// Brings all up, served by the first.
    fn connect(&mut self) {
        let registry = self.world.scratch.path().join("fleet.db");
        let of_fleet = |name: &str, endpoint: &str| {
            format!(
                "[fleet]\nname = \"{name}\"\nregistry = \"sqlite:{}\"\n\
                 endpoints = [\"{endpoint}:51900\"]\n",
                registry.display()
            )
        };
        let translates = "masquerade = true";
        let tunnel = Tunnel {
            concentrator: "addresses = [\"10.77.0.1/24\"]",
            home: "addresses = [\"10.77.0.2/24\"]",
            concentrator_routing: translates,
            home_routing: CARRIES_ALL,
            ..Tunnel::default()
        };
        self.world.write_configs(&tunnel);
        self.world.concentrator.append_to_config(&of_fleet("c1", FIRST));
        let listen = format!("{}\nlisten = [\"{SECOND}:51900\"]", tunnel.concentrator);
        self.second.write_config(&listen, translates, &of_fleet("c2", SECOND));
        self.world.add_stand_in(&self.second, SECOND);
        self.world.concentrator.start();
        self.second.start();
        self.world.home.start();
        self.world.home.wait_until("both are connected", || {
            let peers = self.world.home.status()["peers"].clone();
            (0..2).all(|peer| peers[peer]["connected"] == true)
        });
        self.world.concentrator.braid_ok(&["concentrator", "move-home", "home", "c1"]);
        self.wait_until_served_by("");
        let route = format!("ip route get {} from 192.168.50.10 iif lan", SERVER.ip());
        let enters = || self.world.home.sh(&route).contains("braid0");
        self.world.home.wait_until("the LAN's way leads into the tunnel", enters);
    }

    /// The name of the stand-in; none for the first.
    fn wait_until_served_by(&self, name: &str) {
        let served_by = || self.world.home.status()["peers"][0]["served_by"].clone();
        self.world.home.wait_until("another serves", || served_by().as_str().unwrap_or("") == name);
        self.world.home.wait_for_ping(INSIDE_V4);
    }

    /// As whom the server sees a new connection of the device behind the home.
    fn seen_as(&self) -> IpAddr {
        let mut stream = begun(&self.device, Use::Idle);
        let mut address = [0; 4];
        stream.read_exact(&mut address).unwrap();
        IpAddr::from(address)
    }

    /// One for each use, of the home itself and of a device behind it.
    fn connections(&self) -> Vec<Open> {
        let hosts = [("the device's", &self.device), ("the home's", &self.world.home.namespace)];
        let each = hosts.into_iter().flat_map(|host| Use::ALL.map(|one| (host, one)));
        each.map(|((whose, namespace), of)| used(namespace, whose, of)).collect()
    }
}

/// A connection to the server that has its answer.
fn begun(from: &NetNs, of: Use) -> TcpStream {
    let connected = from.run(|| TcpStream::connect_timeout(&SERVER, HANGS)).unwrap();
    let mut stream = connected.unwrap();
    stream.set_read_timeout(Some(HANGS)).unwrap();
    stream.set_write_timeout(Some(HANGS)).unwrap();
    stream.write_all(&[of.letter()]).unwrap();
    stream
}

/// The same in use until it ends. Bytes are on their way when this returns.
fn used(from: &NetNs, whose: &str, of: Use) -> Open {
    let mut stream = begun(from, of);
    let mut some = [0; 4];
    stream.read_exact(&mut some).unwrap();
    let (ends, ended) = channel();
    thread::spawn(move || {
        let mut buffer = vec![0; 65_536];
        let error = loop {
            let done = match of {
                Use::Upload => stream.write(&buffer),
                Use::Download | Use::Idle => stream.read(&mut buffer),
            };
            match done {
                Ok(0) => break ErrorKind::UnexpectedEof,
                Ok(_) => {}
                Err(error) => break error.kind(),
            }
        };
        let _ = ends.send(error);
    });
    Open { what: format!("{whose} {of:?}"), ended }
}

/// Answers each with its address, then does what it is told until that fails.
fn serve(namespace: &NetNs) {
    let listener = namespace.run(|| TcpListener::bind(SERVER)).unwrap().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(stream) = stream else { return };
            thread::spawn(move || answer(stream));
        }
    });
}

fn answer(mut stream: TcpStream) -> Option<()> {
    let mut letter = [0];
    stream.read_exact(&mut letter).ok()?;
    let IpAddr::V4(from) = stream.peer_addr().ok()?.ip() else { return None };
    stream.write_all(&from.octets()).ok()?;
    let mut buffer = vec![0; 65_536];
    loop {
        match Use::of(letter[0])? {
            Use::Download => stream.write_all(&buffer).ok()?,
            Use::Upload | Use::Idle => {
                stream.read(&mut buffer).ok().filter(|read| *read > 0)?;
            }
        }
    }
}
