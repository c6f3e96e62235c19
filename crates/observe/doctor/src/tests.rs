//! Plants each finding into a healthy tunnel's facts, and checks that only it is found.

use super::*;
use braid_control::config::{Config, Layer, Mode};
use braid_control::status::{
    AlertStatus, LinkStatus, PathState, PathStatus, PeerStatus, QuotaStatus, SplitTcpStatus,
    Status, Trouble, TroubleKind,
};
use braid_history::{Event, EventKind, Severity};
use std::path::Path;
use std::time::Duration;

const NOW: i64 = 1_800_000_000;

/// Two links, a concentrator, nothing to find.
fn healthy() -> Facts {
    let text = "[interface]\nprivate_key_file = \"k\"\naddresses = [\"10.77.0.2/24\", \"fd77::2/64\"]\n\
                [[link]]\nname = \"dsl\"\ninterface = \"eth1\"\ncap = { down = \"40Mbit\" }\n\
                [[link]]\nname = \"lte\"\ninterface = \"wwan0\"\nquota = { bytes = \"20GB\", per = \"month\" }\n\
                [[peer]]\nname = \"c\"\npublic_key = \"hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=\"\n\
                endpoints = [\"192.0.2.1:51900\"]\nallowed_ips = [\"0.0.0.0/0\", \"::/0\"]\n\
                [routing]\ndefault_route = true\nmasquerade = true";
    let status = status();
    Facts {
        config: Config::parse(text, Path::new("c.toml")).unwrap(),
        earlier: Some(status.clone()),
        status: Some(status),
        between: Duration::from_secs(1),
        host: HostFacts {
            has_tun: true,
            has_nft: true,
            kernel: Some((6, 12)),
            links: vec![link("dsl", "eth1", 1), link("lte", "wwan0", 2)],
            forwarding: Some((true, true)),
            clock_synchronized: Some(true),
            conntrack: Some((500, 65536)),
            state_free_bytes: Some(1 << 30),
            counters: Counters { udp_receive_buffer: 7, card_errors: vec![3, 0] },
            earlier_counters: Counters { udp_receive_buffer: 7, card_errors: vec![3, 0] },
            load: Some(Load { busiest_thread: 0.3, waited: 0.1, all: 0.2, stolen: 0.01 }),
            routes: RouteFacts {
                ipv6_devices: vec!["eth1".into()],
                ipv6_default: vec!["braid0".into()],
                ..RouteFacts::default()
            },
            unknown_endpoints: Vec::new(),
        },
        events: Vec::new(),
        measured: Some(Measured {
            links: vec![measure("dsl", 30.0), measure("lte", 12.0)],
            together: Rates { down: 40.0, up: 8.0 },
            one_connection: Rates { down: 38.0, up: 8.0 },
            load_there: Some(0.2),
        }),
        now: NOW,
    }
}

fn link(name: &str, device: &str, net: u8) -> LinkFacts {
    LinkFacts {
        name: name.into(),
        device: Some(device.into()),
        exists: true,
        up: true,
        carrier: true,
        mtu: 1500,
        addresses: vec![(format!("192.168.{net}.5").parse().unwrap(), 24)],
        gateways: vec![format!("192.168.{net}.1").parse().unwrap()],
        rp_filter: 1,
        speed_mbps: Some(1000),
        full_duplex: Some(true),
        ..LinkFacts::default()
    }
}

fn measure(link: &str, down: f64) -> LinkMeasure {
    LinkMeasure {
        link: link.into(),
        rates: Rates { down, up: down / 5.0 },
        first_half_down: down,
        second_half_down: down,
        as_part: None,
    }
}

