//! Headers come back from a context as they were, bit by bit, and nonsense does no harm.

use braid_inner::checksum::{pseudo_header, sum};
use braid_inner::{Checksum, Layer, Offload};
use braid_wire::HeaderContext;
use proptest::prelude::*;
use std::net::IpAddr;

/// What never changes within a connection.
#[derive(Clone, Debug)]
struct Connection {
    v6: bool,
    tcp: bool,
    ethernet: Option<[u8; 14]>,
    class: u8,
    hops: u8,
    addresses: [u8; 32],
    ports: [u8; 4],
}

/// What may be another in each packet.
#[derive(Clone, Debug)]
struct Varying {
    identification: u16,
    sequence: u32,
    acknowledgement: u32,
    flags: u8,
    window: u16,
    timestamps: Option<(u32, u32)>,
    /// Words of other options, where there are no timestamps.
    options: Vec<[u8; 4]>,
    checksum: Option<u16>,
    payload: Vec<u8>,
}

/// A packet, and the state of its checksum: partial, if none is given.
fn packet(connection: &Connection, varying: &Varying) -> (Vec<u8>, Checksum) {
    let transport = transport(connection, varying);
    let mut out = connection.ethernet.map(|header| header.to_vec()).unwrap_or_default();
    let protocol = if connection.tcp { 6 } else { 17 };
    let len = transport.len();
    if connection.v6 {
        out.extend([0x60 | connection.class >> 4, connection.class << 4, 1, 2]);
        out.extend((len as u16).to_be_bytes());
        out.extend([protocol, connection.hops]);
        out.extend(connection.addresses);
    } else {
        let mut header = vec![0x45, connection.class];
        header.extend((20 + len as u16).to_be_bytes());
        header.extend(varying.identification.to_be_bytes());
        header.extend([0x40, 0, connection.hops, protocol, 0, 0]);
        header.extend(&connection.addresses[..8]);
        let checksum = !sum(&header);
        header[10..12].copy_from_slice(&checksum.to_be_bytes());
        out.extend(header);
    }
    let start = out.len();
    out.extend(transport);
    let at = if connection.tcp { 16 } else { 6 };
    let (field, checksum) = match varying.checksum {
        Some(checksum) => (checksum, Checksum::Complete),
        None => {
            let (a, b) = addresses(connection);
            let partial = Checksum::Partial { start: start as u16, offset: at as u16 };
            (pseudo_header(a, b, protocol, len), partial)
        }
    };
    out[start + at..][..2].copy_from_slice(&field.to_be_bytes());
    (out, checksum)
}

fn addresses(connection: &Connection) -> (IpAddr, IpAddr) {
    let bytes = &connection.addresses;
    if connection.v6 {
        let (a, b) = bytes.split_at(16);
        (<[u8; 16]>::try_from(a).unwrap().into(), <[u8; 16]>::try_from(b).unwrap().into())
    } else {
        (
            <[u8; 4]>::try_from(&bytes[..4]).unwrap().into(),
            <[u8; 4]>::try_from(&bytes[4..8]).unwrap().into(),
        )
    }
}

fn transport(connection: &Connection, varying: &Varying) -> Vec<u8> {
    let mut out = connection.ports.to_vec();
    if connection.tcp {
        let mut options: Vec<u8> = varying.options.concat();
        if let Some((value, echo)) = varying.timestamps {
            options = [1, 1, 8, 10].to_vec();
            options.extend(value.to_be_bytes());
            options.extend(echo.to_be_bytes());
        }
        out.extend(varying.sequence.to_be_bytes());
        out.extend(varying.acknowledgement.to_be_bytes());
        out.extend([(((20 + options.len()) / 4) << 4) as u8, varying.flags]);
        out.extend(varying.window.to_be_bytes());
        out.extend([0; 4]);
        out.extend(options);
    } else {
        out.extend((8 + varying.payload.len() as u16).to_be_bytes());
        out.extend([0; 2]);
    }
    out.extend(&varying.payload);
    out
}

fn any_connection() -> impl Strategy<Value = Connection> {
    let ethernet = prop::option::of(any::<[u8; 12]>());
    let fixed = (any::<bool>(), any::<bool>(), ethernet, any::<u8>(), any::<u8>());
    (fixed, any::<[u8; 32]>(), any::<[u8; 4]>()).prop_map(
        |((v6, tcp, macs, class, hops), addresses, ports)| {
            let ethernet = macs.map(|macs| {
                let mut header = [0; 14];
                header[..12].copy_from_slice(&macs);
                header[12..].copy_from_slice(if v6 { &[0x86, 0xdd] } else { &[8, 0] });
                header
            });
            Connection { v6, tcp, ethernet, class, hops, addresses, ports }
        },
    )
}

fn any_varying() -> impl Strategy<Value = Varying> {
    // Numbers that are near each other, as usual, and any.
    let number = || prop_oneof![0u32..3000, any::<u32>()];
    let timestamps = prop_oneof![4 => Just(true), 1 => Just(false)];
    let tcp = (number(), number(), any::<u8>(), prop_oneof![Just(500), any::<u16>()]);
    let options = prop::collection::vec(any::<[u8; 4]>(), 0..=10);
    let rest =
        (any::<u16>(), prop::option::of(any::<u16>()), prop::collection::vec(any::<u8>(), 0..50));
    (tcp, timestamps, number(), number(), options, rest).prop_map(
        |((sequence, acknowledgement, flags, window), stamped, value, echo, options, rest)| {
            let (identification, checksum, payload) = rest;
            Varying {
                identification,
                sequence,
                acknowledgement,
                flags,
                window,
                timestamps: stamped.then_some((value, echo)),
                options,
                checksum,
                payload,
            }
        },
    )
}

