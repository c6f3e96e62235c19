use super::Viewer;
use super::figures::{duration, ms, percent, rate};
use super::past::{End, Span, quality, rates, spans};
use super::quota::quota;
use super::state::{of_link, of_path, paths_of};
use crate::Page;
use crate::form::{Form, link_change};
use crate::shown::{Line, LineAddress, LinkWish};
use braid_control::config::Mode;
use braid_control::request::UiRole;
use braid_control::status::{LinkStatus, Status};
use braid_history::{Series, unix_now};
use maud::{Markup, html};
use std::net::IpAddr;

/// The address of a link's page.
pub fn address(name: &str) -> String {
    format!("/links/{name}")
}

/// All links.
pub fn links(page: &Page, viewer: &Viewer, status: &Status) -> Markup {
    html! {
        section.card { div.wide tabindex="0" role="region" aria-label="Links" { table {
            thead { tr { th { "Link" } th { "State" } th { "Down" } th { "Up" } th { "Round trip" } th { "Loss" }
                th { "Role" } th { "Device" } } }
            tbody { @for link in &status.links {
                @let paths = paths_of(status, &link.name);
                tr {
                    th scope="row" { a href=(address(&link.name)) { (link.name) } }
                    td { (of_link(status, link)) }
                    td { (rate(paths.iter().filter_map(|path| path.rate_rx_mbps).sum())) }
                    td { (rate(paths.iter().filter_map(|path| path.rate_tx_mbps).sum())) }
                    td { (ms(paths.iter().filter_map(|path| path.srtt_ms).min_by(f64::total_cmp))) }
                    td { (percent(paths.iter().map(|path| path.loss).fold(0.0, f64::max))) }
                    td { @if link.standby { "standby" } @else { "tier " (link.tier) } }
                    td { (link.interface.as_deref().unwrap_or("–")) }
                }
            } }
        } } }
        (roles(page, viewer, status))
        p.dim { "A link is added by " code { "braid link add NAME --interface DEVICE" } ", and removed by "
            code { "braid link remove NAME" } "." }
    }
}

/// The roles of links: each can be moved to another role by its form, by keys or by dragging.
fn roles(page: &Page, viewer: &Viewer, status: &Status) -> Markup {
    let may_move = viewer.role == UiRole::Admin;
    html! {
        section.card {
            h2 #roles { "Roles" }
            @if may_move { p.dim { "Drag a link to another role, move it by its handle and the arrow keys, or open "
                "\u{201c}Change\u{201d}. You see the effect before it happens." } }
            @else { p.dim { "To change one, " a href="/login" { "log in as admin" } "." } }
            p.unseen role="status" data-moving="" {}
            div.roles { @for place in places(status) {
                section.role data-role=(place.role()) data-tier=[place.tier]
                    aria-label=(place.name(status.mode)) {
                    h3 { (place.name(status.mode)) }
                    ul.plain { @for link in status.links.iter().filter(|link| place.has(link, status.mode)) {
                        (movable(page, viewer, status, link, may_move))
                    } }
                }
            } }
        }
    }
}

fn movable(
    page: &Page,
    viewer: &Viewer,
    status: &Status,
    link: &LinkStatus,
    may_move: bool,
) -> Markup {
    let name = &link.name;
    html! {
        li data-link=(name) data-moves[may_move] {
            @if may_move { button.handle type="button" hidden aria-label={ "Move " (name) ": arrow keys, then Enter" } { "↕" } " " }
            a href=(address(name)) { (name) } " " (of_link(status, link))
            @if let (true, Some(wish)) = (may_move, page.shown.link(name)) { details {
                summary aria-label={ "Change " (name) } { "Change" }
                (form(viewer, name, &wish))
            } }
        }
    }
}

/// A role that links have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LinkRole {
    /// The tier of links in use; `None` if all are alike, or on standby.
    tier: Option<u8>,
    standby: bool,
}

