//! A quota: its use, and the outlook.

use super::figures::{day, size};
use super::state::{Mood, Outlook, used_up};
use maud::{Markup, html};

/// The quota's use and outlook.
pub fn quota(link: &str, quota: &braid_control::status::QuotaStatus, now: i64) -> Markup {
    let used = quota.used_bytes as f64 / quota.limit_bytes.max(1) as f64;
    let (mood, outlook) = match used_up(quota, now) {
        Some(Outlook::On(at)) => (Mood::Poor, format!("at this pace it is used up on {}", day(at))),
        Some(Outlook::Lasts { until }) => {
            (Mood::Good, format!("at this pace it lasts until {}", day(until)))
        }
        Some(Outlook::Full { until }) => (Mood::Bad, format!("used up until {}", day(until))),
        None => (Mood::Good, String::new()),
    };
    html! {
        div class={ "quota " (mood.class()) } {
            meter min="0" max="1" value=(format!("{:.4}", used.min(1.0)))
                aria-label={ "Quota of " (link) " used" } {}
            span { (size(quota.used_bytes)) " of " (size(quota.limit_bytes)) }
            @if !outlook.is_empty() { span.dim { (outlook) } }
        }
    }
}
