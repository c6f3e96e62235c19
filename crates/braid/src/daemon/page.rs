//! The page of a running tunnel, served by its own thread, so that requests can delay neither
//! packets nor the control socket.

pub mod certificate;
#[cfg(feature = "lab")]
pub mod reports;

use super::examine::Consulting;
use super::supervise;
use super::tunnel::Tunnel;
use braid_control::config::{Config, LinkChange, QuotaPeriod};
use braid_control::measured::{MeasureStatus, NewMeasure};
use braid_control::request::{LoginLink, Refusal, Request, UiRole};
use braid_control::status::Status;
use braid_control::traffic::TrafficStatus;
use braid_history::Recorder;
use braid_page::homes::Homes;
use braid_page::server::{Listeners, serve};
use braid_page::{Examined, Line, LinkWish, Page, PoolsLook, Settings, Shown};
use certificate::{Secured, own_files};
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

/// Creates the part of the page about homes.
pub type PageHomes = fn(Weak<dyn Tunnel>) -> Box<dyn Homes>;

/// The thread that serves it.
pub struct ServedPage {
    page: Arc<Page>,
    at: Option<SocketAddr>,
    stop: watch::Sender<bool>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// The file in the state folder to which `braid pool watch` writes what it saw.
pub const POOLS: &str = "pools.json";

impl ServedPage {
    /// Starts serving it, as configured.
    pub fn start(
        config: &Config,
        tunnel: &Arc<dyn Tunnel>,
        homes: PageHomes,
    ) -> io::Result<ServedPage> {
        let window = Window {
            tunnel: Arc::downgrade(tunnel),
            consulting: Consulting::default(),
            recorder: tunnel.history().cloned(),
            pools: config.interface.state_dir.join(POOLS),
            #[cfg(feature = "lab")]
            reports: reports::ReportFolder::open(
                config
                    .ui
                    .reports
                    .clone()
                    .unwrap_or_else(|| config.interface.state_dir.join("reports")),
            ),
            // A tunnel that listens has homes.
            homes: (!config.interface.listen.is_empty()).then(|| homes(Arc::downgrade(tunnel))),
        };
        let tcp = match config.ui.listen {
            None => None,
            Some(address) => match listen(address) {
                Ok(listener) => Some(listener),
                Err(error) => {
                    tracing::warn!("can't serve the page on {address}: {error}");
                    None
                }
            },
        };
        let at = tcp.as_ref().and_then(|listener| listener.local_addr().ok());
        let secured = match (&config.ui.tls, at) {
            (Some(wanted), Some(at)) => {
                let interface = &config.interface;
                let own = own_files(&interface.state_dir, interface.name.as_str());
                Some(Secured::with(wanted, &own, at.ip())?)
            }
            _ => None,
        };
        let settings = Settings {
            name: config.interface.name.to_string(),
            hosts: config.ui.hosts.clone(),
            password_file: config.ui.password_file.clone(),
            at,
            tls: secured.is_some(),
            login_command: "braid ui login".to_owned(),
            fingerprint: secured.as_ref().and_then(|secured| secured.fingerprint.clone()),
        };
        let page = Page::new(Arc::new(window), settings);
        let socket = socket(config);
        let (stop, stopped) = watch::channel(false);
        let (served, tls) = (page.clone(), secured.map(|secured| secured.acceptor));
        let thread = supervise::start_unneeded("braid-page", move || {
            let doors = Doors { tcp: tcp.as_ref(), tls: tls.clone(), socket: &socket };
            if let Err(error) = run(served.clone(), doors, stopped.clone()) {
                tracing::warn!("the page can't be served: {error}");
            }
        })?;
        Ok(ServedPage { page, at, stop, thread: Mutex::new(Some(thread)) })
    }

    /// A link that logs in whoever opens it first.
    pub fn login_link(&self, role: UiRole) -> Option<LoginLink> {
        Some(self.page.login_link(role, self.at?))
    }

