//! Our requests to the kernel, compared byte for byte with those of iproute2 and wg(8) for the same
//! purpose, which were captured (`tests/requests/capture.sh`). This tests them even if the running
//! kernel lacks bonding, TEQL or WireGuard.

#![allow(unsafe_code)]

use super::link::header;
use super::message::{HEADER_LEN, Request, attributes, messages, string, u16_at};
use super::{Endpoint, Generic, Limits, Netlink, Route};
use braid_engines::{
    BondMode, Bonding, DeviceKind, Family, LacpRate, Member, Monitor, PrimaryReselect, Resilient,
    Rule, RuleAction, XmitHash,
};
use std::io;
use std::net::IpAddr;
use std::os::fd::{FromRawFd, OwnedFd};
use std::thread;

const CAPTURED: &str = include_str!("../../tests/requests/captured.txt");
/// Indexes of the devices when iproute2's requests were captured.
const DEVICES: [(&str, u32); 3] = [("eth1", 11), ("eth2", 12), ("all0", 13)];
const ETH1: u32 = 11;
/// The number of the generic netlink family.
const FAMILY: u16 = 28;

#[test]
fn bonds_of_every_mode_and_their_settings() {
    let bond = |mode| Bonding {
        mode,
        hash: XmitHash::Layer23,
        monitor: Monitor::Carrier { interval_ms: 100, up_delay_ms: 0, down_delay_ms: 0 },
        primary: None,
        primary_reselect: PrimaryReselect::Always,
        lacp_rate: LacpRate::Fast,
        min_links: 2,
        packets_per_port: 2,
        resend_igmp: 1,
        peer_notifications: 1,
    };
    let targets = ["10.9.0.2", "10.9.0.3"].map(|ip| ip.parse().unwrap()).to_vec();
    let arp = Monitor::Arp { interval_ms: 100, targets, validate: true };
    let delays = Monitor::Carrier { interval_ms: 100, up_delay_ms: 200, down_delay_ms: 300 };
    for (words, bonding) in [
        (
            "balance-rr miimon 100 updelay 200 downdelay 300 packets_per_slave 2 resend_igmp 3 num_grat_arp 4",
            Bonding {
                monitor: delays,
                resend_igmp: 3,
                peer_notifications: 4,
                ..bond(BondMode::BalanceRr)
            },
        ),
        (
            "active-backup arp_interval 100 arp_ip_target 10.9.0.2,10.9.0.3 arp_validate all primary_reselect better resend_igmp 1 num_grat_arp 1",
            Bonding {
                monitor: arp,
                primary_reselect: PrimaryReselect::Better,
                ..bond(BondMode::ActiveBackup)
            },
        ),
        (
            "broadcast miimon 100 updelay 0 downdelay 0 resend_igmp 1 num_grat_arp 1",
            bond(BondMode::Broadcast),
        ),
        (
            "802.3ad miimon 100 updelay 0 downdelay 0 xmit_hash_policy layer3+4 lacp_rate fast min_links 2 resend_igmp 1 num_grat_arp 1",
            Bonding { hash: XmitHash::Layer34, ..bond(BondMode::Ieee8023ad) },
        ),
        (
            "balance-tlb miimon 100 updelay 0 downdelay 0 primary_reselect failure resend_igmp 1 num_grat_arp 1",
            Bonding { primary_reselect: PrimaryReselect::Failure, ..bond(BondMode::BalanceTlb) },
        ),
        (
            "balance-alb miimon 100 updelay 0 downdelay 0 primary_reselect always resend_igmp 1 num_grat_arp 1",
            bond(BondMode::BalanceAlb),
        ),
    ] {
        same(&format!("ip link add new0 type bond mode {words}"), |mut netlink| {
            netlink.add_device(&"new0".parse().unwrap(), &DeviceKind::Bond(bonding))
        });
    }
    for &hash in XmitHash::ALL {
        let words = format!(
            "balance-xor miimon 100 updelay 0 downdelay 0 xmit_hash_policy {hash} resend_igmp 1 num_grat_arp 1"
        );
        same(&format!("ip link add new0 type bond mode {words}"), |mut netlink| {
            let bonding = Bonding { hash, ..bond(BondMode::BalanceXor) };
            netlink.add_device(&"new0".parse().unwrap(), &DeviceKind::Bond(bonding))
        });
    }
    same("ip link set all0 type bond primary eth2", |mut netlink| {
        netlink.set_bond_primary("all0", "eth2")
    });
}

