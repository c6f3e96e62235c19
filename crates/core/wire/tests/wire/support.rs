//! Frames of every kind with the values where something changes.

use braid_inner::{
    Checksum, Class, FlowKey, Offload, Segmentation, SegmentationKind, Selector, Tick, Ticks,
};
use braid_units::Rate;
use braid_wire::*;
use proptest::prelude::*;
use std::net::IpAddr;
use std::num::{NonZeroU8, NonZeroU16};

/// A frame with what it borrows when it is read.
#[derive(Clone, Debug, PartialEq)]
pub enum Owned {
    Ping,
    Ack(OwnedAck),
    Chunk(OwnedChunk),
    Abandoned(Abandoned),
    PathStatus(PathStatus),
    Erasure(Vec<SourceRef>, Vec<u8>),
    Close(Close),
    Mode(TunnelMode),
    Service(Service),
    Treatment(TreatmentFrame),
    Referrals(u64, Vec<OwnedReferral>),
    Limit(LimitFrame),
    Paced(PacedFlow),
    Context(u16, u8, Vec<u8>),
    ContextKnown(ContextKnown),
}

#[derive(Clone, Debug, PartialEq)]
pub struct OwnedReferral {
    pub public_key: [u8; 32],
    pub name: String,
    pub endpoints: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct OwnedAck {
    pub path: u8,
    pub largest: u64,
    pub largest_received_us: u32,
    pub delay_us: u32,
    pub ranges: Vec<(u64, u64)>,
    pub arrivals: Vec<(u64, u32)>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct OwnedChunk {
    pub flow: u16,
    pub sequence: u32,
    pub unordered: bool,
    pub realtime: bool,
    pub position: ChunkPosition,
    pub data: Vec<u8>,
}

impl Owned {
    /// Appends the frame; `to_end` only matters to a chunk.
    pub fn write(&self, out: &mut Vec<u8>, to_end: bool) {
        match self {
            Owned::Ping => Frame::write_ping(out),
            Owned::Ack(ack) => AckWriter {
                path: ack.path,
                largest: ack.largest,
                largest_received_us: ack.largest_received_us,
                delay_us: ack.delay_us,
                ranges: &ack.ranges,
                arrivals: &ack.arrivals,
            }
            .write(out),
            Owned::Chunk(chunk) => chunk.borrowed().write(out, to_end),
            Owned::Abandoned(abandoned) => abandoned.write(out),
            Owned::PathStatus(status) => status.write(out),
            Owned::Erasure(sources, body) => ErasureFrame::write(out, sources, body),
            Owned::Close(close) => close.write(out),
            Owned::Mode(mode) => mode.write(out),
            Owned::Service(service) => service.write(out),
            Owned::Treatment(treatment) => treatment.write(out),
            Owned::Limit(limit) => limit.write(out),
            Owned::Paced(paced) => paced.write(out),
            Owned::Context(flow, number, header) => {
                ContextFrame { flow: *flow, number: *number, header }.write(out);
            }
            Owned::ContextKnown(known) => known.write(out),
            Owned::Referrals(epoch, all) => {
                let mut list = Vec::new();
                for one in all {
                    let endpoints: Vec<&str> = one.endpoints.iter().map(String::as_str).collect();
                    assert!(ReferralsFrame::push(
                        &mut list,
                        &one.public_key,
                        &one.name,
                        &endpoints
                    ));
                }
                ReferralsFrame::write(*epoch, &list, out);
            }
        }
    }

    /// What was read; `largest` is the full number of acknowledgements.
    pub fn from_frame(frame: Frame<'_>, largest: u64) -> Self {
        match frame {
            Frame::Ping => Owned::Ping,
            Frame::Ack(ack) => Owned::Ack(OwnedAck {
                path: ack.path,
                largest: expand(ack.largest, 32, largest),
                largest_received_us: ack.largest_received_us,
                delay_us: ack.delay_us,
                ranges: ack.ranges(largest).collect(),
                arrivals: ack.arrivals(largest).collect(),
            }),
            Frame::Chunk(chunk) => Owned::Chunk(OwnedChunk {
                flow: chunk.flow,
                sequence: chunk.sequence,
                unordered: chunk.unordered,
                realtime: chunk.realtime,
                position: chunk.position,
                data: chunk.data.to_vec(),
            }),
            Frame::Abandoned(abandoned) => Owned::Abandoned(abandoned),
            Frame::PathStatus(status) => Owned::PathStatus(status),
            Frame::Erasure(erasure) => {
                Owned::Erasure(erasure.sources.iter().collect(), erasure.body.to_vec())
            }
            Frame::Close(close) => Owned::Close(close),
            Frame::Mode(mode) => Owned::Mode(mode),
            Frame::Service(service) => Owned::Service(service),
            Frame::Treatment(treatment) => Owned::Treatment(treatment),
            Frame::Limit(limit) => Owned::Limit(limit),
            Frame::Paced(paced) => Owned::Paced(paced),
            Frame::Context(it) => Owned::Context(it.flow, it.number, it.header.to_vec()),
            Frame::ContextKnown(known) => Owned::ContextKnown(known),
            Frame::Referrals(referrals) => {
                let one = |entry: ReferralEntry<'_>| OwnedReferral {
                    public_key: entry.public_key,
                    name: entry.name.to_owned(),
                    endpoints: entry.endpoints().map(str::to_owned).collect(),
                };
                Owned::Referrals(referrals.epoch, referrals.entries().map(one).collect())
            }
        }
    }

    /// The full number of the largest packet acknowledged, if it is that.
    pub fn largest(&self) -> Option<u64> {
        if let Owned::Ack(ack) = self { Some(ack.largest) } else { None }
    }
}

impl OwnedChunk {
    pub fn borrowed(&self) -> Chunk<'_> {
        Chunk {
            flow: self.flow,
            sequence: self.sequence,
            unordered: self.unordered,
            realtime: self.realtime,
            position: self.position,
            data: &self.data,
        }
    }
}

