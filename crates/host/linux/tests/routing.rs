//! Routing of a host with two links: every way works, and nothing is left
//! behind, whenever the program dies.

mod namespaces;

use braid_engines::Operation;
use braid_inner::Layer;
use braid_linux::journal::UndoJournal;
use braid_linux::netlink::Netlink;
use braid_linux::netns::NetNs;
use braid_linux::nft::{Firewall, KillSwitch, MssClamp};
use braid_linux::routing::{
    FIRST_PRIORITY, FIRST_TABLE, HostRouting, LinkRouting, Otherwise, RuledRouting, Through,
    discover_link, uplinks,
};
use braid_linux::tun::{OffloadChoice, Tun};
use braid_linux::udp::{Family, LinkBind, LinkSocket, Transmit};
use namespaces::namespace;
use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

const MARK: u32 = 0xb1;

#[test]
fn each_link_leaves_by_its_own_gateway_and_the_rest_through_the_tunnel() {
    in_two_link_host(|host| {
        let mut tun = host.tunnel();
        let routing =
            host.routing(Through::Everything { working: true, otherwise: Otherwise::Wait });
        let mut journal = host.journal();
        assert_clean(&journal.reconcile(&routing.desired()));
        // The first link has the main table's default route, the second only that of its own table.
        for (family, server) in [(Family::V4, "192.0.2.1"), (Family::V6, "2001:db8::1")] {
            for n in [1, 2] {
                let device = Some(format!("link{n}"));
                host.send_by(LinkBind { device, ..host.any(family) }, server);
                assert_eq!(host.heard(family), Some(host.address(family, n)), "by device");
                let source = Some(host.address(family, n).parse().unwrap());
                host.send_by(LinkBind { source, ..host.any(family) }, server);
                assert_eq!(host.heard(family), Some(host.address(family, n)), "by source");
            }
            drain(&mut tun);
            host.send_by(LinkBind { fwmark: None, ..host.any(family) }, server);
            assert!(host.unheard(family), "not beside the tunnel");
            assert!(drain(&mut tun) > 0, "through the tunnel");
        }
    });
}

