//! What NetworkManager says of the host's interfaces, where it runs: which connection is
//! active on each, and whether it is metered.

use super::ending::Ending;
use super::supervise;
use braid_control::config::{Config, Link};
use braid_linux::poller::Waker;
use braid_linux::tool::{self, Following};
use std::io::{self, Read};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

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
    let rest = ["--terse", "--escape", "no", "--fields", FIELDS, "device", "show"];
    let arguments = [&NMCLI[..], &rest].concat();
    tool::said("env", &arguments, ANSWERS).map(|text| parse(&text))
}

/// Arguments of `env`: its words must not be translated, and in the locale C it says ? for é.
const NMCLI: [&str; 3] = ["LANGUAGE=", "LC_ALL=C.UTF-8", "nmcli"];
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
    /// Whether NetworkManager tells of changes just now.
    told: Arc<AtomicBool>,
    news: News,
}

/// How often it is looked where nothing is told, as netlink knows of no connections.
const EVERY: Duration = Duration::from_secs(5);
/// And where it is: all but what NetworkManager guesses anew of whether a network is metered.
const EVERY_WHEN_TOLD: Duration = Duration::from_secs(300);
/// What changes at once is told line by line.
const SETTLES: Duration = Duration::from_millis(100);
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
        if let Some(watch) = &mut self.watch {
            // One wish that waits is enough; a thread that has ended has ended the daemon.
            let _ = watch.look.try_send(());
            watch.news.follow(&watch.look, &watch.told, Instant::now());
            return;
        }
        let (look, wishes) = sync_channel(1);
        let (mut news, told) = (News::default(), Arc::new(AtomicBool::new(false)));
        // Before it is looked: nothing is missed in between.
        news.follow(&look, &told, Instant::now());
        self.now = Arc::new(seen().unwrap_or_default());
        let latest = Arc::new(Mutex::new(Arc::clone(&self.now)));
        let (published, waker, tells) = (Arc::clone(&latest), waker.clone(), Arc::clone(&told));
        match supervise::start(THREAD, ending, move || run(&wishes, &tells, &published, &waker)) {
            Ok(_) => self.watch = Some(Watch { latest, look, told, news }),
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

/// `nmcli monitor`, which says a line whenever a device or a connection changes.
#[derive(Default)]
struct News {
    running: Option<Following>,
    began: Option<Instant>,
}

/// One that has ended is started again after this.
const RESTART: Duration = Duration::from_secs(60);
const NEWS_THREAD: &str = "braid-nm-news";

impl News {
    /// Sees to it that it runs. Whenever it says something it is to be looked.
    fn follow(&mut self, look: &SyncSender<()>, told: &Arc<AtomicBool>, now: Instant) {
        let began = self.began.is_some_and(|at| now.saturating_duration_since(at) < RESTART);
        if self.running.is_some() && told.load(Ordering::Relaxed) || began {
            return;
        }
        self.began = Some(now);
        told.store(true, Ordering::Relaxed);
        if let Err(error) = self.start(look, told) {
            told.store(false, Ordering::Relaxed);
            tracing::debug!("nmcli monitor: {error}");
        }
    }

    fn start(&mut self, look: &SyncSender<()>, told: &Arc<AtomicBool>) -> io::Result<()> {
        self.running = None;
        let (following, mut said) = Following::start("env", &[&NMCLI[..], &["monitor"]].concat())?;
        let (look, told) = (look.clone(), Arc::clone(told));
        supervise::start_unneeded(NEWS_THREAD, move || {
            // What it says is found out by looking.
            let mut words = [0; 1024];
            while said.read(&mut words).is_ok_and(|len| len > 0) {
                let _ = look.try_send(());
            }
            told.store(false, Ordering::Relaxed);
            let _ = look.try_send(());
        })?;
        self.running = Some(following);
        Ok(())
    }
}

fn run(
    wishes: &Receiver<()>,
    told: &AtomicBool,
    published: &Mutex<Arc<Vec<Connection>>>,
    waker: &Waker,
) {
    // Who tells needs a moment until it does: what changed by then is seen by looking once more.
    let mut looked = false;
    loop {
        let tells = told.load(Ordering::Relaxed);
        looked &= tells;
        let every = if looked { EVERY_WHEN_TOLD } else { EVERY };
        match wishes.recv_timeout(every) {
            Ok(()) => {
                std::thread::sleep(SETTLES);
                let _ = wishes.try_recv();
            }
            Err(RecvTimeoutError::Timeout) => looked = tells,
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

    proptest::proptest! {
        #[test]
        fn anything_is_read(
            text: String,
            lines in "((GENERAL\\.)?(DEVICE|IP-IFACE|CONNECTION|CON-UUID|METERED|)(:|)[a-z: ]{0,9}\n){0,40}",
        ) {
            parse(&text);
            let found = parse(&lines);
            assert!(found.len() <= MOST && found.iter().all(|it| !it.uuid.is_empty()));
        }
    }
}
