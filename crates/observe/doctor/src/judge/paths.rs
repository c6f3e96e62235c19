use super::links::capacity;
use super::{More, finding};
use crate::code::Code;
use crate::facts::Facts;
use braid_control::finding::Finding;
use braid_control::status::{PathState, PathStatus, PeerStatus};
use braid_history::Severity;

/// Share of recently sent packets. TCP alone over such a link would stall; the tunnel repairs it,
/// at the cost of the others' capacity.
const LOSS: f64 = 0.03;
/// Queueing delay in a modem, ms; `cake-autorate` acts at 30.
const QUEUE_MS: f64 = 100.0;
/// RTTVAR, ms.
const JITTER_MS: f64 = 80.0;
/// One-way delay beyond the fastest path's, ms. Packets delivered in order wait for the slowest
/// path.
const FAR_MS: f64 = 300.0;
/// Maximum datagram size below this on a device with an MTU of 1500 means that path MTU discovery
/// (RFC 8899) found that larger ones vanish. PPPoE, DS-Lite, LTE and VPNs leave 1280 or more.
const SMALL_DATAGRAM: u16 = 1232;
/// Share of a cap that counts as filled.
const FILLED: f64 = 0.9;

/// Problems of packets on the links.
pub(crate) fn paths(facts: &Facts, found: &mut Vec<Finding>) {
    let Some(status) = &facts.status else { return };
    for peer in &status.peers {
        for path in peer.paths.iter().filter(|path| carries(path)) {
            path_of(facts, peer, path, found);
        }
    }
}

fn carries(path: &PathStatus) -> bool {
    matches!(path.state, PathState::Active | PathState::Standby)
}

fn path_of(facts: &Facts, peer: &PeerStatus, path: &PathStatus, found: &mut Vec<Finding>) {
    let link = &path.link;
    if path.loss > LOSS {
        let what = format!("link {link} loses {:.1} % of the packets", path.loss * 100.0);
        let told = finding(Code::Lossy, Severity::Warning, link, what)
            .seen(format!("{} of {} packets since the start", path.lost_packets, path.tx_packets))
            .gain_mbps(capacity(facts, link).map(|mbps| mbps * path.loss))
            .mend(format!("check signal and cable; or braid link set {link} --standby true"));
        found.push(told);
    }
    if let Some(queue) = waits_ms(path).filter(|queue| *queue > QUEUE_MS) {
        let what = format!(
            "{queue:.0} ms wait in a queue of link {link}'s modem (bufferbloat), and what is \
             urgent behind them"
        );
        let mend = match path.capacity_tx_mbps {
            Some(mbps) => {
                format!("braid link set {link} --cap-up {:.0}Mbit", (mbps * 0.9).max(1.0))
            }
            None => {
                format!("braid link set {link} with --cap-up and --cap-down at 90 % of its rates")
            }
        };
        let told = finding(Code::Bufferbloat, Severity::Warning, link, what)
            .seen(delays(path))
            .gain(format!("{queue:.0} ms less delay"))
            .mend(mend);
        found.push(told);
    }
    // Even if there is a queue: if jitter delays all of a few packets, they look queued.
    if path.jitter_ms.is_some_and(|jitter| jitter > JITTER_MS) {
        let what = format!("the delay of link {link} varies a lot");
        let told = finding(Code::Jitter, Severity::Note, link, what)
            .seen(delays(path))
            .mend(format!("keep calls off it with a [[rule]]; or braid link set {link} --tier 1"));
        found.push(told);
    }
    if path.one_way_delta_ms.is_some_and(|delta| delta > FAR_MS) {
        let delta = path.one_way_delta_ms.unwrap_or(0.0);
        let what = format!(
            "packets over link {link} arrive {delta:.0} ms after those of the fastest link, which \
             wait for them"
        );
        let told =
            finding(Code::FarLink, Severity::Note, link, what).seen(delays(path)).mend(format!(
                "braid link set {link} --tier 1 and `braid mode overflow`: it is then used only \
                 when the others are full"
            ));
        found.push(told);
    }
    small(facts, peer, path, found);
    capped(facts, path, found);
}

fn small(facts: &Facts, peer: &PeerStatus, path: &PathStatus, found: &mut Vec<Finding>) {
    let device = facts.host.links.iter().find(|link| link.name == path.link);
    let Some(device) = device.filter(|device| device.mtu >= 1400) else { return };
    if path.mtu == 0 || path.mtu >= SMALL_DATAGRAM || path.rx_packets < 100 {
        return;
    }
    let what = format!(
        "large packets vanish on link {} without an ICMP error (a path MTU discovery black hole): \
         the tunnel has found a size that passes, other connections on this line hang",
        path.link
    );
    let told = finding(Code::MtuBlackHole, Severity::Warning, &path.link, what)
        .seen(format!(
            "datagrams of {} bytes reach {}, the device allows {}",
            path.mtu, peer.name, device.mtu
        ))
        .mend(format!(
            "ip link set {} mtu {}",
            device.device.as_deref().unwrap_or("DEVICE"),
            // IPv6 and UDP headers.
            u32::from(path.mtu) + 48
        ));
    found.push(told);
}

fn capped(facts: &Facts, path: &PathStatus, found: &mut Vec<Finding>) {
    let Some(link) = facts.config.link(&path.link) else { return };
    let ways = [
        ("cap-down", link.cap.down, path.rate_rx_mbps),
        ("cap-up", link.cap.up, path.rate_tx_mbps),
    ];
    for (key, cap, rate) in ways {
        let (Some(cap), Some(rate)) = (cap, rate) else { continue };
        if rate < cap.mbit() * FILLED {
            continue;
        }
        let what = format!("the config's {key} limits link {}: it is full", path.link);
        let told = finding(Code::CapLimits, Severity::Note, &path.link, what)
            .seen(format!("{rate:.1} Mbit/s of {:.1}", cap.mbit()))
            .mend(format!("braid link set {} --{key} none, or a higher one", path.link));
        found.push(told);
    }
}

/// The delay of a queue, ms. If others keep it full for long, the path no longer sees it as a
/// queue, but it wasn't there for all of the last ten minutes.
fn waits_ms(path: &PathStatus) -> Option<f64> {
    let lasting = path.min_rtt_ms.zip(path.unloaded_rtt_ms).map(|(now, least)| now - least);
    path.queue_ms.into_iter().chain(lasting).reduce(f64::max)
}

fn delays(path: &PathStatus) -> String {
    let ms = |value: Option<f64>| value.map_or("?".to_owned(), |ms| format!("{ms:.0} ms"));
    format!(
        "round-trip time {}, minimum {}, jitter {}",
        ms(path.srtt_ms),
        ms(path.min_rtt_ms),
        ms(path.jitter_ms)
    )
}
