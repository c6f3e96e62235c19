//! A home with two links, a device that is no link, and a LAN; the internet
//! with the concentrator in it.

use crate::PATIENCE;
use braid_linux::netlink::Netlink;
use braid_linux::netns::NetNs;
use serde_json::Value;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// What the home's config calls the concentrator.
pub const ENDPOINT_NAME: &str = "vpn.braid.test";
/// A host of the internet that nobody may be seen talking to.
pub const SECRET_V4: &str = "198.51.100.80";
/// As [`SECRET_V4`].
pub const SECRET_V6: &str = "2001:db8:80::80";
/// A host of the internet that a rule may send connections to beside the tunnel.
pub const BANK_V4: &str = "198.51.100.81";
/// As [`BANK_V4`].
pub const BANK_V6: &str = "2001:db8:80::81";
const BRAID: &str = env!("CARGO_BIN_EXE_braid");

/// Links are `w1` and `w2`, the other device is `x1`; in the internet they are
/// `c1`, `c2`, `c3`.
pub struct Network {
    pub home: NetNs,
    pub lan: NetNs,
    pub internet: NetNs,
    pub scratch: tempfile::TempDir,
    /// What the home's daemon has in its environment besides, from its next start on.
    pub environment: Vec<(&'static str, OsString)>,
    daemons: Vec<(&'static str, Child)>,
}

impl Network {
    /// None where namespaces can't be made.
    pub fn new() -> Option<Network> {
        let (home, lan, internet) = match (NetNs::new(), NetNs::new(), NetNs::new()) {
            (Ok(home), Ok(lan), Ok(internet)) => (home, lan, internet),
            (Err(error), ..) | (_, Err(error), _) | (.., Err(error)) => {
                eprintln!("SKIPPED: no network namespaces here: {error}");
                return None;
            }
        };
        let scratch = tempfile::tempdir().unwrap();
        let environment = Vec::new();
        let network = Network { home, lan, internet, scratch, environment, daemons: Vec::new() };
        for (side, server) in [("home", "10.1.0.1"), ("internet", "203.0.113.53")] {
            fs::write(network.resolv_conf(side), format!("nameserver {server}\n")).unwrap();
        }
        let mut netlink = network.home.run(Netlink::open).unwrap().unwrap();
        for (ours, theirs, there) in [
            ("w1", "c1", &network.internet),
            ("w2", "c2", &network.internet),
            ("x1", "c3", &network.internet),
            ("lan0", "l0", &network.lan),
        ] {
            netlink.add_veth(ours, theirs, Some(there)).unwrap();
        }
        network.inside("internet", &format!(
            "sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
             for n in 1 2 3; do ip addr add 10.$n.0.1/24 dev c$n; ip addr add 2001:db8:$n::1/64 dev c$n nodad; ip link set c$n up; done
             for a in 203.0.113.1/32 203.0.113.2/32 203.0.113.53/32 {SECRET_V4}/32 {BANK_V4}/32; do ip addr add $a dev lo; done
             ip addr add {SECRET_V6}/128 dev lo; ip addr add {BANK_V6}/128 dev lo"
        ));
        network.inside("lan",
            "ip addr add 192.168.50.2/24 dev l0; ip addr add fd50::2/64 dev l0 nodad; ip link set l0 up
             ip route add default via 192.168.50.1; ip -6 route add default via fd50::1",
        );
        network.inside(
            "home",
            "sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
             ip addr add 192.168.50.1/24 dev lan0; ip addr add fd50::1/64 dev lan0 nodad; ip link set lan0 up",
        );
        network.links_come();
        Some(network)
    }

    /// The links and the device that is none, with what DHCP and router
    /// advertisements would give them.
    pub fn links_come(&self) {
        self.inside(
            "home",
            "for d in w1:1 w2:2 x1:3; do n=${d#*:}; d=${d%:*}
             ip link set $d up; ip addr replace 10.$n.0.2/24 dev $d; ip addr replace 2001:db8:$n::2/64 dev $d nodad
             done
             ip route replace default via 10.1.0.1 dev w1 metric 10; ip route replace default via 10.2.0.1 dev w2 metric 20
             ip -6 route replace default via 2001:db8:1::1 dev w1 metric 10; ip -6 route replace default via 2001:db8:2::1 dev w2 metric 20",
        );
    }

    /// Takes them down.
    pub fn links_go(&self) {
        self.inside("home", "for d in w1 w2 x1; do ip link set $d down; done");
    }

    /// Both ends' configs; the home's with these options of `home join`.
    pub fn join(&self, endpoint: &str, options: &[&str]) {
        let endpoint = format!("{endpoint}:51900");
        let init = ["concentrator", "init", "--no-start", "--endpoint", &endpoint];
        let init = self.braid_ok("internet", &init);
        let line = String::from_utf8(init.stdout).unwrap().trim().to_owned();
        let mut join = vec!["home", "join", &line, "--yes", "--no-start"];
        join.extend(["--interface", "w1", "--interface", "w2"]);
        join.extend(options);
        self.braid_ok("home", &join);
        for side in ["internet", "home"] {
            let text = fs::read_to_string(self.config(side)).unwrap();
            let own = "name = \"braid0\"\ncontrol = \"c.sock\"\nstate_dir = \"state\"\n";
            fs::write(self.config(side), text.replace("name = \"braid0\"\n", own)).unwrap();
        }
    }

    /// Changes a side's config.
    pub fn edit(&self, side: &str, edit: impl Fn(String) -> String) {
        let text = fs::read_to_string(self.config(side)).unwrap();
        fs::write(self.config(side), edit(text)).unwrap();
    }

    /// Starts a side's daemon and waits until it answers.
    pub fn start(&mut self, side: &'static str) {
        let log = || {
            let file = self.scratch.path().join(side).join("log");
            fs::File::options().create(true).append(true).open(file).unwrap()
        };
        let mut command = self.command(side);
        if side == "home" {
            command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        }
        command.args(["--log", "info", "up", "--foreground", "-c"]).arg(self.config(side));
        let child = command.stdin(Stdio::null()).stdout(log()).stderr(log()).spawn().unwrap();
        self.daemons.push((side, child));
        self.wait_until("the daemon answers", || {
            self.braid(side, &["status", "--json"]).status.success()
        });
    }

    /// Ends a side's daemon by a signal.
    pub fn signal(&mut self, side: &str, signal: &str) {
        let at = self.daemons.iter().position(|(of, _)| *of == side).unwrap();
        let (_, mut daemon) = self.daemons.remove(at);
        let kill = Command::new("kill").args([signal, &daemon.id().to_string()]).status();
        assert!(kill.unwrap().success());
        daemon.wait().unwrap();
    }

    /// Runs the program with a side's config.
    pub fn braid(&self, side: &str, arguments: &[&str]) -> Output {
        self.command(side).args(arguments).arg("-c").arg(self.config(side)).output().unwrap()
    }

    pub fn braid_ok(&self, side: &str, arguments: &[&str]) -> Output {
        let output = self.braid(side, arguments);
        assert!(output.status.success(), "{arguments:?}: {output:?}\n{}", self.log(side));
        output
    }

    pub fn status(&self) -> Value {
        serde_json::from_slice(&self.braid_ok("home", &["status", "--json"]).stdout).unwrap()
    }

    pub fn connected(&self) -> bool {
        self.status()["peers"][0]["connected"] == true
    }

    pub fn wait_until(&self, what: &str, holds: impl Fn() -> bool) {
        let give_up = Instant::now() + PATIENCE;
        while !holds() {
            assert!(
                Instant::now() < give_up,
                "never: {what}\n{}\n{}\n{}",
                String::from_utf8_lossy(&self.braid("home", &["status"]).stdout),
                self.log("home"),
                self.inside("home", "nft list ruleset; ip rule; ip route show table all"),
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Runs a shell script that must succeed on a host.
    pub fn inside(&self, side: &str, script: &str) -> String {
        let host = match side {
            "home" => &self.home,
            "lan" => &self.lan,
            _ => &self.internet,
        };
        let output = host.command("sh").args(["-ec", script]).output().unwrap();
        assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// What the program finds as /etc/resolv.conf on a host.
    pub fn resolv_conf(&self, side: &str) -> PathBuf {
        self.scratch.path().join(format!("{side}.resolv.conf"))
    }

    /// What the home finds behind systemd-resolved.
    pub fn give_resolved(&self, servers: &str) {
        let folder = self.scratch.path().join("resolve");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("resolv.conf"), servers).unwrap();
    }

    /// What a side's daemon said.
    pub fn log(&self, side: &str) -> String {
        fs::read_to_string(self.scratch.path().join(side).join("log")).unwrap_or_default()
    }

    fn config(&self, side: &str) -> PathBuf {
        let directory = self.scratch.path().join(side);
        fs::create_dir_all(&directory).unwrap();
        directory.join("braid.toml")
    }

    /// The program on a host whose /etc/resolv.conf is this test's, and at home what is behind it.
    fn command(&self, side: &str) -> Command {
        let host = if side == "home" { &self.home } else { &self.internet };
        let mut command = host.command(Path::new("unshare"));
        let script = "mount --bind \"$0\" /etc/resolv.conf; mount -t tmpfs none /run
            mkdir -p /run/systemd/resolve; mount --bind \"$1\" /run/systemd/resolve; shift
            exec \"$@\"";
        command.args(["--mount", "--propagation", "private", "sh", "-ec", script]);
        let behind = self.scratch.path().join(if side == "home" { "resolve" } else { "none" });
        fs::create_dir_all(&behind).unwrap();
        command.arg(self.resolv_conf(side)).arg(behind).arg(BRAID);
        command
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for (_, daemon) in &mut self.daemons {
            // Already failing; the namespaces take the rest with them.
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}
