use crate::PATIENCE;
use braid_handshake::{PrivateKey, os_random};
use braid_linux::netns::NetNs;
use serde_json::Value;
use std::ffi::OsString;
use std::fs::{self, File};
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

pub const BRAID: &str = env!("CARGO_BIN_EXE_braid");

/// One end of the tunnel: a host and the program on it.
pub struct Side {
    pub namespace: NetNs,
    directory: PathBuf,
    key: PrivateKey,
    daemon: Option<Child>,
    environment: Vec<(&'static str, OsString)>,
}

impl Side {
    /// A host with its own key and directory, and no tunnel yet.
    pub fn new(namespace: &NetNs, directory: &Path) -> Side {
        fs::create_dir_all(directory.join("state")).unwrap();
        fs::create_dir_all(directory.join("run")).unwrap();
        let key = PrivateKey::generate(&mut os_random());
        braid_control::config::write_secret(&directory.join("key"), &key.to_base64()).unwrap();
        let namespace = namespace.run(NetNs::current).unwrap().unwrap();
        Side {
            namespace,
            directory: directory.to_owned(),
            key,
            daemon: None,
            environment: Vec::new(),
        }
    }

    pub fn public_key(&self) -> String {
        self.key.public_key().to_string()
    }

    /// `interface` is what `[interface]` has besides names and files, `routing`
    /// what `[routing]` has; `rest` is all that follows.
    pub fn write_config(&self, interface: &str, routing: &str, rest: &str) {
        let text = format!(
            "[interface]\nprivate_key_file = \"key\"\ncontrol = \"run/sock\"\nstate_dir = \"state\"\n\
             {interface}\n[routing]\n{routing}\n{rest}"
        );
        fs::write(self.config(), text).unwrap();
    }

    /// The config's text.
    pub fn config_text(&self) -> String {
        fs::read_to_string(self.config()).unwrap()
    }

    /// Replaces it.
    pub fn write_text(&self, text: &str) {
        fs::write(self.config(), text).unwrap();
    }

    /// Adds sections to the config.
    pub fn append_to_config(&self, sections: &str) {
        self.write_text(&format!("{}{sections}", self.config_text()));
    }

    /// What the daemon's environment has besides, from its next start on.
    pub fn set_environment(&mut self, environment: Vec<(&'static str, OsString)>) {
        self.environment = environment;
    }

    /// The daemon, from its next start on, finds this script in place of the program of that name.
    pub fn put_program(&mut self, name: &str, script: &str) {
        let folder = self.directory.join("bin");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(name), script).unwrap();
        fs::set_permissions(folder.join(name), PermissionsExt::from_mode(0o755)).unwrap();
        let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
        self.set_environment(vec![("PATH", path.into())]);
    }

    /// Starts the daemon and waits until it answers.
    pub fn start(&mut self) {
        self.begin();
        let up = || self.braid(&["status", "--json"]).status.success();
        self.wait_until("the daemon answers", up);
    }

    /// Starts the daemon and waits for nothing.
    pub fn begin(&mut self) {
        self.begin_by(&[]);
    }

    /// The same, by a program with these arguments that becomes the daemon.
    pub fn begin_by(&mut self, program: &[&str]) {
        let log = || File::options().create(true).append(true).open(self.log_file()).unwrap();
        let (out, log) = (log(), log());
        self.begin_with(program, "info", out.into(), log.into());
    }

    /// The same, with a log of this level that goes to `log`.
    pub fn begin_with(&mut self, program: &[&str], level: &str, out: Stdio, log: Stdio) {
        let words = [program, &[BRAID]].concat();
        let mut command = self.namespace.command(words[0]);
        command.args(&words[1..]);
        command.args(["--log", level, "up", "--foreground", "-c"]).arg(self.config());
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(out).stderr(log);
        self.daemon = Some(command.spawn().unwrap());
    }

    /// One more daemon of the same config, which is the caller's.
    pub fn another(&self) -> Child {
        let mut command = self.namespace.command(BRAID);
        command.args(["up", "--foreground", "-c"]).arg(self.config());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().unwrap()
    }

