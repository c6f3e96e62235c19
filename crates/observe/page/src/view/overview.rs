use super::events::list;
use super::figures::{duration, ms, percent, rate};
use super::past::{End, Span, rates, spans};
use super::state::{of_link, paths_of, sentence};
use super::{disks, homes};
use crate::Page;
use braid_control::status::{LinkStatus, Status};
use braid_history::{Series, unix_now};
use maud::{Markup, html};

/// Number of events shown here.
const EVENTS: usize = 6;
/// Maximum number of homes shown as layers of the graph; their page has all.
const MOST_LAYERS: usize = 8;

/// The first page.
pub fn overview(page: &Page, status: &Status, span: Span) -> Markup {
    let parts = parts(page, status);
    let part = |id: &str| {
        let found = parts.iter().find(|(known, _)| *known == id);
        found.map_or_else(Markup::default, |(_, part)| part.clone())
    };
    let at_home = status.listen.is_empty();
    html! {
        div data-live={ "/live?span=" (span.word()) } {}
        div.heading #sentence { (part("sentence")) }
        section.card aria-label="Traffic" {
            (spans(span, "/"))
            div.plot #graph { (graph(page, status, span)) }
        }
        h2 { @if at_home { "Links" } @else { "Homes" } }
        div.cards #cards { (part("cards")) }
        div.columns {
            section { h2 { "Last events" } div #events { (part("events")) } }
            section { h2 { "Pools" } (disks::summary(page)) }
        }
    }
}

/// The parts that are updated live, by element ID.
pub fn parts(page: &Page, status: &Status) -> Vec<(&'static str, Markup)> {
    let now = unix_now();
    let cards = match status.listen.is_empty() {
        true => {
            html! { @for (color, link) in status.links.iter().enumerate() { (card(status, link, color, now)) } }
        }
        false => homes::table(page, status),
    };
    let mut parts = vec![("sentence", heading(page, status)), ("cards", cards)];
    if let Some(history) = page.shown.history() {
        let events = match history.events(None, EVENTS) {
            Ok(events) => list(&events),
            Err(why) => html! { p.dim { (why) } },
        };
        parts.push(("events", events));
    }
    parts
}

/// Rates, with each link's part. The graph of the last minutes is updated live; the others hardly
/// change while somebody watches.
pub fn graph(page: &Page, status: &Status, span: Span) -> Markup {
    rates(page.shown.history(), &layers(status), End::of(status), span, unix_now())
}

/// The parts of the sum: at home links, at a concentrator homes.
fn layers(status: &Status) -> Vec<(String, Series)> {
    if status.listen.is_empty() {
        let link = |link: &LinkStatus| (link.name.clone(), Series::Link(link.name.clone()));
        return status.links.iter().map(link).collect();
    }
    if status.peers.len() > MOST_LAYERS {
        return vec![("all homes".to_owned(), Series::Tunnel)];
    }
    let peers = status.peers.iter();
    peers.map(|peer| (peer.name.clone(), Series::Peer(peer.name.clone()))).collect()
}

fn heading(page: &Page, status: &Status) -> Markup {
    let (mood, text) = sentence(status);
    let sum = |rate: fn(&braid_control::status::PathStatus) -> Option<f64>| {
        status.peers.iter().flat_map(|peer| &peer.paths).filter_map(rate).sum::<f64>()
    };
    let (received, sent) = (sum(|path| path.rate_rx_mbps), sum(|path| path.rate_tx_mbps));
    let (down, up) = End::of(status).down_and_up(received, sent);
    let trouble = page.shown.history().and_then(|history| history.health().trouble);
    html! {
        p class={ "sentence " (mood.class()) } role="status" { (text) }
        p.now {
            span { "↓ " strong { (rate(down)) } }
            span { "↑ " strong { (rate(up)) } }
            span.dim { (status.mode) " mode, up for " (duration(status.uptime_s)) }
        }
        @if status.draining { p.alarm { "Draining: homes are asked to move to another \
                                         concentrator" } }
        @for warning in &status.warnings { p.alarm { (warning) } }
        @for peer in &status.peers {
            @if let Some(trouble) = &peer.trouble { p.alarm { (peer.name) ": " (trouble) } }
            @if peer.draining { p.alarm { (peer.name) " is about to go" } }
        }
        @if let Some(trouble) = trouble { p.alarm { "History can't be kept at the moment: \
                                                     " (trouble) } }
    }
}

fn card(status: &Status, link: &LinkStatus, color: usize, now: i64) -> Markup {
    let state = of_link(status, link);
    let paths = paths_of(status, &link.name);
    let sum = |rate: fn(&braid_control::status::PathStatus) -> Option<f64>| {
        paths.iter().filter_map(|path| rate(path)).sum::<f64>()
    };
    let (down, up) = (sum(|path| path.rate_rx_mbps), sum(|path| path.rate_tx_mbps));
    let all = status.peers.iter().flat_map(|peer| &peer.paths);
    let total: f64 = all.filter_map(|path| Some(path.rate_rx_mbps? + path.rate_tx_mbps?)).sum();
    let share = if total > 0.001 { percent((down + up) / total) } else { "–".to_owned() };
    let least = |value: fn(&braid_control::status::PathStatus) -> Option<f64>| {
        paths.iter().filter_map(|path| value(path)).min_by(f64::total_cmp)
    };
    let loss = paths.iter().map(|path| path.loss).fold(0.0, f64::max);
    let facts = [
        ("round trip", ms(least(|path| path.srtt_ms))),
        ("jitter", ms(least(|path| path.jitter_ms))),
        ("queue", ms(least(|path| path.queue_ms))),
        ("loss", percent(loss)),
        ("share", share),
        ("can send", least(|path| path.capacity_tx_mbps).map_or_else(|| "–".to_owned(), rate)),
    ];
    html! {
        article class={ "card link " (state.mood.class()) } {
            h3 {
                i class={ "b" (color % 8) } {}
                a href=(super::links::address(&link.name)) { (link.name) }
                (state)
            }
            @if let Some(trouble) = &link.trouble { p.alarm { (trouble) } }
            p.rates { span { "↓ " (rate(down)) } span { "↑ " (rate(up)) } }
            dl { @for (name, value) in facts { div { dt { (name) } dd { (value) } } } }
            @if let Some(quota) = &link.quota { (super::quota::quota(&link.name, quota, now)) }
        }
    }
}
