//! What NetworkManager says of the host's interfaces, where it runs: which connection is
//! active on each, and whether it is metered.

use super::ending::Ending;
use super::supervise;
use braid_control::config::{Config, Link};
use braid_linux::poller::Waker;
use braid_linux::tool;
use std::io;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A connection that is active.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Connection {
    /// The interface that has its addresses.
    pub interface: String,
    /// Its name (`GENERAL.CONNECTION`).
    pub name: String,
    /// Its UUID.
    pub uuid: String,
    /// Whether what goes by it is paid for by the byte, as its user has said or NetworkManager
    /// guesses (of phones).
    pub metered: bool,
}

/// Whether what it says is of use: a link of the config asks for a connection, or it runs and the
/// config doesn't say of a link whether it is metered.
pub fn is_asked_for(config: &Config) -> bool {
    let runs = runs();
    let asks = |link: &Link| {
        let matches = link.binding.matches.as_ref();
        matches.is_some_and(|wanted| wanted.connection.is_some()) || runs && link.metered.is_none()
    };
    config.links.iter().any(asks)
}

/// Whether it runs on this host.
pub fn runs() -> bool {
    Path::new(RUNS).exists()
}

/// A folder that it makes when it starts (`NMRUNDIR`).
const RUNS: &str = "/run/NetworkManager";

/// Those that are active now; none where NetworkManager isn't there or doesn't run.
///
/// # Errors
/// `NotFound` without nmcli, `TimedOut` when it doesn't answer.
pub fn active() -> io::Result<Vec<Connection>> {
    // Its words must not be translated, and in the locale C it says ? for é.
    let command =
        ["LANGUAGE=", "LC_ALL=C.UTF-8", "nmcli", "--terse", "--escape", "no", "--fields", FIELDS];
    let arguments = [&command[..], &["device", "show"]].concat();
    tool::said("env", &arguments, ANSWERS).map(|text| parse(&text))
}

const FIELDS: &str =
    "GENERAL.DEVICE,GENERAL.IP-IFACE,GENERAL.CONNECTION,GENERAL.CON-UUID,GENERAL.METERED";
/// It answers within some hundredths of a second, also under load.
const ANSWERS: Duration = Duration::from_secs(2);
/// A host has far fewer.
const MOST: usize = 1000;

fn parse(text: &str) -> Vec<Connection> {
    let mut found: Vec<Connection> = Vec::new();
    for (key, value) in text.lines().filter_map(|line| line.split_once(':')) {
        let is_full = found.len() == MOST;
        match (key, found.last_mut()) {
            ("GENERAL.DEVICE", _) if is_full => break,
            ("GENERAL.DEVICE", _) => {
                found.push(Connection { interface: value.to_owned(), ..Connection::default() });
            }
            // Of a modem's, which is no interface itself.
            ("GENERAL.IP-IFACE", Some(last)) if !value.is_empty() => {
                last.interface = value.to_owned();
            }
            ("GENERAL.CONNECTION", Some(last)) => last.name = value.to_owned(),
            ("GENERAL.CON-UUID", Some(last)) => last.uuid = value.to_owned(),
            // yes, yes (guessed), no, no (guessed), unknown.
            ("GENERAL.METERED", Some(last)) => last.metered = value.starts_with("yes"),
            _ => {}
        }
    }
    found.retain(|connection| !connection.uuid.is_empty());
    found
}

/// Follows them by a thread of its own, while a link asks for one.
#[derive(Default)]
pub struct Connections {
    now: Arc<Vec<Connection>>,
    watch: Option<Watch>,
}

struct Watch {
    latest: Arc<Mutex<Arc<Vec<Connection>>>>,
    /// Asks to look at once; the thread ends with it.
    look: SyncSender<()>,
}

/// It tells nobody by netlink when another connection has been given to an interface, or the
/// name has changed; most often there are other news at that moment.
const EVERY: Duration = Duration::from_secs(5);
const THREAD: &str = "braid-nm";

impl Connections {
    /// Those that are active, as last seen.
    pub fn now(&self) -> &[Connection] {
        &self.now
    }

    /// The config or the host's network may have changed: looks soon. The first time it waits
    /// for the answer.
    pub fn follow(&mut self, config: &Config, waker: &Waker, ending: &Ending) {
        if !is_asked_for(config) {
            *self = Connections::default();
            return;
        }
        if let Some(watch) = &self.watch {
            // One wish that waits is enough; a thread that has ended has ended the daemon.
            let _ = watch.look.try_send(());
            return;
        }
        self.now = Arc::new(seen().unwrap_or_default());
        let latest = Arc::new(Mutex::new(Arc::clone(&self.now)));
        let (look, wishes) = sync_channel(1);
        let (published, waker) = (Arc::clone(&latest), waker.clone());
        match supervise::start(THREAD, ending, move || run(&wishes, &published, &waker)) {
            Ok(_) => self.watch = Some(Watch { latest, look }),
            // Tried again when the host is looked at next.
            Err(error) => tracing::warn!("NetworkManager isn't followed: {error}"),
        }
    }

    /// Takes what the thread saw. Tells whether that is something else.
    pub fn have_changed(&mut self) -> bool {
        let Some(watch) = &self.watch else { return false };
        let latest = Arc::clone(&watch.latest.lock().unwrap_or_else(PoisonError::into_inner));
        let changed = latest != self.now;
        self.now = latest;
        changed
    }
}

fn run(wishes: &Receiver<()>, published: &Mutex<Arc<Vec<Connection>>>, waker: &Waker) {
    loop {
        match wishes.recv_timeout(EVERY) {
            Ok(()) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        let Some(found) = seen() else { continue };
        let mut latest = published.lock().unwrap_or_else(PoisonError::into_inner);
        if **latest != found {
            *latest = Arc::new(found);
            drop(latest);
            waker.wake();
        }
    }
}

/// Those that are active; none where it doesn't run. Nothing is known of one that doesn't answer
/// in time: it may be busy, and no link is to be let go for that.
fn seen() -> Option<Vec<Connection>> {
    match active() {
        Ok(found) => Some(found),
        Err(error) => {
            tracing::debug!("asking NetworkManager: {error}");
            (error.kind() != io::ErrorKind::TimedOut).then(Vec::new)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_those_of_devices_that_have_one() {
        // As NetworkManager 1.42 says it.
        let text = "GENERAL.DEVICE:wlan0\nGENERAL.IP-IFACE:wlan0\nGENERAL.CONNECTION:Café: 2\n\
            GENERAL.CON-UUID:5f6e\nGENERAL.METERED:yes (guessed)\n\nGENERAL.DEVICE:cdc-wdm0\nGENERAL.IP-IFACE:wwan0\n\
            GENERAL.CONNECTION:Tele\nGENERAL.CON-UUID:77aa\nGENERAL.METERED:no (guessed)\n\nGENERAL.DEVICE:eth0\n\
            GENERAL.IP-IFACE:\nGENERAL.CONNECTION:\nGENERAL.CON-UUID:\n";
        let connection = |interface: &str, name: &str, uuid: &str, metered| Connection {
            interface: interface.into(),
            name: name.into(),
            uuid: uuid.into(),
            metered,
        };
        let expected = [
            connection("wlan0", "Café: 2", "5f6e", true),
            connection("wwan0", "Tele", "77aa", false),
        ];
        assert_eq!(parse(text), expected);
    }

    #[test]
    fn errors_and_nonsense_are_no_connections() {
        for text in
            ["", "Error: NetworkManager is not running.\n", "GENERAL.CON-UUID:77aa\n", ":::"]
        {
            assert_eq!(parse(text), [], "{text:?}");
        }
    }
}
