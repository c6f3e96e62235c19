//! Real packets over emulated links between real namespaces.

use braid_lab::emulator::{
    Capacity, Carrier, DirectionChange, DirectionModel, LinkChange, LinkModel, Loss, Reorder, Trace,
};
use braid_lab::topology::{Backend, CONCENTRATOR_V4, CONCENTRATOR_V6, Topology, TopologyOptions};
use braid_linux::netns::NetNs;
use braid_units::{ByteSize, Rate, Ratio};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

fn direction(mbit: u64, delay_ms: u64) -> DirectionModel {
    DirectionModel {
        capacity: Capacity::Rate(Rate::from_mbit(mbit)),
        delay: Duration::from_millis(delay_ms),
        queue: ByteSize::from_bytes(50_000),
        ..DirectionModel::ideal()
    }
}

fn link(name: &str, mbit: u64, delay_ms: u64) -> LinkModel {
    let both = direction(mbit, delay_ms);
    LinkModel { name: name.into(), down: both.clone(), up: both, mtu: 1500, nat: false }
}

/// `None`, with a message, if namespaces or TUN devices aren't available.
fn build(models: &[LinkModel]) -> Option<Topology> {
    match Topology::build(models, &TopologyOptions::default()) {
        Ok(topology) => Some(topology),
        Err(error) if unprivileged() => {
            println!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn unprivileged() -> bool {
    NetNs::new().is_err() || std::fs::File::open("/dev/net/tun").is_err()
}

fn socket(ns: &NetNs, address: impl Into<IpAddr>) -> UdpSocket {
    let address = SocketAddr::new(address.into(), 0);
    let socket = ns.run(|| UdpSocket::bind(address)).unwrap().unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    socket
}

/// A socket at home on link `index`, and one at the concentrator.
fn pair(topology: &Topology, index: usize) -> (UdpSocket, UdpSocket) {
    let home = socket(topology.home(), topology.links()[index].addresses().home_v4);
    let server = socket(topology.concentrator(), CONCENTRATOR_V4);
    home.connect(server.local_addr().unwrap()).unwrap();
    (home, server)
}

/// Sends from home and back; returns the time and the address that the concentrator saw.
fn round_trip(home: &UdpSocket, server: &UdpSocket) -> io::Result<(Duration, SocketAddr)> {
    let mut buffer = [0; 2000];
    let start = Instant::now();
    home.send(b"ping")?;
    let (length, seen) = server.recv_from(&mut buffer)?;
    server.send_to(&buffer[..length], seen)?;
    home.recv(&mut buffer)?;
    Ok((start.elapsed(), seen))
}

/// Megabits per second of IP packets that arrive when more are sent than fit: never more than the
/// link lets through, and less if other programs slow this machine down. The exactness of the
/// model's rate is tested in its own crate.
fn flood(from: &UdpSocket, to: &UdpSocket, peer: SocketAddr, mbit: u64, time: Duration) -> f64 {
    let begun = Instant::now();
    let stop = begun + time;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let gap = Rate::from_mbit(mbit).time_for(1028);
            let mut next = Instant::now();
            while next < stop {
                std::thread::sleep(next.saturating_duration_since(Instant::now()));
                let _ = from.send_to(&[0; 1000], peer);
                next += gap;
            }
        });
        let mut buffer = [0; 2000];
        let mut bytes = 0_u64;
        while Instant::now() < stop {
            if to.recv(&mut buffer).is_ok() {
                bytes += 1028;
            }
        }
        bytes as f64 * 8.0 / 1e6 / begun.elapsed().as_secs_f64()
    })
}

#[test]
fn packets_take_the_configured_delay_in_both_address_families() {
    let Some(topology) = build(&[link("slow", 10, 40), link("quick", 10, 5)]) else { return };
    for (index, configured) in [(0, 80), (1, 10)] {
        let (home, server) = pair(&topology, index);
        let (took, _) = round_trip(&home, &server).unwrap();
        assert!(took >= Duration::from_millis(configured), "{took:?}");
    }
    let home = socket(topology.home(), topology.links()[0].addresses().home_v6);
    let server = socket(topology.concentrator(), CONCENTRATOR_V6);
    home.connect(server.local_addr().unwrap()).unwrap();
    let (took, seen) = round_trip(&home, &server).unwrap();
    assert!(took >= Duration::from_millis(80), "{took:?}");
    assert_eq!(seen.ip(), IpAddr::from(topology.links()[0].addresses().home_v6));
}

