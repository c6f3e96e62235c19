use super::Viewer;
use crate::Page;
use braid_control::request::UiRole;
use braid_control::status::Status;
use maud::{DOCTYPE, Markup, html};
use std::hash::{DefaultHasher, Hash, Hasher};

/// The style sheet.
pub const STYLE: &str = include_str!("../assets/style.css");
/// The script that updates pages.
pub const SCRIPT: &str = include_str!("../assets/page.js");
/// Three strands that become one.
pub const ICON: &str = include_str!("../assets/favicon.svg");

/// A whole page around `body`; `here` is its place in the menu.
pub fn frame(
    page: &Page,
    viewer: &Viewer,
    status: Option<&Status>,
    title: &str,
    here: &str,
    body: Markup,
) -> Markup {
    let name = status.map_or("Braid", |status| status.interface.as_str());
    let content = html! {
        a.skip href="#content" { "To the content" }
        header {
            a.brand href="/" { (icon()) span { (name) } }
            nav aria-label="Pages" {
                @for (place, text) in menu(page, status) {
                    @if place == here { a href=(place) aria-current="page" { (text) } }
                    @else { a href=(place) { (text) } }
                }
            }
            div.who { (who(viewer)) }
        }
        p.stale #stale role="status" hidden { }
        main #content tabindex="-1" {
            // The menu already shows it, so it is only for screen readers.
            h1.unseen[here == "/"] { (title) }
            (body)
        }
        footer { "Braid " (env!("CARGO_PKG_VERSION")) }
    };
    document(&format!("{title} · {name}"), content)
}

/// A page with a head, and nothing else.
pub fn document(title: &str, content: Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                link rel="icon" href={ "/favicon.svg?" (hash(ICON)) } type="image/svg+xml";
                link rel="stylesheet" href={ "/style.css?" (hash(STYLE)) };
                script src={ "/page.js?" (hash(SCRIPT)) } defer {}
            }
            body { (content) }
        }
    }
}

pub fn icon() -> Markup {
    html! { img src={ "/favicon.svg?" (hash(ICON)) } alt="" width="22" height="22"; }
}

fn menu(page: &Page, status: Option<&Status>) -> Vec<(&'static str, &'static str)> {
    let mut places = Vec::new();
    if let Some(status) = status {
        places.push(("/", "Overview"));
        if !status.links.is_empty() {
            places.push(("/links", "Links"));
        }
        if page.shown.traffic().is_some() {
            places.push(("/traffic", "Traffic"));
        }
        if !status.listen.is_empty() {
            places.push(("/homes", "Homes"));
        }
    }
    places.push(("/disks", "Disks"));
    if page.shown.snapshots().is_some() {
        places.push(("/snapshots", "Snapshots"));
    }
    if page.shown.history().is_some() {
        places.push(("/events", "Events"));
    }
    if status.is_some() {
        places.push(("/doctor", "Doctor"));
    }
    if page.shown.reports().is_some() {
        places.push(("/reports", "Lab reports"));
    }
    places.extend(MANUAL);
    places
}

/// Only if it is part of the program.
const MANUAL: Option<(&str, &str)> =
    if cfg!(feature = "manual") { Some(("/manual/", "Manual")) } else { None };

fn who(viewer: &Viewer) -> Markup {
    let role = match viewer.role {
        UiRole::Reader => "You may look.",
        UiRole::Admin => "Admin.",
    };
    html! {
        span { (role) }
        @match &viewer.form_token {
            Some(token) if viewer.logged_in => form method="post" action="/logout" {
                input type="hidden" name="form" value=(token.as_str());
                button { "Log out" }
            },
            Some(_) => {},
            None => a href="/login" { "Log in" },
        }
    }
}

/// A hash for the file's address, so that browsers fetch a changed file.
fn hash(text: &str) -> String {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}
