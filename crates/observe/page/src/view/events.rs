use super::figures::moment;
use crate::Page;
use braid_history::{Event, Severity};
use maud::{Markup, html};

/// On one page.
const MOST: usize = 100;

/// What happened, newest first.
pub fn events(page: &Page, before: Option<i64>) -> Markup {
    let Some(history) = page.shown.history() else {
        return html! { p.dim { "No history is kept: see " code { "[history]" } " in the config." } };
    };
    let events = match history.events(before, MOST) {
        Ok(events) => events,
        Err(why) => return html! { p.alarm { (why) } },
    };
    let oldest = events.last().filter(|_| events.len() == MOST).map(|event| event.unix);
    html! {
        section.card { (list(&events)) }
        @if let Some(oldest) = oldest { p { a href={ "/events?before=" (oldest) } { "Older ones" } } }
    }
}

/// As a list.
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

fn mood(severity: Severity) -> &'static str {
    match severity {
        Severity::Note => "note",
        Severity::Warning => "poor",
        Severity::Critical => "bad",
    }
}
