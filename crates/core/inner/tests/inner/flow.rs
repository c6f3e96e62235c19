use crate::build::{ACK, Spec, any_spec};
use braid_inner::{
    BondingHash, FlowKey, Fragment, HashKey, Headers, Layer, Selector, flow_hash, flow_key,
};
use proptest::prelude::*;

fn key_of(bytes: &[u8], layer: Layer) -> FlowKey {
    flow_key(bytes, &Headers::parse(bytes, layer))
}

fn selector_of(bytes: &[u8]) -> Selector {
    match key_of(bytes, Layer::L3) {
        FlowKey::Ip { selector, .. } => selector,
        other => panic!("{other:?}"),
    }
}

/// IPv4 with this protocol and payload; the header checksum is left out.
fn ipv4(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x45, 0, 0, 20 + payload.len() as u8, 0, 0, 0, 0, 64, protocol, 0, 0];
    bytes.extend_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
    bytes.extend_from_slice(payload);
    bytes
}

/// IPv6 with this first next header and payload.
fn ipv6(next: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x60, 0, 0, 0, 0, payload.len() as u8, next, 64];
    bytes.extend_from_slice(&[0xfd; 16]);
    bytes.extend_from_slice(&[0xfe; 16]);
    bytes.extend_from_slice(payload);
    bytes
}

#[test]
fn substitutes_for_ports() {
    let spi = [0xaa, 0xbb, 0xcc, 0xdd, 0, 0, 0, 1];
    assert_eq!(selector_of(&ipv4(50, &spi)), Selector::Spi(0xaabbccdd));
    let ah = [6, 4, 0, 0, 0xaa, 0xbb, 0xcc, 0xdd];
    assert_eq!(selector_of(&ipv4(51, &ah)), Selector::Spi(0xaabbccdd));
    assert_eq!(selector_of(&ipv6(51, &ah)), Selector::Spi(0xaabbccdd));
    let gre = [0, 0, 8, 0, 1, 2, 3, 4];
    assert_eq!(selector_of(&ipv4(47, &gre)), Selector::None);
    let gre_key = [0x20, 0, 8, 0, 1, 2, 3, 4];
    assert_eq!(selector_of(&ipv4(47, &gre_key)), Selector::GreKey(0x01020304));
    let gre_sum_key = [0xa0, 0, 8, 0, 9, 9, 0, 0, 1, 2, 3, 4];
    assert_eq!(selector_of(&ipv4(47, &gre_sum_key)), Selector::GreKey(0x01020304));
    let pptp = [0x30, 1, 0x88, 0x0b, 0, 99, 3, 4];
    assert_eq!(selector_of(&ipv4(47, &pptp)), Selector::GreKey(0x0304));
    for kind in [0, 8] {
        let echo = [kind, 0, 0, 0, 0x12, 0x34, 0, 1];
        assert_eq!(selector_of(&ipv4(1, &echo)), Selector::Echo(0x1234));
    }
    for kind in [128, 129] {
        let echo = [kind, 0, 0, 0, 0x12, 0x34, 0, 1];
        assert_eq!(selector_of(&ipv6(58, &echo)), Selector::Echo(0x1234));
    }
    let unreachable = [3, 1, 0, 0, 0x12, 0x34, 0, 1];
    assert_eq!(selector_of(&ipv4(1, &unreachable)), Selector::None);
    for protocol in [6, 17, 33, 132, 136] {
        let ports = Selector::Ports { src: 0x102, dst: 0x304 };
        assert_eq!(selector_of(&ipv4(protocol, &[1, 2, 3, 4])), ports);
        assert_eq!(selector_of(&ipv4(protocol, &[1, 2, 3])), Selector::None);
    }
    assert_eq!(selector_of(&ipv4(4, &[1, 2, 3, 4])), Selector::None);
}

