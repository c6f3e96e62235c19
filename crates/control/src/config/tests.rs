use super::*;
use braid_units::WakeLatency;
use proptest::prelude::*;
use std::net::SocketAddr;
use std::time::Duration;

const KEY: &str = "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=";
const OTHER_KEY: &str = "3p7bfXt9wbTTW2HC7OQ1Nz+DQ8hbeGdNrfx+FG+IK08=";

/// Every key there is.
fn full() -> String {
    format!(
        r#"# the house
[interface]
name = "braid7"
private_key_file = "home.key"
addresses = ["10.77.0.2/24", "fd77::2/64"]
mtu = 9000
layer = "l3"
mode = "overflow"   # fibre first
xor_hash = "layer2+3"
listen = ["0.0.0.0:51900", "[::]:51900"]
control = "/run/braid/x.sock"
state_dir = "state"
metrics = "127.0.0.1:9190"
redundancy_budget = "5%"
memory_per_peer = "64MiB"

[[class]]
name = "voice"
match = {{ dscp = "ef", protocol = "udp", ports = "5060-5090", from = "10.0.0.0/8", to = "192.0.2.1" }}
mode = "broadcast"

[[link]]
name = "3g-1"
interface = "wwan0"
tier = 1
standby = false
price = 0.5
cap = {{ down = "5Mbit", up = "400kbit" }}
quota = {{ bytes = "20GB", per = "month", reset_day = 15 }}

[[link]]
name = "fibre"    # the fast one
source = "192.0.2.7"
gateway = "192.0.2.1"
fwmark = 17
quota = {{ bytes = "1GB", per = "day" }}

[[peer]]
name = "concentrator"
public_key = "{KEY}"
preshared_key_file = "/etc/braid/psk"
endpoints = ["vpn.example.org:51900", "203.0.113.1:51900", "[2001:db8::1]:51900"]
allowed_ips = ["0.0.0.0/0", "::/0"]
keepalive = "15s"

[routing]
leave_host_alone = false
default_route = true
when_concentrator_gone = "block"
clamp_mss = true
masquerade = true
forward_ports = [ {{ protocol = "tcp", public = 8443, to = "10.77.0.2:443" }} ]
public_prefixes = [ {{ prefix = "198.51.100.8/29", peer = "concentrator", on_link = "eth9" }} ]
untranslated = [ "2001:db8:7::/56" ]

[[rule]]
name = "bank"
match = {{ device = ["tablet", "aa:bb:cc:dd:ee:01", "192.168.7.9"], to = "203.0.113.0/24", to_file = "bank.txt", domain = ["bank.example", "*.börse.example"], protocol = "tcp", ports = "443", time = "20:00-06:30", days = ["mon", "fri"] }}
do = "direct"
links = ["3g-1"]
otherwise = "block"
end_on_recovery = true
"#
    )
}

fn parse(text: &str) -> Result<Config, ConfigErrors> {
    Config::parse(text, Path::new("/etc/braid/braid.toml"))
}

/// The errors as the user sees them, without the file's name.
fn errors(text: &str) -> Vec<String> {
    match parse(text) {
        Ok(_) => Vec::new(),
        Err(errors) => errors
            .to_string()
            .lines()
            .map(|line| line.strip_prefix("/etc/braid/braid.toml:").unwrap_or(line).to_owned())
            .collect(),
    }
}

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
fn rules_are_added_in_their_place_and_removed() {
    let file = Path::new("/etc/braid/b.toml");
    let text = "[interface]\nprivate_key_file = \"k\"\nlisten = \"0.0.0.0:1\"\n\n# the old one\n\
        [[rule]]\nname = \"a\"\ndo = \"block\"\n\n[routing]\nmasquerade = true\n";
    let mut editor = ConfigEditor::from_text(text, file).unwrap();
    let rule = |name: &str, matches: Vec<(&'static str, Vec<String>)>| NewRule {
        name: name.into(),
        does: "block".into(),
        matches,
        ..NewRule::default()
    };
    editor
        .add_rule(&rule("b", vec![("to", vec!["192.0.2.1".into(), "::1".into()])]), None)
        .unwrap();
    editor.add_rule(&rule("c", vec![("protocol", vec!["udp".into()])]), Some("a")).unwrap();
    let names = |editor: &ConfigEditor| -> Vec<String> {
        editor.check().unwrap().rules.iter().map(|rule| rule.name.to_string()).collect()
    };
    assert_eq!(names(&editor), ["c", "a", "b"]);
    assert!(editor.to_string().contains("# the old one\n[[rule]]\nname = \"a\""), "{editor}");
    editor.remove_rule("a").unwrap();
    assert_eq!(names(&editor), ["c", "b"]);
    assert!(matches!(editor.remove_rule("a"), Err(EditError::NoSuchRule { .. })));
    editor.add_rule(&rule("d", vec![("ports", vec!["http".into()])]), None).unwrap();
    assert!(editor.check().is_err());
}

