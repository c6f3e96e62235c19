//! Homes of a concentrator, on the page: what `braid concentrator` does, in the daemon's process.

use super::add_home::{self, Renewed, with_joined};
use super::list::{self, State};
use super::{LineForHome, valid};
use crate::cli::failure::Failure;
use crate::daemon::tunnel::Tunnel;
use braid_control::config::{Config, Endpoint};
use braid_control::join_line::JoinLine;
use braid_control::request::{Refusal, Request};
use braid_control::status::Status;
use braid_history::{Level, Recorder, Series};
use braid_page::homes::{HomeLine, HomePlan, Homes, Joined, NewHome, OnceShown};
use ipnet::IpNet;
use jiff::Timestamp;
use rustix::fs::{Access, AtFlags, CWD, accessat};
use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

/// The homes of a running tunnel.
pub fn homes(tunnel: Weak<dyn Tunnel>) -> Box<dyn Homes> {
    Box::new(HomesOfTunnel { tunnel, last_seen: Mutex::default(), changing: Mutex::default() })
}

struct HomesOfTunnel {
    tunnel: Weak<dyn Tunnel>,
    last_seen: Mutex<LastSeen>,
    /// One change at a time: each reads the config's file and replaces it.
    changing: Mutex<()>,
}

impl HomesOfTunnel {
    fn tunnel(&self) -> Result<Arc<dyn Tunnel>, Refusal> {
        self.tunnel.upgrade().ok_or_else(|| Refusal::Failed("the tunnel is shutting down".into()))
    }

    /// Changes the config's file, and reloads the tunnel.
    fn change<T>(
        &self,
        change: impl FnOnce(Config) -> Result<T, Failure>,
    ) -> Result<(T, Result<(), Refusal>), Refusal> {
        let tunnel = self.tunnel()?;
        let _one = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let config = on_disk(&*tunnel)?;
        if let Some(trouble) = not_writable(&config.file) {
            return Err(Refusal::Failed(trouble));
        }
        let done = change(config).map_err(|error| refused(&error))?;
        Ok((done, tunnel.execute(Request::Reload)))
    }
}

impl Homes for HomesOfTunnel {
    fn all(&self) -> Vec<HomeLine> {
        let Some(tunnel) = self.tunnel.upgrade() else { return Vec::new() };
        let (config, status) = (tunnel.config_now(), tunnel.status());
        let now = Timestamp::now();
        let listed = list::homes(&config, Some(&status), now);
        let mut last_seen = self.last_seen.lock().unwrap_or_else(PoisonError::into_inner);
        last_seen.keep(&listed);
        let line = |home: list::Home| {
            let joined = match &home.state {
                State::Invited { until } => Joined::Invited(unix(until)),
                State::Expired { until } => Joined::Expired(unix(until)),
                State::Joined { .. } => Joined::Joined,
            };
            let asked = joined == Joined::Joined && !is_connected(&status, &home.name);
            let history = tunnel.history().filter(|_| asked);
            let last_seen_unix =
                history.and_then(|history| last_seen.of(history, &home.name, now.as_second()));
            let addresses = home.addresses.iter().map(|prefix| without_length(prefix)).collect();
            HomeLine { name: home.name, addresses, joined, last_seen_unix }
        };
        listed.into_iter().map(line).collect()
    }

    fn plan(&self, wish: &NewHome) -> Result<HomePlan, Refusal> {
        let tunnel = self.tunnel()?;
        let config = on_disk(&*tunnel)?;
        let (file, trouble) = (config.file.clone(), not_writable(&config.file));
        let (home, wanted) = parsed(wish)?;
        let (addresses, endpoints) =
            add_home::planned(config, &home, &wanted).map_err(|error| refused(&error))?;
        Ok(HomePlan {
            addresses: addresses.iter().map(|address| address.addr().to_string()).collect(),
            endpoints: endpoints.iter().map(ToString::to_string).collect(),
            file: file.display().to_string(),
            trouble,
        })
    }

    fn add(&self, wish: &NewHome) -> Result<OnceShown, Refusal> {
        let (home, wanted) = parsed(wish)?;
        let (line, read) =
            self.change(|config| add_home::add(config, &home, &wanted).map(|it| it.line))?;
        tracing::info!("home {} was added on the page", home.name);
        Ok(once_shown(&line, read.err().map(|refusal| not_read(&refusal))))
    }

    fn renew(&self, name: &str, valid: &str) -> Result<OnceShown, Refusal> {
        let wish = NewHome { name: name.to_owned(), valid: valid.to_owned(), ..NewHome::default() };
        let (home, _) = parsed(&wish)?;
        let (Renewed { line, tidied }, read) =
            self.change(|config| add_home::renew(config, &home))?;
        tracing::info!("home {name} got a new join line on the page");
        let trouble = read.err().map(|refusal| not_read(&refusal));
        Ok(once_shown(&line, trouble.or(tidied.err().map(|error| error.to_string()))))
    }

