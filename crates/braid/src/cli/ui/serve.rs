//! The page of a host that has pools but no tunnel.

use super::looker::Looker;
use super::shelves::Shelves;
#[cfg(feature = "backup")]
use super::vaults::Vaults;
use crate::cli::failure::{Failure, FailureKind, tell};
use crate::cli::pool::carry_out::StateFolders;
use crate::cli::pool::watch_memory;
use crate::cli::{Global, JsonFlag};
use crate::daemon::page::certificate::{Secured, own_files};
#[cfg(feature = "lab")]
use crate::daemon::page::reports::ReportFolder;
use crate::daemon::page::{Doors, listen, nonblocking, run};
use braid_control::config::{CertificateFiles, LinkChange, UiCertificate};
use braid_control::request::Refusal;
use braid_control::status::Status;
use braid_history::Recorder;
use braid_linux::activation;
use braid_page::snapshots::Snapshots;
use braid_page::{LinkWish, Page, PoolsLook, Settings, Shown};
use braid_pool::step::quoted;
use clap::Args;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// The default address for browsers.
const USUAL: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 5190);

#[derive(Args)]
#[command(
    after_help = "A running tunnel serves the page itself, as [ui] in its config says; this is for hosts without one. It shows what `braid pool` does, and the snapshots in each mounted pool's folder .snapshots. Users on other hosts must log in: with a password (`braid ui password --file FILE`) or a link (`braid ui login --socket SOCKET`).\n\nExamples:\n  braid ui serve\n  braid ui serve --snapshots /srv/replicas\n  braid ui serve --backups\n  systemctl enable --now braid-ui.service"
)]
pub struct Serve {
    #[command(flatten)]
    _json: JsonFlag,
    /// Address to listen on, unless systemd passes a socket [default: 127.0.0.1:5190]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// Allow an address that others can reach, although the connection isn't encrypted
    #[arg(long)]
    plain: bool,
    /// Serve over TLS, with a self-signed certificate kept beside the passwords
    #[arg(long)]
    tls: bool,
    /// Certificate chain for TLS, PEM
    #[arg(long, value_name = "FILE", requires = "key")]
    certificate: Option<PathBuf>,
    /// Its key, PEM
    #[arg(long, value_name = "FILE", requires = "certificate")]
    key: Option<PathBuf>,
    /// A host name that browsers may use besides the address
    #[arg(long, value_name = "NAME")]
    host: Vec<String>,
    /// The page's Unix socket; whoever can open it is an admin
    #[arg(long, value_name = "FILE", default_value = super::POOLS_SOCKET)]
    ui_socket: PathBuf,
    /// The passwords' hashes
    #[arg(long, value_name = "FILE", default_value = super::POOLS_PASSWORDS)]
    passwords: PathBuf,
    /// A further folder of snapshots
    #[arg(long, value_name = "FOLDER")]
    snapshots: Vec<PathBuf>,
    /// Show the backups at the targets that this host knows
    #[cfg(feature = "backup")]
    #[arg(long)]
    backups: bool,
    /// Key file of the backups [default: the one they were made with]
    #[cfg(feature = "backup")]
    #[arg(long, value_name = "FILE", requires = "backups")]
    backup_key: Option<PathBuf>,
    /// File with their servers' credentials [default: /etc/braid/backup.env]
    #[cfg(feature = "backup")]
    #[arg(long, value_name = "FILE", requires = "backups")]
    backup_credentials: Option<PathBuf>,
    /// Reports of `braid lab` to show
    #[cfg(feature = "lab")]
    #[arg(long, value_name = "FOLDER", default_value = "/var/lib/braid/reports")]
    reports: PathBuf,
    /// State file of `braid pool watch`; error counters are compared with those in it
    #[arg(long, value_name = "FILE", default_value = watch_memory::DEFAULT)]
    state: PathBuf,
    /// Skip the disks' own health reports (SMART)
    #[arg(long)]
    no_smart: bool,
    #[command(flatten)]
    place: StateFolders,
}

