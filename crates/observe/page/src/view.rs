//! What the page looks like.

mod disks;
mod doctor;
mod events;
mod figures;
mod frame;
mod homes;
mod links;
mod login;
mod overview;
mod past;
mod quota;
mod reports;
mod snapshots;
mod state;
mod traffic;

pub use frame::{ICON, SCRIPT, STYLE};
pub use login::login;
pub use past::Span;

use crate::Page;
use crate::access::Token;
use crate::form::Form;
use crate::homes::Order;
use crate::homes::{NewHome, OnceShown};
use crate::snapshots::RestorePlan;
use braid_control::request::{Refusal, UiRole};
use maud::{Markup, html};

/// Who the page is shown to.
#[derive(Clone, Debug)]
pub struct Viewer {
    /// What they may do.
    pub role: UiRole,
    /// The token for their forms, if they may submit any.
    pub form_token: Option<Token>,
    /// Whether they are logged in and can log out.
    pub logged_in: bool,
    /// Whether the connection can be overheard.
    pub is_overheard: bool,
}

/// A view with live updates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// The first page, with a graph over this time.
    Overview(Span),
    /// The pools.
    Disks,
    /// Devices and flows.
    Traffic,
    /// A concentrator's homes.
    Homes,
    /// Findings, and what the links carry.
    Doctor,
}

impl Subject {
    /// Parses the query of `/live`.
    pub fn parse(query: &Form) -> Subject {
        match query.get("view") {
            Some("disks") => Subject::Disks,
            Some("traffic") => Subject::Traffic,
            Some("homes") => Subject::Homes,
            Some("doctor") => Subject::Doctor,
            _ => Subject::Overview(Span::parse(query.get("span"), Span::Live)),
        }
    }
}

/// A page or its content, and the reason if it isn't what was requested.
pub struct Body {
    pub markup: Markup,
    pub refusal: Option<Refusal>,
}

impl Body {
    /// What was requested, or what `refused` makes of the refusal.
    fn of(shown: Result<Markup, Refusal>, refused: impl FnOnce(&Refusal) -> Markup) -> Body {
        match shown {
            Ok(markup) => Body { markup, refusal: None },
            Err(refusal) => Body { markup: refused(&refusal), refusal: Some(refusal) },
        }
    }
}

/// The page at this path, if there is one.
pub fn show(page: &Page, viewer: &Viewer, parts: &[&str], query: &Form) -> Option<Body> {
    let mut refusal = None;
    let status = page.shown.status();
    let frame = |title: &str, here: &str, body: Markup| {
        frame::frame(page, viewer, status.as_ref(), title, here, body)
    };
    let markup = match (parts, &status) {
        ([""], Some(status)) => {
            let span = Span::parse(query.get("span"), Span::Live);
            frame("Overview", "/", overview::overview(page, status, span))
        }
        ([""], None) | (["disks"], _) => frame("Disks", "/disks", disks::disks(page)),
        (["snapshots", rest @ ..], _) => {
            let snapshots = page.shown.snapshots()?;
            let body = snapshots::show(snapshots, viewer, rest, query)?;
            refusal = body.refusal;
            frame("Snapshots", "/snapshots", body.markup)
        }
        (["reports", rest @ ..], _) => {
            let body = reports::show(page.shown.reports()?, rest, query)?;
            refusal = body.refusal;
            frame("Lab reports", "/reports", body.markup)
        }
        (["links"], Some(status)) => frame("Links", "/links", links::links(page, viewer, status)),
        (["links", name], Some(status)) => {
            let span = Span::parse(query.get("span"), Span::Day);
            let changed = query.get("changed").is_some();
            let body = links::link(page, viewer, status, name, span, changed)?;
            frame(name, "/links", body)
        }
        (["links", name, "change"], Some(status)) => {
            let body = links::ask(page, viewer, status, name, query)?;
            frame(name, "/links", body)
        }
        // A home has no homes.
        (["homes", ..], Some(status))
            if status.listen.is_empty() && page.shown.homes().is_none() =>
        {
            return None;
        }
        (["homes"], Some(status)) => {
            frame("Homes", "/homes", homes::homes(page, viewer, status, query))
        }
        (["new-home"], Some(_)) => {
            let body = homes::ask_to_add(page.shown.homes()?, viewer, &NewHome::parse(query));
            frame("New home", "/homes", body)
        }
        (["homes", name], Some(status)) => {
            let span = Span::parse(query.get("span"), Span::Day);
            frame(name, "/homes", homes::home(page, viewer, status, name, span)?)
        }
        (["homes", name, order], Some(_)) => {
            let order = Order::parse(order)?;
            frame(name, "/homes", homes::ask(page.shown.homes()?, viewer, name, order)?)
        }
        (["doctor"], Some(status)) => {
            frame("Doctor", "/doctor", doctor::doctor(page, viewer, status)?)
        }
        (["traffic"], Some(status)) => {
            frame("Traffic", "/traffic", traffic::traffic(page, status)?)
        }
        (["traffic", name], Some(status)) => {
            let span = Span::parse(query.get("span"), Span::Day);
            frame(name, "/traffic", traffic::device(page, status, name, span)?)
        }
        (["events"], _) => {
            let before = query.get("before").and_then(|before| before.parse().ok());
            frame("Events", "/events", events::events(page, before))
        }
        _ => return None,
    };
    Some(Body { markup, refusal })
}

