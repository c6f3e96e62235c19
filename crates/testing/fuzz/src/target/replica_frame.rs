use braid_replica::wire::Frame;

/// Frames from the other end of a replication. What is read is written again in the same way.
///
/// # Panics
/// If that doesn't hold: this is what the fuzzer looks for.
pub fn replica_frame(data: &[u8]) {
    let mut from = data;
    while let Ok(frame) = Frame::read(&mut from) {
        let (head, body) = frame.encode().expect("what was read isn't too long");
        let written = [&head[..], &body[..]].concat();
        let again = Frame::read(&mut &written[..]).expect("what was written is right");
        assert_eq!(format!("{again:?}"), format!("{frame:?}"));
    }
}