fn status() -> Status {
    let link = |name: &str| LinkStatus {
        name: name.into(),
        interface: None,
        present: true,
        trouble: None,
        portal: None,
        tier: 0,
        metered: false,
        standby: false,
        quota: Some(QuotaStatus {
            limit_bytes: 100,
            used_bytes: 30,
            period_start_unix: Some(NOW - 15 * 86_400),
            period_end_unix: Some(NOW + 15 * 86_400),
        }),
    };
    let path = |name: &str, down: f64| PathStatus {
        link: name.into(),
        remote: "192.0.2.1:51900".parse().ok(),
        state: PathState::Active,
        srtt_ms: Some(40.0),
        min_rtt_ms: Some(30.0),
        unloaded_rtt_ms: Some(28.0),
        jitter_ms: Some(5.0),
        one_way_delta_ms: Some(10.0),
        queue_ms: Some(8.0),
        rate_rx_mbps: Some(down / 2.0),
        capacity_tx_mbps: Some(down / 5.0),
        loss: 0.003,
        mtu: 1452,
        tx_packets: 100_000,
        rx_packets: 200_000,
        ..PathStatus::default()
    };
    Status {
        version: "1".into(),
        interface: "braid0".into(),
        pid: 1,
        layer: Layer::L3,
        mode: Mode::Adaptive,
        mtu: 1500,
        drops: Default::default(),
        uptime_s: 1000.0,
        draining: false,
        fleet: None,
        listen: Vec::new(),
        links: vec![link("dsl"), link("lte")],
        warnings: Vec::new(),
        troubles: Vec::new(),
        rules: Vec::new(),
        peers: vec![PeerStatus {
            name: "c".into(),
            connected: true,
            last_handshake_s: Some(50.0),
            paths: vec![path("dsl", 30.0), path("lte", 12.0)],
            ..PeerStatus::default()
        }],
        dns: Default::default(),
        traffic: None,
        split_tcp: Some(SplitTcpStatus { running: true, ..SplitTcpStatus::default() }),
        alerts: vec![AlertStatus { name: "phone".into(), ..AlertStatus::default() }],
    }
}

/// As a daemon reports it; the text is only for people.
fn warn(status: &mut Status, kind: TroubleKind) {
    let text = format!("words that say nothing to a program, {}", status.warnings.len());
    status.warnings.push(text.clone());
    status.troubles.push(Trouble { kind, text, mend: Some("mend it".into()) });
}

