//! `/v1/history` and `/v1/events`.

use super::{Shared, error};
use crate::own_thread::on_own_thread;
use crate::request::{EventsQuery, HistoryOverview, HistoryQuery};
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Json, Response};
use braid_history::{Level, Recorder, Unanswered, unix_now};
use serde::Serialize;

/// Maximum number of sums or events in an answer.
const MOST: u32 = 50_000;
const USUAL_EVENTS: u32 = 100;

pub(super) async fn points(
    state: Shared,
    query: Result<Query<HistoryQuery>, QueryRejection>,
) -> Response {
    match query {
        Ok(Query(query)) => ask(state, move |recorder| read_points(recorder, &query)).await,
        Err(rejection) => error(rejection.status(), &rejection.body_text()),
    }
}

fn read_points(
    recorder: &Recorder,
    query: &HistoryQuery,
) -> Result<braid_history::Points, Unanswered> {
    let most = i64::from(query.most.unwrap_or(MOST).min(MOST));
    let to = query.to.min(i64::from(u32::MAX));
    let from = query.from.clamp(0, to.max(0));
    let level = Level::for_range(from, to, unix_now(), most);
    recorder.points(&query.series, level, from, to)
}

pub(super) async fn series(state: Shared) -> Response {
    let read = |recorder: &Recorder| {
        Ok(HistoryOverview { series: recorder.series()?, health: recorder.health() })
    };
    ask(state, read).await
}

pub(super) async fn events(
    state: Shared,
    query: Result<Query<EventsQuery>, QueryRejection>,
) -> Response {
    match query {
        Ok(Query(query)) => {
            let most = query.most.unwrap_or(USUAL_EVENTS).min(MOST) as usize;
            ask(state, move |recorder| recorder.events(query.before, most)).await
        }
        Err(rejection) => error(rejection.status(), &rejection.body_text()),
    }
}

async fn ask<T: Serialize + Send + 'static>(
    State(controlled): Shared,
    read: impl FnOnce(&Recorder) -> Result<T, Unanswered> + Send + 'static,
) -> Response {
    let read = move || controlled.history().map(read);
    match on_own_thread(read).await {
        Ok(Some(Ok(value))) => Json(value).into_response(),
        Ok(Some(Err(why))) => error(StatusCode::SERVICE_UNAVAILABLE, &why.to_string()),
        Ok(None) => {
            error(StatusCode::NOT_FOUND, "history is disabled: see [history] in the config")
        }
        Err(why) => error(StatusCode::INTERNAL_SERVER_ERROR, &why.to_string()),
    }
}