#[test]
fn ports_and_teql() {
    same("ip link set eth1 master all0", |mut netlink| netlink.set_bridge("eth1", "all0"));
    same("ip link set eth1 nomaster", |mut netlink| netlink.release_port("eth1"));
    same("ip link set eth1 up", |mut netlink| netlink.set_up("eth1"));
    same("ip link set eth1 down", |mut netlink| netlink.set_down("eth1"));
    same("ip link set eth1 mtu 1400", |mut netlink| netlink.set_mtu("eth1", 1400));
    same("ip link del eth2", |mut netlink| netlink.delete_link("eth2"));
    same("tc qdisc add dev eth1 root teql0", |mut netlink| netlink.add_root_qdisc(ETH1, "teql0"));
    same("tc qdisc del dev eth1 root", |mut netlink| netlink.delete_root_qdisc(ETH1));
}

#[test]
fn tunnels_of_links() {
    let (local, remote) = ("192.0.2.7", "203.0.113.9");
    let (local6, remote6) = ("2001:db8::7", "2001:db8:9::9");
    let create = |kind: DeviceKind| {
        move |mut netlink: Netlink| netlink.add_device(&"new0".parse().unwrap(), &kind)
    };
    let gretap = |local: &str, remote: &str| DeviceKind::Gretap {
        local: address(local),
        remote: address(remote),
        key: 7001,
        via: "eth1".parse().ok(),
    };
    // iproute2 also states the kernel's defaults: path MTU discovery, no TOS, no mark, no
    // encapsulation.
    same_but(
        "ip link add new0 type gretap local 192.0.2.7 remote 203.0.113.9 key 7001 ttl 64 dev eth1",
        &["18/2/9", "18/2/10", "18/2/14", "18/2/15", "18/2/16", "18/2/17", "18/2/20"],
        &[],
        create(gretap(local, remote)),
    );
    same_but(
        "ip link add new0 type ip6gretap local 2001:db8::7 remote 2001:db8:9::9 key 7001 ttl 64 encaplimit none dev eth1",
        &["18/2/11", "18/2/12", "18/2/14", "18/2/15", "18/2/16", "18/2/17", "18/2/20", "18/2/22"],
        &[],
        create(gretap(local6, remote6)),
    );
    let vxlan = |local: &str, remote: &str| DeviceKind::Vxlan {
        id: 7001,
        local: address(local),
        remote: address(remote),
        port: 4789,
        via: "eth1".parse().unwrap(),
    };
    // Address learning.
    let learning = &["18/2/7"];
    same_but(
        "ip link add new0 type vxlan id 7001 local 192.0.2.7 remote 203.0.113.9 dstport 4789 ttl 64 dev eth1",
        learning,
        &[],
        create(vxlan(local, remote)),
    );
    same_but(
        "ip link add new0 type vxlan id 7001 local 2001:db8::7 remote 2001:db8:9::9 dstport 4789 ttl 64 dev eth1",
        learning,
        &[],
        create(vxlan(local6, remote6)),
    );
    let wireguard = DeviceKind::WireGuard {
        private_key_file: "/nowhere".into(),
        port: 51_821,
        peer_public_key: String::new(),
        endpoint: "192.0.2.9:51821".parse().unwrap(),
        mark: 0,
    };
    // Without settings.
    same_but("ip link add new0 type wireguard", &[], &["18/2"], create(wireguard));
}

