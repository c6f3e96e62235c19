//! `[split_tcp]`: connections that end at both ends of the tunnel look whole to clients and
//! servers, and none is left half when an end goes.

use crate::inbound::world_with_lan;
use crate::world::{World, assert_unchanged, settled_state};
use braid_linux::netns::NetNs;
use std::cell::Cell;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

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
    world.home.wait_for_active_paths(2);
    let by_tunnel = || world.home.status()["traffic"]["goes"] == "tunnel";
    world.home.wait_until("traffic takes the tunnel", by_tunnel);
    Some((world, lan, before))
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