    /// Sends the daemon a signal (`-TERM`), and waits for its end.
    pub fn signal(&mut self, signal: &str) -> ExitStatus {
        let mut daemon = self.daemon.take().unwrap();
        self.sh(&format!("kill {signal} {}", daemon.id()));
        daemon.wait().unwrap()
    }

    /// Waits until the daemon has ended by itself, or somebody else has ended it.
    pub fn wait_for_the_end(&mut self) -> ExitStatus {
        self.daemon.take().unwrap().wait().unwrap()
    }

    /// Runs the daemon with so much address space, and ends it in good order when it answers. Its
    /// exit status, unless a signal ended it, and what it said.
    pub fn up_for_a_moment(&self, address_space: u64) -> (Option<i32>, String) {
        let mut command = self.namespace.command(Path::new("prlimit"));
        command.arg(format!("--as={address_space}")).args([BRAID, "up", "--foreground", "-c"]);
        command.arg(self.config()).stdin(Stdio::null()).stderr(Stdio::piped());
        let mut daemon = command.spawn().unwrap();
        let give_up = Instant::now() + PATIENCE;
        while daemon.try_wait().unwrap().is_none() {
            assert!(Instant::now() < give_up, "it neither answers nor ends");
            if self.braid(&["status"]).status.success() {
                // Not heard while there is no memory for it, perhaps.
                let _ = self.braid(&["down"]);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let output = daemon.wait_with_output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    }

    /// The names of the daemon's threads that stay for as long as it runs.
    pub fn threads(&self) -> Vec<String> {
        let tasks = format!("/proc/{}/task", self.status()["pid"]);
        // One may end while this looks.
        let name = |task: fs::DirEntry| fs::read_to_string(task.path().join("comm")).ok();
        let mut names: Vec<String> =
            fs::read_dir(tasks).unwrap().filter_map(|task| name(task.unwrap())).collect();
        // Those that answer requests come and go.
        names.retain(|name| name.starts_with("braid-"));
        names.sort();
        names
    }

    /// How it has ended, if it has.
    pub fn has_ended(&mut self) -> Option<ExitStatus> {
        self.daemon.as_mut().unwrap().try_wait().unwrap()
    }

    /// The daemon's process.
    pub fn process(&self) -> u32 {
        self.daemon.as_ref().unwrap().id()
    }

    /// A file of /proc of the daemon.
    pub fn of_process(&self, file: &str) -> String {
        let number = self.daemon.as_ref().unwrap().id();
        fs::read_to_string(format!("/proc/{number}/{file}")).unwrap()
    }

    /// Ends the daemon as a crash does.
    pub fn kill(&mut self) {
        let Some(mut daemon) = self.daemon.take() else { return };
        daemon.kill().unwrap();
        daemon.wait().unwrap();
    }

    /// The name of its folder.
    pub fn name(&self) -> String {
        self.directory.file_name().unwrap().to_string_lossy().into_owned()
    }

    /// Ends the daemon in good order.
    pub fn stop(&mut self) {
        let mut daemon = self.daemon.take().unwrap();
        self.braid_ok(&["down"]);
        assert_eq!(daemon.wait().unwrap().code(), Some(0), "{}", self.log());
    }

    /// Runs the program here with this side's config.
    pub fn braid(&self, arguments: &[&str]) -> Output {
        let mut command = self.namespace.command(BRAID);
        command.args(arguments).arg("-c").arg(self.config()).output().unwrap()
    }

    /// With another config than its own.
    pub fn braid_by(&self, config: &Path, arguments: &[&str]) -> Output {
        let mut command = self.namespace.command(BRAID);
        command.args(arguments).arg("-c").arg(config).output().unwrap()
    }

    pub fn braid_ok(&self, arguments: &[&str]) -> Vec<u8> {
        let output = self.braid(arguments);
        assert!(output.status.success(), "{arguments:?}: {output:?}\n{}", self.log());
        output.stdout
    }

    pub fn status(&self) -> Value {
        serde_json::from_slice(&self.braid_ok(&["status", "--json"])).unwrap()
    }

    /// A status that was counted after the call: the daemon counts now and then,
    /// and what it counts while it's asked may have been begun before.
    pub fn fresh_status(&self) -> Value {
        let counted = || self.status()["peers"][0]["last_handshake_s"].clone();
        for _ in 0..2 {
            let before = counted();
            self.wait_until("it counts again", || counted() != before);
        }
        self.status()
    }

    /// The paths to the first peer.
    pub fn paths(&self) -> Vec<Value> {
        self.status()["peers"][0]["paths"].as_array().cloned().unwrap_or_default()
    }

    pub fn wait_for_active_paths(&self, count: usize) {
        self.wait_until("the paths work", || {
            self.paths().iter().filter(|path| path["state"] == "active").count() == count
        });
    }

    /// Waits until an address answers a ping.
    pub fn wait_for_ping(&self, address: IpAddr) {
        self.wait_until("a ping is answered", || {
            let mut command = self.namespace.command("ping");
            let command = command.args(["-q", "-c", "1", "-W", "1", &address.to_string()]);
            command.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().success()
        });
    }

    pub fn wait_until(&self, what: &str, holds: impl Fn() -> bool) {
        let give_up = Instant::now() + PATIENCE;
        while !holds() {
            let status = self.braid(&["status"]);
            let status = String::from_utf8_lossy(&status.stdout);
            assert!(Instant::now() < give_up, "never: {what}\n{status}\n{}", self.log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Runs a shell command that must succeed.
    pub fn sh(&self, script: &str) -> String {
        let output = self.namespace.command("sh").args(["-c", script]).output().unwrap();
        assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// What this side knows, for somebody who has to find out what went wrong.
    pub fn describe(&self) -> String {
        let show = |program: &str, arguments: &[&str]| {
            let output = self.namespace.command(program).args(arguments).output();
            output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
        };
        let status = self.braid(&["status", "--json"]);
        format!(
            "{}\n{:?}\n{}",
            String::from_utf8_lossy(&status.stdout),
            show("ss", &["-tino"]),
            self.log()
        )
    }

    /// What the daemon said, in the foreground and in the background.
    pub fn log(&self) -> String {
        let background = fs::read_to_string(self.directory.join("state/braid0.log"));
        fs::read_to_string(self.log_file()).unwrap_or_default() + &background.unwrap_or_default()
    }

    /// Where the daemon writes.
    pub fn folders(&self) -> [PathBuf; 2] {
        ["state", "run"].map(|name| self.directory.join(name))
    }

    /// Policy rules, routes in tables as a tunnel takes them, firewall.
    pub fn rules_and_tables(&self) -> String {
        self.sh(
            "ip rule; ip -6 rule; nft list ruleset; \
             (ip route show table all; ip -6 route show table all) | grep 'table 5[0-9]....' | sort",
        )
    }

    /// All that a tunnel changes of a host's routing.
    pub fn host_settings(&self) -> String {
        self.rules_and_tables()
            + &self.sh(
                "ip -o link | cut -d: -f2; ip -o addr | grep -v fe80: | awk '{print $2, $4}'; \
                 sysctl net.ipv4.ip_forward net.ipv6.conf.all.forwarding; \
                 sysctl -a 2>/dev/null | grep -e rp_filter -e src_valid_mark -e 'accept_ra ='",
            )
    }

    /// Deletes all journals of what was set; says how many.
    pub fn forget_journals(&self) -> usize {
        let found = self.sh(&format!(
            "find {} -name '*.journal.json' -print -delete",
            self.directory.display()
        ));
        found.lines().count()
    }

    /// The daemon's control socket.
    pub fn socket(&self) -> PathBuf {
        self.directory.join("run/sock")
    }

    pub fn config(&self) -> PathBuf {
        self.directory.join("braid.toml")
    }

    fn log_file(&self) -> PathBuf {
        self.directory.join("log")
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        self.kill();
        // One in the background is nobody's child.
        let status = self.braid(&["status", "--json"]).stdout;
        let status: Value = serde_json::from_slice(&status).unwrap_or_default();
        if let Some(pid) = status["pid"].as_u64() {
            self.sh(&format!("kill -9 {pid}"));
        }
    }
}
