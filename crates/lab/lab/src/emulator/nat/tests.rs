use super::*;
use braid_inner::checksum;
use proptest::prelude::*;

const HOME: Ipv4Addr = Ipv4Addr::new(192, 168, 11, 2);
const PUBLIC: Ipv4Addr = Ipv4Addr::new(100, 64, 1, 2);
const SERVER: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(203, 0, 113, 1), 51820);
const OTHER: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(203, 0, 113, 9), 53);

fn nat() -> Nat {
    Nat::new(HOME, PUBLIC, 5)
}

/// An IPv4 packet with valid checksums.
fn ip(protocol: u8, source: Ipv4Addr, destination: Ipv4Addr, body: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 0, 0, 7, 0, 0, 64, protocol, 0, 0];
    packet.extend(source.octets());
    packet.extend(destination.octets());
    packet.extend(body);
    let total = packet.len() as u16;
    packet[2..4].copy_from_slice(&total.to_be_bytes());
    let sum = !checksum::sum(&packet[..20]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet
}

fn pseudo_sum(packet: &[u8]) -> u16 {
    let mut bytes = packet[12..20].to_vec();
    bytes.extend([0, packet[9]]);
    bytes.extend(((packet.len() - 20) as u16).to_be_bytes());
    bytes.extend(&packet[20..]);
    !checksum::sum(&bytes)
}

fn transport(protocol: u8, from: SocketAddrV4, to: SocketAddrV4, data: &[u8]) -> Vec<u8> {
    let (length, at) = if protocol == 6 { (20, 16) } else { (8, 6) };
    let mut body = vec![0; length];
    body[..2].copy_from_slice(&from.port().to_be_bytes());
    body[2..4].copy_from_slice(&to.port().to_be_bytes());
    body.extend(data);
    let mut packet = ip(protocol, *from.ip(), *to.ip(), &body);
    let sum = pseudo_sum(&packet);
    packet[20 + at..22 + at].copy_from_slice(&sum.to_be_bytes());
    packet
}

fn icmp(source: Ipv4Addr, destination: Ipv4Addr, message: &[u8]) -> Vec<u8> {
    let mut packet = ip(1, source, destination, message);
    let sum = !checksum::sum(&packet[20..]);
    packet[22..24].copy_from_slice(&sum.to_be_bytes());
    packet
}

fn home(port: u16) -> SocketAddrV4 {
    SocketAddrV4::new(HOME, port)
}

fn source(packet: &[u8]) -> SocketAddrV4 {
    let header = Header::read(packet).unwrap();
    let protocol = match ipv4::payload(packet, &header) {
        Payload::Flow(protocol) => protocol,
        other => panic!("{other:?}"),
    };
    ipv4::endpoint(packet, &header, protocol, Side::Source).unwrap()
}

fn send(nat: &mut Nat, now: Time, from: SocketAddrV4, to: SocketAddrV4) -> SocketAddrV4 {
    let mut packet = transport(17, from, to, b"hello");
    nat.outbound(now, &mut packet).unwrap();
    source(&packet)
}

#[test]
fn both_ways_with_right_checksums() {
    for protocol in [6, 17] {
        let mut nat = nat();
        let mut packet = transport(protocol, home(4000), SERVER, b"question");
        nat.outbound(Time::ZERO, &mut packet).unwrap();
        let outside = source(&packet);
        assert_eq!(*outside.ip(), PUBLIC);
        assert_eq!(!checksum::sum(&packet[..20]), 0);
        assert_eq!(pseudo_sum(&packet), 0);

        let mut answer = transport(protocol, SERVER, outside, b"answer!");
        nat.inbound(Time::ZERO, &mut answer).unwrap();
        assert_eq!(answer, transport(protocol, SERVER, home(4000), b"answer!"));
    }
}

#[test]
fn only_those_written_to_get_in() {
    let mut nat = nat();
    let outside = send(&mut nat, Time::ZERO, home(4000), SERVER);
    let mut stranger = transport(17, OTHER, outside, b"");
    assert_eq!(nat.inbound(Time::ZERO, &mut stranger), Err(NatRefusal::NoMapping));
    // One mapping is used for all peers, which may then answer.
    assert_eq!(send(&mut nat, Time::ZERO, home(4000), OTHER), outside);
    let mut known = transport(17, OTHER, outside, b"");
    assert_eq!(nat.inbound(Time::ZERO, &mut known), Ok(()));
    let mut spoofed = transport(17, OTHER, SERVER, b"");
    assert_eq!(nat.outbound(Time::ZERO, &mut spoofed), Err(NatRefusal::ForeignAddress));
}

