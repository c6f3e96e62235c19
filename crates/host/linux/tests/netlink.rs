//! Addresses, routes, rules and their changes, against the kernel and iproute2.

mod namespaces;

use braid_engines::{Family, RouteKind, Rule, RuleAction};
use braid_linux::netlink::{Change, Monitor, Netlink, Route};
use ipnet::IpNet;
use namespaces::namespace;
use std::process::Command;

#[test]
fn routes_and_addresses_are_set_listed_and_taken_back() {
    in_namespace(|| {
        let mut netlink = with_link();
        let before = state();
        let link = netlink.link("eth0").unwrap().index;
        for (address, gateway, other) in [
            ("10.0.0.2/24", "10.0.0.1", "192.0.2.0/24"),
            ("fd00::2/64", "fd00::1", "2001:db8::/32"),
        ] {
            let address: IpNet = address.parse().unwrap();
            netlink.add_address(link, address).unwrap();
            let exists = netlink.add_address(link, address).unwrap_err();
            assert_eq!(exists.kind(), std::io::ErrorKind::AlreadyExists);
            let listed = netlink.addresses().unwrap();
            let found = listed.iter().find(|found| found.net == address).unwrap();
            assert!(found.global && found.interface == link && found.valid_for.is_none());

            let any: IpNet = IpNet::new(address.addr(), 0).unwrap().trunc();
            let through = Route {
                table: 51_901,
                gateway: Some(gateway.parse().unwrap()),
                interface: Some(link),
                metric: 7,
                mtu: Some(1400),
                ..Route::to(any)
            };
            let closed = Route {
                kind: RouteKind::Unreachable,
                metric: 9,
                table: 51_901,
                ..Route::to(other.parse().unwrap())
            };
            netlink.add_route(&through).unwrap();
            netlink.add_route(&closed).unwrap();
            assert!(netlink.add_route(&through).is_err(), "it is there already");
            assert!(netlink.default_routes().unwrap().contains(&through));
            let listed = netlink.routes().unwrap();
            assert!(listed.iter().any(|route| {
                (route.destination, route.kind, route.metric, route.table)
                    == (closed.destination, closed.kind, 9, 51_901)
            }));
            let moved = Route { mtu: None, ..through.clone() };
            netlink.replace_route(&moved).unwrap();
            assert!(netlink.default_routes().unwrap().contains(&moved));
            netlink.delete_route(&moved).unwrap();
            netlink.delete_route(&closed).unwrap();
            assert!(netlink.delete_route(&closed).is_err(), "it is gone already");
            netlink.delete_address(link, address).unwrap();
        }
        assert_eq!(state(), before);
    });
}

#[test]
fn a_lease_of_an_address_is_seen() {
    in_namespace(|| {
        let mut netlink = with_link();
        ip("addr add 10.0.0.2/24 dev eth0 valid_lft 3600 preferred_lft 1800");
        let listed = netlink.addresses().unwrap();
        let leased = listed.iter().find(|it| it.net.addr().to_string() == "10.0.0.2").unwrap();
        let left = leased.valid_for.unwrap().as_secs();
        assert!(left > 0 && left <= 3600, "{left}");
    });
}

#[test]
fn gateways_of_multipath_and_of_the_other_ip_version_are_seen() {
    in_namespace(|| {
        let mut netlink = with_link();
        ip("addr add 10.0.0.2/24 dev eth0");
        ip("route add default nexthop via 10.0.0.1 dev eth0 nexthop via 10.0.0.3 dev eth0");
        ip("route add default via inet6 fe80::1 dev eth0 table 77");
        let found = netlink.default_routes().unwrap();
        let mut gateways: Vec<_> =
            found.iter().map(|route| route.gateway.unwrap().to_string()).collect();
        gateways.sort();
        assert_eq!(gateways, ["10.0.0.1", "10.0.0.3", "fe80::1"]);
    });
}

