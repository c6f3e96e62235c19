//! The control socket of a group of links: `GET /v1/status`, `GET /metrics`,
//! `POST /v1/reload`, `POST /v1/restart`, `POST /v1/down`, `POST /v1/stop`.

use crate::config_of_request::only_for;
use crate::group_metrics;
use crate::group_status::GroupStatus;
use crate::own_thread::{self, on_own_thread};
use crate::request::Refusal;
use crate::server::listener::Bounded;
use axum::Router;
use axum::extract::{Json, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use std::future::Future;
use std::io;
use std::path::Path;
use std::sync::Arc;
use tokio::net::{TcpListener, UnixListener};

/// What the control socket of a group controls.
pub trait ControlledGroup: Send + Sync + 'static {
    /// The current status.
    fn status(&self) -> GroupStatus;

    /// Reads the config file again and applies it. May block for a moment.
    ///
    /// # Errors
    /// The config is invalid, or the host refused; nothing has changed then.
    fn reload(&self) -> Result<(), Refusal>;

    /// Soon continues as the program now installed.
    ///
    /// # Errors
    /// That program can't take over; nothing has changed then.
    fn restart(&self) -> Result<(), Refusal>;

    /// Starts going down.
    fn down(&self);
}

/// Serves `group` on `listener` until `stop` is ready; then finishes the requests in progress.
/// Requests meant for another config than `file` are refused.
///
/// # Errors
/// None so far: after an error of the socket the server waits and goes on.
pub async fn serve(
    listener: UnixListener,
    group: Arc<dyn ControlledGroup>,
    file: &Path,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    own_thread::start()?;
    let router = Router::new()
        .route("/v1/status", get(status))
        .route("/metrics", get(metrics))
        .route("/v1/reload", post(reload))
        .route("/v1/restart", post(restart))
        .route("/v1/down", post(down))
        .route("/v1/stop", post(down))
        .fallback(unknown)
        .with_state(group);
    let router = only_for(router, file);
    axum::serve(Bounded::new(listener), router).with_graceful_shutdown(stop).await
}

/// Serves only `/metrics` on a TCP port.
///
/// # Errors
/// None so far: after an error of the socket the server waits and goes on.
pub async fn serve_metrics(
    listener: TcpListener,
    group: Arc<dyn ControlledGroup>,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let router = Router::new().route("/metrics", get(metrics)).with_state(group);
    axum::serve(Bounded::new(listener), router).with_graceful_shutdown(stop).await
}

async fn status(State(group): State<Arc<dyn ControlledGroup>>) -> Json<GroupStatus> {
    Json(group.status())
}

async fn metrics(State(group): State<Arc<dyn ControlledGroup>>) -> Response {
    let content_type = [(header::CONTENT_TYPE, crate::metrics::CONTENT_TYPE)];
    (content_type, group_metrics::render(&group.status())).into_response()
}

async fn reload(State(group): State<Arc<dyn ControlledGroup>>) -> Response {
    crate::server::answer(on_own_thread(move || group.reload()).await)
}

async fn restart(State(group): State<Arc<dyn ControlledGroup>>) -> Response {
    crate::server::answer(on_own_thread(move || group.restart()).await)
}

async fn down(State(group): State<Arc<dyn ControlledGroup>>) -> StatusCode {
    group.down();
    StatusCode::NO_CONTENT
}

async fn unknown() -> Response {
    let text = "a group of kernel links can only report status and metrics, reload and go down; to \
                change it, edit its config, then `braid reload`";
    crate::error_answer::error(StatusCode::NOT_FOUND, text).into_response()
}
