//! Keys, passwords, and addresses that contain one.

use super::*;

/// Each is one change to the full config; the error names the changed line.
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
    // The config of a NAS without a tunnel.
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
        ("name = \"a\"\nmail = \"me\"", "is not an address such as"),
    ];
    for (text, expected) in cases {
        let told = errors(&format!("{least}{text}"));
        assert!(told.iter().any(|line| line.contains(expected)), "{text}: {told:?}");
    }
    let open = mail.replace("\"tls\"", "\"none\"");
    let told = errors(&format!("{least}{open}"));
    assert!(told[0].contains("would send the password"), "{told:?}");
    let twice = errors(&format!("{least}{mail}\n[[alert]]\n{mail}"));
    assert_eq!(twice, ["13: there are two alerts named a; give each a name of its own"]);
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

/// Everybody may read a config, unless it contains a proxy's password.
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
