//! Estimates what each engine achieves: a rough model, each number with its source.

use super::candidate::Candidate;
use super::facts::{Facts, LinkFacts, Peer};
use crate::{BondMode, Runner};
use braid_units::Rate;
use std::time::Duration;

/// The expected performance of an engine.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    /// Of one TCP connection.
    pub one: Rate,
    /// Of many TCP connections together.
    pub many: Rate,
    /// Of one UDP flow that must stay in order.
    pub udp: Rate,
    /// What happens when a link goes dead without losing its carrier.
    pub stall: Stall,
    /// Why, and what its limits are.
    pub reasons: Vec<String>,
}

/// What happens to traffic on a link that goes dead without losing its carrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stall {
    /// It continues after this time.
    GoesOn(Duration),
    /// Its connections break; new ones work after this time.
    Breaks(Duration),
    /// It isn't noticed.
    Never,
}

/// Payload bytes and total bits of a typical packet.
const SEGMENT: f64 = 1448.0;
const PACKET_BITS: f64 = 12_000.0;
/// RFC 3819's form of Mathis et al. 1997: rate ≤ C · segment / (RTT · √loss).
const MATHIS: f64 = 1.22;
/// Connections that "many" stands for, as in the lab.
const MANY: f64 = 8.0;
/// Share of the sum that a multipath transport reached with unequal links (57
/// and 56 of 57.4 Mbit/s) and two gigabit links (1775 of 1884): the lower.
const MULTIPATH: f64 = 0.94;
/// Share of two shaped links that PPP multilink gave: 37.2 of 40 Mbit/s.
const MULTILINK: f64 = 0.93;
/// How many packets turns may be out of order before TCP suffers: fits 27 packets → 0.68 of the
/// rate (links of 10 Mbit/s, 15 to 80 ms) and 83 packets → 0.03 (200 Mbit/s, 5 ms on one).
const DISPLACEMENT: f64 = 45.0;
/// Longest stalls in silent blackouts, docs/measurements/links.md: 119 to 131 ms.
const TUNNEL_STALL: Duration = Duration::from_millis(150);
/// Measured 0.5 to 0.7 s.
const MPTCP_STALL: Duration = Duration::from_millis(700);
/// ARP monitoring: three missed answers, 100 ms apart.
const ARP_STALL: Duration = Duration::from_millis(300);
/// `watch`: three pings lost, half a second apart, 0.9 s of patience.
const WATCH_STALL: Duration = Duration::from_millis(2500);
/// Four LCP echoes lost, a second apart.
const ECHO_STALL: Duration = Duration::from_secs(5);
/// LACP, fast: three lost, a second apart (IEEE 802.1AX, 6.4.17).
const LACP_STALL: Duration = Duration::from_secs(3);

pub(super) fn estimate(candidate: Candidate, facts: &Facts) -> Estimate {
    match candidate {
        Candidate::Tunnel => tunnel(facts),
        Candidate::BestLink => best_link(facts),
        Candidate::Bonding(mode) => bonding(mode, facts),
        Candidate::Team(runner) => team(runner, facts),
        Candidate::Teql => {
            let mut estimate = turns(facts);
            estimate.stall = Stall::Never;
            estimate.reasons.push("a dead link is noticed only by loss of carrier".into());
            estimate
                .reasons
                .push("IP only; the device can't be named, and isn't in containers".into());
            estimate
        }
        Candidate::Ecmp => Estimate {
            stall: Stall::Breaks(WATCH_STALL),
            reasons: vec![
                "each flow stays on the link of its hash: a single one gets one link".into(),
                "any peer; a dead link is noticed by `watch`, its NATed flows break".into(),
            ],
            ..by_flow(facts)
        },
        Candidate::Pcc => Estimate {
            stall: Stall::Breaks(WATCH_STALL),
            reasons: vec![
                "each connection stays on its link, even when others come and go".into(),
                "any peer, NAT included; a dead link's connections break".into(),
            ],
            ..by_flow(facts)
        },
        Candidate::Mptcp => mptcp(facts),
        Candidate::PppoeMultilink => multilink(facts),
    }
}

