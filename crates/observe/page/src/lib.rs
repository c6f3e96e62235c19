//! The page that browsers see: rendered here, kept up to date by server-sent events and
//! a small script, with nothing from anywhere else.
//!
//! What comes from the network is hostile: connections, headers, bodies and time are
//! bounded ([`server`]), names are checked against DNS rebinding, changes against forgery
//! (`answer`), and whoever is not on this host logs in ([`access`]).

#![forbid(unsafe_code)]

pub mod access;
mod answer;
mod body;
mod form;
mod guests;
pub mod homes;
mod live;
#[cfg(feature = "manual")]
mod manual;
mod pools;
pub mod reports;
pub mod server;
mod shown;
pub mod snapshots;
mod view;

pub use answer::Client;
pub use pools::{DiskLine, FindingLine, PoolLine, PoolsLook};
pub use shown::{Examined, Line, LineAddress, LinkWish, Shown};

use access::{Attempts, OneTime, Sessions, Token, VALID};
use braid_control::request::{LoginLink, UiRole};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime};

/// The page of one tunnel, or of the pools alone.
pub struct Page {
    shown: Arc<dyn Shown>,
    settings: Settings,
    doors: Mutex<Doors>,
    /// What forms have that come by the Unix socket, which needs no login.
    socket_form_token: Token,
    live: live::Live,
}

/// Who comes in, and how.
#[derive(Default)]
struct Doors {
    sessions: Sessions,
    one_time: OneTime,
    attempts: Attempts,
    /// Of the file with passwords, when somebody logged in last.
    passwords_written: Option<SystemTime>,
}

/// How the page is served.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Of the tunnel, or `pools`: so that two pages of one host have cookies of their own.
    pub name: String,
    /// Names by which browsers may ask, in lower case.
    pub hosts: Vec<String>,
    /// The passwords' hashes.
    pub password_file: PathBuf,
    /// Where browsers find it.
    pub at: Option<SocketAddr>,
    /// They come by TLS.
    pub tls: bool,
    /// The command, run on this host, that makes a link which logs one in.
    pub login_command: String,
    /// SHA-256 of a certificate that nobody else vouches for.
    pub fingerprint: Option<String>,
}

impl Page {
    /// Shows this.
    pub fn new(shown: Arc<dyn Shown>, settings: Settings) -> Arc<Page> {
        let (doors, live) = (Mutex::default(), live::Live::default());
        Arc::new(Page { shown, settings, doors, socket_form_token: Token::random(), live })
    }

    /// An address at which whoever opens it first is logged in.
    pub fn login_link(&self, role: UiRole, at: SocketAddr) -> LoginLink {
        let token = self.doors().one_time.issue(role, Instant::now());
        let page = self.address(at);
        let url = format!("{page}login/{}", token.as_str());
        let certificate = self.settings.fingerprint.clone();
        LoginLink { url, page, valid_s: VALID.as_secs(), certificate }
    }

    /// The address that browsers are given.
    pub fn address(&self, at: SocketAddr) -> String {
        let host = match self.settings.hosts.first() {
            Some(name) if !at.ip().is_loopback() => format!("{name}:{}", at.port()),
            _ if at.ip().is_unspecified() => format!("localhost:{}", at.port()),
            _ => at.to_string(),
        };
        let scheme = if self.settings.tls { "https" } else { "http" };
        format!("{scheme}://{host}/")
    }

    fn doors(&self) -> MutexGuard<'_, Doors> {
        self.doors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A cookie's name: cookies don't know of ports.
    fn cookie(&self) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
        let name: String = self.settings.name.chars().map(plain).collect();
        format!("braid-{name}")
    }

    fn session_lasts(&self, token: &Token) -> bool {
        self.doors().sessions.lasts(token, Instant::now())
    }
}
