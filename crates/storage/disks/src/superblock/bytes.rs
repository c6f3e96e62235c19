/// Numbers and strings at fixed offsets in a block; `None` beyond its end.
#[derive(Clone, Copy)]
pub struct Block<'a>(pub &'a [u8]);

impl<'a> Block<'a> {
    /// `length` bytes from `at`.
    pub fn slice(self, at: usize, length: usize) -> Option<&'a [u8]> {
        self.0.get(at..at.checked_add(length)?)
    }

    /// An array of bytes.
    pub fn array<const N: usize>(self, at: usize) -> Option<[u8; N]> {
        self.slice(at, N)?.try_into().ok()
    }

    /// A little-endian number of 2 bytes.
    pub fn u16(self, at: usize) -> Option<u16> {
        self.array(at).map(u16::from_le_bytes)
    }

    /// A little-endian number of 4 bytes.
    pub fn u32(self, at: usize) -> Option<u32> {
        self.array(at).map(u32::from_le_bytes)
    }

    /// A little-endian number of 8 bytes.
    pub fn u64(self, at: usize) -> Option<u64> {
        self.array(at).map(u64::from_le_bytes)
    }

    /// A string that ends at its first zero byte, or at the field's end.
    pub fn text(self, at: usize, length: usize) -> Option<String> {
        let field = self.slice(at, length)?;
        let end = field.iter().position(|byte| *byte == 0).unwrap_or(length);
        Some(String::from_utf8_lossy(field.get(..end)?).into_owned())
    }
}
