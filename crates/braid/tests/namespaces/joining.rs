//! Routers that join: once by a line, a second time, and beside another tunnel.

use crate::world::{BRAID, MoveFrom, PATIENCE, World, sh};
use braid_linux::netns::NetNs;
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::Instant;

#[test]
fn a_line_lets_one_router_in_and_a_second_one_hears_why_not() {
    let Some(mut world) = World::new() else { return };
    world.start_concentrator();
    let line = world.line.clone();
    let first = Router::new(&world.home, world.scratch.path().join("first"));
    let joined = first.ok(&["home", "join", &line, "--yes"]);
    assert!(joined.contains("connected to the concentrator at 203.0.113.1:51900 by"), "{joined}");
    assert!(!first.file("braid.enrol").exists(), "what was used up is gone");
    // It counts now and then.
    wait_for("the concentrator knows the home", || {
        let home = &list(&world)[0];
        home["state"] == "joined" && home["connected"] == true
    });

    let other = neighbour(&world);
    let second = Router::new(&other, world.scratch.path().join("second"));
    let refused = second.run(&["home", "join", &line, "--yes"]);
    assert_eq!(refused.status.code(), Some(1));
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains("another router has joined with this join line"), "{said}");
    wait_for("the concentrator tells of it", || {
        let trouble = list(&world)[0]["trouble"].as_str().unwrap_or_default().to_owned();
        trouble.contains("a second router, at 10.9.0.2")
    });
    assert!(first.status()["peers"][0]["connected"] == true, "the first goes on");

    // The second is to take the place of the first.
    let line = renewed(&world);
    let joined = second.ok(&["home", "join", &line, "--yes", "--replace"]);
    assert!(joined.contains("connected"), "{joined}");
    wait_for("the first is shut out", || first.status()["peers"][0]["connected"] == false);
}

/// What it is, a folder in place of sysfs says: it has a battery, and h1 is Wi-Fi.
#[test]
fn a_laptop_joins_by_what_its_links_are() {
    let Some(mut world) = World::new() else { return };
    world.start_concentrator();
    let line = world.line.clone();
    let router = Router::new(&world.home, world.scratch.path().join("laptop"));
    router.sh(
        "mount -t tmpfs none /sys/class && cd /sys/class && mkdir -p power_supply/BAT0 net/h1 net/h2
         echo Battery > power_supply/BAT0/type; echo DEVTYPE=wlan > net/h1/uevent; echo 1 > net/h2/type",
    );
    let by_name = router.ok(&["home", "join", &line, "--dry-run", "--by-name"]);
    assert!(by_name.contains("interface = \"h1\"") && !by_name.contains("kind ="), "{by_name}");
    // A slip, or one that comes later.
    let slip =
        router.ok(&["home", "join", &line, "--dry-run", "--interface", "h11", "--interface", "h2"]);
    assert!(slip.contains("  h11, which doesn't exist now: ") && slip.contains("  h2\n"), "{slip}");
    let joined = router.ok(&["home", "join", &line, "--yes"]);
    assert!(joined.contains("connected to the concentrator"), "{joined}");
    let text = std::fs::read_to_string(router.file("braid.toml")).unwrap();
    assert!(text.contains("name = \"wifi\"\nmatch = { kind = \"wifi\" }"), "{text}");
    assert!(text.contains("name = \"h2\"\ninterface = \"h2\""), "{text}");
    assert!(!text.contains("\"h1\""), "{text}");
    wait_for("both links work", || {
        let links = router.status()["links"].clone();
        let find =
            |name: &str| links.as_array().unwrap().iter().find(|it| it["name"] == name).cloned();
        let (wifi, other) = (find("wifi").unwrap(), find("h2").unwrap());
        wifi["interface"] == "h1" && wifi["present"] == true && other["present"] == true
    });
    let status = router.status();
    let phone =
        status["links"].as_array().unwrap().iter().find(|it| it["name"] == "phone").cloned();
    assert_eq!(phone.unwrap()["trouble"], "no interface matches kind tether");
}

#[test]
fn a_revoked_line_lets_nobody_in() {
    let Some(mut world) = World::new() else { return };
    world.start_concentrator();
    let line: Value = world.concentrator(&["concentrator", "add-home", "boat", "--json"]);
    let line = line["line"].as_str().unwrap().to_owned();
    assert_eq!(list(&world)[1]["state"], "invited");
    world.concentrator(&["concentrator", "revoke", "boat", "--json"]);
    assert_eq!(list(&world).as_array().unwrap().len(), 1);
    let router = Router::new(&world.home, world.scratch.path().join("boat"));
    let refused = router.run(&["home", "join", &line, "--yes"]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1));
    for word in ["no answer within 30 s", "UDP port 51900", "revoked"] {
        assert!(said.contains(word), "{said}");
    }
}

