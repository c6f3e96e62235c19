//! Live updates: rendered once a second for everybody who is watching the same, and sent to each as
//! server-sent events (WHATWG HTML, section 9.2).

use crate::Page;
use crate::access::Token;
use crate::body::Body;
use crate::view::{self, Subject};
use http_body_util::BodyExt;
use http_body_util::channel::Channel;
use hyper::body::Bytes;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// The watchers, by what they watch.
#[derive(Default)]
pub struct Live {
    subjects: Mutex<BTreeMap<Subject, watch::Sender<Bytes>>>,
    open: Arc<AtomicUsize>,
}

/// The outcome of a request to watch.
pub enum Watching {
    /// Updates are being sent.
    Begun(Body),
    /// There are too many already.
    TooMany,
}

/// Maximum number of watched pages.
const MOST: usize = 100;
const EVERY: Duration = Duration::from_secs(1);
/// Maximum duration of a stream. Browsers reconnect by themselves, so this finds out who is gone.
const LONGEST: Duration = Duration::from_secs(600);
/// A client that doesn't take an update within this time is gone.
const PATIENCE: Duration = Duration::from_secs(15);
/// How long a browser waits before it reconnects, ms.
const RETRY: &str = "retry: 1000\n\n";

impl Live {
    /// Starts sending the page's updates, for as long as the session lasts.
    pub fn watch(&self, page: Arc<Page>, subject: Subject, session: Option<Token>) -> Watching {
        let counted = Counted::enter(&self.open);
        let Some(counted) = counted else { return Watching::TooMany };
        let mut news = {
            let mut subjects = self.subjects.lock().unwrap_or_else(PoisonError::into_inner);
            let sender = subjects.entry(subject).or_insert_with(|| watch::channel(Bytes::new()).0);
            sender.subscribe()
        };
        // The first update comes with the next second.
        news.mark_unchanged();
        let (mut sender, body) = Channel::<Bytes, std::convert::Infallible>::new(1);
        tokio::spawn(async move {
            let _counted = counted;
            let end = Instant::now() + LONGEST;
            let mut bytes = Bytes::from_static(RETRY.as_bytes());
            loop {
                let sent = tokio::time::timeout(PATIENCE, sender.send_data(bytes)).await;
                let lasts = session.as_ref().is_none_or(|token| page.session_lasts(token));
                if !matches!(sent, Ok(Ok(()))) || Instant::now() > end || !lasts {
                    return;
                }
                if news.changed().await.is_err() {
                    return;
                }
                bytes = news.borrow_and_update().clone();
            }
        });
        Watching::Begun(body.boxed_unsync())
    }
}

impl Page {
    /// Renders everything that is watched, once a second. Never ends.
    pub(crate) async fn keep_live(self: Arc<Self>) {
        let mut ticks = tokio::time::interval(EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let subjects: Vec<Subject> = {
                let subjects = self.live.subjects.lock();
                let mut subjects = subjects.unwrap_or_else(PoisonError::into_inner);
                subjects.retain(|_, sender| sender.receiver_count() > 0);
                subjects.keys().copied().collect()
            };
            for subject in subjects {
                let page = self.clone();
                let rendered =
                    tokio::task::spawn_blocking(move || view::live(&page, subject)).await;
                let Ok(event) = rendered else { continue };
                let subjects = self.live.subjects.lock();
                let subjects = subjects.unwrap_or_else(PoisonError::into_inner);
                if let Some(sender) = subjects.get(&subject) {
                    sender.send_replace(Bytes::from(format!("data: {event}\n\n")));
                }
            }
        }
    }
}

/// A watcher's place, until dropped.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn enter(open: &Arc<AtomicUsize>) -> Option<Counted> {
        let counted = Counted(open.clone());
        (open.fetch_add(1, Ordering::Relaxed) < MOST).then_some(counted)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