#[test]
fn the_rate_is_the_configured_one_and_can_change() {
    let Some(topology) = build(&[link("dsl", 8, 1)]) else { return };
    let (home, server) = pair(&topology, 0);
    let (_, seen) = round_trip(&home, &server).unwrap();
    let down = flood(&server, &home, seen, 12, Duration::from_secs(2));
    assert!(down > 0.0 && down < 8.8, "{down}");

    let slower = DirectionChange {
        capacity: Some(Capacity::Rate(Rate::from_mbit(2))),
        ..DirectionChange::default()
    };
    topology.apply(0, &LinkChange::Set { down: Some(slower), up: None, mtu: None }).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let down = flood(&server, &home, seen, 4, Duration::from_secs(2));
    assert!(down > 0.0 && down < 2.8, "{down}");
    let counters = topology.counters(0);
    assert!(counters.down.dropped_queue > 0 && counters.down.bytes_out > 0, "{counters:?}");
}

#[test]
fn a_trace_limits_the_rate() {
    // 1500 bytes every 3 ms: 4 Mbit/s.
    let trace = Arc::new(Trace::from_millis((1..=100).map(|i| i * 3).collect()).unwrap());
    let mut model = link("lte", 8, 1);
    model.down.capacity = Capacity::Trace { trace, offset: Duration::from_millis(100) };
    let Some(topology) = build(&[model]) else { return };
    let (home, server) = pair(&topology, 0);
    let (_, seen) = round_trip(&home, &server).unwrap();
    topology.restart_traces().unwrap();
    let down = flood(&server, &home, seen, 8, Duration::from_secs(2));
    assert!(down > 0.0 && down < 4.8, "{down}");
}

#[test]
fn the_nat_hides_the_home_and_rebinds() {
    let mut model = link("3g", 10, 1);
    model.nat = true;
    let Some(topology) = build(&[model]) else { return };
    let (home, server) = pair(&topology, 0);
    let (_, seen) = round_trip(&home, &server).unwrap();
    assert_eq!(seen.ip(), IpAddr::from(Ipv4Addr::new(100, 64, 1, 2)));
    topology.apply(0, &LinkChange::Rebind).unwrap();
    server.send_to(b"late", seen).unwrap();
    assert!(home.recv(&mut [0; 100]).is_err(), "the old mapping must be gone");
    let (_, after) = round_trip(&home, &server).unwrap();
    assert_eq!(after.ip(), IpAddr::from(Ipv4Addr::new(100, 64, 1, 3)));
    assert!(topology.counters(0).down.refused > 0);
}

#[test]
fn ping_passes_the_nat() {
    let mut model = link("3g", 10, 20);
    model.nat = true;
    let Some(topology) = build(&[model]) else { return };
    let output = match topology
        .home()
        .command("ping")
        .args(["-n", "-c", "2", "-i", "0.2", "-W", "2", &CONCENTRATOR_V4.to_string()])
        .output()
    {
        Ok(output) => output,
        Err(error) => return println!("skipped: no ping: {error}"),
    };
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains(" 0% packet loss"), "{text}");
}

#[test]
fn a_blackout_is_silent_and_ends() {
    let Some(topology) = build(&[link("a", 10, 1), link("b", 10, 1)]) else { return };
    let (home, server) = pair(&topology, 0);
    round_trip(&home, &server).unwrap();
    topology.apply(0, &LinkChange::Blackout(true)).unwrap();
    assert!(round_trip(&home, &server).is_err());
    assert!(topology.counters(0).up.dropped_blackout > 0);
    assert!(carrier(&topology, "a"), "a silent blackout leaves the carrier");
    let (other, its_server) = pair(&topology, 1);
    round_trip(&other, &its_server).unwrap();
    topology.apply(0, &LinkChange::Blackout(false)).unwrap();
    round_trip(&home, &server).unwrap();
}

