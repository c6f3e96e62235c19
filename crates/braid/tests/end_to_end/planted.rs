//! What is broken on purpose, as it breaks outside: the doctor names it. `doctor.rs` has what
//! becomes of a link or an end as a whole, and that a healthy tunnel has no finding.

use crate::doctor::{becomes, codes_at};
use crate::side::Side;
use crate::world::{CARRIES_ALL, INSIDE_V4, Tunnel, World, link};
use braid_lab::emulator::{DirectionChange, LinkChange, LinkModel, Loss};
use braid_lab::topology::CONCENTRATOR_V4;
use braid_units::{ByteSize, Ratio};
use serde_json::Value;
use std::fs;
use std::net::{Ipv4Addr, UdpSocket};
use std::process::{Child, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

#[test]
fn a_device_that_lacks_something_is_told_what() {
    let Some(mut world) = World::new(&two_links()) else { return };
    world.write_configs(&Tunnel::default());
    world.home.append_to_config("[[link]]\nname = \"spare\"\ninterface = \"spare\"\n");
    world.concentrator.start();
    world.home.start();
    world.home.wait_for_active_paths(2);
    world.home.sh("for file in /proc/sys/net/ipv4/conf/*/rp_filter; do echo 0 > $file; done");
    becomes(&world, &["link-absent"]);
    let dsl = world.topology.links()[0].addresses();
    let [a, b, c, _] = dsl.home_v4.octets();
    let beside_dsl = Ipv4Addr::new(a, b, c, 9);
    let router = dsl.gateway_v4;
    let stages = [
        ("link-off", "ip link add spare type veth peer name far".to_owned()),
        ("no-carrier", "ip link set spare up".to_owned()),
        ("no-address", "ip link set far up".to_owned()),
        ("no-gateway", "ip addr add 10.9.9.2/24 dev spare".to_owned()),
        ("udp-blocked", "ip route add default via 10.9.9.1 dev spare metric 900".to_owned()),
        ("same-network", format!("ip addr add {beside_dsl}/24 dev spare noprefixroute")),
        ("same-gateway", format!("ip route add default via {router} dev spare metric 901 onlink")),
    ];
    for (code, change) in &stages {
        world.home.sh(change);
        is_found(&world.home, code);
    }
}

#[test]
fn what_the_host_lacks_is_found() {
    let Some(mut world) = World::new(&two_links()) else { return };
    world.start(&Tunnel { home_routing: CARRIES_ALL, ..Tunnel::default() });
    let file = |name: &str, text: &str| {
        let file = world.scratch.path().join(name);
        fs::write(&file, text).unwrap();
        file.display().to_string()
    };
    let no_servers = format!("mount --bind {} /etc/resolv.conf", file("no-servers", ""));
    let servers = file("servers", "nameserver 198.51.100.53\n");
    let (few, many) = (file("few", "95\n"), file("many", "100\n"));
    let release = file("release", "4.9.0-1-amd64\n");
    let [state, _] = world.home.folders();
    let conntrack = "/proc/sys/net/netfilter/nf_conntrack";
    let planted = [
        ("no-tun", "mount -t tmpfs none /dev/net".to_owned()),
        (
            "no-nft",
            "for nft in $(ls /usr/sbin/nft /sbin/nft); do mount --bind /dev/null $nft; done".into(),
        ),
        ("state-folder-full", format!("mount -t tmpfs -o size=64k none {}", state.display())),
        ("old-kernel", format!("mount --bind {release} /proc/sys/kernel/osrelease")),
        (
            "conntrack-full",
            format!("mount --bind {few} {conntrack}_count; mount --bind {many} {conntrack}_max"),
        ),
    ];
    let healthy = codes_at(&world.home, &no_servers);
    for (code, mounts) in &planted {
        assert!(!healthy.iter().any(|found| found == code), "{code} without {mounts}");
        let found = codes_at(&world.home, &format!("{no_servers}; {mounts}"));
        assert!(found.iter().any(|found| found == code), "{code}: {found:?}");
    }
    let router = world.topology.links()[0].addresses().gateway_v4;
    world.home.sh(&format!("ip route add 198.51.100.53 via {router} dev dsl"));
    let found = codes_at(&world.home, &format!("mount --bind {servers} /etc/resolv.conf"));
    assert!(found.contains(&"dns-beside".to_owned()), "{found:?}");
    let text = world.home.config_text();
    world.home.write_text(&text.replace(&format!("{CONCENTRATOR_V4}:"), "nowhere.invalid:"));
    let found = codes_at(&world.home, &no_servers);
    assert!(found.contains(&"endpoint-unknown".to_owned()), "{found:?}");
}

#[test]
fn what_passes_the_tunnel_by_or_stops_what_it_forwards_is_found() {
    let Some(mut world) = World::new(&two_links()) else { return };
    let only_v4 = "addresses = [\"10.77.0.2/24\"]";
    world.write_configs(&Tunnel { home: only_v4, home_routing: CARRIES_ALL, ..Tunnel::default() });
    let dsl = world.topology.links()[0].addresses();
    let (router, router_v6) = (dsl.gateway_v4, dsl.gateway_v6);
    let without_v6: String = world
        .topology
        .links()
        .iter()
        .map(|link| {
            let (device, table) = (link.device(), link.table());
            format!("ip -6 route flush table {table}; ip -6 addr flush dev {device} scope global; ")
        })
        .collect();
    world.home.sh(&format!("{without_v6} ip -6 route flush default"));
    world.concentrator.start();
    world.home.start();
    world.home.wait_for_active_paths(2);
    let broken = [
        (
            "route-beside",
            format!("ip route add 128.0.0.0/1 via {router} dev dsl"),
            "ip route del 128.0.0.0/1",
        ),
        (
            "route-refuses",
            "ip route add unreachable default metric 0".to_owned(),
            "ip route del unreachable default metric 0",
        ),
        (
            "foreign-firewall",
            "nft 'add table ip others; add chain ip others forward \
             { type filter hook forward priority 0; policy drop; }'"
                .to_owned(),
            "nft delete table ip others",
        ),
        (
            "ipv6-no-route",
            "ip addr add 2001:db8::2/64 dev dsl nodad".to_owned(),
            "ip addr del 2001:db8::2/64 dev dsl",
        ),
        (
            "ipv6-beside",
            format!("ip -6 route add default via {router_v6} dev dsl onlink"),
            "ip -6 route del default dev dsl",
        ),
    ];
    for (code, breaks, mends) in &broken {
        is_gone(&world.home, code);
        world.home.sh(breaks);
        is_found(&world.home, code);
        world.home.sh(mends);
        is_gone(&world.home, code);
    }
}

#[test]
fn what_the_config_limits_or_gets_wrong_is_found() {
    let Some(mut world) = World::new(&two_links()) else { return };
    let silent = format!("{CARRIES_ALL}\ndns = [\"198.51.100.54\"]");
    world.write_configs(&Tunnel { home_routing: &silent, ..Tunnel::default() });
    let day = world.home.sh("date -u +%d").trim().parse::<u32>().unwrap();
    // The period is half over, whatever day it is.
    let reset = (day + 13) % 28 + 1;
    let limited = format!(
        "interface = \"dsl\"\ncap = {{ down = \"2Mbit\", up = \"2Mbit\" }}\n\
         quota = {{ bytes = \"1MB\", per = \"month\", reset_day = {reset} }}\n"
    );
    let networks = world.scratch.path().join("networks");
    fs::write(&networks, "203.0.113.128/25\n").unwrap();
    let more = format!(
        "[[alert]]\nname = \"hook\"\nwebhook = \"http://127.0.0.1:9/\"\ngroup = \"1s\"\n\
         [[rule]]\nname = \"bank\"\nmatch = {{ to_file = \"{}\" }}\ndo = \"direct\"\nlinks = [\"lte\"]\n",
        networks.display()
    );
    let text = world.home.config_text().replace("interface = \"dsl\"\n", &limited);
    world.home.write_text(&(text + &more));
    world.concentrator.start();
    world.home.start();
    world.home.wait_for_active_paths(2);
    fs::remove_file(&networks).unwrap();
    world.home.braid_ok(&["link", "set", "lte", "--standby", "true", "--temporary"]);
    let used = || {
        let quota = &world.home.status()["links"][0]["quota"];
        quota["used_bytes"].as_f64().unwrap() / quota["limit_bytes"].as_f64().unwrap()
    };
    world.home.wait_until("more than half of the quota is used", || {
        world.home.sh(&format!("ping -q -c 10 -i 0.01 -s 1000 {INSIDE_V4} || true"));
        used() > 0.6
    });
    is_found(&world.home, "quota-soon");
    world.home.wait_until("all of the quota is used", || {
        world.home.sh(&format!("ping -q -c 10 -i 0.01 -s 1000 {INSIDE_V4} || true"));
        used() >= 1.0
    });
    is_found(&world.home, "quota-used");
    is_found(&world.home, "alerts-undelivered");
    is_found(&world.home, "rule-ignored");
    is_found(&world.home, "dns-silent");
}

#[test]
fn what_a_link_does_to_packets_is_found() {
    let links = two_links().map(|mut link| {
        link.up.queue = ByteSize::from_bytes(800_000);
        link
    });
    let Some(mut world) = World::new(&links) else { return };
    world.start(&Tunnel::default());
    let capped = world.home.config_text().replace(
        "interface = \"dsl\"\n",
        "interface = \"dsl\"\ncap = { down = \"1Mbit\", up = \"1Mbit\" }\n",
    );
    world.home.write_text(&capped);
    world.home.braid_ok(&["reload"]);
    let stands_by = |link: &str, really: &str| {
        world.home.braid_ok(&["link", "set", link, "--standby", really, "--temporary"]);
    };
    stands_by("lte", "true");
    let _pings = LargePings::start(&world.home);
    is_found(&world.home, "cap-limits");
    stands_by("lte", "false");
    stands_by("dsl", "true");
    let well = DirectionChange {
        loss: Some(Loss::None),
        delay: Some(Duration::from_millis(10)),
        jitter: Some(Duration::ZERO),
        ..DirectionChange::default()
    };
    let lossy = Loss::Random(Ratio::from_fraction(0.1));
    let planted = [
        ("lossy", DirectionChange { loss: Some(lossy), ..well.clone() }),
        ("jitter", DirectionChange { jitter: Some(Duration::from_millis(700)), ..well.clone() }),
        ("far-link", DirectionChange { delay: Some(Duration::from_millis(600)), ..well.clone() }),
    ];
    for (code, change) in planted {
        let both_ways = LinkChange::Set { down: Some(change.clone()), up: Some(change), mtu: None };
        world.change(1, &both_ways);
        is_found(&world.home, code);
    }
    let narrow = LinkChange::Set { down: Some(well.clone()), up: Some(well), mtu: Some(1100) };
    world.change(1, &narrow);
    is_found(&world.home, "mtu-black-hole");
    world.change(1, &LinkChange::Set { down: None, up: None, mtu: Some(1500) });
    let beside = Flood::through(&world, 1);
    is_found(&world.home, "bufferbloat");
    drop(beside);
    for _ in 0..4 {
        for (gone, state) in [(true, "down"), (false, "active")] {
            world.change(1, &LinkChange::Blackout(gone));
            let is_so = |path: &Value| path["link"] == "lte" && path["state"] == state;
            world.home.wait_until("lte comes or goes", || world.home.paths().iter().any(is_so));
            // Events are made of what is seen each second.
            thread::sleep(Duration::from_secs(2));
        }
    }
    is_found(&world.home, "link-flaps");
}

#[test]
fn what_is_wrong_at_a_concentrator_is_found_there() {
    let Some(mut world) = World::new(&two_links()) else { return };
    world.start(&Tunnel::default());
    world.concentrator.sh("sysctl -qw net.ipv4.ip_forward=0");
    is_found(&world.concentrator, "not-forwarding");
    world.home.sh("ip addr add 10.99.0.9/32 dev lo");
    let strangers = LargePings::from(&world.home, "10.99.0.9");
    is_found(&world.concentrator, "not-its-addresses");
    drop(strangers);
    world.concentrator.braid_ok(&["concentrator", "drain"]);
    is_found(&world.concentrator, "draining");
    is_found(&world.home, "draining");
}

#[test]
fn what_limits_is_found_by_measuring() {
    let Some(mut world) = World::new(&[link("dsl"), link("lte"), link("cable")]) else { return };
    world.start(&Tunnel::default());
    let measured = |seconds| {
        let report = world.home.braid(&["doctor", "--measure", "--seconds", seconds, "--json"]);
        String::from_utf8(report.stdout).unwrap()
    };
    let window = world.home.sh("sysctl -n net.ipv4.tcp_rmem");
    world.home.sh("sysctl -qw net.ipv4.tcp_rmem='4096 8192 8192'");
    let said = measured("2");
    assert!(said.contains("\"one-connection\""), "{said}");
    world.home.sh(&format!("sysctl -qw net.ipv4.tcp_rmem='{}'", window.trim()));
    // One line that all links are on. Its limiter lets a second's worth pass at once.
    world.concentrator.sh("nft 'table ip line { chain out { type filter hook output priority 0; \
         ip saddr 203.0.113.1 limit rate over 3200 kbytes/second drop; }; }'");
    let said = measured("3");
    // Where the tests' machine is busy that comes first.
    let found = ["\"common-limit\"", "\"cpu-here\"", "\"cpu-there\"", "\"cpu-stolen\""];
    assert!(found.iter().any(|code| said.contains(code)), "{said}");
}

#[test]
fn datagrams_that_nobody_reads_in_time_are_found() {
    let Some(mut world) = World::new(&two_links()) else { return };
    world.start(&Tunnel::default());
    let _unread = Flood::unread(&world.home);
    is_found(&world.home, "receive-buffer");
}

fn two_links() -> [LinkModel; 2] {
    [link("dsl"), link("lte")]
}

/// Waits until this is among what is found at this side.
fn is_found(side: &Side, code: &str) {
    let what = format!("the doctor finds {code}, and last {:?}", codes_at(side, ""));
    side.wait_until(&what, || codes_at(side, "").iter().any(|found| found == code));
}

/// Waits until this is not among what is found at this side.
fn is_gone(side: &Side, code: &str) {
    let what = format!("the doctor no longer finds {code}");
    side.wait_until(&what, || codes_at(side, "").iter().all(|found| found != code));
}

/// 200 large pings a second, until dropped.
struct LargePings(Child);

impl LargePings {
    fn start(home: &Side) -> LargePings {
        LargePings::spawn(home, &["-M", "do"])
    }

    fn from(home: &Side, address: &str) -> LargePings {
        LargePings::spawn(home, &["-I", address])
    }

    fn spawn(home: &Side, more: &[&str]) -> LargePings {
        let mut command = home.namespace.command("ping");
        command.args(["-q", "-i", "0.005", "-s", "1200"]).args(more).arg(INSIDE_V4.to_string());
        LargePings(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for LargePings {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Datagrams of another program, until dropped.
struct Flood {
    stop: mpsc::Sender<()>,
    sends: Option<JoinHandle<()>>,
    _unread: Option<UdpSocket>,
}

impl Flood {
    /// To nobody, more than a link of 20 Mbit/s carries.
    fn through(world: &World, link: usize) -> Flood {
        let link = &world.topology.links()[link];
        let (from, table) = (link.addresses().home_v4, link.table());
        world.home.sh(&format!("ip rule add from {from} dport 9 table {table}"));
        let bind = || UdpSocket::bind((from, 0));
        let socket = world.home.namespace.run(bind).unwrap().unwrap();
        socket.connect((CONCENTRATOR_V4, 9)).unwrap();
        Flood::begin(socket, Duration::from_micros(440), None)
    }

    /// To a socket of this host that nobody reads.
    fn unread(home: &Side) -> Flood {
        let bind = || UdpSocket::bind(("127.0.0.1", 0));
        home.sh("ip link set lo up");
        let unread = home.namespace.run(bind).unwrap().unwrap();
        let socket = home.namespace.run(bind).unwrap().unwrap();
        socket.connect(unread.local_addr().unwrap()).unwrap();
        Flood::begin(socket, Duration::from_millis(1), Some(unread))
    }

    /// Sends one for each `interval` that has passed, however late it is woken.
    fn begin(socket: UdpSocket, interval: Duration, unread: Option<UdpSocket>) -> Flood {
        let (stop, stopped) = mpsc::channel();
        let sends = thread::spawn(move || {
            let (began, mut sent) = (Instant::now(), 0);
            while stopped.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                let due = began.elapsed().as_nanos() / interval.as_nanos();
                // What is refused or doesn't fit has been sent as far as this is concerned.
                (sent..due).for_each(|_| drop(socket.send(&[0; 1400])));
                sent = due;
            }
        });
        Flood { stop, sends: Some(sends), _unread: unread }
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        let _ = self.stop.send(());
        if let Some(sends) = self.sends.take() {
            let _ = sends.join();
        }
    }
}
