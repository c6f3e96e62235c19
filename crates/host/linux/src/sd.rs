//! Notifications to systemd (sd_notify(3)): ready, status, watchdog.

use std::ffi::OsString;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// Connection to the service manager that started us; does nothing without one.
#[derive(Debug)]
pub struct ServiceManager {
    socket: Option<UnixDatagram>,
    watchdog: Option<Duration>,
}

impl ServiceManager {
    /// Finds the service manager in the environment (`NOTIFY_SOCKET`,
    /// `WATCHDOG_USEC`).
    ///
    /// # Errors
    /// Those of the socket, when the environment names one.
    pub fn from_environment() -> io::Result<ServiceManager> {
        let watchdog = std::env::var("WATCHDOG_USEC").ok().filter(|_| watchdog_is_ours());
        ServiceManager::connect(std::env::var_os("NOTIFY_SOCKET"), watchdog)
    }

    /// The longest interval between calls of [`ServiceManager::alive`]: half of the watchdog
    /// timeout. `None` without a watchdog.
    pub fn watchdog_interval(&self) -> Option<Duration> {
        self.watchdog.map(|limit| limit / 2)
    }

    /// Reports that we are ready.
    pub fn ready(&self) {
        self.tell("READY=1");
    }

    /// Reports that another program takes over, which will report when it is ready.
    pub fn reloading(&self) {
        self.tell("RELOADING=1");
    }

    /// Reports that we are stopping.
    pub fn stopping(&self) {
        self.tell("STOPPING=1");
    }

    /// Reports that we are alive (watchdog).
    pub fn alive(&self) {
        self.tell("WATCHDOG=1");
    }

    /// Reports a status line.
    pub fn status(&self, line: &str) {
        self.tell(&format!("STATUS={}", line.replace('\n', " ")));
    }

    fn connect(path: Option<OsString>, watchdog: Option<String>) -> io::Result<ServiceManager> {
        let Some(path) = path.filter(|path| !path.is_empty()) else {
            return Ok(ServiceManager { socket: None, watchdog: None });
        };
        let address = match path.as_bytes() {
            [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
            _ => SocketAddr::from_pathname(&path)?,
        };
        let socket = UnixDatagram::unbound()?;
        socket.connect_addr(&address)?;
        // A manager that hangs must not block us.
        socket.set_nonblocking(true)?;
        let watchdog = watchdog.and_then(|limit| limit.parse().ok()).map(Duration::from_micros);
        Ok(ServiceManager { socket: Some(socket), watchdog })
    }

    fn tell(&self, state: &str) {
        if let Some(socket) = &self.socket {
            // Nothing can be done if the manager doesn't listen.
            let _ = socket.send(state.as_bytes());
        }
    }
}

fn watchdog_is_ours() -> bool {
    std::env::var("WATCHDOG_PID").map_or(true, |pid| pid == std::process::id().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_arrive_as_systemd_expects_them() {
        let name = format!("braid-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let manager = UnixDatagram::bind_addr(&address).unwrap();
        let path = Some(OsString::from(format!("@{name}")));
        let service = ServiceManager::connect(path, Some("30000000".into())).unwrap();
        assert_eq!(service.watchdog_interval(), Some(Duration::from_secs(15)));
        service.ready();
        service.status("2 links\nup");
        service.alive();
        service.reloading();
        service.stopping();
        let mut buffer = [0; 100];
        let told = ["READY=1", "STATUS=2 links up", "WATCHDOG=1", "RELOADING=1", "STOPPING=1"];
        for expected in told {
            let len = manager.recv(&mut buffer).unwrap();
            assert_eq!(&buffer[..len], expected.as_bytes());
        }
    }

    #[test]
    fn without_a_manager_it_is_silent() {
        let service = ServiceManager::connect(None, Some("1".into())).unwrap();
        service.ready();
        assert_eq!(service.watchdog_interval(), None);
    }
}
