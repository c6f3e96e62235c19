//! `[split_tcp]`: connections that end at both ends of the tunnel look whole to clients and
//! servers, and none is left half when an end goes.

#![allow(unsafe_code)]

use crate::inbound::world_with_lan;
use crate::scale::processor_seconds;
use crate::world::{World, assert_unchanged, settled_state, sh};
use braid_linux::netns::NetNs;
use std::cell::Cell;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Where servers are in the Internet.
const V4: &str = "192.0.2.1:80";
const V6: &str = "[2001:db8:ffff::1]:80";
/// A read or connect that takes longer has failed.
const LIMIT: Duration = Duration::from_secs(20);

/// Both ends up with `split` as the last lines of their configs.
fn split_world(home: &str, split: &str) -> Option<(World, NetNs, [String; 2])> {
    let (mut world, lan) = world_with_lan()?;
    world.concentrator.sh("ip -6 route add default via 2001:db8:1::ff");
    let before = [&world.home, &world.concentrator].map(|side| settled_state(&side.namespace));
    let home = format!("default_route = true\nmasquerade = true\n{home}\n{split}");
    world.write_configs(2, &home, &format!("masquerade = true\n{split}"));
    world.concentrator.start();
    world.home.start();
    wait_for_tunnel(&world);
    Some((world, lan, before))
}

/// Until traffic takes the tunnel; that is so at the next look at the host after the paths work.
fn wait_for_tunnel(world: &World) {
    world.home.wait_for_active_paths(2);
    let by_tunnel = || world.home.status()["traffic"]["goes"] == "tunnel";
    world.home.wait_until("traffic takes the tunnel", by_tunnel);
}

/// What a server does with each connection; it is told the client's address.
fn serve(namespace: &NetNs, address: &str, answer: fn(TcpStream, IpAddr)) {
    let listener = namespace.run(|| TcpListener::bind(address).unwrap()).unwrap();
    std::thread::spawn(move || {
        while let Ok((stream, from)) = listener.accept() {
            std::thread::spawn(move || answer(stream, from.ip()));
        }
    });
}

/// Says all back when all has come, and before that who asked.
fn echo(mut stream: TcpStream, from: IpAddr) {
    let mut all = Vec::new();
    if stream.read_to_end(&mut all).is_ok() {
        let _ = writeln!(stream, "{from}");
        let _ = stream.write_all(&all);
    }
}

fn speaks_first(mut stream: TcpStream, _: IpAddr) {
    let _ = stream.write_all(b"hello\n");
    let _ = stream.read(&mut [0]);
}

fn resets(mut stream: TcpStream, _: IpAddr) {
    let _ = stream.read(&mut [0]);
    let socket = socket2::Socket::from(stream);
    let _ = socket.set_linger(Some(Duration::ZERO));
}

fn connect(namespace: &NetNs, address: &str) -> io::Result<TcpStream> {
    let remote: SocketAddr = address.parse().unwrap();
    let stream = namespace.run(|| TcpStream::connect_timeout(&remote, LIMIT)).unwrap()?;
    assert_eq!(stream.peer_addr()?, remote);
    stream.set_read_timeout(Some(LIMIT))?;
    Ok(stream)
}

/// Sends `bytes`, ends its direction, and reads the answer: who the server says it is.
fn ask(namespace: &NetNs, address: &str, bytes: usize) -> io::Result<String> {
    let mut stream = connect(namespace, address)?;
    let said: Vec<u8> = (0..bytes).map(|n| (n / 7) as u8).collect();
    let mut writing = stream.try_clone()?;
    let writer = {
        let said = said.clone();
        std::thread::spawn(move || {
            writing.write_all(&said)?;
            writing.shutdown(Shutdown::Write)
        })
    };
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    writer.join().unwrap()?;
    let line = answer.iter().position(|byte| *byte == b'\n').ok_or(ErrorKind::UnexpectedEof)?;
    let (who, echoed) = answer.split_at(line);
    assert!(echoed[1..] == said, "{} of {bytes} bytes came back", echoed.len() - 1);
    Ok(String::from_utf8_lossy(who).into_owned())
}

