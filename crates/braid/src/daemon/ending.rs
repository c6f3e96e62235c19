//! The daemon's end: who asks for it, and why.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Notify;

/// Asks the main thread to take everything down and end.
#[derive(Clone, Default)]
pub struct Ending(Arc<Inner>);

#[derive(Default)]
struct Inner {
    asked: Notify,
    /// What went wrong; the first counts.
    reason: Mutex<Option<String>>,
    /// Another program is to go on with it.
    restart: AtomicBool,
}

impl Ending {
    /// Somebody wants it.
    pub fn ask(&self) {
        self.0.asked.notify_one();
    }

    /// Somebody wants it, and that this process goes on as the program that is there now.
    pub fn ask_for_restart(&self) {
        self.0.restart.store(true, Ordering::Release);
        self.ask();
    }

    /// Whether what runs is to stay as it is for another program.
    pub fn is_restart(&self) -> bool {
        self.0.restart.load(Ordering::Acquire) && self.reason().is_none()
    }

    /// The daemon can't go on.
    pub fn because(&self, reason: String) {
        tracing::error!("{reason}: the tunnel goes down");
        self.0.reason.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(reason);
        self.ask();
    }

    /// Until somebody asks.
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
