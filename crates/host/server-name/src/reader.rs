//! Reads bytes that may end anywhere.

#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { rest: bytes }
    }

    pub(crate) fn rest(self) -> &'a [u8] {
        self.rest
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(taken)
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        let bytes = self.take(2)?.first_chunk()?;
        Some(u16::from_be_bytes(*bytes))
    }

    pub(crate) fn u24(&mut self) -> Option<usize> {
        let high = self.u8()?;
        Some(usize::from(high) << 16 | usize::from(self.u16()?))
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        let bytes = self.take(4)?.first_chunk()?;
        Some(u32::from_be_bytes(*bytes))
    }

    /// Reads a field with a one-byte length prefix.
    pub(crate) fn vector8(&mut self) -> Option<&'a [u8]> {
        let length = self.u8()?;
        self.take(length.into())
    }

    /// Reads a field with a two-byte length prefix.
    pub(crate) fn vector16(&mut self) -> Option<&'a [u8]> {
        let length = self.u16()?;
        self.take(length.into())
    }

    /// Reads a variable-length integer (RFC 9000, section 16).
    pub(crate) fn varint(&mut self) -> Option<u64> {
        let first = self.u8()?;
        let more = (1_usize << (first >> 6)) - 1;
        let start = u64::from(first & 0x3f);
        Some(self.take(more)?.iter().fold(start, |sum, &byte| sum << 8 | u64::from(byte)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_quic_are_read() {
        // RFC 9000, appendix A.1.
        let read = |bytes: &[u8]| Reader::new(bytes).varint();
        let long = [0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c];
        assert_eq!(read(&long), Some(151_288_809_941_952_652));
        assert_eq!(read(&[0x9d, 0x7f, 0x3e, 0x7d]), Some(494_878_333));
        assert_eq!(read(&[0x7b, 0xbd]), Some(15_293));
        assert_eq!(read(&[0x25]), Some(37));
        assert_eq!(read(&[0x40]), None);
    }
}
