//! The client of the control socket, used by the commands.

use crate::config::{AnyConfig, LinkChange, Mode};
use crate::config_of_request::{ANOTHERS, HEADER, header_value};
use crate::group_status::GroupStatus;
use crate::measured::{MeasureStatus, NewMeasure};
use crate::request::{
    ErrorBody, ExplainAnswer, ExplainQuery, HistoryOverview, HistoryQuery, LoginLink, NewLink,
    NewLogin, NewMode, UiRole,
};
use crate::status::Status;
use crate::traffic::TrafficStatus;
use braid_history::{Event, Points};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::{Method, Request, StatusCode, header};
use hyper_util::rt::TokioIo;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, PercentEncode, utf8_percent_encode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::net::UnixStream;

/// Sends requests to one running tunnel; blocking.
#[derive(Clone, Debug)]
pub struct Client {
    socket: PathBuf,
    /// Only the tunnel of this config is accepted.
    config: Option<PathBuf>,
}

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No tunnel is listening.
    #[error("no tunnel is running at {} (start it with `braid up`)", .0.display())]
    NotRunning(PathBuf),
    /// A tunnel is listening, but with another config than expected.
    #[error(
        "no tunnel of {} is running: {} belongs to {theirs}; give one of them another \
         interface.name",
        config.display(), socket.display()
    )]
    Anothers {
        /// The control socket.
        socket: PathBuf,
        /// The expected config.
        config: PathBuf,
        /// The running tunnel's config.
        theirs: String,
    },
    /// This user has no permission.
    #[error("{}: permission denied; run as root, or as a member of the group that interface.control_group names", .0.display())]
    Permission(PathBuf),
    /// The tunnel refused.
    #[error("{message}")]
    Refused {
        /// The named thing doesn't exist.
        not_found: bool,
        /// In words.
        message: String,
    },
    /// Connection or answer broke.
    #[error("{}: {what}", socket.display())]
    Broken {
        /// The control socket.
        socket: PathBuf,
        /// What happened.
        what: String,
    },
}

const TIMEOUT: Duration = Duration::from_secs(10);
const MAX_ANSWER: usize = 16 << 20;

impl Client {
    /// A client of this control socket, whichever tunnel it belongs to.
    pub fn new(socket: &Path) -> Client {
        Client { socket: socket.to_owned(), config: None }
    }

    /// A client of the tunnel or group with this config.
    pub fn of(config: &AnyConfig) -> Client {
        Client::new(config.control()).for_config(config.file())
    }

    /// Accepts only a tunnel whose config is this file.
    pub fn for_config(self, file: &Path) -> Client {
        Client { config: Some(file.to_owned()), ..self }
    }

    /// `GET /v1/status`.
    ///
    /// # Errors
    /// [`ClientError::NotRunning`] when no tunnel listens or it ends before it answers,
    /// [`ClientError::Anothers`] when the tunnel has another config, [`ClientError::Permission`]
    /// when this user has no permission, [`ClientError::Refused`] when it refuses,
    /// [`ClientError::Broken`] when there is no answer within 10 s or it can't be read.
    pub fn status(&self) -> Result<Status, ClientError> {
        let answer = self.ask(Method::GET, "/v1/status", None::<&()>)?;
        serde_json::from_slice(&answer).map_err(|error| self.broken(error))
    }

    /// `GET /v1/status` of a group of links.
    ///
    /// # Errors
    /// As [`Client::status`].
    pub fn group_status(&self) -> Result<GroupStatus, ClientError> {
        let answer = self.ask(Method::GET, "/v1/status", None::<&()>)?;
        serde_json::from_slice(&answer).map_err(|error| self.broken(error))
    }

