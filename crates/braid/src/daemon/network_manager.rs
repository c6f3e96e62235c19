//! Follows what NetworkManager says of the host's interfaces.

use super::ending::Ending;
use super::supervise;
use braid_control::config::{Config, Link};
use braid_linux::network_manager::{Connection, NMCLI, active, runs};
use braid_linux::poller::Waker;
use braid_linux::tool::Following;
use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

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