#[test]
fn without_the_tunnel_traffic_goes_straight_out_or_nowhere() {
    in_two_link_host(|host| {
        let tun = host.tunnel();
        let through = |working, otherwise| Through::Everything { working, otherwise };
        let mut journal = host.journal();
        let mut go = |through| {
            assert_clean(&journal.reconcile(&host.routing(through).desired()));
        };
        let unmarked = || LinkBind { fwmark: None, ..host.any(Family::V4) };
        let straight = |link| Otherwise::Straight { link };
        go(through(true, straight(Some(1))));
        host.send_by(unmarked(), "192.0.2.1");
        assert!(host.unheard(Family::V4), "the tunnel works and is taken");
        go(through(false, straight(Some(1))));
        host.send_by(unmarked(), "192.0.2.1");
        assert_eq!(host.heard(Family::V4).as_deref(), Some("10.0.2.2"), "by the link chosen");
        go(through(false, straight(None)));
        host.send_by(unmarked(), "192.0.2.1");
        assert_eq!(host.heard(Family::V4).as_deref(), Some("10.0.1.2"), "by the host's own route");

        go(through(true, Otherwise::KillSwitch));
        drop(tun);
        // The device disappears with the last copy of its descriptor: programs that other tests
        // start have one until they exec.
        let send = || UdpSocket::bind("0.0.0.0:0").unwrap().send_to(b"x", "192.0.2.1:9");
        let give_up = Instant::now() + Duration::from_secs(20);
        let killed = loop {
            match send() {
                Err(killed) => break killed,
                Ok(_) => assert!(Instant::now() < give_up, "it is sent"),
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        assert!(
            matches!(
                killed.kind(),
                io::ErrorKind::NetworkUnreachable | io::ErrorKind::HostUnreachable
            ),
            "{killed}"
        );
        host.send_by(
            LinkBind { device: Some("link2".into()), ..host.any(Family::V4) },
            "192.0.2.1",
        );
        assert_eq!(host.heard(Family::V4).as_deref(), Some("10.0.2.2"), "the tunnel's own goes on");
    });
}

#[test]
fn routes_that_the_kernel_dropped_come_back_and_gateways_are_followed() {
    in_two_link_host(|host| {
        let _tun = host.tunnel();
        let routing = host.routing(Through::Nothing);
        let mut journal = host.journal();
        assert_clean(&journal.reconcile(&routing.desired()));
        let table = || ip("route show table 51902");
        let full = table();
        assert!(full.contains("default via 10.0.2.1"), "{full}");
        ip("link set link2 down");
        assert!(!table().contains("default via"), "the kernel drops what leads nowhere");
        ip("link set link2 up");
        assert_clean(&journal.reconcile(&routing.desired()));
        assert_eq!(table(), full);

        let mut moved = routing.clone();
        moved.links[1].gateways[0] = "10.0.2.77".parse().unwrap();
        assert_clean(&journal.reconcile(&moved.desired()));
        assert!(table().contains("default via 10.0.2.77"), "{}", table());
        assert!(!table().contains("10.0.2.1 "), "{}", table());
    });
}

#[test]
fn links_are_found_as_they_are() {
    in_two_link_host(|host| {
        ip("route add default via 10.0.2.1 dev link2 table 99");
        let mut netlink = Netlink::open().unwrap();
        assert_eq!(uplinks(&mut netlink).unwrap(), ["link1", "link2"]);
        let _tun = host.tunnel();
        let mut journal = host.journal();
        let everything = Through::Everything { working: true, otherwise: Otherwise::Wait };
        let mut found = |n: u32| discover_link(&mut netlink, &format!("link{n}"), n - 1).unwrap();
        let before = [found(1), found(2)];
        assert_eq!(
            before[0].gateways,
            ["10.0.1.1", "fd00:1::1"].map(|g| g.parse::<IpAddr>().unwrap())
        );
        assert_eq!(before[1].gateways, ["10.0.2.1"].map(|g| g.parse::<IpAddr>().unwrap()));
        assert!(before[0].addresses.contains(&"10.0.1.2/24".parse().unwrap()));
        assert_clean(&journal.reconcile(&host.routing(everything).desired()));
        assert_eq!([found(1), found(2)], before, "our own routes aren't taken for the provider's");
        assert_eq!(uplinks(&mut netlink).unwrap(), ["link1", "link2"]);
    });
}

#[test]
fn undo_leaves_everything_as_it_was() {
    in_two_link_host(|host| {
        let _tun = host.tunnel();
        let before = settled_state();
        let mut journal = host.journal();
        let routing = host.full_routing();
        assert_clean(&journal.reconcile(&routing.desired()));
        let during = state();
        assert_ne!(during, before);
        assert_clean(&journal.reconcile(&routing.desired()));
        assert_eq!(state(), during, "a second time changes nothing");
        assert_clean(&journal.undo());
        assert_eq!(state(), before);
        assert!(!host.journal_path().exists());
    });
}

/// The kernel's switch overwrites each device's setting, and resets others.
#[test]
fn forwarding_is_switched_off_as_it_was() {
    in_two_link_host(|host| {
        let _tun = host.tunnel();
        for (key, value) in [
            ("ipv4/conf/all/accept_redirects", "0"),
            ("ipv4/conf/link2/forwarding", "1"),
            ("ipv6/conf/link2/forwarding", "1"),
            ("ipv6/conf/link1/accept_ra", "1"),
        ] {
            fs::write(format!("/proc/sys/net/{key}"), value).unwrap();
        }
        let before = settled_state();
        let mut journal = host.journal();
        let mut routing = host.routing(Through::Nothing);
        routing.forward = true;
        assert_clean(&journal.reconcile(&routing.desired()));
        let accepts = || fs::read_to_string("/proc/sys/net/ipv6/conf/link1/accept_ra").unwrap();
        assert_eq!(accepts(), "2\n");
        // Advertisements of a link that is away, or no longer Braid's, are still accepted.
        routing.links.clear();
        routing.believes_advertisements.clear();
        assert_clean(&journal.reconcile(&routing.desired()));
        assert_eq!(accepts(), "2\n");
        assert_clean(&journal.undo());
        assert_eq!(state(), before);
    });
}

#[test]
fn a_crash_between_any_two_steps_is_undone_at_the_next_start() {
    in_two_link_host(|host| {
        let _tun = host.tunnel();
        let before = settled_state();
        let desired = host.full_routing().desired();
        for steps in 0..desired.len() {
            // Died after the journal was written, before the step was done: the file has one item
            // more than the host.
            assert_clean(&host.journal().reconcile(&desired[..=steps]));
            let ahead = fs::read(host.journal_path()).unwrap();
            assert_clean(&host.journal().undo());
            assert_clean(&host.journal().reconcile(&desired[..steps]));
            fs::write(host.journal_path(), &ahead).unwrap();
            assert_clean(&host.journal().undo());
            assert_eq!(state(), before, "died before: {}", desired[steps]);

            // Died after the step.
            assert_clean(&host.journal().reconcile(&desired[..=steps]));
            assert_clean(&host.journal().undo());
            assert_eq!(state(), before, "died after: {}", desired[steps]);

            // Died while undoing, before the journal was written.
            fs::write(host.journal_path(), &ahead).unwrap();
            assert_clean(&host.journal().undo());
            assert_eq!(state(), before, "undone twice: {}", desired[steps]);
        }
    });
}

#[test]
fn what_others_have_set_stays_theirs() {
    in_two_link_host(|host| {
        let _tun = host.tunnel();
        let routing = host.full_routing();
        // Somebody has set some of it before, and changes some later.
        ip("rule add oif link1 lookup 51901 priority 5192");
        fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap();
        let before = settled_state();
        let mut journal = host.journal();
        assert_clean(&journal.reconcile(&routing.desired()));
        assert!(!journal.operations().any(
            |it| it.to_string().contains("oif link1 lookup") && it.to_string().contains("IPv4")
        ));
        fs::write("/proc/sys/net/ipv4/conf/link1/rp_filter", "0").unwrap();
        assert_clean(&journal.undo());
        assert_eq!(fs::read_to_string("/proc/sys/net/ipv4/conf/link1/rp_filter").unwrap(), "0\n");
        fs::write("/proc/sys/net/ipv4/conf/link1/rp_filter", "1").unwrap();
        assert_eq!(state(), before);
    });
}

#[test]
fn a_failing_step_is_told_and_the_rest_is_done() {
    in_two_link_host(|host| {
        let before = settled_state();
        let mut routing = host.routing(Through::Nothing);
        let missing =
            LinkRouting { number: 7, interface: "absent0".into(), ..routing.links[1].clone() };
        routing.links.push(missing);
        routing.addresses.clear();
        let mut journal = host.journal();
        let failures = journal.reconcile(&routing.desired());
        assert!(failures.iter().all(|failure| failure.to_string().contains("absent0")));
        assert!(!failures.is_empty());
        assert!(ip("route show table 51902").contains("default via 10.0.2.1"));
        assert_clean(&journal.undo());
        assert_eq!(state(), before);

        fs::write(host.journal_path(), "{ \"version\": 99, \"entries\": [] }").unwrap();
        let error = UndoJournal::open(&[host.journal_path()]).err().unwrap();
        assert!(error.to_string().contains("version 99"), "{error}");
        fs::remove_file(host.journal_path()).unwrap();
    });
}

/// As when a service is stopped while it starts: systemd's signal reaches nft, too.
#[test]
fn what_a_stopped_program_has_set_is_undone() {
    const SCRIPTS: &str = "BRAID_TEST_STOPPED_NFT";
    let Some(scripts) = std::env::var_os(SCRIPTS).map(PathBuf::from) else {
        let scripts = std::env::temp_dir().join(format!("braid-stopped-{}", std::process::id()));
        fs::create_dir_all(&scripts).unwrap();
        fs::write(scripts.join("nft"), STOPPED_NFT).unwrap();
        fs::set_permissions(scripts.join("nft"), fs::Permissions::from_mode(0o755)).unwrap();
        let path = std::env::var("PATH").unwrap();
        let again = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "what_a_stopped_program_has_set_is_undone", "--nocapture"])
            .env("PATH", format!("{}:{path}", scripts.display()))
            .env(SCRIPTS, &scripts)
            .status();
        fs::remove_dir_all(&scripts).unwrap();
        return assert!(again.unwrap().success());
    };
    in_two_link_host(|host| {
        let _tun = host.tunnel();
        let before = settled_state();
        fs::write(scripts.join("stop"), "").unwrap();
        let mut journal = host.journal();
        let failures = journal.reconcile(&host.full_routing().desired());
        assert_eq!(failures.len(), 1, "{failures:?}");
        assert!(failures[0].to_string().contains("nft"), "{failures:?}");
        assert!(state().contains("table inet braid_"));
        assert_clean(&journal.undo());
        assert_eq!(state(), before);
    });
}

