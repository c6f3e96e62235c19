use super::figures::{duration, size};
use super::state::{Mood, State};
use crate::Page;
use crate::pools::{DiskLine, FindingLine, PoolLine, PoolsLook};
use braid_history::unix_now;
use maud::{Markup, html};

/// A look older than this is reported as outdated: the timer looks every ten minutes.
const OLD_S: i64 = 3600;

/// Pools, disks, and findings about them.
pub fn disks(page: &Page) -> Markup {
    html! { div #pools data-live="/live?view=disks" { (changing(page)) } }
}

/// The current content.
pub fn changing(page: &Page) -> Markup {
    let Some(look) = page.shown.pools() else { return nobody_looked() };
    html! {
        (age(&look))
        @if look.findings.is_empty() {
            p class="sentence good" { "Nothing is wrong with the pools." }
        } @else {
            section.card { h2 { "What is wrong" } @for finding in &look.findings { (self::finding(finding)) } }
        }
        section.card {
            h2 { "Pools" }
            @if look.pools.is_empty() { p.dim { "There are no pools on this host." } }
            @for pool in &look.pools { (self::pool(pool)) }
        }
        section.card { h2 { "Disks" } (table(&look.disks)) }
    }
}

/// For the first page.
pub fn summary(page: &Page) -> Markup {
    let Some(look) = page.shown.pools() else { return nobody_looked() };
    html! {
        @if look.pools.is_empty() { p.dim { "There are no pools on this host." } }
        ul.plain { @for pool in &look.pools { li {
            a href="/disks" { (pool.name) } " " (state(pool))
            @if let Some(activity) = &pool.activity { " " span.dim { (activity)
                @if let Some(done) = pool.done { " " (format!("{:.0} %", (done * 100.0).floor())) } } }
        } } }
        @let bad = look.findings.iter().filter(|finding| finding.severity != "note").count();
        @if bad > 0 { p { a href="/disks" { (bad) @if bad == 1 { " finding" } @else { " findings" } } } }
        (age(&look))
    }
}

fn nobody_looked() -> Markup {
    html! { p.dim { "This host's pools haven't been checked yet: "
    code { "systemctl enable --now braid-pool-watch.timer" } " does each ten minutes, "
    code { "braid pool watch" } " does once." } }
}

fn age(look: &PoolsLook) -> Markup {
    let passed = (unix_now() - look.looked_unix).max(0);
    let text = format!("As of {} ago.", duration(passed as f64));
    html! {
        @if passed > OLD_S {
            p.alarm { (text) " Is " code { "braid-pool-watch.timer" } " on?" }
        } @else { p.dim { (text) } }
    }
}

fn state(pool: &PoolLine) -> State {
    let (mood, word) = match pool.state.as_str() {
        "whole" => (Mood::Good, "whole"),
        "rebuilding" => (Mood::Poor, "rebuilding"),
        "stopped" => (Mood::Waiting, "stopped"),
        "locked" => (Mood::Poor, "locked"),
        "unmounted" => (Mood::Poor, "not mounted"),
        "degraded" => (Mood::Bad, "degraded"),
        "failed" => (Mood::Bad, "failed"),
        _ => (Mood::Waiting, "unknown"),
    };
    State { mood, word }
}

fn pool(pool: &PoolLine) -> Markup {
    let there = pool.disks.saturating_sub(pool.lacking);
    html! {
        article.pool {
            h3 { (pool.name) " " (state(pool)) }
            p { (pool.layout) ", " (there) " of " (pool.disks) " disks"
                @if let Some(at) = &pool.mounted_at { ", at " code { (at) } }
                @if let Some(survives) = &pool.survives { "; " (survives) }
                "."
            }
            (job(pool))
            @if let (Some(used), Some(all)) = (pool.used_bytes, pool.size_bytes) {
                div class={ "quota " (fill(used, all).class()) } {
                    meter min="0" max="1" value=(format!("{:.4}", used as f64 / all.max(1) as f64))
                        aria-label={ (pool.name) " filled" } {}
                    span { (size(used)) " of " (size(all)) }
                }
            }
        }
    }
}

/// The running job, its progress, and the remaining time.
fn job(pool: &PoolLine) -> Markup {
    let Some(name) = &pool.activity else { return html! {} };
    html! {
        p { "Running: " (name)
            @if let Some(done) = pool.done { ", " (format!("{:.0} %", (done * 100.0).floor())) }
            @if let Some(left) = pool.left_s { ", " (duration(left as f64)) " left" }
        }
        @if let Some(done) = pool.done {
            div class="quota good" {
                meter min="0" max="1" value=(format!("{done:.4}")) aria-label={ (name) " done" } {}
            }
        }
    }
}

fn fill(used: u64, all: u64) -> Mood {
    match used as f64 / all.max(1) as f64 {
        share if share >= 0.95 => Mood::Bad,
        share if share >= 0.85 => Mood::Poor,
        _ => Mood::Good,
    }
}

fn finding(finding: &FindingLine) -> Markup {
    let mood = match finding.severity.as_str() {
        "note" => Mood::Waiting,
        "attention" => Mood::Poor,
        _ => Mood::Bad,
    };
    html! {
        article class={ "finding " (mood.class()) } {
            p { @if let Some(pool) = &finding.pool { strong { (pool) } ": " } (finding.what) }
            @if !finding.mend.is_empty() { p { "Mend it: " code { (finding.mend) } } }
        }
    }
}

fn table(disks: &[DiskLine]) -> Markup {
    html! {
        div.wide tabindex="0" role="region" aria-label="Disks" { table {
            thead { tr { th { "Disk" } th { "Model" } th { "Serial number" } th { "Kind" } th { "Size" } th { "Health" } th { "Temperature" } } }
            tbody { @for disk in disks { tr {
                th scope="row" { code { (disk.path) } }
                td { (disk.model.as_deref().unwrap_or("–")) }
                td { (disk.serial.as_deref().unwrap_or("–")) }
                td { (disk.kind) }
                td { (size(disk.size_bytes)) }
                td { (disk.health) }
                td { @match disk.temperature_c { Some(degrees) => { (degrees) " °C" }, None => "–" } }
            } } }
        } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_locked_pool_says_so() {
        let locked = PoolLine {
            name: "safe".into(),
            layout: "encrypted".into(),
            state: "locked".into(),
            disks: 2,
            ..PoolLine::default()
        };
        let shown = pool(&locked).into_string();
        assert!(shown.contains("locked") && shown.contains("encrypted, 2 of 2 disks."), "{shown}");
    }
}
