use super::input::Input;
use braid_inner::{Checksum, Layer};
use braid_units::Rate;
use braid_wire::*;

/// The plaintext of a data datagram, after eight bytes with what the reader believes to be the
/// largest packet number. What is read must be within its bounds and, written again, read as the
/// same.
///
/// # Panics
/// If that doesn't hold: this is what the fuzzer looks for.
pub fn wire(data: &[u8]) {
    if let Ok(header) = DataHeader::parse(data) {
        assert_eq!(header.to_bytes()[..], data[..HEADER_LEN]);
        assert_eq!(DatagramKind::of(data), Some(DatagramKind::Data));
    }
    let mut input = Input(data);
    let largest = input.u64();
    let payload = input.0;
    let mut frames = 0;
    for frame in Frames::new(payload) {
        frames += 1;
        let Ok(frame) = frame else { break };
        let mut written = Vec::new();
        match frame {
            Frame::Ping => Frame::write_ping(&mut written),
            Frame::Ack(ack) => {
                written_ack_is_as_read(ack, largest);
                continue;
            }
            Frame::Chunk(chunk) => {
                check_chunk(chunk);
                chunk.write(&mut written, false);
                let header = chunk.position.header_len(chunk.data.len() as u32);
                assert_eq!(written.len(), header + chunk.data.len());
            }
            Frame::Abandoned(abandoned) => {
                assert!(abandoned.count > 0);
                abandoned.write(&mut written);
                assert_eq!(written.len(), Abandoned::LEN);
            }
            Frame::Service(service) => {
                service.write(&mut written);
                assert!(written.len() <= Service::MAX_LEN);
            }
            Frame::PathStatus(status) => {
                assert!(status.cap.unwrap_or(Rate::ZERO).bytes_per_sec() <= MAX_VARINT);
                status.write(&mut written);
                assert!(written.len() <= PathStatus::MAX_LEN);
            }
            Frame::Erasure(erasure) => {
                let sources: Vec<_> = erasure.sources.iter().collect();
                assert!((1..=MAX_SOURCES).contains(&sources.len()));
                assert!(sources.iter().all(|s| (s.offset as usize) < MAX_PACKET_LEN));
                ErasureFrame::write(&mut written, &sources, erasure.body);
                if let Some(Ok(Frame::Erasure(again))) = Frames::new(&written).next() {
                    assert_eq!(again.sources.iter().collect::<Vec<_>>(), sources);
                    assert_eq!(again.body, erasure.body);
                    continue;
                }
            }
            Frame::Close(close) => close.write(&mut written),
            Frame::Mode(mode) => mode.write(&mut written),
            Frame::Treatment(treatment) => treatment.write(&mut written),
            Frame::Limit(limit) => {
                limit.write(&mut written);
                assert!(written.len() <= LimitFrame::MAX_LEN);
            }
            Frame::Paced(paced) => paced.write(&mut written),
            Frame::Context(context) => {
                context.write(&mut written);
                assert!(written.len() <= ContextFrame::MAX_LEN);
                header_of(context.header, payload);
            }
            Frame::ContextKnown(known) => known.write(&mut written),
            Frame::Referrals(referrals) => {
                for entry in referrals.entries() {
                    assert!((1..=MAX_ENDPOINTS).contains(&entry.endpoints().count()));
                }
                ReferralsFrame::write(referrals.epoch, referrals.list(), &mut written);
                assert!(written.len() <= ReferralsFrame::MAX_LEN);
            }
        }
        let again: Vec<_> = Frames::new(&written).collect();
        assert_eq!(again, [Ok(frame)]);
    }
    assert!(frames <= payload.len());
}

/// Headers compressed with a context are restored; anything else isn't a header, or has that
/// length.
fn header_of(header: &[u8], packet: &[u8]) {
    for layer in [Layer::L3, Layer::L2] {
        let Some(context) = HeaderContext::of_header(header, layer) else { continue };
        let mut expanded = Vec::new();
        if let Some((payload, _)) = context.expand(packet, packet.len(), &mut expanded) {
            assert!(payload <= packet.len() && expanded.len() <= HeaderContext::MAX_LEN);
        }
        let mut compressed = Vec::new();
        let checksum = Checksum::Complete;
        if let Some(payload) = context.compress(packet, checksum, &mut compressed) {
            compressed.extend_from_slice(&packet[payload..]);
            let mut again = Vec::new();
            let expanded = context.expand(&compressed, compressed.len(), &mut again);
            let (payload, _) = expanded.expect("compressed just now");
            again.extend_from_slice(&compressed[payload..]);
            assert_eq!(again, packet);
        }
    }
}

fn check_chunk(chunk: Chunk<'_>) {
    let offset = chunk.position.offset();
    let end = offset as usize + chunk.data.len();
    assert!(!chunk.data.is_empty() && end <= MAX_PACKET_LEN && chunk.sequence < 1 << 24);
    match chunk.position {
        ChunkPosition::Whole(_) => {}
        ChunkPosition::First { total, .. } => {
            assert!(end < total as usize && total as usize <= MAX_PACKET_LEN);
        }
        ChunkPosition::Middle { .. } | ChunkPosition::Last { .. } => assert!(offset > 0),
    }
}

fn written_ack_is_as_read(ack: Ack<'_>, largest: u64) {
    let ranges: Vec<_> = ack.ranges(largest).collect();
    let arrivals: Vec<_> = ack.arrivals(largest).collect();
    assert!(!ranges.is_empty() || ack.ranges(u64::MAX).next().is_some_and(|r| r.0 > 0));
    assert!(ranges.len() <= MAX_ACK_RANGES && arrivals.len() <= MAX_ARRIVALS);
    assert!(ranges.first().is_none_or(|range| range.1 == largest));
    assert!(ranges.iter().all(|(low, high)| low <= high));
    assert!(ranges.windows(2).all(|pair| pair[1].1 + 1 < pair[0].0));
    assert!(arrivals.windows(2).all(|pair| pair[1].0 <= pair[0].0 && pair[1].1 >= pair[0].1));
    if ranges.is_empty() {
        return;
    }
    let mut written = Vec::new();
    let Ack { path, largest_received_us, delay_us, .. } = ack;
    AckWriter {
        path,
        largest,
        largest_received_us,
        delay_us,
        ranges: &ranges,
        arrivals: &arrivals,
    }
    .write(&mut written);
    let again: Vec<_> = Frames::new(&written).collect();
    let [Ok(Frame::Ack(again))] = again[..] else { panic!("{again:?}") };
    assert_eq!(again.ranges(largest).collect::<Vec<_>>(), ranges);
    assert_eq!(again.arrivals(largest).collect::<Vec<_>>(), arrivals);
    assert_eq!((again.delay_us, again.largest), (delay_us, largest as u32));
}
