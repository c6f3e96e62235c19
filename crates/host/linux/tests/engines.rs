//! Sets up the kernel's engines in namespaces: traffic uses both links, a link fails and returns,
//! and nothing is left behind. (Features that this kernel may lack are tested in a second one:
//! crates/braid/tests.)

use braid_engines::{
    Classifier, Device, DeviceKind, Ecmp, EcmpHash, Egress, End, Engine, Group, GroupLink, Mptcp,
    Numbers, Operation, Over, Pcc, Resilient, Setup,
};
use braid_linux::journal::{Failure, UndoJournal};
use braid_linux::netlink::{Generic, Netlink};
use braid_linux::netns::NetNs;
use std::net::UdpSocket;
use std::path::PathBuf;
use std::process::Command;

const SERVER: &str = "192.0.2.1:9";
const DATAGRAMS: u64 = 400;

#[test]
fn flows_spread_over_next_hop_groups_as_their_weights_say() {
    in_a_host_with_two_links(|host| {
        let before = host.snapshot();
        for (resilient, weights) in [
            (None, [1, 1]),
            (None, [3, 1]),
            (Some(Resilient { buckets: 64, idle_timer_s: 1, unbalanced_timer_s: 0 }), [1, 1]),
        ] {
            let ecmp = Ecmp { hash: EcmpHash::Layer34, resilient, masquerade: true };
            let mut group = host.group(Engine::Ecmp(ecmp));
            for (link, weight) in group.links.iter_mut().zip(weights) {
                link.weight = weight.try_into().unwrap();
            }
            let mut journal = host.journal();
            bring_up(&mut journal, &group.setup());
            let [first, second] = host.spread();
            let share = first as f64 / (first + second) as f64;
            let expected = f64::from(weights[0]) / f64::from(weights[0] + weights[1]);
            assert!(
                (share - expected).abs() < 0.15,
                "{share} of the flows by link 1, {resilient:?}"
            );
            take_down(&mut journal);
            assert_eq!(host.snapshot(), before, "nothing is left behind");
        }
    });
}

#[test]
fn new_connections_take_turns_or_stay_where_their_hash_puts_them() {
    in_a_host_with_two_links(|host| {
        let before = host.snapshot();
        for (classifier, both) in [
            (Classifier::Turns, true),
            (Classifier::Flow, true),
            (Classifier::Source, false),
            (Classifier::Addresses, false),
        ] {
            let group = host.group(Engine::Pcc(Pcc { classifier, masquerade: true }));
            let mut journal = host.journal();
            bring_up(&mut journal, &group.setup());
            let sent = host.spread();
            let used = sent.iter().filter(|&&packets| packets > DATAGRAMS / 5).count();
            assert_eq!(used, if both { 2 } else { 1 }, "{classifier}: {sent:?}");
            take_down(&mut journal);
            assert_eq!(host.snapshot(), before, "nothing is left behind");
        }
    });
}

#[test]
fn a_lost_link_is_left_out_and_comes_back() {
    in_a_host_with_two_links(|host| {
        let before = host.snapshot();
        let engines = [
            Engine::Ecmp(Ecmp { masquerade: true, ..Ecmp::default() }),
            Engine::Pcc(Pcc::default()),
        ];
        for engine in engines {
            let group = host.group(engine);
            let without = Group { links: group.links[1..].to_vec(), ..group.clone() };
            let mut journal = host.journal();
            bring_up(&mut journal, &group.setup());
            host.ip("link set link1 down");
            bring_up(&mut journal, &without.setup());
            let [_, second] = host.spread();
            assert!(second >= DATAGRAMS, "all flows take the other: {second}");
            host.ip("link set link1 up");
            bring_up(&mut journal, &group.setup());
            let sent = host.spread();
            assert!(sent.iter().all(|&packets| packets > DATAGRAMS / 5), "{sent:?}");
            take_down(&mut journal);
            assert_eq!(host.snapshot(), before, "nothing is left behind");
        }
    });
}