/// Whoever connects is reset, perhaps before it has seen that it's connected.
fn expect_no_connection(namespace: &NetNs, address: &str) {
    let remote: SocketAddr = address.parse().unwrap();
    match namespace.run(|| TcpStream::connect_timeout(&remote, LIMIT)).unwrap() {
        Ok(mut stream) => expect_reset(&mut stream),
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
    }
}

/// The next read ends by a reset.
fn expect_reset(stream: &mut TcpStream) {
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    let outcome = stream.read(&mut [0]).map_err(|error| error.kind());
    assert_eq!(outcome, Err(ErrorKind::ConnectionReset));
}

/// What servers are told, and how it ended; they answer with `answer` first, whose end they tell
/// right away.
fn listens(
    namespace: &NetNs,
    address: &str,
    answer: &'static [u8],
    pause: Duration,
) -> Receiver<(Vec<u8>, Option<ErrorKind>)> {
    let listener = namespace.run(|| TcpListener::bind(address).unwrap()).unwrap();
    let (tell, told) = channel();
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let _ = stream.write_all(answer);
            let _ = stream.shutdown(Shutdown::Write);
            stream.set_read_timeout(Some(LIMIT)).unwrap();
            let _ = tell.send(slowly(&mut stream, pause));
        }
    });
    told
}

/// Reads all that comes, with pauses.
fn slowly(stream: &mut impl Read, pause: Duration) -> (Vec<u8>, Option<ErrorKind>) {
    let (mut all, mut buffer) = (Vec::new(), vec![0; 50_000]);
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return (all, None),
            Ok(length) => all.extend_from_slice(&buffer[..length]),
            Err(error) => return (all, Some(error.kind())),
        }
        std::thread::sleep(pause);
    }
}

const MUCH: usize = 2_000_000;

/// Says much, and resets as soon as its network has it all.
fn says_much_and_resets(mut stream: TcpStream, _: IpAddr) {
    stream.write_all(&vec![7; MUCH]).unwrap();
    let mut unsent: libc::c_int = 1;
    while unsent > 0 {
        // SAFETY: the request writes one int.
        assert_eq!(0, unsafe { libc::ioctl(stream.as_raw_fd(), libc::TIOCOUTQ, &raw mut unsent) });
    }
    let _ = socket2::Socket::from(stream).set_linger(Some(Duration::ZERO));
}

/// Says something without an end.
fn pours(mut stream: TcpStream, _: IpAddr) {
    while stream.write_all(&[7; 65536]).is_ok() {}
}

/// The largest receive buffer of connections with the server's `port`.
fn receive_buffer(namespace: &NetNs, port: u16) -> u64 {
    let said = sh(namespace, &format!("ss -tmnHO state established dport {port}"));
    let sizes = said.split(",rb").skip(1);
    let sizes = sizes.map(|rest| rest.split(',').next().unwrap().parse::<u64>().unwrap());
    sizes.max().unwrap_or_else(|| panic!("no buffers: {said}"))
}

