//! Who uses the tunnel, and for what.

use super::figures::{duration, percent, rate, size};
use super::past::{End, Span, rates, spans};
use crate::Page;
use braid_control::status::{RuleDoes, RuleStatus, Status};
use braid_control::traffic::{DeviceTraffic, FlowTraffic, LinkShare, TrafficStatus};
use braid_history::{Series, unix_now};
use maud::{Markup, html};

/// Number of flows shown; nobody reads more.
const FLOWS: usize = 50;
/// Number of devices shown.
const DEVICES: usize = 50;

/// All devices and flows.
pub fn traffic(page: &Page, status: &Status) -> Option<Markup> {
    let parts = parts(page, status)?;
    Some(html! {
        div data-live="/live?view=traffic" {}
        @for (id, part) in parts { div #(id) { (part) } }
        p.dim { "Retransmissions and copies are those that this end sends. Devices are shown by \
                 the name in their DHCP lease, or else by address." }
    })
}

/// The parts that are updated live, by element ID.
pub fn parts(page: &Page, status: &Status) -> Option<Vec<(&'static str, Markup)>> {
    let traffic = page.shown.traffic()?;
    let end = End::of(status);
    Some(vec![
        ("devices", devices(&traffic, end)),
        ("rules", rules(&status.rules)),
        ("flows", flows(traffic.flows.iter(), &traffic, end)),
    ])
}

/// One device: its history, and its current flows.
pub fn device(page: &Page, status: &Status, name: &str, span: Span) -> Option<Markup> {
    let traffic = page.shown.traffic()?;
    let end = End::of(status);
    let series = Series::Device(name.to_owned());
    let known = traffic.devices.iter().find(|device| device.name == name);
    let own = traffic.flows.iter().filter(|flow| flow.device == name);
    Some(html! {
        @if let Some(device) = known {
            p { (size(device.rx_bytes.saturating_add(device.tx_bytes))) " carried since the tunnel \
                                                                         came up"
                @if let Some(address) = device.address { ", last by " (address) } "." }
        } @else { p { "Nothing has been carried for it since the tunnel came up." } }
        section.card aria-label="History" {
            (spans(span, &address(name)))
            div.plot { (rates(page.shown.history(), &[(name.to_owned(), series)], end, span, unix_now())) }
        }
        (flows(own, &traffic, end))
    })
}

fn devices(traffic: &TrafficStatus, end: End) -> Markup {
    let busy = |device: &DeviceTraffic| device.rate_rx_mbps + device.rate_tx_mbps;
    let all: f64 = traffic.devices.iter().map(busy).sum();
    html! {
        section.card {
            h2 { "Devices" }
            @if traffic.devices.is_empty() { p.dim { "No device has used the tunnel yet." } }
            @else { div.wide tabindex="0" role="region" aria-label="Devices" { table {
                thead { tr { th { "Device" } th { "Down" } th { "Up" } th { "Share" } th { "Carried" } th { "Flows" } th { "Links" } } }
                tbody { @for device in traffic.devices.iter().take(DEVICES) {
                    @let (down, up) = end.down_and_up(device.rate_rx_mbps, device.rate_tx_mbps);
                    tr {
                        th scope="row" { a href=(address(&device.name)) { (device.name) }
                            @if end == End::Concentrator { " " span.dim { (device.peer) } } }
                        td { (rate(down)) }
                        td { (rate(up)) }
                        td { @if all > 0.001 { (percent(busy(device) / all)) } @else { "–" } }
                        td { (size(device.rx_bytes.saturating_add(device.tx_bytes))) }
                        td { (device.flows) }
                        td { (links(&device.links)) }
                    }
                } }
            } } }
            @if traffic.devices.len() > DEVICES { p.dim { (traffic.devices.len() - DEVICES) " more have used it." } }
        }
    }
}

/// Rules in the order in which they apply.
fn rules(rules: &[RuleStatus]) -> Markup {
    let goes = |rule: &RuleStatus| match (rule.counts_now, rule.does, &rule.link) {
        (false, ..) => "not at this time".to_owned(),
        (true, RuleDoes::Direct, Some(link)) => format!("by {link}"),
        (true, RuleDoes::Direct, None) => "no link works".to_owned(),
        (true, ..) => "counts".to_owned(),
    };
    html! {
        @if !rules.is_empty() {
            section.card {
                h2 { "Rules" }
                div.wide tabindex="0" role="region" aria-label="Rules" { table {
                    thead { tr { th { "Rule" } th { "Does" } th { "Now" } th { "Connections" } th { "Sent" } } }
                    tbody { @for rule in rules {
                        tr {
                            th scope="row" { (rule.name) }
                            td { (rule.does.as_str()) }
                            td { (goes(rule)) }
                            td { (rule.connections) }
                            td { (size(rule.bytes)) }
                        }
                    } }
                } }
                p.dim { "The first matching rule applies. " code { "braid explain" } " shows which \
                                                                                      one a connection matches, and why." }
            }
        }
    }
}

fn flows<'a>(
    flows: impl Iterator<Item = &'a FlowTraffic>,
    traffic: &TrafficStatus,
    end: End,
) -> Markup {
    let shown: Vec<&FlowTraffic> = flows.take(FLOWS).collect();
    let others = traffic.others_rx_bytes.saturating_add(traffic.others_tx_bytes);
    html! {
        section.card {
            h2 { "Flows" }
            @if shown.is_empty() { p.dim { "None in the last minute." } }
            @else { div.wide tabindex="0" role="region" aria-label="Flows" { table {
                thead { tr { th { "Flow" } th { "Down" } th { "Up" } th { "Carried" } th { "Class" } th { "Rule" } th { "Links" }
                    th { "Sent again" } th { "Sent twice" } th { "Age" } } }
                tbody { @for flow in &shown { (row(flow, end)) } }
            } } }
            @if traffic.flows_known > shown.len() { p.dim { (traffic.flows_known) " flows are known; the busiest are shown." } }
            @if others > 0 { p.dim { (size(others)) " were of flows beyond those that are \
                                                     tracked." } }
        }
    }
}

