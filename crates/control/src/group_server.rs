//! The control socket of a group of links: `GET /v1/status`, `POST /v1/down`.

use crate::group_status::GroupStatus;
use axum::Router;
use axum::extract::{Json, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use std::future::Future;
use std::io;
use std::sync::Arc;
use tokio::net::UnixListener;

/// A group that can be asked and told.
pub trait ControlledGroup: Send + Sync + 'static {
    /// How things are.
    fn status(&self) -> GroupStatus;

    /// Begins to go down.
    fn down(&self);
}

/// Serves `group` on `listener` until `stop` is ready; then finishes the
/// requests that are under way.
pub async fn serve(
    listener: UnixListener,
    group: Arc<dyn ControlledGroup>,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let router = Router::new()
        .route("/v1/status", get(status))
        .route("/v1/down", post(down))
        .fallback(unknown)
        .with_state(group);
    axum::serve(listener, router).with_graceful_shutdown(stop).await
}

async fn status(State(group): State<Arc<dyn ControlledGroup>>) -> Json<GroupStatus> {
    Json(group.status())
}

async fn down(State(group): State<Arc<dyn ControlledGroup>>) -> StatusCode {
    group.down();
    StatusCode::NO_CONTENT
}

async fn unknown() -> Response {
    let text = "a group of the kernel's can only tell its status and go down; to change it, edit \
                its config, then `braid down` and `braid up`";
    crate::server::error(StatusCode::NOT_FOUND, text).into_response()
}