#[test]
fn the_carrier_goes_and_comes() {
    let fast = |name: &str| {
        let ideal = DirectionModel {
            capacity: Capacity::Rate(Rate::from_mbit(1000)),
            ..DirectionModel::ideal()
        };
        LinkModel { name: name.into(), down: ideal.clone(), up: ideal, mtu: 1500, nat: false }
    };
    let Some(topology) = build(&[link("emulated", 10, 1), fast("kernel")]) else { return };
    assert!(matches!(topology.links()[1].backend(), Backend::Kernel { .. }));
    for (index, name) in ["emulated", "kernel"].into_iter().enumerate() {
        let (home, server) = pair(&topology, index);
        round_trip(&home, &server).unwrap();
        topology.apply(index, &LinkChange::Carrier(Carrier::Down)).unwrap();
        assert!(!carrier(&topology, name));
        assert!(round_trip(&home, &server).is_err(), "{name}");
        topology.apply(index, &LinkChange::Carrier(Carrier::Up)).unwrap();
        eventually(|| round_trip(&home, &server).is_ok());
        assert!(carrier(&topology, name));
    }
}

#[test]
fn a_kernel_link_is_shaped_changed_and_darkened() {
    let mut model = link("fibre", 400, 0);
    model.down.queue = ByteSize::from_bytes(500_000);
    let Some(topology) = build(&[model]) else { return };
    let (home, server) = pair(&topology, 0);
    let (_, seen) = round_trip(&home, &server).unwrap();
    let slower = DirectionChange {
        capacity: Some(Capacity::Rate(Rate::from_mbit(5))),
        ..DirectionChange::default()
    };
    topology.apply(0, &LinkChange::Set { down: Some(slower), up: None, mtu: None }).unwrap();
    // The bucket starts full: 1 Mbit arrives immediately.
    flood(&server, &home, seen, 20, Duration::from_secs(1));
    let down = flood(&server, &home, seen, 10, Duration::from_secs(2));
    assert!(down > 0.0 && down < 6.5, "{down}");
    topology.apply(0, &LinkChange::Blackout(true)).unwrap();
    std::thread::sleep(Duration::from_millis(500));
    while home.recv(&mut [0; 2000]).is_ok() {}
    assert!(round_trip(&home, &server).is_err());
    topology.apply(0, &LinkChange::Blackout(false)).unwrap();
    eventually(|| round_trip(&home, &server).is_ok());
    assert!(topology.counters(0).down.bytes_out > 0);
    let rebind = topology.apply(0, &LinkChange::Rebind).unwrap_err().to_string();
    assert!(rebind.contains("fibre") && rebind.contains("rebinding"), "{rebind}");
}

#[test]
fn packets_above_the_mtu_and_lost_ones_vanish() {
    let mut model = link("dsl", 100, 1);
    model.mtu = 1400;
    model.up.loss = Loss::Random(Ratio::from_fraction(0.5));
    let Some(topology) = build(&[model]) else { return };
    let (home, server) = pair(&topology, 0);
    for _ in 0..200 {
        home.send(b"x").unwrap();
    }
    std::thread::sleep(Duration::from_millis(200));
    let up = topology.counters(0).up;
    assert!((40..160).contains(&up.dropped_loss), "{up:?}");
    assert!((40..160).contains(&up.packets_out), "{up:?}");
    // The home's device has the link's MTU; the concentrator doesn't know it.
    server.send_to(&[0; 1450], home.local_addr().unwrap()).unwrap();
    eventually(|| topology.counters(0).down.refused == 1);
}

