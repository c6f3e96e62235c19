//! firewalld itself, with a bus of its own, where it is installed. `./setup` doesn't install it:
//! Debian's package starts it on the host.

use crate::ruled::{BY_WAN1, RULES, TUNNEL, V4, ruled_world, start, whoami};
use crate::world::{World, assert_unchanged, settled_state};
use std::io::ErrorKind;

/// In a mount namespace of its own: nothing of the host's is seen or changed.
const START: &str = "set -e
mount -t tmpfs none /run
mkdir -p /run/dbus /run/firewalld.etc
cp -a /etc/firewalld/. /run/firewalld.etc
rm -f /run/firewalld.etc/zones/* /run/firewalld.etc/policies/*
mount --bind /run/firewalld.etc /etc/firewalld
dbus-daemon --system --fork --nopidfile
exec firewalld --nofork --nopid";

/// As for a router: the LAN may go out, and out is translated.
const ROUTER: &str = "firewall-cmd --permanent --zone=external --add-interface=wan1
firewall-cmd --permanent --zone=external --add-interface=wan2
firewall-cmd --permanent --zone=internal --add-interface=lan0
firewall-cmd --permanent --new-policy=lan-out
firewall-cmd --permanent --policy=lan-out --add-ingress-zone=internal
firewall-cmd --permanent --policy=lan-out --add-egress-zone=external
firewall-cmd --permanent --policy=lan-out --set-target=ACCEPT
firewall-cmd --reload";

/// As the warning says.
const FOR_THE_TUNNEL: &str = "firewall-cmd --permanent --zone=trusted --add-interface=braid0
firewall-cmd --permanent --new-policy=lan-tunnel
firewall-cmd --permanent --policy=lan-tunnel --add-ingress-zone=internal
firewall-cmd --permanent --policy=lan-tunnel --add-egress-zone=trusted
firewall-cmd --permanent --policy=lan-tunnel --set-target=ACCEPT
firewall-cmd --reload";

/// Its process, in whose mount namespace its client finds the bus.
struct Firewalld(u32);

impl Firewalld {
    fn start(world: &mut World) -> Option<Firewalld> {
        let runs = |program: &str| std::process::Command::new(program).arg("--version").output();
        if runs("firewalld").is_err() || runs("dbus-daemon").is_err() {
            eprintln!("SKIPPED: firewalld is not installed");
            return None;
        }
        let mut command = world.home.namespace.command("unshare");
        // Its bus ends with it.
        command.args(["--pid", "--fork", "--kill-child", "--mount-proc"]);
        command.args(["--mount", "--propagation", "private", "sh", "-c", START]);
        let firewalld = Firewalld(world.run_service(command));
        world.home.wait_until("firewalld runs", || {
            // It says "not running", too.
            let said = firewalld.within(world, "firewall-cmd --state || true");
            said.lines().any(|line| line == "running")
        });
        Some(firewalld)
    }

    fn within(&self, world: &World, script: &str) -> String {
        let script = script.replace('\'', "'\\''");
        world.home.sh(&format!("nsenter --mount --target {} sh -ec '{script}' 2>&1", self.0))
    }
}

#[test]
fn the_lan_goes_by_tunnel_and_by_rule_beside_firewalld_and_through_its_reloads() {
    let Some((mut world, lan)) = ruled_world() else { return };
    let Some(firewalld) = Firewalld::start(&mut world) else { return };
    firewalld.within(&world, ROUTER);
    assert_eq!(whoami(&lan, V4, 80).unwrap(), BY_WAN1, "without the tunnel");
    let before = settled_state(&world.home.namespace);
    start(&mut world, "", RULES);
    assert_eq!(whoami(&world.home.namespace, V4, 80).unwrap(), TUNNEL, "the home itself");
    world.home.wait_until("firewalld is told of", || {
        world.home.status()["troubles"].to_string().contains("--zone=trusted --add-interface")
    });
    firewalld.within(&world, FOR_THE_TUNNEL);
    for round in ["first", "after a reload"] {
        let by_tunnel = || whoami(&lan, V4, 80).is_ok_and(|seen| seen == TUNNEL);
        world.home.wait_until("the LAN gets through the tunnel", by_tunnel);
        assert_eq!(whoami(&lan, V4, 443).unwrap(), BY_WAN1, "bank, {round}");
        let refused = whoami(&lan, V4, 25).unwrap_err().kind();
        assert_eq!(refused, ErrorKind::ConnectionRefused, "mail, {round}");
        firewalld.within(&world, "firewall-cmd --reload");
        firewalld.within(&world, "firewall-cmd --complete-reload");
    }
    world.home.wait_until("nothing is amiss any more", || {
        !world.home.status()["troubles"].to_string().contains("firewalld")
    });
    world.home.stop();
    firewalld.within(
        &world,
        "firewall-cmd --permanent --delete-policy=lan-tunnel
         firewall-cmd --permanent --zone=trusted --remove-interface=braid0
         firewall-cmd --reload",
    );
    assert_unchanged(&world.home.namespace, &before);
    assert_eq!(whoami(&lan, V4, 80).unwrap(), BY_WAN1, "as before");
}