fn tunnel(facts: &Facts) -> Estimate {
    let all = facts.sum().scaled(MULTIPATH);
    let mut reasons = vec![
        "in order, losses repaired inside, unequal links are used in full".into(),
        "encrypted; works through NAT; each byte passes user space: a few Gbit/s at most".into(),
    ];
    if facts.sum() > Rate::from_mbit(2500) {
        reasons.push("these links are faster than a user-space tunnel".into());
    }
    let limit = Rate::from_mbit(2500);
    let all = all.min(limit);
    Estimate { one: all, many: all, udp: all, stall: Stall::GoesOn(TUNNEL_STALL), reasons }
}

fn best_link(facts: &Facts) -> Estimate {
    Estimate {
        one: facts.links.iter().map(alone).max().unwrap_or(Rate::ZERO),
        many: facts.links.iter().map(several).max().unwrap_or(Rate::ZERO),
        udp: facts.fastest(),
        stall: Stall::Never,
        reasons: vec!["the reference for the others".into()],
    }
}

fn bonding(mode: BondMode, facts: &Facts) -> Estimate {
    let mut estimate = match mode {
        BondMode::BalanceRr => turns(facts),
        BondMode::ActiveBackup => active_backup(facts),
        BondMode::BalanceXor | BondMode::Ieee8023ad => by_flow(facts),
        BondMode::Broadcast => broadcast(facts),
        BondMode::BalanceTlb => {
            // Only outgoing traffic is spread; incoming traffic uses one link.
            let flows = by_flow(facts);
            let mut reasons =
                vec!["sends by load, receives over one link; works with any switch".into()];
            reasons.extend(wants_a_switch(facts));
            let many = facts.links.iter().map(several).max().unwrap_or(Rate::ZERO);
            Estimate { many, reasons, ..flows }
        }
        BondMode::BalanceAlb => {
            let mut reasons =
                vec!["as balance-tlb, and steers incoming traffic by ARP: IPv4 only".into()];
            reasons.extend(wants_a_switch(facts));
            Estimate { reasons, ..by_flow(facts) }
        }
    };
    estimate.stall = match mode {
        BondMode::Broadcast => Stall::GoesOn(Duration::ZERO),
        mode if mode.takes_arp_monitor() => Stall::GoesOn(ARP_STALL),
        BondMode::Ieee8023ad => Stall::GoesOn(LACP_STALL),
        _ => Stall::Never,
    };
    let noticed = match mode {
        BondMode::Broadcast => "each packet over all links: a dead one costs nothing".to_owned(),
        BondMode::Ieee8023ad => "the other end must speak LACP; links of equal speed".to_owned(),
        mode if mode.takes_arp_monitor() => {
            "a silent link is noticed only with arp_targets; otherwise by loss of carrier"
                .to_owned()
        }
        _ => "a dead link is noticed only by loss of carrier".to_owned(),
    };
    estimate.reasons.push(noticed);
    estimate
}

/// Seen in the lab: frames sent through one port arrived at an inactive one, and were dropped.
fn wants_a_switch(facts: &Facts) -> Option<String> {
    matches!(facts.peer, Peer::Linux | Peer::Braid | Peer::RouterOs).then(|| {
        "two such ends need a switch between them: over plain cables some frames are dropped".into()
    })
}

fn team(runner: Runner, facts: &Facts) -> Estimate {
    let like = match runner {
        Runner::RoundRobin | Runner::Random => BondMode::BalanceRr,
        Runner::ActiveBackup => BondMode::ActiveBackup,
        Runner::LoadBalance => BondMode::BalanceXor,
        Runner::Lacp => BondMode::Ieee8023ad,
        Runner::Broadcast => BondMode::Broadcast,
    };
    let mut estimate = bonding(like, facts);
    estimate.reasons.push(format!("as bonding {like}, but a program (teamd) must run"));
    estimate
}

fn mptcp(facts: &Facts) -> Estimate {
    let sum = |rates: Vec<Rate>| rates.into_iter().fold(Rate::ZERO, Rate::saturating_add);
    Estimate {
        one: sum(facts.links.iter().map(alone).collect()).scaled(MULTIPATH),
        many: sum(facts.links.iter().map(several).collect()).scaled(MULTIPATH),
        udp: facts.fastest(),
        stall: Stall::GoesOn(MPTCP_STALL),
        reasons: vec![
            "TCP only: UDP and pings take one link and die with it".into(),
            "both ends must speak it: `mptcpize` or a proxy for programs that don't".into(),
            "each subflow reacts to its own losses: a lossy link contributes little".into(),
        ],
    }
}

