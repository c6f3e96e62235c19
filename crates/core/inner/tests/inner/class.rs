use crate::build::{ACK, FIN, PSH, RST, SYN, Spec, Transport, any_spec};
use braid_inner::{Class, ClassIndex, ClassRule, ClassRules, Headers, Layer};
use proptest::prelude::*;

fn class_of(spec: &Spec) -> Class {
    let bytes = spec.bytes();
    Class::of(&bytes, &Headers::parse(&bytes, spec.layer()))
}

fn udp(dport: u16, payload: Vec<u8>) -> Spec {
    let mut spec = Spec::udp(payload);
    spec.dport = dport;
    spec
}

#[test]
fn tcp() {
    let tcp = |flags, len| class_of(&Spec::tcp(flags, vec![0; len]));
    assert_eq!(tcp(SYN, 0), Class::Precious);
    assert_eq!(tcp(SYN | ACK, 0), Class::Precious);
    assert_eq!(tcp(RST, 0), Class::Precious);
    assert_eq!(tcp(FIN | ACK, 0), Class::Precious);
    assert_eq!(tcp(FIN | ACK, 60000), Class::Bulk);
    assert_eq!(tcp(ACK, 0), Class::PureAck);
    assert_eq!(tcp(ACK | PSH, 1), Class::Interactive);
    assert_eq!(tcp(ACK | PSH, 128), Class::Interactive);
    assert_eq!(tcp(ACK, 129), Class::Bulk);
    let mut with_options = Spec::tcp(ACK, vec![]);
    with_options.transport = Transport::Tcp { seq: 1, ack: 1, flags: ACK, options: vec![1; 36] };
    assert_eq!(class_of(&with_options), Class::PureAck);
}

#[test]
fn services_that_everything_waits_for() {
    for port in [53, 853, 5353, 67, 68, 123, 546, 547] {
        assert_eq!(class_of(&udp(port, vec![0; 600])), Class::Precious, "{port}");
    }
    // A VPN that hides behind port 53.
    assert_eq!(class_of(&udp(53, vec![0; 1400])), Class::Bulk);
    let mut dns = Spec::tcp(ACK | PSH, vec![0; 300]);
    dns.sport = 53;
    assert_eq!(class_of(&dns), Class::Precious);
    dns.payload = vec![0; 1400];
    assert_eq!(class_of(&dns), Class::Bulk);
}

#[test]
fn realtime() {
    assert_eq!(class_of(&udp(9, vec![0; 372])), Class::Realtime);
    assert_eq!(class_of(&udp(9, vec![0; 373])), Class::Bulk);
    let mut rtp = vec![0; 1200];
    (rtp[0], rtp[1]) = (0x90, 0xe0);
    assert_eq!(class_of(&udp(9, rtp.clone())), Class::Realtime);
    assert_eq!(class_of(&udp(4500, rtp.clone())), Class::Bulk);
    rtp[0] = 0x40;
    assert_eq!(class_of(&udp(9, rtp)), Class::Bulk);
    for (dscp, class) in [(46, Class::Realtime), (34, Class::Realtime), (8, Class::Bulk)] {
        let mut spec = Spec::tcp(ACK, vec![0; 1000]);
        spec.tos = dscp << 2 | 1;
        assert_eq!(class_of(&spec), class);
        spec.v6 = true;
        assert_eq!(class_of(&spec), class);
    }
}

#[test]
fn fragments_are_bulk_except_icmp() {
    let mut bytes = udp(53, vec![0; 8]).bytes();
    bytes[6] = 0x20;
    assert_eq!(Class::of(&bytes, &Headers::parse(&bytes, Layer::L3)), Class::Bulk);
    bytes[9] = 1;
    assert_eq!(Class::of(&bytes, &Headers::parse(&bytes, Layer::L3)), Class::Precious);
}

#[test]
fn frames() {
    let class = |ethertype: u16| {
        let mut bytes = vec![0; 60];
        bytes[12..14].copy_from_slice(&ethertype.to_be_bytes());
        Class::of(&bytes, &Headers::parse(&bytes, Layer::L2))
    };
    for ethertype in [0x0806, 0x88cc, 0x888e, 38] {
        assert_eq!(class(ethertype), Class::Precious);
    }
    assert_eq!(class(0x8864), Class::Bulk);
    assert_eq!(Class::of(&[], &Headers::parse(&[], Layer::L2)), Class::Bulk);
}

#[test]
fn rules_fit_by_every_condition() {
    let spec = {
        let mut spec = udp(5000, vec![0; 20]);
        spec.tos = 8 << 2;
        spec
    };
    let bytes = spec.bytes();
    let headers = Headers::parse(&bytes, Layer::L3);
    let any = ClassRule::any(ClassIndex(1));
    let fits = |rule: ClassRule| rule.fits(&bytes, &headers);
    assert!(fits(any.clone()));
    assert!(fits(ClassRule { dscp: Some(8), ..any.clone() }));
    assert!(!fits(ClassRule { dscp: Some(9), ..any.clone() }));
    assert!(fits(ClassRule { protocol: Some(17), ..any.clone() }));
    assert!(!fits(ClassRule { protocol: Some(6), ..any.clone() }));
    assert!(fits(ClassRule { dst_port: Some(4000..=5000), ..any.clone() }));
    assert!(!fits(ClassRule { dst_port: Some(5001..=6000), ..any.clone() }));
    assert!(fits(ClassRule { src_port: Some(40000..=40000), ..any.clone() }));
    assert!(!fits(ClassRule { src_port: Some(5000..=5000), ..any.clone() }));
    let prefix = |text: &str| Some(text.parse().unwrap());
    assert!(fits(ClassRule { src: prefix("10.9.0.0/24"), ..any.clone() }));
    assert!(!fits(ClassRule { src: prefix("10.9.1.0/24"), ..any.clone() }));
    assert!(fits(ClassRule { dst: prefix("10.9.0.2/32"), ..any.clone() }));
    assert!(!fits(ClassRule { dst: prefix("::/0"), ..any.clone() }));
    let mut arp = vec![0; 60];
    arp[12..14].copy_from_slice(&[8, 6]);
    assert!(!any.fits(&arp, &Headers::parse(&arp, Layer::L2)));
}

proptest! {
    #[test]
    fn the_first_rule_that_fits_decides(spec in any_spec(0..50), cut: u16) {
        let below = ClassRule { src_port: Some(0..=cut), ..ClassRule::any(ClassIndex(1)) };
        let rules = ClassRules(vec![below, ClassRule::any(ClassIndex(2))]);
        let bytes = spec.bytes();
        let found = rules.class_of(&bytes, &Headers::parse(&bytes, spec.layer()));
        prop_assert_eq!(found, Some(ClassIndex(if spec.sport <= cut { 1 } else { 2 })));
        prop_assert_eq!(ClassRules::default().class_of(&bytes, &Headers::parse(&bytes, spec.layer())), None);
    }
}