/// Once told to, it dies of a signal after it has set what it should.
const STOPPED_NFT: &str = r#"#!/bin/sh
PATH=${PATH#*:}
nft "$@"
status=$?
if [ "$1" = -f ] && rm "$BRAID_TEST_STOPPED_NFT/stop" 2>/dev/null; then
    kill $$
fi
exit $status
"#;

/// A host with two links to a server, and what the server hears.
struct Host {
    /// Held open as long as the test runs.
    _server: NetNs,
    ears: [UdpSocket; 2],
    directory: PathBuf,
    sent: AtomicU32,
}

impl Host {
    fn routing(&self, through: Through) -> HostRouting {
        let link = |n: u32| LinkRouting {
            number: n - 1,
            interface: format!("link{n}"),
            fwmark: None,
            addresses: vec![
                format!("10.0.{n}.2/24").parse().unwrap(),
                format!("fd00:{n}::2/64").parse().unwrap(),
            ],
            gateways: vec![
                format!("10.0.{n}.1").parse().unwrap(),
                format!("fd00:{n}::1").parse().unwrap(),
            ],
            point_to_point: false,
            checks_reverse_path: true,
        };
        HostRouting {
            interface: "braid0".into(),
            addresses: vec!["10.99.0.2/24".parse().unwrap(), "fd99::2/64".parse().unwrap()],
            first_table: FIRST_TABLE,
            first_priority: FIRST_PRIORITY,
            fwmark: MARK,
            link_marks: 0x7f00_0000,
            links: vec![link(1), link(2)],
            believes_advertisements: vec!["link1".into(), "link2".into()],
            through,
            forward: false,
            docker_refuses: Vec::new(),
            egress_devices: Vec::new(),
            proxy_arp: Vec::new(),
            firewall: Firewall { interface: "braid0".into(), ..Firewall::default() },
            split: None,
            announced: None,
            rules: RuledRouting::default(),
        }
    }

    /// With every kind of item.
    fn full_routing(&self) -> HostRouting {
        let through = Through::Everything { working: true, otherwise: Otherwise::KillSwitch };
        let mut routing = self.routing(through);
        routing.links[0].fwmark = Some(0xb2);
        routing.forward = true;
        routing.proxy_arp = vec!["link1".into()];
        routing.firewall.masquerade = vec!["10.99.0.0/24".parse().unwrap()];
        routing.firewall.mss = Some(MssClamp::ToMtu);
        let marks = vec![(MARK, u32::MAX)];
        routing.firewall.kill_switch = Some(KillSwitch { marks, ..KillSwitch::default() });
        let kinds = |test: fn(&Operation) -> bool| routing.desired().iter().any(test);
        assert!(kinds(|it| matches!(it, Operation::Sysctl { .. })));
        assert!(kinds(|it| matches!(it, Operation::Firewall(_))));
        routing
    }

    fn tunnel(&self) -> Tun {
        let mut tun = Tun::open("braid0", Layer::L3, OffloadChoice::Best).unwrap();
        ip("link set braid0 addrgenmode none");
        tun.bring_up().unwrap();
        tun
    }

    fn journal(&self) -> UndoJournal {
        UndoJournal::open(&[self.journal_path()]).unwrap()
    }

    fn journal_path(&self) -> PathBuf {
        self.directory.join("braid0.journal")
    }

    fn any(&self, family: Family) -> LinkBind {
        LinkBind { device: None, source: None, fwmark: Some(MARK), port: 0, family }
    }

    fn address(&self, family: Family, n: u32) -> String {
        match family {
            Family::V4 => format!("10.0.{n}.2"),
            Family::V6 => format!("fd00:{n}::2"),
        }
    }

    fn send_by(&self, bind: LinkBind, server: &str) {
        let ear = self.ear(bind.family);
        let remote = SocketAddr::new(server.parse().unwrap(), ear.local_addr().unwrap().port());
        let number = self.sent.fetch_add(1, Ordering::Relaxed) + 1;
        let contents = &number.to_ne_bytes();
        let transmit =
            Transmit { remote, local: None, traffic_class: 0, contents, segment_size: None };
        LinkSocket::open(&bind).unwrap().send(&transmit).unwrap();
    }

    /// From which address the server hears what was sent last.
    fn heard(&self, family: Family) -> Option<String> {
        self.heard_within(family, Duration::from_secs(5))
    }

    /// Whether the server doesn't hear what was sent last, at least not soon.
    fn unheard(&self, family: Family) -> bool {
        self.heard_within(family, Duration::from_millis(200)).is_none()
    }

    fn heard_within(&self, family: Family, time: Duration) -> Option<String> {
        let ear = self.ear(family);
        ear.set_read_timeout(Some(time)).unwrap();
        let last = self.sent.load(Ordering::Relaxed).to_ne_bytes();
        let mut bytes = [0; 4];
        loop {
            let from = ear.recv_from(&mut bytes).ok()?.1;
            if bytes == last {
                return Some(from.ip().to_string());
            }
        }
    }

    fn ear(&self, family: Family) -> &UdpSocket {
        &self.ears[usize::from(family == Family::V6)]
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

fn in_two_link_host(test: impl FnOnce(&Host) + Send) {
    let (Some(home), Some(server)) = (namespace(), namespace()) else { return };
    let directory = home
        .run(|| {
            for n in [1, 2] {
                let mut netlink = Netlink::open().unwrap();
                netlink.add_veth(&format!("link{n}"), &format!("isp{n}"), Some(&server)).unwrap();
                server.run(|| set_up(&format!("isp{n}"), n, 1)).unwrap();
                set_up(&format!("link{n}"), n, 2);
                fs::write(format!("/proc/sys/net/ipv4/conf/link{n}/rp_filter"), "1").unwrap();
            }
            ip("route add default via 10.0.1.1 dev link1");
            ip("route add default via fd00:1::1 dev link1");
            let unique = format!("braid-routing-{:?}", std::thread::current().id());
            let unique: String =
                unique.chars().filter(|c| c.is_alphanumeric() || *c == '-').collect();
            // In memory, where there is one: the journal is synced at each step.
            let memory = PathBuf::from("/dev/shm");
            let parent = if memory.is_dir() { memory } else { std::env::temp_dir() };
            parent.join(format!("{unique}-{}", std::process::id()))
        })
        .unwrap();
    let ear = |address: &str| UdpSocket::bind((address, 0)).unwrap();
    let ears = server
        .run(|| {
            ip("addr add 192.0.2.1/32 dev lo");
            ip("addr add 2001:db8::1/128 dev lo nodad");
            [ear("0.0.0.0"), ear("::")]
        })
        .unwrap();
    fs::create_dir_all(&directory).unwrap();
    let host = Host { _server: server, ears, directory, sent: AtomicU32::new(0) };
    home.run(|| {
        wait_until_reachable(&host);
        settled_state();
        test(&host);
    })
    .unwrap();
}

/// Neighbours have been found and IPv6 addresses are ready.
fn wait_until_reachable(host: &Host) {
    for family in [Family::V4, Family::V6] {
        for n in [1, 2] {
            let gateway = match family {
                Family::V4 => format!("10.0.{n}.1"),
                Family::V6 => format!("fd00:{n}::1"),
            };
            let reached = (0..30).any(|_| {
                host.send_by(host.any(family), &gateway);
                !host.unheard(family)
            });
            assert!(reached, "{gateway} can't be reached");
        }
    }
}

fn set_up(interface: &str, n: u32, host: u32) {
    ip(&format!("link set {interface} addrgenmode none"));
    ip(&format!("addr add 10.0.{n}.{host}/24 dev {interface}"));
    ip(&format!("addr add fd00:{n}::{host}/64 dev {interface} nodad"));
    ip(&format!("link set {interface} up"));
}

/// Reads pending packets; returns how many weren't the kernel's own (router solicitations and the
/// like have multicast destinations).
fn drain(tun: &mut Tun) -> usize {
    let (mut packet, mut count) = (Vec::new(), 0);
    while tun.read(&mut packet).unwrap().is_some() {
        let multicast = packet[0] >> 4 == 6 && packet[24] == 0xff;
        count += usize::from(!multicast);
    }
    count
}

/// [`state`] after the kernel has done what it does in the background.
fn settled_state() -> String {
    let mut last = state();
    let mut calm = 0;
    while calm < 3 {
        std::thread::sleep(Duration::from_millis(50));
        let now = state();
        calm = if now == last { calm + 1 } else { 0 };
        last = now;
    }
    last
}

/// The host's complete state, as its administrator sees it.
fn state() -> String {
    let mut state = ["rule", "-6 rule", "route show table all", "-6 route show table all", "addr"]
        .map(ip)
        .concat();
    let ruleset = Command::new("nft").args(["list", "ruleset"]).output().unwrap();
    state += &String::from_utf8(ruleset.stdout).unwrap();
    for key in [
        "ipv4/ip_forward",
        "ipv4/conf/all/accept_redirects",
        "ipv4/conf/link2/forwarding",
        "ipv6/conf/all/forwarding",
        "ipv6/conf/default/accept_ra",
        "ipv6/conf/link2/accept_ra",
        "ipv6/conf/link2/forwarding",
        "ipv6/conf/link1/accept_ra",
        "ipv6/conf/link1/forwarding",
        "ipv4/conf/all/src_valid_mark",
        "ipv4/conf/link1/rp_filter",
        "ipv4/conf/link2/rp_filter",
        "ipv4/conf/link1/proxy_arp",
    ] {
        state += &fs::read_to_string(format!("/proc/sys/net/{key}")).unwrap();
    }
    state
}

fn ip(arguments: &str) -> String {
    let output = Command::new("ip").args(arguments.split(' ')).output().unwrap();
    assert!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn assert_clean<T: std::fmt::Display>(failures: &[T]) {
    let told: Vec<_> = failures.iter().map(T::to_string).collect();
    assert!(told.is_empty(), "{told:#?}");
}