#[test]
fn next_hops_and_their_groups() {
    same("ip nexthop add id 71 via 192.0.2.1 dev eth1 onlink protocol 177", |mut netlink| {
        netlink.add_next_hop(71, ETH1, Some(address("192.0.2.1")), false, true)
    });
    same("ip nexthop add id 72 via 2001:db8::1 dev eth1 protocol 177", |mut netlink| {
        netlink.add_next_hop(72, ETH1, Some(address("2001:db8::1")), true, false)
    });
    same("ip -4 nexthop add id 73 dev eth1 protocol 177", |mut netlink| {
        netlink.add_next_hop(73, ETH1, None, false, false)
    });
    let members = |weights: [u8; 2]| {
        [71, 73]
            .into_iter()
            .zip(weights)
            .map(|(id, weight)| Member { id, weight: weight.try_into().unwrap() })
            .collect::<Vec<_>>()
    };
    same("ip nexthop replace id 70 group 71,3/73,1", |mut netlink| {
        netlink.set_next_hop_group(70, &members([3, 1]), None)
    });
    let resilient = Resilient { buckets: 64, idle_timer_s: 5, unbalanced_timer_s: 9 };
    same(
        "ip nexthop replace id 70 group 71/73 type resilient buckets 64 idle_timer 5 unbalanced_timer 9",
        |mut netlink| netlink.set_next_hop_group(70, &members([1, 1]), Some(resilient)),
    );
    same("ip nexthop del id 70", |mut netlink| netlink.delete_next_hop(70));
}

#[test]
fn routes_and_rules() {
    let route = |net: &str, table| Route { table, ..Route::to(net.parse().unwrap()) };
    let by_eth1 = |net: &str, gateway: Option<&str>| Route {
        gateway: gateway.map(address),
        interface: Some(ETH1),
        ..route(net, 537_823)
    };
    same(
        "ip route add 10.20.0.0/16 nhid 70 src 192.0.2.7 table 537760 protocol static",
        |mut netlink| {
            netlink.add_route(&Route {
                next_hop: Some(70),
                source: Some(address("192.0.2.7")),
                ..route("10.20.0.0/16", 537_760)
            })
        },
    );
    same(
        "ip route add default via 192.0.2.1 dev eth1 table 537823 protocol static",
        |mut netlink| netlink.add_route(&by_eth1("0.0.0.0/0", Some("192.0.2.1"))),
    );
    same("ip route add 192.0.2.0/24 dev eth1 table 537823 protocol static", |mut netlink| {
        netlink.add_route(&by_eth1("192.0.2.0/24", None))
    });
    same(
        "ip route add 10.20.0.0/16 via 10.9.0.2 dev eth1 onlink metric 50 table 254 protocol static",
        |mut netlink| {
            netlink.add_route(&Route {
                table: 254,
                metric: 50,
                on_link: true,
                ..by_eth1("10.20.0.0/16", Some("10.9.0.2"))
            })
        },
    );
    // It states the destination even for a default route.
    same_but(
        "ip -6 route add default via 2001:db8::1 dev eth1 table 537823 protocol static",
        &["1"],
        &[],
        |mut netlink| netlink.add_route(&by_eth1("::/0", Some("2001:db8::1"))),
    );

    let lookup = |table, suppress_prefix_len| RuleAction::Lookup { table, suppress_prefix_len };
    same("ip rule add from 192.0.2.7/32 lookup 537823 priority 30223", |mut netlink| {
        let rule = Rule::new(Family::V4, 30_223, lookup(537_823, None));
        netlink.add_rule(&Rule { from: "192.0.2.7/32".parse().ok(), ..rule })
    });
    // "from all" is an empty address; all bits of a mark are compared by default.
    same_but(
        "ip -6 rule add from all fwmark 0x5001 lookup 537824 priority 30224",
        &["2"],
        &["16"],
        |mut netlink| {
            let rule = Rule::new(Family::V6, 30_224, lookup(537_824, None));
            netlink.add_rule(&Rule { fwmark: Some(0x5001), ..rule })
        },
    );
    same_but(
        "ip rule add from all lookup 254 priority 30160 suppress_prefixlength 0",
        &["2"],
        &[],
        |mut netlink| netlink.add_rule(&Rule::new(Family::V4, 30_160, lookup(254, Some(0)))),
    );
}

