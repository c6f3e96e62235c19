//! Two concentrators that announce by BGP (BIRD) whom they serve, to a router between them and the
//! server: a home's addresses move with it.

use crate::side::Side;
use crate::traffic::{Direction, Transfer};
use crate::world::{Tunnel, World, link};
use braid_linux::netlink::Netlink;
use braid_linux::netns::NetNs;
use std::fs::{File, Permissions};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// Behind the router.
pub const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 7));
const SERVER_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0x51, 0, 0, 0, 0, 7));
/// The home's, besides its addresses.
const PREFIX: &str = "2001:db8:7::/56";
const SECOND: &str = "203.0.113.2";
pub const EXAMPLE: &str = include_str!("../../../../packaging/bird/braid.conf");
pub const ANNOUNCES: &str = "leave_host_alone = true\nannounce_table = 5190";
const BYTES: usize = 100_000_000;

#[test]
fn a_homes_addresses_move_with_it_and_no_connection_breaks() {
    let Some(mut net) = Net::new(Upstream::Bird) else { return };
    net.connect();
    assert_eq!(net.route(), "10.77.0.2 via 198.18.1.2", "the first serves");
    assert_eq!(net.announced(), [true, false]);

    // It drains: nothing is lost.
    let transfer = net.begin(Direction::Down);
    let pings = net.ping();
    let pause = std::thread::scope(|scope| {
        // Until the other one has worked for long enough, and a little longer.
        let pause = scope.spawn(|| transfer.longest_pause(Duration::from_secs(18)));
        net.world.concentrator.braid_ok(&["concentrator", "drain", "--within", "60s"]);
        pause.join().unwrap()
    });
    println!("drain: the download paused for {} ms", pause.as_millis());
    net.wait_for_route("10.77.0.2 via 198.18.2.2");
    assert_eq!(net.announced(), [false, true]);
    assert_eq!(pings.told("drain"), 0, "lost");
    transfer.finish();

    // As it comes up again it still drains.
    net.world.concentrator.stop();
    net.world.concentrator.start();
    net.world.home.wait_until("it is told", || net.peers(&net.world.home)[0]["draining"] == true);
    let told = String::from_utf8(net.world.home.braid_ok(&["status"])).unwrap();
    assert!(told.contains("is draining"), "{told}");
    let transfer = net.begin(Direction::Up);
    net.world.concentrator.braid_ok(&["concentrator", "undrain"]);
    net.wait_for_route("10.77.0.2 via 198.18.1.2");
    transfer.finish();
    net.world.home.wait_until("both are connected", || net.are_connected());

    // It dies: what was on its way from the server is lost, the connection isn't.
    let transfer = net.begin(Direction::Down);
    let pings = net.ping();
    let pause = std::thread::scope(|scope| {
        let pause = scope.spawn(|| transfer.longest_pause(Duration::from_secs(3)));
        std::thread::sleep(Duration::from_millis(500));
        net.world.concentrator.kill();
        pause.join().unwrap()
    });
    println!("kill -9: the download paused for {} ms", pause.as_millis());
    net.wait_for_route("10.77.0.2 via 198.18.2.2");
    transfer.finish();
    pings.told("kill -9");
}

#[test]
fn frr_as_upstream_router_sends_to_where_the_home_is() {
    let Some(mut net) = Net::new(Upstream::Frr) else { return };
    net.connect();
    net.wait_for_route("10.77.0.2 via 198.18.1.2");
    let transfer = net.begin(Direction::Down);
    net.world.concentrator.kill();
    net.wait_for_route("10.77.0.2 via 198.18.2.2");
    transfer.finish();
}

#[test]
fn a_homes_ipv6_address_and_its_prefix_move_with_it() {
    let Some(mut net) = Net::new(Upstream::Bird) else { return };
    net.connect();
    let inside = "2001:db8:7::1";
    net.world.home.sh(&format!(
        "ip -6 addr add {inside}/128 dev lo && ip -6 route add {SERVER_V6} dev braid0 src fd77::2 \
         && ip -6 route add fd18::/16 dev braid0"
    ));
    for side in [&net.world.concentrator, &net.second] {
        side.sh(&format!("ip -6 route add {PREFIX} dev braid0"));
    }
    let is_routed_by = |net: &Net, gateway: &str| {
        let routes = net.upstream.sh("ip -6 route show proto bird");
        let by =
            |to: &str| routes.lines().any(|line| line.starts_with(&format!("{to} via {gateway} ")));
        by("fd77::2") && by(PREFIX)
    };
    net.world.home.wait_until("the first serves", || is_routed_by(&net, "fd18:1::2"));
    net.world.home.wait_for_ping(SERVER_V6);
    net.upstream.wait_for_ping(inside.parse().unwrap());
    let (home, upstream) = (&net.world.home, &net.upstream);
    let transfer = Transfer::start(home, upstream, SERVER_V6, Direction::Down, BYTES);
    transfer.wait_until_received(BYTES / 50);
    net.world.concentrator.kill();
    net.world.home.wait_until("the second serves", || is_routed_by(&net, "fd18:2::2"));
    transfer.finish();
    net.upstream.wait_for_ping(inside.parse().unwrap());
}