/// Makes each finding occur.
#[expect(clippy::too_many_lines, reason = "a line or two for each code")]
fn plant(code: Code, facts: &mut Facts) {
    let Facts { config, status, host, events, measured, .. } = facts;
    let Some(tunnel) = status else { return };
    let measured = measured.get_or_insert_default();
    match code {
        Code::NotRunning => *status = None,
        Code::NoTun => host.has_tun = false,
        Code::NoNft => host.has_nft = false,
        Code::PeerGone => {
            tunnel.peers[0].connected = false;
            for path in &mut tunnel.peers[0].paths {
                path.state = PathState::Down;
            }
        }
        Code::PeerTrouble => tunnel.peers[0].trouble = Some("the join line is used up".into()),
        Code::Draining => tunnel.peers[0].draining = true,
        Code::EndpointUnknown => host.unknown_endpoints.push("vpn.example.org".into()),
        Code::NotItsAddresses => tunnel.peers[0].refused_packets = 50,
        Code::RepairFails => tunnel.peers[0].repair.abandoned = 50,
        Code::LinkAbsent => host.links[1].exists = false,
        Code::LinkOff => host.links[1].up = false,
        Code::NoCarrier => host.links[1].carrier = false,
        Code::NoAddress => host.links[1].addresses = vec![("fe80::1".parse().unwrap(), 64)],
        Code::NoGateway => host.links[1].gateways.clear(),
        Code::UdpBlocked => {
            tunnel.peers[0].paths[1].state = PathState::Down;
            tunnel.peers[0].paths[1].rx_packets = 0;
        }
        Code::WantsLogin => {
            plant(Code::UdpBlocked, facts);
            let link = &mut facts.status.as_mut().unwrap().links[1];
            link.portal = Some("http://10.0.0.1/login".into());
        }
        Code::LinkFlaps => events.push(Event {
            unix: NOW - 100,
            kind: EventKind::LinkFlapping,
            severity: Severity::Warning,
            subject: "lte".into(),
            text: "lte comes and goes".into(),
        }),
        Code::SameGateway => {
            host.links[1].addresses = vec![("192.168.1.6".parse().unwrap(), 24)];
            host.links[1].gateways = host.links[0].gateways.clone();
        }
        Code::SameNetwork => host.links[1].addresses = vec![("192.168.1.6".parse().unwrap(), 24)],
        Code::SameLine => {
            tunnel.listen = vec!["0.0.0.0:51900".parse().unwrap()];
        }
        Code::LinkInTunnel => host.links[1].kind = Some("wireguard".into()),
        Code::HalfDuplex => host.links[0].full_duplex = Some(false),
        Code::SlowCard => {
            host.links[0].speed_mbps = Some(100);
            tunnel.peers[0].paths[0].capacity_tx_mbps = Some(94.0);
        }
        Code::CardErrors => host.counters.card_errors[0] = 300,
        Code::QuotaUsed => tunnel.links[1].quota.as_mut().unwrap().used_bytes = 100,
        Code::QuotaSoon => tunnel.links[1].quota.as_mut().unwrap().used_bytes = 80,
        Code::CapLimits => tunnel.peers[0].paths[0].rate_rx_mbps = Some(39.5),
        Code::Lossy => tunnel.peers[0].paths[1].loss = 0.08,
        Code::Bufferbloat => tunnel.peers[0].paths[1].queue_ms = Some(600.0),
        Code::Jitter => tunnel.peers[0].paths[1].jitter_ms = Some(150.0),
        Code::FarLink => tunnel.peers[0].paths[1].one_way_delta_ms = Some(450.0),
        Code::MtuBlackHole => tunnel.peers[0].paths[1].mtu = 1200,
        Code::RpFilter => {
            config.routing.leave_host_alone = true;
            host.links[0].rp_filter = 2;
        }
        Code::RouteLoop => {
            host.routes.endpoints_into_tunnel.push("192.0.2.1:51900".parse().unwrap());
        }
        Code::RouteBeside => warn(tunnel, TroubleKind::RouteBeside),
        Code::RouteRefuses => warn(tunnel, TroubleKind::RouteRefuses),
        Code::ForeignFirewall => warn(tunnel, TroubleKind::Firewall),
        Code::RuleIgnored => warn(tunnel, TroubleKind::RuleFile),
        Code::RuleConflict => warn(tunnel, TroubleKind::RuleConflict),
        // A warning from another version.
        Code::Warned => tunnel.warnings.push("passes the tunnel by".into()),
        Code::NotForwarding => {
            config.routing.leave_host_alone = true;
            host.links.iter_mut().for_each(|link| link.rp_filter = 2);
            host.forwarding = Some((false, false));
        }
        Code::Ipv6NoRoute => host.routes.ipv6_default.clear(),
        Code::Ipv6Beside => {
            config.interface.addresses.truncate(1);
            host.routes.ipv6_default = vec!["eth1".into()];
        }
        Code::DnsSilent => tunnel.dns.silent.push("192.168.1.1".parse().unwrap()),
        Code::DnsBeside => {
            host.routes.names_beside.push(("192.168.1.1".parse().unwrap(), "eth1".into()));
        }
        Code::ClockWrong => host.clock_synchronized = Some(false),
        Code::OldKernel => host.kernel = Some((4, 19)),
        Code::ConntrackFull => host.conntrack = Some((65_000, 65_536)),
        Code::StateFolderFull => host.state_free_bytes = Some(0),
        Code::AlertsUndelivered => tunnel.alerts[0].trouble = Some("no answer within 20 s".into()),
        Code::SplitTcpFull => tunnel.split_tcp.as_mut().unwrap().over_limit = 9,
        Code::CpuHere => host.load.as_mut().unwrap().busiest_thread = 0.98,
        Code::CpuStolen => host.load.as_mut().unwrap().stolen = 0.4,
        Code::CpuThere => measured.load_there = Some(0.99),
        Code::ReceiveBuffer => host.counters.udp_receive_buffer = 900,
        Code::DeviceQueue => tunnel.drops.not_fetched = 100,
        Code::KernelRefuses => tunnel.drops.refused = 100,
        Code::SlowerTogether => {
            measured.together.down = 17.0;
            measured.one_connection.down = 16.0;
        }
        Code::OneConnection => measured.one_connection.down = 9.0,
        Code::ShapedAfterBurst => measured.links[1].second_half_down = 4.0,
        Code::CommonLimit => {
            measured.links = vec![measure("dsl", 30.0), measure("lte", 29.0)];
            measured.together.down = 31.0;
            measured.one_connection.down = 30.0;
        }
    }
}

fn codes(facts: &Facts) -> Vec<String> {
    examine(facts).into_iter().map(|finding| finding.code).collect()
}

#[test]
fn a_healthy_tunnel_has_no_finding() {
    assert_eq!(examine(&healthy()), []);
    let unmeasured = Facts { measured: None, earlier: None, ..healthy() };
    assert_eq!(examine(&unmeasured), []);
}

#[test]
fn each_finding_is_found_where_it_was_planted_and_nothing_else_is() {
    assert!(Code::ALL.len() >= 30);
    for code in Code::ALL {
        let mut facts = healthy();
        plant(*code, &mut facts);
        assert_eq!(codes(&facts), [code.as_str()], "{:#?}", examine(&facts));
        let told = &examine(&facts)[0];
        assert!(!told.what.is_empty() && !told.mend.is_empty(), "{told:?}");
        let all = format!("{told:?}");
        assert!(!all.contains("NaN") && !all.contains("inf "), "{all}");
    }
}

