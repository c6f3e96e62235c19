use super::Viewer;
use super::figures::{duration, moment, ms, percent, rate, size};
use super::past::{End, Span, quality, rates, spans};
use super::state::{Mood, State, of_path, of_peer};
use crate::Page;
use crate::form::Form;
use crate::homes::Order;
use crate::homes::{HomeLine, Homes, Joined, NewHome, OnceShown};
use braid_control::config::Name;
use braid_control::qr_code::QrCode;
use braid_control::request::UiRole;
use braid_control::status::{PathStatus, PeerStatus, Status};
use braid_history::{Series, unix_now};
use maud::{Markup, html};
use std::borrow::Cow;

/// All homes of a concentrator, and a form for adding one.
pub fn homes(page: &Page, viewer: &Viewer, status: &Status, query: &Form) -> Markup {
    let named = |key| query.get(key).filter(|name| name.parse::<Name>().is_ok());
    html! {
        div data-live="/live?view=homes" {}
        @if let Some(name) = named("removed") {
            p.done role="status" { (name) " is removed and can't connect any more." }
        }
        @if let Some(name) = named("revoked") {
            p.done role="status" { (name) " is removed: its join line is revoked." }
        }
        section.card #homes { (table(page, status)) }
        @match page.shown.homes() {
            Some(_) => section.card { h2 { "Add a home" } (form_to_add(viewer)) },
            None => p.dim { "A home is added with " code { "braid concentrator add-home NAME" } ", and shut out by "
                code { "braid concentrator remove-home NAME" } "." },
        }
    }
}

/// A table of homes.
pub fn table(page: &Page, status: &Status) -> Markup {
    let known = page.shown.homes().map(Homes::all).unwrap_or_default();
    let now = unix_now();
    let peers = peers(status, &known);
    html! {
        @if peers.is_empty() { p.dim { "No home may connect yet." } }
        @else { div.wide tabindex="0" role="region" aria-label="Homes" { table {
            thead { tr { th { "Home" } th { "State" } th { "Down" } th { "Up" } th { "Links" } th { "Round trip" }
                th { "Last seen" } th { "Carried" } th { "Address" } } }
            tbody { @for peer in &peers {
                (row(peer, known.iter().find(|home| home.name == peer.name), now))
            } }
        } } }
    }
}

/// All homes as peers, including those just added to the config, which the tunnel doesn't report
/// yet.
fn peers<'s>(status: &'s Status, known: &[HomeLine]) -> Vec<Cow<'s, PeerStatus>> {
    let is_new = |home: &&HomeLine| status.peers.iter().all(|peer| peer.name != home.name);
    let new = known
        .iter()
        .filter(is_new)
        .map(|home| Cow::Owned(PeerStatus { name: home.name.clone(), ..PeerStatus::default() }));
    status.peers.iter().map(Cow::Borrowed).chain(new).collect()
}

fn row(peer: &PeerStatus, home: Option<&HomeLine>, now: i64) -> Markup {
    let sum = |rate: fn(&PathStatus) -> Option<f64>| peer.paths.iter().filter_map(rate).sum();
    let good = peer.paths.iter().filter(|path| of_path(path.state).mood <= Mood::Waiting);
    let rtt = peer.paths.iter().filter_map(|path| path.srtt_ms).min_by(f64::total_cmp);
    let (received, sent) = (sum(|path| path.rate_rx_mbps), sum(|path| path.rate_tx_mbps));
    let (down, up) = End::Concentrator.down_and_up(received, sent);
    html! {
        tr {
            th scope="row" { a href={ "/homes/" (peer.name) } { (peer.name) } }
            td { (state(peer, home)) }
            td { (rate(down)) }
            td { (rate(up)) }
            td { @if peer.connected { (good.count()) " of " (peer.paths.len()) } @else { "–" } }
            td { (ms(rtt.filter(|_| peer.connected))) }
            td { (last_seen(peer, home, now)) }
            td { (size(peer.rx_bytes.saturating_add(peer.tx_bytes))) }
            td { @match home.map(|home| home.addresses.as_slice()) {
                Some([first, ..]) => (first),
                _ => "–",
            } }
        }
    }
}

