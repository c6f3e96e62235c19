//! Follows NetworkManager's view of the host's interfaces.

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

/// Whether it is needed: a link in the config asks for a connection, or NetworkManager runs and the
/// config doesn't state whether a link is metered.
pub fn is_asked_for(config: &Config) -> bool {
    let runs = runs();
    let asks = |link: &Link| {
        let matches = link.binding.matches.as_ref();
        matches.is_some_and(|wanted| wanted.connection.is_some()) || runs && link.metered.is_none()
    };
    config.links.iter().any(asks)
}

/// Follows the connections on a thread of its own, while needed.
#[derive(Default)]
pub struct Connections {
    now: Arc<Vec<Connection>>,
    watch: Option<Watch>,
}

struct Watch {
    latest: Arc<Mutex<Arc<Vec<Connection>>>>,
    /// Requests an immediate update; the thread ends when this is dropped.
    look: SyncSender<()>,
    /// Whether NetworkManager currently reports changes.
    told: Arc<AtomicBool>,
    news: News,
}

/// Polling interval if changes aren't reported, as netlink doesn't know connections.
const EVERY: Duration = Duration::from_secs(5);
/// Polling interval if they are reported; only new guesses about metered networks aren't.
const EVERY_WHEN_TOLD: Duration = Duration::from_secs(300);
/// Pause, as simultaneous changes are reported line by line.
const SETTLES: Duration = Duration::from_millis(100);
const THREAD: &str = "braid-nm";

impl Connections {
    /// The active connections, as last seen.
    pub fn now(&self) -> &[Connection] {
        &self.now
    }

    /// Call when the config or the host's network may have changed: updates soon. The first call
    /// waits for the answer.
    pub fn follow(&mut self, config: &Config, waker: &Waker, ending: &Ending) {
        if !is_asked_for(config) {
            *self = Connections::default();
            return;
        }
        if let Some(watch) = &mut self.watch {
            // One pending request is enough; if the thread has ended, the daemon is ending.
            let _ = watch.look.try_send(());
            watch.news.follow(&watch.look, &watch.told, Instant::now());
            return;
        }
        let (look, wishes) = sync_channel(1);
        let (mut news, told) = (News::default(), Arc::new(AtomicBool::new(false)));
        // Before reading, so that nothing is missed in between.
        news.follow(&look, &told, Instant::now());
        self.now = Arc::new(seen().unwrap_or_default());
        let latest = Arc::new(Mutex::new(Arc::clone(&self.now)));
        let (published, waker, tells) = (Arc::clone(&latest), waker.clone(), Arc::clone(&told));
        match supervise::start(THREAD, ending, move || run(&wishes, &tells, &published, &waker)) {
            Ok(_) => self.watch = Some(Watch { latest, look, told, news }),
            // Retried at the next update.
            Err(error) => tracing::warn!("can't follow NetworkManager: {error}"),
        }
    }

    /// Takes the thread's result. Returns whether it has changed.
    pub fn have_changed(&mut self) -> bool {
        let Some(watch) = &self.watch else { return false };
        let latest = Arc::clone(&watch.latest.lock().unwrap_or_else(PoisonError::into_inner));
        let changed = latest != self.now;
        self.now = latest;
        changed
    }
}

/// `nmcli monitor`, which prints a line whenever a device or a connection changes.
#[derive(Default)]
struct News {
    running: Option<Following>,
    began: Option<Instant>,
}

/// It is restarted this long after it has ended.
const RESTART: Duration = Duration::from_secs(60);
const NEWS_THREAD: &str = "braid-nm-news";

impl News {
    /// Keeps it running. Whenever it prints something, an update is requested.
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
            // The contents don't matter, as an update follows.
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
    // The monitor takes a moment to start: changes until then are found by one more update.
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

/// The active connections; empty if NetworkManager doesn't run. `None` if it doesn't answer in
/// time: it may be busy, and links must not be dropped for that.
fn seen() -> Option<Vec<Connection>> {
    match active() {
        Ok(found) => Some(found),
        Err(error) => {
            tracing::debug!("asking NetworkManager: {error}");
            (error.kind() != io::ErrorKind::TimedOut).then(Vec::new)
        }
    }
}