#[test]
fn rules_are_set_listed_and_taken_back() {
    in_namespace(|| {
        let mut netlink = with_link();
        let before = state();
        for (family, net) in [(Family::V4, "10.1.0.0/16"), (Family::V6, "fd01::/32")] {
            let lookup = |table| RuleAction::Lookup { table, suppress_prefix_len: None };
            let net: Option<IpNet> = Some(net.parse().unwrap());
            let main = RuleAction::Lookup { table: 254, suppress_prefix_len: Some(0) };
            let rules = [
                Rule::new(family, 5000, main),
                Rule { not: true, fwmark: Some(0xb1), ..Rule::new(family, 5001, lookup(51_900)) },
                Rule { from: net, to: net, ..Rule::new(family, 5002, lookup(1)) },
                Rule { outgoing: Some("eth0".into()), ..Rule::new(family, 5003, lookup(2)) },
                Rule {
                    incoming: Some("lo".into()),
                    ..Rule::new(family, 5004, RuleAction::Unreachable)
                },
                Rule::new(family, 5005, RuleAction::Blackhole),
            ];
            for rule in &rules {
                netlink.add_rule(rule).unwrap();
                assert!(netlink.add_rule(rule).is_err(), "it is there already");
                assert!(netlink.rules().unwrap().contains(rule), "{rule:?}");
            }
            for rule in &rules {
                netlink.delete_rule(rule).unwrap();
                assert!(!netlink.rules().unwrap().contains(rule));
            }
        }
        assert_eq!(state(), before);
    });
}

#[test]
fn changes_are_told() {
    in_namespace(|| {
        let mut netlink = with_link();
        let mut monitor = Monitor::open().unwrap();
        let link = netlink.link("eth0").unwrap().index;
        let net: IpNet = "10.0.0.2/24".parse().unwrap();
        let route = Route { interface: Some(link), ..Route::to("192.0.2.0/24".parse().unwrap()) };
        netlink.add_address(link, net).unwrap();
        netlink.add_route(&route).unwrap();
        netlink.delete_route(&route).unwrap();
        netlink.delete_address(link, net).unwrap();
        netlink.set_down("eth0").unwrap();
        netlink.delete_link("eth0").unwrap();
        let mut told = Vec::new();
        while let Some(change) = monitor.next_change().unwrap() {
            told.push(change);
        }
        let is = |test: &dyn Fn(&Change) -> bool| assert!(told.iter().any(test), "{told:?}");
        is(&|change| matches!(change, Change::Address(address) if address.net == net));
        is(&|change| matches!(change, Change::Route(told) if *told == route));
        is(&|change| matches!(change, Change::RouteGone(told) if *told == route));
        is(&|change| matches!(change, Change::AddressGone(address) if address.net == net));
        is(&|change| matches!(change, Change::Link(told) if told.name == "eth0" && !told.up));
        is(&|change| matches!(change, Change::LinkGone(told) if told.name == "eth0"));
    });
}

fn with_link() -> Netlink {
    let mut netlink = Netlink::open().unwrap();
    netlink.add_veth("eth0", "peer0", None).unwrap();
    // Link-local addresses would appear by themselves some time later.
    for name in ["eth0", "peer0"] {
        ip(&format!("link set {name} addrgenmode none"));
    }
    netlink.set_up("eth0").unwrap();
    netlink.set_up("peer0").unwrap();
    netlink
}

/// What iproute2 shows, except the multicast routes that the kernel adds in the background.
fn state() -> String {
    let lists = [
        "rule",
        "-6 rule",
        "-4 route show table all",
        "-6 route show table all",
        "-o addr show scope global",
    ];
    let all = lists.map(ip).concat();
    all.lines().filter(|line| !line.starts_with("multicast")).collect::<Vec<_>>().join("\n")
}

fn ip(arguments: &str) -> String {
    let output = Command::new("ip").args(arguments.split(' ')).output().unwrap();
    assert!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn in_namespace(test: impl FnOnce() + Send) {
    if let Some(namespace) = namespace() {
        namespace.run(test).unwrap();
    }
}