fn layer(connection: &Connection) -> Layer {
    if connection.ethernet.is_some() { Layer::L2 } else { Layer::L3 }
}

/// What the compressed packet becomes; none if it isn't compressed.
fn there_and_back(
    context: &HeaderContext,
    (bytes, checksum): &(Vec<u8>, Checksum),
) -> Option<(Vec<u8>, Offload, usize)> {
    let mut compressed = Vec::new();
    let payload = context.compress(bytes, *checksum, &mut compressed)?;
    let header_len = compressed.len();
    compressed.extend_from_slice(&bytes[payload..]);
    let mut restored = Vec::new();
    let (at, offload) =
        context.expand(&compressed, compressed.len(), &mut restored).expect("what was compressed");
    assert_eq!(at, header_len);
    restored.extend_from_slice(&compressed[at..]);
    Some((restored, offload, header_len))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn each_packet_of_a_connection_comes_back_as_it_was(
        connection in any_connection(), first in any_varying(), second in any_varying(),
    ) {
        let layer = layer(&connection);
        let (first, _) = packet(&connection, &first);
        let context = HeaderContext::of_packet(&first, layer).expect("a context");
        prop_assert_eq!(HeaderContext::of_header(context.as_bytes(), layer), Some(context.clone()));
        let second = packet(&connection, &second);
        let back = there_and_back(&context, &second);
        let Some((restored, offload, _)) = back else { panic!("of the same connection") };
        prop_assert_eq!(restored, second.0);
        prop_assert_eq!(offload, Offload { checksum: second.1, segmentation: None });
    }

    #[test]
    fn a_packet_that_differs_in_any_byte_comes_back_so_or_is_not_compressed(
        connection in any_connection(), first in any_varying(), second in any_varying(),
        at: prop::sample::Index, other: u8,
    ) {
        let layer = layer(&connection);
        let (first, _) = packet(&connection, &first);
        let context = HeaderContext::of_packet(&first, layer).expect("a context");
        let mut second = packet(&connection, &second);
        let at = at.index(second.0.len());
        second.0[at] = other;
        if let Some((restored, offload, _)) = there_and_back(&context, &second) {
            prop_assert_eq!(restored, second.0);
            prop_assert_eq!(offload.checksum, second.1);
        }
    }

    #[test]
    fn nonsense_is_no_header(
        connection in any_connection(), first in any_varying(),
        noise in prop::collection::vec(any::<u8>(), 0..80),
    ) {
        let layer = layer(&connection);
        let (first, _) = packet(&connection, &first);
        let context = HeaderContext::of_packet(&first, layer).expect("a context");
        let mut header = Vec::new();
        if let Some((payload, _)) = context.expand(&noise, noise.len(), &mut header) {
            prop_assert!(payload <= noise.len() && header.len() <= HeaderContext::MAX_LEN);
        }
        let _ = HeaderContext::of_header(&noise, layer);
        let _ = HeaderContext::of_packet(&noise, layer);
        let _ = HeaderContext::fingerprint(&noise, layer);
    }
}

fn usual(sequence: u32) -> Varying {
    Varying {
        identification: sequence as u16,
        sequence,
        acknowledgement: 7,
        flags: 0x10,
        window: 500,
        timestamps: Some((1000 + sequence / 1000, 2000)),
        options: Vec::new(),
        checksum: Some(0x1234),
        payload: vec![1; 1448],
    }
}

#[test]
fn a_segment_of_a_stream_needs_few_bytes() {
    for (v6, tcp, most) in
        [(false, true, 12), (true, true, 10), (false, false, 5), (true, false, 3)]
    {
        let connection = Connection {
            v6,
            tcp,
            ethernet: None,
            class: 0,
            hops: 64,
            addresses: [9; 32],
            ports: [1, 2, 3, 4],
        };
        let (first, _) = packet(&connection, &usual(0));
        let context = HeaderContext::of_packet(&first, Layer::L3).unwrap();
        let later = packet(&connection, &usual(1_448_000));
        let (_, _, len) = there_and_back(&context, &later).unwrap();
        assert!(len <= most, "{len} bytes for {v6} {tcp}");
    }
}

#[test]
fn fragments_and_options_of_ip_have_no_context() {
    let connection = Connection {
        v6: false,
        tcp: true,
        ethernet: None,
        class: 0,
        hops: 64,
        addresses: [9; 32],
        ports: [1, 2, 3, 4],
    };
    let (whole, _) = packet(&connection, &usual(0));
    assert!(HeaderContext::of_packet(&whole, Layer::L3).is_some());
    let mut fragment = whole.clone();
    fragment[6..8].copy_from_slice(&[0x20, 0]);
    assert_eq!(HeaderContext::of_header(&fragment[..52], Layer::L3), None);
    let mut cut = whole.clone();
    cut.truncate(100);
    assert_eq!(HeaderContext::of_packet(&cut, Layer::L3), None);
    let mut padded = whole;
    padded.push(0);
    assert_eq!(HeaderContext::of_packet(&padded, Layer::L3), None);
}
