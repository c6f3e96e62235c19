//! History and notifications: once a second the status becomes samples and events. The tunnel never
//! waits for any of it, and works without it.

mod moves;
mod samples;
mod steady;
mod watch;

use super::flows::DeviceSecond;
use super::supervise::{self, supervise_unneeded};
use super::told::{by_this_program, host_name, status_of};
use super::{beat, bridge};
use braid_alert::{Alert, Post};
use braid_control::config::Config;
use braid_control::status::{AlertStatus, Status};
use braid_history::{Event, EventKind, Recorder, Sample, Series, Settings, Severity, unix_now};
use samples::Sampler;
use std::collections::BTreeSet;
use std::io;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use watch::Watch;

/// The threads that keep history.
pub struct Observer {
    recorder: Option<Recorder>,
    post: Arc<OnceLock<Post>>,
    recording: Mutex<Option<JoinHandle<()>>>,
    looking: Mutex<Option<(SyncSender<()>, JoinHandle<()>)>>,
}

const EVERY: Duration = Duration::from_secs(1);

impl Observer {
    /// An observer that keeps nothing.
    pub fn none() -> Observer {
        Observer {
            recorder: None,
            post: Arc::default(),
            recording: Mutex::default(),
            looking: Mutex::default(),
        }
    }

    /// Starts keeping history, if the config asks for it.
    pub fn start(config: &Config) -> io::Result<Observer> {
        if !config.history.keep {
            return Ok(Observer::none());
        }
        let settings = settings(config);
        // If this fails, so does opening the file in it, which reports the error.
        if let Some(folder) = settings.file.parent() {
            let _ = std::fs::create_dir_all(folder);
        }
        let (recorder, mut keeping) = Recorder::new(settings);
        let recording = supervise::start_unneeded("braid-history", move || keeping.run())?;
        let recording = Mutex::new(Some(recording));
        Ok(Observer { recorder: Some(recorder), recording, ..Observer::none() })
    }

    /// The history's recorder.
    pub fn recorder(&self) -> Option<&Recorder> {
        self.recorder.as_ref()
    }

    /// Notifies people of events from now on; `alerts` returns the current config's alerts, `None`
    /// when the tunnel ends.
    pub fn tell(
        &self,
        config: &Config,
        alerts: impl Fn() -> Option<Vec<Alert>> + Send + 'static,
    ) -> io::Result<()> {
        let interface = &config.interface;
        let file = interface.state_dir.join(format!("{}.alerts.json", interface.name));
        let post = Post::start(&file, host_name(), alerts, by_this_program(), |rounds| {
            supervise_unneeded("braid-alerts", rounds);
        })?;
        // Only one is ever begun.
        let _ = self.post.set(post);
        Ok(())
    }

    /// The status of notifications.
    pub fn alerts(&self, alerts: &[Alert]) -> Vec<AlertStatus> {
        let waiting = |alert: &str| self.post.get().map(|post| post.waiting(alert));
        status_of(alerts, |alert| waiting(alert).unwrap_or_default())
    }

    /// Observes the tunnel once a second, until stopped or until the tunnel is gone.
    pub fn look_at(&self, seen: impl Fn() -> Option<Seen> + Send + 'static) -> io::Result<()> {
        let (stop, stopped) = sync_channel(1);
        let mut look = Look::new(self.recorder.clone(), self.post.clone());
        let thread = supervise::start_unneeded("braid-observe", move || {
            while let Some(seen) = seen() {
                look.at(&seen);
                // Midway between two reports, so that it doesn't matter if either is a little late.
                let next = beat::next(EVERY, bridge::TICK / 2, Instant::now());
                let wait = next.saturating_duration_since(Instant::now());
                if stopped.recv_timeout(wait) != Err(RecvTimeoutError::Timeout) {
                    break;
                }
            }
        })?;
        *self.looking.lock().unwrap_or_else(PoisonError::into_inner) = Some((stop, thread));
        Ok(())
    }

    /// Writes pending data, waiting for the disk at most a moment.
    pub fn stop(&self) {
        if let Some((stop, thread)) = take(&self.looking) {
            // One that has ended needs no stop.
            let _ = stop.try_send(());
            let _ = thread.join();
        }
        let stopped = event(EventKind::Stopped, "the tunnel was taken down".into());
        if let Some(post) = self.post.get() {
            post.tell(&stopped);
            post.stop();
        }
        let Some(recorder) = &self.recorder else { return };
        recorder.event(stopped);
        recorder.stop();
        // A thread that still waits for the disk is left alone.
        let thread = take(&self.recording);
        if let Some(thread) = thread.filter(JoinHandle::is_finished) {
            let _ = thread.join();
        }
    }
}

