use std::collections::VecDeque;

/// Remembers which packet numbers of one path in one direction of a session
/// were received, so that none is taken twice.
///
/// A sliding window over blocks of 64 numbers, as in RFC 6479. It covers
/// [`Self::WIDTH`] numbers, but keeps only the blocks from the oldest missing
/// number to the highest received: a path without losses needs one block, an
/// idle path a few, a busy one with losses at most 16 KiB.
#[derive(Clone, Debug, Default)]
pub struct ReplayWindow {
    /// Bit b of block i stands for the number 64 · (first_block + i) + b.
    /// Numbers in blocks before were received or are too old, those in
    /// blocks after were not received.
    blocks: VecDeque<u64>,
    first_block: u64,
    /// One more than the highest number received; 128 bits because every u64
    /// is a number.
    end: u128,
}

/// Why a packet number is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotFresh {
    /// It was received before: a replay or a duplicate.
    #[error("a packet that was received before")]
    Seen,
    /// It is so old that nobody remembers.
    #[error("a packet too old to tell whether it was received before")]
    TooOld,
}

impl ReplayWindow {
    /// How many numbers up to the highest received are remembered: 2.5 times
    /// what 1 Gbit/s in packets of 1440 bytes are in 300 ms.
    pub const WIDTH: u64 = 65_536;

    /// A window for packet numbers from zero.
    pub fn new() -> Self {
        Self::default()
    }

    /// A window for packet numbers above `largest`: that one and all below count
    /// as received.
    pub fn up_to(largest: u64) -> Self {
        let (block, bit) = position(largest);
        let mut window = Self {
            blocks: VecDeque::from([bit | (bit - 1)]),
            first_block: block,
            end: u128::from(largest) + 1,
        };
        window.drop_complete();
        window
    }

    /// Whether a packet with this number may be taken, if it is authentic.
    /// Changes nothing, so it can be asked before the packet is opened.
    ///
    /// # Errors
    ///
    /// [`NotFresh`] if it may not.
    #[inline]
    pub fn check(&self, packet_number: u64) -> Result<(), NotFresh> {
        if u128::from(packet_number) + u128::from(Self::WIDTH) < self.end {
            return Err(NotFresh::TooOld);
        }
        let (block, bit) = position(packet_number);
        let Some(index) = block.checked_sub(self.first_block) else {
            return Err(NotFresh::Seen);
        };
        match usize::try_from(index).ok().and_then(|index| self.blocks.get(index)) {
            Some(received) if received & bit != 0 => Err(NotFresh::Seen),
            _ => Ok(()),
        }
    }

    /// Takes a number, to be done only once its packet has proved authentic.
    ///
    /// # Errors
    ///
    /// [`NotFresh`], as [`Self::check`]; nothing is changed then.
    #[inline]
    pub fn mark(&mut self, packet_number: u64) -> Result<(), NotFresh> {
        self.check(packet_number)?;
        let (block, bit) = position(packet_number);
        // Nearly always of a block that is there and stays incomplete.
        let index = usize::try_from(block - self.first_block).ok();
        match index.and_then(|index| self.blocks.get_mut(index)) {
            Some(received) if *received | bit != u64::MAX => {
                *received |= bit;
                self.end = self.end.max(u128::from(packet_number) + 1);
            }
            _ => self.mark_at_an_edge(packet_number),
        }
        Ok(())
    }

    /// As [`Self::mark`], where a block is begun or completed.
    fn mark_at_an_edge(&mut self, packet_number: u64) {
        let (block, bit) = position(packet_number);
        if u128::from(packet_number) >= self.end {
            self.end = u128::from(packet_number) + 1;
            self.advance_to(block);
        }
        let index = usize::try_from(block - self.first_block).ok();
        if let Some(received) = index.and_then(|index| self.blocks.get_mut(index)) {
            *received |= bit;
        }
        self.drop_complete();
    }

    /// Bytes of memory that the window takes beyond its own size.
    pub fn memory(&self) -> usize {
        self.blocks.capacity() * size_of::<u64>()
    }

    /// Makes `block` the last one and forgets those that are too old.
    fn advance_to(&mut self, block: u64) {
        let oldest = block.saturating_sub(Self::WIDTH / 64);
        if oldest >= self.first_block + self.blocks.len() as u64 {
            self.blocks.clear();
            self.first_block = oldest;
        }
        while self.first_block < oldest {
            self.drop_first();
        }
        let wanted = (block - self.first_block) as usize + 1;
        if self.blocks.len() < wanted {
            self.blocks.resize(wanted, 0);
        }
    }

    fn drop_complete(&mut self) {
        while self.blocks.front() == Some(&u64::MAX) {
            self.drop_first();
        }
    }

    fn drop_first(&mut self) {
        self.blocks.pop_front();
        self.first_block += 1;
    }
}

fn position(packet_number: u64) -> (u64, u64) {
    (packet_number / 64, 1 << (packet_number % 64))
}