fn row(flow: &FlowTraffic, end: End) -> Markup {
    let (down, up) = end.down_and_up(flow.rate_rx_mbps, flow.rate_tx_mbps);
    html! {
        tr {
            th scope="row" { (flow.local) " → " (flow.remote) " " span.dim { (flow.protocol) } }
            td { (rate(down)) }
            td { (rate(up)) }
            td { (size(flow.rx_bytes.saturating_add(flow.tx_bytes))) }
            td { (flow.class) }
            td { (flow.rule.as_deref().unwrap_or("–")) }
            td { (links(&flow.links)) }
            td { (size(flow.retransmitted_bytes)) }
            td { (size(flow.duplicated_bytes)) }
            td { (duration(flow.age_s)) }
        }
    }
}

/// Which link carried how much of it.
fn links(shares: &[LinkShare]) -> String {
    let bytes = |share: &LinkShare| share.rx_bytes.saturating_add(share.tx_bytes);
    let all: u64 = shares.iter().map(bytes).sum();
    let mut shares: Vec<&LinkShare> = shares.iter().filter(|share| bytes(share) > 0).collect();
    shares.sort_by_key(|share| std::cmp::Reverse(bytes(share)));
    let text = |share: &&LinkShare| {
        format!("{} {}", share.link, percent(bytes(share) as f64 / all.max(1) as f64))
    };
    match shares.is_empty() {
        true => "–".to_owned(),
        false => shares.iter().map(text).collect::<Vec<_>>().join(", "),
    }
}

fn address(device: &str) -> String {
    let escaped: String = form_urlencoded::byte_serialize(device.as_bytes()).collect();
    // The form encoding of spaces isn't valid in a path, but names contain none.
    format!("/traffic/{escaped}")
}
