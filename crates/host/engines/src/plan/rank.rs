//! The ranked table.

use super::Wish;
use super::candidate::Candidate;
use super::facts::{Facts, Peer};
use super::model::{Estimate, Stall, estimate};
use crate::{BondMode, Feature, Runner};
use std::cmp::Ordering;

/// One engine's place.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The engine.
    pub candidate: Candidate,
    /// Why it can't be used; `None` if it can.
    pub obstacle: Option<String>,
    /// What carries its links: "ethernet", or the kind of tunnel per link.
    pub over: &'static str,
    /// Its expected performance.
    pub estimate: Estimate,
}

/// All engines for these links: the best for the wish first, those that can't
/// be used last.
pub fn rank(facts: &Facts, wish: Wish) -> Vec<Row> {
    let mut rows: Vec<Row> = Candidate::all().into_iter().map(|c| row(c, facts)).collect();
    // Stable: equals stay in the candidates' order.
    rows.sort_by(|a, b| {
        a.obstacle.is_some().cmp(&b.obstacle.is_some()).then_with(|| better(a, b, wish))
    });
    rows
}

fn row(candidate: Candidate, facts: &Facts) -> Row {
    let tunnelled = candidate.joins_ethernet() && !facts.all_ethernet();
    let mut estimate = estimate(candidate, facts);
    if tunnelled {
        estimate.reasons.push(
            "over routers: Ethernet in one tunnel per link (gretap, vxlan, wireguard)".into(),
        );
    }
    Row {
        candidate,
        obstacle: obstacle(candidate, facts),
        over: if tunnelled { "tunnels" } else { "ethernet" },
        estimate,
    }
}

fn better(a: &Row, b: &Row, wish: Wish) -> Ordering {
    let (a, b) = (&a.estimate, &b.estimate);
    match wish {
        Wish::One => b.one.cmp(&a.one).then(b.many.cmp(&a.many)),
        Wish::Many => b.many.cmp(&a.many).then(b.one.cmp(&a.one)),
        Wish::Udp => b.udp.cmp(&a.udp).then(a.stall.cmp(&b.stall)),
        Wish::NeverBreak => a.stall.cmp(&b.stall).then(b.one.cmp(&a.one)),
    }
}

fn obstacle(candidate: Candidate, facts: &Facts) -> Option<String> {
    if facts.links.len() < 2 && candidate != Candidate::BestLink {
        return Some("a single link can't be joined".into());
    }
    let lacking = candidate.needs().iter().find(|feature| facts.lacks.contains(feature));
    if let Some(feature) = lacking {
        return Some(feature.how_to_get());
    }
    if let Some(why) = peer_obstacle(candidate, facts) {
        return Some(why);
    }
    let tunnels = [Feature::Gretap, Feature::Vxlan];
    let tunnelled = candidate.joins_ethernet() && !facts.all_ethernet();
    let none = tunnels.iter().all(|feature| facts.lacks.contains(feature));
    (tunnelled && none)
        .then(|| format!("the links are routed, and {}", Feature::Gretap.how_to_get()))
}

/// What the other end doesn't support.
fn peer_obstacle(candidate: Candidate, facts: &Facts) -> Option<String> {
    let ours = matches!(facts.peer, Peer::Linux | Peer::Braid | Peer::RouterOs);
    let linux = matches!(facts.peer, Peer::Linux | Peer::Braid);
    let told = |text: &str| Some(text.to_owned());
    match candidate {
        Candidate::BestLink | Candidate::Ecmp | Candidate::Pcc => None,
        Candidate::Tunnel if facts.peer != Peer::Braid => {
            told("needs Braid at the other end (a concentrator)")
        }
        Candidate::Mptcp if !linux => {
            told("needs a peer that speaks MPTCP: your own Linux host, with a proxy or mptcpize")
        }
        Candidate::PppoeMultilink if !ours => told("needs PPP multilink at the other end"),
        Candidate::Teql if !linux => told("needs TEQL at the other end: Linux"),
        Candidate::Bonding(mode) => bond_obstacle(mode, facts, ours),
        Candidate::Team(runner) => match runner {
            Runner::Lacp => bond_obstacle(BondMode::Ieee8023ad, facts, ours),
            Runner::ActiveBackup => bond_obstacle(BondMode::ActiveBackup, facts, ours),
            _ => bond_obstacle(BondMode::BalanceRr, facts, ours),
        },
        _ => None,
    }
}

fn bond_obstacle(mode: BondMode, facts: &Facts, ours: bool) -> Option<String> {
    let told = |text: &str| Some(text.to_owned());
    if !facts.all_ethernet() {
        return match mode {
            BondMode::BalanceTlb | BondMode::BalanceAlb => {
                told("depends on network cards' speeds: doesn't work through tunnels")
            }
            _ if !ours => {
                told("the links are routed: needs your own host at the other end of the tunnels")
            }
            _ => None,
        };
    }
    let any_switch =
        matches!(mode, BondMode::ActiveBackup | BondMode::BalanceTlb | BondMode::BalanceAlb);
    match facts.peer {
        Peer::Nobody if any_switch => None,
        Peer::Nobody => told("needs the other end to join the same links"),
        Peer::Switch if mode == BondMode::Broadcast => told("a switch would repeat every frame"),
        _ => None,
    }
}

impl Row {
    /// How a dead link shows, in words.
    pub fn stall_words(&self) -> String {
        let time = |time: std::time::Duration| format!("{:.1} s", time.as_secs_f64());
        match self.estimate.stall {
            Stall::GoesOn(after) if after.is_zero() => "no stall".into(),
            Stall::GoesOn(after) => time(after),
            Stall::Breaks(after) => format!("breaks, {}", time(after)),
            Stall::Never => "not noticed".into(),
        }
    }
}

#[cfg(test)]
mod tests;