#[test]
fn packets_arrive_twice_damaged_and_out_of_order() {
    let mut model = link("odd", 100, 1);
    let share = Ratio::from_fraction;
    model.up.duplicate = share(0.2);
    model.up.corrupt = share(0.2);
    model.up.reorder = Reorder { share: share(0.2), by: Duration::from_millis(50) };
    let Some(topology) = build(&[model]) else { return };
    let (home, server) = pair(&topology, 0);
    for number in 0..200u8 {
        home.send(&[number; 100]).unwrap();
        std::thread::sleep(Duration::from_millis(1));
    }
    eventually(|| {
        let up = topology.counters(0).up;
        up.packets_in >= 200 && up.packets_out == up.packets_in + up.duplicated
    });
    let mut arrived = Vec::new();
    let mut buffer = [0; 200];
    while let Ok(length) = server.recv(&mut buffer) {
        // The kernel drops packets with a wrong checksum.
        assert!(buffer[..length] == [buffer[0]; 100], "{:?}", &buffer[..length]);
        arrived.push(buffer[0]);
    }
    let up = topology.counters(0).up;
    assert!((10..80).contains(&up.duplicated), "{up:?}");
    assert!((10..80).contains(&up.reordered), "{up:?}");
    assert!((10..80).contains(&up.corrupted), "{up:?}");
    assert!(arrived.len() as u64 >= up.packets_out - up.corrupted, "{} {up:?}", arrived.len());
    assert!((arrived.len() as u64) < up.packets_out, "{} {up:?}", arrived.len());
    assert!(!arrived.is_sorted(), "{arrived:?}");
    let mut distinct = arrived.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert!(distinct.len() < arrived.len(), "{arrived:?}");
}

#[test]
fn mptcp_uses_every_link() {
    let mut models = [link("a", 20, 5), link("b", 20, 10)];
    models[1].nat = true;
    let Some(topology) = build(&models) else { return };
    if let Err(error) = topology.mptcp() {
        return println!("skipped: {error}");
    }
    let listener = mptcp_listener(topology.concentrator());
    let address = listener.local_addr().unwrap();
    let bytes = transfer(&topology, &listener, address, None, libc::IPPROTO_MPTCP);
    assert_eq!(bytes, 1_000_000);
    for index in 0..2 {
        let counters = topology.counters(index).down;
        assert!(counters.bytes_out > 100_000, "link {index}: {counters:?}");
    }
}

#[test]
fn ecmp_spreads_flows_with_and_without_nat() {
    for nat in [false, true] {
        let mut models = [link("a", 100, 1), link("b", 100, 1)];
        models[0].nat = nat;
        let Some(topology) = build(&models) else { return };
        let setup = topology.ecmp().unwrap();
        assert_eq!(setup.inbound, !nat);
        let listener =
            topology.concentrator().run(|| TcpListener::bind((CONCENTRATOR_V4, 0))).unwrap();
        let listener = listener.unwrap();
        let address = listener.local_addr().unwrap();
        for _ in 0..12 {
            let bytes =
                transfer(&topology, &listener, address, Some(setup.home_v4), libc::IPPROTO_TCP);
            assert_eq!(bytes, 1_000_000);
        }
        // Twelve flows are all on one link once in 2048 times.
        for index in 0..2 {
            let counters = topology.counters(index).down;
            assert!(counters.bytes_out > 900_000, "nat {nat}, link {index}: {counters:?}");
        }
    }
}