/// What follows in a rule, from line 9 on, and what is said of it.
const WRONG_RULES: &[(&str, &str)] = &[
    ("do = \"drop\"", "9: rule.do: \"drop\" is none of tunnel, direct, block"),
    (
        "do = \"direct\"\nmode = \"broadcast\"",
        "10: rule.mode has a meaning only with do = \"tunnel\"",
    ),
    ("do = \"block\"\nlinks = \"dsl\"", "10: rule.links has a meaning only with do = \"direct\""),
    ("do = \"direct\"\nlinks = \"dsk\"", "10: no link is named \"dsk\"; did you mean \"dsl\"?"),
    (
        "do = \"block\"\nmatch = { country = \"DE\" }",
        "10: a rule by country or asn, but nothing says",
    ),
    ("do = \"block\"\nmatch = { device = \"a b\" }", "10: rule.match.device: \"a b\" is no device"),
    ("do = \"block\"\nmatch = { domain = \"a..b\" }", "10: rule.match.domain: \"a..b\" is no name"),
    ("do = \"block\"\nmatch = { domain = \"a.b\" }", "10: a rule by domain, but the tunnel's"),
    ("do = \"block\"\nmatch = { time = \"8-17\" }", "10: rule.match.time: \"8-17\" are no hours"),
    (
        "do = \"block\"\nmatch = { device = \"tv\", uid = \"7\" }",
        "10: rule.match.device and rule.match.uid",
    ),
    (
        "do = \"block\"\nmatch = { cgroup = \"a/../b\" }",
        "10: rule.match.cgroup: \"a/../b\" is no control group",
    ),
    (
        "do = \"tunnel\"\nmode = \"broadcast\"\nmatch = { device = \"tv\" }",
        "10: rule.mode with match.device: packets in the tunnel don't show that",
    ),
    (
        "do = \"block\"\npriority = \"low\"",
        "10: rule.priority has a meaning only with do = \"tunnel\"",
    ),
    (
        "do = \"tunnel\"\npriority = \"lowest\"",
        "10: rule.priority: \"lowest\" is none of low, normal, high",
    ),
    (
        "do = \"tunnel\"\nrate = { down = \"0Mbit\" }",
        "10: rule.rate.down of 0 lets nothing through",
    ),
    (
        "do = \"tunnel\"\nmode = \"broadcast\"\nrate = { up = \"1Mbit\" }",
        "11: rule.rate with rule.mode",
    ),
    (
        "do = \"tunnel\"\nredundancy = \"thrice\"",
        "10: rule.redundancy: \"thrice\" is none of twice, parity",
    ),
    (
        "do = \"tunnel\"\nclass = \"bulk\"\nredundancy = \"parity\"",
        "11: rule.redundancy = \"parity\" with rule.class = \"bulk\"",
    ),
    (
        "do = \"tunnel\"\nmode = \"broadcast\"\nredundancy = \"twice\"",
        "11: rule.redundancy with rule.mode",
    ),
    (
        "do = \"direct\"\nredundancy = \"twice\"",
        "10: rule.redundancy has a meaning only with do = \"tunnel\"",
    ),
    (
        "do = \"tunnel\"\nclass = \"realtime\"\nmatch = { uid = \"7\" }",
        "10: rule.class with match.uid: tracked connections don't show that",
    ),
    ("do = \"block\"\n[routing]\nleave_host_alone = true", "9: a rule that contradicts"),
    (
        "do = \"direct\"\n[routing]\nlink_marks = \"off\"",
        "9: do = \"direct\" with routing.link_marks",
    ),
    (
        "do = \"block\"\n[[rule]]\nname = \"bank\"\ndo = \"tunnel\"",
        "11: two rules are named \"bank\"",
    ),
];