fn counted(namespace: &NetNs, counter: &str) -> u64 {
    let said = sh(namespace, &format!("nft list counter inet seen {counter}"));
    said.split("packets ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap()
}

fn counter(world: &World, name: &str) -> u64 {
    world.home.status()["split_tcp"][name].as_u64().unwrap()
}

#[test]
fn split_connections_look_whole_and_leave_no_trace() {
    let gone = "when_concentrator_gone = \"block\"";
    let Some((mut world, lan, before)) = split_world(gone, "[split_tcp]") else { return };
    for address in [V4, V6] {
        serve(&world.internet, address, echo);
    }
    serve(&world.internet, "192.0.2.1:22", speaks_first);
    serve(&world.internet, "192.0.2.1:23", resets);
    serve(&world.concentrator.namespace, "10.77.0.1:80", echo);
    for from in [&lan, &world.home.namespace] {
        // What the Internet sees is the concentrator, as without.
        assert_eq!(ask(from, V4, 3_000_000).unwrap(), "198.51.100.1");
        assert_eq!(ask(from, V6, 300_000).unwrap(), "2001:db8:1::1");
        // And what the concentrator sees is the home.
        assert_eq!(ask(from, "10.77.0.1:80", 100).unwrap(), "10.77.0.2");
        let mut first = [0; 6];
        connect(from, "192.0.2.1:22").unwrap().read_exact(&mut first).unwrap();
        assert_eq!(&first, b"hello\n");
        let mut reset = connect(from, "192.0.2.1:23").unwrap();
        reset.write_all(b"x").unwrap();
        expect_reset(&mut reset);
        // Nobody listens there.
        expect_no_connection(from, "192.0.2.1:24");
    }
    assert_eq!(counter(&world, "accepted"), 12);
    assert!(counter(&world, "rx_bytes") > 6_000_000);
    world.home.wait_until("all are closed", || counter(&world, "open") == 0);
    let far = &world.concentrator.status()["split_tcp"];
    assert_eq!((far["accepted"].as_u64(), far["unreachable"].as_u64()), (Some(12), Some(2)));
    world.home.stop();
    world.concentrator.stop();
    assert_unchanged(&world.home.namespace, &before[0]);
    assert_unchanged(&world.concentrator.namespace, &before[1]);
}

/// To the proxy or forwarded: what a rule refuses comes to nobody, and what was there before ends.
#[test]
fn what_a_rule_refuses_is_not_split_either() {
    let matched = "{ to = \"192.0.2.1/32\", protocol = \"tcp\", ports = \"80\" }";
    let rule = format!("[[rule]]\nname = \"shut\"\nmatch = {matched}\ndo = \"block\"\n");
    let Some((mut world, lan, _)) = split_world(&rule, "[split_tcp]") else {
        return;
    };
    serve(&world.internet, V4, echo);
    serve(&world.internet, "192.0.2.1:22", echo);
    for from in [&lan, &world.home.namespace] {
        assert!(ask(from, V4, 100).is_err(), "it is refused");
        assert_eq!(ask(from, "192.0.2.1:22", 100).unwrap(), "198.51.100.1");
    }
    // One that comes later ends what is there.
    let mut open = connect(&lan, "192.0.2.1:22").unwrap();
    open.write_all(b"x").unwrap();
    let to = ["--to", "192.0.2.1", "--protocol", "tcp", "--ports", "22"];
    world.home.braid_ok(&[&["rule", "add", "later", "--do", "block"][..], &to].concat());
    let open = Cell::new(Some(open));
    world.home.wait_until("it has ended", || {
        let mut stream = open.take().unwrap();
        let failed = stream.write_all(b"x").is_err();
        open.set(Some(stream));
        failed
    });
    world.home.stop();
}

#[test]
fn an_end_that_goes_resets_its_connections() {
    let Some((mut world, lan, before)) = split_world("", "[split_tcp]") else { return };
    serve(&world.internet, "192.0.2.1:22", speaks_first);
    // One that begins before the tunnel works again goes beside it.
    let open = |world: &World| {
        let opened = Cell::new(None);
        world.home.wait_until("a connection is split", || {
            let Ok(mut stream) = connect(&lan, "192.0.2.1:22") else { return false };
            let greeted = stream.read_exact(&mut [0; 6]).is_ok();
            opened.set(Some(stream));
            greeted && counter(world, "open") == 1
        });
        opened.take().unwrap()
    };
    // The concentrator ends in good order, and says so.
    let mut stream = open(&world);
    world.concentrator.stop();
    expect_reset(&mut stream);
    world.concentrator.start();
    world.home.wait_for_active_paths(2);
    // It crashes: who speaks is told as soon as it's there again.
    let mut stream = open(&world);
    world.concentrator.kill();
    world.concentrator.start();
    world.home.wait_for_active_paths(2);
    stream.write_all(b"x").unwrap();
    expect_reset(&mut stream);
    // The home crashes: its kernel tells.
    let mut stream = open(&world);
    world.home.kill();
    expect_reset(&mut stream);
    world.home.start();
    world.home.wait_for_active_paths(2);
    drop(open(&world));
    world.home.stop();
    world.concentrator.stop();
    assert_unchanged(&world.home.namespace, &before[0]);
    assert_unchanged(&world.concentrator.namespace, &before[1]);
}

#[test]
fn a_home_has_its_limit_of_connections() {
    let limited = "[split_tcp]\nconnections = 20";
    let Some((world, lan, _)) = split_world("", limited) else { return };
    serve(&world.internet, "192.0.2.1:22", speaks_first);
    let hello = |stream: &mut TcpStream| stream.read_exact(&mut [0; 6]);
    let mut open: Vec<TcpStream> = Vec::new();
    for _ in 0..20 {
        let mut stream = connect(&lan, "192.0.2.1:22").unwrap();
        let said = hello(&mut stream);
        let (near, far) = (world.home.status(), world.concentrator.status());
        let states = (&near["split_tcp"], &far["split_tcp"]);
        assert!(said.is_ok(), "{} are open: {said:?}, {states:?}", open.len());
        open.push(stream);
    }
    expect_no_connection(&lan, "192.0.2.1:22");
    assert_eq!(counter(&world, "over_limit"), 1);
    open.pop();
    world.home.wait_until("there is room", || counter(&world, "open") == 19);
    hello(&mut connect(&lan, "192.0.2.1:22").unwrap()).unwrap();
}

#[test]
fn a_busy_connection_gets_as_much_among_idle_ones_as_alone() {
    let Some((world, lan, _)) = split_world("", "[split_tcp]") else { return };
    serve(&world.internet, "192.0.2.1:22", speaks_first);
    serve(&world.internet, "192.0.2.1:81", pours);
    let download = || {
        let mut stream = connect(&lan, "192.0.2.1:81").unwrap();
        let mut buffer = vec![0; 1_000_000];
        (0..60).for_each(|_| stream.read_exact(&mut buffer).unwrap());
        [&world.home.namespace, &world.concentrator.namespace].map(|ns| receive_buffer(ns, 81))
    };
    let alone = download();
    let mut idle: Vec<TcpStream> = Vec::new();
    for _ in 0..150 {
        let mut stream = connect(&lan, "192.0.2.1:22").unwrap();
        stream.read_exact(&mut [0; 6]).unwrap();
        idle.push(stream);
    }
    let among = download();
    println!(
        "receive buffers at home and concentrator: alone {alone:?}, among idle ones {among:?}"
    );
    assert!(alone.iter().all(|bytes| *bytes > 1 << 20), "{alone:?}");
    assert!(among.iter().zip(alone).all(|(among, alone)| among * 2 >= alone), "{among:?}");
    // Who has nothing to say for a while has small buffers.
    let small = || receive_buffer(&world.home.namespace, 22) <= 16 << 10;
    world.home.wait_until("idle ones have given back", small);
    assert_eq!(counter(&world, "open"), idle.len() as u64);
}

#[test]
fn what_came_before_an_end_or_a_reset_is_delivered_before_it() {
    let Some((world, lan, _)) = split_world("", "[split_tcp]") else { return };
    serve(&world.internet, "192.0.2.1:81", says_much_and_resets);
    let pause = Duration::from_millis(3);
    let told = listens(&world.internet, "192.0.2.1:82", b"bye", pause);
    for from in [&lan, &world.home.namespace] {
        let mut stream = connect(from, "192.0.2.1:81").unwrap();
        let (all, end) = slowly(&mut stream, pause);
        assert_eq!((all.len(), end), (MUCH, Some(ErrorKind::ConnectionReset)), "to the client");
        // The server has ended its direction, which says nothing about the client's.
        let mut stream = connect(from, "192.0.2.1:82").unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        assert_eq!(answer, b"bye");
        says_much_and_resets(stream, Ipv4Addr::LOCALHOST.into());
        let (all, end) = told.recv_timeout(LIMIT).unwrap();
        assert_eq!((all.len(), end), (MUCH, Some(ErrorKind::ConnectionReset)), "to the server");
        let mut stream = connect(from, "192.0.2.1:82").unwrap();
        stream.read_to_end(&mut answer).unwrap();
        stream.write_all(b"and more").unwrap();
        drop(stream);
        assert_eq!(told.recv_timeout(LIMIT).unwrap(), (b"and more".to_vec(), None));
    }
    world.home.wait_until("all are closed", || counter(&world, "open") == 0);
}

#[test]
fn a_connection_keeps_its_class_both_ways() {
    let Some((world, lan, _)) = split_world("", "[split_tcp]") else { return };
    for address in [V4, V6] {
        serve(&world.internet, address, echo);
    }
    let count = |namespace: &NetNs, hook: &str, port: &str| {
        let rules = ["ip", "ip6"].map(|ip| {
            format!("tcp {port} 80 {ip} dscp cs1 meta length > 1000 counter name {ip}_seen;")
        });
        let text = format!(
            "table inet seen {{\ncounter ip_seen {{ }}\ncounter ip6_seen {{ }}\n\
             chain all_seen {{ type filter hook {hook} priority raw; {} }}\n}}",
            rules.concat()
        );
        sh(namespace, &format!("nft '{text}'"));
    };
    count(&world.internet, "prerouting", "dport");
    count(&world.home.namespace, "prerouting", "sport");
    count(&lan, "prerouting", "sport");
    let counts = || {
        ["ip_seen", "ip6_seen"].map(|counter| {
            [&world.internet, &world.home.namespace, &lan].map(|ns| counted(ns, counter))
        })
    };
    for address in [V4, V6] {
        assert!(ask(&lan, address, 100_000).is_ok());
    }
    assert_eq!(counts(), [[0; 3]; 2], "without a mark there is none");
    // As routers mark what may wait.
    sh(
        &lan,
        "nft 'table inet marks {\nchain out { type filter hook output priority mangle; ip dscp set cs1; ip6 dscp set cs1; }\n}'",
    );
    for address in [V4, V6] {
        assert!(ask(&lan, address, 100_000).is_ok());
    }
    let marked = counts();
    assert!(marked.iter().flatten().all(|packets| *packets > 1), "{marked:?}");
}

#[test]
fn servers_that_are_hard_to_reach_are_reached_or_the_client_is_told() {
    let Some((world, lan, _)) = split_world("", "[split_tcp]") else { return };
    world.in_internet("ip route add blackhole 203.0.113.1; ip route add unreachable 203.0.113.2");
    world.concentrator.sh("echo 1 > /proc/sys/net/ipv4/tcp_syn_retries");
    for server in ["203.0.113.1:80", "203.0.113.2:80"] {
        expect_no_connection(&lan, server);
    }
    let far = &world.concentrator.status()["split_tcp"];
    assert_eq!(far["unreachable"].as_u64(), Some(2));
    // The last hop takes small packets only, and so does the LAN.
    let server = NetNs::new().unwrap();
    world
        .internet
        .run(|| braid_linux::netlink::Netlink::open()?.add_veth("last", "eth0", Some(&server)))
        .unwrap()
        .unwrap();
    world.in_internet(
        "ip link set last up; ip addr add 192.0.3.1/24 dev last
         ip route change 192.0.3.0/24 dev last mtu lock 700",
    );
    sh(
        &server,
        "ip link set lo up; ip link set eth0 up; ip addr add 192.0.3.2/24 dev eth0
         ip route add default via 192.0.3.1",
    );
    sh(&lan, "ip link set eth0 mtu 900");
    serve(&server, "192.0.3.2:80", echo);
    assert_eq!(ask(&lan, "192.0.3.2:80", MUCH).unwrap(), "198.51.100.1");
    let path = world.concentrator.sh("ip route get 192.0.3.2");
    assert!(path.contains("mtu 700"), "the concentrator knows it: {path}");
    // A request with the first packet comes once (RFC 7413), in a connection as any other.
    assert_eq!(ask_with_first_packet(&lan, "192.0.3.2:80"), b"198.51.100.1\nask");
}

/// Servers to which no way leads, as the router says at once each time it's asked.
const NOWHERE: [&str; 4] =
    ["203.0.113.1:80", "203.0.113.2:80", "[2001:db8:fffe::1]:80", "[2001:db8:fffe::2]:80"];

fn lead_nowhere(world: &World) {
    // Linux says so once in a second to each host, and others have just been told of other packets.
    // That of IPv4's routes can't be set in a namespace, and name servers that aren't there use it
    // up: a firewall says it.
    world.in_internet(
        "echo 0 > /proc/sys/net/ipv4/icmp_ratelimit; echo 0 > /proc/sys/net/ipv6/icmp/ratelimit
         nft -f - <<'END'
         table ip nowhere {
             chain forward {
                 type filter hook forward priority filter;
                 ip daddr 203.0.113.1 reject with icmp host-unreachable
                 ip daddr 203.0.113.2 reject with icmp admin-prohibited
             }
         }
END
         ip route add 203.0.113.0/24 dev lo
         ip -6 route add unreachable 2001:db8:fffe::1; ip -6 route add prohibit 2001:db8:fffe::2",
    );
}

/// A router that has no way to a server, or lets nobody go it, says so.
#[test]
fn that_no_way_leads_to_a_server_is_told_at_once() {
    let Some((world, lan, _)) = split_world("", "[split_tcp]") else { return };
    lead_nowhere(&world);
    for from in [&lan, &world.home.namespace] {
        NOWHERE.iter().for_each(|server| expect_no_connection(from, server));
    }
    let far = &world.concentrator.status()["split_tcp"];
    assert_eq!(far["unreachable"].as_u64(), Some(8));
}

/// The same by the tunnel, where the other end doesn't split.
#[test]
fn that_no_way_leads_to_a_server_is_told_where_only_the_home_splits() {
    let Some((mut world, lan, _)) = split_world("", "[split_tcp]") else { return };
    lead_nowhere(&world);
    let whole = world.concentrator.config_text().replace("[split_tcp]", "");
    world.concentrator.stop();
    world.concentrator.write_text(&whole);
    world.concentrator.start();
    wait_for_tunnel(&world);
    let before = counter(&world, "unreachable");
    for from in [&lan, &world.home.namespace] {
        NOWHERE.iter().for_each(|server| expect_no_connection(from, server));
    }
    assert_eq!(counter(&world, "unreachable") - before, 8);
}

/// Says little now and then, until its client goes.
fn trickles(mut stream: TcpStream, _: IpAddr) {
    while stream.write_all(&[7; 1000]).is_ok() {
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn after_descriptors_ran_out_connections_are_taken_though_others_are_busy_all_the_time() {
    let Some((world, lan, _)) = split_world("", "[split_tcp]") else { return };
    serve(&world.internet, "192.0.2.1:22", speaks_first);
    serve(&world.internet, "192.0.2.1:81", trickles);
    let mut busy = connect(&lan, "192.0.2.1:81").unwrap();
    busy.read_exact(&mut [0; 1000]).unwrap();
    let process = world.home.process();
    let limit = |files| world.home.sh(&format!("prlimit --pid {process} --nofile={files}:"));
    let taken = std::fs::read_dir(format!("/proc/{process}/fd")).unwrap().flatten();
    let taken: Vec<u32> =
        taken.filter_map(|file| file.file_name().to_str()?.parse().ok()).collect();
    limit((0..).find(|number| !taken.contains(number)).unwrap());
    // It waits to be taken, or is reset where there was one descriptor, and none for the server.
    let greeted = |within| {
        let mut stream = connect(&lan, "192.0.2.1:22").unwrap();
        stream.set_read_timeout(Some(within)).unwrap();
        stream.read_exact(&mut [0; 6]).is_ok()
    };
    assert!(!greeted(Duration::from_secs(2)), "nobody could take it");
    limit(4096);
    assert!(greeted(LIMIT));
    busy.read_exact(&mut [0; 1000]).unwrap();
}

/// Room for which each buffer has, and more than a packet or some.
const SOME: usize = 100_000;

/// Says some when the client has said all.
fn says_some(mut stream: TcpStream, _: IpAddr) {
    let _ = stream.read_to_end(&mut Vec::new());
    let _ = stream.write_all(&[7; SOME]);
}

#[test]
fn what_an_end_has_still_to_take_counts_after_both_have_ended() {
    let Some((world, lan, _)) = split_world("", "[split_tcp]") else { return };
    serve(&world.internet, "192.0.2.1:81", says_some);
    // The home takes part in the connection, and none of its bytes.
    let takes_nothing = "table inet takes_nothing {\nchain in { type filter hook prerouting \
        priority raw; iifname braid0 tcp sport 81 meta length > 100 drop; }\n}";
    world.home.sh(&format!("nft '{takes_nothing}'"));
    let stream = connect(&lan, "192.0.2.1:81").unwrap();
    stream.set_read_timeout(Some(3 * LIMIT)).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let far = |what: &str| world.concentrator.status()["split_tcp"][what].as_u64().unwrap();
    world.concentrator.wait_until("it has it all", || far("tx_bytes") >= SOME as u64);
    // Time to forget it, with what the home doesn't take.
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(far("open"), 1);
    world.home.sh("nft delete table inet takes_nothing");
    let (all, end) = slowly(&mut &stream, Duration::ZERO);
    assert_eq!((all.len(), end), (SOME, None));
    world.home.wait_until("it has gone", || (counter(&world, "open"), far("open")) == (0, 0));
}

fn ask_with_first_packet(namespace: &NetNs, address: &str) -> Vec<u8> {
    let remote: SocketAddr = address.parse().unwrap();
    let socket = namespace
        .run(|| socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None))
        .unwrap()
        .unwrap();
    let without_cookie: libc::c_int = 1;
    // SAFETY: the pointer and the length describe a live int; 34 is TCP_FASTOPEN_NO_COOKIE
    // (linux/tcp.h).
    let set = unsafe {
        let value = (&raw const without_cookie).cast();
        libc::setsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, 34, value, 4)
    };
    assert_eq!(set, 0);
    let sent = socket.send_to_with_flags(b"ask", &remote.into(), libc::MSG_FASTOPEN).unwrap();
    assert_eq!(sent, 3);
    socket.shutdown(Shutdown::Write).unwrap();
    let mut stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    answer
}

/// Measured, not tested: `cargo test --release -p braid --test host split::measured -- --ignored
/// --nocapture --test-threads=1`.
#[test]
#[ignore = "a measurement"]
fn measured_memory_of_idle_connections() {
    const THREADS: usize = 16;
    // This process has both ends, as each daemon has two sockets.
    let allowed = braid_split_tcp::allow_descriptors(20_000);
    let many = allowed.map_or(20_000, |all| (all as usize).saturating_sub(1000) / 2);
    let many = many / THREADS * THREADS;
    let Some((world, lan, _)) = split_world("", "[split_tcp]") else { return };
    let listener = world.internet.run(|| TcpListener::bind("192.0.2.1:22").unwrap()).unwrap();
    let (tell, told) = channel();
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            if stream.write_all(b"hello\n").is_ok() && tell.send(stream).is_err() {
                return;
            }
        }
    });
    let sides = [(&world.home, "home"), (&world.concentrator, "concentrator")];
    let before = sides.map(|(side, _)| resident(side.process()));
    let (begun, failed) = (Instant::now(), AtomicUsize::new(0));
    let open = |_: usize| {
        let mut stream = connect(&lan, "192.0.2.1:22").ok()?;
        stream.write_all(b"x").and_then(|()| stream.read_exact(&mut [0; 6])).ok()?;
        Some(stream)
    };
    let opened: Vec<TcpStream> = std::thread::scope(|scope| {
        let threads = [(); THREADS].map(|()| {
            scope.spawn(|| {
                let opened: Vec<_> = (0..many / THREADS).filter_map(open).collect();
                failed.fetch_add(many / THREADS - opened.len(), Ordering::Relaxed);
                opened
            })
        });
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    println!("{} connections in {:.1?}, {failed:?} failed", opened.len(), begun.elapsed());
    let taken: Vec<TcpStream> = told.try_iter().collect();
    assert_eq!((opened.len(), taken.len()), (many, many));
    let small = || receive_buffer(&world.home.namespace, 22) <= 16 << 10;
    world.home.wait_until("they have given back", small);
    for ((side, name), before) in sides.into_iter().zip(before) {
        assert_eq!(side.status()["split_tcp"]["open"].as_u64(), Some(many as u64));
        let own = (resident(side.process()) - before) * 1024 / many as u64;
        let used = processor_seconds(side.process());
        std::thread::sleep(Duration::from_secs(10));
        let used = processor_seconds(side.process()) - used;
        let kernel = side.sh("ss -tmnHO state established | grep -o 'skmem:([^)]*)'");
        let sizes = |name: &str| {
            let numbers = kernel.split([',', '(', ')']).filter_map(|it| it.strip_prefix(name));
            numbers.filter_map(|it| it.parse::<u64>().ok()).sum::<u64>() / many as u64
        };
        let (queued, ahead) = (sizes("r") + sizes("w") + sizes("o"), sizes("f"));
        println!(
            "{name}: {own} bytes a connection of its own; of the kernel's two sockets {queued} in \
             queues, {ahead} set aside, {} they may take; {used:.2} processor seconds in 10 s",
            sizes("rb") + sizes("tb")
        );
    }
}

/// Likewise.
#[test]
#[ignore = "a measurement"]
fn measured_connections_a_second_and_what_bytes_cost() {
    const ROUNDS: usize = 3;
    const LASTS: Duration = Duration::from_secs(5);
    for (what, split) in [("whole", ""), ("split", "[split_tcp]")].repeat(ROUNDS) {
        let Some((mut world, lan, _)) = split_world("", split) else { return };
        serve(&world.internet, V4, |mut stream, _| {
            let _ = stream.read(&mut [0; 100]).and_then(|_| stream.write_all(&[7; 1024]));
        });
        serve(&world.internet, "192.0.2.1:81", pours);
        let daemons = [world.home.process(), world.concentrator.process()];
        let used = || daemons.map(processor_seconds).iter().sum::<f64>();
        let (begun, before) = (Instant::now(), used());
        let fetched: usize = std::thread::scope(|scope| {
            let threads = [(); 8].map(|()| {
                scope.spawn(|| {
                    let mut fetched = 0;
                    while begun.elapsed() < LASTS {
                        let mut stream = connect(&lan, V4).unwrap();
                        let mut answer = Vec::new();
                        stream.write_all(b"GET").unwrap();
                        stream.read_to_end(&mut answer).unwrap();
                        fetched += usize::from(answer.len() == 1024);
                    }
                    fetched
                })
            });
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        let rate = fetched as f64 / begun.elapsed().as_secs_f64();
        let each = (used() - before) / fetched as f64 * 1e6;
        let mut stream = connect(&lan, "192.0.2.1:81").unwrap();
        let mut buffer = vec![0; 1_000_000];
        let (begun, before, mut megabytes) = (Instant::now(), used(), 0);
        while begun.elapsed() < LASTS {
            stream.read_exact(&mut buffer).unwrap();
            megabytes += 1;
        }
        let rate_of_bytes = f64::from(megabytes) * 8.0 / begun.elapsed().as_secs_f64();
        let cost = (used() - before) / f64::from(megabytes) * 1000.0;
        println!(
            "{what}: {rate:.0} objects of 1 KB a second, {each:.0} us of the daemons' processors \
             each; one download {rate_of_bytes:.0} Mbit/s, {cost:.2} processor seconds a GB"
        );
        drop(stream);
        world.home.stop();
        world.concentrator.stop();
    }
}

/// KiB that a process has in memory.
fn resident(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