impl LinkRole {
    fn role(self) -> &'static str {
        if self.standby { "standby" } else { "used" }
    }

    fn name(self, mode: Mode) -> String {
        match (self.standby, self.tier, mode) {
            (true, _, _) => "Standby: only when no other works".to_owned(),
            (false, Some(tier), Mode::Overflow) => format!("Tier {tier}: filled in this order"),
            (false, Some(tier), _) => format!("Tier {tier}: the lowest that works carries all"),
            (false, None, _) => "Used together".to_owned(),
        }
    }

    fn has(self, link: &LinkStatus, mode: Mode) -> bool {
        let same_tier = !has_tiers(mode) || self.tier == Some(link.tier);
        link.standby == self.standby && (self.standby || same_tier)
    }
}

fn has_tiers(mode: Mode) -> bool {
    matches!(mode, Mode::Overflow | Mode::ActiveBackup)
}

/// All roles that a link can be moved to; with tiers, an additional empty one.
fn places(status: &Status) -> Vec<LinkRole> {
    let standby = LinkRole { tier: None, standby: true };
    if !has_tiers(status.mode) {
        return vec![LinkRole { tier: None, standby: false }, standby];
    }
    let used = status.links.iter().filter(|link| !link.standby);
    let mut tiers: Vec<u8> = used.map(|link| link.tier).collect();
    tiers.push(tiers.iter().max().map_or(0, |last| last.saturating_add(1)));
    tiers.sort_unstable();
    tiers.dedup();
    let used = tiers.into_iter().map(|tier| LinkRole { tier: Some(tier), standby: false });
    used.chain([standby]).collect()
}

/// One link: its history, its paths, its settings.
pub fn link(
    page: &Page,
    viewer: &Viewer,
    status: &Status,
    name: &str,
    span: Span,
    changed: bool,
) -> Option<Markup> {
    let link = status.links.iter().find(|link| link.name == name)?;
    let color = status.links.iter().position(|link| link.name == name)?;
    let (history, now) = (page.shown.history(), unix_now());
    let series = Series::Link(name.to_owned());
    let wish = page.shown.link(name);
    Some(html! {
        p { (of_link(status, link)) @if let Some(trouble) = &link.trouble { " " (trouble) } }
        @if changed { p.done role="status" { "Changed. " (how_long()) } }
        @if let Some(quota) = &link.quota { (self::quota(name, quota, now)) }
        section.card aria-label="History" {
            (spans(span, &address(name)))
            div class={ "plot from" (color % 8) } { (rates(history, &[(name.to_owned(), series.clone())], End::Home, span, now)) }
            div.plot { (quality(history, &series, span, now)) }
        }
        @if let Some(wish) = &wish { section.card { h2 { "Its role" } (form(viewer, name, wish)) } }
        @if let Some(line) = page.shown.line(name) { (line_card(&line)) }
        p { a href="/doctor#speed" { "Measure what it carries" } }
        section.card {
            h2 { "Paths" }
            div.wide tabindex="0" role="region" aria-label="Paths" { table {
                thead { tr { th { "To" } th { "State" } th { "Round trip" } th { "At best" } th { "Jitter" } th { "Queue" }
                    th { "Loss" } th { "Can send" } th { "MTU" } } }
                tbody { @for path in paths_of(status, name) { tr {
                    th scope="row" { @if let Some(remote) = path.remote { (remote) } @else { "–" } }
                    td { (of_path(path.state)) }
                    td { (ms(path.srtt_ms)) }
                    td { (ms(path.min_rtt_ms)) }
                    td { (ms(path.jitter_ms)) }
                    td { (ms(path.queue_ms)) }
                    td { (percent(path.loss)) }
                    td { @match path.capacity_tx_mbps { Some(mbps) => (rate(mbps)), None => "–" } }
                    td { (path.mtu) }
                } } }
            } }
        }
    })
}