#[test]
fn what_a_rule_cannot_mean_is_told_with_its_line() {
    let rule = |text: &str| {
        errors(&format!(
            "[interface]\nprivate_key_file = \"k\"\nlisten = \"0.0.0.0:1\"\n\
             [[link]]\nname = \"dsl\"\ninterface = \"eth1\"\n[[rule]]\nname = \"bank\"\n{text}"
        ))
    };
    for (text, wrong) in WRONG_RULES {
        let found = rule(text);
        assert!(found.iter().any(|error| error.starts_with(wrong)), "{text}: {found:#?}");
    }
    assert_eq!(rule("do = \"direct\""), Vec::<String>::new(), "the best link, for everything");
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
        ("[split_tcp]\ncongestion = \"b b r\"", "no name of a congestion control"),
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

/// Each is one change of the full config; the error names the line changed.
#[test]
fn an_alert_has_one_target_and_no_secret_of_it_is_in_the_config() {
    let least = "[interface]\nprivate_key_file = \"k\"\nlisten = \"0.0.0.0:1\"\n[[alert]]\n";
    let mail = "name = \"a\"\nmail = \"me@example.org\"\nfrom = \"r@example.org\"\n\
                smtp = \"mail.example.org:465\"\nsecurity = \"tls\"\n\
                user = \"r\"\npassword_file = \"pw\"";
    let alerts = parse(&format!("{least}{mail}")).unwrap().alerts;
    let braid_alert::Target::Mail { port, password_file, to, .. } = &alerts[0].target else {
        panic!("{alerts:?}");
    };
    assert_eq!((*port, to.len()), (465, 1));
    assert_eq!(password_file.as_deref(), Some(Path::new("/etc/braid/pw")));
    // Of a NAS without a tunnel.
    let of_pools = PoolsConfig::load_if_any(Path::new("/nowhere")).map(|config| config.alerts);
    assert!(of_pools.is_err());
    let text = format!("[[alert]]\n{mail}");
    assert!(PoolsConfig::is_all_of(&text));
    let of_pools = PoolsConfig::parse_if_any(&text, Path::new("/etc/braid/braid.toml")).unwrap();
    assert_eq!(of_pools.alerts, alerts);
    let cases = [
        ("name = \"a\"", "4: [alert] lacks where messages go; write one of webhook"),
        ("ntfy = \"https://ntfy.sh/a\"", "4: [alert] lacks name"),
        (
            "name = \"a\"\nntfy = \"https://ntfy.sh/a\"\ncommand = \"true\"",
            "has both ntfy and command",
        ),
        ("name = \"a\"\nntfy = \"https://ntfy.sh/\"", "6: alert.ntfy: write a topic's address"),
        ("name = \"a\"\nntfy = \"https://ntfy.sh/a/b\"", "write a topic's address"),
        ("name = \"a\"\nwebhook = \"ftp://x/\"", "6: alert.webhook: write an address"),
        ("name = \"a\"\ncommand = \"true\"\ntoken_file = \"t\"", "only with webhook or ntfy"),
        ("name = \"a\"\ncommand = \"true\"\nevents = [\"link_dwn\"]", "\"link_dwn\" is none of"),
        ("name = \"a\"\ncommand = \"true\"\ngroup = \"2h\"", "alert.group must be 0s to 1h"),
        ("name = \"a\"\nmail = \"me\"", "is no address such as"),
    ];
    for (text, expected) in cases {
        let told = errors(&format!("{least}{text}"));
        assert!(told.iter().any(|line| line.contains(expected)), "{text}: {told:?}");
    }
    let open = mail.replace("\"tls\"", "\"none\"");
    let told = errors(&format!("{least}{open}"));
    assert!(told[0].contains("would show the password"), "{told:?}");
    let twice = errors(&format!("{least}{mail}\n[[alert]]\n{mail}"));
    assert_eq!(twice, ["13: there are two alerts named a; give each a name of its own"]);
}

/// What is changed in the full config, into what, and what is said then.
const MISTAKES: &[(&str, &str, &str)] = &[
    ("mtu = 9000", "mtu = \"9000\"", "6: interface.mtu must be a whole number, not a string"),
    ("mtu = 9000", "mtu = 70000", "6: interface.mtu must be 576 to 65535, not 70000"),
    (
        "mtu = 9000",
        "mtu = 1000",
        "5: an IPv6 address on a device with MTU 1000; IPv6 needs mtu = 1280 or more",
    ),
    ("mtu = 9000", "mtuu = 9000", "6: unknown key \"mtuu\" in [interface]; did you mean \"mtu\"?"),
    (
        "mode = \"overflow\"",
        "mode = \"adaptiv\"",
        "8: interface.mode: \"adaptiv\" is none of adaptive, balance-rr, balance-xor, \
         active-backup, broadcast, overflow; did you mean \"adaptive\"?",
    ),
    (
        "\"10.77.0.2/24\"",
        "\"10.77.0.2/33\"",
        "5: interface.addresses: \"10.77.0.2/33\" is not an address; write it as \"10.77.0.2/24\" or \"fd77::2/64\"",
    ),
    (
        "dscp = \"ef\"",
        "dscp = \"eff\"",
        "19: class.match.dscp: \"eff\" is not a DSCP; write \"ef\", \"af41\", \"cs5\" or \"0\" to \"63\"",
    ),
    (
        "protocol = \"udp\", ports",
        "ports",
        "19: rule.match.ports without a protocol that has ports; add protocol = \"udp\" or protocol = \"tcp\"",
    ),
    (
        "from = \"10.0.0.0/8\"",
        "from = \"10.0.0.1/8\"",
        "19: class.match.from: 10.0.0.1/8 has bits set after its prefix; write 10.0.0.0/8 for \
         the network or 10.0.0.1/32 for the one host",
    ),
    (
        "interface = \"wwan0\"",
        "",
        "22: [link] lacks interface, match, source, gateway or fwmark; write what ties packets to \
         this link, such as interface = \"wwan0\"",
    ),
    (
        "standby = false",
        "standby = 0",
        "26: link.standby must be true or false, not a whole number",
    ),
    ("price = 0.5", "price = -0.5", "27: link.price must be 0 or more, not -0.5"),
    (
        "down = \"5Mbit\"",
        "down = \"5\"",
        "28: link.cap.down: \"5\" has no unit; write it as \"6Mbit\"",
    ),
    (
        "down = \"5Mbit\"",
        "down = \"0Mbit\"",
        "28: link.cap.down of 0 lets nothing through; remove it, or write a rate such as \"5Mbit\"",
    ),
    (
        "per = \"day\"",
        "per = \"day\", reset_day = 2",
        "36: link.quota.reset_day has no meaning with per = \"day\"; remove it, or write per = \"month\"",
    ),
    (
        "name = \"fibre\"",
        "name = \"3g-1\"",
        "32: two links are named \"3g-1\"; line 23 has it first; change or remove one",
    ),
    (
        "gateway = \"192.0.2.1\"",
        "gateway = \"fe80::1\"",
        "34: link.source and link.gateway are of different IP versions; give both as IPv4 or both as IPv6",
    ),
    (
        "203.0.113.1:51900",
        "203.0.113.1",
        "42: peer.endpoints: \"203.0.113.1\" is not an endpoint (no port); write it as \
         \"vpn.example.org:51900\", \"203.0.113.1:51900\" or \"[2001:db8::1]:51900\"",
    ),
    (
        "keepalive = \"15s\"",
        "keepalive = \"15\"",
        "44: peer.keepalive: \"15\" has no unit; write it as \"30ms\"",
    ),
    (
        "leave_host_alone = false\ndefault_route = true\nwhen_concentrator_gone = \"block\"\nclamp_mss = true\nmasquerade = true",
        "leave_host_alone = true\ndefault_route = true\nforward_ports = []",
        "48: routing.default_route contradicts leave_host_alone = true; remove one of them",
    ),
    (
        "\"0.0.0.0/0\", \"::/0\"",
        "\"10.77.0.0/24\"",
        "48: routing.default_route, but no peer's allowed_ips has all addresses; write \
         allowed_ips = [\"0.0.0.0/0\", \"::/0\"] for the concentrator",
    ),
    (
        "default_route = true\n",
        "",
        "48: routing.when_concentrator_gone has no meaning without default_route = true; add \
         default_route = true, or remove it",
    ),
    (
        "clamp_mss = true\n",
        "dns_domains = [\"corp.example\"]\n",
        "50: routing.dns_domains without name servers to ask for them; write dns = \
         [\"10.77.0.1\"], a server that the tunnel leads to",
    ),
    (
        "clamp_mss = true\n",
        "dns = [\"10.77.0.1\"]\ndns_domains = [\"corp..example\"]\n",
        "51: routing.dns_domains: \"corp..example\" is no name; write \"example.org\"",
    ),
    (
        "\"0.0.0.0/0\", \"::/0\"",
        "\"::/0\"",
        "52: 10.77.0.2 is in no peer's allowed_ips: nobody can answer there; add the address \
         to a peer's allowed_ips, or correct it",
    ),
    (
        "peer = \"concentrator\"",
        "peer = \"concentator\"",
        "53: no peer is named \"concentator\"; did you mean \"concentrator\"?",
    ),
    (
        "\"10.77.0.2/24\"",
        "\"224.0.0.1/24\"",
        "5: interface.addresses: no device can have the address 224.0.0.1; name one of its own",
    ),
    (
        "\"[::]:51900\"",
        "\"[::]\"",
        "10: interface.listen: \"[::]\" is not an address with a port; write it as \
         \"192.0.2.7:51900\" or \"[2001:db8::7]:51900\"",
    ),
    (
        "interface = \"wwan0\"",
        "interface = \"braid7\"",
        "24: a link that leaves by braid7, the tunnel itself; name the device of an uplink, \
         such as \"eth1\"",
    ),
    (
        "source = \"192.0.2.7\"",
        "source = \"10.77.0.2\"",
        "33: a link that leaves from 10.77.0.2, the tunnel's own address; name the address \
         that an uplink has",
    ),
    (
        "gateway = \"192.0.2.1\"",
        "gateway = \"192.0.2\"",
        "34: link.gateway: \"192.0.2\" is not an address; write it as \"192.0.2.7\" or \
         \"2001:db8::7\"",
    ),
    (
        "mtu = 9000\nlayer = \"l3\"",
        "mtu = 65522\nlayer = \"l2\"",
        "6: an Ethernet device with MTU 65522; with layer = \"l2\" the largest is mtu = 65521",
    ),
    (
        "protocol = \"tcp\", public = 8443",
        "protocol = \"udp\", public = 51900",
        "52: udp port 51900 is where homes call: it can't be forwarded; forward another port, \
         or listen on another",
    ),
    (
        "on_link = \"eth9\"",
        "on_link = \"braid7\"",
        "53: on_link = \"braid7\" is the tunnel itself; name the device towards the provider, \
         such as \"eth0\"",
    ),
    ("[routing]", "[rooting]", "46: unknown section \"rooting\"; did you mean \"routing\"?"),
];

#[test]
fn each_error_names_its_line_and_what_to_do() {
    for (from, to, expected) in MISTAKES {
        let full = full();
        assert!(full.contains(from), "{from}");
        let found = errors(&full.replacen(from, to, 1));
        assert!(found.iter().any(|line| line == expected), "{to}\n{expected}\n{found:#?}");
    }
}

#[test]
fn whole_configs_that_cannot_work_are_refused() {
    let peer = |rest: &str| {
        format!(
            "[interface]\nprivate_key_file = \"k\"\n[[peer]]\nname = \"p\"\npublic_key = \"{KEY}\"\n{rest}"
        )
    };
    for (text, expected) in [
        (
            String::new(),
            "1: [interface] is missing; begin with [interface] and its private_key_file",
        ),
        (
            "[interface]\n".to_owned(),
            "1: [interface] lacks private_key_file; make one with `braid keygen --out FILE` and name it here",
        ),
        (
            peer(""),
            "3: peer \"p\" can't be found: it has no endpoints, and nobody can come to us; add \
             endpoints = [\"host:51900\"] here, or listen = [\"0.0.0.0:51900\"] to [interface]",
        ),
        (
            peer("endpoints = [\"h:1\"]"),
            "1: no [[link]]: the peers' endpoints can't be reached over anything; add [[link]] \
             with name = \"dsl\" and interface = \"eth1\" for every way out",
        ),
        ("[interface\n".to_owned(), "1: not TOML: unclosed table, expected `]`"),
        (
            "link = 3\n".to_owned(),
            "1: link must be a list of tables, not a whole number; write [[link]]",
        ),
    ] {
        let found = errors(&text);
        assert!(found.iter().any(|line| line == expected), "{text}\n{expected}\n{found:#?}");
    }
}

#[test]
fn who_stands_in_for_whom_is_read_and_checked() {
    let text = |second: &str| {
        format!(
            "[interface]\nprivate_key_file = \"k\"\n[[link]]\nname = \"a\"\ninterface = \"e\"\n\
             [[peer]]\nname = \"first\"\npublic_key = \"{KEY}\"\nendpoints = [\"h:1\"]\n\
             allowed_ips = [\"0.0.0.0/0\"]\n\
             [[peer]]\nname = \"second\"\npublic_key = \"{OTHER_KEY}\"\n{second}"
        )
    };
    let good = parse(&text("endpoints = [\"i:1\"]\nstands_in_for = \"first\"\n")).unwrap();
    let owner = good.peer("second").unwrap().stands_in_for.as_ref();
    assert_eq!(owner.map(Name::as_str), Some("first"));
    for (second, expected) in [
        (
            "endpoints = [\"i:1\"]\nstands_in_for = \"frist\"\n",
            "15: no other peer \"frist\" is called; did you mean \"first\"?",
        ),
        (
            "endpoints = [\"i:1\"]\nstands_in_for = \"second\"\n",
            "15: no other peer \"second\" is called; it is one with endpoints that stands in for \
             nobody: first",
        ),
        (
            "stands_in_for = \"first\"\n",
            "14: peer.stands_in_for without endpoints: only a home has concentrators that stand \
             in; add endpoints, or remove it",
        ),
        (
            "endpoints = [\"i:1\"]\nstands_in_for = \"first\"\nallowed_ips = [\"::/0\"]\n",
            "16: allowed_ips of a peer that stands in for \"first\": it has the same; remove them",
        ),
    ] {
        let found = errors(&text(second));
        assert!(found.iter().any(|line| line == expected), "{expected}\n{found:#?}");
    }
}

/// What is wrong with a link is told, not that there is none.
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

/// As WireGuard reads it.
#[test]
fn an_address_without_a_prefix_is_alone_in_its_network() {
    let config = parse(&full().replace("10.77.0.2/24", "10.77.0.2")).unwrap();
    assert_eq!(config.interface.addresses.first(), Some(&"10.77.0.2/32".parse().unwrap()));
}

#[test]
fn a_peer_with_our_own_key_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let key: braid_handshake::PrivateKey = OTHER_KEY.parse().unwrap();
    write_secret(&folder.path().join("k"), OTHER_KEY).unwrap();
    let text = |peer: &str| {
        format!(
            "[interface]\nprivate_key_file = \"k\"\nlisten = \"0.0.0.0:1\"\n[[peer]]\nname = \"p\"\npublic_key = \"{peer}\"\n"
        )
    };
    let file = folder.path().join("braid.toml");
    let read = |peer: &str| Config::parse(&text(peer), &file).unwrap().read_keys();
    assert!(read(KEY).is_ok());
    let error = read(&key.public_key().to_string()).unwrap_err();
    let own = matches!(error.error, SecretError::OwnPeer { ref peer, .. } if peer == "p");
    assert!(own, "{error}");
}