pub fn any_frame() -> impl Strategy<Value = Owned> {
    prop_oneof![
        Just(Owned::Ping),
        any_ack().prop_map(Owned::Ack),
        any_chunk().prop_map(Owned::Chunk),
        (any::<u16>(), sequence(), 1u8..).prop_map(|(flow, sequence, count)| Owned::Abandoned(
            Abandoned { flow, sequence, count }
        )),
        any_path_status().prop_map(Owned::PathStatus),
        (prop::collection::vec(any_source(), 1..=MAX_SOURCES), bytes(0..2000))
            .prop_map(|(sources, body)| Owned::Erasure(sources, body)),
        any::<u8>().prop_map(|reason| Owned::Close(Close { reason })),
        any::<(u8, u8)>().prop_map(|(mode, hash)| Owned::Mode(TunnelMode { mode, hash })),
        (any::<u8>(), number(MAX_VARINT))
            .prop_map(|(word, epoch)| Owned::Service(Service { word, epoch })),
        any_treatment().prop_map(Owned::Treatment),
        (number(MAX_VARINT), number(MAX_VARINT)).prop_map(|(rate, epoch)| {
            let rate = (rate > 0).then(|| Rate::from_bytes_per_sec(rate));
            Owned::Limit(LimitFrame { rate, epoch })
        }),
        any::<u16>().prop_map(|flow| Owned::Paced(PacedFlow { flow })),
        (any::<(u16, u8)>(), bytes(0..HeaderContext::MAX_LEN + 1))
            .prop_map(|((flow, number), header)| Owned::Context(flow, number, header)),
        any::<(u16, u8)>()
            .prop_map(|(flow, number)| Owned::ContextKnown(ContextKnown { flow, number })),
        // So short that as many as may be fit.
        (number(MAX_VARINT), prop::collection::vec(any_referral(), 0..=MAX_REFERRALS))
            .prop_map(|(epoch, all)| Owned::Referrals(epoch, all)),
    ]
}

