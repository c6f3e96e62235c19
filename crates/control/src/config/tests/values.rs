//! Keys, their meaning, and their defaults.

use super::*;
use braid_units::WakeLatency;
use std::net::SocketAddr;
use std::time::Duration;

#[test]
fn every_key_is_read_into_its_type() {
    let config = parse(&full()).unwrap();
    let Interface { name, private_key_file, addresses, mtu, mode, .. } = &config.interface;
    assert_eq!(name.as_str(), "braid7");
    assert_eq!(private_key_file.as_ref(), Path::new("/etc/braid/home.key"));
    assert_eq!(addresses.len(), 2);
    assert_eq!((*mtu, *mode), (9000, Mode::Overflow));
    assert_eq!(config.interface.state_dir, Path::new("/etc/braid/state"));
    assert_eq!(config.interface.memory_per_peer.bytes(), 64 << 20);
    let [bank, voice] = config.rules.as_slice() else { panic!("{:?}", config.rules) };
    assert_eq!(voice.matches.dscp.map(Dscp::value), Some(46));
    assert_eq!(voice.matches.ports, Some(PortRange(5060..=5090)));
    let broadcast = Treatment { mode: Some(Mode::Broadcast), ..Treatment::default() };
    assert_eq!(voice.action, Action::Tunnel(broadcast));
    let Action::Direct(direct) = &bank.action else { panic!("{bank:?}") };
    assert_eq!(direct.links.iter().map(Name::as_str).collect::<Vec<_>>(), ["3g-1"]);
    assert!(direct.end_on_recovery && direct.otherwise == Otherwise::Block);
    assert_eq!(bank.matches.devices.len(), 3);
    assert_eq!(bank.matches.to.files, [Path::new("/etc/braid/bank.txt")]);
    assert!(bank.matches.hours.is_some() && bank.matches.days == [Day::Monday, Day::Friday]);
    let [advice] = config.advice.as_slice() else { panic!("{:?}", config.advice) };
    assert_eq!(advice.line, voice.line, "[[class]] is an old word");
    let [mobile, fibre] = config.links.as_slice() else { panic!("{:?}", config.links) };
    assert_eq!((mobile.tier, mobile.price), (1, Some(0.5)));
    assert_eq!(mobile.cap.down.map(|rate| rate.mbit()), Some(5.0));
    let period = mobile.quota.map(|quota| quota.period);
    assert_eq!(period, Some(QuotaPeriod::Month { reset_day: 15 }));
    assert_eq!(fibre.binding.fwmark, Some(17));
    let [peer] = config.peers.as_slice() else { panic!("{:?}", config.peers) };
    assert_eq!(peer.public_key.to_string(), KEY);
    assert_eq!(peer.endpoints.len(), 3);
    assert_eq!(peer.keepalive, Some(Duration::from_secs(15)));
    assert!(
        peer.allowed_ips.contains(&"198.51.100.8/29".parse().unwrap()),
        "a public prefix is the peer's own"
    );
    assert_eq!(config.routing.when_concentrator_gone, WhenConcentratorGone::Block);
    let to: SocketAddr = "10.77.0.2:443".parse().unwrap();
    assert_eq!(config.routing.forward_ports.first().map(|forward| forward.to), Some(to));
}

#[test]
fn the_least_config_gets_the_documented_defaults() {
    let config = parse("[interface]\nprivate_key_file = \"k\"\nlisten = \"0.0.0.0:1\"").unwrap();
    assert_eq!(config.interface.name.as_str(), "braid0");
    assert_eq!(config.interface.control, Path::new("/run/braid/braid0.sock"));
    assert_eq!(config.interface.state_dir, Path::new("/var/lib/braid"));
    assert_eq!((config.interface.mtu, config.interface.mode), (1500, Mode::Adaptive));
    assert_eq!(config.interface.wake_latency, WakeLatency::Auto);
    assert_eq!(config.routing, Routing::default());
}

#[test]
fn the_page_is_served_to_others_by_tls_or_by_an_explicit_word() {
    let minimal = |ui: &str| {
        format!("[interface]\nprivate_key_file = \"k\"\nlisten = \"0.0.0.0:1\"\n[ui]\n{ui}")
    };
    let of = |ui: &str| parse(&minimal(ui)).unwrap().ui;
    let elsewhere = "listen = \"192.168.1.1:5190\"\n";
    assert_eq!(of("").tls, None);
    assert_eq!(of(&format!("{elsewhere}tls = true")).tls, Some(UiCertificate::Own));
    assert_eq!(of(&format!("{elsewhere}without_tls = true")).tls, None);
    let files = "tls_certificate_file = \"page.pem\"\ntls_key_file = \"page.key\"";
    let given = of(&format!("{elsewhere}{files}")).tls;
    assert!(matches!(given, Some(UiCertificate::Files(files)) if files.key.ends_with("page.key")));
    for wrong in [elsewhere, "tls_key_file = \"page.key\"", "tls_certificate_file = \"page.pem\""] {
        let errors = errors(&minimal(wrong));
        assert!(errors.iter().any(|error| error.contains("tls")), "{errors:?}");
    }
}

