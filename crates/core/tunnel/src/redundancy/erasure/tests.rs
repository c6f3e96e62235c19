use super::*;
use braid_units::{ByteSize, Time};
use proptest::prelude::*;
use std::time::Duration;

const NOW: Time = Time::from_millis(1000);
const WAIT: Duration = Duration::from_millis(20);
const AGE: Duration = Duration::from_millis(500);

fn id(sequence: u32) -> SourceId {
    SourceId { flow: 7, sequence, offset: 0 }
}

fn encoder(size: u8, interleave: u8) -> Encoder {
    let mut encoder = Encoder::new(WAIT, interleave);
    encoder.set_size(GroupSize::new(size));
    encoder
}

fn decoder() -> Decoder {
    Decoder::new(ByteSize::from_bytes(128 << 10), AGE)
}

/// The one parity over `chunks`, numbered from zero.
fn parity_of(chunks: &[Vec<u8>]) -> OutgoingParity {
    let mut encoder = encoder(chunks.len() as u8, 1);
    let mut made = None;
    for (n, chunk) in chunks.iter().enumerate() {
        assert!(made.is_none());
        made = encoder.push(NOW, id(n as u32), chunk, n as u8 % 3);
    }
    made.unwrap()
}

#[test]
fn a_group_is_closed_when_full_or_when_its_time_is_up() {
    let mut encoder = encoder(3, 1);
    assert_eq!(encoder.push(NOW, id(1), b"one", 0), None);
    assert_eq!(encoder.push(NOW, id(1), b"one", 1), None, "sent again, covered once");
    assert_eq!(encoder.push(NOW, id(2), b"second", 1), None);
    let full = encoder.push(NOW, id(3), b"", 1).unwrap();
    assert_eq!(full.parity.members().len(), 3);
    assert_eq!(full.paths, [0, 1], "the path that carried the fewest comes first");
    assert_eq!(encoder.next_deadline(), None);

    encoder.push(NOW, id(4), b"four", 0);
    encoder.push(NOW, id(5), b"five", 0);
    assert_eq!(encoder.poll(NOW), None);
    let at = encoder.next_deadline().unwrap();
    assert_eq!(at, NOW + WAIT);
    assert_eq!(encoder.poll(at).unwrap().parity.members().len(), 2);

    encoder.push(NOW, id(6), b"six", 0);
    assert_eq!(encoder.poll(NOW + WAIT), None, "alone, not worth a parity");
    assert_eq!(encoder.next_deadline(), None);
    encoder.set_size(None);
    assert_eq!(encoder.push(NOW, id(7), b"seven", 0), None);
    assert_eq!(encoder.next_deadline(), None);
}

#[test]
fn neighbours_on_a_path_fall_into_different_groups() {
    let mut encoder = encoder(4, 3);
    let mut parities = Vec::new();
    for n in 0..24 {
        parities.extend(encoder.push(NOW, id(n), &[n as u8; 50], 0));
    }
    assert_eq!(parities.len(), 6);
    for parity in &parities {
        let numbers: Vec<u32> = parity.parity.members().iter().map(|m| m.id.sequence).collect();
        assert!(numbers.windows(2).all(|w| w[1] - w[0] >= 2), "{numbers:?}");
    }
    // Two in a row lost: both come back.
    let mut decoder = decoder();
    for n in (0..24).filter(|n| ![9, 10].contains(n)) {
        assert!(decoder.on_source(NOW, id(n), &[n as u8; 50]).is_empty());
    }
    let mut back: Vec<u32> = parities
        .into_iter()
        .flat_map(|p| decoder.on_parity(NOW, p.parity))
        .map(|r| r.id.sequence)
        .collect();
    back.sort_unstable();
    assert_eq!(back, [9, 10]);
}

#[test]
fn one_repair_sets_off_the_next() {
    let chunks: Vec<Vec<u8>> = (0..3).map(|n| vec![n; 10 + usize::from(n)]).collect();
    let ab = parity_of(&chunks[..2]).parity;
    let mut encoder = encoder(2, 1);
    encoder.push(NOW, id(1), &chunks[1], 0);
    let bc = encoder.push(NOW, id(2), &chunks[2], 0).unwrap().parity;
    let mut decoder = decoder();
    assert!(decoder.on_parity(NOW, ab).is_empty());
    assert!(decoder.on_parity(NOW, bc).is_empty());
    let recovered = decoder.on_source(NOW, id(0), &chunks[0]);
    let numbers: Vec<u32> = recovered.iter().map(|r| r.id.sequence).collect();
    assert_eq!(numbers, [1, 2]);
    assert_eq!(recovered[1].bytes, chunks[2]);
}

#[test]
fn chunks_and_parities_grow_old() {
    let chunks = vec![vec![1; 100], vec![2; 100], vec![3; 100]];
    let parity = parity_of(&chunks).parity;
    let late = NOW + AGE + Duration::from_millis(1);
    let mut decoder = decoder();
    decoder.on_source(NOW, id(0), &chunks[0]);
    decoder.on_source(late, id(1), &chunks[1]);
    assert!(decoder.on_parity(late, parity).is_empty(), "the first is forgotten");
    assert!(decoder.on_source(late, id(0), &chunks[0])[0].bytes == chunks[2]);
    decoder.expire(late + AGE * 2);
    assert_eq!(decoder.memory_used().bytes(), 0);
}

