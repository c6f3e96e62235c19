use super::fetch::{Client, Direction, Fetch};
use super::web::{in_threads, with_server};
use super::{Measured, Setting};
use crate::scenario::{CongestionControl, Page, Traffic};
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Pause between pages, as a reader makes; it also lets queues drain, so that loads don't affect
/// each other.
const BETWEEN: Duration = Duration::from_millis(200);

/// How a browser loads pages.
pub(super) struct Browser<'a> {
    pub(super) congestion: CongestionControl,
    pub(super) page: &'a Page,
    pub(super) connections: u16,
    pub(super) keep_alive: bool,
}

/// Each flow loads pages one after another until the stop; one that isn't complete by then counts
/// for the bytes, not for the times.
pub(super) fn run(
    traffic: &Traffic,
    browser: &Browser<'_>,
    setting: &Setting<'_>,
) -> io::Result<Measured> {
    let (delivered, loaded) = with_server(browser.congestion, setting, |record| {
        in_threads(traffic.flows, |_| browser.browse(record, setting))
    })?;
    let mut measured = Measured { delivered: Some(delivered), ..Measured::default() };
    let (fetches, pages) = loaded.into_iter().unzip::<_, _, Vec<_>, Vec<_>>();
    measured.fetches = Some(fetches.into_iter().flatten().collect());
    measured.pages_ms = Some(pages.into_iter().flatten().collect());
    Ok(measured)
}

impl Browser<'_> {
    /// All received objects, and the load times of whole pages in ms.
    fn browse(
        &self,
        record: &(dyn Fn(u64) + Sync),
        setting: &Setting<'_>,
    ) -> io::Result<(Vec<Fetch>, Vec<f64>)> {
        setting.home.enter()?;
        let (mut fetches, mut pages) = (Vec::new(), Vec::new());
        let mut next = setting.start;
        while setting.cancel.sleep_until(next) && !setting.over() {
            let begin = Instant::now();
            let objects = self.load(record, setting)?;
            if objects.len() == self.page.objects().len() {
                pages.push(begin.elapsed().as_secs_f64() * 1e3);
            }
            fetches.extend(objects);
            next = Instant::now() + BETWEEN;
        }
        Ok((fetches, pages))
    }

    /// Loads the document, then its objects, over several connections.
    fn load(&self, record: &(dyn Fn(u64) + Sync), setting: &Setting<'_>) -> io::Result<Vec<Fetch>> {
        let Some((document, others)) = self.page.objects().split_first() else {
            return Ok(Vec::new());
        };
        let client = || Client::new(self.congestion, self.keep_alive, setting);
        let mut first = client();
        let Some(document) = first.fetch(*document, Direction::Down, record)? else {
            return Ok(Vec::new());
        };
        let next = AtomicUsize::new(0);
        let fetch_all = |client: &mut Client<'_>| -> io::Result<Vec<Fetch>> {
            let mut fetches = Vec::new();
            while let Some(size) = others.get(next.fetch_add(1, Ordering::Relaxed)) {
                match client.fetch(*size, Direction::Down, record)? {
                    Some(fetch) => fetches.push(fetch),
                    None => break,
                }
            }
            Ok(fetches)
        };
        let most = u16::try_from(others.len()).unwrap_or(u16::MAX);
        let more = self.connections.min(most).saturating_sub(1);
        let mut fetches = vec![document];
        let (mine, theirs) = std::thread::scope(|scope| {
            let theirs = scope.spawn(|| {
                in_threads(more, |_| {
                    setting.home.enter()?;
                    fetch_all(&mut client())
                })
            });
            let mine = fetch_all(&mut first);
            (mine, super::joined(theirs))
        });
        fetches.extend(mine?);
        fetches.extend(theirs?.into_iter().flatten());
        Ok(fetches)
    }
}
