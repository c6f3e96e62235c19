//! The control socket: HTTP and JSON over a Unix socket, for root and the socket's group, or for
//! whoever a [`Gate`] admits. `GET` only reads.

pub(crate) mod listener;
mod past;

use crate::config::LinkChange;
use crate::config_of_request::only_for;
use crate::error_answer::error;
use crate::measured::{MeasureStatus, NewMeasure};
use crate::metrics;
use crate::own_thread::{self, on_own_thread};
use crate::request::{
    Controlled, ExplainQuery, NewLink, NewLogin, NewMode, Refusal, Request, TrafficQuery,
};
use crate::status::Status;
use crate::traffic::TrafficStatus;
use axum::Router;
use axum::extract::Request as HttpRequest;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{ConnectInfo, DefaultBodyLimit, Json, Path as UrlPath, Query, State};
use axum::http::{StatusCode, header};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, patch, post, put};
pub use listener::Admits;
use listener::{Admission, Bounded, Gate};
use std::fs::Permissions;
use std::future::Future;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use tokio::net::{TcpListener, UnixListener, UnixStream};

/// Maximum size of a request's body; more than any needs.
const MAX_BODY: usize = 64 * 1024;

/// Serves `controlled` on `listener` until `stop` is ready; then finishes the requests in progress.
/// Requests meant for another config than `file` are refused.
///
/// # Errors
/// When no thread for requests can be started. After an error of the socket the server waits and
/// continues.
pub async fn serve(
    listener: UnixListener,
    controlled: Arc<dyn Controlled>,
    file: &Path,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    own_thread::start()?;
    let router = only_for(router(controlled), file);
    axum::serve(Bounded::new(listener), router).with_graceful_shutdown(stop).await
}

/// Like [`serve`], for root and whoever `admits` lets in: others can connect, and are told that
/// they have no permission.
///
/// # Errors
/// Those of [`serve`], and when the socket's permissions can't be opened up.
pub async fn serve_admitted(
    listener: UnixListener,
    admits: Admits,
    controlled: Arc<dyn Controlled>,
    file: &Path,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    own_thread::start()?;
    if let Some(path) = listener.local_addr()?.as_pathname() {
        std::fs::set_permissions(path, Permissions::from_mode(0o666))?;
    }
    let router = only_for(router(controlled), file).layer(from_fn(only_if_admitted));
    let service = router.into_make_service_with_connect_info::<Admission>();
    axum::serve(Bounded::new(Gate { listener, admits }), service).with_graceful_shutdown(stop).await
}

async fn only_if_admitted(
    ConnectInfo(admission): ConnectInfo<Admission>,
    request: HttpRequest,
    next: Next,
) -> Response {
    match admission {
        Admission::Granted => next.run(request).await,
        Admission::Refused => {
            let why = "only root and members of interface.control_group may ask";
            error(StatusCode::FORBIDDEN, why)
        }
    }
}

/// Serves only `/metrics` on a TCP port, for a Prometheus that can't reach the control socket.
///
/// # Errors
/// None so far: after an error of the socket the server waits and continues.
pub async fn serve_metrics(
    listener: TcpListener,
    controlled: Arc<dyn Controlled>,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let router = Router::new().route("/metrics", get(get_metrics)).with_state(controlled);
    axum::serve(Bounded::new(listener), router).with_graceful_shutdown(stop).await
}

/// Creates the control socket at `path`, mode 0660. A socket left by a dead daemon is replaced.
///
/// Must be called within a tokio runtime.
///
/// # Errors
/// [`io::ErrorKind::AddrInUse`] when a program answers there, [`io::ErrorKind::AlreadyExists`] when
/// something other than a socket is there, otherwise the system's error.
pub async fn bind(path: &Path) -> io::Result<UnixListener> {
    if let Some(directory) = path.parent() {
        make_safe_directory(directory)?;
    }
    if UnixStream::connect(path).await.is_ok() {
        return Err(io::Error::new(
            io::ErrorKind::AddrInUse,
            format!("{}: a tunnel is already running there", path.display()),
        ));
    }
    match std::fs::symlink_metadata(path) {
        Ok(found) if !std::os::unix::fs::FileTypeExt::is_socket(&found.file_type()) => {
            return Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                format!("{} exists and is not a socket", path.display()),
            ));
        }
        Ok(_) => std::fs::remove_file(path)?,
        Err(_) => {}
    }
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, Permissions::from_mode(0o660))?;
    Ok(listener)
}

/// Creates the directory if it doesn't exist, mode 0755 whatever the umask. If it is ours and
/// world-writable, its mode is corrected: otherwise others could put their own socket or journal
/// there.
fn make_safe_directory(directory: &Path) -> io::Result<()> {
    if directory.as_os_str().is_empty() {
        return Ok(());
    }
    if !directory.exists() {
        std::fs::create_dir_all(directory)?;
        return std::fs::set_permissions(directory, Permissions::from_mode(0o755));
    }
    let found = std::fs::metadata(directory)?;
    let mode = found.mode() & 0o7777;
    let (world_writable, sticky) = (mode & 0o002 != 0, mode & 0o1000 != 0);
    if !world_writable || sticky {
        return Ok(());
    }
    std::fs::set_permissions(directory, Permissions::from_mode(mode & !0o022)).map_err(|_| {
        io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!(
                "{} has mode {mode:04o}: anybody could put another socket there; chmod go-w it",
                directory.display()
            ),
        )
    })
}

