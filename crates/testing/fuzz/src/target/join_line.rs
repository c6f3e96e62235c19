use base64ct::{Base64UrlUnpadded, Encoding};
use braid_control::join_line::JoinLine;

/// The text of a join line, or its bytes, whose checksum is then corrected. What is read can be
/// written and read again as the same.
///
/// # Panics
/// If that doesn't hold: this is what the fuzzer looks for.
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
    let whole = [bytes, &crc32fast::hash(bytes).to_be_bytes()].concat();
    format!("braid-join:{}", Base64UrlUnpadded::encode_string(&whole))
}