/// A change that was refused.
pub fn refused(page: &Page, viewer: &Viewer, name: &str, refusal: &Refusal) -> Markup {
    let status = page.shown.status();
    let body = html! {
        p.alarm role="alert" { strong { "Not changed: " } (refusal) }
        p { a href=(links::address(name)) { "Back to " (name) } }
    };
    frame::frame(page, viewer, status.as_ref(), name, "/links", body)
}

/// A join line, shown once to whoever requested it.
pub fn home_line(page: &Page, viewer: &Viewer, name: &str, line: &OnceShown) -> Markup {
    let status = page.shown.status();
    frame::frame(page, viewer, status.as_ref(), name, "/homes", homes::line(name, line))
}

/// Why no home was added, renewed or removed.
pub fn home_unchanged(page: &Page, viewer: &Viewer, refusal: &Refusal) -> Markup {
    let status = page.shown.status();
    let body = html! {
        p.alarm role="alert" { strong { "Not changed: " } (refusal) }
        p { a href="/homes" { "Back to the homes" } }
    };
    frame::frame(page, viewer, status.as_ref(), "Homes", "/homes", body)
}

/// Why nothing is measured.
pub fn not_measured(page: &Page, viewer: &Viewer, refusal: &Refusal) -> Markup {
    let status = page.shown.status();
    let body = html! {
        p.alarm role="alert" { strong { "Not measured: " } (refusal) }
        p { a href="/doctor" { "Back to the doctor" } }
    };
    frame::frame(page, viewer, status.as_ref(), "Doctor", "/doctor", body)
}

/// The outcome of a restore.
pub fn restored(page: &Page, viewer: &Viewer, done: &Result<RestorePlan, Refusal>) -> Markup {
    let status = page.shown.status();
    let body = snapshots::restored(done);
    frame::frame(page, viewer, status.as_ref(), "Snapshots", "/snapshots", body)
}

/// The changed parts, as JSON: element IDs with their content.
pub fn live(page: &Page, subject: Subject) -> String {
    let parts = match subject {
        Subject::Disks => vec![("pools", disks::changing(page))],
        Subject::Doctor => doctor::parts(page).unwrap_or_default(),
        Subject::Homes => {
            let status = page.shown.status();
            status.map(|status| vec![("homes", homes::table(page, &status))]).unwrap_or_default()
        }
        Subject::Traffic => {
            let status = page.shown.status();
            status.and_then(|status| traffic::parts(page, &status)).unwrap_or_default()
        }
        Subject::Overview(span) => {
            let Some(status) = page.shown.status() else { return "{}".to_owned() };
            let mut parts = overview::parts(page, &status);
            if span == Span::Live {
                parts.push(("graph", overview::graph(page, &status, span)));
            }
            parts
        }
    };
    let parts: serde_json::Map<String, serde_json::Value> =
        parts.into_iter().map(|(id, part)| (id.to_owned(), part.into_string().into())).collect();
    serde_json::Value::from(parts).to_string()
}
