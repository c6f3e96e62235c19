//! How the timestamps of TCP (RFC 7323) go on within a super-packet.

use crate::headers::be32;
use crate::tcp_option;

/// Where in a super-packet that was joined from several the timestamps of TCP
/// change, and by how much. A sender's clock ticks every millisecond, so the
/// packets of a stream that wait together mostly differ in nothing else; their
/// headers then cross the tunnel once, and this instead of the others.
///
/// No kernel knows such packets: they are cut at the ticks before they reach a
/// device, see [`Segments::runs`](crate::Segments::runs).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ticks {
    count: u8,
    ticks: [Tick; Ticks::MAX],
}

/// From one segment on the timestamps are later than those of the first one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tick {
    /// The segment, counted from 0; never the first one.
    pub segment: u8,
    /// What is added to the first segment's TSval, in its sender's ticks.
    pub value: u8,
    /// What is added to the first segment's TSecr, in its receiver's ticks.
    pub echo: u8,
}

impl Ticks {
    /// Most of one packet: packets are joined for 4 ms.
    pub const MAX: usize = 7;

    /// All segments have the same timestamps.
    pub const NONE: Ticks =
        Ticks { count: 0, ticks: [Tick { segment: 0, value: 0, echo: 0 }; Ticks::MAX] };

    /// Appends a tick. `false`, and nothing done, when there is no room, or when
    /// it isn't behind the last one, or earlier.
    pub fn push(&mut self, tick: Tick) -> bool {
        let last = self.as_slice().last().copied().unwrap_or_default();
        let follows =
            tick.segment > last.segment && tick.value >= last.value && tick.echo >= last.echo;
        match self.ticks.get_mut(usize::from(self.count)) {
            Some(place) if follows => {
                *place = tick;
                self.count += 1;
                true
            }
            _ => false,
        }
    }

    /// In the order of their segments.
    pub fn as_slice(&self) -> &[Tick] {
        self.ticks.get(..self.count.into()).unwrap_or_default()
    }

    /// All segments have the same timestamps.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The tick that holds for `segment`, all zero in front of the first one.
    pub(crate) fn at(&self, segment: usize) -> Tick {
        let up_to = self.as_slice().iter().take_while(|tick| usize::from(tick.segment) <= segment);
        up_to.last().copied().unwrap_or_default()
    }

    /// Those of a piece that starts with segment `start` and ends before `end`.
    pub(crate) fn within(&self, start: usize, end: usize) -> Ticks {
        let base = self.at(start);
        let mut piece = Ticks::NONE;
        for tick in self.as_slice() {
            let at = usize::from(tick.segment);
            if at > start && at < end {
                piece.push(Tick {
                    segment: (at - start) as u8,
                    value: tick.value - base.value,
                    echo: tick.echo - base.echo,
                });
            }
        }
        piece
    }
}

/// Bytes of both timestamps.
pub(crate) const TIMESTAMPS_LEN: usize = 8;

/// Where the two timestamps are in a TCP header, its options included.
pub(crate) fn timestamps(tcp: &[u8]) -> Option<usize> {
    tcp_option::find(tcp, tcp_option::TIMESTAMPS, TIMESTAMPS_LEN)
}

/// By how much the timestamps at `at` of `later` are ahead of those of
/// `earlier`: TSval and TSecr. `None` if one isn't, or by more than a [`Tick`]
/// can say.
pub(crate) fn advance(earlier: &[u8], later: &[u8], at: usize) -> Option<(u8, u8)> {
    let ahead = |at| be32(later, at)?.wrapping_sub(be32(earlier, at)?).try_into().ok();
    Some((ahead(at)?, ahead(at + 4)?))
}

/// Puts the timestamps of a TCP header forward.
pub(crate) fn put_forward(tcp: &mut [u8], tick: Tick) -> Option<()> {
    let at = timestamps(tcp)?;
    for (at, by) in [(at, tick.value), (at + 4, tick.echo)] {
        let later = be32(tcp, at)?.wrapping_add(by.into());
        *tcp.get_mut(at..)?.first_chunk_mut()? = later.to_be_bytes();
    }
    Some(())
}