#[test]
fn the_path_manager_of_mptcp() {
    let manager = |netlink| Generic::by(netlink, "mptcp_pm", 1).unwrap();
    let endpoint = |id, ip| Endpoint {
        id,
        address: address(ip),
        interface: Some(ETH1),
        subflow: false,
        signal: false,
        backup: false,
        fullmesh: false,
    };
    same("ip mptcp limits set subflows 5 add_addr_accepted 6", |netlink| {
        manager(netlink).set_mptcp_limits(Limits { subflows: 5, add_addr_accepted: 6 })
    });
    same("ip mptcp endpoint add 192.0.2.7 dev eth1 id 177 subflow backup fullmesh", |netlink| {
        let flags =
            Endpoint { subflow: true, backup: true, fullmesh: true, ..endpoint(177, "192.0.2.7") };
        manager(netlink).add_mptcp_endpoint(&flags)
    });
    same("ip mptcp endpoint add 2001:db8::7 dev eth1 id 178 signal", |netlink| {
        manager(netlink)
            .add_mptcp_endpoint(&Endpoint { signal: true, ..endpoint(178, "2001:db8::7") })
    });
    same("ip mptcp endpoint del id 177", |netlink| manager(netlink).delete_mptcp_endpoint(177));
}

#[test]
fn the_keys_and_the_peer_of_a_wireguard_device() {
    // 32 bytes each, as the file's base64 has them.
    let private =
        from_hexadecimal("e0feef524cc2906473124c75b96915b97cab77ece61e2f614778f447bbd1a159");
    let peer = from_hexadecimal("8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a");
    for endpoint in ["203.0.113.9:51822", "[2001:db8:9::9]:51822"] {
        same(&format!("wg setconf new0 {endpoint}"), |netlink| {
            let private = private.as_slice().try_into().unwrap();
            let peer = peer.as_slice().try_into().unwrap();
            let endpoint = endpoint.parse().unwrap();
            let mut wireguard = Generic::by(netlink, "wireguard", 1)?;
            wireguard.set_wireguard("new0", private, 51_821, 0x5101, peer, endpoint)
        });
    }
}

/// Our request equals that of this command.
fn same(command: &str, ask: impl FnOnce(Netlink) -> io::Result<()>) {
    same_but(command, &[], &[], ask);
}

/// Like `same`, except for attributes that only theirs or only ours has, given as paths of numbers
/// from the outermost attribute.
fn same_but(
    command: &str,
    only_theirs: &[&str],
    only_ours: &[&str],
    ask: impl FnOnce(Netlink) -> io::Result<()>,
) {
    let mut lines = CAPTURED.lines().skip_while(|line| line.strip_prefix("# ") != Some(command));
    let theirs = lines.nth(1).unwrap_or_else(|| panic!("nobody asked `{command}`"));
    let mut theirs = Asked::read(&from_hexadecimal(theirs));
    let mut ours = Asked::read(&asked(ask));
    for (asked, only, other) in
        [(&mut theirs, only_theirs, only_ours), (&mut ours, only_ours, only_theirs)]
    {
        assert!(only.iter().all(|path| !other.contains(path)));
        for path in only {
            let before = asked.attributes.len();
            asked.attributes.retain(|(found, _)| found != path);
            assert_ne!(asked.attributes.len(), before, "{command}: {path} is there");
        }
    }
    assert_eq!(ours, theirs, "{command}");
}

/// A request taken apart. The order of attributes doesn't matter to the kernel, except among equal
/// ones.
#[derive(Debug, PartialEq, Eq)]
struct Asked {
    kind: u16,
    flags: u16,
    fixed: Vec<u8>,
    attributes: Vec<(String, Vec<u8>)>,
}

impl Asked {
    fn read(bytes: &[u8]) -> Asked {
        let message = messages(bytes).next().expect("a request");
        let length = match message.kind {
            libc::RTM_NEWLINK..=libc::RTM_SETLINK => 16,
            libc::RTM_NEWROUTE..=libc::RTM_GETROUTE | libc::RTM_NEWRULE..=libc::RTM_GETRULE => 12,
            libc::RTM_NEWQDISC..=libc::RTM_GETQDISC => 20,
            104..=106 => 8,
            FAMILY => 4,
            other => panic!("a request of kind {other}"),
        };
        let (fixed, rest) = message.body.split_at(length);
        let mut asked = Asked {
            kind: message.kind,
            flags: u16_at(bytes, 6).unwrap(),
            fixed: fixed.to_vec(),
            attributes: Vec::new(),
        };
        asked.walk("", rest);
        // Small table numbers are in the header, too.
        let table = match message.kind {
            libc::RTM_NEWROUTE..=libc::RTM_GETROUTE => Some("15"),
            libc::RTM_NEWRULE..=libc::RTM_GETRULE => Some("15"),
            _ => None,
        };
        if let Some(path) = table {
            let small = std::mem::take(&mut asked.fixed[4]);
            if asked.attributes.iter().all(|(found, _)| found != path) {
                asked.attributes.push((path.to_owned(), u32::from(small).to_ne_bytes().to_vec()));
            }
        }
        asked.attributes.sort_by(|(a, _), (b, _)| a.cmp(b));
        asked
    }

