use crate::request::ErrorBody;
use axum::extract::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

/// The answer to a request that failed.
pub(crate) fn error(status: StatusCode, text: &str) -> Response {
    (status, Json(ErrorBody { error: text.to_owned() })).into_response()
}