#[test]
fn a_crash_is_undone_by_the_next_start() {
    in_a_host_with_two_links(|host| {
        let before = host.snapshot();
        let group = host.group(Engine::Mptcp(Mptcp::default()));
        bring_up(&mut host.journal(), &group.setup());
        let addresses: Vec<String> = Generic::mptcp()
            .unwrap()
            .mptcp_endpoints()
            .unwrap()
            .iter()
            .map(|endpoint| format!("{} {}", endpoint.address, endpoint.subflow))
            .collect();
        assert_eq!(addresses, ["10.0.1.2 true", "10.0.2.2 true"]);
        assert_eq!(Generic::mptcp().unwrap().mptcp_limits().unwrap().subflows, 8);
        assert_ne!(host.snapshot(), before);
        // The next start has only the journal's file.
        take_down(&mut host.journal());
        assert_eq!(host.snapshot(), before, "nothing is left behind");
    });
}

#[test]
fn tunnels_carry_a_group_over_routed_links() {
    in_a_host_with_two_links(|host| {
        let before = host.snapshot();
        let over = |end| Over::Vxlan { end, port: 4789 };
        let engine = Engine::Ecmp(Ecmp { masquerade: false, ..Ecmp::default() });
        let mut here = host.group(engine.clone());
        here.over = over(End::First);
        here.routes = vec!["10.50.0.2/32".parse().unwrap()];
        here.addresses = vec!["10.50.0.1/32".parse().unwrap()];
        let mut there = here.clone();
        there.over = over(End::Second);
        there.routes = vec!["10.50.0.1/32".parse().unwrap()];
        there.addresses = vec!["10.50.0.2/32".parse().unwrap()];
        for (link, number) in there.links.iter_mut().zip(1..) {
            link.device = device(&format!("far{number}"));
            link.egresses = vec![egress(&format!("10.0.{number}.1/24"), None)];
            link.remote = format!("10.0.{number}.2").parse().ok();
        }
        let mut journal = host.journal();
        bring_up(&mut journal, &here.setup());
        let mut far = host
            .far
            .run(|| {
                let mut journal =
                    UndoJournal::open(&[host.scratch.path().join("far.json")]).unwrap();
                bring_up(&mut journal, &there.setup());
                journal
            })
            .unwrap();
        assert!(host.run("ping -c 1 -W 2 10.50.0.2").status.success(), "through a tunnel");
        let sent = host.spread_to("10.50.0.2:9");
        assert!(sent.iter().all(|&packets| packets > DATAGRAMS / 5), "{sent:?}");
        take_down(&mut journal);
        take_down(&mut far);
        assert_eq!(host.snapshot(), before, "nothing is left behind");
    });
}

#[test]
fn what_this_kernel_lacks_is_named_with_what_brings_it() {
    in_a_host_with_two_links(|host| {
        let before = host.snapshot();
        let kind = DeviceKind::Bond(braid_engines::Bonding::default());
        let bond = Operation::Create { device: device("bond9"), kind };
        let mut journal = host.journal();
        match journal.reconcile(&[bond]).as_slice() {
            [] => eprintln!("this kernel has bonding: nothing is lacking"),
            [Failure { error, .. }] => {
                let told = error.to_string();
                assert!(
                    told.contains("modprobe bonding") && told.contains("CONFIG_BONDING"),
                    "{told}"
                );
            }
            more => panic!("{more:?}"),
        }
        take_down(&mut journal);
        assert_eq!(host.snapshot(), before);
    });
}

/// A host with two links to another one, which has the address of a server.
struct Host {
    scratch: tempfile::TempDir,
    far: NetNs,
}

fn in_a_host_with_two_links(test: impl Fn(&Host) + Send + Sync) {
    let (near, far) = match (NetNs::new(), NetNs::new()) {
        (Ok(near), Ok(far)) => (near, far),
        (Err(error), _) | (_, Err(error)) => {
            eprintln!("SKIPPED: no network namespaces here: {error}");
            return;
        }
    };
    let host = Host { scratch: tempfile::tempdir().unwrap(), far };
    near.run(|| {
        for number in [1, 2] {
            host.ip(&format!("link add link{number} type veth peer name far{number}"));
            host.far.move_here(&format!("far{number}")).unwrap();
            host.ip(&format!("addr add 10.0.{number}.2/24 dev link{number}"));
            host.ip(&format!("link set link{number} up"));
            host.far_ip(&format!("addr add 10.0.{number}.1/24 dev far{number}"));
            host.far_ip(&format!("link set far{number} up"));
        }
        host.far_ip("addr add 192.0.2.1/32 dev lo");
        test(&host);
    })
    .unwrap();
}

