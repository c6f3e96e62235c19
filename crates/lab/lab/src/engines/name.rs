use super::group::GroupEngine;
use crate::scenario::{CongestionControl, TunnelMode, UnknownMode};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// An engine, as named on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EngineName {
    /// `tunnel` or `tunnel:MODE`: Braid.
    Tunnel {
        /// The scheduler's mode; `None` is the scenario's or the default.
        mode: Option<TunnelMode>,
    },
    /// `tunnel:split-tcp`: Braid, with TCP connections split at both ends;
    /// `tunnel:split-tcp:CONTROL` uses this congestion control between them.
    SplitTcp {
        /// The congestion control; `None` is the default.
        congestion: Option<CongestionControl>,
    },
    /// `tunnel:tls`: Braid over TLS on TCP, as where UDP doesn't pass.
    TunnelByTls,
    /// `link:NAME`: that link alone, no tunnel.
    Link(String),
    /// `mptcp`: the kernel's Multipath TCP over all links.
    Mptcp,
    /// `ecmp`: the kernel's equal-cost multipath routing, flow by flow.
    Ecmp,
    /// `mptcp:proxy`: MPTCP for programs without support for it, by a proxy at both ends.
    MptcpProxy,
    /// `round-robin`: packets in turn, by nftables' marks.
    RoundRobin,
    /// One of the kernel's engines, set up by Braid, such as `bonding:balance-rr`.
    Group(GroupEngine),
    /// `external:FILE`: commands in a file.
    External(PathBuf),
    /// `null`: only moves packets between the devices and a UDP socket: the upper limit for any
    /// user-space tunnel.
    Null,
}

/// A name that isn't an engine's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EngineNameError {
    /// The engine is unknown.
    #[error(
        "there is no engine {0:?}; write tunnel, tunnel:MODE, tunnel:split-tcp, tunnel:tls, link:NAME, each, \
         mptcp, mptcp:proxy, ecmp, round-robin, null, external:FILE, or one of: {words}",
        words = GroupEngine::words().join(", ")
    )]
    Unknown(String),
    /// The tunnel has no such mode.
    #[error(transparent)]
    UnknownMode(#[from] UnknownMode),
}

impl EngineName {
    /// Parses a name from the command line; `each` becomes one engine per link.
    ///
    /// # Errors
    /// There is no such engine.
    pub fn expand(text: &str, links: &[&str]) -> Result<Vec<Self>, EngineNameError> {
        if text == "each" {
            return Ok(links.iter().map(|name| EngineName::Link((*name).to_owned())).collect());
        }
        Ok(vec![text.parse()?])
    }
}

impl FromStr for EngineName {
    type Err = EngineNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (kind, argument) = match text.split_once(':') {
            Some((kind, argument)) => (kind, Some(argument)),
            None => (text, None),
        };
        match (kind, argument) {
            ("tunnel", None) => Ok(EngineName::Tunnel { mode: None }),
            ("tunnel", Some("split-tcp")) => Ok(EngineName::SplitTcp { congestion: None }),
            ("tunnel", Some("split-tcp:cubic")) => {
                Ok(EngineName::SplitTcp { congestion: Some(CongestionControl::Cubic) })
            }
            ("tunnel", Some("split-tcp:bbr")) => {
                Ok(EngineName::SplitTcp { congestion: Some(CongestionControl::Bbr) })
            }
            ("tunnel", Some("tls")) => Ok(EngineName::TunnelByTls),
            ("tunnel", Some(mode)) => Ok(EngineName::Tunnel { mode: Some(mode.parse()?) }),
            ("link", Some(name)) if !name.is_empty() => Ok(EngineName::Link(name.to_owned())),
            ("external", Some(file)) if !file.is_empty() => {
                Ok(EngineName::External(PathBuf::from(file)))
            }
            ("mptcp", None) => Ok(EngineName::Mptcp),
            ("mptcp", Some("proxy")) => Ok(EngineName::MptcpProxy),
            ("round-robin", None) => Ok(EngineName::RoundRobin),
            ("ecmp", None) => Ok(EngineName::Ecmp),
            ("null", None) => Ok(EngineName::Null),
            _ => GroupEngine::named(text)
                .map(EngineName::Group)
                .ok_or_else(|| EngineNameError::Unknown(text.to_owned())),
        }
    }
}

impl fmt::Display for EngineName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EngineName::Tunnel { mode: None } => f.write_str("tunnel"),
            EngineName::Tunnel { mode: Some(mode) } => write!(f, "tunnel:{mode}"),
            EngineName::SplitTcp { congestion: None } => f.write_str("tunnel:split-tcp"),
            EngineName::SplitTcp { congestion: Some(congestion) } => {
                write!(f, "tunnel:split-tcp:{}", congestion.name())
            }
            EngineName::TunnelByTls => f.write_str("tunnel:tls"),
            EngineName::Link(name) => write!(f, "link:{name}"),
            EngineName::Mptcp => f.write_str("mptcp"),
            EngineName::MptcpProxy => f.write_str("mptcp:proxy"),
            EngineName::RoundRobin => f.write_str("round-robin"),
            EngineName::Group(engine) => engine.fmt(f),
            EngineName::Ecmp => f.write_str("ecmp"),
            EngineName::Null => f.write_str("null"),
            EngineName::External(file) => write!(f, "external:{}", file.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_written_back() {
        for name in ["tunnel", "tunnel:balance-rr", "tunnel:balance-xor:layer2+3", "link:3g-1"]
            .into_iter()
            .chain(["mptcp", "ecmp", "null", "external:wg.toml"])
            .chain(["tunnel:split-tcp", "tunnel:split-tcp:bbr", "tunnel:tls"])
        {
            assert_eq!(name.parse::<EngineName>().map(|n| n.to_string()).as_deref(), Ok(name));
        }
        for name in ["", "tunel", "tunnel:fast", "link", "link:", "external", "mptcp:2"]
            .into_iter()
            .chain(["tunnel:", "tunnel:balance-xor:layer9", "tunnel:adaptive:layer2"])
        {
            assert!(name.parse::<EngineName>().is_err(), "{name}");
        }
        let each = EngineName::expand("each", &["a", "b"]).unwrap();
        assert_eq!(each, [EngineName::Link("a".into()), EngineName::Link("b".into())]);
    }
}
