//! What a running tunnel can be asked to do, over the control socket.

use crate::config::{LinkChange, Mode, Protocol};
use crate::measured::{MeasureStatus, NewMeasure};
use crate::status::Status;
use crate::traffic::TrafficStatus;
use braid_history::{Health, Recorder, Series};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// Something that can be asked and told, such as the daemon.
pub trait Controlled: Send + Sync + 'static {
    /// How things are.
    fn status(&self) -> Status;

    /// Does it, or says why not. May block for a moment.
    ///
    /// # Errors
    /// The request was refused, and why; nothing changed.
    fn execute(&self, request: Request) -> Result<(), Refusal>;

    /// What is known of the past, where any is kept.
    fn history(&self) -> Option<&Recorder> {
        None
    }

    /// Who uses the tunnel, and for what.
    fn traffic(&self) -> TrafficStatus {
        TrafficStatus::default()
    }

    /// Begins to measure the links, to the other end of the tunnel.
    ///
    /// # Errors
    /// When that can't be done here, or is being done.
    fn measure(&self, _wish: &NewMeasure) -> Result<(), Refusal> {
        Err(Refusal::NotFound("nothing can be measured here".into()))
    }

    /// How far that is, and what was found last.
    fn measuring(&self) -> MeasureStatus {
        MeasureStatus::default()
    }

    /// Which rule a connection would fall under, and what would become of it.
    ///
    /// # Errors
    /// [`Refusal::Invalid`] when nobody is known by the name of the device.
    fn explain(&self, _query: &ExplainQuery) -> Result<ExplainAnswer, Refusal> {
        Err(Refusal::NotFound("there are no rules here".into()))
    }

    /// An address at which whoever opens it first is logged in to the page, in this
    /// role.
    ///
    /// # Errors
    /// [`Refusal::NotFound`] when the page isn't served.
    fn login_link(&self, _role: UiRole) -> Result<LoginLink, Refusal> {
        Err(Refusal::NotFound("the page is off: see [ui] listen in the config".into()))
    }
}

/// What somebody may do on the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UiRole {
    /// Look.
    Reader,
    /// Change things too.
    Admin,
}

impl UiRole {
    /// The word.
    pub fn as_str(self) -> &'static str {
        match self {
            UiRole::Reader => "reader",
            UiRole::Admin => "admin",
        }
    }
}

/// Body of `POST /v1/ui/login`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewLogin {
    /// In which role.
    pub role: UiRole,
}

/// Its answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoginLink {
    /// The address, good once.
    pub url: String,
    /// The page's address.
    pub page: String,
    /// For how long it is good, seconds.
    pub valid_s: u64,
    /// SHA-256 of the page's certificate, where it has one of its own.
    #[serde(default)]
    pub certificate: Option<String>,
}

/// Query of `GET /v1/history`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HistoryQuery {
    /// Whose; `tunnel`, `link/NAME`, `peer/NAME`.
    pub series: Series,
    /// From when, Unix seconds.
    pub from: i64,
    /// Until before when.
    pub to: i64,
    /// The most sums that shall come.
    pub most: Option<u32>,
}

/// Answer of `GET /v1/history/series`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HistoryOverview {
    /// Of which something is known.
    pub series: Vec<Series>,
    /// How the recording goes.
    pub health: Health,
}

/// Query of `GET /v1/explain`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExplainQuery {
    /// The server's address.
    pub to: IpAddr,
    /// Its port.
    pub port: u16,
    /// The transport.
    pub protocol: Protocol,
    /// A device of the LAN, by address, hardware address or name; else this host.
    pub from: Option<String>,
    /// Whose program of this host; else root's.
    pub uid: Option<u32>,
    /// The DS field's code point.
    pub dscp: Option<u8>,
}

/// Answer of `GET /v1/explain`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainAnswer {
    /// The rule that counts; none when none matches.
    pub rule: Option<String>,
    /// What becomes of the connection.
    #[serde(flatten)]
    pub way: ExplainedWay,
    /// How the tunnel treats it by its rule, in a few words each.
    #[serde(default)]
    pub treated: Vec<String>,
    /// And if the link that it takes died.
    pub if_link_died: Option<ExplainedWay>,
    /// The rules that were looked at, in order.
    pub considered: Vec<ConsideredRule>,
}

/// A rule that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsideredRule {
    /// Its name.
    pub rule: String,
    /// Its line in the config.
    pub line: usize,
    /// Why it doesn't match; none when it does.
    pub mismatch: Option<String>,
}

/// What becomes of a connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "goes")]
pub enum ExplainedWay {
    /// It takes the tunnel.
    Tunnel,
    /// It leaves beside it.
    Direct {
        /// By this link; none where the host's own routes decide.
        link: Option<String>,
    },
    /// It is refused.
    Blocked,
}

/// Query of `GET /v1/traffic`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrafficQuery {
    /// How many flows at most.
    pub most: Option<u32>,
}

/// Query of `GET /v1/events`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventsQuery {
    /// Only what is older, Unix seconds.
    pub before: Option<i64>,
    /// How many at most.
    pub most: Option<u32>,
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
    /// `POST /v1/links/{name}/login`: host and LAN get to the page that the link's network wants
    /// to be seen first, by this link alone, once it is found.
    OpenPortal {
        /// Which.
        link: String,
    },
    /// `PUT /v1/mode`.
    SetMode(Mode),
    /// `POST /v1/reload`: read the config file again and take over its peers,
    /// links and mode.
    Reload,
    /// Homes have joined or gone elsewhere in the fleet; by the daemon itself.
    ReadHomes,
    /// `POST /v1/restart`: go on as the program whose file is there now; what is set on the
    /// host stays.
    Restart,
    /// `POST /v1/down`.
    Down,
    /// `POST /v1/stop`: as `Down`, but a kill switch stays in force, as when a
    /// service is stopped.
    Stop,
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
