use braid_control::join_line::JoinLine;

/// The text of a join line, or the bytes in one, whose check sum is then made
/// right. What is read is written and read again as the same.
///
/// # Panics
/// When that is not so: what the fuzzer looks for.
pub fn join_line(data: &[u8]) {
    for text in [String::from_utf8_lossy(data).into_owned(), enclosed(data)] {
        let Ok(line) = text.parse::<JoinLine>() else { continue };
        let written = line.to_string();
        let again: JoinLine = written.parse().expect("a line that was written is right");
        assert_eq!(again.to_string(), written);
        assert!(!line.endpoints.is_empty());
        assert_eq!((again.endpoints, again.addresses), (line.endpoints, line.addresses));
    }
}

fn enclosed(bytes: &[u8]) -> String {
    let whole = [bytes, &crc32(bytes).to_be_bytes()].concat();
    format!("braid-join:{}", base64url(&whole))
}

/// CRC-32 of IEEE 802.3.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
    !bytes.iter().fold(u32::MAX, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step))
}

/// RFC 4648, section 5, without padding.
fn base64url(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let mut three = [0; 4];
        three[1..1 + group.len()].copy_from_slice(group);
        let number = u32::from_be_bytes(three);
        for digit in 0..=group.len() {
            let value = number >> (18 - 6 * digit) & 63;
            text.push(char::from(ALPHABET[value as usize]));
        }
    }
    text
}
