use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// What a bucket's figures are about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Series {
    /// All peers together, inner packets.
    Tunnel,
    /// A link of this host, UDP payload.
    Link(String),
    /// A peer (at the concentrator: a home), inner packets.
    Peer(String),
    /// A device on the home's side, inner packets; seconds without traffic are left out.
    Device(String),
}

/// A text that names no series.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is none of tunnel, link/NAME, peer/NAME, device/NAME")]
pub struct BadSeries(String);

impl fmt::Display for Series {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Series::Tunnel => f.write_str("tunnel"),
            Series::Link(name) => write!(f, "link/{name}"),
            Series::Peer(name) => write!(f, "peer/{name}"),
            Series::Device(name) => write!(f, "device/{name}"),
        }
    }
}

impl FromStr for Series {
    type Err = BadSeries;

    fn from_str(text: &str) -> Result<Series, BadSeries> {
        match text.split_once('/') {
            None if text == "tunnel" => Ok(Series::Tunnel),
            Some(("link", name)) if !name.is_empty() => Ok(Series::Link(name.to_owned())),
            Some(("peer", name)) if !name.is_empty() => Ok(Series::Peer(name.to_owned())),
            Some(("device", name)) if !name.is_empty() => Ok(Series::Device(name.to_owned())),
            _ => Err(BadSeries(text.to_owned())),
        }
    }
}

impl TryFrom<String> for Series {
    type Error = BadSeries;

    fn try_from(text: String) -> Result<Series, BadSeries> {
        text.parse()
    }
}

impl From<Series> for String {
    fn from(series: Series) -> String {
        series.to_string()
    }
}
