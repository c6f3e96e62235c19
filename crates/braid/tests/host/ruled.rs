//! `[[rule]]`: connections take the tunnel, leave by a link or are refused, as the first rule
//! says that matches; seen by the address that servers are called from.

use crate::inbound::{DOCKER, world_with_lan};
use crate::world::{World, assert_unchanged, settled_state, sh};
use braid_linux::netns::NetNs;
use serde_json::Value;
use simple_dns::{CLASS, Packet, PacketFlag, QCLASS, QTYPE, Question, TYPE};
use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::time::Duration;

pub const V4: &str = "192.0.2.1";
pub const V6: &str = "[2001:db8:ffff::1]";
/// Whom servers see: the concentrator, or the home by one of its uplinks.
pub const TUNNEL: &str = "198.51.100.1";
const TUNNEL_V6: &str = "2001:db8:1::1";
pub const BY_WAN1: &str = "10.1.1.2";
pub const BY_WAN2: &str = "10.1.2.2";
/// A read or connect that takes longer has failed.
const LIMIT: Duration = Duration::from_secs(15);

pub const RULES: &str = r#"
[[rule]]
name = "mail"
match = { protocol = "tcp", ports = "25" }
do = "block"
[[rule]]
name = "bank"
match = { to = ["192.0.2.1", "2001:db8:ffff::1"], protocol = "tcp", ports = "443" }
do = "direct"
links = ["wan1", "wan2"]
[[rule]]
name = "tablet"
match = { device = "tablet", protocol = "tcp", ports = "444" }
do = "direct"
links = "wan2"
otherwise = "block"
[[rule]]
name = "shadowed"
match = { protocol = "tcp", ports = "443" }
do = "block"
"#;

#[test]
fn the_first_rule_that_matches_says_where_a_connection_goes() {
    let Some((mut world, lan)) = ruled_world() else { return };
    let before = settled_state(&world.home.namespace);
    start(&mut world, "", RULES);
    let home = &world.home.namespace;
    // A device of the LAN, and the home itself: the same, but for the rule for a device.
    for from in [&lan, home] {
        assert_eq!(whoami(from, V4, 443).unwrap(), BY_WAN1, "bank");
        assert_eq!(whoami(from, V6, 443).unwrap(), "fd00:1::2", "bank by IPv6");
        assert_eq!(whoami(from, V4, 80).unwrap(), TUNNEL, "no rule");
        assert_eq!(whoami(from, V4, 25).unwrap_err().kind(), ErrorKind::ConnectionRefused, "mail");
        assert_eq!(whoami(from, V6, 25).unwrap_err().kind(), ErrorKind::ConnectionRefused, "mail");
    }
    assert_eq!(whoami(&lan, V4, 444).unwrap(), BY_WAN2, "tablet");
    assert_eq!(whoami(home, V4, 444).unwrap(), TUNNEL, "no tablet");
    // What is counted: four connections to the bank, at least two attempts at mail.
    world.home.wait_until("rules are counted", || {
        let count = |at: usize| world.home.status()["rules"][at]["connections"].as_u64();
        (count(0) >= Some(2)) && count(1) == Some(4) && count(2) == Some(1) && count(3) == Some(0)
    });
    explains(&world);
    world.home.stop();
    assert_unchanged(&world.home.namespace, &before);
}

/// The home has no translation of its own: that is the tunnel's, for which servers see it.
#[test]
fn the_lan_goes_direct_as_the_home_does_while_the_concentrator_is_gone() {
    let Some((mut world, lan)) = ruled_world() else { return };
    start(&mut world, "", "");
    assert_eq!(whoami(&lan, V4, 80).unwrap(), TUNNEL);
    world.concentrator.kill();
    let direct = || world.home.status()["traffic"]["goes"] == "direct";
    world.home.wait_until("traffic goes direct", direct);
    for (address, seen) in [(V4, BY_WAN1), (V6, "fd00:1::2")] {
        assert_eq!(whoami(&world.home.namespace, address, 80).unwrap(), seen, "the home");
        assert_eq!(whoami(&lan, address, 80).unwrap(), seen, "its LAN");
    }
}