fn state(peer: &PeerStatus, home: Option<&HomeLine>) -> Markup {
    match home.map(|home| home.joined) {
        Some(Joined::Invited(until)) => html! {
            (State { mood: Mood::Waiting, word: "invited" }) " until " (moment(until))
        },
        Some(Joined::Expired(_)) => html! { (State { mood: Mood::Poor, word: "line expired" }) },
        Some(Joined::Joined) | None => html! { (of_peer(peer)) },
    }
}

fn last_seen(peer: &PeerStatus, home: Option<&HomeLine>, now: i64) -> String {
    let seen = home.and_then(|home| home.last_seen_unix);
    match (peer.connected, seen, peer.last_handshake_s) {
        (true, _, _) => "now".to_owned(),
        (false, Some(unix), _) => format!("{} ago", duration(now.saturating_sub(unix) as f64)),
        (false, None, Some(seconds)) => format!("{} ago", duration(seconds)),
        (false, None, None) => "never".to_owned(),
    }
}

/// One home: its history, its links, whether it may join.
pub fn home(
    page: &Page,
    viewer: &Viewer,
    status: &Status,
    name: &str,
    span: Span,
) -> Option<Markup> {
    let homes = page.shown.homes().map(Homes::all).unwrap_or_default();
    let peer = peers(status, &homes).into_iter().find(|peer| peer.name == name)?;
    let known = homes.iter().find(|home| home.name == name);
    let (history, now) = (page.shown.history(), unix_now());
    let series = Series::Peer(peer.name.clone());
    Some(html! {
        p { (state(&peer, known)) " " span.dim { "Last seen: " (last_seen(&peer, known, now)) } }
        @if let Some(trouble) = &peer.trouble { p.alarm { (trouble) } }
        section.card aria-label="History" {
            (spans(span, &format!("/homes/{name}")))
            div.plot { (rates(history, &[(peer.name.clone(), series.clone())], End::Concentrator, span, now)) }
            div.plot { (quality(history, &series, span, now)) }
        }
        section.card {
            h2 { "Links" }
            @if peer.paths.is_empty() { p.dim { "It uses none at the moment." } }
            @else { div.wide tabindex="0" role="region" aria-label="Links" { table {
                thead { tr { th { "Link" } th { "State" } th { "From" } th { "Round trip" } th { "Loss" } th { "MTU" } } }
                tbody { @for path in &peer.paths { tr {
                    th scope="row" { (path.link) }
                    td { (of_path(path.state)) }
                    td { @if let Some(remote) = path.remote { (remote) } @else { "–" } }
                    td { (ms(path.srtt_ms)) }
                    td { (percent(path.loss)) }
                    td { (path.mtu) }
                } } }
            } } }
        }
        @if let Some(home) = known { section.card {
            h2 { "Access" }
            @if !home.addresses.is_empty() { p { "Inside the tunnel it has " (home.addresses.join(", ")) "." } }
            @if viewer.role == UiRole::Admin { (orders(home)) }
            @else { p.dim { "To change it, " a href="/login" { "log in as admin" } "." } }
        } }
    })
}

/// Each button leads to a page that says what it will do.
fn orders(home: &HomeLine) -> Markup {
    let to = |order: &str| format!("/homes/{}/{order}", home.name);
    html! {
        p {
            a href=(to("renew")) { "New join line …" } " "
            @match home.joined {
                Joined::Joined => a href=(to("remove")) { "Remove it …" },
                Joined::Invited(_) => a href=(to("revoke")) { "Revoke its line …" },
                Joined::Expired(_) => a href=(to("revoke")) { "Remove it …" },
            }
        }
    }
}

/// Validity times of lines, and their `--valid` values; the second is the default.
const VALID: [(&str, &str); 4] =
    [("1h", "an hour"), ("24h", "a day"), ("7d", "a week"), ("30d", "30 days")];

fn choose_valid(chosen: &str, locked: bool) -> Markup {
    let known = VALID.iter().any(|(time, _)| *time == chosen);
    html! {
        label { "Its line is valid for " select name="valid" disabled[locked] {
            @if !known && !chosen.is_empty() { option value=(chosen) selected { (chosen) } }
            @for (time, words) in VALID {
                option value=(time) selected[time == chosen || (chosen.is_empty() && time == "24h")] { (words) }
            }
        } }
    }
}

