//! The page for browsers: rendered here, kept up to date by server-sent events and a small script,
//! without anything from elsewhere.
//!
//! Network input is hostile: connections, headers, bodies and time are bounded ([`server`]), names
//! are checked against DNS rebinding, changes against forgery (`answer`), and whoever isn't on this
//! host must log in ([`access`]).

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

/// The page of one tunnel, or of pools alone.
pub struct Page {
    shown: Arc<dyn Shown>,
    settings: Settings,
    doors: Mutex<Doors>,
    /// The token of forms sent over the Unix socket, which needs no login.
    socket_form_token: Token,
    live: live::Live,
}

/// Logins and sessions.
#[derive(Default)]
struct Doors {
    sessions: Sessions,
    one_time: OneTime,
    attempts: Attempts,
    /// The password file's modification time at the last login.
    passwords_written: Option<SystemTime>,
}

/// How the page is served.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The tunnel's name, or `pools`, so that two pages on one host have separate cookies.
    pub name: String,
    /// Host names that browsers may use, in lower case.
    pub hosts: Vec<String>,
    /// The file with the passwords' hashes.
    pub password_file: PathBuf,
    /// The address for browsers.
    pub at: Option<SocketAddr>,
    /// Whether it is served by TLS.
    pub tls: bool,
    /// The command, to be run on this host, that creates a login link.
    pub login_command: String,
    /// SHA-256 of the certificate, if it is self-signed.
    pub fingerprint: Option<String>,
}

impl Page {
    /// A page that shows this.
    pub fn new(shown: Arc<dyn Shown>, settings: Settings) -> Arc<Page> {
        let (doors, live) = (Mutex::default(), live::Live::default());
        Arc::new(Page { shown, settings, doors, socket_form_token: Token::random(), live })
    }

    /// A single-use address that logs in whoever opens it.
    pub fn login_link(&self, role: UiRole, at: SocketAddr) -> LoginLink {
        let token = self.doors().one_time.issue(role, Instant::now());
        let page = self.address(at);
        let url = format!("{page}login/{}", token.as_str());
        let certificate = self.settings.fingerprint.clone();
        LoginLink { url, page, valid_s: VALID.as_secs(), certificate }
    }

    /// The page's address for browsers.
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

    /// The cookie's name; it must be unique per host, as cookies ignore ports.
    fn cookie(&self) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
        let name: String = self.settings.name.chars().map(plain).collect();
        format!("braid-{name}")
    }

    fn session_lasts(&self, token: &Token) -> bool {
        self.doors().sessions.lasts(token, Instant::now())
    }
}
