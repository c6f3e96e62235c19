use super::super::{Adjacency, LinkFacts};
use super::*;
use braid_units::{Rate, Ratio};
use std::time::Duration;

fn link(mbit: u64, rtt_ms: u64, loss: f64, adjacency: Adjacency) -> LinkFacts {
    LinkFacts {
        name: format!("{mbit}M"),
        down: Some(Rate::from_mbit(mbit)),
        up: None,
        rtt: Some(Duration::from_millis(rtt_ms)),
        loss: Some(Ratio::from_fraction(loss)),
        mtu: 1500,
        adjacency,
    }
}

/// Two equal cables between two Linux boxes.
fn cables(peer: Peer) -> Facts {
    let cable = || link(1000, 0, 0.0, Adjacency::Ethernet);
    Facts { links: vec![cable(), cable()], peer, lacks: Vec::new() }
}

/// Three unequal lines of the Internet.
fn mix(peer: Peer) -> Facts {
    let routed = |mbit, rtt| link(mbit, rtt, 0.0, Adjacency::Routed);
    Facts { links: vec![routed(30, 15), routed(20, 40), routed(10, 80)], peer, lacks: Vec::new() }
}

fn of(rows: &[Row], candidate: Candidate) -> &Row {
    rows.iter().find(|row| row.candidate == candidate).unwrap()
}

fn place(rows: &[Row], candidate: Candidate) -> usize {
    rows.iter().position(|row| row.candidate == candidate).unwrap()
}

#[test]
fn equal_cables_are_joined_by_turns_and_unequal_lines_are_not() {
    let rr = Candidate::Bonding(BondMode::BalanceRr);
    let home = rank(&cables(Peer::Linux), Wish::One);
    assert_eq!(home[0].candidate, rr);
    assert_eq!(home[0].estimate.one, Rate::from_mbit(2000));
    let wan = rank(&mix(Peer::Braid), Wish::One);
    assert_eq!(wan[0].candidate, Candidate::Tunnel);
    assert!(place(&wan, Candidate::Mptcp) < place(&wan, rr));
    let measured = of(&wan, rr).estimate.one.mbit();
    assert!((15.0..26.0).contains(&measured), "measured 20.3, estimated {measured}");
    let reasons = of(&wan, rr).estimate.reasons.join(" ");
    assert!(reasons.contains("out of order") && reasons.contains("tunnel"), "{reasons}");
}

#[test]
fn a_delay_on_one_fast_link_ruins_turns() {
    let mut facts = cables(Peer::Linux);
    facts.links =
        vec![link(200, 0, 0.0, Adjacency::Ethernet), link(200, 10, 0.0, Adjacency::Ethernet)];
    let rows = rank(&facts, Wish::One);
    let rr = of(&rows, Candidate::Bonding(BondMode::BalanceRr));
    assert!(rr.estimate.one < Rate::from_mbit(20), "{:?}", rr.estimate);
    let multilink = of(&rows, Candidate::PppoeMultilink);
    assert!(multilink.estimate.one > Rate::from_mbit(300), "{:?}", multilink.estimate);
}

#[test]
fn loss_holds_connections_back_but_not_the_tunnel() {
    let mut facts = mix(Peer::Braid);
    facts.links = (0..6).map(|_| link(6, 60, 0.005, Adjacency::Routed)).collect();
    let rows = rank(&facts, Wish::One);
    assert_eq!(rows[0].candidate, Candidate::Tunnel);
    let mptcp = of(&rows, Candidate::Mptcp).estimate.one.mbit();
    assert!((12.0..22.0).contains(&mptcp), "measured 16 of 36, estimated {mptcp}");
}

#[test]
fn loss_holds_many_connections_back_too() {
    let facts = |loss| Facts {
        links: vec![link(1000, 50, loss, Adjacency::Routed); 2],
        peer: Peer::Linux,
        lacks: Vec::new(),
    };
    for candidate in [
        Candidate::BestLink,
        Candidate::Mptcp,
        Candidate::Ecmp,
        Candidate::Bonding(BondMode::BalanceRr),
        Candidate::Bonding(BondMode::BalanceTlb),
        Candidate::PppoeMultilink,
    ] {
        let many = |loss| of(&rank(&facts(loss), Wish::Many), candidate).estimate.many;
        assert!(many(0.05) < many(0.0).scaled(0.1), "{candidate}: {}", many(0.05));
    }
}

#[test]
fn without_a_peer_only_routing_by_flow_is_left() {
    for wish in Wish::ALL {
        let rows = rank(&mix(Peer::Nobody), *wish);
        let usable: Vec<Candidate> =
            rows.iter().filter(|row| row.obstacle.is_none()).map(|row| row.candidate).collect();
        assert_eq!(usable.len(), 3, "{usable:?}");
        for candidate in [Candidate::Ecmp, Candidate::Pcc, Candidate::BestLink] {
            assert!(usable.contains(&candidate), "{candidate} in {usable:?}");
        }
        let unusable = rows.iter().skip(3).all(|row| row.obstacle.is_some());
        assert!(unusable, "what can't be used comes last");
    }
    let rows = rank(&cables(Peer::Nobody), Wish::NeverBreak);
    let bond = |mode| of(&rows, Candidate::Bonding(mode)).obstacle.clone();
    assert_eq!(bond(BondMode::ActiveBackup), None, "works with any switch");
    assert!(bond(BondMode::Ieee8023ad).is_some());
}

#[test]
fn copies_never_stall_and_what_nobody_notices_comes_last() {
    let rows = rank(&cables(Peer::Linux), Wish::NeverBreak);
    assert_eq!(rows[0].candidate, Candidate::Bonding(BondMode::Broadcast));
    assert!(place(&rows, Candidate::Ecmp) < place(&rows, Candidate::Teql));
    assert_eq!(of(&rows, Candidate::Teql).stall_words(), "not noticed");
    assert!(of(&rows, Candidate::Tunnel).obstacle.is_some(), "no Braid there");
}

#[test]
fn what_the_kernel_lacks_is_named() {
    let facts = Facts { lacks: vec![Feature::Bonding, Feature::Gretap], ..cables(Peer::Linux) };
    let rows = rank(&facts, Wish::One);
    let bond = of(&rows, Candidate::Bonding(BondMode::BalanceRr));
    assert!(bond.obstacle.as_ref().unwrap().contains("modprobe bonding"), "{bond:?}");
    assert_eq!(of(&rows, Candidate::Teql).obstacle, None);
    let single = Facts { links: facts.links[..1].to_vec(), ..facts };
    let rows = rank(&single, Wish::One);
    assert_eq!(rows[0].candidate, Candidate::BestLink);
    assert!(rows[1..].iter().all(|row| row.obstacle.is_some()));
}
