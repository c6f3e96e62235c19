//! The contents of snapshots: shown, downloaded, restored.

use super::{Body, Form, html, plain, respond, show as show_page, status_of};
use crate::Page;
use crate::snapshots::{RestoreWish, SnapshotPath};
use crate::view::{self, Viewer};
use braid_control::request::Refusal;
use http_body_util::BodyExt;
use http_body_util::channel::Channel;
use hyper::body::Bytes;
use hyper::header::{self, HeaderValue};
use hyper::{Response, StatusCode};
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use std::convert::Infallible;
use std::fs::File;
use std::io::Read;
use std::sync::Arc;

impl SnapshotPath {
    /// As a query names it.
    pub fn parse(query: &Form) -> SnapshotPath {
        let text = |key| query.get(key).unwrap_or_default().to_owned();
        SnapshotPath { folder: text("folder"), snapshot: text("snapshot"), path: text("path") }
    }
}

impl RestoreWish {
    /// As a query names it.
    pub fn parse(query: &Form) -> RestoreWish {
        RestoreWish {
            place: SnapshotPath::parse(query),
            to: query.get("to").unwrap_or_default().to_owned(),
            replace: query.get("replace").is_some(),
        }
    }
}

/// A view of a snapshot's contents, or a file in it.
pub async fn show(page: Arc<Page>, viewer: Viewer, what: &str, query: Form) -> Response<Body> {
    match what {
        "file" => download(page, SnapshotPath::parse(&query)).await,
        _ => show_page(page, viewer, vec!["snapshots".to_owned(), what.to_owned()], query).await,
    }
}

async fn download(page: Arc<Page>, place: SnapshotPath) -> Response<Body> {
    let wanted = place.clone();
    let opened = tokio::task::spawn_blocking(move || {
        let snapshots = page.shown.snapshots();
        let snapshots = snapshots.ok_or_else(|| Refusal::NotFound("no snapshots".into()))?;
        snapshots.file(&wanted)
    });
    match opened.await {
        Ok(Ok((file, bytes))) => {
            let mut response = Response::new(streamed(file, bytes));
            let headers = response.headers_mut();
            // Whatever it contains, it is never shown as one of our pages.
            let kind = HeaderValue::from_static("application/octet-stream");
            headers.insert(header::CONTENT_TYPE, kind);
            headers.insert(header::CONTENT_LENGTH, bytes.into());
            headers.insert(header::CONTENT_DISPOSITION, attachment(&place.path));
            response
        }
        Ok(Err(Refusal::NotFound(_) | Refusal::Invalid(_))) => {
            plain(StatusCode::NOT_FOUND, "there is no such file")
        }
        _ => plain(StatusCode::INTERNAL_SERVER_ERROR, "the file can't be read"),
    }
}

/// A name for the downloaded file, by RFC 6266 and RFC 8187; parts that aren't UTF-8 are replaced.
fn attachment(path: &str) -> HeaderValue {
    let name = path.rsplit('/').next().unwrap_or_default();
    let name = percent_decode_str(name).decode_utf8_lossy();
    let plain = utf8_percent_encode(&name, NON_ALPHANUMERIC);
    let text = format!("attachment; filename*=UTF-8''{plain}");
    HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static("attachment"))
}

/// Bytes read at a time, as fast as the client takes them.
const AT_A_TIME: usize = 64 * 1024;

fn streamed(file: File, bytes: u64) -> Body {
    let (mut sender, body) = Channel::<Bytes, Infallible>::new(1);
    let mut rest = Some(file.take(bytes));
    tokio::spawn(async move {
        while let Some(mut file) = rest.take() {
            let read = tokio::task::spawn_blocking(move || {
                let mut bytes = vec![0; AT_A_TIME];
                let count = file.read(&mut bytes)?;
                bytes.truncate(count);
                Ok::<_, std::io::Error>((file, bytes))
            });
            // A truncated file is shorter than its header says, so browsers notice.
            let Ok(Ok((file, bytes))) = read.await else { return };
            if bytes.is_empty() || sender.send_data(Bytes::from(bytes)).await.is_err() {
                return;
            }
            rest = Some(file);
        }
    });
    body.boxed_unsync()
}

/// Restores what the query names; the form has been checked.
pub async fn restore(page: Arc<Page>, viewer: Viewer, query: Form) -> Response<Body> {
    let done = tokio::task::spawn_blocking(move || {
        let done = match page.shown.snapshots() {
            Some(snapshots) => snapshots.restore(&RestoreWish::parse(&query)),
            None => Err(Refusal::NotFound("no snapshots".into())),
        };
        let status = done.as_ref().err().map_or(StatusCode::OK, status_of);
        (status, view::restored(&page, &viewer, &done))
    });
    match done.await {
        Ok((status, markup)) => html(status, markup),
        Err(_) => respond(StatusCode::INTERNAL_SERVER_ERROR, Bytes::new()),
    }
}