#[test]
fn a_second_tunnel_of_a_router_is_another_and_each_command_is_for_one() {
    let Some(mut world) = World::new() else { return };
    world.start_concentrator();
    let (line, boat) =
        (world.line.clone(), world.concentrator(&["concentrator", "add-home", "boat", "--json"]));
    let router = Router::new(&world.home, world.scratch.path().join("router"));
    router.ok(&["home", "join", &line, "--yes"]);
    let before = router.sh("ip rule; ip -6 rule; nft list ruleset");

    let second = router.with_config("second.toml");
    let boat = boat["line"].as_str().unwrap();
    second.ok(&["home", "join", boat, "--yes", "--no-default-route"]);
    let interfaces = [&router, &second].map(|router| router.status()["interface"].clone());
    assert_eq!(interfaces, ["braid0", "braid1"]);

    second.ok(&["down"]);
    assert_eq!(second.run(&["status"]).status.code(), Some(4), "it alone is down");
    assert!(router.status()["peers"][0]["connected"] == true);
    assert_eq!(router.sh("ip rule; ip -6 rule; nft list ruleset"), before);

    // A config that was copied names the first one's device and socket.
    let copied = router.with_config("copied.toml");
    std::fs::copy(router.file("braid.toml"), copied.file("copied.toml")).unwrap();
    for command in ["down", "status", "reload"] {
        let refused = copied.run(&[command]);
        let said = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(4), "{command}: {said}");
        assert!(said.contains("braid.toml") && said.contains("interface.name"), "{said}");
    }
    assert_eq!(copied.run(&["up"]).status.code(), Some(6));
    assert!(router.status()["peers"][0]["connected"] == true, "the first goes on");
}

#[test]
fn who_joins_again_is_told_how_and_loses_nothing_on_the_way() {
    let Some(mut world) = World::new() else { return };
    world.start_concentrator();
    let line = world.line.clone();
    let router = Router::new(&world.home, world.scratch.path().join("router"));
    // An attempt that broke off has left a key.
    std::fs::write(router.file("braid.key"), "somebody's").unwrap();
    router.ok(&["home", "join", &line, "--yes"]);
    assert_eq!(std::fs::read_to_string(router.file("braid.key")).unwrap(), "somebody's");

    let line = renewed(&world);
    let refused = router.run(&["home", "join", &line, "--yes"]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1));
    for word in ["has joined to this concentrator", "`braid up` continues", "--replace"] {
        assert!(said.contains(word), "{said}");
    }

    let pid = router.status()["pid"].clone();
    router.ok(&["rule", "add", "bank", "--to", "203.0.113.77/32", "--do", "direct"]);
    let before = std::fs::read_to_string(router.file("braid.toml")).unwrap();
    let planned = router.ok(&["home", "join", &line, "--dry-run", "--replace"]);
    assert!(planned.contains("keeps its links, rules and settings"), "{planned}");
    let joined = router.ok(&["home", "join", &line, "--yes", "--replace"]);
    assert!(joined.contains("connected"), "{joined}");
    let after = std::fs::read_to_string(router.file("braid.toml")).unwrap();
    assert!(after.contains("203.0.113.77/32") && after != before, "{after}");
    assert_eq!(std::fs::read_to_string(router.file("braid.old")).unwrap(), before);
    assert_ne!(router.status()["pid"], pid);
    let keys = router.sh(&format!("ls {}", router.file("").display()));
    assert_eq!(keys.matches(".key").count(), 2, "the first's own is gone: {keys}");

    // Who has broken off after the line was used goes on with the key that it let in.
    let planned = router.ok(&["home", "join", &line, "--dry-run", "--replace"]);
    assert!(planned.contains("the key already made for it"), "{planned}");
    let joined = router.ok(&["home", "join", &line, "--yes", "--replace"]);
    assert!(joined.contains("connected"), "{joined}");
    assert_eq!(router.sh(&format!("ls {}", router.file("").display())), keys);
    assert_eq!(std::fs::read_to_string(router.file("braid.toml")).unwrap(), after);

    // Somebody's mistake in the config is no reason to stay up.
    let config = std::fs::read_to_string(router.file("braid.toml")).unwrap();
    std::fs::write(router.file("braid.toml"), format!("{config}\nnonsense")).unwrap();
    assert!(router.ok(&["status"]).contains("concentrator"), "what runs is seen");
    router.ok(&["down"]);
    assert_eq!(router.run(&["status"]).status.code(), Some(3), "nothing runs");
    std::fs::write(router.file("braid.toml"), config).unwrap();
    router.ok(&["up"]);

    // All files are gone while it runs.
    router.sh(&format!("rm {}/*", router.file("").display()));
    let refused = router.run(&["home", "join", &line, "--yes"]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains("still running") && said.contains("braid down"), "{said}");
    router.ok(&["down"]);
    assert_eq!(
        router.run(&["down"]).status.code(),
        Some(3),
        "nothing runs, and there is no config"
    );
}