#[test]
fn nonsense_is_refused() {
    let member = |n, len| Member { id: id(n), len };
    assert_eq!(Parity::new(vec![], vec![]), Err(ParityError::Members(0)));
    let many = (0..=MAX_GROUP as u32).map(|n| member(n, 1)).collect();
    assert_eq!(Parity::new(many, vec![0; 5]), Err(ParityError::Members(MAX_GROUP + 1)));
    let twice = vec![member(1, 5), member(1, 4)];
    assert_eq!(Parity::new(twice, vec![0; 9]), Err(ParityError::Duplicate));
    for len in [0, 3, 8, 10, 70_000] {
        let error = ParityError::Length { found: len, wanted: 9 };
        assert_eq!(Parity::new(vec![member(1, 5)], vec![0; len]), Err(error));
    }
}

#[test]
fn a_parity_over_other_bytes_recovers_nothing() {
    // The sender re-coded chunk 0 after the parity was made.
    let chunks = vec![vec![1; 40], vec![2; 40], vec![3; 40]];
    let parity = parity_of(&chunks).parity;
    let mut decoder = decoder();
    let mut other = chunks[0].clone();
    other[3] ^= 0x10;
    decoder.on_source(NOW, id(0), &other);
    decoder.on_source(NOW, id(1), &chunks[1]);
    assert!(decoder.on_parity(NOW, parity).is_empty());
}

proptest! {
    #[test]
    fn any_one_lost_chunk_comes_back_unaltered(
        chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 2..=MAX_GROUP),
        lost in any::<prop::sample::Index>(),
        parity_at in any::<prop::sample::Index>(),
    ) {
        let lost = lost.index(chunks.len());
        let parity_at = parity_at.index(chunks.len());
        let sent = parity_of(&chunks).parity;
        // As the wire would carry it.
        let parity = Parity::new(sent.members().to_vec(), sent.body().to_vec()).unwrap();
        let mut decoder = decoder();
        let mut recovered = Vec::new();
        for (n, chunk) in chunks.iter().enumerate() {
            if n == parity_at {
                recovered.extend(decoder.on_parity(NOW, parity.clone()));
            }
            if n != lost {
                recovered.extend(decoder.on_source(NOW, id(n as u32), chunk));
            }
        }
        prop_assert_eq!(recovered, vec![Recovered { id: id(lost as u32), bytes: chunks[lost].clone() }]);
    }

    #[test]
    fn what_comes_back_is_what_was_sent(
        losses in prop::collection::vec(prop::bool::weighted(0.15), 100),
        delays in prop::collection::vec(0_u64..40, 100),
        size in 2_u8..12,
        interleave in 1_u8..4,
    ) {
        let chunk = |n: u32| vec![(n * 37) as u8; 20 + (n as usize * 31) % 200];
        let mut encoder = encoder(size, interleave);
        let mut arrivals: Vec<(u64, Result<u32, Parity>)> = Vec::new();
        for (n, (lost, delay)) in losses.iter().zip(&delays).enumerate() {
            let sent = 1000 + n as u64 * 3;
            let now = Time::from_millis(sent);
            let parities = [encoder.poll(now), encoder.push(now, id(n as u32), &chunk(n as u32), 0)];
            arrivals.extend(parities.into_iter().flatten().map(|p| (sent + 9, Err(p.parity))));
            if !lost {
                arrivals.push((sent + delay, Ok(n as u32)));
            }
        }
        arrivals.sort_by_key(|a| a.0);
        let mut decoder = decoder();
        for (at, what) in arrivals {
            let now = Time::from_millis(at);
            let recovered = match what {
                Ok(n) => decoder.on_source(now, id(n), &chunk(n)),
                Err(parity) => decoder.on_parity(now, parity),
            };
            for one in recovered {
                prop_assert_eq!(&one.bytes, &chunk(one.id.sequence));
            }
        }
    }

    #[test]
    fn memory_stays_bounded(
        events in prop::collection::vec(
            (0_u32..50, 0_u16..3000, prop::collection::vec(0_u32..5000, 0..40), 0_u64..20), 1..300),
    ) {
        let memory = ByteSize::from_bytes(32 << 10);
        let mut decoder = Decoder::new(memory, AGE);
        let mut now = NOW;
        for (n, len, members, pause) in events {
            now += Duration::from_millis(pause);
            decoder.on_source(now, id(n), &vec![n as u8; usize::from(len)]);
            let members = members.into_iter().map(|n| Member { id: id(n), len }).collect();
            if let Ok(parity) = Parity::new(members, vec![0; CHECK_LEN + usize::from(len)]) {
                decoder.on_parity(now, parity);
            }
            prop_assert!(decoder.memory_used() <= memory);
            prop_assert_eq!(decoder.memory_used().bytes(), decoder.count_memory());
        }
    }
}