/// What is said of connections is what was seen of them; rules come and go by commands.
fn explains(world: &World) {
    let ask = |arguments: &[&str]| -> Value {
        serde_json::from_slice(&world.home.braid_ok(arguments)).unwrap()
    };
    for command in [&["explain"][..], &["rule", "test"]] {
        let explain = |rest: &[&str]| ask(&[command, rest, &["--json"]].concat())["answer"].clone();
        let bank = explain(&["192.0.2.1:443", "--from", "tablet"]);
        assert_eq!(
            (&bank["rule"], &bank["goes"], &bank["link"]),
            (&"bank".into(), &"direct".into(), &"wan1".into())
        );
        assert_eq!(bank["if_link_died"]["link"], "wan2");
        assert_eq!(bank["considered"][0]["mismatch"], "it is for port 25, not for 443");
        let tablet = explain(&["192.0.2.1:444", "--from", "192.168.7.2"]);
        assert_eq!(
            (&tablet["rule"], &tablet["if_link_died"]["goes"]),
            (&"tablet".into(), &"blocked".into())
        );
        assert_eq!(explain(&["192.0.2.1:444"])["goes"], "tunnel", "this host is no tablet");
    }
    let add = ["rule", "add", "more", "--to", "192.0.2.1", "--do", "block", "--before", "mail"];
    world.home.braid_ok(&add);
    assert_eq!(
        whoami(&world.home.namespace, V4, 80).unwrap_err().kind(),
        ErrorKind::ConnectionRefused
    );
    assert_eq!(ask(&["rule", "list", "--json"])["rules"][0]["name"], "more");
    world.home.braid_ok(&["rule", "remove", "more"]);
    assert_eq!(whoami(&world.home.namespace, V4, 80).unwrap(), TUNNEL);
    let metrics = world.home.sh(&format!(
        "curl -s --unix-socket {} http://braid/metrics",
        world.home.socket().display()
    ));
    assert!(
        metrics.contains("braid_rule_connections_total{rule=\"bank\",does=\"direct\"} 4"),
        "{metrics}"
    );
}

#[test]
fn programs_of_a_control_group_take_its_rules_way() {
    let root = Path::new("/sys/fs/cgroup");
    let Some(root) = [root.join("unified"), root.to_owned()].into_iter().find(|root| {
        root.join("cgroup.procs").exists() && root.join("cgroup.controllers").exists()
    }) else {
        eprintln!("SKIPPED: control groups of version 2 are not mounted");
        return;
    };
    let group = format!("braid-test-{}", std::process::id());
    let folder = root.join(&group);
    let Some((mut world, lan)) = ruled_world() else { return };
    let rules = format!(
        "[[rule]]\nname = \"backup\"\nmatch = {{ cgroup = \"{group}\" }}\ndo = \"direct\"\n"
    );
    start(&mut world, "", &rules);
    assert_eq!(whoami(&lan, V4, 80).unwrap(), TUNNEL);
    let from_group = || {
        world.home.sh(&format!(
            "echo $$ > {}/cgroup.procs; exec timeout 15 bash -c \
             'exec 3<>/dev/tcp/{V4}/80; head -n 1 <&3'",
            folder.display()
        ))
    };
    // One that goes and comes is another one by the same name.
    for _ in 0..2 {
        std::fs::create_dir(&folder).unwrap();
        world.home.wait_until("the group is seen", || from_group().trim() == BY_WAN1);
        assert_eq!(whoami(&world.home.namespace, V4, 80).unwrap(), TUNNEL, "another program");
        world.home.wait_until("its programs have ended", || std::fs::remove_dir(&folder).is_ok());
    }
    world.home.stop();
}

