use braid_carrier::framing::{Decoder, Frame, HEAD, head};

/// A stream of datagrams, received in pieces as its first byte says. What is read is what was
/// written.
///
/// # Panics
/// If that doesn't hold: this is what the fuzzer looks for.
pub fn framing(data: &[u8]) {
    let Some((&piece, stream)) = data.split_first() else { return };
    let (mut decoder, mut written) = (Decoder::new(), Vec::new());
    'stream: for part in stream.chunks(usize::from(piece) + 1) {
        decoder.room()[..part.len()].copy_from_slice(part);
        decoder.filled(part.len());
        loop {
            match decoder.next_frame() {
                Ok(Some(Frame { segment, contents })) => {
                    written.extend(head(segment, contents.len()).expect("what was read is right"));
                    written.extend(contents);
                }
                Ok(None) => break,
                Err(_) => break 'stream,
            }
        }
    }
    assert!(stream.starts_with(&written));
    assert!(written.is_empty() || written.len() > HEAD);
}