/// Its device.
fn line_card(line: &Line) -> Markup {
    html! {
        section.card {
            h2 { "The line" }
            div.wide tabindex="0" role="region" aria-label="The line" { table { tbody {
                (fact("Device", html! { (line.device) ", " (card(line)) }))
                (fact("MTU", html! { (line.mtu) " bytes" }))
                @for given in &line.addresses {
                    (fact("Address", html! { (given.address) "/" (given.prefix_length) ": "
                        (translation(given.address)) "; " (lease(given)) }))
                }
                @if line.addresses.is_empty() { (fact("Address", html! { "none" })) }
                @for router in &line.routers { (fact("Router", html! { (router) })) }
                @if line.routers.is_empty() { (fact("Router", html! { "none is known" })) }
            } } }
        }
    }
}

fn fact(name: &str, value: Markup) -> Markup {
    html! { tr { th scope="row" { (name) } td { (value) } } }
}

fn card(line: &Line) -> String {
    let carrier = if line.carrier { "has a carrier" } else { "has no carrier" };
    let speed = line.speed_mbps.map(|mbps| format!("{mbps} Mbit/s"));
    let duplex = line.full_duplex.map(|full| if full { "full duplex" } else { "half duplex" });
    let known = [line.kind.clone(), speed, duplex.map(str::to_owned)].into_iter().flatten();
    known.chain([carrier.to_owned()]).collect::<Vec<_>>().join(", ")
}

/// Where addresses are translated on the way out, judging from the address: RFC 1918, RFC 6598, RFC
/// 4193.
fn translation(address: IpAddr) -> &'static str {
    match address {
        IpAddr::V4(v4) if v4.octets()[0] == 100 && v4.octets()[1] & 0xc0 == 64 => {
            "behind the provider's NAT"
        }
        IpAddr::V4(v4) if v4.is_private() => "behind a router's NAT",
        IpAddr::V6(v6) if v6.is_unique_local() => "of a private network",
        _ => "public, no NAT",
    }
}

fn lease(given: &LineAddress) -> String {
    match given.valid_for {
        None => "it stays".to_owned(),
        Some(left) => {
            let from = if given.address.is_ipv4() { "DHCP" } else { "the router or DHCP" };
            format!("from {from}, for another {}", duration(left.as_secs_f64()))
        }
    }
}

/// The form for changes. Nothing changes before the page has said what a change will do.
fn form(viewer: &Viewer, name: &str, wish: &LinkWish) -> Markup {
    let locked = viewer.role != UiRole::Admin;
    let field = |label: &str, name: &str, value: &str, hint: &str| {
        html! { label { (label) " "
        input name=(name) value=(value) placeholder=(hint) maxlength="40" disabled[locked]; } }
    };
    html! {
        form.fields method="get" action={ (address(name)) "/change" } {
            label { "Used " select name="role" disabled[locked] {
                option value="used" selected[!wish.standby] { "with the others" }
                option value="standby" selected[wish.standby] { "only when no other works" }
            } }
            label { "Tier "
                input type="number" name="tier" min="0" max="255" value=(wish.tier) disabled[locked]; }
            (field("Never faster down than", "cap_down", wish.cap_down.as_deref().unwrap_or(""), "no cap, or 20Mbit"))
            (field("Never faster up than", "cap_up", wish.cap_up.as_deref().unwrap_or(""), "no cap, or 5Mbit"))
            (field("Quota", "quota", wish.quota.as_deref().unwrap_or(""), "none, or 20GB/month"))
            button.main disabled[locked] { "Preview" }
        }
        @if locked { p.dim { "To change it, " a href="/login" { "log in as admin" } "." } }
    }
}