    fn revoke(&self, name: &str) -> Result<(), Refusal> {
        let ((), read) = self.change(|config| add_home::revoke(config, name))?;
        tracing::info!("the join line of home {name} was revoked on the page");
        read.map_err(|refusal| Refusal::Failed(not_read(&refusal)))
    }

    fn remove(&self, name: &str) -> Result<(), Refusal> {
        let ((), read) = self.change(|config| add_home::remove(config, name))?;
        tracing::info!("home {name} was removed on the page");
        read.map_err(|refusal| Refusal::Failed(not_read(&refusal)))
    }
}

fn on_disk(tunnel: &dyn Tunnel) -> Result<Config, Refusal> {
    let config = Config::load(&tunnel.config_now().file);
    let config = config.map_err(|errors| Refusal::Failed(errors.to_string()))?;
    with_joined(config).map_err(|error| refused(&error))
}

fn parsed(wish: &NewHome) -> Result<(LineForHome, Vec<IpAddr>), Refusal> {
    let invalid = |what: &str, why: String| Refusal::Invalid(format!("{what}: {why}"));
    let name = wish
        .name
        .parse()
        .map_err(|e: braid_control::config::NameError| Refusal::Invalid(e.to_string()))?;
    let valid = valid(&wish.valid).map_err(|why| invalid("how long the line is valid", why))?;
    let endpoint =
        |text: &String| text.parse::<Endpoint>().map_err(|e| invalid(text, e.to_string()));
    let address = |text: &String| text.parse::<IpAddr>().map_err(|e| invalid(text, e.to_string()));
    let endpoint = wish.endpoints.iter().map(endpoint).collect::<Result<_, _>>()?;
    let addresses = wish.addresses.iter().map(address).collect::<Result<_, _>>()?;
    Ok((LineForHome { name, endpoint, valid, qr: false }, addresses))
}

fn refused(failure: &Failure) -> Refusal {
    Refusal::Invalid(failure.to_string())
}

fn not_read(refusal: &Refusal) -> String {
    format!(
        "the config is changed, but the tunnel couldn't reload it: {refusal}; fix that, then \
         `braid reload`"
    )
}

fn once_shown(line: &JoinLine, trouble: Option<String>) -> OnceShown {
    OnceShown { line: line.to_string(), until_unix: line.until.as_second(), trouble }
}

/// Why the daemon can't replace a config, if so: its unit may forbid it.
fn not_writable(file: &Path) -> Option<String> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let error = accessat(CWD, folder, Access::WRITE_OK, AtFlags::EACCESS).err()?;
    let (folder, error) = (folder.display(), io::Error::from(error));
    Some(format!(
        "the daemon may not write {folder} ({error}): use the command on the host itself, or let its \
         unit write there (`systemctl edit`, ReadWritePaths={folder})"
    ))
}

/// Shows a host prefix as an address.
fn without_length(prefix: &str) -> String {
    match prefix.parse::<IpNet>() {
        Ok(net) if net.prefix_len() == net.max_prefix_len() => net.addr().to_string(),
        _ => prefix.to_owned(),
    }
}

fn is_connected(status: &Status, name: &str) -> bool {
    status.peers.iter().any(|peer| peer.name == name && peer.connected)
}

fn unix(text: &str) -> i64 {
    text.parse().map_or(0, Timestamp::as_second)
}

/// When disconnected homes were last connected, from history.
#[derive(Default)]
struct LastSeen(BTreeMap<String, (Instant, Option<i64>)>);

/// How long an answer stays valid: a disconnected home doesn't change history.
const ASK_AGAIN: Duration = Duration::from_secs(60);

impl LastSeen {
    /// Forgets all others.
    fn keep(&mut self, homes: &[list::Home]) {
        self.0.retain(|name, _| homes.iter().any(|home| home.name == *name));
    }

    /// When a currently disconnected home was last connected (Unix seconds).
    fn of(&mut self, history: &Recorder, name: &str, now: i64) -> Option<i64> {
        if let Some((asked, seen)) = self.0.get(name)
            && asked.elapsed() < ASK_AGAIN
        {
            return *seen;
        }
        let seen = last_up(history, name, now);
        self.0.insert(name.to_owned(), (Instant::now(), seen));
        seen
    }
}

/// The end of the last minute in which it was connected, or of the hour if only hours are kept.
fn last_up(history: &Recorder, name: &str, now: i64) -> Option<i64> {
    let series = Series::Peer(name.to_owned());
    let last = |level: Level, from: i64, to: i64| {
        let points = history.points(&series, level, from, to).ok()?;
        let up = points.points.iter().rev().find(|(_, bucket)| bucket.up_seconds > 0)?;
        Some((up.0, up.0.saturating_add(points.width_s)))
    };
    let (from, to) = last(Level::Hour, now.saturating_sub(Level::Hour.kept()), now)?;
    let finer = last(Level::Minute, from, to).map(|(_, end)| end);
    Some(finer.unwrap_or(to).min(now))
}