#[test]
fn all_fragments_share_a_flow_v4() {
    let keys: Vec<FlowKey> = [[0x20, 0], [0x20, 185], [0x00, 200]]
        .map(|field| {
            let mut bytes = ipv4(17, &[1, 2, 3, 4, 0, 8, 0, 0]);
            bytes[6..8].copy_from_slice(&field);
            key_of(&bytes, Layer::L3)
        })
        .to_vec();
    assert_eq!(keys[0], keys[1]);
    assert_eq!(keys[0], keys[2]);
    assert_ne!(keys[0], key_of(&ipv4(17, &[1, 2, 3, 4, 0, 8, 0, 0]), Layer::L3));
}

#[test]
fn all_fragments_share_a_flow_v6() {
    let fragment = |offset: [u8; 2], ports: [u8; 4]| {
        let mut payload = vec![17, 0, offset[0], offset[1], 0, 0, 0, 1];
        payload.extend_from_slice(&ports);
        payload.extend_from_slice(&[0, 8, 0, 0]);
        ipv6(44, &payload)
    };
    let first = key_of(&fragment([0, 1], [1, 2, 3, 4]), Layer::L3);
    assert_eq!(first, key_of(&fragment([5, 0xa9], [9, 9, 9, 9]), Layer::L3));
    assert_eq!(first, key_of(&fragment([5, 0xa8], [8, 8, 8, 8]), Layer::L3));
    // An atomic fragment is a whole packet.
    let atomic = fragment([0, 0], [1, 2, 3, 4]);
    assert_eq!(selector_of(&atomic), Selector::Ports { src: 0x102, dst: 0x304 });
    assert_eq!(Headers::parse(&atomic, Layer::L3).ip.unwrap().fragment, Fragment::Whole);
}

#[test]
fn the_walk_over_extension_headers_ends() {
    let mut payload = vec![0; 8 * 20];
    assert_eq!(selector_of(&ipv6(0, &payload)), Selector::None);
    // Three headers (hop by hop, routing, destination options), then UDP.
    payload.truncate(24);
    (payload[0], payload[8], payload[16]) = (43, 60, 17);
    payload.extend_from_slice(&[1, 2, 3, 4, 0, 8, 0, 0]);
    assert_eq!(selector_of(&ipv6(0, &payload)), Selector::Ports { src: 0x102, dst: 0x304 });
    // A header that claims more than there is.
    payload[1] = 255;
    assert_eq!(selector_of(&ipv6(0, &payload)), Selector::None);
}

#[test]
fn frames_of_other_protocols_go_by_addresses() {
    let mut arp = vec![0; 60];
    arp[5] = 1;
    arp[11] = 2;
    arp[12..14].copy_from_slice(&[8, 6]);
    let key = key_of(&arp, Layer::L2);
    let expected = FlowKey::Ethernet {
        src: [0, 0, 0, 0, 0, 2],
        dst: [0, 0, 0, 0, 0, 1],
        vlan: None,
        ethertype: 0x0806,
    };
    assert_eq!(key, expected);
    let mut llc = arp.clone();
    llc[12..14].copy_from_slice(&[0, 38]);
    let short = key_of(&llc, Layer::L2);
    llc[12..14].copy_from_slice(&[0, 52]);
    assert_eq!(short, key_of(&llc, Layer::L2));
    assert_ne!(short, key);
    assert_eq!(key_of(&arp[..13], Layer::L2), FlowKey::Unreadable);
}

