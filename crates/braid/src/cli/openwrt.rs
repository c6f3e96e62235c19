//! OpenWrt's service, which runs the default config under procd: packaging/openwrt.

use super::failure::Failure;
use braid_control::config::DEFAULT_CONFIG;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The service; it exists if its script and OpenWrt's framework for such scripts do.
pub struct Service {
    root: PathBuf,
}

/// procd may start it with a delay; this allows for name look-ups and slow routers.
const PATIENCE: Duration = Duration::from_secs(30);
/// Time between two checks.
const STEP: Duration = Duration::from_millis(50);

/// Its name in messages.
pub const NAME: &str = "/etc/init.d/braid";

impl Service {
    /// The service that runs this config.
    pub fn of(file: &Path) -> Option<Service> {
        (file == Path::new(DEFAULT_CONFIG)).then(|| Service::below("/".into())).flatten()
    }

    /// Starts it, now and at boot, and waits until its tunnel answers `is_running`.
    pub fn start(&self, is_running: impl Fn() -> bool) -> Result<(), Failure> {
        self.switch_on()?;
        let give_up = Instant::now() + PATIENCE;
        while !is_running() {
            if Instant::now() > give_up {
                let why = format!(
                    "{NAME} is started, but the tunnel isn't up after {} s: `logread -e braid` says why",
                    PATIENCE.as_secs()
                );
                return Err(Failure::failed(why));
            }
            std::thread::sleep(STEP);
        }
        Ok(())
    }

    /// Enables it in `/etc/config/braid`, without which it doesn't start.
    fn switch_on(&self) -> Result<(), Failure> {
        self.run("sbin/uci", &["set", "braid.daemon=daemon"])?;
        self.run("sbin/uci", &["set", "braid.daemon.enabled=1"])?;
        self.run("sbin/uci", &["commit", "braid"])?;
        self.run("etc/init.d/braid", &["enable"])?;
        self.run("etc/init.d/braid", &["start"])
    }

    /// Keeps it down until the user starts it or the router boots; otherwise procd would restart
    /// it, however the daemon ended.
    pub fn stay_down(&self) -> Result<(), Failure> {
        self.run("etc/init.d/braid", &["stop"])
    }

    fn below(root: PathBuf) -> Option<Service> {
        let is_there = |file: &str| root.join(file).exists();
        (is_there("etc/rc.common") && is_there("etc/init.d/braid")).then_some(Service { root })
    }

    fn run(&self, program: &str, arguments: &[&str]) -> Result<(), Failure> {
        let program = self.root.join(program);
        let told = format!("{} {}", program.display(), arguments.join(" "));
        let output = Command::new(&program)
            .args(arguments)
            .stdin(Stdio::null())
            .output()
            .map_err(|error| Failure::io(&told, &error))?;
        if output.status.success() {
            return Ok(());
        }
        let said = [output.stdout, output.stderr].concat();
        Err(Failure::failed(format!("{told}: {}", String::from_utf8_lossy(&said).trim())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    /// A fake router: whatever is called records that it was.
    fn router(with: &[&str]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for program in with {
            let path = root.path().join(program);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let log = root.path().join("log");
            let text = format!("#!/bin/sh\necho {program} $* >>{}\n", log.display());
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        root
    }

    #[test]
    fn it_is_switched_on_started_and_stopped() {
        let root = router(&["etc/rc.common", "etc/init.d/braid", "sbin/uci"]);
        let service = Service::below(root.path().into()).unwrap();
        let asked = Cell::new(0);
        let is_running = || {
            asked.set(asked.get() + 1);
            asked.get() == 3
        };
        service.start(is_running).unwrap();
        assert_eq!(asked.get(), 3, "procd takes a moment");
        service.stay_down().unwrap();
        assert_eq!(
            fs::read_to_string(root.path().join("log")).unwrap(),
            "sbin/uci set braid.daemon=daemon\nsbin/uci set braid.daemon.enabled=1\n\
             sbin/uci commit braid\netc/init.d/braid enable\netc/init.d/braid start\n\
             etc/init.d/braid stop\n"
        );
    }

    #[test]
    fn there_is_none_elsewhere() {
        let other = router(&["etc/init.d/braid", "sbin/uci"]);
        assert!(Service::below(other.path().into()).is_none(), "an init script of Debian's");
        let unpackaged = router(&["etc/rc.common", "sbin/uci"]);
        assert!(Service::below(unpackaged.path().into()).is_none());
        assert!(Service::of(Path::new("/etc/braid/second.toml")).is_none());
    }

    #[test]
    fn what_it_says_is_told() {
        let root = router(&["etc/rc.common", "etc/init.d/braid"]);
        let service = Service::below(root.path().into()).unwrap();
        let told = service.start(|| true).unwrap_err().to_string();
        assert!(told.contains("uci set braid.daemon=daemon"), "{told}");
        let script = root.path().join("etc/init.d/braid");
        fs::write(&script, "#!/bin/sh\necho no such thing >&2\nexit 3\n").unwrap();
        let told = service.stay_down().unwrap_err().to_string();
        assert!(told.ends_with("/etc/init.d/braid stop: no such thing"), "{told}");
    }
}
