use super::figures::{duration, ms, percent, rate, size};
use super::overview::unix_now;
use super::past::{End, Span, quality, rates, spans};
use super::state::{of_path, of_peer};
use crate::Page;
use braid_control::status::{PeerStatus, Status};
use braid_history::Series;
use maud::{Markup, html};

/// All homes of a concentrator.
pub fn homes(status: &Status) -> Markup {
    html! {
        section.card { (table(status)) }
        p.dim { "A home is let in by " code { "braid concentrator add-home NAME" } ", and shut out by "
            code { "braid concentrator remove-home NAME" } "." }
    }
}

/// One row each.
pub fn table(status: &Status) -> Markup {
    html! {
        div.wide tabindex="0" role="region" aria-label="Homes" { table {
            thead { tr { th { "Home" } th { "State" } th { "Down" } th { "Up" } th { "Links" } th { "Round trip" }
                th { "Last heard" } th { "Carried" } } }
            tbody { @for peer in &status.peers { (row(peer)) } }
        } }
    }
}

fn row(peer: &PeerStatus) -> Markup {
    let sum = |rate: fn(&braid_control::status::PathStatus) -> Option<f64>| {
        peer.paths.iter().filter_map(rate).sum::<f64>()
    };
    let good =
        peer.paths.iter().filter(|path| of_path(path.state).mood <= super::state::Mood::Waiting);
    let rtt = peer.paths.iter().filter_map(|path| path.srtt_ms).min_by(f64::total_cmp);
    let (received, sent) = (sum(|path| path.rate_rx_mbps), sum(|path| path.rate_tx_mbps));
    let (down, up) = End::Concentrator.down_and_up(received, sent);
    html! {
        tr {
            th scope="row" { a href={ "/homes/" (peer.name) } { (peer.name) } }
            td { (of_peer(peer)) }
            td { (rate(down)) }
            td { (rate(up)) }
            td { (good.count()) " of " (peer.paths.len()) }
            td { (ms(rtt)) }
            td { @match peer.last_handshake_s {
                Some(seconds) => { (duration(seconds)) " ago" },
                None => "never",
            } }
            td { (size(peer.rx_bytes.saturating_add(peer.tx_bytes))) }
        }
    }
}

/// One home.
pub fn home(page: &Page, status: &Status, name: &str, span: Span) -> Option<Markup> {
    let peer = status.peers.iter().find(|peer| peer.name == name)?;
    let (history, now) = (page.shown.history(), unix_now());
    let series = Series::Peer(peer.name.clone());
    Some(html! {
        p { (of_peer(peer)) }
        section.card aria-label="History" {
            (spans(span, &format!("/homes/{name}")))
            div.plot { (rates(history, &[(peer.name.clone(), series.clone())], End::Concentrator, span, now)) }
            div.plot { (quality(history, &series, span, now)) }
        }
        section.card {
            h2 { "Links" }
            div.wide tabindex="0" role="region" aria-label="Links" { table {
                thead { tr { th { "Link" } th { "State" } th { "From" } th { "Round trip" } th { "Loss" } th { "MTU" } } }
                tbody { @for path in &peer.paths { tr {
                    th scope="row" { (path.link) }
                    td { (of_path(path.state)) }
                    td { @if let Some(remote) = path.remote { (remote) } @else { "–" } }
                    td { (ms(path.srtt_ms)) }
                    td { (percent(path.loss)) }
                    td { (path.mtu) }
                } } }
            } }
        }
    })
}
