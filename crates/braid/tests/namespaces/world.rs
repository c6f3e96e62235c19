use braid_linux::netns::NetNs;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

pub const BRAID: &str = env!("CARGO_BIN_EXE_braid");
/// Far more than needed: the machine may be busy.
pub const PATIENCE: Duration = Duration::from_secs(30);

pub struct World {
    pub home: NetNs,
    pub concentrator: NetNs,
    pub scratch: tempfile::TempDir,
    daemon: Option<Child>,
    /// What takes the home in.
    pub line: String,
}

impl World {
    /// Both ends up, and what the hosts were like before. None where namespaces
    /// can't be made.
    pub fn with_home_up() -> Option<(World, String)> {
        let mut world = World::new()?;
        let before = world.snapshot();
        world.start_concentrator();
        let line = world.line.clone();
        world.home_ok(&["home", "join", &line, "--yes", "--no-start"]);
        world.keep_in_scratch("home");
        world.home_ok(&["up"]);
        Some((world, before))
    }

    /// None where namespaces can't be made.
    pub fn new() -> Option<World> {
        let (home, concentrator) = match (NetNs::new(), NetNs::new()) {
            (Ok(home), Ok(concentrator)) => (home, concentrator),
            (Err(error), _) | (_, Err(error)) => {
                eprintln!("SKIPPED: no network namespaces here: {error}");
                return None;
            }
        };
        let scratch = tempfile::tempdir().unwrap();
        let world = World { home, concentrator, scratch, daemon: None, line: String::new() };
        for number in [1, 2] {
            world.sh(&format!("ip link add h{number} type veth peer name c{number}"));
            world.concentrator.move_from(&world.home, &format!("c{number}"));
            world.sh(&format!(
                "ip addr add 10.{number}.0.2/24 dev h{number} && ip link set h{number} up"
            ));
            sh(
                &world.concentrator,
                &format!(
                    "ip addr add 10.{number}.0.1/24 dev c{number} && ip link set c{number} up"
                ),
            );
            let metric = number * 10;
            world.sh(&format!(
                "ip route add default via 10.{number}.0.1 dev h{number} metric {metric}"
            ));
        }
        sh(&world.concentrator, "ip link set lo up && ip addr add 203.0.113.1/32 dev lo");
        Some(world)
    }

    pub fn start_concentrator(&mut self) {
        let config = self.config("concentrator");
        let init = self
            .concentrator
            .command(BRAID)
            .args(["concentrator", "init", "--no-start", "--endpoint", "203.0.113.1:51900", "-c"])
            .arg(&config)
            .output()
            .unwrap();
        assert!(init.status.success(), "{init:?}");
        self.line = String::from_utf8(init.stdout).unwrap().trim().to_owned();
        self.keep_in_scratch("concentrator");
        let child = self
            .concentrator
            .command(BRAID)
            .args(["up", "--foreground", "-c"])
            .arg(&config)
            .stdin(Stdio::null())
            .spawn();
        self.daemon = Some(child.unwrap());
    }

    /// What a command there says, in JSON.
    pub fn concentrator(&self, arguments: &[&str]) -> Value {
        let mut command = self.concentrator.command(BRAID);
        let config = self.config("concentrator");
        let output = command.args(arguments).arg("-c").arg(config).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        serde_json::from_slice(&output.stdout).unwrap_or_default()
    }

    pub fn stop_concentrator(&mut self) {
        let Some(mut daemon) = self.daemon.take() else { return };
        sh(&self.concentrator, &format!("kill -TERM {}", daemon.id()));
        assert_eq!(daemon.wait().unwrap().code(), Some(0), "SIGTERM is an orderly end");
    }

    pub fn config(&self, side: &str) -> PathBuf {
        self.scratch.path().join(side).join("braid.toml")
    }

    /// Control socket and state of this test alone.
    pub fn keep_in_scratch(&self, side: &str) {
        let config = self.config(side);
        let text = std::fs::read_to_string(&config).unwrap();
        let own = "name = \"braid0\"\ncontrol = \"c.sock\"\nstate_dir = \"state\"\n";
        std::fs::write(config, text.replace("name = \"braid0\"\n", own)).unwrap();
    }

    pub fn home(&self, arguments: &[&str]) -> Output {
        let mut command = self.home.command(BRAID);
        command.args(arguments).arg("-c").arg(self.config("home")).output().unwrap()
    }

    pub fn home_ok(&self, arguments: &[&str]) -> Vec<u8> {
        let output = self.home(arguments);
        let log = std::fs::read_to_string(self.scratch.path().join("home/state/braid0.log"));
        assert!(output.status.success(), "{arguments:?}: {output:?}\n{log:?}");
        output.stdout
    }

    pub fn status(&self) -> Value {
        serde_json::from_slice(&self.home_ok(&["status", "--json"])).unwrap()
    }

    pub fn wait_for(&self, what: &str, holds: impl Fn(&Value) -> bool) {
        let give_up = Instant::now() + PATIENCE;
        loop {
            let status = self.status();
            if holds(&status) {
                return;
            }
            assert!(Instant::now() < give_up, "{what}: {status:#}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    pub fn ping(&self, address: &str) -> bool {
        let mut command = self.home.command("ping");
        let command = command.args(["-q", "-c", "3", "-i", "0.2", "-W", "10", address]);
        command.stdout(Stdio::null()).status().unwrap().success()
    }

    pub fn sh(&self, script: &str) -> String {
        sh(&self.home, script)
    }

    /// All that routing, filter and devices of the home are. The kernel's own
    /// routes of link-local addresses come with some delay and don't count.
    pub fn snapshot(&self) -> String {
        self.sh(
            "ip rule; ip -6 rule; ip -o link | cut -d: -f2; ip -o addr | grep -v fe80: | awk '{print $2, $4}'; \
             (ip route show table all; ip -6 route show table all) | grep -v -e fe80: -e multicast -e ff00: | sort; \
             nft list ruleset; sysctl net.ipv4.ip_forward net.ipv6.conf.all.forwarding; \
             sysctl -a 2>/dev/null | grep -e rp_filter -e src_valid_mark",
        )
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if let Some(daemon) = &mut self.daemon {
            // Already failing; the namespaces take the rest with them.
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
        if self.config("home").exists() {
            self.home(&["down"]);
        }
    }
}

pub trait MoveFrom {
    fn move_from(&self, other: &NetNs, device: &str);
}

impl MoveFrom for NetNs {
    fn move_from(&self, other: &NetNs, device: &str) {
        let mut netlink = other.run(|| braid_linux::netlink::Netlink::open().unwrap()).unwrap();
        netlink.move_to_namespace(device, self).unwrap();
    }
}

pub fn paths(status: &Value) -> Vec<&Value> {
    status["peers"][0]["paths"].as_array().map(|paths| paths.iter().collect()).unwrap_or_default()
}

pub fn sh(namespace: &NetNs, script: &str) -> String {
    let mut command: Command = namespace.command(Path::new("sh"));
    let output = command.args(["-c", script]).output().unwrap();
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
