//! The daemon's end: requests and reasons.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Notify;

/// Asks the main thread to take everything down and end.
#[derive(Clone, Default)]
pub struct Ending(Arc<Inner>);

#[derive(Default)]
struct Inner {
    asked: Notify,
    /// What went wrong; the first reason is kept.
    reason: Mutex<Option<String>>,
    /// Another program should take over.
    restart: AtomicBool,
}

impl Ending {
    /// Requests the end.
    pub fn ask(&self) {
        self.0.asked.notify_one();
    }

    /// Requests the end, and that the newly installed program takes over.
    pub fn ask_for_restart(&self) {
        self.0.restart.store(true, Ordering::Release);
        self.ask();
    }

    /// Whether everything should stay in place for another program.
    pub fn is_restart(&self) -> bool {
        self.0.restart.load(Ordering::Acquire) && self.reason().is_none()
    }

    /// Requests the end because the daemon can't continue.
    pub fn because(&self, reason: String) {
        tracing::error!("{reason}: the tunnel is shutting down");
        self.0.reason.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(reason);
        self.ask();
    }

    /// Waits for a request.
    pub async fn asked(&self) {
        self.0.asked.notified().await;
    }

    /// What went wrong, if something did.
    pub fn reason(&self) -> Option<String> {
        self.0.reason.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// What a thread said when it panicked.
pub fn last_words(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no reason given")
}
