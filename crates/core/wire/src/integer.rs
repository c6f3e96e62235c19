use crate::Malformed;

/// Reads from the front of a slice; every getter fails instead of panicking.
pub(crate) struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    #[inline]
    pub fn bytes(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let (head, tail) = self.0.split_at_checked(len).ok_or(Malformed::Truncated)?;
        self.0 = tail;
        Ok(head)
    }
    #[inline]
    pub fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(self.bytes(1)?[0])
    }
    #[inline]
    pub fn u16(&mut self) -> Result<u16, Malformed> {
        let b = self.bytes(2)?;
        Ok(u16::from_be_bytes([b[0], b[1]]))
    }
    #[inline]
    pub fn u24(&mut self) -> Result<u32, Malformed> {
        let b = self.bytes(3)?;
        Ok(u32::from_be_bytes([0, b[0], b[1], b[2]]))
    }
    #[inline]
    pub fn u32(&mut self) -> Result<u32, Malformed> {
        let b = self.bytes(4)?;
        Ok(u32::from_be_bytes([b[0], b[1], b[2], b[3]]))
    }
    /// RFC 9000, section 16.
    #[inline]
    pub fn varint(&mut self) -> Result<u64, Malformed> {
        let first = self.u8()?;
        let high = u64::from(first & 0x3f);
        // Most numbers are small.
        if first < 0x40 {
            return Ok(high);
        }
        Ok(match first >> 6 {
            1 => high << 8 | u64::from(self.u8()?),
            2 => high << 24 | u64::from(self.u24()?),
            _ => high << 56 | u64::from(self.u24()?) << 32 | u64::from(self.u32()?),
        })
    }
}

/// Bytes that [`put_varint`] needs for `value`.
pub const fn varint_len(value: u64) -> usize {
    match value {
        0..=0x3f => 1,
        0x40..=0x3fff => 2,
        0x4000..=0x3fff_ffff => 4,
        _ => 8,
    }
}

/// The largest number that a varint can be.
pub const MAX_VARINT: u64 = (1 << 62) - 1;

/// RFC 9000, section 16. Values above [`MAX_VARINT`] are written as that.
#[inline]
pub(crate) fn put_varint(out: &mut Vec<u8>, value: u64) {
    let value = value.min(MAX_VARINT);
    match varint_len(value) {
        1 => out.push(value as u8),
        2 => out.extend_from_slice(&(value as u16 | 0x4000).to_be_bytes()),
        4 => out.extend_from_slice(&(value as u32 | 0x8000_0000).to_be_bytes()),
        _ => out.extend_from_slice(&(value | 0xc000_0000_0000_0000).to_be_bytes()),
    }
}

pub(crate) fn put_u24(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_be_bytes()[1..]);
}

/// A 24-bit sequence number as the wire carries it.
pub type Sequence = u32;

/// The full number whose low `bits` bits (at most 32) are `truncated` and that
/// is nearest to `expected`, the larger of two that are equally near (RFC 9000,
/// appendix A.3).
#[inline]
pub const fn expand(truncated: u32, bits: u32, expected: u64) -> u64 {
    let window = 1u64 << bits;
    let half = window / 2;
    let candidate = (expected & !(window - 1)) | (truncated as u64 & (window - 1));
    let nearer = if expected.saturating_sub(candidate) >= half {
        candidate.checked_add(window)
    } else if candidate.saturating_sub(expected) > half {
        candidate.checked_sub(window)
    } else {
        None
    };
    // Beyond either end of the numbers there's none.
    match nearer {
        Some(nearer) => nearer,
        None => candidate,
    }
}