#[test]
fn all_errors_are_reported_in_the_order_of_lines() {
    let text = full()
        .replace("mtu = 9000", "mtu = 1")
        .replace("tier = 1", "teir = 1")
        .replace("\"15s\"", "\"soon\"");
    let lines: Vec<String> =
        errors(&text).iter().filter_map(|e| e.split_once(':').map(|(n, _)| n.to_owned())).collect();
    assert_eq!(lines, ["6", "25", "44"]);
}

#[test]
fn edits_keep_comments_and_are_checked() {
    let mut editor = ConfigEditor::from_text(&full(), Path::new("/etc/braid/b.toml")).unwrap();
    let add = LinkChange {
        interface: Some("usb0".into()),
        quota: Some("5GB/day".into()),
        ..LinkChange::default()
    };
    editor.add_link("usb", &add).unwrap();
    let set = LinkChange {
        tier: Some(2),
        cap_up: Some("none".into()),
        cap_down: Some("7Mbit".into()),
        quota: Some("none".into()),
        ..LinkChange::default()
    };
    editor.set_link("3g-1", &set).unwrap();
    editor.remove_link("fibre").unwrap();
    editor.set_mode(Mode::Broadcast).unwrap();
    let config = editor.check().unwrap();
    assert_eq!(config.links.len(), 2);
    let mobile = config.link("3g-1").unwrap();
    assert_eq!((mobile.tier, mobile.quota, mobile.cap.up), (2, None, None));
    assert_eq!(config.link("usb").unwrap().quota.unwrap().period, QuotaPeriod::Day);
    assert_eq!(config.interface.mode, Mode::Broadcast);
    let text = editor.to_string();
    assert!(text.starts_with("# the house\n"));
    assert!(text.contains("mode = \"broadcast\"   # fibre first"), "{text}");

    let error = editor.remove_link("fiber").unwrap_err();
    assert_eq!(error.to_string(), "there is no link \"fiber\"; the links are: 3g-1, usb");
    editor.add_link("usb", &add).unwrap();
    let errors = editor.check().unwrap_err().to_string();
    assert!(errors.contains("two links are named \"usb\""), "{errors}");
}