impl Serve {
    /// Serves until it is told to stop.
    pub fn run(self, _global: &Global) -> Result<(), Failure> {
        let handed = activation::tcp_listener()
            .map_err(|error| Failure::io("the socket passed by systemd", &error))?;
        let wanted = self.certificate();
        let address = self.address(handed.as_ref())?;
        if !address.ip().is_loopback() && !self.plain && wanted.is_none() {
            let why = format!(
                "{address} can be reached by others, and passwords and files would cross the \
                 network unencrypted: add --tls, or listen on loopback and connect with `ssh -L \
                 5190:127.0.0.1:5190`; or accept it with --plain"
            );
            return Err(Failure::new(FailureKind::Usage, why));
        }
        let tcp = handed.map_or_else(|| listen(address), nonblocking);
        let tcp = tcp.map_err(|error| Failure::io(&format!("listening on {address}"), &error))?;
        let at = tcp.local_addr().ok();
        let folder = self.passwords.parent().unwrap_or(Path::new("/"));
        let secured = match &wanted {
            Some(wanted) => {
                let own = own_files(folder, "pools");
                let secured = Secured::with(wanted, &own, address.ip());
                Some(secured.map_err(|error| Failure::io("preparing TLS", &error))?)
            }
            None => None,
        };
        let fingerprint = secured.as_ref().and_then(|secured| secured.fingerprint.clone());
        if let Some(fingerprint) = &fingerprint {
            tell(&format!("its certificate is self-signed; SHA-256 {fingerprint}"));
        }
        let socket = self.ui_socket.display().to_string();
        let settings = Settings {
            name: "pools".into(),
            hosts: self.host.iter().map(|name| name.to_lowercase()).collect(),
            password_file: self.passwords,
            at,
            tls: secured.is_some(),
            login_command: format!("braid ui login --socket {}", quoted(&socket)),
            fingerprint,
        };
        #[cfg(feature = "backup")]
        let vaults = self.backups.then(|| {
            let folder = self.place.state().backups();
            Vaults::new(&folder, self.backup_key, self.backup_credentials)
        });
        let looker = Looker::start(self.place, self.state, !self.no_smart)
            .map_err(|error| Failure::io("starting to check the pools", &error))?;
        let shelves = Shelves::new(looker.clone(), self.snapshots);
        #[cfg(feature = "backup")]
        let shelves = shelves.beside(vaults);
        let shown = Pools {
            looker,
            shelves,
            #[cfg(feature = "lab")]
            reports: ReportFolder::open(self.reports),
        };
        let page = Page::new(Arc::new(shown), settings);
        if let Some(at) = at {
            tell(&format!("serving the pools' page on {}", page.address(at)));
        }
        let (stop, stopped) = watch::channel(false);
        std::thread::Builder::new()
            .name("braid-stop".into())
            .spawn(move || {
                if let Err(error) = wait_for_signal() {
                    tracing::warn!("can't wait for signals: {error}");
                }
                // It has ended already if this fails.
                let _ = stop.send(true);
            })
            .map_err(|error| Failure::io("starting a thread", &error))?;
        let tls = secured.map(|secured| secured.acceptor);
        let doors = Doors { tcp: Some(&tcp), tls, socket: &self.ui_socket };
        run(page, doors, stopped).map_err(|error| Failure::io("serving the page", &error))
    }
}

impl Serve {
    /// The address where it is served.
    fn address(&self, handed: Option<&TcpListener>) -> Result<SocketAddr, Failure> {
        let Some(handed) = handed else { return Ok(self.listen.unwrap_or(USUAL)) };
        if self.listen.is_some() {
            let why = "--listen: systemd has handed over a socket; what address it has \
                       `systemctl edit braid-ui.socket` says, by ListenStream=";
            return Err(Failure::new(FailureKind::Usage, why));
        }
        handed.local_addr().map_err(|error| Failure::io("the socket passed by systemd", &error))
    }

    fn certificate(&self) -> Option<UiCertificate> {
        match (&self.certificate, &self.key) {
            (Some(chain), Some(key)) => {
                let (chain, key) = (chain.clone(), key.clone());
                Some(UiCertificate::Files(CertificateFiles { chain, key }))
            }
            _ => self.tls.then_some(UiCertificate::Own),
        }
    }
}

fn wait_for_signal() -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        Ok(())
    })
}

/// What the page shows.
struct Pools {
    looker: Looker,
    shelves: Shelves,
    #[cfg(feature = "lab")]
    reports: Option<ReportFolder>,
}

impl Shown for Pools {
    fn status(&self) -> Option<Status> {
        None
    }

    fn history(&self) -> Option<&Recorder> {
        None
    }

    fn pools(&self) -> Option<PoolsLook> {
        self.looker.look()
    }

    #[cfg(feature = "lab")]
    fn reports(&self) -> Option<&dyn braid_page::reports::Reports> {
        self.reports.as_ref().map(|reports| reports as &dyn braid_page::reports::Reports)
    }

    fn snapshots(&self) -> Option<&dyn Snapshots> {
        Some(&self.shelves)
    }

    fn link(&self, _name: &str) -> Option<LinkWish> {
        None
    }

    fn set_link(&self, _name: &str, _change: LinkChange) -> Result<(), Refusal> {
        Err(Refusal::NotFound("no tunnel is running here".into()))
    }
}