#[test]
fn connections_stay_on_their_link_while_it_works_and_new_ones_fail_over() {
    let Some((mut world, lan)) = ruled_world() else { return };
    start(&mut world, "", RULES);
    let mut tunnelled = Talk::begin(&lan, V4, 80).unwrap();
    let mut bank = Talk::begin(&lan, V4, 443).unwrap();
    let mut tablet = Talk::begin(&lan, V4, 444).unwrap();
    assert_eq!((bank.seen_as.as_str(), tablet.seen_as.as_str()), (BY_WAN1, BY_WAN2));
    // Others' rules now: who talks already goes on where it is.
    write(&world, "", &RULES.replace("\"wan1\", \"wan2\"", "\"wan2\", \"wan1\""));
    world.home.braid_ok(&["reload"]);
    assert_eq!(whoami(&lan, V4, 443).unwrap(), BY_WAN2);
    write(&world, "", "");
    world.home.braid_ok(&["reload"]);
    assert_eq!(whoami(&lan, V4, 443).unwrap(), TUNNEL);
    write(&world, "", RULES);
    world.home.braid_ok(&["reload"]);
    for talk in [&mut tunnelled, &mut bank, &mut tablet] {
        talk.goes_on().unwrap();
    }
    // A link that is there but carries nothing: the tunnel notices.
    world.in_internet(
        "nft 'table inet cut { chain in { type filter hook prerouting priority -500; iifname isp1 drop; }; }'",
    );
    world.home.wait_until("the bank's rule takes the other link", || {
        world.home.status()["rules"][1]["link"] == "wan2"
    });
    assert_eq!(whoami(&lan, V4, 443).unwrap(), BY_WAN2);
    assert!(bank.goes_on().is_err(), "its client is told that it's over");
    tunnelled.goes_on().unwrap();
    tablet.goes_on().unwrap();
    let mut second = Talk::begin(&lan, V4, 443).unwrap();
    world.in_internet("nft delete table inet cut");
    world.home.wait_until("the first link is used again", || {
        world.home.status()["rules"][1]["link"] == "wan1"
    });
    assert_eq!(whoami(&lan, V4, 443).unwrap(), BY_WAN1);
    second.goes_on().unwrap();
    // A link that is gone; its rule has no other, and refuses.
    world.home.sh("ip link set wan2 down");
    world.home.wait_until("no link is left for the tablet", || {
        world.home.status()["rules"][2]["link"].is_null()
    });
    assert_eq!(whoami(&lan, V4, 444).unwrap_err().kind(), ErrorKind::ConnectionRefused);
    assert_eq!(whoami(&lan, V4, 443).unwrap(), BY_WAN1);
    tunnelled.goes_on().unwrap();
}