fn form_to_add(viewer: &Viewer) -> Markup {
    let locked = viewer.role != UiRole::Admin;
    let more = |label: &str, name: &str, hint: &str| {
        html! { label { (label) " "
        input name=(name) placeholder=(hint) maxlength="400" autocomplete="off" disabled[locked]; } }
    };
    html! {
        form.fields method="get" action="/new-home" {
            label { "Its name " input name="name" required maxlength="32" pattern="[A-Za-z0-9._\\-]+"
                title="letters, digits, . _ -" autocomplete="off" placeholder="cabin" disabled[locked]; }
            (choose_valid("", locked))
            (more("Homes reach this host at", "endpoints", "as given to init"))
            (more("Its addresses in the tunnel", "addresses", "the next free ones"))
            button.main disabled[locked] { "Preview" }
        }
        @if locked { p.dim { "To add one, " a href="/login" { "log in as admin" } "." } }
    }
}

/// Says what adding a home will do, and asks for confirmation.
pub fn ask_to_add(homes: &dyn Homes, viewer: &Viewer, wish: &NewHome) -> Markup {
    let plan = match homes.plan(wish) {
        Ok(plan) => plan,
        Err(refusal) => {
            return html! {
                p.alarm role="alert" { (refusal) }
                p { a href="/homes" { "Back to the homes" } }
            };
        }
    };
    html! {
        section.card {
            h2 { "This will happen" }
            ul {
                li { (wish.name) " gets a place in " code { (plan.file) } ", which the tunnel reads again."
                    @if !plan.addresses.is_empty() { " Its addresses are " (plan.addresses.join(" and ")) "." } }
                li { "A join line is made, valid for " (valid_words(&wish.valid))
                    ". It lets one router in: the first that uses it." }
                li { "The line is shown once, and not stored. That router will look for this host \
                      at "
                    (plan.endpoints.join(", ")) "." }
            }
            p.dim { "The same: " code { (command_to_add(wish)) } }
            @match plan.trouble {
                Some(trouble) => p.alarm role="alert" { (trouble) },
                None => { (overheard(viewer)) (form_to_do(viewer, "/new-home", "Make the join line", html! {
                    input type="hidden" name="name" value=(wish.name);
                    input type="hidden" name="valid" value=(wish.valid);
                    input type="hidden" name="endpoints" value=(wish.endpoints.join(","));
                    input type="hidden" name="addresses" value=(wish.addresses.join(","));
                })) }
            }
            p { a href="/homes" { "Leave it" } }
        }
    }
}

fn overheard(viewer: &Viewer) -> Markup {
    html! { @if viewer.is_overheard { p.alarm {
        "This page is not encrypted: whoever can read it on the way can use the line first. Safer \
         is "
        code { "ssh -L 5190:localhost:5190" } "."
    } } }
}

fn valid_words(valid: &str) -> &str {
    VALID.iter().find(|(time, _)| *time == valid).map_or(valid, |(_, words)| words)
}

fn command_to_add(wish: &NewHome) -> String {
    let mut command = format!("braid concentrator add-home {} --valid {}", wish.name, wish.valid);
    for (option, texts) in [("endpoint", &wish.endpoints), ("address", &wish.addresses)] {
        for text in texts {
            command.push_str(&format!(" --{option} {text}"));
        }
    }
    command
}

fn form_to_do(viewer: &Viewer, action: &str, button: &str, fields: Markup) -> Markup {
    html! {
        @if let (Some(token), UiRole::Admin) = (&viewer.form_token, viewer.role) {
            form.confirm method="post" action=(action) autocomplete="off" {
                input type="hidden" name="form" value=(token.as_str());
                (fields)
                button.main { (button) }
            }
        } @else { p { a href="/login" { "Log in as admin" } " to do it." } }
    }
}