/// Says what a change will do, and asks for confirmation.
pub fn ask(
    page: &Page,
    viewer: &Viewer,
    status: &Status,
    name: &str,
    query: &Form,
) -> Option<Markup> {
    let wish = page.shown.link(name)?;
    let link = status.links.iter().find(|link| link.name == name)?;
    let change = match link_change(query) {
        Ok(change) => change,
        Err(wrong) => {
            return Some(html! { p.alarm { (wrong) }
            p { a href=(address(name)) { "Back to " (name) } } });
        }
    };
    let new = LinkWish {
        tier: change.tier.unwrap_or(wish.tier),
        standby: change.standby.unwrap_or(wish.standby),
        cap_down: given(&change.cap_down, &wish.cap_down),
        cap_up: given(&change.cap_up, &wish.cap_up),
        quota: given(&change.quota, &wish.quota),
    };
    let others = status.links.iter().filter(|other| other.name != link.name);
    let others = others.filter(|other| of_link(status, other).word == "works").count();
    let effects = effects(name, &wish, &new, status.mode, others);
    let keep = keep(name, &wish, &new);
    Some(html! {
        section.card {
            @if effects.is_empty() {
                p { "That is already the current state." }
                p { a href=(address(name)) { "Back to " (name) } }
            } @else {
                h2 { "This will happen" }
                ul { @for effect in &effects { li { (effect) } } }
                p.dim { (how_long()) " To keep it: " code { (keep) } }
                @if let (Some(token), UiRole::Admin) = (&viewer.form_token, viewer.role) {
                    form method="post" action=(address(name)) {
                        input type="hidden" name="form" value=(token.as_str());
                        input type="hidden" name="role" value=(if new.standby { "standby" } else { "used" });
                        input type="hidden" name="tier" value=(new.tier);
                        input type="hidden" name="cap_down" value=(new.cap_down.as_deref().unwrap_or(""));
                        input type="hidden" name="cap_up" value=(new.cap_up.as_deref().unwrap_or(""));
                        input type="hidden" name="quota" value=(new.quota.as_deref().unwrap_or(""));
                        button.main { "Do it" } " " a href=(address(name)) { "Leave it" }
                    }
                } @else { p { a href="/login" { "Log in as admin" } " to do it." } }
            }
        }
    })
}

fn how_long() -> &'static str {
    "It lasts until the tunnel is restarted or reloads its config."
}

fn given(change: &Option<String>, before: &Option<String>) -> Option<String> {
    match change.as_deref() {
        None => before.clone(),
        Some("none") => None,
        Some(text) => Some(text.to_owned()),
    }
}

/// What a change does, in one sentence each. `others` is how many other links carry traffic now.
fn effects(name: &str, old: &LinkWish, new: &LinkWish, mode: Mode, others: usize) -> Vec<String> {
    let mut effects = Vec::new();
    match (old.standby, new.standby) {
        (false, true) if others == 0 => effects.push(format!(
            "{name} becomes a standby link; as no other link carries traffic now, it goes on \
             carrying all of it."
        )),
        (false, true) => effects.push(format!(
            "{name} carries no traffic while another link works; it is probed, and takes over when \
             none does."
        )),
        (true, false) => effects.push(format!("{name} carries traffic together with the others.")),
        _ => {}
    }
    if old.tier != new.tier {
        let (from, to) = (old.tier, new.tier);
        effects.push(match mode {
            Mode::Overflow => format!("{name} moves from tier {from} to {to}: it is filled when the links of lower tiers are full."),
            Mode::ActiveBackup => format!("{name} moves from tier {from} to {to}: the working link of the lowest tier carries all."),
            _ => format!("{name} moves from tier {from} to {to}, which changes nothing in mode {mode}: it uses links of every tier."),
        });
    }
    for (way, old, new) in
        [("down", &old.cap_down, &new.cap_down), ("up", &old.cap_up, &new.cap_up)]
    {
        match (old, new) {
            (old, new) if old == new => {}
            (_, Some(cap)) => effects.push(format!("{name} carries no more than {cap} {way}.")),
            (_, None) => effects.push(format!("{name} carries as much {way} as it can.")),
        }
    }
    match (&old.quota, &new.quota) {
        (old, new) if old == new => {}
        (_, Some(quota)) => effects.push(format!(
            "When {name} has carried {quota}, it is used only when no other link works. What it has carried in this period counts."
        )),
        (_, None) => effects.push(format!("{name} has no quota any more.")),
    }
    effects
}

