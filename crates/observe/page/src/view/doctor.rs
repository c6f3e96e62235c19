//! Findings about the tunnel, and what its links carry.

use super::Viewer;
use super::figures::{moment, rate};
use super::state::Mood;
use crate::Page;
use crate::shown::Examined;
use braid_control::finding::Finding;
use braid_control::measured::{LinkMeasure, MeasureStatus, Measured, Rates};
use braid_control::request::UiRole;
use braid_control::status::Status;
use braid_history::Severity;
use maud::{Markup, html};

/// The whole page.
pub fn doctor(page: &Page, viewer: &Viewer, status: &Status) -> Option<Markup> {
    let parts = parts(page)?;
    let part = |id: &str| {
        let found = parts.iter().find(|(known, _)| *known == id);
        found.map_or_else(Markup::default, |(_, part)| part.clone())
    };
    Some(html! {
        div data-live="/live?view=doctor" {}
        section.card #findings { (part("findings")) }
        section.card {
            h2 #speed { "What the links carry" }
            div #measured { (part("measured")) }
            // Homes measure: a concentrator has no links of its own.
            @if status.listen.is_empty() { (form(viewer, status)) }
            @else { p.dim { "Links are measured from the home's end." } }
        }
        p.dim { "A file for a bug report, with keys and addresses blacked out: " code { "braid doctor --bundle FILE" } }
    })
}

/// The parts that are updated live, by element ID.
pub fn parts(page: &Page) -> Option<Vec<(&'static str, Markup)>> {
    let examined = page.shown.examined()?;
    let measuring = page.shown.measuring();
    Some(vec![("findings", findings(&examined)), ("measured", measured(&measuring))])
}

fn findings(examined: &Examined) -> Markup {
    html! {
        h2 { "What is wrong" }
        @match &examined.findings {
            None => p.dim { "Looking …" },
            Some(findings) => {
                @if findings.is_empty() { p class="sentence good" { "Nothing." } }
                @for found in findings { (finding(found)) }
                p.dim { "Looked at " (moment(examined.looked_unix)) "." }
            },
        }
    }
}

fn finding(finding: &Finding) -> Markup {
    let (mood, word) = match finding.severity {
        Severity::Note => (Mood::Waiting, "Note"),
        Severity::Warning => (Mood::Poor, "Attention"),
        Severity::Critical => (Mood::Bad, "Broken"),
    };
    html! {
        article class={ "finding " (mood.class()) } {
            p { strong { (word) ": " } (finding.what) }
            @if !finding.evidence.is_empty() { p.dim { "Seen: " (finding.evidence.join("; ")) } }
            @if let Some(gain) = &finding.gain { p { "Fixing it brings " (gain) "." } }
            @if !finding.mend.is_empty() { p { "Mend it: " code { (finding.mend) } } }
        }
    }
}

fn measured(status: &MeasureStatus) -> Markup {
    html! {
        @if status.running {
            p role="status" { "Measuring: " (status.step) ", " (status.done) " of " (status.steps) " done." }
            div class="quota good" {
                meter min="0" max=(status.steps.max(1)) value=(status.done) aria-label="Measurement done" {}
            }
        }
        @if let Some(trouble) = &status.trouble { p.alarm { "Nothing was measured: " (trouble) } }
        @match &status.measured {
            Some(measured) => { (table(measured)) },
            None if !status.running => p.dim { "Nothing has been measured since the tunnel came \
                                                up." },
            None => {},
        }
        @for left in &status.left_out { p.dim { "Left out: " (left) "." } }
        @if let Some(at) = status.at_unix { p.dim { "Measured at " (moment(at)) "." } }
    }
}

fn table(measured: &Measured) -> Markup {
    let several = measured.links.len() > 1;
    let all = measured.together != Rates::default();
    html! {
        div.wide tabindex="0" role="region" aria-label="What the links carry" { table {
            thead { tr { th { "Link" } th { "Down" } th { "Up" } th { "As part, down" } th { "As part, up" }
                @if several { th { "Without it, down" } th { "Without it, up" } } } }
            tbody {
                @for link in &measured.links { (row(measured, link, several && all)) }
                @if all { tr {
                    th scope="row" { "All together" }
                    td { (rate(measured.together.down)) } td { (rate(measured.together.up)) }
                    td { "–" } td { "–" } @if several { td { "–" } td { "–" } }
                } }
                @if measured.one_connection != Rates::default() { tr {
                    th scope="row" { "One connection" }
                    td { (rate(measured.one_connection.down)) } td { "–" }
                    td { "–" } td { "–" } @if several { td { "–" } td { "–" } }
                } }
            }
        } }
    }
}

fn row(measured: &Measured, link: &LinkMeasure, foretold: bool) -> Markup {
    let without = foretold.then(|| measured.without(&link.link));
    let text = |mbps: Option<f64>| mbps.map_or_else(|| "–".to_owned(), rate);
    html! {
        tr {
            th scope="row" { (link.link) }
            td { (rate(link.rates.down)) }
            td { (rate(link.rates.up)) }
            td { (text(link.as_part.map(|part| part.down))) }
            td { (text(link.as_part.map(|part| part.up))) }
            @if measured.links.len() > 1 {
                td { (text(without.map(|rates| rates.down))) }
                td { (text(without.map(|rates| rates.up))) }
            }
        }
    }
}

/// Says what it will do; does it when confirmed.
fn form(viewer: &Viewer, status: &Status) -> Markup {
    let locked = viewer.role != UiRole::Admin;
    html! {
        p { "Each link is measured alone for some 8 seconds, and all together for 12, against the \
             concentrator only. "
            "Meanwhile all other traffic goes over the link being measured, and queues behind the \
             measurement. "
            "It takes some 100 MB on a link of 50 Mbit/s." }
        form.fields method="post" action="/measure" {
            @if let Some(token) = &viewer.form_token { input type="hidden" name="form" value=(token.as_str()); }
            label { "Measure " select name="link" disabled[locked] {
                option value="" { "each link, and all together" }
                @for link in &status.links { option value=(link.name) { (link.name) ", and all together" } }
            } }
            label { "Links with a quota " select name="metered" disabled[locked] {
                option value="" { "are left out" }
                option value="yes" { "are measured too" }
            } }
            button.main disabled[locked] { "Measure" }
        }
        @if locked { p.dim { "To measure, " a href="/login" { "log in as admin" } "." } }
    }
}