#[test]
fn a_saved_edit_replaces_the_file_and_keeps_its_permissions() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("braid.toml");
    std::fs::write(&file, full()).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
    let mut editor = ConfigEditor::open(&file).unwrap();
    editor.set_mode(Mode::BalanceRr).unwrap();
    editor.save().unwrap();
    assert_eq!(Config::load(&file).unwrap().interface.mode, Mode::BalanceRr);
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);

    let text = std::fs::read_to_string(&file).unwrap();
    editor.add_link("bad name", &LinkChange::default()).unwrap();
    assert!(matches!(editor.save(), Err(EditError::Config(_))));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), text, "a bad edit changes nothing");
}

#[test]
fn changes_at_the_same_time_are_all_made() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("braid.toml");
    std::fs::write(&file, full()).unwrap();
    let before = Config::load(&file).unwrap().links.len();
    std::thread::scope(|scope| {
        for number in 0..8 {
            let file = &file;
            scope.spawn(move || {
                let mut editor = ConfigEditor::open_alone(file).unwrap();
                let interface = Some(format!("more{number}"));
                let change = LinkChange { interface, ..LinkChange::default() };
                editor.add_link(&format!("more{number}"), &change).unwrap();
                editor.save().unwrap();
                // It is still kept.
                editor
                    .set_link(
                        &format!("more{number}"),
                        &LinkChange { tier: Some(3), ..LinkChange::default() },
                    )
                    .unwrap();
                editor.save().unwrap();
            });
        }
    });
    let links = Config::load(&file).unwrap().links;
    assert_eq!(links.len(), before + 8);
    assert_eq!(links.iter().filter(|link| link.tier == 3).count(), 8);
}

