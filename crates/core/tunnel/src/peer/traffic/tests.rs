use super::*;
use braid_inner::Selector;
use std::net::IpAddr;

const NOW: Time = Time::from_millis(1000);

fn key(host: u8, port: u16) -> FlowKey {
    let address = |last: u8| IpAddr::from([10, 0, 0, last]);
    let selector = Selector::Ports { src: port, dst: 443 };
    FlowKey::Ip { src: address(host), dst: address(200), protocol: 6, selector }
}

fn traffic() -> Traffic {
    Traffic::new(Layer::L3, HashKey::new([3; 16]))
}

/// A TCP packet of so many bytes from the server to this port of the host.
fn answer(host: u8, port: u16, len: usize) -> Vec<u8> {
    let mut bytes = vec![0x45, 0];
    bytes.extend((len as u16).to_be_bytes());
    bytes.extend([0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 200, 10, 0, 0, host]);
    bytes.extend(443u16.to_be_bytes());
    bytes.extend(port.to_be_bytes());
    bytes.extend([0; 8]);
    bytes.extend([0x50, 0x10, 0, 0, 0, 0, 0, 0]);
    bytes.resize(len, 0);
    bytes
}

fn admit(traffic: &mut Traffic, place: u16, key: FlowKey, len: u64, now: Time) {
    let hash = key.hash(&HashKey::new([3; 16]));
    traffic.on_admitted(place, (&key, hash), Class::PureAck, len, now);
}

fn flow_of(report: &TrafficReport, key: FlowKey) -> Option<&FlowReport> {
    report.flows.iter().find(|flow| flow.key == key)
}

#[test]
fn both_ways_of_a_connection_are_one_flow_and_its_paths_are_known() {
    let mut traffic = traffic();
    admit(&mut traffic, 7, key(1, 5000), 60, NOW);
    traffic.on_sent(7, 0, 60, Sending::First);
    traffic.on_sent(7, 1, 60, Sending::Copy);
    traffic.on_sent(7, 1, 20, Sending::Repair);
    traffic.on_delivered(900, &answer(1, 5000, 1400), NOW);
    traffic.on_arrived(900, 1, 700);
    traffic.on_arrived(900, 0, 700);
    // Of another's place nothing is known.
    traffic.on_arrived(901, 0, 700);
    let report = traffic.report(MOST_FLOWS, NOW + Duration::from_secs(1));
    let [flow] = report.flows.as_slice() else { panic!("{report:?}") };
    let carried =
        Carried { sent_bytes: 60, sent_packets: 1, received_bytes: 1400, received_packets: 1 };
    assert_eq!((flow.key, flow.carried), (key(1, 5000), carried));
    assert_eq!((flow.class, flow.repaired_bytes, flow.copied_bytes), (Class::Bulk, 20, 60));
    let shares = [(0, 60, 700), (1, 80, 700)].map(|(path, sent_bytes, received_bytes)| PathShare {
        path,
        sent_bytes,
        received_bytes,
    });
    assert_eq!(flow.paths, shares);
    assert_eq!(flow.silent_for, Duration::from_secs(1));
    assert_eq!(report.others, Carried::default());
}

#[test]
fn flows_that_share_a_place_are_told_apart() {
    let mut traffic = traffic();
    for _ in 0..3 {
        admit(&mut traffic, 7, key(1, 5000), 100, NOW);
        admit(&mut traffic, 7, key(2, 5000), 10, NOW);
        traffic.on_delivered(7, &answer(1, 5000, 1000), NOW);
        traffic.on_delivered(7, &answer(2, 5000, 500), NOW);
    }
    let report = traffic.report(MOST_FLOWS, NOW);
    assert_eq!(report.flows.len(), 2);
    let bytes = |host| {
        let carried = flow_of(&report, key(host, 5000)).unwrap().carried;
        (carried.sent_bytes, carried.received_bytes)
    };
    assert_eq!((bytes(1), bytes(2)), ((300, 3000), (30, 1500)));
}