fn any_referral() -> impl Strategy<Value = OwnedReferral> {
    let endpoints = prop::collection::vec("\\PC{1,3}", 1..=MAX_ENDPOINTS);
    (any::<[u8; 32]>(), "\\PC{1,3}", endpoints)
        .prop_map(|(public_key, name, endpoints)| OwnedReferral { public_key, name, endpoints })
}

fn any_treatment() -> impl Strategy<Value = TreatmentFrame> {
    let selector = prop_oneof![
        Just(Selector::None),
        any::<(u16, u16)>().prop_map(|(src, dst)| Selector::Ports { src, dst }),
        any::<u32>().prop_map(Selector::Spi),
        any::<u32>().prop_map(Selector::GreKey),
        any::<u16>().prop_map(Selector::Echo),
    ];
    let v4 = any::<([u8; 4], [u8; 4])>().prop_map(|(a, b)| (IpAddr::from(a), IpAddr::from(b)));
    let v6 = any::<([u8; 16], [u8; 16])>().prop_map(|(a, b)| (IpAddr::from(a), IpAddr::from(b)));
    let class = prop::sample::select(vec![None, Some(Class::Realtime), Some(Class::Bulk)]);
    let rate = prop::option::of(
        number(MAX_VARINT)
            .prop_filter_map("no rate", |rate| (rate > 0).then(|| Rate::from_bytes_per_sec(rate))),
    );
    let limit = prop::option::of((any::<NonZeroU8>(), rate));
    let flow = (prop_oneof![v4, v6], any::<u8>(), selector);
    let queue = (0..4u8, class, limit, any::<u8>());
    (flow, any::<u16>(), queue).prop_map(|(flow, device, (priority, class, limit, redundancy))| {
        let ((src, dst), protocol, selector) = flow;
        let key = FlowKey::Ip { src, dst, protocol, selector };
        TreatmentFrame { key, device, priority, class, limit, redundancy }
    })
}

/// Numbers up to `max`, mostly next to those where a varint grows.
pub fn number(max: u64) -> impl Strategy<Value = u64> {
    let edges = [0, 1, 2, 63, 64, 65, 16_383, 16_384, (1 << 30) - 1, 1 << 30, MAX_VARINT, max];
    prop_oneof![
        prop::sample::select(edges.to_vec()).prop_map(move |n| n.min(max)),
        0..=max,
        0..=max.min(300),
    ]
}

fn sequence() -> impl Strategy<Value = u32> {
    number(0xff_ffff).prop_map(|n| n as u32)
}

fn bytes(len: std::ops::Range<usize>) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), len)
}

fn any_path_status() -> impl Strategy<Value = PathStatus> {
    (any::<(u8, u8, bool, bool)>(), prop::option::of(number(MAX_VARINT))).prop_map(
        |((path, tier, standby, abandoned), cap)| PathStatus {
            path,
            tier,
            standby,
            abandoned,
            cap: cap.map(Rate::from_bytes_per_sec),
        },
    )
}

fn any_source() -> impl Strategy<Value = SourceRef> {
    (any::<u16>(), sequence(), number(MAX_PACKET_LEN as u64 - 1), any::<u16>()).prop_map(
        |(flow, sequence, offset, len)| SourceRef { flow, sequence, offset: offset as u32, len },
    )
}