#[test]
fn connections_are_split_where_the_config_asks_for_it() {
    let minimal = |rest: &str| {
        format!(
            "[interface]\nprivate_key_file = \"k\"\n[[link]]\nname = \"a\"\ninterface = \"eth0\"\n\
             [[peer]]\nname = \"c\"\npublic_key = \"{KEY}\"\nendpoints = [\"192.0.2.1:1\"]\n\
             allowed_ips = [\"10.0.0.0/8\"]\n{rest}"
        )
    };
    let read = |rest: &str| parse(&minimal(rest)).unwrap().split_tcp;
    assert_eq!(read(""), None);
    assert_eq!(read("[split_tcp]\nenabled = false"), None);
    assert_eq!(read("[split_tcp]"), Some(SplitTcp::default()));
    let split = read("[split_tcp]\nbuffer = \"1MiB\"\nconnections = 7").unwrap();
    assert_eq!((split.buffer.bytes(), split.connections), (1 << 20, 7));
    for (wrong, expected) in [
        ("[split_tcp]\ncongestion = \"b b r\"", "not the name of a congestion control"),
        ("[split_tcp]\nbuffer = \"1KB\"", "between 128KiB and 1GiB"),
        ("[split_tcp]\nmemory = \"1MiB\"", "less than one connection's buffer"),
        ("[split_tcp]\nconnections = 0", "connections"),
        ("[split_tcp]\n[routing]\nleave_host_alone = true", "leave_host_alone"),
    ] {
        let errors = errors(&minimal(wrong));
        assert!(errors.iter().any(|line| line.contains(expected)), "{wrong}: {errors:?}");
    }
}

#[test]
fn no_processor_sleeps_deeper_than_a_wake_latency_may_say() {
    let with = |latency: &str| {
        let rest = format!("listen = \"0.0.0.0:1\"\nwake_latency = \"{latency}\"");
        format!("[interface]\nprivate_key_file = \"k\"\n{rest}")
    };
    let read = |latency| parse(&with(latency)).unwrap().interface.wake_latency;
    assert_eq!(read("0us"), WakeLatency::Within(Duration::ZERO));
    assert_eq!(read("20us"), WakeLatency::Within(Duration::from_micros(20)));
    assert_eq!(read("off"), WakeLatency::Off);
    assert_eq!(
        errors(&with("11ms")),
        [
            "4: interface.wake_latency: 11ms is out of 0us to 10ms; \"20us\" keeps processors from deep sleep, \"0us\" from any"
        ]
    );
}

/// A link with errors is reported as such, not as missing.
#[test]
fn links_that_cannot_be_read_are_there() {
    let text = full()
        .replace("name = \"3g-1\"\n", "")
        .replace("name = \"fibre\" ", "")
        .replace("listen = [\"0.0.0.0:51900\", \"[::]:51900\"]\n", "");
    let found = errors(&text);
    assert_eq!(found.len(), 2, "{found:#?}");
    assert!(found.iter().all(|line| line.contains("[link] lacks name")), "{found:#?}");
}

/// Like WireGuard.
#[test]
fn an_address_without_a_prefix_is_alone_in_its_network() {
    let config = parse(&full().replace("10.77.0.2/24", "10.77.0.2")).unwrap();
    assert_eq!(config.interface.addresses.first(), Some(&"10.77.0.2/32".parse().unwrap()));
}

#[test]
fn a_link_says_what_its_interface_is_like_or_its_name() {
    let with = |link: &str| {
        format!(
            "[interface]\nprivate_key_file = \"k\"\nlisten = \"0.0.0.0:1\"\n\
             [[link]]\nname = \"a\"\n{link}"
        )
    };
    let matches = |link: &str| parse(&with(link)).unwrap().links[0].binding.matches.clone();
    let all = "match = { kind = \"tether\", usb = \"18d1:4eeb\", connection = \"Café: 2\" }";
    let found = matches(all).unwrap();
    assert_eq!(found.kind, Some(LinkKind::Tether));
    assert_eq!(found.to_string(), "kind tether, usb 18d1:4eeb, connection \"Café: 2\"");
    assert_eq!(matches("interface = \"eth0\""), None);
    for (link, expected) in [
        (
            "match = {}",
            vec![
                "6: [link.match] lacks kind, usb or connection; write match = { kind = \"wifi\" }",
            ],
        ),
        (
            "match = { kind = \"wlan\" }",
            vec![
                "6: link.match.kind: \"wlan\" is none of ethernet, wifi, wwan, tether; did you mean \"wwan\"?",
            ],
        ),
        (
            "match = { usb = \"Pixel\" }",
            vec![
                "6: link.match.usb: \"Pixel\" is no USB id; write VENDOR:PRODUCT as `lsusb` shows it, such as \"18d1:4eeb\"",
            ],
        ),
        (
            "match = { connection = \"\" }",
            vec![
                "6: link.match.connection: \"\" is not the name of a connection; `nmcli connection` lists them",
            ],
        ),
        (
            "interface = \"eth0\"\nmatch = { kind = \"wifi\" }",
            vec![
                "7: link.match together with link.interface: both determine the interface; remove \
                one of them",
            ],
        ),
        (
            "match = { kind = \"wifi\" }\n[[link]]\nname = \"b\"\nmatch = { kind = \"wifi\" }",
            vec![
                "7: this link leaves by the same way as an earlier one; line 4 has it first; change or remove one",
            ],
        ),
    ] {
        assert_eq!(errors(&with(link)), expected, "{link}");
    }
}

#[test]
fn the_control_group_is_a_groups_name_or_number() {
    let with = |group: &str| {
        let listen = "listen = \"0.0.0.0:1\"";
        format!("[interface]\nprivate_key_file = \"k\"\n{listen}\ncontrol_group = \"{group}\"")
    };
    for group in ["braid", "4711", "_net.admins-2"] {
        let config = parse(&with(group)).unwrap();
        assert_eq!(config.interface.control_group.as_deref(), Some(group));
    }
    for group in ["", "a b", "a:b", "ä", &"x".repeat(33)] {
        let expected = format!(
            "4: interface.control_group: {group:?} is not the name of a group, such as \"braid\""
        );
        assert_eq!(errors(&with(group)), [expected]);
    }
}
