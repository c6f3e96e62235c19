//! Starting the workers.

use crate::clock::Clock;
use crate::handle::{Handle, WorkerHandle};
use crate::run::{Channels, DataPlane, OnNews};
use crate::siblings::{Sibling, Siblings};
use braid_linux::poller::Poller;
use braid_linux::tun::Tun;
use braid_linux::wake_latency::LatencyRequest;
use braid_tunnel::Tunnel;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::channel;

/// Why the data plane could not start.
#[derive(Debug, thiserror::Error)]
#[error("the data plane can't start: {0}")]
pub struct StartError(#[from] io::Error);

impl From<StartError> for io::Error {
    fn from(error: StartError) -> Self {
        io::Error::new(error.0.kind(), error)
    }
}

/// Starts the data plane: a worker with its own thread for each tunnel and queue of the device. The
/// tunnels are the [`braid_tunnel::Worker`]s of one, in order. If `wake_latency` is given, it is
/// held while packets arrive often. `on_news` is called by a worker's thread when
/// [`Handle::events`] has something; it must not block.
///
/// # Errors
/// When no epoll or thread can be created.
pub fn start(
    tunnels: Vec<(Tunnel, Tun)>,
    clock: Clock,
    wake_latency: Option<LatencyRequest>,
    on_news: impl Fn() + Send + Sync + 'static,
) -> Result<Handle, StartError> {
    let (news, events) = channel();
    let on_news: OnNews = Arc::new(on_news);
    let mut siblings = Vec::with_capacity(tunnels.len());
    let mut ends = Vec::with_capacity(tunnels.len());
    for _ in &tunnels {
        let poller = Poller::new()?;
        let waker = DataPlane::waker(&poller)?;
        let (sibling, handovers) = Sibling::new(waker.clone());
        siblings.push(sibling);
        ends.push((poller, waker, handovers));
    }
    let mut first = wake_latency;
    let mut handle = Handle::new(events);
    for ((tunnel, tun), (poller, waker, handovers)) in tunnels.into_iter().zip(ends) {
        let wake_latency = match (&first, handle.workers.is_empty()) {
            (_, true) => first.take(),
            (Some(latency), false) => Some(latency.another()?),
            (None, false) => None,
        };
        let (commands, inbox) = channel();
        let (news, siblings) = (news.clone(), Siblings::new(siblings.clone()));
        let on_news = Arc::clone(&on_news);
        let channels = Channels { inbox, news, on_news, handovers, siblings };
        let plane = DataPlane::new(tunnel, tun, clock, wake_latency, poller, channels)?;
        let name = match handle.workers.len() {
            0 => "braid-data".to_owned(),
            number => format!("braid-data-{number}"),
        };
        let thread = std::thread::Builder::new().name(name).spawn(move || plane.run())?;
        handle.workers.push(WorkerHandle::new(commands, waker, thread));
    }
    Ok(handle)
}
