mod tools;

use super::*;
use crate::*;
use std::path::PathBuf;

fn device(name: &str) -> Device {
    name.parse().unwrap()
}

/// Two lines with routers, one heavier.
fn group(engine: Engine) -> Group {
    let link = |number: u32, name: &str, weight: u8| GroupLink {
        name: name.into(),
        egresses: vec![Egress {
            source: format!("192.0.{number}.7/24").parse().unwrap(),
            gateway: format!("192.0.{number}.1").parse().ok(),
        }],
        remote: "203.0.113.9".parse().ok(),
        weight: weight.try_into().unwrap(),
        ..GroupLink::new(number, device(&format!("eth{number}")))
    };
    let routed = engine.kind().routes();
    Group {
        name: device(if engine == Engine::Teql { "teql0" } else { "all0" }),
        addresses: match engine {
            Engine::PppoeMultilink(_) => Vec::new(),
            _ => vec!["10.9.0.1/24".parse().unwrap()],
        },
        engine,
        over: Over::Direct,
        mtu: None,
        routes: vec![if routed { "0.0.0.0/0" } else { "10.20.0.0/16" }.parse().unwrap()],
        gateway: "10.9.0.2".parse().ok().filter(|_| !routed),
        links: vec![link(1, "dsl", 1), link(2, "cable", 1)],
        numbers: Numbers::of("all0"),
        state_dir: PathBuf::from("/var/lib/braid"),
    }
}

fn bond(mode: BondMode) -> Group {
    group(Engine::Bonding(Bonding { mode, ..Bonding::default() }))
}

fn weighted(mut group: Group) -> Group {
    group.links[0].weight = 2.try_into().unwrap();
    group
}

fn over(mut group: Group, over: Over) -> Group {
    group.over = over;
    group
}

/// The other end.
fn second(mut group: Group) -> Group {
    group.addresses = vec!["10.9.0.2/24".parse().unwrap()];
    group.gateway = "10.9.0.1".parse().ok();
    group.routes = vec!["192.168.1.0/24".parse().unwrap()];
    for link in &mut group.links {
        link.egresses[0].source = format!("203.0.113.{}/24", link.number).parse().unwrap();
        link.egresses[0].gateway = "203.0.113.254".parse().ok();
        link.remote = format!("192.0.{}.7", link.number).parse().ok();
    }
    group
}

fn wireguard(end: End) -> Over {
    let settings = WireGuard {
        private_key_file: "/etc/braid/wg.key".into(),
        peer_public_key: "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=".into(),
        port: 51821,
    };
    Over::WireGuard { end, settings }
}

/// The groups exported in the tests: every engine, and every carrier.
fn groups() -> Vec<(&'static str, Group)> {
    let lacp = Bonding {
        mode: BondMode::Ieee8023ad,
        lacp_rate: LacpRate::Fast,
        min_links: 1,
        ..Bonding::default()
    };
    let arp = Bonding {
        mode: BondMode::ActiveBackup,
        monitor: Monitor::Arp {
            interval_ms: 100,
            targets: vec!["10.9.0.2".parse().unwrap()],
            validate: true,
        },
        primary: Some(device("cable")),
        ..Bonding::default()
    };
    let pppoe = Pppoe { role: PppoeRole::Client, user: Some("me@isp".into()), ..Pppoe::default() };
    let server = Pppoe {
        role: PppoeRole::Server,
        server: "10.9.0.1".parse().ok(),
        client: "10.9.0.2".parse().ok(),
        ..Pppoe::default()
    };
    let resilient = Resilient { buckets: 128, idle_timer_s: 120, unbalanced_timer_s: 0 };
    let turns = Pcc::default();
    let hashed = Pcc { classifier: Classifier::Flow, masquerade: true };
    vec![
        ("bond-rr", bond(BondMode::BalanceRr)),
        ("bond-lacp", group(Engine::Bonding(lacp))),
        ("bond-arp", group(Engine::Bonding(arp))),
        ("bond-gretap", over(bond(BondMode::BalanceRr), Over::Gretap { end: End::First })),
        (
            "bond-vxlan",
            over(bond(BondMode::BalanceXor), Over::Vxlan { end: End::First, port: 4789 }),
        ),
        ("bond-wireguard", over(bond(BondMode::BalanceRr), wireguard(End::First))),
        ("bond-wireguard-second", second(over(bond(BondMode::BalanceRr), wireguard(End::Second)))),
        ("team", group(Engine::Team(Team { runner: Runner::LoadBalance, ..Team::default() }))),
        ("teql", group(Engine::Teql)),
        ("ecmp", group(Engine::Ecmp(Ecmp::default()))),
        ("ecmp-nat", group(Engine::Ecmp(Ecmp { masquerade: true, ..Ecmp::default() }))),
        (
            "ecmp-resilient",
            weighted(group(Engine::Ecmp(Ecmp { resilient: Some(resilient), ..Ecmp::default() }))),
        ),
        ("mptcp", group(Engine::Mptcp(Mptcp::default()))),
        ("pppoe", group(Engine::PppoeMultilink(pppoe))),
        ("pppoe-server", group(Engine::PppoeMultilink(server))),
        ("pcc", weighted(group(Engine::Pcc(turns)))),
        ("pcc-hashed", group(Engine::Pcc(hashed))),
    ]
}

