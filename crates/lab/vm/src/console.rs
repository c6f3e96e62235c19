use std::io::{self, Read, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Collects a machine's output while it runs.
#[derive(Debug)]
pub(crate) struct Console {
    text: Arc<Text>,
    reader: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Text {
    inner: Mutex<Inner>,
    more: Condvar,
}

#[derive(Debug, Default)]
struct Inner {
    bytes: Vec<u8>,
    ended: bool,
}

impl Console {
    /// Reads `from` until it ends; with `echo`, copies it to standard output.
    pub(crate) fn read(mut from: impl Read + Send + 'static, echo: bool) -> Self {
        let text = Arc::new(Text::default());
        let kept = Arc::clone(&text);
        let reader = thread::spawn(move || {
            let mut buffer = [0; 8192];
            // A broken console counts as ended.
            while let Ok(length @ 1..) = from.read(&mut buffer) {
                let Some(new) = buffer.get(..length) else { break };
                if echo {
                    let _ = io::stdout().write_all(new).and_then(|()| io::stdout().flush());
                }
                kept.lock().bytes.extend_from_slice(new);
                kept.more.notify_all();
            }
            kept.lock().ended = true;
            kept.more.notify_all();
        });
        Console { text, reader: Some(reader) }
    }

    /// The output so far.
    pub(crate) fn so_far(&self) -> String {
        String::from_utf8_lossy(&self.text.lock().bytes).into_owned()
    }

    /// Waits for `wanted`; returns `false` if the output ended or the time passed without it.
    pub(crate) fn wait_for(&self, wanted: &str, within: Duration) -> bool {
        let deadline = Instant::now() + within;
        let mut inner = self.text.lock();
        loop {
            if contains(&inner.bytes, wanted.as_bytes()) {
                return true;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if inner.ended || left.is_zero() {
                return false;
            }
            inner = match self.text.more.wait_timeout(inner, left) {
                Ok((inner, _)) => inner,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
    }

    /// The whole output; returns when the machine has closed its console.
    pub(crate) fn all(&mut self) -> String {
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
        self.so_far()
    }
}

impl Text {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn contains(text: &[u8], wanted: &[u8]) -> bool {
    wanted.is_empty() || text.windows(wanted.len()).any(|part| part == wanted)
}
