//! Judges from observations what limits the tunnel and what is wrong.
//!
//! [`examine`] is pure: [`Facts`] in, findings out, worst and costliest first. Facts are gathered
//! elsewhere (the daemon, `braid doctor`), and findings are shown elsewhere (the page, the
//! terminal).

#![forbid(unsafe_code)]

mod blackout;
mod code;
mod facts;
mod judge;
#[cfg(test)]
mod tests;

pub use blackout::Blackout;
pub use braid_control::measured::{LinkMeasure, Measured, Rates};
pub use code::Code;
pub use facts::{Counters, Facts, HostFacts, LinkFacts, Load, RouteFacts};

use braid_control::finding::Finding;

/// All findings, costliest first; empty if all is well.
pub fn examine(facts: &Facts) -> Vec<Finding> {
    let mut found = Vec::new();
    judge::running(facts, &mut found);
    judge::peers(facts, &mut found);
    judge::links(facts, &mut found);
    judge::paths(facts, &mut found);
    judge::routes(facts, &mut found);
    judge::host(facts, &mut found);
    judge::load(facts, &mut found);
    judge::limits(facts, &mut found);
    let cost = |finding: &Finding| finding.gain_mbps.unwrap_or(0.0);
    found.sort_by(|a, b| b.severity.cmp(&a.severity).then_with(|| cost(b).total_cmp(&cost(a))));
    found
}