#[test]
fn routes_follow_source_address_and_device() {
    let Some(topology) = build(&[link("a", 10, 1), link("b", 10, 1)]) else { return };
    let route = |arguments: &[&str]| {
        let target = CONCENTRATOR_V4.to_string();
        let mut command = topology.home().command("ip");
        command.args(["route", "get", &target]).args(arguments);
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    assert!(route(&[]).contains("dev a "), "{}", route(&[]));
    assert!(route(&["from", "192.168.12.2"]).contains("dev b "));
    assert!(route(&["oif", "b"]).contains("dev b "));
}

#[test]
fn nothing_is_left_behind() {
    let host = || std::fs::read_dir("/sys/class/net").unwrap().count();
    let before = host();
    let Some(topology) = build(&[link("gone", 10, 1)]) else { return };
    assert_eq!(host(), before);
    let (home, server) = pair(&topology, 0);
    round_trip(&home, &server).unwrap();
    drop(topology);
    // A socket keeps its namespace, but the link is gone from it.
    assert!(home.send(b"x").is_err());
    assert_eq!(host(), before);
    let names = std::process::Command::new("ip").args(["netns", "list"]).output().unwrap();
    assert!(!String::from_utf8_lossy(&names.stdout).contains("braid"));
}

fn carrier(topology: &Topology, device: &str) -> bool {
    let mut command = topology.home().command("ip");
    let output = command.args(["-br", "link", "show", device]).output().unwrap();
    !String::from_utf8(output.stdout).unwrap().contains("NO-CARRIER")
}

fn eventually(mut holds: impl FnMut() -> bool) {
    let limit = Instant::now() + Duration::from_secs(10);
    while !holds() {
        assert!(Instant::now() < limit, "not within 10 s");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn mptcp_listener(ns: &NetNs) -> TcpListener {
    ns.run(|| {
        let socket = raw_socket(libc::IPPROTO_MPTCP);
        socket.bind(&SocketAddr::from((CONCENTRATOR_V4, 0)).into()).unwrap();
        socket.listen(8).unwrap();
        socket.into()
    })
    .unwrap()
}

fn raw_socket(protocol: i32) -> socket2::Socket {
    socket2::Socket::new(
        socket2::Domain::IPV4,
        socket2::Type::STREAM,
        Some(socket2::Protocol::from(protocol)),
    )
    .unwrap()
}

/// A megabyte from the concentrator over a connection that the home opens; returns the bytes that
/// arrived.
fn transfer(
    topology: &Topology,
    listener: &TcpListener,
    address: SocketAddr,
    from: Option<Ipv4Addr>,
    protocol: i32,
) -> usize {
    use std::io::{Read, Write};
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut connection, _) = listener.accept().unwrap();
            // Time for the other subflows to join.
            std::thread::sleep(Duration::from_millis(100));
            connection.write_all(&vec![7; 1_000_000]).unwrap();
        });
        let socket = topology
            .home()
            .run(|| {
                let socket = raw_socket(protocol);
                if let Some(from) = from {
                    socket.bind(&SocketAddr::from((from, 0)).into()).unwrap();
                }
                socket.connect_timeout(&address.into(), Duration::from_secs(5)).unwrap();
                socket
            })
            .unwrap();
        let mut received = Vec::new();
        std::net::TcpStream::from(socket).read_to_end(&mut received).unwrap();
        received.len()
    })
}

#[test]
fn calibration_measures_rate_and_delay() {
    if unprivileged() {
        return println!("skipped: no namespaces");
    }
    let sets = braid_lab::topology::calibrate(Duration::from_secs(1), &|_| {}).unwrap();
    assert_eq!(sets.iter().map(|set| set.links.len()).collect::<Vec<_>>(), [6, 3]);
    for set in sets {
        println!("{set}");
        // The accuracy depends on the machine's other load, but something must arrive over each
        // link.
        assert!(set.worst_rate_error() < 1.0, "{set}");
    }
}

/// Not a test by itself: the test below starts it and kills it.
#[test]
fn victim_of_the_kill_test() {
    if std::env::var_os("BRAID_LAB_VICTIM").is_none() {
        return;
    }
    let topology = build(&[link("doomed", 10, 1)]).unwrap();
    let inode = |ns: &NetNs| ns.run(|| std::fs::read_link("/proc/thread-self/ns/net")).unwrap();
    let mut child = topology.home().command("sleep").arg("60").spawn().unwrap();
    println!(
        "\nnamespaces {} {}",
        inode(topology.home()).unwrap().display(),
        inode(topology.concentrator()).unwrap().display()
    );
    child.wait().unwrap();
}

#[test]
fn nothing_is_left_when_killed() {
    use std::io::{BufRead, BufReader};
    if unprivileged() {
        return println!("skipped: no namespaces");
    }
    let mut victim = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "victim_of_the_kill_test", "--nocapture"])
        .env("BRAID_LAB_VICTIM", "1")
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let line = BufReader::new(victim.stdout.take().unwrap())
        .lines()
        .map_while(Result::ok)
        .find(|line| line.starts_with("namespaces"))
        .expect("the victim builds its network");
    let namespaces: Vec<&str> = line.split(' ').skip(1).collect();
    assert_eq!(namespaces.len(), 2);
    assert!(in_use(namespaces[0]), "sleep runs in the home");
    victim.kill().unwrap();
    victim.wait().unwrap();
    eventually(|| !namespaces.iter().any(|namespace| in_use(namespace)));
}

/// Whether a process of this machine is in the namespace.
fn in_use(namespace: &str) -> bool {
    std::fs::read_dir("/proc").unwrap().flatten().any(|process| {
        std::fs::read_link(process.path().join("ns/net"))
            .is_ok_and(|link| link.to_string_lossy() == namespace)
    })
}