#[test]
fn where_something_is_in_the_config_is_told() {
    let mut editor = ConfigEditor::from_text(&full(), Path::new("b.toml")).unwrap();
    let change = LinkChange { interface: Some("ppp0".into()), ..LinkChange::default() };
    editor.add_link("more", &change).unwrap();
    let text = editor.to_string();
    let lines: Vec<&str> = text.lines().collect();
    let line = 1 + lines.iter().position(|line| *line == "name = \"more\"").unwrap();
    // That of the [[link]] above.
    assert_eq!(lines[line - 2], "[[link]]");
    assert_eq!(editor.place_of("link", "more"), format!("b.toml:{}", line - 1));
    assert_eq!(editor.place_of("rule", "none"), "b.toml");
}

#[test]
fn paths_and_names_that_nothing_can_be_called_are_refused_at_their_line() {
    let long = "x".repeat(300);
    let socket = format!("/run/{}", "x".repeat(110));
    for (text, expected) in [
        ("private_key_file = \"\"", "2: interface.private_key_file: it is empty"),
        ("private_key_file = \"k\\n\"", "2: interface.private_key_file: \"k\\n\" has a control"),
        ("private_key_file = \"keys/\"", "2: interface.private_key_file: \"keys/\" is a folder's"),
        ("private_key_file = \"k\"\ncontrol = \"\"", "3: interface.control: it is empty"),
        (
            &format!("private_key_file = \"k\"\ncontrol = \"{socket}\""),
            &format!("3: interface.control: {socket:?} is longer than the 107 bytes"),
        ),
        (
            "private_key_file = \"k\"\nstate_dir = \"/var/lib/../lib/braid\"",
            "3: interface.state_dir: \"/var/lib/../lib/braid\" has \"..\" in it",
        ),
        (
            &format!("private_key_file = \"k\"\nstate_dir = \"{long}\""),
            &format!("3: interface.state_dir: {:?}… is too long", "x".repeat(80)),
        ),
        (
            "private_key_file = \"k\"\n[history]\nfile = \"\\u001b[2J\"",
            "4: history.file: \"\\u{1b}[2J\" has a control character",
        ),
        (
            "private_key_file = \"k\"\n[[alert]]\nname = \"a\"\ncommand = \" \"",
            "5: alert.command: it is empty",
        ),
        (
            "private_key_file = \"k\"\n[[link]]\nname = \"-x\"\ninterface = \"eth0\"",
            "4: link.name: \"-x\" can't be a name here",
        ),
        (
            "private_key_file = \"k\"\n[[link]]\nname = \"..\"\ninterface = \"eth0\"",
            "4: link.name: \"..\" can't be a name here",
        ),
        (
            "private_key_file = \"k\"\n[[pool]]\nname = \"data\"\nlayout = \"btrfs-raid1\"\n\
             disks = [\"\", \"S2\"]\nmount = \"/srv/a\\nb\"",
            "6: pool.disks: a disk is a path",
        ),
    ] {
        let found = errors(&format!("[interface]\n{text}\n"));
        assert!(found.iter().any(|line| line.starts_with(expected)), "{expected}\n{found:#?}");
    }
}

#[test]
fn a_key_that_cannot_be_read_is_told_with_where_the_config_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("braid.toml");
    let text = format!(
        "[interface]\n\nprivate_key_file = \"own.key\"\nlisten = \"0.0.0.0:1\"\n[[peer]]\n\
         name = \"p\"\npublic_key = \"{KEY}\"\npreshared_key_file = \"p.psk\"\n"
    );
    let told = || Config::parse(&text, &file).unwrap().read_keys().unwrap_err().to_string();
    let at = |line: u32, key: &str| format!("{}:{line}: {key}: ", file.display());
    assert!(told().starts_with(&at(3, "private_key_file")), "{}", told());
    write_secret(&folder.path().join("own.key"), OTHER_KEY).unwrap();
    assert!(told().starts_with(&at(8, "preshared_key_file")), "{}", told());
    assert!(told().contains("p.psk: can't read the key"), "{}", told());
}

#[test]
fn peers_are_appended_and_removed() {
    let mut editor = ConfigEditor::from_text(&full(), Path::new("b.toml")).unwrap();
    let peer = format!(
        "[[peer]]\nname = \"home2\"\npublic_key = \"{OTHER_KEY}\"\nallowed_ips = [\"10.77.0.9\"]\n"
    );
    editor.append(&peer).unwrap();
    assert!(editor.append(&peer).is_err(), "the same peer twice");
    assert_eq!(editor.check().unwrap().peers.len(), 2);
    assert!(editor.remove_peer("home2"));
    assert!(!editor.remove_peer("home2"));
    assert_eq!(editor.check().unwrap().peers.len(), 1);
}

#[test]
fn a_peer_with_another_join_line_keeps_what_was_added_to_it() {
    let third = "CQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    let text = format!(
        "[interface]\nprivate_key_file = \"k\"\nlisten = \"0.0.0.0:1\"\n\n\
         # at the lake\n[[peer]]\nname = \"cabin\"\nenrolment_key = \"{KEY}\"\n\
         enrol_until = \"2026-12-24T18:00:00Z\" # Christmas\npreshared_key_file = \"cabin.psk\"\n\
         # its LAN too\nallowed_ips = [\"10.77.0.2\", \"192.168.7.0/24\"]\n\
         keepalive = \"25s\" # a short NAT\n\n[[peer]]\nname = \"boat\"\npublic_key = \"{third}\"\n"
    );
    let line = PeerLine {
        enrolment_key: OTHER_KEY.into(),
        enrol_until: "2027-01-01T00:00:00Z".into(),
        preshared_key_file: "cabin-2.psk".into(),
    };
    let mut editor = ConfigEditor::from_text(&text, Path::new("b.toml")).unwrap();
    editor.renew_peer("cabin", &line).unwrap();
    let expected = text
        .replacen(KEY, OTHER_KEY, 1)
        .replace("2026-12-24T18:00:00Z", "2027-01-01T00:00:00Z")
        .replace("cabin.psk", "cabin-2.psk");
    assert_eq!(editor.to_string(), expected);

    // One whose key was known is let in by the line instead.
    editor.renew_peer("boat", &PeerLine { enrolment_key: KEY.into(), ..line.clone() }).unwrap();
    let config = editor.check().unwrap();
    assert!(!config.peer("boat").unwrap().is_known());
    assert!(matches!(editor.renew_peer("house", &line), Err(EditError::Form { .. })));
}