impl Host {
    fn group(&self, engine: Engine) -> Group {
        let link = |number: u32| GroupLink {
            egresses: vec![egress(
                &format!("10.0.{number}.2/24"),
                Some(&format!("10.0.{number}.1")),
            )],
            remote: format!("10.0.{number}.1").parse().ok(),
            ..GroupLink::new(number, device(&format!("link{number}")))
        };
        Group {
            name: device("all"),
            engine,
            over: Over::Direct,
            addresses: Vec::new(),
            mtu: None,
            routes: vec!["0.0.0.0/0".parse().unwrap()],
            gateway: None,
            links: vec![link(1), link(2)],
            numbers: Numbers::of("all"),
            state_dir: self.scratch.path().to_owned(),
        }
    }

    fn journal(&self) -> UndoJournal {
        let file: PathBuf = self.scratch.path().join("all.journal.json");
        UndoJournal::open(&[file]).unwrap()
    }

    /// Packets that each link sent while many flows sent one each.
    fn spread(&self) -> [u64; 2] {
        self.spread_to(SERVER)
    }

    fn spread_to(&self, server: &str) -> [u64; 2] {
        let count = || {
            let mut netlink = Netlink::open().unwrap();
            ["link1", "link2"].map(|name| netlink.link(name).unwrap().sent_packets)
        };
        let before = count();
        for _ in 0..DATAGRAMS {
            UdpSocket::bind("0.0.0.0:0").unwrap().send_to(b"x", server).unwrap();
        }
        let after = count();
        [after[0] - before[0], after[1] - before[1]]
    }

    /// Everything that an engine may change, except counters and device indexes.
    fn snapshot(&self) -> String {
        [
            "ip -d -o addr show",
            "ip route show table all",
            "ip -6 route show table all",
            "ip rule",
            "ip -6 rule",
            "ip nexthop",
            "nft list ruleset",
            "ip mptcp endpoint",
            "ip mptcp limits",
            "tc qdisc show",
            "cat /proc/sys/net/ipv4/conf/link1/rp_filter /proc/sys/net/mptcp/enabled \
             /proc/sys/net/ipv4/fib_multipath_hash_policy",
            "ls /proc/sys/net/ipv4/conf",
        ]
        .map(|command| {
            let output = self.run(command);
            assert!(output.status.success(), "{command}: {output:?}");
            let text = String::from_utf8(output.stdout).unwrap().replace(" linkdown", "");
            // The kernel's own for link-local IPv6, whose order changes.
            let own = ["fe80::", "ff00::"];
            let lines = text.lines().filter(|line| !own.iter().any(|net| line.contains(net)));
            lines.collect::<Vec<_>>().join("\n")
        })
        .join("\n")
    }

    fn run(&self, command: &str) -> std::process::Output {
        Command::new("sh").args(["-c", command]).output().unwrap()
    }

    fn ip(&self, arguments: &str) {
        let output = self.run(&format!("ip {arguments}"));
        assert!(output.status.success(), "ip {arguments}: {output:?}");
    }

    fn far_ip(&self, arguments: &str) {
        self.far.run(|| self.ip(arguments)).unwrap();
    }
}

fn device(name: &str) -> Device {
    name.parse().unwrap()
}

fn egress(source: &str, gateway: Option<&str>) -> Egress {
    Egress { source: source.parse().unwrap(), gateway: gateway.map(|ip| ip.parse().unwrap()) }
}

fn bring_up(journal: &mut UndoJournal, setup: &Setup) {
    let failures = journal.reconcile(&setup.operations);
    assert!(failures.is_empty(), "{failures:?}");
    assert_eq!(setup.notes, [""; 0]);
}

fn take_down(journal: &mut UndoJournal) {
    let failures = journal.undo();
    assert!(failures.is_empty(), "{failures:?}");
}
