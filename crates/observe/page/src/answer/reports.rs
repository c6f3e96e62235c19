//! Pages written by the lab, or by somebody who pretends to be it.

use super::{Body, Form, html, plain, respond, status_of};
use crate::Page;
use braid_control::request::Refusal;
use hyper::header::{self, HeaderValue};
use hyper::{Response, StatusCode};
use maud::html as markup;
use std::sync::Arc;

/// An isolated page: no script, form, frame, picture or connection, and an origin of its own
/// (Content Security Policy 3, section 6.3.3). Its style is inline.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; form-action 'none'; \
                      base-uri 'none'; frame-ancestors 'none'; sandbox";

/// A file of `--report`, unchanged.
pub async fn page(page: Arc<Page>, query: Form) -> Response<Body> {
    let read = move || match page.shown.reports() {
        Some(reports) => reports.page(query.get("name").unwrap_or_default()),
        None => Err(Refusal::NotFound("there are no reports here".into())),
    };
    match tokio::task::spawn_blocking(read).await {
        Ok(Ok(text)) => {
            let mut response = respond(StatusCode::OK, text.into());
            let headers = response.headers_mut();
            let kind = HeaderValue::from_static("text/html; charset=utf-8");
            headers.insert(header::CONTENT_TYPE, kind);
            headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
            response
        }
        Ok(Err(refusal)) => html(status_of(&refusal), markup! { p { (refusal) } }),
        Err(_) => plain(StatusCode::INTERNAL_SERVER_ERROR, "that was interrupted; see the log"),
    }
}