#[test]
fn there_are_bounds_and_what_has_no_place_is_counted_all_the_same() {
    let mut traffic = traffic();
    for round in 0..3 {
        for port in 0..3000 {
            admit(&mut traffic, port % FLOWS as u16, key(1, port), 100, NOW);
        }
        assert!(traffic.flows.len() <= MOST_FLOWS);
        let report = traffic.report(MOST_FLOWS, NOW);
        if round == 0 {
            let flows: u64 = report.flows.iter().map(|flow| flow.carried.sent_bytes).sum();
            assert_eq!(flows + report.others.sent_bytes, 300_000);
            assert_eq!(report.others.sent_packets as usize, 3000 - MOST_FLOWS);
        }
    }
    assert_eq!(traffic.flows.len(), MOST_FLOWS * LEFT_FULL.0 / LEFT_FULL.1);
    // One that carries much finds a place beside thousands that come and go.
    admit(&mut traffic, 9, key(9, 9), 1_000_000, NOW);
    for port in 0..3000 {
        admit(&mut traffic, port % FLOWS as u16, key(2, port), 100, NOW);
    }
    traffic.report(64, NOW);
    let report = traffic.report(64, NOW);
    assert_eq!(report.flows.len(), 48);
    assert!(flow_of(&report, key(9, 9)).is_some());
}

#[test]
fn a_flow_that_is_over_goes_and_others_keep_their_figures() {
    let mut traffic = traffic();
    admit(&mut traffic, 1, key(1, 1), 100, NOW);
    admit(&mut traffic, 2, key(2, 2), 100, NOW);
    let later = NOW + OVER;
    admit(&mut traffic, 2, key(2, 2), 100, later);
    assert_eq!(traffic.report(MOST_FLOWS, later).flows.len(), 2);
    traffic.rest(later);
    admit(&mut traffic, 2, key(2, 2), 100, later);
    traffic.on_sent(2, 0, 100, Sending::First);
    let report = traffic.report(MOST_FLOWS, later);
    let [flow] = report.flows.as_slice() else { panic!("{report:?}") };
    assert_eq!((flow.key, flow.carried.sent_bytes), (key(2, 2), 300));
    assert_eq!(flow.paths.len(), 1);
    // It comes back, and begins anew.
    admit(&mut traffic, 1, key(1, 1), 7, later);
    let report = traffic.report(MOST_FLOWS, later);
    assert_eq!(flow_of(&report, key(1, 1)).unwrap().carried.sent_bytes, 7);
}

#[test]
fn packets_of_the_kernels_modes_count_too() {
    let mut traffic = traffic();
    let packet = answer(1, 5000, 1400);
    let headers = Headers::parse(&packet, Layer::L3);
    traffic.on_bonded(&packet, &headers, NOW);
    traffic.on_bonded(&packet, &headers, NOW);
    let report = traffic.report(MOST_FLOWS, NOW);
    let [flow] = report.flows.as_slice() else { panic!("{report:?}") };
    assert_eq!((flow.carried.sent_bytes, flow.class), (2800, Class::Bulk));
}

#[test]
fn a_download_that_began_small_is_one_all_the_same() {
    let mut traffic = traffic();
    for len in [52, 60, 1400, 60, 52] {
        traffic.on_delivered(3, &answer(1, 5000, len), NOW);
    }
    let report = traffic.report(MOST_FLOWS, NOW);
    let [flow] = report.flows.as_slice() else { panic!("{report:?}") };
    assert_eq!((flow.class, flow.carried.received_packets), (Class::Bulk, 5));
    assert_eq!(flow.carried.received_bytes, 1624);
}

#[test]
fn a_busy_place_is_looked_at_now_and_then_and_little_is_taken_for_anothers() {
    let mut traffic = traffic();
    for (host, packets) in [(1, 1000), (2, 1000), (1, 1)] {
        for _ in 0..packets {
            traffic.on_delivered(3, &answer(host, 5000, 1000), NOW);
        }
    }
    let later = NOW + Duration::from_millis(900);
    let report = traffic.report(MOST_FLOWS, later);
    let packets =
        |host| flow_of(&report, key(host, 5000)).unwrap().carried.received_packets as usize;
    assert_eq!(packets(1) + packets(2), 2001);
    assert!(packets(1).abs_diff(1001) <= usize::from(runs::MOST_UNSEEN), "{report:?}");
    // Asked about each second it looks at each packet of what is slow.
    traffic.on_delivered(3, &answer(2, 5000, 1000), later);
    let report = traffic.report(MOST_FLOWS, later);
    assert_eq!(flow_of(&report, key(2, 5000)).unwrap().silent_for, Duration::ZERO);
    let known = packets(2);
    let carried = flow_of(&report, key(2, 5000)).unwrap().carried;
    assert_eq!(carried.received_packets as usize, known + 1);
}