#[test]
fn secrets_that_everybody_can_read_are_refused() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("key");
    write_secret(&file, KEY).unwrap();
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    read_private_key(&file).unwrap();
    assert!(write_secret(&file, KEY).is_err(), "keys are not overwritten");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let error = read_private_key(&file).unwrap_err().to_string();
    assert!(error.contains("mode 644") && error.contains("chmod 600"), "{error}");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::write(&file, "not a key").unwrap();
    assert!(matches!(read_private_key(&file), Err(SecretError::Key { .. })));
    assert!(matches!(
        read_preshared_key(&directory.path().join("absent")),
        Err(SecretError::Io { .. })
    ));
}

#[test]
fn host_names_and_mistyped_addresses_are_told_apart() {
    for good in ["h:1", "vpn.example.org:51900", "[::1]:9", "1.2.3.4:5", "EXAMPLE.org.:7"] {
        assert!(good.parse::<Endpoint>().is_ok(), "{good}");
    }
    for bad in
        ["", ":1", "h", "h:0", "h:99999", "1.2.3:4", "1.2.3.400:5", "a b:1", "0.0.0.0:1", "-h:1"]
    {
        assert!(bad.parse::<Endpoint>().is_err(), "{bad}");
    }
}

proptest! {
    /// Random damage to a good file: an answer, never a panic; and every error
    /// names a line of the file.
    #[test]
    fn damaged_configs_never_panic(
        edits in prop::collection::vec((any::<prop::sample::Index>(), 0usize..12, ".{0,6}"), 1..8)
    ) {
        let mut text = full();
        for (at, length, with) in edits {
            let boundaries: Vec<usize> =
                text.char_indices().map(|(offset, _)| offset).chain([text.len()]).collect();
            let first = at.index(boundaries.len());
            let last = (first + length).min(boundaries.len() - 1);
            text.replace_range(boundaries[first]..boundaries[last], &with);
        }
        match parse(&text) {
            Err(errors) => {
                let lines = text.lines().count().max(1) + 1;
                prop_assert!(!errors.errors.is_empty());
                prop_assert!(errors.errors.iter().all(|e| e.line <= lines));
                let _ = errors.to_string();
            }
            Ok(_) => {
                let mut editor = ConfigEditor::from_text(&text, Path::new("b.toml")).unwrap();
                let _ = editor.remove_link("fibre");
                let _ = editor.set_link("3g-1", &LinkChange { cap_up: Some("1Mbit".into()), ..Default::default() });
                let _ = editor.check();
            }
        }
    }

    #[test]
    fn arbitrary_text_never_panics(text in "(?s).{0,400}") {
        let _ = parse(&text);
        let _ = text.parse::<Endpoint>();
        let _ = text.parse::<Prefix>();
        let _ = text.parse::<PortRange>();
        let _ = text.parse::<Dscp>();
    }
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
                "6: link.match.connection: \"\" is no connection's name; `nmcli connection` lists them",
            ],
        ),
        (
            "interface = \"eth0\"\nmatch = { kind = \"wifi\" }",
            vec![
                "7: link.match beside link.interface: both say which interface it is; remove one of them",
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
        let expected =
            format!("4: interface.control_group: {group:?} is no group's name, such as \"braid\"");
        assert_eq!(errors(&with(group)), [expected]);
    }
}