#[test]
fn a_home_without_another_concentrator_stays_with_one_that_drains() {
    let Some(mut world) = World::new(&[link("dsl")]) else { return };
    world.start(&Tunnel::default());
    let said = world.concentrator.braid_ok(&["concentrator", "drain", "--json", "--dry-run"]);
    let said: serde_json::Value = serde_json::from_slice(&said).unwrap();
    assert_eq!(said["homes"]["staying"][0], "home");
    assert_eq!(world.concentrator.status()["draining"], false, "nothing has changed");
    let said = world.concentrator.braid_ok(&["concentrator", "drain"]);
    assert!(String::from_utf8(said).unwrap().contains("no other concentrator"));
    world.home.wait_until("it is told", || world.home.status()["peers"][0]["draining"] == true);
    world.home.wait_for_ping(crate::world::INSIDE_V4);
    let events = || String::from_utf8(world.home.braid_ok(&["events"])).unwrap();
    world.home.wait_until("an event tells", || events().contains("is draining"));
    let doctor = world.home.braid(&["doctor", "--json"]);
    assert!(String::from_utf8(doctor.stdout).unwrap().contains("\"draining\""));
    world.concentrator.braid_ok(&["concentrator", "undrain"]);
    world.home.wait_until("it is told", || world.home.status()["peers"][0]["draining"] == false);
    let refused = world.home.braid(&["concentrator", "drain"]);
    assert_eq!(refused.status.code(), Some(3), "a home is no concentrator");
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Upstream {
    Bird,
    Frr,
}

struct Net {
    // The programs go before their network.
    _programs: Vec<Program>,
    world: World,
    second: Side,
    upstream: Side,
}

impl Net {
    /// None where it can't be made.
    fn new(kind: Upstream) -> Option<Net> {
        let programs: &[&str] = match kind {
            Upstream::Bird => &[BIRD],
            Upstream::Frr => &[BIRD, ZEBRA, BGPD],
        };
        if let Some(absent) = programs.iter().find(|program| !Path::new(program).exists()) {
            eprintln!("SKIPPED: {absent} isn't installed");
            return None;
        }
        let world = World::new(&[link("dsl"), link("lte")])?;
        let second = host(&world, "second");
        let upstream = host(&world, "upstream");
        let mut netlink = second.namespace.run(Netlink::open).unwrap().unwrap();
        netlink.add_veth("c2", "r2", Some(&world.concentrator.namespace)).unwrap();
        netlink.add_veth("wan", "down2", Some(&upstream.namespace)).unwrap();
        let mut netlink = world.concentrator.namespace.run(Netlink::open).unwrap().unwrap();
        netlink.add_veth("wan", "down1", Some(&upstream.namespace)).unwrap();
        let forwards = "sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.all.rp_filter=0 \
                        net.ipv6.conf.all.forwarding=1";
        second.sh(&format!(
            "ip addr add {SECOND}/30 dev c2 && ip link set c2 up && ip link set lo up && {forwards} \
             && ip addr add 198.18.2.2/30 dev wan && ip link set wan up \
             && ip -6 addr add fd18:2::2/64 dev wan nodad && ip -6 route add {SERVER_V6} via fd18:2::1 \
             && ip route add default via 203.0.113.1 && ip route add {SERVER} via 198.18.2.1"
        ));
        world.concentrator.sh(&format!(
            "{forwards} && ip link set r2 up && ip route add {SECOND} dev r2 src 203.0.113.1 \
             && ip addr add 198.18.1.2/30 dev wan && ip link set wan up \
             && ip -6 addr add fd18:1::2/64 dev wan nodad && ip -6 route add {SERVER_V6} via fd18:1::1 \
             && ip route add {SERVER} via 198.18.1.1"
        ));
        upstream.sh(&format!(
            "{forwards} && ip link set lo up && ip addr add {SERVER}/32 dev lo \
             && ip addr add 198.18.1.1/30 dev down1 && ip link set down1 up \
             && ip addr add 198.18.2.1/30 dev down2 && ip link set down2 up \
             && ip -6 addr add {SERVER_V6}/128 dev lo && ip -6 addr add fd18:1::1/64 dev down1 nodad \
             && ip -6 addr add fd18:2::1/64 dev down2 nodad"
        ));
        let folder = world.scratch.path();
        let mut running = vec![
            bird(&world.concentrator, folder, "first", EXAMPLE),
            bird(&second, folder, "other", &EXAMPLE.replace("198.18.1.", "198.18.2.")),
        ];
        match kind {
            Upstream::Bird => running.push(bird(&upstream, folder, "router", ROUTER)),
            Upstream::Frr => running.extend(frr(&upstream, folder, 2)),
        }
        Some(Net { _programs: running, world, second, upstream })
    }

    /// Brings the tunnels up.
    fn connect(&mut self) {
        let tunnel = Tunnel { concentrator_routing: ANNOUNCES, ..Tunnel::default() };
        self.world.write_configs(&tunnel);
        let home = self.world.home_as_peer();
        let with_prefix = home.replace("\"fd77::2\"", &format!("\"fd77::2\", \"{PREFIX}\""));
        let text = self.world.concentrator.config_text().replace(&home, &with_prefix);
        self.world.concentrator.write_text(&text);
        let listen = format!("{}\nlisten = [\"{SECOND}:51900\"]", Tunnel::default().concentrator);
        self.second.write_config(&listen, ANNOUNCES, &with_prefix);
        self.world.add_stand_in(&self.second, SECOND);
        self.world.concentrator.start();
        self.second.start();
        self.world.home.start();
        let home = &self.world.home;
        home.wait_until("both are connected", || self.are_connected());
        home.sh(&format!("ip route add {SERVER} dev braid0 src 10.77.0.2"));
        home.wait_for_ping(SERVER);
    }

    fn peers(&self, side: &Side) -> serde_json::Value {
        side.status()["peers"].clone()
    }

    fn are_connected(&self) -> bool {
        let peers = self.peers(&self.world.home);
        (0..2).all(|peer| peers[peer]["connected"] == true)
    }

    /// Whether each concentrator says that it announces the home.
    fn announced(&self) -> [bool; 2] {
        [&self.world.concentrator, &self.second]
            .map(|side| self.peers(side)[0]["announced"] == true)
    }

    /// Where the router sends what is for the home.
    fn route(&self) -> String {
        let text = self.upstream.sh("ip route show 10.77.0.2");
        let mut words = text.split_whitespace();
        // FRR's routes are by next-hop objects.
        let gateway = words.find(|word| *word == "via").and_then(|_| words.next());
        format!("10.77.0.2 via {}", gateway.unwrap_or("nobody"))
    }

    /// Also that nobody else announces it.
    fn wait_for_route(&self, route: &str) {
        self.world.home.wait_until(route, || {
            let announced = self.announced_by_process().into_iter().filter(|it| *it).count();
            self.route() == route && announced == 1
        });
    }

    /// As the kernel has it: the daemon may be dead.
    fn announced_by_process(&self) -> [bool; 2] {
        [&self.world.concentrator, &self.second].map(|side| {
            side.sh("ip route show table 5190 2>/dev/null || true").contains("10.77.0.2")
        })
    }

    fn begin(&self, direction: Direction) -> Transfer {
        let transfer = Transfer::start(&self.world.home, &self.upstream, SERVER, direction, BYTES);
        transfer.wait_until_received(BYTES / 50);
        transfer
    }

    fn ping(&self) -> QuickPings {
        QuickPings::start(&self.world.home, self.world.scratch.path().join("pings"))
    }
}

fn host(world: &World, name: &str) -> Side {
    Side::new(&NetNs::new().unwrap(), &world.scratch.path().join(name))
}

pub const BIRD: &str = "/usr/sbin/bird";
const ZEBRA: &str = "/usr/lib/frr/zebra";
pub const BGPD: &str = "/usr/lib/frr/bgpd";

/// The upstream router as BIRD.
const ROUTER: &str = "
router id 198.18.1.1;
protocol device { }
protocol kernel { ipv4 { import none; export all; }; }
protocol kernel { ipv6 { import none; export all; }; }
template bgp concentrator {
	local as 64512;
	hold time 9;
	ipv4 { import all; export none; };
	ipv6 { import all; export none; };
}
protocol bgp c1 from concentrator { neighbor 198.18.1.2 as 64513; }
protocol bgp c2 from concentrator { neighbor 198.18.2.2 as 64513; }
";

/// A program that ends with the test.
pub struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub fn bird(side: &Side, folder: &Path, name: &str, config: &str) -> Program {
    let file = |what: &str| folder.join(format!("{name}.bird.{what}"));
    std::fs::write(file("conf"), config).unwrap();
    let mut command = side.namespace.command(BIRD);
    command.arg("-f").arg("-c").arg(file("conf")).arg("-s").arg(file("ctl"));
    command.arg("-P").arg(file("pid"));
    Program(command.stdin(Stdio::null()).spawn().unwrap())
}

/// The upstream router as FRR, for so many concentrators.
pub fn frr(side: &Side, folder: &Path, count: usize) -> Vec<Program> {
    let at = |name: &str| -> PathBuf { folder.join(name) };
    std::fs::create_dir_all(at("frr")).unwrap();
    // It gives up root's rights, and its control sockets are there.
    std::fs::set_permissions(folder, Permissions::from_mode(0o711)).unwrap();
    side.sh(&format!("chown frr {}", at("frr").display()));
    std::fs::write(at("frr/zebra.conf"), "hostname router\nip forwarding\n").unwrap();
    let neighbour = |number| format!(" neighbor 198.18.{number}.2 remote-as 64513\n");
    let neighbours: String = (1..=count).map(neighbour).collect();
    let begins = "router bgp 64512\n bgp router-id 198.18.1.1\n no bgp ebgp-requires-policy\n";
    let config = format!("{begins}{neighbours}");
    std::fs::write(at("frr/bgpd.conf"), config).unwrap();
    let start = |program: &str, name: &str| {
        let mut command = side.namespace.command(program);
        command.args(["-u", "frr", "-g", "frr"]);
        command.arg("-f").arg(at(&format!("frr/{name}.conf")));
        command.arg("-i").arg(at(&format!("frr/{name}.pid")));
        command.arg("-z").arg(at("frr/zserv.api"));
        command.arg("--vty_socket").arg(at("frr"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Program(command.spawn().unwrap())
    };
    let zebra = start(ZEBRA, "zebra");
    let give_up = Instant::now() + crate::PATIENCE;
    while !at("frr/zserv.api").exists() {
        assert!(Instant::now() < give_up, "zebra doesn't start");
        std::thread::sleep(Duration::from_millis(50));
    }
    vec![zebra, start(BGPD, "bgpd")]
}

/// A hundred pings a second, until they are asked.
pub struct QuickPings {
    ping: Child,
    output: PathBuf,
}

impl QuickPings {
    pub fn start(from: &Side, output: PathBuf) -> QuickPings {
        let mut command = from.namespace.command("ping");
        command.args(["-D", "-i", "0.01", "-W", "2", &SERVER.to_string()]);
        let ping = command.stdout(File::create(&output).unwrap()).spawn().unwrap();
        QuickPings { ping, output }
    }

    /// Prints how many were lost, and the longest time without an answer; gives the first.
    pub fn told(mut self, what: &str) -> u64 {
        // The last ones are on their way.
        std::thread::sleep(Duration::from_secs(1));
        self.ping.kill().unwrap();
        self.ping.wait().unwrap();
        let text = std::fs::read_to_string(&self.output).unwrap();
        // Ended in the middle of a line, perhaps.
        let text = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let mut numbers = Vec::new();
        let (mut last, mut longest): (Option<f64>, f64) = (None, 0.0);
        for line in text.lines() {
            let word = |before: &str, after: char| {
                line.split_once(before).and_then(|(_, rest)| rest.split(after).next())
            };
            let (Some(at), Some(number)) = (word("[", ']'), word("icmp_seq=", ' ')) else {
                continue;
            };
            let at: f64 = at.parse().unwrap();
            longest = last.map_or(longest, |last| longest.max(at - last));
            last = Some(at);
            numbers.push(number.parse::<u64>().unwrap());
        }
        // None is missing at the end: the last was answered long ago.
        let most = numbers.iter().max().copied().unwrap_or_default();
        numbers.sort_unstable();
        numbers.dedup();
        let lost = most - numbers.len() as u64;
        println!("{what}: {lost} of {most} pings lost, {:.0} ms without an answer", longest * 1e3);
        lost
    }
}