/// The command that makes a change permanent.
fn keep(name: &str, old: &LinkWish, new: &LinkWish) -> String {
    let mut command = format!("braid link set {name}");
    if old.tier != new.tier {
        command.push_str(&format!(" --tier {}", new.tier));
    }
    if old.standby != new.standby {
        command.push_str(&format!(" --standby {}", new.standby));
    }
    let texts = [
        ("cap-down", &old.cap_down, &new.cap_down),
        ("cap-up", &old.cap_up, &new.cap_up),
        ("quota", &old.quota, &new.quota),
    ];
    for (option, old, new) in texts {
        if old != new {
            command.push_str(&format!(" --{option} {}", new.as_deref().unwrap_or("none")));
        }
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_link_has_one_place_and_there_is_always_another() {
        let link = |name: &str, tier, standby| LinkStatus {
            name: name.into(),
            tier,
            standby,
            ..LinkStatus::default()
        };
        let links = vec![link("a", 0, false), link("b", 3, false), link("c", 3, true)];
        for (mode, tiers) in [
            (Mode::Overflow, vec![Some(0), Some(3), Some(4), None]),
            (Mode::ActiveBackup, vec![Some(0), Some(3), Some(4), None]),
            (Mode::Adaptive, vec![None, None]),
        ] {
            let status = Status { mode, links: links.clone(), ..Status::default() };
            let places = places(&status);
            assert_eq!(places.iter().map(|place| place.tier).collect::<Vec<_>>(), tiers);
            for link in &links {
                assert_eq!(places.iter().filter(|place| place.has(link, mode)).count(), 1);
            }
        }
        let last = Status {
            mode: Mode::Overflow,
            links: vec![link("a", 255, false)],
            ..Status::default()
        };
        assert_eq!(places(&last).len(), 2, "there is no tier after the last");
        let none = Status { mode: Mode::Overflow, ..Status::default() };
        assert_eq!(places(&none)[0].tier, Some(0));
    }

    #[test]
    fn what_a_line_is_is_said_in_words() {
        let address = |text: &str, valid_for| LineAddress {
            address: text.parse().unwrap(),
            prefix_length: 24,
            valid_for,
        };
        let line = Line {
            device: "eth1".into(),
            speed_mbps: Some(1000),
            full_duplex: Some(true),
            carrier: true,
            mtu: 1500,
            addresses: vec![
                address("192.168.1.2", Some(std::time::Duration::from_secs(7200))),
                address("100.64.3.4", None),
                address("203.0.113.5", None),
                address("fd00::5", None),
            ],
            ..Line::default()
        };
        let said = line_card(&line).into_string();
        for part in [
            "eth1, 1000 Mbit/s, full duplex, has a carrier",
            "192.168.1.2/24: behind a router's NAT; from DHCP, for another 2 h 0 min",
            "100.64.3.4/24: behind the provider's NAT; it stays",
            "203.0.113.5/24: public, no NAT",
            "fd00::5/24: of a private network",
            "none is known",
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
    }

    #[test]
    fn it_is_said_what_a_change_does_and_how_it_lasts() {
        let old = LinkWish { quota: Some("20GB/month".into()), ..LinkWish::default() };
        assert!(effects("lte", &old, &old, Mode::Adaptive, 1).is_empty());
        let new = LinkWish {
            standby: true,
            tier: 2,
            cap_up: Some("5Mbit".into()),
            ..LinkWish::default()
        };
        let said = effects("lte", &old, &new, Mode::Adaptive, 1);
        assert_eq!(said.len(), 4, "{said:?}");
        assert!(
            said[0].contains("carries no traffic")
                && said[1].contains("changes nothing in mode adaptive")
        );
        let alone = effects("lte", &old, &new, Mode::Overflow, 0);
        assert!(alone[0].contains("goes on carrying") && alone[1].contains("lower tiers are full"));
        let command = "braid link set lte --tier 2 --standby true --cap-up 5Mbit --quota none";
        assert_eq!(keep("lte", &old, &new), command);
    }
}