#[test]
fn rebinding_changes_address_and_ports() {
    let mut nat = nat();
    let before = send(&mut nat, Time::ZERO, home(4000), SERVER);
    let next = Ipv4Addr::new(100, 64, 1, 3);
    nat.rebind(next);
    let mut late = transport(17, SERVER, before, b"");
    assert_eq!(nat.inbound(Time::ZERO, &mut late), Err(NatRefusal::ForeignAddress));
    let after = send(&mut nat, Time::ZERO, home(4000), SERVER);
    assert_eq!(*after.ip(), next);
    assert_ne!(after.port(), before.port());
}

#[test]
fn a_mapping_lives_while_it_is_used() {
    let mut nat = nat();
    let mut now = Time::ZERO;
    let outside = send(&mut nat, now, home(4000), SERVER);
    for _ in 0..5 {
        now += UDP_TIMEOUT;
        nat.inbound(now, &mut transport(17, SERVER, outside, b"")).unwrap();
    }
    now += UDP_TIMEOUT + Duration::from_secs(1);
    let mut late = transport(17, SERVER, outside, b"");
    assert_eq!(nat.inbound(now, &mut late), Err(NatRefusal::NoMapping));
    assert_ne!(send(&mut nat, now, home(4000), SERVER), outside);
}

#[test]
fn echoes_are_translated_by_identifier() {
    let mut nat = nat();
    let mut request = icmp(HOME, *SERVER.ip(), &[8, 0, 0, 0, 0x12, 0x34, 0, 1, b'x']);
    nat.outbound(Time::ZERO, &mut request).unwrap();
    assert_eq!(!checksum::sum(&request[20..]), 0);
    let id = &request[24..26];
    let mut reply = icmp(*SERVER.ip(), PUBLIC, &[0, 0, 0, 0, id[0], id[1], 0, 1, b'x']);
    nat.inbound(Time::ZERO, &mut reply).unwrap();
    assert_eq!(reply, icmp(*SERVER.ip(), HOME, &[0, 0, 0, 0, 0x12, 0x34, 0, 1, b'x']));
}

#[test]
fn an_icmp_error_reaches_the_sender_with_its_own_packet() {
    let mut nat = nat();
    let original = transport(17, home(4000), SERVER, &[7; 40]);
    let mut packet = original.clone();
    nat.outbound(Time::ZERO, &mut packet).unwrap();
    let frag_needed = |quoted: &[u8], to| {
        let mut message = vec![3, 4, 0, 0, 0, 0, 5, 0];
        message.extend(&quoted[..28]);
        icmp(*OTHER.ip(), to, &message)
    };
    let mut error = frag_needed(&packet, PUBLIC);
    nat.inbound(Time::ZERO, &mut error).unwrap();
    assert_eq!(error, frag_needed(&original, HOME));
}

#[test]
fn fragments_follow_their_first() {
    let mut nat = nat();
    let fragment = |offset: u8, more: bool| {
        let mut packet = transport(17, home(4000), SERVER, &[1; 16]);
        packet[6] = if more { 0x20 } else { 0 };
        packet[7] = offset;
        packet
    };
    assert_eq!(nat.outbound(Time::ZERO, &mut fragment(3, false)), Err(NatRefusal::NoMapping));
    nat.outbound(Time::ZERO, &mut fragment(0, true)).unwrap();
    let mut second = fragment(3, false);
    nat.outbound(Time::ZERO, &mut second).unwrap();
    assert_eq!(Header::read(&second).unwrap().source, PUBLIC);
}

#[test]
fn the_table_is_bounded() {
    let mut nat = nat();
    for port in 0..40_000u16 {
        let now = Time::from_millis(u64::from(port));
        send(&mut nat, now, home(port), SERVER);
    }
    assert!(nat.mappings.len() <= MAX_MAPPINGS);
    assert_eq!(nat.mappings.len(), nat.public_ports.len());
    for peer in 0..3000u16 {
        let to = SocketAddrV4::new(*SERVER.ip(), peer);
        send(&mut nat, Time::from_millis(40_000), home(39_999), to);
    }
    assert!(nat.mappings.values().all(|mapping| mapping.peers.len() <= MAX_PEERS));
}

#[test]
fn ipv6_passes_untouched() {
    let mut packet = [0x60; 60];
    assert_eq!(nat().outbound(Time::ZERO, &mut packet), Ok(()));
    assert_eq!(packet, [0x60; 60]);
}

proptest! {
    #[test]
    fn garbage_never_panics(mut bytes in proptest::collection::vec(any::<u8>(), 0..80), own: bool) {
        if own && bytes.len() >= 20 {
            bytes[0] = 0x45 | (bytes[0] & 0x0f);
            bytes[12..16].copy_from_slice(&HOME.octets());
            bytes[16..20].copy_from_slice(&PUBLIC.octets());
        }
        let mut nat = nat();
        let _ = nat.outbound(Time::ZERO, &mut bytes.clone());
        let _ = nat.inbound(Time::ZERO, &mut bytes);
    }
}
