//! Essential tasks, which are restarted after a panic.

use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// Pause between a panic and the restart, so that a task that panics at once doesn't hog the
/// processor.
const PAUSE: Duration = Duration::from_millis(200);

/// Runs the task from `begin` until it returns; restarts it after each panic, which is logged.
/// Dropping this ends it.
pub(crate) async fn lasting<T>(name: &str, mut begin: impl FnMut() -> T)
where
    T: Future<Output = ()> + Send + 'static,
{
    loop {
        let mut task = JoinSet::new();
        task.spawn(begin());
        match task.join_next().await {
            Some(Err(error)) if error.is_panic() => {
                tracing::error!("carrying by TLS: the task {name} panicked and was resumed");
            }
            _ => return,
        }
        sleep(PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use tokio::sync::oneshot;
    use tokio::time::timeout;

    #[tokio::test]
    async fn a_task_that_panics_goes_on_until_it_returns() {
        let runs = Arc::new(AtomicU32::new(0));
        let counted = runs.clone();
        let begin = move || {
            let run = counted.fetch_add(1, Ordering::Relaxed);
            async move { assert!(run >= 2, "not yet") }
        };
        timeout(Duration::from_secs(60), lasting("test", begin)).await.unwrap();
        assert_eq!(runs.load(Ordering::Relaxed), 3);
    }

    #[tokio::test]
    async fn what_is_dropped_ends() {
        let (held, mut ended) = oneshot::channel::<()>();
        let mut held = Some(held);
        let task = lasting("test", move || {
            let held = held.take();
            async move {
                let _held = held;
                std::future::pending::<()>().await;
            }
        });
        assert!(timeout(Duration::from_millis(50), task).await.is_err());
        // Its resources are dropped with it.
        assert!(timeout(Duration::from_secs(10), &mut ended).await.unwrap().is_err());
    }
}
