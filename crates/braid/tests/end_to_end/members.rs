//! Users who aren't root, and ask by the control socket.

use crate::world::{Tunnel, World, link};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

/// Nobody here is in it.
const GROUP: &str = "47110";
const USER: &str = "47111";

/// What a user of these groups is told: whether it is done, and all that was said.
fn ask(world: &World, groups: &str, arguments: &[&str]) -> (bool, String) {
    let socket = world.home.socket();
    let mut command = Command::new("setpriv");
    command.args(["--reuid", USER, "--regid", USER, groups]);
    command.arg(env!("CARGO_BIN_EXE_braid")).arg("--socket").arg(socket).args(arguments);
    let output = command.output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&said).into_owned())
}

fn world(control: &str) -> Option<World> {
    let world = World::new(&[link("cable")])?;
    // The way to the socket, as /run/braid has it.
    fs::set_permissions(world.scratch.path(), Permissions::from_mode(0o755)).unwrap();
    let home = format!("addresses = [\"10.77.0.2/24\"]\n{control}");
    world.write_configs(&Tunnel { home: &home, ..Tunnel::default() });
    Some(world)
}

#[test]
fn a_member_of_the_control_group_may_ask_and_others_are_told_that_they_may_not() {
    let Some(mut world) = world(&format!("control_group = \"{GROUP}\"")) else { return };
    world.concentrator.start();
    world.home.start();
    world.home.wait_for_active_paths(1);
    let member = format!("--groups={GROUP}");
    let (done, said) = ask(&world, &member, &["status"]);
    assert!(done && said.contains("cable"), "{said}");
    let (done, said) = ask(&world, &member, &["explain", "192.0.2.7"]);
    assert!(done, "{said}");
    let (done, said) =
        ask(&world, &member, &["link", "set", "cable", "--tier", "1", "--temporary"]);
    assert!(done, "{said}");
    let (done, said) = ask(&world, "--clear-groups", &["status"]);
    assert!(!done && said.contains("permission denied"), "{said}");
    let (done, said) = ask(&world, "--clear-groups", &["down"]);
    assert!(!done && said.contains("permission denied"), "{said}");
    let (done, said) = ask(&world, &format!("--groups={USER}"), &["down"]);
    assert!(!done && said.contains("permission denied"), "{said}");
    world.home.wait_for_active_paths(1);
    let (done, said) = ask(&world, &member, &["down"]);
    assert!(done, "{said}");
    assert!(world.home.wait_for_the_end().success());
}

#[test]
fn without_a_control_group_only_root_may_ask() {
    let Some(mut world) = world("") else { return };
    world.concentrator.start();
    world.home.start();
    let (done, said) = ask(&world, "--clear-groups", &["status"]);
    assert!(!done && said.contains("permission denied"), "{said}");
}

#[test]
fn a_group_that_is_not_there_is_named_before_anything_is_set() {
    let Some(mut world) = world("control_group = \"no-such-group\"") else { return };
    let before = world.home.host_settings();
    world.home.begin();
    assert!(!world.home.wait_for_the_end().success());
    let log = world.home.log();
    assert!(log.contains("no group \"no-such-group\"") && log.contains("groupadd"), "{log}");
    assert_eq!(world.home.host_settings(), before);
}