    /// Stops serving it.
    pub fn stop(&self) {
        // Without a receiver it has stopped.
        let _ = self.stop.send(true);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

/// Beside the control socket, unless the config says otherwise.
pub fn socket(config: &Config) -> PathBuf {
    let usual = || config.interface.control.with_extension("ui.sock");
    config.ui.socket.clone().unwrap_or_else(usual)
}

/// Opens the listener for browsers.
pub fn listen(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    nonblocking(std::net::TcpListener::bind(address)?)
}

/// As [`run`] needs it.
pub fn nonblocking(listener: std::net::TcpListener) -> io::Result<std::net::TcpListener> {
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Where it is served.
pub struct Doors<'a> {
    /// For browsers.
    pub tcp: Option<&'a std::net::TcpListener>,
    /// TLS for browsers, unless it is plain HTTP.
    pub tls: Option<TlsAcceptor>,
    /// The Unix socket.
    pub socket: &'a Path,
}

/// Serves it at both until it is stopped.
pub fn run(page: Arc<Page>, doors: Doors<'_>, stopped: watch::Receiver<bool>) -> io::Result<()> {
    let Doors { tcp, tls, socket } = doors;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .thread_name("braid-page-work")
        .max_blocking_threads(WORKERS)
        .build()?;
    runtime.block_on(async {
        let tcp = match tcp {
            Some(listener) => Some(TcpListener::from_std(listener.try_clone()?)?),
            None => None,
        };
        let unix = braid_control::server::bind(socket).await;
        let unix = unix.inspect_err(|error| {
            tracing::warn!("can't serve the page on {}: {error}", socket.display());
        });
        serve(page, Listeners { tcp, tls, unix: unix.ok() }, stopped).await;
        // If it couldn't be created, it would be another daemon's.
        let _ = std::fs::remove_file(socket);
        Ok(())
    })
}

/// Threads that render pages, read history and check passwords; further requests wait.
const WORKERS: usize = 3;

/// The tunnel as the page sees it.
struct Window {
    /// The page is the tunnel's.
    tunnel: Weak<dyn Tunnel>,
    consulting: Consulting,
    recorder: Option<Recorder>,
    pools: PathBuf,
    homes: Option<Box<dyn Homes>>,
    #[cfg(feature = "lab")]
    reports: Option<reports::ReportFolder>,
}

impl Shown for Window {
    fn status(&self) -> Option<Status> {
        self.tunnel.upgrade().map(|tunnel| tunnel.status())
    }

    fn examined(&self) -> Option<Examined> {
        Some(self.consulting.ask(&self.tunnel))
    }

    fn measuring(&self) -> MeasureStatus {
        self.tunnel.upgrade().map(|tunnel| tunnel.measuring()).unwrap_or_default()
    }

    fn measure(&self, wish: &NewMeasure) -> Result<(), Refusal> {
        let tunnel = self.tunnel.upgrade();
        let tunnel = tunnel.ok_or_else(|| Refusal::Failed("the tunnel is shutting down".into()))?;
        tunnel.measure(wish)
    }

    fn traffic(&self) -> Option<TrafficStatus> {
        self.tunnel.upgrade().map(|tunnel| tunnel.traffic())
    }

    fn history(&self) -> Option<&Recorder> {
        self.recorder.as_ref()
    }

    fn pools(&self) -> Option<PoolsLook> {
        PoolsLook::read(&self.pools)
            .inspect_err(|error| tracing::debug!(%error, "the pools' file"))
            .ok()
            .flatten()
    }

    #[cfg(feature = "lab")]
    fn reports(&self) -> Option<&dyn braid_page::reports::Reports> {
        self.reports.as_ref().map(|reports| reports as &dyn braid_page::reports::Reports)
    }

    fn homes(&self) -> Option<&dyn Homes> {
        self.homes.as_deref()
    }

    fn line(&self, name: &str) -> Option<Line> {
        let config = self.tunnel.upgrade()?.config_now();
        super::look::line::of(&config, config.link(name)?)
    }

    fn link(&self, name: &str) -> Option<LinkWish> {
        let config = self.tunnel.upgrade()?.config_now();
        let link = config.link(name)?;
        let quota = link.quota.map(|quota| {
            let per = match quota.period {
                QuotaPeriod::Day => "day",
                QuotaPeriod::Month { .. } => "month",
            };
            format!("{}/{per}", quota.bytes)
        });
        Some(LinkWish {
            tier: link.tier,
            standby: link.standby,
            cap_down: link.cap.down.map(|rate| rate.to_string()),
            cap_up: link.cap.up.map(|rate| rate.to_string()),
            quota,
        })
    }

    fn set_link(&self, name: &str, change: LinkChange) -> Result<(), Refusal> {
        let tunnel = self.tunnel.upgrade();
        let tunnel = tunnel.ok_or_else(|| Refusal::Failed("the tunnel is shutting down".into()))?;
        tunnel.execute(Request::SetLink { name: name.to_owned(), change })
    }
}