    fn walk(&mut self, above: &str, bytes: &[u8]) {
        for (kind, payload) in attributes(bytes) {
            let path = if above.is_empty() { kind.to_string() } else { format!("{above}/{kind}") };
            match self.is_nest(&path) && !payload.is_empty() {
                true => self.walk(&path, payload),
                false => self.attributes.push((path, payload.to_vec())),
            }
        }
    }

    /// Whether an attribute holds others, as linux/if_link.h and its like have it;
    /// iproute2 doesn't mark them all.
    fn is_nest(&self, path: &str) -> bool {
        let bond = self.attributes.iter().any(|(path, kind)| path == "18/1" && kind == b"bond");
        match (self.kind, path) {
            (libc::RTM_NEWLINK, "18" | "18/2") => true,
            (libc::RTM_NEWLINK, "18/2/8") => bond,
            (104, "12") => true,
            // MPTCP's address; WireGuard's peers and their allowed IPs.
            (FAMILY, "1" | "8" | "8/0" | "8/0/9" | "8/0/9/0") => true,
            _ => false,
        }
    }
}

/// The one request of `ask` that changes something.
fn asked(ask: impl FnOnce(Netlink) -> io::Result<()>) -> Vec<u8> {
    let mut ends = [0; 2];
    // SAFETY: the array has room for two descriptors.
    let made = unsafe {
        libc::socketpair(
            libc::AF_UNIX,
            libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC,
            0,
            ends.as_mut_ptr(),
        )
    };
    assert_eq!(made, 0);
    // SAFETY: both descriptors were just created and have no other owner.
    let [ours, kernels] = ends.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
    let kernel = thread::spawn(move || be_the_kernel(kernels));
    ask(Netlink::over(ours)).unwrap();
    let changes = kernel.join().unwrap();
    assert_eq!(changes.len(), 1, "one request");
    changes.into_iter().next().unwrap()
}

/// Plays the kernel: knows a few devices and families, acknowledges everything, and records it.
fn be_the_kernel(socket: OwnedFd) -> Vec<Vec<u8>> {
    let mut socket = std::fs::File::from(socket);
    let mut changes = Vec::new();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let length = std::io::Read::read(&mut socket, &mut buffer).unwrap();
        let request = &buffer[..length];
        let Some(message) = messages(request).next() else { return changes };
        let sequence = message.sequence;
        let mut answer = Vec::new();
        match message.kind {
            libc::RTM_GETLINK => {
                let name =
                    attributes(&message.body[16..]).find(|(kind, _)| *kind == libc::IFLA_IFNAME);
                let name = string(name.expect("a name").1);
                let known = DEVICES.iter().find(|(known, _)| *known == name);
                let index = known.unwrap_or_else(|| panic!("no device {name}")).1;
                let link = Request::new(libc::RTM_NEWLINK, 0).fixed(&header(index, 0, 0));
                answer = link.string(libc::IFLA_IFNAME, &name).finish(sequence);
            }
            // `GENL_ID_CTRL`: `CTRL_ATTR_FAMILY_ID`.
            16 if message.body[0] == 3 => {
                let family = Request::new(16, 0).fixed(&[1, 2, 0, 0]);
                answer = family.attribute(1, &FAMILY.to_ne_bytes()).finish(sequence);
            }
            _ => changes.push(request.to_vec()),
        }
        let agreed =
            Request::new(libc::NLMSG_ERROR as u16, 0).fixed(&[0; 4]).fixed(&request[..HEADER_LEN]);
        answer.extend(agreed.finish(sequence));
        std::io::Write::write_all(&mut socket, &answer).unwrap();
    }
}

fn from_hexadecimal(text: &str) -> Vec<u8> {
    let digit = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    (0..text.len()).step_by(2).map(digit).collect()
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}