#[test]
fn bonding_hashes_as_the_kernel_documents_them() {
    let mut spec = Spec::tcp(ACK, vec![]);
    spec.tags = Some(vec![]);
    let hash = |policy: BondingHash, spec: &Spec| {
        let bytes = spec.bytes();
        policy.hash(&bytes, &Headers::parse(&bytes, spec.layer()))
    };
    // MACs end in 1 and 2, addresses are 10.9.0.1 and 10.9.0.2, ports 40000
    // (0x9c40) and 40001 (0x9c41): by hand.
    assert_eq!(hash(BondingHash::Layer2, &spec), 1 ^ 2 ^ 0x0800);
    let addresses = 0x0300_0000;
    let with = 0x0803 ^ addresses;
    let with = with ^ with >> 16;
    assert_eq!(hash(BondingHash::Layer23, &spec), with ^ with >> 8);
    let ports = 0x419c_409c ^ addresses;
    let ports = ports ^ ports >> 16;
    assert_eq!(hash(BondingHash::Layer34, &spec), (ports ^ ports >> 8) >> 1);

    // Bare IP: documented fallback.
    spec.tags = None;
    assert_eq!(hash(BondingHash::Layer2, &spec), 1 ^ 2 ^ 0x0800);
    let with = 0x0800 ^ addresses;
    let with = with ^ with >> 16;
    assert_eq!(hash(BondingHash::Layer23, &spec), with ^ with >> 8);

    // IPv6 addresses fd00::1 and fd00::2: their words XORed.
    spec.v6 = true;
    let ports = 0x419c_409c ^ 0x0300_0000;
    let ports = ports ^ ports >> 16;
    assert_eq!(hash(BondingHash::Layer34, &spec), (ports ^ ports >> 8) >> 1);
}

#[test]
fn bonding_layer34_of_fragments_leaves_ports_out() {
    let hash = |bytes: &[u8]| BondingHash::Layer34.hash(bytes, &Headers::parse(bytes, Layer::L3));
    let mut first = ipv4(17, &[1, 2, 3, 4, 0, 8, 0, 0]);
    let mut later = ipv4(17, &[9, 9, 9, 9, 9, 9, 9, 9]);
    assert_ne!(hash(&first), hash(&later));
    first[6] = 0x20;
    later[7] = 1;
    assert_eq!(hash(&first), hash(&later));
    let echo = |id: u8| hash(&ipv4(1, &[8, 0, 0, 0, 0, id, 0, 1]));
    assert_ne!(echo(2), echo(4));
}

#[test]
fn hashes_spread_and_depend_on_the_key() {
    let bytes = |port: u16| {
        let mut spec = Spec::udp(vec![]);
        spec.sport = port;
        spec.bytes()
    };
    let mut buckets = [0; 16];
    for port in 0..1600 {
        let hash = flow_hash(&bytes(port), Layer::L3, &HashKey::new([3; 16]));
        buckets[(hash % 16) as usize] += 1;
    }
    assert!(buckets.iter().all(|&count| (50..200).contains(&count)), "{buckets:?}");
    let one = bytes(1);
    assert_ne!(
        flow_hash(&one, Layer::L3, &HashKey::new([3; 16])),
        flow_hash(&one, Layer::L3, &HashKey::new([4; 16])),
    );
}

proptest! {
    #[test]
    fn ports_are_found_behind_tags_options_and_extensions(spec in any_spec(0..100)) {
        let FlowKey::Ip { protocol, selector, .. } = key_of(&spec.bytes(), spec.layer()) else {
            panic!("not seen as IP");
        };
        prop_assert_eq!(selector, Selector::Ports { src: spec.sport, dst: spec.dport });
        prop_assert_eq!(protocol == 17, spec.checksum_offset() == 6);
    }

    #[test]
    fn a_flow_is_its_five_tuple(a in any_spec(0..50), mut b in any_spec(0..50)) {
        let hash = |spec: &Spec| {
            flow_hash(&spec.bytes(), spec.layer(), &HashKey::new([5; 16]))
        };
        (b.v6, b.between) = (a.v6, 0);
        (b.src, b.dst, b.sport, b.dport) = (a.src, a.dst, a.sport, a.dport);
        let same_protocol = a.checksum_offset() == b.checksum_offset();
        prop_assert_eq!(hash(&a) == hash(&b), same_protocol);
        let mut c = a.clone();
        c.sport ^= 1;
        prop_assert_ne!(hash(&a), hash(&c));
    }
}