#[test]
fn a_second_concentrator_is_joined_and_stands_in_for_the_first() {
    let Some(mut world) = World::new() else { return };
    // Also when its own tunnel is down it is the way to the second.
    sh(&world.concentrator, "sysctl -qw net.ipv4.ip_forward=1");
    world.start_concentrator();
    let line = world.line.clone();
    let router = Router::new(&world.home, world.scratch.path().join("router"));
    router.ok(&["home", "join", &line, "--yes"]);

    let other = neighbour(&world);
    let second = Router::new(&other, world.scratch.path().join("second"));
    let init = second.ok(&["concentrator", "init", "--endpoint", "10.9.0.2:51900"]);
    let line = init.trim();

    let boat = second.ok(&["concentrator", "add-home", "boat"]);
    let refused = router.run(&["home", "join", boat.trim(), "--stand-in", "--yes"]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("add-home boat --address 10.77.0.2 --address fd77:b1d::2"), "{said}");

    let before = std::fs::read_to_string(router.file("braid.toml")).unwrap();
    router.ok(&["home", "join", line, "--stand-in", "--dry-run"]);
    assert_eq!(std::fs::read_to_string(router.file("braid.toml")).unwrap(), before);
    let joined = router.ok(&["home", "join", line, "--stand-in", "--yes"]);
    assert!(joined.contains("it stands in for concentrator"), "{joined}");
    assert!(!router.file("concentrator-2.enrol").exists(), "what was used up is gone");
    let again = router.run(&["home", "join", line, "--stand-in", "--yes"]);
    assert!(String::from_utf8_lossy(&again.stderr).contains("has joined that"), "{again:?}");
    assert_eq!(router.status()["peers"][1]["stands_in_for"], "concentrator");

    world.concentrator(&["down"]);
    // A path that nothing goes by isn't asked whether it works.
    wait_for("the second serves", || {
        router.sh("ping -q -c 1 -W 1 10.77.0.1 || true");
        router.status()["peers"][0]["served_by"] == "concentrator-2"
    });
    router.sh("ping -q -c 3 -W 5 10.77.0.1");
}

/// A host at 10.9.0.2, on a line of its own to the concentrator.
fn neighbour(world: &World) -> NetNs {
    let other = NetNs::new().unwrap();
    sh(&other, "ip link add h9 type veth peer name c9");
    world.concentrator.move_from(&other, "c9");
    sh(
        &other,
        "ip addr add 10.9.0.2/24 dev h9 && ip link set h9 up && ip route add default via 10.9.0.1",
    );
    sh(&world.concentrator, "ip addr add 10.9.0.1/24 dev c9 && ip link set c9 up");
    other
}

/// A host with folders /run and /var/lib of its own.
struct Router<'n> {
    namespace: &'n NetNs,
    folder: PathBuf,
    config: &'static str,
    mounts: u32,
    /// Keeps the mounts.
    keeper: Option<Child>,
}

impl<'n> Router<'n> {
    fn new(namespace: &'n NetNs, folder: PathBuf) -> Router<'n> {
        std::fs::create_dir_all(&folder).unwrap();
        let script = "mount --make-rprivate / && mount -t tmpfs none /run && \
                      mount -t tmpfs none /var/lib && touch /run/ready && exec sleep 3600";
        let mut command = Command::new("unshare");
        let command = command.args(["--mount", "sh", "-c", script]).stdin(Stdio::null());
        let keeper = command.spawn().unwrap();
        let ready = PathBuf::from(format!("/proc/{}/root/run/ready", keeper.id()));
        wait_for("the mounts are made", || ready.exists());
        let mounts = keeper.id();
        Router { namespace, folder, config: "braid.toml", mounts, keeper: Some(keeper) }
    }

    /// The same host, and another tunnel.
    fn with_config(&self, config: &'static str) -> Router<'n> {
        let (namespace, folder, mounts) = (self.namespace, self.folder.clone(), self.mounts);
        Router { namespace, folder, config, mounts, keeper: None }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn command(&self, program: &str) -> Command {
        let mut command = self.namespace.command("nsenter");
        command.args(["--mount", "--target", &self.mounts.to_string(), "--", program]);
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = self.command(BRAID);
        command.args(arguments).arg("-c").arg(self.file(self.config)).output().unwrap()
    }

    fn ok(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn status(&self) -> Value {
        serde_json::from_str(&self.ok(&["status", "--json"])).unwrap()
    }

    fn sh(&self, script: &str) -> String {
        let output = self.command("sh").args(["-c", script]).output().unwrap();
        assert!(output.status.success(), "{script}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Drop for Router<'_> {
    fn drop(&mut self) {
        let status = self.run(&["status", "--json"]).stdout;
        let status: Value = serde_json::from_slice(&status).unwrap_or_default();
        if let Some(pid) = status["pid"].as_u64() {
            self.sh(&format!("kill -9 {pid}"));
        }
        if let Some(mut keeper) = self.keeper.take() {
            let _ = keeper.kill();
            let _ = keeper.wait();
        }
    }
}

fn list(world: &World) -> Value {
    world.concentrator(&["concentrator", "list", "--json"])
}

/// Another line for the first home.
fn renewed(world: &World) -> String {
    let renewed = world.concentrator(&["concentrator", "renew", "home", "--json"]);
    renewed["line"].as_str().unwrap().to_owned()
}

fn wait_for(what: &str, holds: impl Fn() -> bool) {
    let give_up = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < give_up, "never: {what}");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}
