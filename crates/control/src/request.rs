//! Requests to a running tunnel, over the control socket.

use crate::config::{LinkChange, Mode, Protocol};
use crate::measured::{MeasureStatus, NewMeasure};
use crate::status::Status;
use crate::traffic::TrafficStatus;
use braid_history::{Health, Recorder, Series};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// What the control socket controls: the daemon.
pub trait Controlled: Send + Sync + 'static {
    /// The current status.
    fn status(&self) -> Status;

    /// Carries out a request. May block for a moment.
    ///
    /// # Errors
    /// Why the request was refused; nothing has changed then.
    fn execute(&self, request: Request) -> Result<(), Refusal>;

    /// The history, if any is kept.
    fn history(&self) -> Option<&Recorder> {
        None
    }

    /// Who uses the tunnel, and for what.
    fn traffic(&self) -> TrafficStatus {
        TrafficStatus::default()
    }

    /// Starts measuring the links to the other end of the tunnel.
    ///
    /// # Errors
    /// When measuring isn't possible here, or is already running.
    fn measure(&self, _wish: &NewMeasure) -> Result<(), Refusal> {
        Err(Refusal::NotFound("nothing can be measured here".into()))
    }

    /// The progress of the measurement and its latest results.
    fn measuring(&self) -> MeasureStatus {
        MeasureStatus::default()
    }

    /// Which rule would match a connection, and where the connection would go.
    ///
    /// # Errors
    /// [`Refusal::Invalid`] when no device has the given name.
    fn explain(&self, _query: &ExplainQuery) -> Result<ExplainAnswer, Refusal> {
        Err(Refusal::NotFound("there are no rules here".into()))
    }

    /// A single-use address that logs whoever opens it in to the page, with this role.
    ///
    /// # Errors
    /// [`Refusal::NotFound`] when the page isn't served.
    fn login_link(&self, _role: UiRole) -> Result<LoginLink, Refusal> {
        Err(Refusal::NotFound("the page is off: see [ui] listen in the config".into()))
    }
}

/// What a user may do on the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UiRole {
    /// Only look.
    Reader,
    /// Make changes, too.
    Admin,
}

impl UiRole {
    /// The keyword.
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
    /// The role.
    pub role: UiRole,
}

/// The answer to [`NewLogin`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoginLink {
    /// The address; it can be used once.
    pub url: String,
    /// The page's address.
    pub page: String,
    /// How long it is valid, seconds.
    pub valid_s: u64,
    /// SHA-256 of the page's certificate, if it is self-signed.
    #[serde(default)]
    pub certificate: Option<String>,
}

/// Query of `GET /v1/history`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HistoryQuery {
    /// The series: `tunnel`, `link/NAME` or `peer/NAME`.
    pub series: Series,
    /// Beginning of the range, Unix seconds.
    pub from: i64,
    /// End of the range (exclusive), Unix seconds.
    pub to: i64,
    /// Maximum number of sums in the answer.
    pub most: Option<u32>,
}

/// Answer of `GET /v1/history/series`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HistoryOverview {
    /// The series that have data.
    pub series: Vec<Series>,
    /// The state of the recorder.
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
    /// A device of the LAN, by address, MAC address or name; by default this host.
    pub from: Option<String>,
    /// The user (UID) whose program on this host begins it; by default root.
    pub uid: Option<u32>,
    /// The DS field's code point.
    pub dscp: Option<u8>,
}

/// Answer of `GET /v1/explain`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainAnswer {
    /// The rule that applies; `None` if none matches.
    pub rule: Option<String>,
    /// Where the connection goes.
    #[serde(flatten)]
    pub way: ExplainedWay,
    /// How the rule makes the tunnel treat it, in a few words each.
    #[serde(default)]
    pub treated: Vec<String>,
    /// Where it would go if its link died.
    pub if_link_died: Option<ExplainedWay>,
    /// The rules that were considered, in order.
    pub considered: Vec<ConsideredRule>,
}

/// A rule that was considered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsideredRule {
    /// Its name.
    pub rule: String,
    /// Its line in the config.
    pub line: usize,
    /// Why it doesn't match; `None` if it does.
    pub mismatch: Option<String>,
}

/// Where a connection goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "goes")]
pub enum ExplainedWay {
    /// Through the tunnel.
    Tunnel,
    /// Directly, bypassing the tunnel.
    Direct {
        /// Over this link; `None` if the host's own routes decide.
        link: Option<String>,
    },
    /// Nowhere: it is refused.
    Blocked,
}

/// Query of `GET /v1/traffic`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrafficQuery {
    /// Maximum number of flows.
    pub most: Option<u32>,
}

/// Query of `GET /v1/events`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventsQuery {
    /// Only events older than this, Unix seconds.
    pub before: Option<i64>,
    /// Maximum number of events.
    pub most: Option<u32>,
}

/// A change to a running tunnel. It lasts until `down` or `Reload`; changing the config file is up
/// to the caller.
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
    /// `POST /v1/links/{name}/login`: lets the host and LAN reach the login page that the link's
    /// network requires, over this link alone, once the page is found.
    OpenPortal {
        /// Which.
        link: String,
    },
    /// `PUT /v1/mode`.
    SetMode(Mode),
    /// `POST /v1/reload`: reads the config file again and applies its peers, links and mode.
    Reload,
    /// Homes of the fleet have joined or moved; sent by the daemon itself.
    ReadHomes,
    /// `POST /v1/restart`: continues as the program now installed; what is set on the host stays.
    Restart,
    /// `POST /v1/down`.
    Down,
    /// `POST /v1/stop`: like `Down`, but a kill switch stays in force, as when a service is
    /// stopped.
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
    /// Something that it names doesn't exist.
    #[error("{0}")]
    NotFound(String),
    /// It is invalid, or contradicts the config.
    #[error("{0}")]
    Invalid(String),
    /// It was tried and failed.
    #[error("{0}")]
    Failed(String),
}

/// Body of every error answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorBody {
    /// In words.
    pub error: String,
}