fn golden() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/exports")
}

/// The expected exports are in `tests/exports`. After an intended change, rewrite them with
/// `BRAID_WRITE_EXPORTS=1 cargo test -p braid-engines` and review the difference.
#[test]
fn exports_are_as_written_down() {
    let write = std::env::var_os("BRAID_WRITE_EXPORTS").is_some();
    let mut different = Vec::new();
    for (name, group) in groups() {
        assert_eq!(group.check(), [], "{name}");
        for format in Format::ALL {
            let text = match export(&group, *format) {
                Ok(files) => files
                    .iter()
                    .map(|file| format!("==> {}\n{}", file.path, file.contents))
                    .collect::<Vec<_>>()
                    .join("\n"),
                Err(error) => format!("{error}\n"),
            };
            let file = golden().join(format!("{name}.{format}"));
            if write {
                std::fs::write(&file, &text).unwrap();
            } else if std::fs::read_to_string(&file).unwrap_or_default() != text {
                different.push(format!("{}:\n{text}", file.display()));
            }
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
}

#[test]
fn what_a_format_cant_say_it_names() {
    for (name, group) in groups() {
        assert!(export(&group, Format::Iproute2).is_ok(), "{name}: a script can all");
    }
    for (engine, format) in [
        (Engine::Teql, Format::Routeros),
        (Engine::Mptcp(Mptcp::default()), Format::Networkd),
        (Engine::Team(Team::default()), Format::Netplan),
        (Engine::Pcc(Pcc::default()), Format::Ifupdown),
        (Engine::Ecmp(Ecmp::default()), Format::Openwrt),
    ] {
        let kind = engine.kind();
        let error = export(&group(engine), format).unwrap_err().to_string();
        assert!(error.contains(kind.as_str()) && error.contains(format.as_str()), "{error}");
    }
}

#[test]
fn the_routeros_walk_has_all_its_steps_in_order() {
    let group = over(bond(BondMode::BalanceRr), wireguard(End::First));
    let files = export(&group, Format::Routeros).unwrap();
    let text = &files[0].contents;
    let steps = [
        "/routing table add name=by-dsl fib",
        "gateway=192.0.1.1%eth1 check-gateway=ping routing-table=by-dsl",
        "/interface wireguard add name=wg-cable listen-port=51822",
        "/interface wireguard peers add interface=wg-cable",
        "/interface eoip add name=eoip-dsl tunnel-id=7001 mtu=1398 local-address=169.254.77.5 remote-address=169.254.77.6",
        "/interface bonding add name=all0 mode=balance-rr slaves=eoip-dsl,eoip-cable",
        "/ip address add address=10.9.0.1/24 interface=all0",
        "action=change-mss new-mss=clamp-to-pmtu",
    ];
    let mut from = 0;
    for step in steps {
        let found = text[from..].find(step);
        from += found.unwrap_or_else(|| panic!("{step} is missing after {from} in\n{text}"));
    }
}

#[test]
fn both_ends_of_the_routeros_walk_fit_each_other() {
    let walk = |group: &Group| export(group, Format::Routeros).unwrap()[0].contents.clone();
    // Values of a key, of all lines of a command, in order.
    let values = |text: &str, command: &str, key: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| line.starts_with(command));
        let key = format!(" {key}=");
        lines
            .map(|line| {
                let from = line.find(&key).unwrap_or_else(|| panic!("{key} in {line}")) + key.len();
                line[from..].split(' ').next().unwrap().to_owned()
            })
            .collect()
    };
    let gretap = |end| over(bond(BondMode::BalanceRr), Over::Gretap { end });
    for (first, other) in [
        (gretap(End::First), second(gretap(End::Second))),
        (
            over(bond(BondMode::BalanceRr), wireguard(End::First)),
            second(over(bond(BondMode::BalanceRr), wireguard(End::Second))),
        ),
    ] {
        let (one, two) = (walk(&first), walk(&other));
        let eoip = "/interface eoip add";
        assert_eq!(values(&one, eoip, "tunnel-id"), values(&two, eoip, "tunnel-id"));
        assert_eq!(values(&one, eoip, "mtu"), values(&two, eoip, "mtu"));
        if let Over::WireGuard { .. } = first.over {
            assert_eq!(
                values(&one, eoip, "local-address"),
                values(&two, eoip, "remote-address"),
                "EoIP is between the tunnels' inner addresses"
            );
            let peer = "/interface wireguard peers add";
            let wireguard = "/interface wireguard add";
            assert_eq!(values(&one, peer, "endpoint-port"), values(&two, wireguard, "listen-port"));
            assert_eq!(values(&one, peer, "endpoint-address"), ["203.0.113.9"; 2]);
            assert_eq!(values(&two, peer, "endpoint-address"), ["192.0.1.7", "192.0.2.7"]);
        }
        for text in [&one, &two] {
            let routers = text.matches(" check-gateway=ping routing-table=by-").count();
            assert_eq!(routers, 2, "a table a link, as long as its router answers");
            assert!(text.contains("/interface bonding add name=all0"), "{text}");
            assert_eq!(text.matches("new-mss=clamp-to-pmtu").count(), 2);
            // A comment has its line.
            assert!(text.lines().all(|line| !line.trim_start_matches('#').contains('#')));
        }
    }
}