fn router(controlled: Arc<dyn Controlled>) -> Router {
    Router::new()
        .route("/v1/status", get(get_status))
        .route("/v1/links", post(add_link))
        .route("/v1/links/{name}", patch(set_link).delete(remove_link))
        .route("/v1/links/{name}/login", post(open_portal))
        .route("/v1/mode", put(set_mode))
        .route("/v1/reload", post(reload))
        .route("/v1/restart", post(restart))
        .route("/v1/down", post(down))
        .route("/v1/stop", post(stop))
        .route("/v1/traffic", get(traffic))
        .route("/v1/measure", get(measuring).post(measure))
        .route("/v1/explain", get(explain))
        .route("/v1/history", get(past::points))
        .route("/v1/history/series", get(past::series))
        .route("/v1/events", get(past::events))
        .route("/v1/ui/login", post(login_link))
        .route("/metrics", get(get_metrics))
        .fallback(async || {
            error(StatusCode::NOT_FOUND, "no such resource; see docs/reference/control.md")
        })
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .with_state(controlled)
}

type Shared = State<Arc<dyn Controlled>>;

async fn get_status(State(controlled): Shared) -> Json<Status> {
    Json(controlled.status())
}

async fn get_metrics(State(controlled): Shared) -> Response {
    let content_type = [(header::CONTENT_TYPE, metrics::CONTENT_TYPE)];
    (content_type, metrics::render(&controlled.status())).into_response()
}

async fn measuring(State(controlled): Shared) -> Json<MeasureStatus> {
    Json(controlled.measuring())
}

async fn measure(
    State(controlled): Shared,
    body: Result<Json<NewMeasure>, JsonRejection>,
) -> Response {
    match body {
        Ok(Json(wish)) => answer(on_own_thread(move || controlled.measure(&wish)).await),
        Err(rejection) => bad_body(&rejection),
    }
}

async fn traffic(
    State(controlled): Shared,
    query: Result<Query<TrafficQuery>, QueryRejection>,
) -> Response {
    match query {
        Ok(Query(TrafficQuery { most })) => {
            let most = most.and_then(|most| usize::try_from(most).ok());
            let traffic = controlled.traffic();
            Json(traffic.first(most.unwrap_or(TrafficStatus::USUAL))).into_response()
        }
        Err(rejection) => error(rejection.status(), &rejection.body_text()),
    }
}

async fn explain(
    State(controlled): Shared,
    query: Result<Query<ExplainQuery>, QueryRejection>,
) -> Response {
    match query.map(|Query(query)| controlled.explain(&query)) {
        Ok(Ok(answer)) => Json(answer).into_response(),
        Ok(Err(refusal)) => refuse(&refusal),
        Err(rejection) => error(rejection.status(), &rejection.body_text()),
    }
}

async fn add_link(state: Shared, body: Result<Json<NewLink>, JsonRejection>) -> Response {
    match body {
        Ok(Json(link)) => execute(state, Request::AddLink(link)).await,
        Err(rejection) => bad_body(&rejection),
    }
}

async fn set_link(
    state: Shared,
    UrlPath(name): UrlPath<String>,
    body: Result<Json<LinkChange>, JsonRejection>,
) -> Response {
    match body {
        Ok(Json(change)) => execute(state, Request::SetLink { name, change }).await,
        Err(rejection) => bad_body(&rejection),
    }
}

async fn remove_link(state: Shared, UrlPath(name): UrlPath<String>) -> Response {
    execute(state, Request::RemoveLink { name }).await
}

async fn open_portal(state: Shared, UrlPath(link): UrlPath<String>) -> Response {
    execute(state, Request::OpenPortal { link }).await
}

async fn set_mode(state: Shared, body: Result<Json<NewMode>, JsonRejection>) -> Response {
    match body {
        Ok(Json(NewMode { mode })) => execute(state, Request::SetMode(mode)).await,
        Err(rejection) => bad_body(&rejection),
    }
}

async fn reload(state: Shared) -> Response {
    execute(state, Request::Reload).await
}

async fn restart(state: Shared) -> Response {
    execute(state, Request::Restart).await
}

/// This only sets a flag, so it needs no thread, which may be what is lacking.
async fn down(State(controlled): Shared) -> Response {
    answer(Ok(controlled.execute(Request::Down)))
}

/// Needs no thread, like [`down`].
async fn stop(State(controlled): Shared) -> Response {
    answer(Ok(controlled.execute(Request::Stop)))
}

async fn login_link(
    State(controlled): Shared,
    body: Result<Json<NewLogin>, JsonRejection>,
) -> Response {
    match body {
        Ok(Json(NewLogin { role })) => match controlled.login_link(role) {
            Ok(link) => Json(link).into_response(),
            Err(refusal) => refuse(&refusal),
        },
        Err(rejection) => bad_body(&rejection),
    }
}

async fn execute(State(controlled): Shared, request: Request) -> Response {
    answer(on_own_thread(move || controlled.execute(request)).await)
}

/// The answer to a request with this outcome.
pub(crate) fn answer(done: io::Result<Result<(), Refusal>>) -> Response {
    match done {
        Ok(Ok(())) => StatusCode::NO_CONTENT.into_response(),
        Ok(Err(refusal)) => refuse(&refusal),
        Err(why) => error(StatusCode::INTERNAL_SERVER_ERROR, &why.to_string()),
    }
}

fn refuse(refusal: &Refusal) -> Response {
    let status = match refusal {
        Refusal::NotFound(_) => StatusCode::NOT_FOUND,
        Refusal::Invalid(_) => StatusCode::BAD_REQUEST,
        Refusal::Failed(_) => StatusCode::INTERNAL_SERVER_ERROR,
    };
    error(status, &refusal.to_string())
}

fn bad_body(rejection: &JsonRejection) -> Response {
    error(rejection.status(), &rejection.body_text())
}

#[cfg(test)]
mod tests;
