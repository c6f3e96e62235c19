use super::{More, finding};
use crate::code::Code;
use crate::facts::Facts;
use braid_control::finding::Finding;
use braid_control::measured::Measured;
use braid_history::Severity;

/// Share of the best link's rate alone, below which the difference isn't noise.
const SLOWER: f64 = 0.95;
/// Share of the rate of several connections.
const ONE_CONNECTION: f64 = 0.7;
/// Rate in the second half of a measurement, relative to the first.
const FALLS_TO: f64 = 0.6;
/// Share of the links' sum, below which there must be a reason.
const SHARE_OF_SUM: f64 = 0.7;
/// Load of the other end's processors.
const BUSY_THERE: f64 = 0.9;
/// Smaller losses aren't worth a finding, Mbit/s.
const LEAST: f64 = 1.0;

/// Findings from a measurement.
pub(crate) fn limits(facts: &Facts, found: &mut Vec<Finding>) {
    let Some(measured) = &facts.measured else { return };
    if let Some(busy) = measured.load_there.filter(|busy| *busy > BUSY_THERE) {
        let what = "the other end's processor limits the tunnel";
        let told = finding(Code::CpuThere, Severity::Warning, "", what)
            .seen(format!("it was busy {:.0} % of the time", busy * 100.0))
            .gain_mbps(Some(measured.sum().down - measured.together.down))
            .mend("use a concentrator with a faster processor, or more of them");
        found.push(told);
    }
    let slower = slower_together(measured);
    match &slower {
        Some(told) => found.push(told.clone()),
        None => found.extend(common_limit(measured, found)),
    }
    let (one, several) = (measured.one_connection.down, measured.together.down);
    if one < several * ONE_CONNECTION && several > LEAST {
        let what =
            "one connection gets far less than several: a window at one end or loss limits it";
        let told = finding(Code::OneConnection, Severity::Warning, "", what)
            .seen(format!("{one:.1} Mbit/s with one, {several:.1} with several"))
            .gain_mbps(Some(several - one))
            .mend("sysctl -w net.ipv4.tcp_rmem='4096 131072 33554432' net.ipv4.tcp_wmem='4096 16384 33554432' at both ends; or [split_tcp]");
        found.push(told);
    }
    for link in &measured.links {
        let (first, second) = (link.first_half_down, link.second_half_down);
        if first > LEAST && second < first * FALLS_TO {
            let what =
                format!("link {} slows down after a burst: its provider shapes it", link.link);
            let told = finding(Code::ShapedAfterBurst, Severity::Note, &link.link, what)
                .seen(format!("{first:.1} Mbit/s at first, {second:.1} later"))
                .mend(format!(
                    "braid link set {} --cap-down {:.0}Mbit",
                    link.link,
                    second.max(1.0)
                ));
            found.push(told);
        }
    }
}

/// All links together are slower than one alone: find the link that slows them down.
fn slower_together(measured: &Measured) -> Option<Finding> {
    let best = measured.links.iter().max_by(|a, b| a.rates.down.total_cmp(&b.rates.down))?;
    let together = measured.together.down;
    if measured.links.len() < 2 || together >= best.rates.down * SLOWER || best.rates.down < LEAST {
        return None;
    }
    // The slowest link is missed least.
    let worst = measured.links.iter().min_by(|a, b| a.rates.down.total_cmp(&b.rates.down))?;
    let without = measured.without(&worst.link).down;
    let what = format!(
        "all links together carry {together:.1} Mbit/s, {} alone {:.1}; without link {}: \
         {without:.1}",
        best.link, best.rates.down, worst.link
    );
    let told = finding(Code::SlowerTogether, Severity::Warning, &worst.link, what)
        .seen(alone(measured))
        .gain_mbps(Some(without - together))
        .mend(format!("braid link set {} --standby true", worst.link));
    Some(told)
}

/// All links together carry far less than their sum, and neither end's processor is the cause.
fn common_limit(measured: &Measured, found: &[Finding]) -> Option<Finding> {
    let (sum, together) = (measured.sum().down, measured.together.down);
    let is_cpu = |told: &Finding| {
        [Code::CpuHere, Code::CpuStolen, Code::CpuThere]
            .iter()
            .any(|code| code.as_str() == told.code)
    };
    if measured.links.len() < 2 || together >= sum * SHARE_OF_SUM || found.iter().any(is_cpu) {
        return None;
    }
    let what = "something that all links share is saturated: the concentrator's own line, or a \
                line that several links are on";
    let told = finding(Code::CommonLimit, Severity::Warning, "", what)
        .seen(format!("{together:.1} Mbit/s together, {sum:.1} the sum"))
        .seen(alone(measured))
        .gain_mbps(Some(sum - together))
        .mend("on the concentrator: check its provider's rate; use a server with a faster line");
    Some(told)
}

fn alone(measured: &Measured) -> String {
    let links = measured.links.iter();
    let links: Vec<String> =
        links.map(|one| format!("{} {:.1}", one.link, one.rates.down)).collect();
    format!("alone: {} Mbit/s", links.join(", "))
}
