use crate::{Polynom, Polynom64};

/// A hash of the last bytes of a stream, as it is asked for.
pub trait RollingHash64 {
    /// Begins anew, with the first bytes of `bytes`: one fewer than it is a hash of. Gives how many
    /// it took.
    fn reset_and_prefill_window<I: Iterator<Item = u8>>(&mut self, bytes: &mut I) -> usize;

    /// The next byte comes, the oldest goes.
    fn slide(&mut self, byte: u8);
}

/// Rabin's fingerprint (1981, "Fingerprinting by random polynomials"): the bytes as one polynomial,
/// modulo another.
#[derive(Clone, Debug)]
pub struct Rabin64 {
    /// That of the last bytes.
    pub hash: Polynom64,
    /// What each byte is worth when it goes, after the shift.
    going: [Polynom64; 256],
    /// What the eight highest bits become that a shift moves out.
    above: [Polynom64; 256],
    /// Where they are.
    shift: u32,
    /// The last bytes, as a ring: a power of two of them.
    last: Box<[u8]>,
    oldest: usize,
}

impl Rabin64 {
    /// Of the last `2^bits` bytes, modulo a polynomial of a degree from 8 to 56.
    #[must_use]
    pub fn new_with_polynom(bits: u32, modulus: &Polynom64) -> Rabin64 {
        let window = 1_usize << bits;
        // Others would come out of a config that nobody's program has written.
        let degree = modulus.degree().clamp(8, 56).cast_unsigned();
        let above = sums(|bit| {
            let moved_out = 1 << (degree + bit);
            moved_out | moved_out.modulo(modulus)
        });
        let shift = degree - 8;
        let going = sums(|bit| {
            (0..window).fold((1 << bit).modulo(modulus), |hash, _| shifted(hash, &above, shift))
        });
        Rabin64 { hash: 0, going, above, shift, last: vec![0; window].into(), oldest: 0 }
    }

    /// `comes` is the byte, with what goes.
    #[inline]
    fn push(&mut self, byte: u8, comes: Polynom64) {
        self.hash = shifted(self.hash, &self.above, self.shift) ^ comes;
        if let Some(place) = self.last.get_mut(self.oldest) {
            *place = byte;
        }
        self.oldest = (self.oldest + 1) & (self.last.len() - 1);
    }
}

impl RollingHash64 for Rabin64 {
    fn reset_and_prefill_window<I: Iterator<Item = u8>>(&mut self, bytes: &mut I) -> usize {
        self.hash = 0;
        let taken =
            bytes.take(self.last.len() - 1).map(|byte| self.push(byte, byte.into())).count();
        // The one that is missing counts as a zero.
        if let Some(place) = self.last.get_mut(self.oldest) {
            *place = 0;
        }
        taken
    }

    #[inline]
    fn slide(&mut self, byte: u8) {
        let oldest = self.last.get(self.oldest).copied().unwrap_or(0);
        // Nothing of it waits for the hash before.
        let comes = Polynom64::from(byte) ^ of(&self.going, oldest);
        self.push(byte, comes);
    }
}

/// Both tables are linear: a byte's is the sum of its bits'.
fn sums(of_bit: impl Fn(u32) -> Polynom64) -> [Polynom64; 256] {
    let mut all = [0; 256];
    let mut filled = 1;
    for bit in 0..8 {
        let one = of_bit(bit);
        let (below, above) = all.split_at_mut(filled);
        for (sum, without) in above.iter_mut().zip(below.iter()) {
            *sum = without ^ one;
        }
        filled *= 2;
    }
    all
}

/// Times `x^8`.
#[inline]
fn shifted(hash: Polynom64, above: &[Polynom64; 256], shift: u32) -> Polynom64 {
    let [highest, ..] = (hash >> shift).to_le_bytes();
    hash << 8 ^ of(above, highest)
}

#[inline]
#[expect(clippy::indexing_slicing, reason = "there is one of each byte")]
fn of(table: &[Polynom64; 256], byte: u8) -> Polynom64 {
    table[usize::from(byte)]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of degree 53, as restic's.
    const MODULUS: Polynom64 = 1 << 53 | 0x1_2345_6789_abcd | 1;
    const WINDOW: usize = 64;

    /// By definition: eight bits of a byte after the other.
    fn by_hand(bytes: &[u8]) -> Polynom64 {
        bytes.iter().fold(0, |hash, byte| (hash << 8 | Polynom64::from(*byte)).modulo(&MODULUS))
    }

    fn bytes() -> Vec<u8> {
        (0..1000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
    }

    #[test]
    fn the_hash_is_that_of_the_last_bytes_and_of_nothing_before() {
        let bytes = bytes();
        let mut hash = Rabin64::new_with_polynom(6, &MODULUS);
        for round in 0..3 {
            let (head, tail) = bytes[round..].split_at(WINDOW);
            // It takes one fewer than there are.
            assert_eq!(hash.reset_and_prefill_window(&mut head.iter().copied()), WINDOW - 1);
            assert_eq!(hash.hash, by_hand(&head[..WINDOW - 1]));
            let mut seen = head[..WINDOW - 1].to_vec();
            for byte in tail {
                hash.slide(*byte);
                seen.push(*byte);
                let last = &seen[seen.len() - WINDOW..];
                assert_eq!(hash.hash, by_hand(last));
            }
        }
    }

    #[test]
    fn fewer_bytes_are_taken_where_there_are_no_more() {
        let mut hash = Rabin64::new_with_polynom(6, &MODULUS);
        assert_eq!(hash.reset_and_prefill_window(&mut [7, 9].into_iter()), 2);
        assert_eq!(hash.hash, by_hand(&[7, 9]));
    }
}