/// Acknowledgements as a receiver writes them: ranges and arrivals are made
/// downwards from the largest, until zero is reached.
pub fn any_ack() -> impl Strategy<Value = OwnedAck> {
    let ranges = prop::collection::vec((number(1 << 31), number(1 << 31)), 1..=MAX_ACK_RANGES);
    let arrivals = prop::collection::vec((number(1 << 31), number(1 << 20)), 0..=MAX_ARRIVALS);
    (any::<u8>(), number(1 << 61), any::<u32>(), any::<u32>(), ranges, arrivals).prop_map(
        |(path, largest, largest_received_us, delay_us, lengths, steps)| {
            let mut ranges = Vec::new();
            let mut high = Some(largest);
            for (gap, len) in lengths {
                let Some(top) = high.and_then(|high: u64| {
                    if ranges.is_empty() { Some(high) } else { high.checked_sub(gap) }
                }) else {
                    break;
                };
                let low = top.saturating_sub(len);
                ranges.push((low, top));
                high = low.checked_sub(2);
            }
            let mut arrivals = Vec::new();
            let (mut number, mut units) = (largest, 0u32);
            for (back, earlier) in steps {
                let Some(n) = number.checked_sub(back) else { break };
                (number, units) = (n, units + earlier as u32);
                arrivals.push((number, units * ARRIVAL_UNIT_US));
            }
            OwnedAck { path, largest, largest_received_us, delay_us, ranges, arrivals }
        },
    )
}

pub fn any_chunk() -> impl Strategy<Value = OwnedChunk> {
    (any::<(u16, bool, bool)>(), sequence(), any_position()).prop_flat_map(
        |((flow, unordered, realtime), sequence, (position, most))| {
            let data = prop_oneof![
                4 => bytes(1..most.min(1500) + 1),
                1 => Just(vec![0x55; most]),
            ];
            data.prop_map(move |data| OwnedChunk {
                flow,
                sequence,
                unordered,
                realtime,
                position,
                data,
            })
        },
    )
}

/// A position, and how many bytes a chunk at it may have at most.
fn any_position() -> impl Strategy<Value = (ChunkPosition, usize)> {
    let last = MAX_PACKET_LEN as u64 - 1;
    let offset = || number(last - 1).prop_map(|n| n as u32 + 1);
    prop_oneof![
        any_form().prop_map(|form| (ChunkPosition::Whole(form), MAX_PACKET_LEN)),
        (any_form(), number(last - 1)).prop_map(|(form, less)| {
            let total = less as u32 + 2;
            (ChunkPosition::First { form, total }, total as usize - 1)
        }),
        offset().prop_map(|offset| {
            (ChunkPosition::Middle { offset }, MAX_PACKET_LEN - offset as usize)
        }),
        offset().prop_map(|offset| {
            (ChunkPosition::Last { offset }, MAX_PACKET_LEN - offset as usize)
        }),
    ]
}

fn any_ticks() -> impl Strategy<Value = Ticks> {
    prop::collection::vec(any::<(u8, u8, u8)>(), 0..10).prop_map(|all| {
        let mut ticks = Ticks::NONE;
        for (segment, value, echo) in all {
            // Those that can't follow are left out.
            ticks.push(Tick { segment, value, echo });
        }
        ticks
    })
}

fn any_compressed() -> impl Strategy<Value = Form> {
    any_offload().prop_map(|offload| Form::Compressed(offload.segmentation))
}

fn any_form() -> impl Strategy<Value = Form> {
    prop_oneof![3 => any_offload().prop_map(Form::Full), 1 => any_compressed()]
}

fn any_offload() -> impl Strategy<Value = Offload> {
    let checksum = prop_oneof![
        Just(Checksum::Complete),
        any::<(u16, u16)>().prop_map(|(start, offset)| Checksum::Partial { start, offset }),
    ];
    let kind = prop::sample::select(vec![
        SegmentationKind::TcpV4,
        SegmentationKind::TcpV6,
        SegmentationKind::Udp,
    ]);
    let segmentation = (kind, any::<bool>(), any::<u16>(), 1u16.., any_ticks()).prop_map(
        |(kind, ecn, header_len, size, ticks)| {
            let segment_size = NonZeroU16::new(size).unwrap_or(NonZeroU16::MIN);
            let ticks = if kind == SegmentationKind::Udp { Ticks::NONE } else { ticks };
            Segmentation { kind, ecn, header_len, segment_size, ticks }
        },
    );
    (checksum, prop::option::of(segmentation))
        .prop_map(|(checksum, segmentation)| Offload { checksum, segmentation })
}
