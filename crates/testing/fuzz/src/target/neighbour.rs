use braid_linux::neighbour_proxy::{advertisement, solicitation};

/// A packet from the wire: queries for a neighbour's address are answered, and nothing else is.
///
/// # Panics
/// If that doesn't hold: this is what the fuzzer looks for.
pub fn neighbour(data: &[u8]) {
    let Some(asked) = solicitation(data) else { return };
    assert!(!asked.target.is_multicast() && !asked.from.is_multicast());
    // It was never forwarded (RFC 4861, 7.1.1), and has the right type.
    assert_eq!((data[7], data[40]), (255, 135));
    let answer = advertisement(&asked, [2, 0, 0, 0, 0, 1]);
    assert_eq!((answer[0], &answer[8..24]), (136, &asked.target.octets()[..]));
}
