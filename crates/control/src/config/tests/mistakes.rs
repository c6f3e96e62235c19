//! Errors name the line and what to do.

use super::*;

/// A change to the full config: the old text, the new text, the error.
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
        "28: link.cap.down of 0 would let nothing through; remove it, or write a rate such as \"5Mbit\"",
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
        "48: routing.when_concentrator_gone applies only with default_route = true; add \
         default_route = true, or remove it",
    ),
    (
        "clamp_mss = true\n",
        "dns_domains = [\"corp.example\"]\n",
        "50: routing.dns_domains without name servers to resolve them; write dns = [\"10.77.0.1\"], a server reached through the tunnel",
    ),
    (
        "clamp_mss = true\n",
        "dns = [\"10.77.0.1\"]\ndns_domains = [\"corp..example\"]\n",
        "51: routing.dns_domains: \"corp..example\" is no name; write \"example.org\"",
    ),
    (
        "\"0.0.0.0/0\", \"::/0\"",
        "\"::/0\"",
        "52: 10.77.0.2 is in no peer's allowed_ips: nothing can answer there; add the address \
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
        "5: interface.addresses: a device can't have the address 224.0.0.1; use one of its own",
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
        "52: UDP port 51900 is where homes connect: it can't be forwarded; forward another port, \
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
            "1: [interface] is missing; start with [interface] and its private_key_file",
        ),
        (
            "[interface]\n".to_owned(),
            "1: [interface] lacks private_key_file; create one with `braid keygen --out FILE` and \
            name it here",
        ),
        (
            peer(""),
            "3: peer \"p\" can't be reached: it has no endpoints, and interface.listen isn't set; add \
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
fn paths_and_names_that_nothing_can_be_called_are_refused_at_their_line() {
    let long = "x".repeat(300);
    let socket = format!("/run/{}", "x".repeat(110));
    for (text, expected) in [
        ("private_key_file = \"\"", "2: interface.private_key_file: it is empty"),
        (
            "private_key_file = \"k\\n\"",
            "2: interface.private_key_file: \"k\\n\" contains a control",
        ),
        ("private_key_file = \"keys/\"", "2: interface.private_key_file: \"keys/\" is a folder's"),
        ("private_key_file = \"k\"\ncontrol = \"\"", "3: interface.control: it is empty"),
        (
            &format!("private_key_file = \"k\"\ncontrol = \"{socket}\""),
            &format!("3: interface.control: {socket:?} is longer than the 107 bytes"),
        ),
        (
            "private_key_file = \"k\"\nstate_dir = \"/var/lib/../lib/braid\"",
            "3: interface.state_dir: \"/var/lib/../lib/braid\" contains \"..\"",
        ),
        (
            &format!("private_key_file = \"k\"\nstate_dir = \"{long}\""),
            &format!("3: interface.state_dir: {:?}… is too long", "x".repeat(80)),
        ),
        (
            "private_key_file = \"k\"\n[history]\nfile = \"\\u001b[2J\"",
            "4: history.file: \"\\u{1b}[2J\" contains a control character",
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
