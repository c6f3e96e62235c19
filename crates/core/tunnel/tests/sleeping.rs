//! A tunnel with nothing to do sleeps.

use braid_handshake::PrivateKey;
use braid_tunnel::{LinkConfig, LinkId, PeerConfig, Tunnel, TunnelConfig};
use braid_units::Time;
use std::time::Duration;

#[test]
fn a_home_that_gets_no_answer_sleeps_between_its_calls() {
    let mut home = Tunnel::new(TunnelConfig::new(PrivateKey::from_bytes(&[1; 32])));
    for link in 0..4 {
        home.add_link(LinkId(link), LinkConfig::default(), Time::ZERO);
    }
    let concentrator = PeerConfig {
        endpoints: vec!["203.0.113.1:51820".parse().expect("an address")],
        keepalive: Some(Duration::from_secs(25)),
        ..PeerConfig::new(PrivateKey::from_bytes(&[2; 32]).public_key())
    };
    home.add_peer(concentrator, Time::ZERO);

    let (mut now, mut woken, mut sent) = (Time::ZERO, 0, 0);
    let mut out = Vec::new();
    while now < Time::from_millis(60_000) {
        home.handle_timeout(now);
        while home.poll_transmit(now, &mut out).is_some() {
            sent += 1;
        }
        woken += 1;
        assert!(woken < 1000, "woken {woken} times in {:?}", now - Time::ZERO);
        now = now.max(home.next_timeout().expect("it calls again"));
    }
    assert!(sent >= 4 * 10, "each link calls every 5 s, and more often at first: {sent}");
}
