//! What a running tunnel can be asked to do, over the control socket.

use crate::config::{LinkChange, Mode};
use crate::status::Status;
use serde::{Deserialize, Serialize};

/// Something that can be asked and told, such as the daemon.
pub trait Controlled: Send + Sync + 'static {
    /// How things are.
    fn status(&self) -> Status;

    /// Does it, or says why not. May block for a moment.
    fn execute(&self, request: Request) -> Result<(), Refusal>;
}

/// A change to a running tunnel. It lasts until `down` or `Reload`; the config
/// file is the asker's to change.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// `POST /v1/links`.
    AddLink(NewLink),
    /// `PATCH /v1/links/{name}`.
    SetLink {
        /// Which.
        name: String,
        /// What changes.
        change: LinkChange,
    },
    /// `DELETE /v1/links/{name}`.
    RemoveLink {
        /// Which.
        name: String,
    },
    /// `PUT /v1/mode`.
    SetMode(Mode),
    /// `POST /v1/reload`: read the config file again and take over its peers,
    /// links and mode.
    Reload,
    /// `POST /v1/down`.
    Down,
}

/// Body of `POST /v1/links`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewLink {
    /// Its name.
    pub name: String,
    /// Its settings.
    #[serde(default)]
    pub link: LinkChange,
}

/// Body of `PUT /v1/mode`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewMode {
    /// The mode.
    pub mode: Mode,
}

/// Why a request was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// What it names does not exist.
    #[error("{0}")]
    NotFound(String),
    /// It makes no sense, or contradicts the config.
    #[error("{0}")]
    Invalid(String),
    /// It was tried and failed.
    #[error("{0}")]
    Failed(String),
}

/// Body of every answer that is not a success.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorBody {
    /// In words.
    pub error: String,
}
