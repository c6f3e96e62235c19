use super::input::Input;
use braid_replica::stream::{Command, Reader};

/// A send stream, in pieces of any size; and bodies of commands with valid checksums. It ends at
/// the same place however it is cut.
///
/// # Panics
/// If that doesn't hold: this is what the fuzzer looks for.
pub fn send_stream(data: &[u8]) {
    let ends = [1, 7, data.len().max(1)].map(|size| {
        let mut reader = Reader::new();
        for piece in data.chunks(size) {
            reader.feed(piece);
            while let Ok(Some(_)) = reader.next_command() {}
        }
        reader.position()
    });
    assert!(ends.iter().all(|end| *end == ends[0]), "{ends:?}");
    let mut input = Input(data);
    while !input.is_empty() {
        let (version, number) = (1 + u32::from(input.u8() & 1), u16::from(input.u8()));
        let length = usize::from(input.u16()) % 512;
        let _ = Command::read(version, number, input.bytes(length));
    }
}
