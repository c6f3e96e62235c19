use crate::Malformed;
use crate::integer::{Reader, put_varint};

/// Most ranges in one acknowledgement.
pub const MAX_ACK_RANGES: usize = 32;
/// Most arrival times in one acknowledgement.
pub const MAX_ARRIVALS: usize = 24;
/// Receive times of single packets are told in units of this many
/// microseconds.
pub const ARRIVAL_UNIT_US: u32 = 16;

pub(crate) const ACK: u8 = 0x02;

/// Selective acknowledgement of one path's packets, with receive times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack<'a> {
    /// The path whose packets are acknowledged (not the one it's sent by).
    pub path: u8,
    /// The largest packet number received, low 32 bits.
    pub largest: u32,
    /// When that packet was received, by the receiver's clock, microseconds
    /// modulo 2^32.
    pub largest_received_us: u32,
    /// How long ago that was when the acknowledgement was written,
    /// microseconds.
    pub delay_us: u32,
    ranges: &'a [u8],
    range_count: u8,
    arrivals: &'a [u8],
    arrival_count: u8,
}

impl<'a> Ack<'a> {
    pub(crate) fn parse(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        let path = reader.u8()?;
        let largest = reader.u32()?;
        let largest_received_us = reader.u32()?;
        let delay_us = u32::try_from(reader.varint()?).map_err(|_| Malformed::TooLong)?;
        let range_count = reader.u8()?;
        if range_count == 0 || usize::from(range_count) > MAX_ACK_RANGES {
            return Err(Malformed::TooLong);
        }
        let ranges = varints(reader, 2 * usize::from(range_count) - 1)?;
        let arrival_count = reader.u8()?;
        if usize::from(arrival_count) > MAX_ARRIVALS {
            return Err(Malformed::TooLong);
        }
        let arrivals = varints(reader, 2 * usize::from(arrival_count))?;
        Ok(Self {
            path,
            largest,
            largest_received_us,
            delay_us,
            ranges,
            range_count,
            arrivals,
            arrival_count,
        })
    }

    /// The ranges of received packets `(lowest, highest)`, newest first, given
    /// the largest as its full number. Ends early where a range would go below
    /// zero.
    pub fn ranges(&self, largest: u64) -> AckRanges<'a> {
        AckRanges {
            reader: Reader(self.ranges),
            left: self.range_count,
            next: Some(largest),
            first: true,
        }
    }

    /// Receive times of single packets before the largest: `(packet number,
    /// how long before the largest, microseconds)`, newest first.
    pub fn arrivals(&self, largest: u64) -> impl Iterator<Item = (u64, u32)> + use<'a> {
        let mut reader = Reader(self.arrivals);
        let (mut number, mut units) = (largest, 0u32);
        (0..self.arrival_count).map_while(move |_| {
            number = number.checked_sub(reader.varint().ok()?)?;
            let earlier = u32::try_from(reader.varint().ok()?).ok()?;
            units = units.saturating_add(earlier).min(u32::MAX / ARRIVAL_UNIT_US);
            Some((number, units * ARRIVAL_UNIT_US))
        })
    }
}

fn varints<'a>(reader: &mut Reader<'a>, count: usize) -> Result<&'a [u8], Malformed> {
    let start = reader.0;
    for _ in 0..count {
        reader.varint()?;
    }
    Ok(&start[..start.len() - reader.0.len()])
}

/// Iterator over an acknowledgement's ranges.
pub struct AckRanges<'a> {
    reader: Reader<'a>,
    left: u8,
    /// Where the next range may end at the most.
    next: Option<u64>,
    first: bool,
}

impl Iterator for AckRanges<'_> {
    type Item = (u64, u64);

    fn next(&mut self) -> Option<(u64, u64)> {
        if self.left == 0 {
            return None;
        }
        self.left -= 1;
        let mut high = self.next?;
        if !self.first {
            high = high.checked_sub(self.reader.varint().ok()?)?;
        }
        self.first = false;
        let low = high.checked_sub(self.reader.varint().ok()?)?;
        // A gap has at least one missing packet.
        self.next = low.checked_sub(2);
        Some((low, high))
    }
}

/// What is needed to write an [`Ack`].
pub struct AckWriter<'a> {
    /// As in [`Ack`].
    pub path: u8,
    /// The largest packet number received.
    pub largest: u64,
    /// As in [`Ack`].
    pub largest_received_us: u32,
    /// As in [`Ack`].
    pub delay_us: u32,
    /// Received packets as `(lowest, highest)`, newest first, disjoint, not
    /// adjacent; the first one ends with `largest`. Those beyond
    /// [`MAX_ACK_RANGES`] are left out; without any, only `largest` counts as
    /// received.
    pub ranges: &'a [(u64, u64)],
    /// `(packet number, microseconds before the largest)`, newest first.
    pub arrivals: &'a [(u64, u32)],
}

impl AckWriter<'_> {
    /// Appends the frame.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.push(ACK);
        out.push(self.path);
        out.extend_from_slice(&(self.largest as u32).to_be_bytes());
        out.extend_from_slice(&self.largest_received_us.to_be_bytes());
        put_varint(out, u64::from(self.delay_us));
        let alone = [(self.largest, self.largest)];
        let ranges = if self.ranges.is_empty() { &alone } else { self.ranges };
        out.push(ranges.len().min(MAX_ACK_RANGES) as u8);
        let mut before: Option<u64> = None;
        for &(low, high) in ranges.iter().take(MAX_ACK_RANGES) {
            if let Some(before) = before {
                put_varint(out, before.saturating_sub(2).saturating_sub(high));
            }
            put_varint(out, high.saturating_sub(low));
            before = Some(low);
        }
        out.push(self.arrivals.len().min(MAX_ARRIVALS) as u8);
        let (mut number, mut units) = (self.largest, 0);
        for &(n, us) in self.arrivals.iter().take(MAX_ARRIVALS) {
            put_varint(out, number.saturating_sub(n));
            put_varint(out, u64::from((us / ARRIVAL_UNIT_US).saturating_sub(units)));
            (number, units) = (n.min(number), (us / ARRIVAL_UNIT_US).max(units));
        }
    }
}
