//! Netlink messages: building requests, parsing answers (netlink(7)).

/// Bytes of `struct nlmsghdr`.
pub(crate) const HEADER_LEN: usize = 16;
/// Set by the kernel or us on attributes that hold attributes.
const NESTED: u16 = libc::NLA_F_NESTED as u16;
/// Bits of an attribute's type that are flags.
const TYPE_MASK: u16 = 0x3fff;

/// A request under construction.
pub(crate) struct Request {
    bytes: Vec<u8>,
}

impl Request {
    /// A request of a message type (`RTM_…`) with flags (`NLM_F_…`).
    pub(crate) fn new(kind: u16, flags: libc::c_int) -> Request {
        let mut bytes = vec![0; HEADER_LEN];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        let flags = (flags | libc::NLM_F_REQUEST) as u16;
        bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
        Request { bytes }
    }

    /// Appends the family's fixed struct.
    pub(crate) fn fixed(mut self, fixed: &[u8]) -> Request {
        self.bytes.extend_from_slice(fixed);
        self.pad();
        self
    }

    /// Appends an attribute.
    pub(crate) fn attribute(mut self, kind: u16, payload: &[u8]) -> Request {
        self.push(kind, payload);
        self
    }

    /// Appends a 32-bit attribute.
    pub(crate) fn u32(self, kind: u16, value: u32) -> Request {
        self.attribute(kind, &value.to_ne_bytes())
    }

    /// Appends a zero-terminated string.
    pub(crate) fn string(self, kind: u16, value: &str) -> Request {
        let mut payload = value.as_bytes().to_vec();
        payload.push(0);
        self.attribute(kind, &payload)
    }

    /// Appends an attribute that holds attributes (or a struct and attributes).
    pub(crate) fn nested(mut self, kind: u16, fill: impl FnOnce(Request) -> Request) -> Request {
        let start = self.bytes.len();
        self.push(kind | NESTED, &[]);
        let mut filled = fill(self);
        let len = (filled.bytes.len() - start) as u16;
        filled.bytes[start..start + 2].copy_from_slice(&len.to_ne_bytes());
        filled
    }

    /// The finished message.
    pub(crate) fn finish(mut self, sequence: u32) -> Vec<u8> {
        let len = self.bytes.len() as u32;
        self.bytes[0..4].copy_from_slice(&len.to_ne_bytes());
        self.bytes[8..12].copy_from_slice(&sequence.to_ne_bytes());
        self.bytes
    }

    fn push(&mut self, kind: u16, payload: &[u8]) {
        let len = (4 + payload.len()) as u16;
        self.bytes.extend_from_slice(&len.to_ne_bytes());
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.bytes.extend_from_slice(payload);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

/// A message received.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message<'a> {
    pub(crate) kind: u16,
    pub(crate) sequence: u32,
    pub(crate) body: &'a [u8],
}

/// The messages of one datagram; stops at the first that doesn't fit.
pub(crate) fn messages(datagram: &[u8]) -> impl Iterator<Item = Message<'_>> {
    let mut rest = datagram;
    std::iter::from_fn(move || {
        let len = u32_at(rest, 0)? as usize;
        let message = Message {
            kind: u16_at(rest, 4)?,
            sequence: u32_at(rest, 8)?,
            body: rest.get(HEADER_LEN..len)?,
        };
        rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some(message)
    })
}

/// The attributes in `bytes`; stops at the first that doesn't fit.
pub(crate) fn attributes(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let len = usize::from(u16_at(rest, 0)?);
        let kind = u16_at(rest, 2)? & TYPE_MASK;
        let payload = rest.get(4..len)?;
        rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, payload))
    })
}

/// The native-endian number at `offset`.
pub(crate) fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    let field = bytes.get(offset..)?.first_chunk()?;
    Some(u16::from_ne_bytes(*field))
}

/// The native-endian number at `offset`.
pub(crate) fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    let field = bytes.get(offset..)?.first_chunk()?;
    Some(u32::from_ne_bytes(*field))
}

/// A string attribute, without its terminator.
pub(crate) fn string(payload: &[u8]) -> String {
    let end = payload.iter().position(|&byte| byte == 0).unwrap_or(payload.len());
    String::from_utf8_lossy(&payload[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let bytes = Request::new(16, 0)
            .fixed(&[1, 2, 3, 4])
            .string(3, "eth0")
            .nested(18, |inner| inner.u32(1, 7))
            .finish(9);
        let message = messages(&bytes).next().unwrap();
        assert_eq!((message.kind, message.sequence), (16, 9));
        let found: Vec<_> = attributes(&message.body[4..]).collect();
        assert_eq!(string(found[0].1), "eth0");
        assert_eq!(found[1].0, 18);
        assert_eq!(u32_at(attributes(found[1].1).next().unwrap().1, 0), Some(7));
    }

    proptest::proptest! {
        #[test]
        fn garbage_ends_the_walk(bytes: Vec<u8>) {
            for message in messages(&bytes) {
                attributes(message.body).for_each(drop);
            }
        }
    }
}