#[test]
fn a_busy_host_is_no_trouble_to_a_tunnel_whose_threads_come_by() {
    let mut facts = healthy();
    let load = Load { busiest_thread: 0.0, waited: 0.02, all: 1.0, stolen: 0.0 };
    facts.host.load = Some(load);
    assert_eq!(examine(&facts), []);
    // It gets only half of a processor.
    facts.host.load = Some(Load { busiest_thread: 0.5, waited: 0.48, ..load });
    assert_eq!(codes(&facts), ["cpu-here"]);
    facts.host.load = Some(load);
    plant(Code::DeviceQueue, &mut facts);
    assert_eq!(codes(&facts), ["cpu-here", "device-queue"]);
    (facts.status, facts.earlier) = (None, None);
    assert!(!codes(&facts).contains(&"cpu-here".to_owned()), "{:?}", codes(&facts));
}

/// After ten seconds the path takes the queue's delay for its own.
#[test]
fn a_queue_that_others_keep_full_is_found_however_long_it_stands() {
    let mut facts = healthy();
    let path = &mut facts.status.as_mut().unwrap().peers[0].paths[1];
    (path.min_rtt_ms, path.srtt_ms) = (Some(340.0), Some(350.0));
    assert_eq!(codes(&facts), ["bufferbloat"]);
}

#[test]
fn a_silent_link_is_told_once_for_all_concentrators() {
    let mut facts = healthy();
    plant(Code::UdpBlocked, &mut facts);
    let status = facts.status.as_mut().unwrap();
    let mut other = status.peers[0].clone();
    other.name = "d".into();
    status.peers.push(other);
    let found = examine(&facts);
    let silent: Vec<_> = found.iter().filter(|one| one.code == "udp-blocked").collect();
    assert_eq!(silent.len(), 1, "{found:?}");
    assert_eq!(silent[0].evidence.len(), 2, "{found:?}");
}

#[test]
fn before_a_handshake_no_datagram_is_counted() {
    let mut facts = healthy();
    plant(Code::PeerGone, &mut facts);
    let peer = &mut facts.status.as_mut().unwrap().peers[0];
    peer.last_handshake_s = None;
    peer.paths.iter_mut().for_each(|path| (path.tx_packets, path.rx_packets) = (0, 0));
    let told = &examine(&facts)[0];
    assert_eq!(told.evidence, ["no handshake was answered since the start"]);
}

#[test]
fn each_finding_is_in_the_reference() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/reference/doctor.md");
    let text = std::fs::read_to_string(file).unwrap();
    for code in Code::ALL {
        assert!(text.contains(&format!("| `{}` |", code.as_str())), "{code:?}");
    }
}

#[test]
fn what_costs_most_comes_first() {
    let mut facts = healthy();
    plant(Code::ClockWrong, &mut facts);
    plant(Code::Lossy, &mut facts);
    plant(Code::SlowerTogether, &mut facts);
    plant(Code::NoTun, &mut facts);
    assert_eq!(codes(&facts), ["no-tun", "slower-together", "lossy", "clock-wrong"]);
}

#[test]
fn without_a_link_the_others_bring_what_they_brought() {
    let measured = healthy().measured.unwrap();
    let without = measured.without("lte");
    assert!((without.down - 30.0).abs() < 1e-9, "{without:?}");
    let mut slow = measured;
    // The slow link slows down the fast one.
    slow.together.down = 15.0;
    assert!(slow.without("lte").down >= 30.0);
    assert_eq!(Measured::default().without("x"), Rates::default());
}

#[test]
fn numbers_from_the_daemon_that_make_no_sense_make_no_panic() {
    let mut facts = healthy();
    let status = facts.status.as_mut().unwrap();
    let quota = status.links[0].quota.as_mut().unwrap();
    (quota.limit_bytes, quota.period_end_unix) = (0, Some(i64::MIN / 4));
    status.peers[0].paths[0].loss = f64::NAN;
    status.peers[0].paths[1].capacity_tx_mbps = Some(f64::INFINITY);
    facts.between = Duration::ZERO;
    facts.measured.as_mut().unwrap().together.down = f64::NAN;
    let _ = examine(&facts);
}

#[test]
fn each_kind_of_trouble_is_told_once_with_the_command_that_came_with_it() {
    use TroubleKind::*;
    let kinds =
        [RouteBeside, RouteRefuses, Firewall, RuleFile, RuleNames, RuleConflict, RuleMarks, Other];
    for kind in kinds {
        let mut facts = healthy();
        warn(facts.status.as_mut().unwrap(), kind);
        let found = examine(&facts);
        assert_eq!(found.len(), 1, "{kind:?}: {found:?}");
        assert_eq!(found[0].mend, "mend it");
        // A later daemon's kind is read by this version.
        let text = serde_json::to_string(&kind).unwrap();
        assert_eq!(serde_json::from_str::<TroubleKind>(&text).unwrap(), kind);
    }
    assert_eq!(serde_json::from_str::<TroubleKind>("\"new_one\"").unwrap(), Other);
}
