//! Where snapshots are, as users write it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Where snapshots are, or should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// On this computer.
    Local(PathBuf),
    /// On another one, reached by a remote shell.
    Shell {
        /// `[USER@]HOST`
        host: String,
        /// If not the default one.
        port: Option<u16>,
        /// There.
        path: PathBuf,
    },
    /// Below the folder of a listener (`braid pool replicate --serve`).
    Listener {
        /// `HOST:PORT`
        address: String,
        /// Below its folder.
        path: PathBuf,
    },
}

/// A string that isn't a place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?}: {why}; write /PATH, [USER@]HOST:PATH, ssh://[USER@]HOST[:PORT]/PATH or tcp://HOST:PORT[/PATH]"
)]
pub struct PlaceError {
    text: String,
    why: &'static str,
}

impl Place {
    /// The place of `inside` below this.
    #[must_use]
    pub fn join(&self, inside: &Path) -> Place {
        let mut joined = self.clone();
        match &mut joined {
            Place::Local(path) | Place::Shell { path, .. } | Place::Listener { path, .. } => {
                path.push(inside);
            }
        }
        joined
    }

    /// The path there.
    pub fn path(&self) -> &Path {
        match self {
            Place::Local(path) | Place::Shell { path, .. } | Place::Listener { path, .. } => path,
        }
    }
}

impl FromStr for Place {
    type Err = PlaceError;

    /// As scp(1) and rsync(1) do: a colon before the first slash makes it remote.
    fn from_str(text: &str) -> Result<Self, PlaceError> {
        let wrong = |why| PlaceError { text: text.to_owned(), why };
        if let Some(rest) = text.strip_prefix("ssh://") {
            let (host, path) = rest.split_once('/').ok_or_else(|| wrong("the path is missing"))?;
            let (host, port) = match split_port(host) {
                Some((host, port)) => (host, Some(port.map_err(|()| wrong("wrong port"))?)),
                None => (host, None),
            };
            check_host(host).map_err(wrong)?;
            return Ok(Place::Shell {
                host: without_brackets(host),
                port,
                path: Path::new("/").join(path),
            });
        }
        if let Some(rest) = text.strip_prefix("tcp://") {
            let (address, path) = rest.split_once('/').unwrap_or((rest, ""));
            match split_port(address) {
                Some((host, Ok(_))) => check_host(host).map_err(wrong)?,
                _ => return Err(wrong("the port is missing or wrong")),
            }
            return Ok(Place::Listener { address: address.to_owned(), path: path.into() });
        }
        let bracket = text.rfind(']').filter(|_| text.starts_with('[') || text.contains("@["));
        let after = bracket.unwrap_or(0);
        let colon = text.get(after..).and_then(|rest| rest.find(':')).map(|at| at + after);
        let slash = text.find('/').unwrap_or(text.len());
        match colon.filter(|colon| *colon < slash) {
            Some(colon) => {
                let (host, path) = text.split_at(colon);
                let path = path.strip_prefix(':').unwrap_or(path);
                if path.is_empty() {
                    return Err(wrong("the path is missing"));
                }
                check_host(host).map_err(wrong)?;
                Ok(Place::Shell { host: without_brackets(host), port: None, path: path.into() })
            }
            None if text.is_empty() => Err(wrong("it is empty")),
            None => Ok(Place::Local(text.into())),
        }
    }
}

/// Host and port; brackets are around a host with colons.
fn split_port(text: &str) -> Option<(&str, Result<u16, ()>)> {
    let (host, port) = text.rsplit_once(':')?;
    if host.contains(':') && !host.ends_with(']') {
        return None;
    }
    Some((host, port.parse().map_err(|_| ())))
}

fn without_brackets(host: &str) -> String {
    host.chars().filter(|c| !matches!(c, '[' | ']')).collect()
}

/// A host that begins with a dash would be taken for an option by the shell.
fn check_host(host: &str) -> Result<(), &'static str> {
    let (user, bare) = host.rsplit_once('@').unwrap_or(("", host));
    let inside = bare.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    if inside.unwrap_or(bare).is_empty() {
        Err("the host is missing")
    } else if inside.unwrap_or(bare).contains(['[', ']']) || user.contains(['[', ']']) {
        Err("brackets are around an address only")
    } else if host.starts_with('-') || bare.starts_with('-') {
        Err("a host can't begin with a dash")
    } else if host.chars().any(|c| c.is_whitespace() || c.is_control()) {
        Err("a host has no blanks")
    } else {
        Ok(())
    }
}

/// Brackets separate an address with colons from what follows.
fn bracketed(host: &str) -> String {
    let (user, bare) = host.split_at(host.rfind('@').map_or(0, |at| at + 1));
    if bare.contains(':') { format!("{user}[{bare}]") } else { host.to_owned() }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Local(path) => write!(f, "{}", path.display()),
            Place::Shell { host, port: None, path } => {
                write!(f, "{}:{}", bracketed(host), path.display())
            }
            Place::Shell { host, port: Some(port), path } => {
                write!(f, "ssh://{}:{port}{}", bracketed(host), path.display())
            }
            Place::Listener { address, path } => write!(f, "tcp://{address}/{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shell(host: &str, port: Option<u16>, path: &str) -> Place {
        Place::Shell { host: host.to_owned(), port, path: path.into() }
    }

    #[test]
    fn places_are_read_as_by_rsync() {
        for (text, place) in [
            ("/mnt/b a", Place::Local("/mnt/b a".into())),
            ("./a:b", Place::Local("./a:b".into())),
            ("nas:backup", shell("nas", None, "backup")),
            ("me@nas:/srv/x:y", shell("me@nas", None, "/srv/x:y")),
            ("[fd00::1]:/srv", shell("fd00::1", None, "/srv")),
            ("ssh://me@nas:2222/srv", shell("me@nas", Some(2222), "/srv")),
            ("ssh://[fd00::1]/srv", shell("fd00::1", None, "/srv")),
            (
                "tcp://10.9.0.1:7000/a",
                Place::Listener { address: "10.9.0.1:7000".to_owned(), path: "a".into() },
            ),
        ] {
            assert_eq!(text.parse().as_ref(), Ok(&place), "{text}");
            assert_eq!(place.to_string().parse(), Ok(place), "{text}");
        }
    }

    #[test]
    fn what_would_be_an_option_or_is_incomplete_is_refused() {
        for text in ["", "-oProxyCommand=x:/a", "me@-x:/a", "nas:", ":/a", "ssh://nas", "tcp://nas"]
        {
            assert!(text.parse::<Place>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_place_or_an_error(text: String) {
            let _ = text.parse::<Place>();
        }
    }
}