#[test]
fn connections_end_on_recovery_where_that_is_wanted() {
    let Some((mut world, lan)) = ruled_world() else { return };
    let rules = RULES.replace("\"wan1\", \"wan2\"]", "\"wan1\", \"wan2\"]\nend_on_recovery = true");
    world.home.sh("ip link set wan1 down");
    write(&world, "", &rules);
    world.concentrator.start();
    world.home.start();
    world.home.wait_for_active_paths(1);
    let mut bank = Talk::begin(&lan, V4, 443).unwrap();
    assert_eq!(bank.seen_as, BY_WAN2);
    world.home.sh("ip link set wan1 up; ip addr add fd00:1::2/64 dev wan1 nodad
         ip route replace default via 10.1.1.1 metric 10
         ip route replace default via fd00:1::1 metric 10");
    world.home.wait_for_active_paths(2);
    world.home.wait_until("the first link is used again", || {
        world.home.status()["rules"][1]["link"] == "wan1"
    });
    assert!(bank.goes_on().is_err(), "it shall begin again, by the first link");
    assert_eq!(whoami(&lan, V4, 443).unwrap(), BY_WAN1);
}

/// A real dnsmasq in the Internet; whichever server a client names, the home is asked.
#[test]
fn rules_for_names_hold_for_the_addresses_that_these_have() {
    let Some((mut world, lan)) = ruled_world() else { return };
    if world.internet.command("dnsmasq").arg("--version").output().is_err() {
        eprintln!("SKIPPED: dnsmasq is not installed (try ./setup)");
        return;
    }
    world.in_internet("ip addr add 192.0.2.53/32 dev lo");
    let mut server = world.internet.command("dnsmasq");
    server.args(["--conf-file=/dev/null", "--keep-in-foreground", "--user=root", "--pid-file="]);
    server.args(["--no-resolv", "--no-hosts", "--local-ttl=60", "--listen-address=192.0.2.53"]);
    server.args(["--bind-interfaces", "--address=/bank.example/192.0.2.1"]);
    server.args(["--address=/bank.example/2001:db8:ffff::1", "--address=/other.example/192.0.2.1"]);
    server.args(["--address=/xn--brse-5qa.example/192.0.2.1", "--address=/tv.example/192.0.2.3"]);
    world.run_service(server);
    let rules = RULES.replace(
        "to = [\"192.0.2.1\", \"2001:db8:ffff::1\"]",
        "domain = [\"bank.example\", \"börse.example\"]",
    );
    let rules = rules.split("[[rule]]\nname = \"shadowed\"").next().unwrap();
    // Two that are for names and nothing else.
    let named = |name: &str, links: &str| {
        format!(
            "[[rule]]\nname = \"{name}\"\nmatch = {{ domain = \"{name}.example\" }}\ndo = \"direct\"\nlinks = \"{links}\"\n"
        )
    };
    let rules = format!("{rules}{}{}", named("radio-1", "wan1"), named("tv", "wan2"));
    let tv = "192.0.2.3";
    world.in_internet("ip addr add 192.0.2.3/32 dev lo");
    serve(&world.internet, "192.0.2.3:80");
    let before = settled_state(&world.home.namespace);
    start(&mut world, "dns = [\"192.0.2.53\"]", &rules);
    let home = world.home.namespace.run(NetNs::current).unwrap().unwrap();
    assert_eq!(whoami(&lan, V4, 443).unwrap(), TUNNEL, "nobody has asked for the name yet");
    assert_eq!(resolve(&lan, "other.example", TYPE::A), 1);
    assert_eq!(whoami(&lan, V4, 443).unwrap(), TUNNEL, "another name");
    assert_eq!(resolve(&lan, "www.bank.example", TYPE::A), 1);
    for from in [&lan, &home] {
        assert_eq!(whoami(from, V4, 443).unwrap(), BY_WAN1, "at once");
        assert_eq!(whoami(from, V6, 443).unwrap(), TUNNEL_V6, "its IPv6 address isn't known");
    }
    assert_eq!(resolve(&home, "bank.example", TYPE::AAAA), 1);
    assert_eq!(whoami(&lan, V6, 443).unwrap(), "fd00:1::2");
    let explained = world.home.braid_ok(&["explain", "192.0.2.1:443", "--json"]);
    let explained: Value = serde_json::from_slice(&explained).unwrap();
    assert_eq!(explained["answer"]["rule"], "bank");
    assert_eq!(whoami(&lan, tv, 80).unwrap(), TUNNEL);
    assert_eq!(resolve(&lan, "tv.example", TYPE::A), 1);
    assert_eq!(whoami(&lan, tv, 80).unwrap(), BY_WAN2);
    assert_eq!(whoami(&lan, tv, 443).unwrap_err().kind(), ErrorKind::ConnectionRefused, "by it");
    // What is known outlives a change of rules and of links, and a program that goes on.
    world.home.braid_ok(&["rule", "add", "more", "--to", "192.0.2.77", "--do", "block"]);
    world.home.sh("ip link set wan2 down");
    world.home.wait_for_active_paths(1);
    assert_eq!(whoami(&lan, V4, 443).unwrap(), BY_WAN1);
    world.home.sh("ip link set wan2 up; ip addr add fd00:2::2/64 dev wan2 nodad
         ip route replace default via 10.1.2.1 metric 20
         ip route replace default via fd00:2::1 metric 20");
    world.home.wait_for_active_paths(2);
    world.home.braid_ok(&["restart"]);
    world.home.wait_for_active_paths(2);
    assert_eq!(whoami(&lan, V4, 443).unwrap(), BY_WAN1);
    assert_eq!(whoami(&lan, tv, 80).unwrap(), BY_WAN2);
    world.home.braid_ok(&["rule", "remove", "radio-1"]);
    assert_eq!(whoami(&lan, tv, 80).unwrap(), BY_WAN2);
    world.home.stop();
    assert_unchanged(&world.home.namespace, &before);
}

/// Asks a server that isn't there; says how many addresses came.
pub fn resolve(namespace: &NetNs, name: &str, kind: TYPE) -> usize {
    let ask = || {
        let socket = UdpSocket::bind("0.0.0.0:0")?;
        socket.set_read_timeout(Some(Duration::from_secs(3)))?;
        socket.connect("203.0.113.99:53")?;
        let mut query = Packet::new_query(7);
        query.set_flags(PacketFlag::RECURSION_DESIRED);
        let name = simple_dns::Name::new(name).unwrap();
        let class = QCLASS::CLASS(CLASS::IN);
        query.questions.push(Question::new(name, QTYPE::TYPE(kind), class, false));
        let query = query.build_bytes_vec().unwrap();
        let mut bytes = [0; 512];
        let mut answer = Err(ErrorKind::TimedOut.into());
        // A datagram may be lost while all begins.
        for _ in 0..5 {
            socket.send(&query)?;
            answer = socket.recv(&mut bytes);
            if answer.is_ok() {
                break;
            }
        }
        answer.map(|length| Packet::parse(&bytes[..length]).unwrap().answers.len())
    };
    namespace.run(ask).unwrap().unwrap()
}

#[test]
fn rules_and_others_firewalls_leave_each_other_alone() {
    let Some((mut world, lan)) = ruled_world() else { return };
    if world.home.namespace.command("iptables").arg("--version").output().is_err() {
        eprintln!("SKIPPED: iptables is not installed (try: apt install iptables)");
        return;
    }
    world.home.sh(DOCKER);
    // As mwan3 and SQM do: marks of their own in other bits, which must come through.
    world.home.sh("nft -f - <<'END'
table inet theirs {
    counter both { }
    chain marks {
        type filter hook prerouting priority mangle;
        iifname lan0 ct mark set ct mark | 0x2a
        iifname lan0 meta mark set meta mark | 0x2a00
    }
    chain seen {
        type filter hook postrouting priority mangle;
        oifname wan1 ct mark & 0xff == 0x2a meta mark & 0xff00 == 0x2a00 counter name both
    }
}
END");
    start(&mut world, "", RULES);
    assert_eq!(whoami(&lan, V4, 443).unwrap(), BY_WAN1);
    assert_eq!(whoami(&lan, V6, 443).unwrap(), "fd00:1::2");
    assert_eq!(whoami(&lan, V4, 80).unwrap(), TUNNEL);
    let seen = world.home.sh("nft list counter inet theirs both");
    assert!(!seen.contains("packets 0 "), "{seen}");
}

#[test]
fn a_kill_switch_lets_out_what_a_rule_sends_beside_the_tunnel_and_nothing_else() {
    let Some((mut world, lan)) = ruled_world() else { return };
    start(&mut world, "when_concentrator_gone = \"block\"", RULES);
    let home = &world.home.namespace;
    for from in [&lan, home] {
        assert_eq!(whoami(from, V4, 443).unwrap(), BY_WAN1);
        assert_eq!(whoami(from, V4, 80).unwrap(), TUNNEL);
    }
    world.concentrator.kill();
    world
        .home
        .wait_until("traffic is blocked", || world.home.status()["traffic"]["goes"] == "blocked");
    for from in [&lan, home] {
        assert_eq!(whoami(from, V4, 443).unwrap(), BY_WAN1, "direct by rule stays direct");
        assert!(whoami(from, V4, 80).is_err(), "nothing else gets out");
        assert!(whoami(from, V6, 80).is_err(), "nothing else gets out");
    }
}

pub fn ruled_world() -> Option<(World, NetNs)> {
    let (world, lan) = world_with_lan()?;
    world.concentrator.sh("ip -6 route add default via 2001:db8:1::ff");
    for address in [V4, V6] {
        for port in [25, 80, 443, 444] {
            serve(&world.internet, &format!("{address}:{port}"));
        }
    }
    let mac = sh(&lan, "cat /sys/class/net/eth0/address");
    let leases = format!("0 {} 192.168.7.2 Tablet *\n", mac.trim());
    std::fs::write(leases_file(&world), leases).unwrap();
    Some((world, lan))
}

pub fn leases_file(world: &World) -> std::path::PathBuf {
    let [state, _] = world.home.folders();
    state.join("leases")
}

pub fn write(world: &World, routing: &str, rules: &str) {
    let leases = leases_file(world);
    let routing =
        format!("default_route = true\nmasquerade = true\nleases = {leases:?}\n{routing}\n{rules}");
    world.write_configs(2, &routing, "masquerade = true");
}

pub fn start(world: &mut World, routing: &str, rules: &str) {
    write(world, routing, rules);
    world.concentrator.start();
    world.home.start();
    world.home.wait_for_active_paths(2);
    let by_tunnel = || world.home.status()["traffic"]["goes"] == "tunnel";
    world.home.wait_until("traffic takes the tunnel", by_tunnel);
}

/// Tells everybody the address that they come from, then says back each line.
pub fn serve(namespace: &NetNs, address: &str) {
    let listener = namespace.run(|| TcpListener::bind(address).unwrap()).unwrap();
    std::thread::spawn(move || {
        while let Ok((stream, from)) = listener.accept() {
            std::thread::spawn(move || answer(stream, from));
        }
    });
}

fn answer(mut stream: TcpStream, from: SocketAddr) -> io::Result<()> {
    writeln!(stream, "{}", from.ip())?;
    for line in BufReader::new(stream.try_clone()?).lines() {
        writeln!(stream, "{}", line?)?;
    }
    Ok(())
}

/// The address that a server sees.
pub fn whoami(namespace: &NetNs, address: &str, port: u16) -> io::Result<String> {
    Talk::begin(namespace, address, port).map(|talk| talk.seen_as)
}

/// A connection that goes on.
struct Talk {
    stream: BufReader<TcpStream>,
    seen_as: String,
}

impl Talk {
    fn begin(namespace: &NetNs, address: &str, port: u16) -> io::Result<Talk> {
        let remote: SocketAddr = format!("{address}:{port}").parse().unwrap();
        let connect = || TcpStream::connect_timeout(&remote, LIMIT);
        let stream = namespace.run(connect).unwrap()?;
        stream.set_read_timeout(Some(LIMIT))?;
        let mut talk = Talk { stream: BufReader::new(stream), seen_as: String::new() };
        talk.seen_as = talk.hear()?;
        Ok(talk)
    }

    fn goes_on(&mut self) -> io::Result<()> {
        self.stream.get_mut().write_all(b"again\n")?;
        match self.hear()?.as_str() {
            "again" => Ok(()),
            other => Err(io::Error::other(format!("{other:?} in place of an echo"))),
        }
    }

    fn hear(&mut self) -> io::Result<String> {
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        Ok(line.trim().to_owned())
    }
}
