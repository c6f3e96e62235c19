use braid_linux::neighbour_proxy::{advertisement, solicitation};

/// A packet from the wire: who asks for a neighbour's address is answered, and nobody else.
///
/// # Panics
/// When that is not so: what the fuzzer looks for.
pub fn neighbour(data: &[u8]) {
    let Some(asked) = solicitation(data) else { return };
    assert!(!asked.target.is_multicast() && !asked.from.is_multicast());
    // Never forwarded (RFC 4861, 7.1.1), and of the right kind.
    assert_eq!((data[7], data[40]), (255, 135));
    let answer = advertisement(&asked, [2, 0, 0, 0, 0, 1]);
    assert_eq!((answer[0], &answer[8..24]), (136, &asked.target.octets()[..]));
}
