//! Options of a TCP header (RFC 9293, section 3.1).

/// Maximum segment size.
pub(crate) const MSS: u8 = 2;
/// Timestamps (RFC 7323).
pub(crate) const TIMESTAMPS: u8 = 8;

/// Where the value of the first option of this kind whose value has `value_len`
/// bytes is in a TCP header, its options included. `None` where there is none
/// before the end of the list, or before an option that can't be.
pub(crate) fn find(tcp: &[u8], kind: u8, value_len: usize) -> Option<usize> {
    const END: u8 = 0;
    const PADDING: u8 = 1;
    let mut at = 20;
    loop {
        match *tcp.get(at)? {
            END => return None,
            PADDING => at += 1,
            found => {
                let len = usize::from(*tcp.get(at + 1)?);
                if found == kind && len == 2 + value_len && at + len <= tcp.len() {
                    return Some(at + 2);
                }
                if len < 2 {
                    return None;
                }
                at += len;
            }
        }
    }
}
