use crate::build::{ACK, CWR, FIN, PSH, Spec, Transport, any_spec, refuses_to_join};
use braid_inner::{
    Checksums, Coalescer, FlowKey, Headers, InnerPacket, Layer, check, flow_key, join,
    segment_count, split_all,
};
use proptest::prelude::*;
use std::collections::HashMap;

fn coalesce(packets: impl IntoIterator<Item = InnerPacket>, layer: Layer) -> Vec<InnerPacket> {
    let mut coalescer = Coalescer::new(layer, Checksums::Verify);
    let mut out = Vec::new();
    for packet in packets {
        coalescer.push(packet, &mut out);
    }
    coalescer.flush(&mut out);
    out
}

fn split(packets: &[InnerPacket], layer: Layer) -> Vec<InnerPacket> {
    packets.iter().flat_map(|packet| split_all(packet, layer).unwrap()).collect()
}

fn counts(packets: &[InnerPacket]) -> Vec<usize> {
    packets.iter().map(segment_count).collect()
}

fn segments(spec: &Spec) -> Vec<InnerPacket> {
    spec.segments(1000).iter().map(Spec::packet).collect()
}

#[test]
fn a_download_leaves_as_few_packets() {
    let spec = Spec::tcp(ACK, vec![5; 60_500]);
    assert_eq!(counts(&coalesce(segments(&spec), Layer::L3)), [61]);
    // No more than IP can say.
    let mut train = segments(&spec);
    for number in 0..20 {
        let mut more = Spec::tcp(ACK, vec![6; 1000]);
        more.id = more.id.wrapping_add(60 + number);
        more.transport = Transport::Tcp {
            seq: 1000 + 60_000 + 1000 * u32::from(number),
            ack: 2000,
            flags: ACK,
            options: vec![],
        };
        if number == 0 {
            train.pop();
        }
        train.push(more.packet());
    }
    let out = coalesce(train, Layer::L3);
    assert_eq!(counts(&out), [65, 15]);
    assert!(out.iter().all(|packet| check(&packet.bytes, packet.offload, Layer::L3).is_ok()));
}

#[test]
fn datagrams_are_limited_to_what_kernels_take() {
    let datagrams: Vec<InnerPacket> = (0..150)
        .map(|number| {
            let mut spec = Spec::udp(vec![1; 100]);
            spec.id = spec.id.wrapping_add(number);
            spec.packet()
        })
        .collect();
    assert_eq!(counts(&coalesce(datagrams, Layer::L3)), [64, 64, 22]);
}

#[test]
fn super_packets_join_too() {
    let spec = Spec::tcp(ACK | PSH, vec![5; 9500]);
    let whole = spec.super_packet(1000);
    let singles = segments(&spec);
    let mut first = Spec::tcp(ACK, vec![5; 3000]).super_packet(1000);
    first.bytes[33] = ACK;
    let train = std::iter::once(first).chain(singles[3..].iter().cloned());
    let out = coalesce(train, Layer::L3);
    assert_eq!(out, [whole]);
}

#[test]
fn what_differs_is_not_merged() {
    let spec = Spec::tcp(ACK, vec![5; 3000]);
    let unmerged = |change: &dyn Fn(&mut Spec)| {
        let mut specs = spec.segments(1000);
        change(&mut specs[1]);
        let packets: Vec<InnerPacket> = specs.iter().map(Spec::packet).collect();
        let out = coalesce(packets.clone(), Layer::L3);
        assert_eq!(counts(&out), [1, 1, 1]);
        assert_eq!(out, packets, "nothing may be altered");
    };
    unmerged(&|spec| spec.tos = 3);
    unmerged(&|spec| spec.df = true);
    unmerged(&|spec| spec.id = 7);
    let tcp = |spec: &mut Spec, change: &dyn Fn(&mut u32, &mut u32, &mut u8)| {
        if let Transport::Tcp { seq, ack, flags, .. } = &mut spec.transport {
            change(seq, ack, flags);
        }
    };
    unmerged(&|spec| tcp(spec, &|seq, _, _| *seq += 1));
    unmerged(&|spec| tcp(spec, &|_, ack, _| *ack += 1));
    unmerged(&|spec| tcp(spec, &|_, _, flags| *flags |= 0x40));
    unmerged(&|spec| tcp(spec, &|_, _, flags| *flags |= 0x20));
    unmerged(&|spec| spec.payload = vec![]);
}

#[test]
fn a_reduced_window_is_told_by_the_first_segment_only() {
    let mut specs = Spec::tcp(ACK, vec![5; 3000]).segments(1000);
    if let Transport::Tcp { flags, .. } = &mut specs[1].transport {
        *flags |= CWR;
    }
    let packets: Vec<InnerPacket> = specs.iter().map(Spec::packet).collect();
    let out = coalesce(packets.clone(), Layer::L3);
    assert_eq!(counts(&out), [1, 2]);
    assert!(out[1].offload.segmentation.is_some_and(|segmentation| segmentation.ecn));
    assert_eq!(split(&out, Layer::L3), packets);
}

#[test]
fn a_wrong_checksum_is_not_repaired() {
    let mut packets = segments(&Spec::tcp(ACK, vec![5; 3000]));
    packets[1].bytes[100] ^= 1;
    assert_eq!(coalesce(packets.clone(), Layer::L3), packets);
    let mut packets = segments(&Spec::tcp(ACK, vec![5; 3000]));
    packets[1].bytes[8] ^= 1;
    assert_eq!(coalesce(packets.clone(), Layer::L3), packets);
    // Nor does a datagram without one get one.
    let mut packets = segments(&Spec::udp(vec![5; 3000]));
    packets.iter_mut().for_each(|packet| packet.bytes[26..28].fill(0));
    assert_eq!(coalesce(packets.clone(), Layer::L3), packets);
    let mut coalescer = Coalescer::new(Layer::L3, Checksums::Assume);
    let mut out = Vec::new();
    packets.iter().for_each(|packet| coalescer.push(packet.clone(), &mut out));
    coalescer.flush(&mut out);
    assert_eq!(out, packets);
}

