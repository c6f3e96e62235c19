//! Changes to a file, which keep everything else in it.

use super::*;
use std::time::Duration;

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
                // The lock is still held.
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
    // The line is that of the [[link]] above.
    assert_eq!(lines[line - 2], "[[link]]");
    assert_eq!(editor.place_of("link", "more"), format!("b.toml:{}", line - 1));
    assert_eq!(editor.place_of("rule", "none"), "b.toml");
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

    // A peer whose key was known is let in by the line instead.
    editor.renew_peer("boat", &PeerLine { enrolment_key: KEY.into(), ..line.clone() }).unwrap();
    let config = editor.check().unwrap();
    assert!(!config.peer("boat").unwrap().is_known());
    assert!(matches!(editor.renew_peer("house", &line), Err(EditError::Form { .. })));
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

const HOTEL: &str = "[interface]\nprivate_key_file = \"k\"\naddresses = [\"10.77.0.2/24\"]\n\
    [[link]]\nname = \"dsl\"\ninterface = \"eth0\"\n\
    [[link]]\nname = \"lte\"\ninterface = \"wwan0\"\nLTE\n\
    [[peer]]\nname = \"vpn\"\npublic_key = \"hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=\"\n\
    endpoints = [\"203.0.113.1:51900\"]\nallowed_ips = [\"0.0.0.0/0\"]\nPEER\n";

/// Otherwise the link would be down without an explanation.
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
