use super::figures::moment;
use super::state::{Mood, State};
use crate::Page;
use braid_control::status::AlertStatus;
use braid_history::{Event, Severity};
use maud::{Markup, html};

/// Maximum number of events on one page.
const MOST: usize = 100;

/// What happened, newest first.
pub fn events(page: &Page, before: Option<i64>) -> Markup {
    let status = page.shown.status();
    let Some(history) = page.shown.history() else {
        return html! { p.dim { "History is disabled: see " code { "[history]" } " in the config." } };
    };
    let events = match history.events(before, MOST) {
        Ok(events) => events,
        Err(why) => return html! { p.alarm { (why) } },
    };
    let oldest = events.last().filter(|_| events.len() == MOST).map(|event| event.unix);
    html! {
        section.card { (list(&events)) }
        @if let Some(status) = &status { (told(&status.alerts)) }
        @if let Some(oldest) = oldest { p { a href={ "/events?before=" (oldest) } { "Older ones" } } }
    }
}

/// Events as a list.
pub fn list(events: &[Event]) -> Markup {
    if events.is_empty() {
        return html! { p.dim { "Nothing has happened yet." } };
    }
    html! {
        ol.events {
            @for event in events {
                li class=(mood(event.severity)) {
                    time { (moment(event.unix)) }
                    span { (event.text) }
                }
            }
        }
    }
}

/// The state of notifications.
fn told(alerts: &[AlertStatus]) -> Markup {
    html! {
        section.card {
            h2 { "Notifications" }
            @if alerts.is_empty() {
                p.dim { "Nobody: " code { "[[alert]]" } " in the config sends notifications by \
                                                         ntfy, e-mail, a webhook or a command." }
            } @else { div.wide tabindex="0" role="region" aria-label="Notifications" { table {
                thead { tr { th { "Alert" } th { "To" } th { "State" } th { "Delivered" } th { "Last" } th { "Waiting" } th { "Given up" } } }
                tbody { @for alert in alerts { tr {
                    th scope="row" { (alert.name) }
                    td { (alert.to) }
                    td { (state(alert)) @if let Some(trouble) = &alert.trouble { " " (trouble) } }
                    td { (alert.delivered) }
                    td { @match alert.last_delivered_unix { Some(at) => (moment(at)), None => "never" } }
                    td { (alert.waiting) }
                    td { (alert.given_up) }
                } } }
            } } }
        }
    }
}

fn state(alert: &AlertStatus) -> State {
    match (&alert.trouble, alert.last_delivered_unix) {
        (Some(_), _) => State { mood: Mood::Poor, word: "can't be delivered" },
        (None, Some(_)) => State { mood: Mood::Good, word: "works" },
        (None, None) => State { mood: Mood::Waiting, word: "not needed yet" },
    }
}

fn mood(severity: Severity) -> &'static str {
    match severity {
        Severity::Note => "note",
        Severity::Warning => "poor",
        Severity::Critical => "bad",
    }
}