#[test]
fn who_joins_again_keeps_all_but_what_the_line_gives() {
    let text = "# Mine.\n[interface]\nprivate_key_file = \"old.key\" # the key\n\
        addresses = [\"10.77.0.2/24\"]\nmode = \"overflow\"\n\
        [[link]]\nname = \"dsl\"\ninterface = \"eth0\"\ntier = 1\n\
        [[link]]\nname = \"lte\"\ninterface = \"wwan0\"\n\
        [[peer]]\nname = \"vpn\"\npublic_key = \"hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=\"\n\
        endpoints = [\"203.0.113.1:51900\"]\nallowed_ips = [\"0.0.0.0/0\"]\nkeepalive = \"5s\"\n\
        fallback_port = 443\n\
        [[peer]]\nname = \"second\"\npublic_key = \"3p7bfXt9wbTTW2HC7OQ1Nz+DQ8hbeGdNrfx+FG+IK08=\"\n\
        endpoints = [\"203.0.113.2:51900\"]\nstands_in_for = \"vpn\"\n\
        [routing]\ndefault_route = true\nwhen_concentrator_gone = \"block\"\n\
        [[rule]]\nname = \"bank\"\nmatch = { domain = \"bank.example\" }\ndo = \"direct\"\n";
    let new_key = braid_handshake::PrivateKey::from_bytes(&[3; 32]).public_key().to_string();
    let anew = JoinedAnew {
        private_key_file: "new.key".into(),
        addresses: vec!["10.77.0.9/24".into()],
        mtu: 1400,
        layer: "l3".into(),
        public_key: new_key.clone(),
        preshared_key_file: "new.psk".into(),
        enrolment_key_file: "new.enrol".into(),
        endpoints: vec!["198.51.100.1:443".into()],
        ..JoinedAnew::default()
    };
    let rejoined = |anew: &JoinedAnew| {
        let mut editor = ConfigEditor::from_text(text, Path::new("/c/c.toml")).unwrap();
        assert_eq!(editor.rejoin(anew).unwrap(), ["second"]);
        (editor.check().unwrap(), editor.to_string())
    };
    let (config, written) = rejoined(&anew);
    assert!(
        written.starts_with("# Mine.") && written.contains("\"new.key\" # the key"),
        "{written}"
    );
    assert_eq!(config.peers.len(), 1);
    let peer = &config.peers[0];
    assert_eq!((peer.name.as_str(), peer.public_key.to_string()), ("vpn", new_key));
    assert_eq!(peer.keepalive, Some(Duration::from_secs(5)));
    assert_eq!(peer.fallback_port, None, "the one before had it");
    assert_eq!(config.links.len(), 2);
    assert_eq!(config.rules.len(), 1);
    assert_eq!(config.routing.when_concentrator_gone, WhenConcentratorGone::Block);
    assert_eq!(config.interface.mode, Mode::Overflow);

    let same = JoinedAnew { keeps_key: true, ..anew.clone() };
    let mut editor = ConfigEditor::from_text(text, Path::new("/c/c.toml")).unwrap();
    assert_eq!(editor.rejoin(&same).unwrap(), [""; 0], "who stands in knows the key");
    assert_eq!(editor.check().unwrap().peers.len(), 2);

    let interfaces = vec!["wwan0".into(), "usb0".into()];
    let otherwise =
        JoinedAnew { interfaces, default_route: Some(false), split_tcp: true, ..anew.clone() };
    let otherwise = JoinedAnew { fallback_port: Some(8443), ..otherwise };
    let (config, _) = rejoined(&otherwise);
    assert_eq!(config.peers[0].fallback_port, Some(8443));
    let names: Vec<&str> = config.links.iter().map(|link| link.name.as_str()).collect();
    assert_eq!(names, ["lte", "usb0"]);
    assert!(!config.routing.default_route && config.split_tcp.is_some());

    let concentrator = "[interface]\nprivate_key_file = \"k\"\naddresses = [\"10.77.0.1/24\"]\n\
        listen = [\"0.0.0.0:51900\"]\n";
    let mut editor = ConfigEditor::from_text(concentrator, Path::new("/c/c.toml")).unwrap();
    assert!(matches!(editor.rejoin(&anew), Err(EditError::Form { what: "peer", .. })));
}

/// A config is for everybody to read, but for one with a proxy's password.
#[test]
fn what_has_a_secret_in_it_is_not_for_everybody() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("braid.toml");
    let text = "[interface]\nprivate_key_file = \"k\"\naddresses = [\"10.77.0.2/24\"]\n\
        [[link]]\nname = \"dsl\"\ninterface = \"eth0\"\n\
        [[peer]]\nname = \"vpn\"\npublic_key = \"hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=\"\n\
        endpoints = [\"203.0.113.1:51900\"]\nallowed_ips = [\"0.0.0.0/0\"]\nfallback_port = 443\n";
    std::fs::write(&file, text).unwrap();
    let mode = || std::fs::metadata(&file).unwrap().permissions().mode() & 0o777;
    for (before, proxy, after) in [
        (0o644, "http://10.0.0.1:3128", 0o644),
        (0o644, "http://me:it@10.0.0.1:3128", 0o640),
        (0o600, "http://me:it@10.0.0.1:3128", 0o600),
    ] {
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(before)).unwrap();
        let mut editor = ConfigEditor::open_alone(&file).unwrap();
        let change = LinkChange { proxy: Some(proxy.into()), ..LinkChange::default() };
        editor.set_link("dsl", &change).unwrap();
        editor.save().unwrap();
        assert_eq!(mode(), after, "{proxy}");
    }
}

const HOTEL: &str = "[interface]\nprivate_key_file = \"k\"\naddresses = [\"10.77.0.2/24\"]\n\
    [[link]]\nname = \"dsl\"\ninterface = \"eth0\"\n\
    [[link]]\nname = \"lte\"\ninterface = \"wwan0\"\nLTE\n\
    [[peer]]\nname = \"vpn\"\npublic_key = \"hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=\"\n\
    endpoints = [\"203.0.113.1:51900\"]\nallowed_ips = [\"0.0.0.0/0\"]\nPEER\n";

/// The link would be down, and nothing would say why.
#[test]
fn a_link_goes_by_tls_only_where_a_peer_has_a_port_for_it() {
    let config = |lte: &str, peer: &str| HOTEL.replace("LTE", lte).replace("PEER", peer);
    for link in ["transport = \"tls\"", "proxy = \"http://10.0.0.1:3128\""] {
        let wrong = errors(&config(link, ""));
        assert!(wrong.len() == 1 && wrong[0].contains("no peer has a port for TLS"), "{wrong:?}");
        assert!(wrong[0].starts_with("10: "), "{wrong:?}");
        assert_eq!(errors(&config(link, "fallback_port = 443")), [""; 0]);
    }
}

#[test]
fn a_link_that_a_rule_names_is_not_removed() {
    let text = HOTEL.replace("LTE", "").replace("PEER", "")
        + "[[rule]]\nname = \"bank\"\nmatch = { to = \"203.0.113.0/24\" }\ndo = \"direct\"\nlinks = [\"lte\"]\n";
    let mut editor = ConfigEditor::from_text(&text, Path::new("/etc/braid/braid.toml")).unwrap();
    let refused = editor.remove_link("lte").unwrap_err().to_string();
    assert!(refused.contains("rule bank is for link lte"), "{refused}");
    editor.remove_rule("bank").unwrap();
    editor.remove_link("lte").unwrap();
    editor.check().unwrap();
}