#[test]
fn a_push_or_short_segment_goes_out_at_once() {
    let mut coalescer = Coalescer::new(Layer::L3, Checksums::Assume);
    let mut out = Vec::new();
    for packet in segments(&Spec::tcp(ACK | PSH, vec![5; 3000])) {
        coalescer.push(packet, &mut out);
    }
    assert_eq!(counts(&out), [3]);
    out.clear();
    for packet in segments(&Spec::udp(vec![5; 2900])) {
        coalescer.push(packet, &mut out);
    }
    assert_eq!(counts(&out), [3]);
}

#[test]
fn packets_with_a_fixed_identification_merge_when_it_means_nothing() {
    let mut specs = Spec { df: true, ..Spec::tcp(ACK | FIN, vec![5; 3000]) }.segments(1000);
    specs.iter_mut().for_each(|spec| spec.id = 0);
    let out = coalesce(specs.iter().map(Spec::packet), Layer::L3);
    assert_eq!(counts(&out), [3]);
    specs.iter_mut().zip(0..).for_each(|(spec, id)| spec.id = id);
    let expected: Vec<InnerPacket> = specs.iter().map(Spec::packet).collect();
    assert_eq!(split(&out, Layer::L3), expected);
}

proptest! {
    #[test]
    fn cutting_what_was_merged_gives_it_back(spec in any_spec(1..8000), size in 100..1500u16) {
        let packets: Vec<InnerPacket> = spec.segments(size).iter().map(Spec::packet).collect();
        let out = coalesce(packets.clone(), spec.layer());
        for packet in &out {
            prop_assert!(check(&packet.bytes, packet.offload, spec.layer()).is_ok());
        }
        if spec.between == 0 && packets.len() <= 64 {
            prop_assert_eq!(out.len(), 1);
        }
        prop_assert_eq!(split(&out, spec.layer()), packets);
    }

    /// Flows mixed, packets lost, swapped and doubled: each flow keeps what it
    /// had, in its order.
    #[test]
    fn flows_keep_their_order(
        specs in proptest::collection::vec(any_spec(1..3000), 1..12),
        picks in proptest::collection::vec((any::<usize>(), 0..20u8), 0..200),
    ) {
        let specs: Vec<Spec> = specs.into_iter().map(|mut spec| {
            spec.tags = None;
            // A renumbered identification would not be the same packet.
            spec.df = false;
            spec
        }).collect();
        let mut flows: Vec<std::collections::VecDeque<InnerPacket>> = specs
            .iter()
            .map(|spec| spec.segments(200).iter().map(Spec::packet).collect())
            .collect();
        let mut fed = Vec::new();
        for (which, fate) in picks {
            let at = which % flows.len();
            let flow = &mut flows[at];
            match fate {
                0 => drop(flow.pop_front()),
                1 if flow.len() > 1 => flow.swap(0, 1),
                2 => fed.extend(flow.front().cloned()),
                _ => fed.extend(flow.pop_front()),
            }
        }
        let out = split(&coalesce(fed.clone(), Layer::L3), Layer::L3);
        prop_assert_eq!(by_flow(&out), by_flow(&fed));
    }
}

fn by_flow(packets: &[InnerPacket]) -> HashMap<FlowKey, Vec<InnerPacket>> {
    let mut flows: HashMap<FlowKey, Vec<InnerPacket>> = HashMap::new();
    for packet in packets {
        let headers = Headers::parse(&packet.bytes, Layer::L3);
        flows.entry(flow_key(&packet.bytes, &headers)).or_default().push(packet.clone());
    }
    flows
}

#[test]
fn a_queue_joins_as_a_coalescer_does_up_to_its_limit() {
    let packets = segments(&Spec::tcp(ACK, vec![5; 9500]));
    let mut packets = packets.into_iter();
    let mut head = packets.next().unwrap();
    let mut rest = Vec::new();
    for packet in packets {
        if !rest.is_empty() || !join(&mut head, &packet, Layer::L3, 6300) {
            rest.push(packet);
        }
    }
    assert_eq!(counts(std::slice::from_ref(&head)), [6]);
    assert!(check(&head.bytes, head.offload, Layer::L3).is_ok());
    rest.insert(0, head);
    let spec = Spec::tcp(ACK, vec![5; 9500]);
    assert_eq!(split(&rest, Layer::L3), segments(&spec));
}

#[test]
fn a_queue_joins_nothing_that_differs_and_leaves_it_as_it_was() {
    let packets = segments(&Spec::tcp(ACK, vec![5; 3000]));
    refuses_to_join(&packets[0], &packets[2]);
    refuses_to_join(&packets[1], &packets[0]);
    let mut wrong = packets[1].clone();
    wrong.bytes[100] ^= 1;
    refuses_to_join(&packets[0], &wrong);
    let pushed = segments(&Spec::tcp(ACK | PSH, vec![5; 1000]));
    refuses_to_join(&pushed[0], &packets[1]);
    let datagrams = segments(&Spec::udp(vec![1; 3000]));
    refuses_to_join(&datagrams[0], &datagrams[1]);
}
