use super::*;
use braid_tunnel::{PathShare, TrafficReport};

fn key(host: u8, port: u16) -> FlowKey {
    let selector = Selector::Ports { src: port, dst: 443 };
    let (src, dst) = (IpAddr::from([192, 168, 7, host]), IpAddr::from([203, 0, 113, 7]));
    FlowKey::Ip { src, dst, protocol: 6, selector }
}

fn flow(host: u8, port: u16, received: u64, sent: u64) -> FlowReport {
    FlowReport {
        key: key(host, port),
        class: Class::Bulk,
        began: Time::from_millis(5),
        age: Duration::from_secs(7),
        silent_for: Duration::ZERO,
        carried: Carried { received_bytes: received, sent_bytes: sent, ..Carried::default() },
        repaired_bytes: 3,
        copied_bytes: 0,
        paths: [(0, 60), (1, 30), (2, 10)]
            .map(|(path, received_bytes)| PathShare { path, sent_bytes: 0, received_bytes })
            .to_vec(),
    }
}

fn seen(flows: Vec<FlowReport>) -> Arc<Vec<PeerFlows>> {
    let links = [(0, "dsl".to_owned()), (1, "lte".to_owned()), (2, "dsl".to_owned())];
    let report = TrafficReport { flows, others: Carried::default() };
    Arc::new(vec![PeerFlows { peer: "vps".into(), report, links: links.into() }])
}

fn tablet() -> Lease {
    let text = "1700000000 aa:bb:cc:dd:ee:01 192.168.7.20 tablet *\n";
    braid_rules::read_leases(text).remove(0)
}

#[test]
fn devices_have_names_rates_and_sums_that_outlive_their_flows() {
    let start = Instant::now();
    let second = |n: u64| start + Duration::from_secs(n);
    let mut watch = FlowWatch::new(true, Vec::new(), start);
    let (leases, both) = ([tablet()], vec![flow(20, 1, 1_000_000, 10), flow(30, 2, 500, 500)]);
    let seconds = watch.look(&seen(both), &leases, false, second(1));
    let of =
        |name: &str, rx_bytes, tx_bytes| DeviceSecond { name: name.into(), rx_bytes, tx_bytes };
    assert_eq!(seconds, [of("tablet", 1_000_000, 10), of("192.168.7.30", 500, 500)]);
    let shown = watch.shown();
    assert_eq!((shown.flows_known, shown.flows[0].remote.as_str()), (2, "203.0.113.7:443"));
    let first = &shown.flows[0];
    assert_eq!((first.local.as_str(), first.protocol.as_str()), ("192.168.7.20:1", "tcp"));
    assert_eq!((first.rate_rx_mbps, first.age_s, first.retransmitted_bytes), (8.0, 7.0, 3));
    // Two paths by one link are one.
    let shares: Vec<(&str, u64)> =
        first.links.iter().map(|share| (share.link.as_str(), share.rx_bytes)).collect();
    assert_eq!(shares, [("dsl", 70), ("lte", 30)]);

    // The tablet's flow has gone, and another of its has come.
    let now = seen(vec![flow(20, 3, 2_000_000, 0), flow(30, 2, 500, 500)]);
    let seconds = watch.look(&now, &leases, false, second(3));
    assert_eq!(seconds, [of("tablet", 2_000_000, 0)]);
    let shown = watch.shown();
    let [tablet, idle] = shown.devices.as_slice() else { panic!("{shown:?}") };
    assert_eq!((tablet.rx_bytes, tablet.rate_rx_mbps, tablet.flows), (3_000_000, 8.0, 1));
    assert_eq!((idle.name.as_str(), idle.rate_rx_mbps, idle.rx_bytes), ("192.168.7.30", 0.0, 500));
    // Nothing new: nothing is counted twice.
    assert_eq!(watch.look(&now, &leases, false, second(4)), []);
}

#[test]
fn at_a_concentrator_the_device_is_at_the_homes_end() {
    let start = Instant::now();
    let mut watch = FlowWatch::new(false, Vec::new(), start);
    let to_home = FlowReport { key: key(20, 1).reversed(), ..flow(20, 1, 5, 100) };
    watch.look(&seen(vec![to_home]), &[], false, start + Duration::from_secs(1));
    let shown = watch.shown();
    let flow = &shown.flows[0];
    assert_eq!((flow.device.as_str(), flow.local.as_str()), ("192.168.7.20", "192.168.7.20:1"));
    assert_eq!((flow.remote.as_str(), shown.devices[0].tx_bytes), ("203.0.113.7:443", 100));
}

#[test]
fn thousands_of_devices_are_bounded_and_history_keeps_the_busiest() {
    let start = Instant::now();
    let mut watch = FlowWatch::new(true, Vec::new(), start);
    for round in 1..=20_u64 {
        let of = |n: u8| {
            let third = u8::try_from(round).unwrap();
            let mut flow = flow(n, 1, 1000 + u64::from(n), 0);
            if let FlowKey::Ip { src, .. } = &mut flow.key {
                *src = IpAddr::from([10, third, 0, n]);
            }
            flow
        };
        let flows = seen((0..250).map(of).collect());
        let seconds = watch.look(&flows, &[], false, start + Duration::from_secs(round));
        let sum: u64 = seconds.iter().map(|second| second.rx_bytes).sum();
        assert_eq!(sum, (1234..1250).sum::<u64>());
        let together = seconds.iter().any(|second| second.name == "others");
        assert_eq!(together, round > 12, "{round}: {seconds:?}");
    }
    assert_eq!(watch.shown().devices.len(), 1000);
}

#[test]
fn a_devices_own_words_are_no_more_than_a_name() {
    assert_eq!(plain("My Tab<let>\u{1b}[2J"), "My_Tab_let___2J");
    assert_eq!(plain(&"x".repeat(500)).len(), 63);
}