fn multilink(facts: &Facts) -> Estimate {
    let rate = facts.even().scaled(MULTILINK);
    let slowest = facts.links.iter().map(|link| link.round_trip()).max().unwrap_or_default();
    let one = tcp(rate, slowest, facts.worst_loss());
    Estimate {
        one,
        many: rate.min(one.scaled(MANY)),
        udp: rate,
        stall: Stall::GoesOn(ECHO_STALL),
        reasons: vec![
            "packets are fragmented and reordered at the end: delays may differ, order is kept"
                .into(),
            "both ends must support it; the slowest link sets the pace".into(),
            "a lost fragment holds up all flows".into(),
        ],
    }
}

fn active_backup(facts: &Facts) -> Estimate {
    Estimate { reasons: vec!["one link's rate, the others are idle".into()], ..best_link(facts) }
}

fn broadcast(facts: &Facts) -> Estimate {
    let slowest = facts.slowest();
    // A packet is lost only if all links lose it.
    let loss = facts.links.iter().map(|link| link.loss()).product();
    let rtt = facts.links.iter().map(|link| link.round_trip()).min().unwrap_or_default();
    Estimate {
        one: tcp(slowest, rtt, loss),
        many: slowest,
        udp: slowest,
        stall: Stall::GoesOn(Duration::ZERO),
        reasons: vec![
            "the slowest link's rate, every byte on all links; hosts see the copies".into(),
        ],
    }
}

/// Packets in turn.
fn turns(facts: &Facts) -> Estimate {
    let even = facts.even();
    let displaced =
        facts.delay_spread().as_secs_f64() * facts.slowest().bits_per_sec() as f64 / PACKET_BITS;
    let kept = (-(displaced / DISPLACEMENT).powi(2)).exp();
    let rtt = facts.links.iter().map(|link| link.round_trip()).max().unwrap_or_default();
    let loss = facts.worst_loss() / facts.links.len().max(1) as f64;
    let one = tcp(even.scaled(kept), rtt, loss);
    let mut reasons = vec!["packets in turn: every link as fast as the slowest".to_owned()];
    if displaced >= 1.0 {
        reasons.push(format!(
            "delays differ by {:.1} ms: packets arrive {displaced:.0} places out of order, TCP \
             slows down",
            facts.delay_spread().as_secs_f64() * 1000.0
        ));
    }
    // If packets are displaced by more than about one place, a flow that must stay in order gets
    // one link.
    let udp = if displaced < 1.0 { even } else { facts.slowest() };
    let many = even.scaled(kept.max(0.5)).min(tcp(even, rtt, loss).scaled(MANY));
    Estimate { one, many, udp, stall: Stall::GoesOn(ARP_STALL), reasons }
}

/// Flows by hash.
fn by_flow(facts: &Facts) -> Estimate {
    let links = facts.links.len().max(1) as f64;
    // Flows are assigned randomly: on average one gets the mean of the links.
    let mean = |rates: Vec<Rate>| {
        rates.into_iter().fold(Rate::ZERO, Rate::saturating_add).scaled(1.0 / links)
    };
    let tcp_rates: Vec<Rate> = facts.links.iter().map(alone).collect();
    let per_link = MANY / links;
    let many = facts
        .links
        .iter()
        .zip(&tcp_rates)
        .map(|(link, one)| link.rate().min(one.scaled(per_link)))
        .fold(Rate::ZERO, Rate::saturating_add);
    Estimate {
        one: mean(tcp_rates),
        many,
        udp: mean(facts.links.iter().map(|link| link.rate()).collect()),
        stall: Stall::GoesOn(ARP_STALL),
        reasons: vec!["each flow stays on the link of its hash: a single one gets one link".into()],
    }
}

/// The rate of one TCP connection over a link, and of many.
fn alone(link: &LinkFacts) -> Rate {
    tcp(link.rate(), link.round_trip(), link.loss())
}

fn several(link: &LinkFacts) -> Rate {
    link.rate().min(alone(link).scaled(MANY))
}

/// The rate of one TCP connection (cubic) over a link of this rate.
fn tcp(rate: Rate, rtt: Duration, loss: f64) -> Rate {
    if loss <= 0.0 || rtt.is_zero() {
        return rate;
    }
    let bytes = MATHIS * SEGMENT / (rtt.as_secs_f64() * loss.sqrt());
    rate.min(Rate::from_bytes_per_sec(bytes as u64))
}