/// Says what an order will do to a home, and asks for confirmation.
pub fn ask(homes: &dyn Homes, viewer: &Viewer, name: &str, order: Order) -> Option<Markup> {
    let all = homes.all();
    let home = all.iter().find(|home| home.name == name)?;
    let joined = home.joined == Joined::Joined;
    let (effects, command, button) = match order {
        Order::Renew => (
            renewal(home),
            format!("braid concentrator renew {name}"),
            if joined { "Disconnect it, and make a new line" } else { "Make a new line" },
        ),
        Order::Revoke if joined => {
            return Some(html! {
                p.alarm role="alert" { (name) " has joined meanwhile: it has no open join line." }
                p { a href={ "/homes/" (name) } { "Back to " (name) } }
            });
        }
        Order::Revoke => (
            vec![
                format!("The join line of {name} is revoked."),
                format!("{name} is removed from the config, and its addresses become free."),
            ],
            format!("braid concentrator revoke {name}"),
            "Revoke it",
        ),
        Order::Remove => {
            (removal(home), format!("braid concentrator remove-home {name}"), "Remove it")
        }
    };
    let must_type = joined && order != Order::Revoke;
    let word = match order {
        Order::Renew => "renew",
        Order::Revoke => "revoke",
        Order::Remove => "remove",
    };
    let fields = html! {
        @if order == Order::Renew { (choose_valid("", false)) }
        @if must_type { label { "To confirm it, type " strong { (name) } " "
            input name="typed" required maxlength="32" autocomplete="off"; } }
    };
    Some(html! {
        section.card {
            h2 { "This will happen" }
            ul { @for effect in &effects { li { (effect) } } }
            p.dim { "The same: " code { (command) } }
            @if order == Order::Renew { (overheard(viewer)) }
            (form_to_do(viewer, &format!("/homes/{name}/{word}"), button, fields))
            p { a href={ "/homes/" (name) } { "Leave it" } }
        }
    })
}

fn renewal(home: &HomeLine) -> Vec<String> {
    let name = &home.name;
    let first = match home.joined {
        Joined::Joined => format!(
            "The current router of {name} is disconnected at once, and can only come back with the \
             new line."
        ),
        Joined::Invited(_) => "The previous line is revoked.".to_owned(),
        Joined::Expired(_) => "The previous line stays invalid.".to_owned(),
    };
    vec![
        first,
        format!("A new line is made and shown once. {name} keeps its name, addresses and history."),
    ]
}

fn removal(home: &HomeLine) -> Vec<String> {
    let name = &home.name;
    vec![
        format!("{name} is disconnected at once: its connections through the tunnel end."),
        format!(
            "It is removed from the config with its key, and its addresses become free. It can \
             come back only with a new join line; its history stays until it is too old."
        ),
    ]
}

/// The line, and how to get it to the router. The script removes it when the page is left.
pub fn line(name: &str, line: &OnceShown) -> Markup {
    let code = QrCode::of(&line.line).ok();
    html! {
        section.card {
            h2 { "The join line of " (name) }
            p { "It lets one router in, once, until " strong { (moment(line.until_unix)) } ". "
                "It is shown only now. Whoever has it can join." }
            @if let Some(trouble) = &line.trouble { p.alarm role="alert" { (trouble) } }
            div data-once="" {
                // Keeps browsers from sending it to a spelling service or saving it for a restart.
                label.line { "Join line"
                    textarea #line readonly rows="5" autocomplete="off" spellcheck="false" translate="no" { (line.line) } }
                p { button type="button" data-copy="line" hidden { "Copy it" } " " span role="status" data-copied="" {} }
                @if let Some(code) = &code {
                    @let side = code.side();
                    svg.qr role="img" aria-label={ "The join line of " (name) " as a QR code" }
                        viewBox={ "0 0 " (side) " " (side) } shape-rendering="crispEdges" {
                        rect width=(side) height=(side) fill="#fff" {}
                        path d=(code.svg_path()) fill="#000" {}
                    }
                }
            }
            p { "On the router at home: " code { "braid home join -" } ", and paste it. A phone's \
                                                                        camera can read the code." }
            p { a href={ "/homes/" (name) } { "Done" } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_says_all_that_the_form_does() {
        let wish = NewHome {
            name: "cabin".into(),
            valid: "7d".into(),
            endpoints: vec!["a.example:1".into(), "b.example:2".into()],
            addresses: vec!["10.77.0.9".into()],
        };
        let command = "braid concentrator add-home cabin --valid 7d --endpoint a.example:1 \
                       --endpoint b.example:2 --address 10.77.0.9";
        assert_eq!(command_to_add(&wish), command);
    }

    #[test]
    fn what_shuts_a_router_out_says_so() {
        let home = |joined| HomeLine {
            name: "cabin".into(),
            addresses: Vec::new(),
            joined,
            last_seen_unix: None,
        };
        assert!(renewal(&home(Joined::Joined))[0].contains("disconnected at once"));
        assert!(!renewal(&home(Joined::Invited(1))).concat().contains("disconnected"));
        assert!(removal(&home(Joined::Joined))[0].contains("disconnected at once"));
    }
}