    /// Whether a tunnel or group runs.
    ///
    /// # Errors
    /// As [`Client::status`], except that no tunnel listening is a valid answer.
    pub fn is_running(&self) -> Result<bool, ClientError> {
        match self.ask(Method::GET, "/v1/status", None::<&()>) {
            Ok(_) => Ok(true),
            Err(ClientError::NotRunning(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// `GET /metrics`.
    ///
    /// # Errors
    /// As [`Client::status`].
    pub fn metrics(&self) -> Result<String, ClientError> {
        let answer = self.ask(Method::GET, "/metrics", None::<&()>)?;
        String::from_utf8(answer.to_vec()).map_err(|error| self.broken(error))
    }

    /// `POST /v1/links`.
    ///
    /// # Errors
    /// As [`Client::status`]; [`ClientError::Refused`] when the link is invalid.
    pub fn add_link(&self, link: &NewLink) -> Result<(), ClientError> {
        self.ask(Method::POST, "/v1/links", Some(link)).map(drop)
    }

    /// `PATCH /v1/links/{name}`.
    ///
    /// # Errors
    /// As [`Client::status`]; `not_found` in [`ClientError::Refused`] when there is no such link.
    pub fn set_link(&self, name: &str, change: &LinkChange) -> Result<(), ClientError> {
        self.ask(Method::PATCH, &link_path(name), Some(change)).map(drop)
    }

    /// `DELETE /v1/links/{name}`.
    ///
    /// # Errors
    /// As [`Client::status`]; `not_found` in [`ClientError::Refused`] when there is no such link.
    pub fn remove_link(&self, name: &str) -> Result<(), ClientError> {
        self.ask(Method::DELETE, &link_path(name), None::<&()>).map(drop)
    }

    /// `POST /v1/links/{name}/login`.
    ///
    /// # Errors
    /// As [`Client::status`]; [`ClientError::Refused`] when the link works, or doesn't exist.
    pub fn open_portal(&self, name: &str) -> Result<(), ClientError> {
        let path = format!("{}/login", link_path(name));
        self.ask(Method::POST, &path, None::<&()>).map(drop)
    }

    /// `PUT /v1/mode`.
    ///
    /// # Errors
    /// As [`Client::status`]; [`ClientError::Refused`] when the tunnel can't have this mode.
    pub fn set_mode(&self, mode: Mode) -> Result<(), ClientError> {
        self.ask(Method::PUT, "/v1/mode", Some(&NewMode { mode })).map(drop)
    }

    /// `POST /v1/reload`.
    ///
    /// # Errors
    /// As [`Client::status`].
    pub fn reload(&self) -> Result<(), ClientError> {
        self.ask(Method::POST, "/v1/reload", None::<&()>).map(drop)
    }

    /// `POST /v1/restart`. The tunnel doesn't answer for a moment after this returns.
    ///
    /// # Errors
    /// As [`Client::status`]; [`ClientError::Refused`] when the installed program can't take over
    /// the running tunnel.
    pub fn restart(&self) -> Result<(), ClientError> {
        self.ask(Method::POST, "/v1/restart", None::<&()>).map(drop)
    }

    /// `POST /v1/down`. The tunnel is still going down when this returns.
    ///
    /// # Errors
    /// As [`Client::status`].
    pub fn down(&self) -> Result<(), ClientError> {
        self.ask(Method::POST, "/v1/down", None::<&()>).map(drop)
    }

    /// `POST /v1/stop`. The tunnel is still going down when this returns.
    ///
    /// # Errors
    /// As [`Client::status`].
    pub fn stop(&self) -> Result<(), ClientError> {
        self.ask(Method::POST, "/v1/stop", None::<&()>).map(drop)
    }

    /// `GET /v1/explain`.
    ///
    /// # Errors
    /// As [`Client::status`]; [`ClientError::Refused`] when no device with this name is known.
    pub fn explain(&self, query: &ExplainQuery) -> Result<ExplainAnswer, ClientError> {
        let ExplainQuery { to, port, protocol, from, uid, dscp } = query;
        let mut path = format!("/v1/explain?to={}", escaped(&to.to_string()));
        path.push_str(&format!("&port={port}&protocol={protocol}"));
        if let Some(from) = from {
            path.push_str(&format!("&from={}", escaped(from)));
        }
        if let Some(uid) = uid {
            path.push_str(&format!("&uid={uid}"));
        }
        if let Some(dscp) = dscp {
            path.push_str(&format!("&dscp={dscp}"));
        }
        self.read(Method::GET, &path, None::<&()>)
    }

    /// `POST /v1/measure`.
    ///
    /// # Errors
    /// As [`Client::status`]; [`ClientError::Refused`] when nothing can be measured.
    pub fn measure(&self, wish: &NewMeasure) -> Result<(), ClientError> {
        self.ask(Method::POST, "/v1/measure", Some(wish)).map(drop)
    }

    /// `GET /v1/measure`.
    ///
    /// # Errors
    /// As [`Client::status`].
    pub fn measuring(&self) -> Result<MeasureStatus, ClientError> {
        self.read(Method::GET, "/v1/measure", None::<&()>)
    }

    /// `GET /v1/traffic`, with at most `most` flows.
    ///
    /// # Errors
    /// As [`Client::status`].
    pub fn traffic(&self, most: u32) -> Result<TrafficStatus, ClientError> {
        self.read(Method::GET, &format!("/v1/traffic?most={most}"), None::<&()>)
    }

    /// `GET /v1/history`.
    ///
    /// # Errors
    /// As [`Client::status`]; `not_found` in [`ClientError::Refused`] when history is disabled.
    pub fn history(&self, query: &HistoryQuery) -> Result<Points, ClientError> {
        let mut path = format!("/v1/history?series={}", escaped(&query.series.to_string()));
        path.push_str(&format!("&from={}&to={}", query.from, query.to));
        if let Some(most) = query.most {
            path.push_str(&format!("&most={most}"));
        }
        self.read(Method::GET, &path, None::<&()>)
    }

    /// `GET /v1/history/series`.
    ///
    /// # Errors
    /// As [`Client::history`].
    pub fn history_overview(&self) -> Result<HistoryOverview, ClientError> {
        self.read(Method::GET, "/v1/history/series", None::<&()>)
    }

    /// `GET /v1/events`, newest first.
    ///
    /// # Errors
    /// As [`Client::history`].
    pub fn events(&self, most: u32) -> Result<Vec<Event>, ClientError> {
        self.read(Method::GET, &format!("/v1/events?most={most}"), None::<&()>)
    }

    /// `POST /v1/ui/login`.
    ///
    /// # Errors
    /// As [`Client::status`]; `not_found` in [`ClientError::Refused`] when the page is off.
    pub fn login_link(&self, role: UiRole) -> Result<LoginLink, ClientError> {
        self.read(Method::POST, "/v1/ui/login", Some(&NewLogin { role }))
    }

    fn read<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
    ) -> Result<T, ClientError> {
        let answer = self.ask(method, path, body)?;
        serde_json::from_slice(&answer).map_err(|error| self.broken(error))
    }

    fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
    ) -> Result<Bytes, ClientError> {
        let body = match body {
            Some(body) => serde_json::to_vec(body).map_err(|error| self.broken(error))?,
            None => Vec::new(),
        };
        let mut request = Request::builder();
        if let Some(config) = &self.config {
            request = request.header(HEADER, header_value(config));
        }
        let request = request
            .method(method)
            .uri(path)
            .header(header::HOST, "braid")
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(body)))
            .map_err(|error| self.broken(error))?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| self.broken(error))?;
        runtime.block_on(async {
            match tokio::time::timeout(TIMEOUT, self.exchange(request)).await {
                Ok(answer) => answer,
                Err(_) => Err(self.broken("no answer within 10 s")),
            }
        })
    }

    async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<Bytes, ClientError> {
        let stream = UnixStream::connect(&self.socket).await.map_err(|error| {
            let socket = self.socket.clone();
            match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                    ClientError::NotRunning(socket)
                }
                io::ErrorKind::PermissionDenied => ClientError::Permission(socket),
                _ => self.broken(error),
            }
        })?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|error| self.broken(error))?;
        let connection = tokio::spawn(connection);
        let response =
            sender.send_request(request).await.map_err(|error| match error.is_parse() {
                true => self.broken(error),
                // The tunnel ended before it answered.
                false => ClientError::NotRunning(self.socket.clone()),
            })?;
        let status = response.status();
        let body = Limited::new(response.into_body(), MAX_ANSWER);
        let answer = body.collect().await.map_err(|error| self.broken(error))?.to_bytes();
        connection.abort();
        if status.is_success() {
            return Ok(answer);
        }
        let message = match serde_json::from_slice::<ErrorBody>(&answer) {
            Ok(body) => body.error,
            Err(_) => format!("the tunnel answered {status}"),
        };
        if let (ANOTHERS, Some(config)) = (status, &self.config) {
            let (socket, config) = (self.socket.clone(), config.clone());
            return Err(ClientError::Anothers { socket, config, theirs: message });
        }
        if status == StatusCode::FORBIDDEN {
            return Err(ClientError::Permission(self.socket.clone()));
        }
        Err(ClientError::Refused { not_found: status == StatusCode::NOT_FOUND, message })
    }

    fn broken(&self, what: impl ToString) -> ClientError {
        ClientError::Broken { socket: self.socket.clone(), what: what.to_string() }
    }
}

fn link_path(name: &str) -> String {
    format!("/v1/links/{}", escaped(name))
}

/// All characters except those of names.
const NOT_OF_NAMES: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_');

/// Names need no escaping; escaping keeps other text from changing the path or query.
fn escaped(name: &str) -> PercentEncode<'_> {
    utf8_percent_encode(name, NOT_OF_NAMES)
}