/// The state of the tunnel.
pub struct Seen {
    /// All of it.
    pub status: Status,
    /// Devices that sent or received something in the last second.
    pub devices: Vec<DeviceSecond>,
}

/// What the thread remembers between observations.
struct Look {
    recorder: Option<Recorder>,
    post: Arc<OnceLock<Post>>,
    sampler: Sampler,
    watch: Option<Watch>,
    began: Instant,
}

impl Look {
    fn new(recorder: Option<Recorder>, post: Arc<OnceLock<Post>>) -> Look {
        Look { recorder, post, sampler: Sampler::default(), watch: None, began: Instant::now() }
    }

    fn at(&mut self, Seen { status, devices }: &Seen) {
        let unix = unix_now();
        if let Some(recorder) = &self.recorder {
            let mut samples = self.sampler.samples(status);
            samples.extend(devices.iter().map(of_device));
            recorder.samples(unix, samples);
        }
        let mut events = Vec::new();
        let watch = match &mut self.watch {
            Some(watch) => watch,
            None => {
                let text = format!("the tunnel {} is up", status.interface);
                events.push(event(EventKind::Started, text));
                self.watch.insert(Watch::new(self.recorder.as_ref().and_then(known_homes)))
            }
        };
        for event in watch.observe(status, self.began.elapsed(), unix) {
            tracing::info!(kind = event.kind.as_str(), "{}", event.text);
            events.push(event);
        }
        for event in events {
            if let Some(post) = self.post.get() {
                post.tell(&event);
            }
            if let Some(recorder) = &self.recorder {
                recorder.event(event);
            }
        }
    }
}

fn of_device(device: &DeviceSecond) -> (Series, Sample) {
    let DeviceSecond { name, rx_bytes, tx_bytes } = device;
    let sample = Sample { up: true, rx_bytes: *rx_bytes, tx_bytes: *tx_bytes, ..Sample::default() };
    (Series::Device(name.clone()), sample)
}

/// Homes that were announced before.
fn known_homes(recorder: &Recorder) -> Option<BTreeSet<String>> {
    let events = recorder.events(None, usize::MAX).ok()?;
    let greeted = events.into_iter().filter(|event| event.kind == EventKind::NewHome);
    Some(greeted.map(|event| event.subject).collect())
}

fn settings(config: &Config) -> Settings {
    let interface = &config.interface;
    let usual = || interface.state_dir.join(format!("{}.history.db", interface.name));
    Settings {
        file: config.history.file.clone().unwrap_or_else(usual),
        limit_bytes: config.history.max_size.bytes(),
        write_every: config.history.write_every,
    }
}

fn event(kind: EventKind, text: String) -> Event {
    Event { unix: unix_now(), kind, severity: Severity::Note, subject: String::new(), text }
}

fn take<T>(place: &Mutex<Option<T>>) -> Option<T> {
    place.lock().unwrap_or_else(PoisonError::into_inner).take()
}

#[cfg(test)]
mod tests {
    use super::{Config, Observer};
    use braid_control::status::{LinkStatus, PathState, PathStatus, PeerStatus, Status};
    use std::time::{Duration, Instant};

    /// A home with these links, connected.
    pub fn status(links: &[&str]) -> Status {
        let link = |name: &&str| LinkStatus {
            name: (*name).to_owned(),
            present: true,
            ..LinkStatus::default()
        };
        Status {
            interface: "braid0".into(),
            links: links.iter().map(link).collect(),
            peers: vec![PeerStatus {
                name: "concentrator".into(),
                connected: true,
                ..PeerStatus::default()
            }],
            ..Status::default()
        }
    }

    /// Where the state lasts and the history is in memory, as on OpenWrt after each boot.
    #[test]
    fn the_historys_folder_is_made_wherever_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let text = "[interface]\nprivate_key_file = \"k\"\nlisten = \"0.0.0.0:1\"\n\
                    state_dir = \"state\"\n[history]\nfile = \"var/braid/history.db\"\n";
        let config = Config::parse(text, &folder.path().join("c.toml")).unwrap();
        let observer = Observer::start(&config).unwrap();
        let give_up = Instant::now() + Duration::from_secs(60);
        while !folder.path().join("var/braid/history.db").exists() {
            assert!(Instant::now() < give_up, "there is no history");
            std::thread::sleep(Duration::from_millis(10));
        }
        observer.stop();
    }

    pub fn path(link: &str, rx_bytes: u64) -> PathStatus {
        PathStatus {
            link: link.into(),
            state: PathState::Active,
            rx_bytes,
            ..PathStatus::default()
        }
    }
}
