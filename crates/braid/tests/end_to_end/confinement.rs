//! What a daemon that nobody confines gives up by itself.

use crate::world::{INSIDE_V4, Tunnel, World, link};
use std::fs;
use std::os::unix::fs::PermissionsExt;

#[test]
fn a_daemon_keeps_few_capabilities_and_no_core() {
    let Some(mut world) = World::new(&[link("dsl")]) else { return };
    world.start(&Tunnel::default());
    world.home.wait_for_ping(INSIDE_V4);
    let status = world.home.of_process("status");
    let value = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_else(|| panic!("no {name} in {status}")).trim().to_owned()
    };
    // CAP_NET_BIND_SERVICE, CAP_NET_ADMIN, CAP_NET_RAW.
    for set in ["CapEff:", "CapPrm:", "CapBnd:"] {
        assert_eq!(value(set), "0000000000003400", "{set}");
    }
    assert_eq!(value("NoNewPrivs:"), "1");
    assert_eq!(value("Umask:"), "0077");
    let limits = world.home.of_process("limits");
    let core = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    assert_eq!(core.split_whitespace().nth(4), Some("0"), "{core}");
    world.home.stop();
}

/// As `config check` and `up` refuse them.
#[test]
fn a_reload_refuses_keys_that_everybody_can_read() {
    let Some(mut world) = World::new(&[link("dsl")]) else { return };
    world.start(&Tunnel::default());
    let key = world.home.config().with_file_name("key");
    let chmod = |mode| fs::set_permissions(&key, PermissionsExt::from_mode(mode)).unwrap();
    chmod(0o644);
    let config = world.home.config_text();
    world.home.write_text(&config.replace("[interface]", "[interface]\nmode = \"overflow\""));
    for command in [&["reload"][..], &["config", "check"]] {
        let output = world.home.braid(command);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{command:?}");
        assert!(said.contains("mode 644") && said.contains("chmod 600"), "{command:?}: {said}");
    }
    assert_eq!(world.home.status()["mode"], "adaptive", "nothing was taken over");
    chmod(0o600);
    world.home.braid_ok(&["reload"]);
    assert_eq!(world.home.status()["mode"], "overflow");
    world.home.stop();
}
