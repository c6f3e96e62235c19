use super::{Command, StreamError};

/// Cuts a stream, which comes in pieces of any size, into its commands.
#[derive(Debug, Default)]
pub struct Reader {
    /// 0 until the header came.
    version: u32,
    buffer: Vec<u8>,
    /// How much of `buffer` is used up.
    used: usize,
    /// Where in the stream `buffer[used]` is.
    position: u64,
}

impl Reader {
    /// For a stream's beginning.
    pub fn new() -> Reader {
        Reader::default()
    }

    /// For what follows byte `position` of a stream of `version`, where a command must begin.
    pub fn resumed(version: u32, position: u64) -> Reader {
        Reader { version, position, ..Reader::default() }
    }

    /// Where the next command begins.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The stream's version; 0 until its header came.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// Takes the next bytes.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.used);
        self.used = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// The next command if it is complete. Then [`Reader::position`] is after it.
    ///
    /// # Errors
    /// The bytes aren't a stream, or are damaged.
    pub fn next_command(&mut self) -> Result<Option<Command<'_>>, StreamError> {
        if self.version == 0 && !self.read_header()? {
            return Ok(None);
        }
        let rest = self.buffer.get(self.used..).unwrap_or_default();
        let Some((head, body)) = rest.split_first_chunk::<HEAD>() else { return Ok(None) };
        let [l0, l1, l2, l3, n0, n1, c0, c1, c2, c3] = *head;
        let length = u32::from_le_bytes([l0, l1, l2, l3]);
        if length > LONGEST {
            return Err(StreamError::TooLong { at: self.position, length });
        }
        let Some(body) = body.get(..length as usize) else { return Ok(None) };
        // The checksum is made over the command with zero in its own place.
        let sum = checksum(&[l0, l1, l2, l3, n0, n1, 0, 0, 0, 0], body);
        if sum != u32::from_le_bytes([c0, c1, c2, c3]) {
            return Err(StreamError::Checksum(self.position));
        }
        let command = Command::read(self.version, u16::from_le_bytes([n0, n1]), body)?;
        self.used += HEAD + length as usize;
        self.position += HEAD as u64 + u64::from(length);
        Ok(Some(command))
    }

    fn read_header(&mut self) -> Result<bool, StreamError> {
        let seen = self.buffer.len().min(MAGIC.len());
        if self.buffer.get(..seen) != MAGIC.get(..seen) {
            return Err(StreamError::NoHeader);
        }
        let Some(version) = self.buffer.get(MAGIC.len()..).and_then(<[u8]>::first_chunk) else {
            return Ok(false);
        };
        let version = u32::from_le_bytes(*version);
        if !(1..=2).contains(&version) {
            return Err(StreamError::Version(version));
        }
        self.version = version;
        self.used = MAGIC.len() + 4;
        self.position = self.used as u64;
        Ok(true)
    }
}

const MAGIC: &[u8] = b"btrfs-stream\0";
/// Length (4), number (2), checksum (4).
const HEAD: usize = 10;
/// Kernels write no more than some 150 KiB; more is an error.
const LONGEST: u32 = 16 << 20;

/// The kernel's CRC-32C starts at zero and isn't inverted at the end.
fn checksum(head: &[u8; HEAD], body: &[u8]) -> u32 {
    let sum = crc32c::crc32c_append(!0, head);
    !crc32c::crc32c_append(sum, body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn command(number: u16, body: &[u8]) -> Vec<u8> {
        let mut bytes = (body.len() as u32).to_le_bytes().to_vec();
        bytes.extend(number.to_le_bytes());
        let mut head = [0; HEAD];
        head[..6].copy_from_slice(&bytes);
        bytes.extend(checksum(&head, body).to_le_bytes());
        bytes.extend(body);
        bytes
    }

    fn sample() -> Vec<u8> {
        let mut stream = MAGIC.to_vec();
        stream.extend(1u32.to_le_bytes());
        stream.extend(command(3, &[15, 0, 3, 0, b'a', b'/', b'b']));
        stream.extend(command(21, &[]));
        stream
    }

    #[test]
    fn commands_come_out_however_the_stream_is_cut() {
        let stream = sample();
        for cut in 1..stream.len() {
            let mut reader = Reader::new();
            let mut seen = vec![];
            for piece in stream.chunks(cut) {
                reader.feed(piece);
                while let Some(command) = reader.next_command().unwrap() {
                    seen.push(format!("{command:?}"));
                }
            }
            assert_eq!(seen, ["MakeFile { path: \"a/b\" }", "End"]);
            assert_eq!(reader.position(), stream.len() as u64);
        }
    }

    #[test]
    fn a_changed_bit_is_noticed() {
        let stream = sample();
        for at in 0..stream.len() * 8 {
            let mut changed = stream.clone();
            changed[at / 8] ^= 1 << (at % 8);
            let mut reader = Reader::new();
            reader.feed(&changed);
            let mut complete = false;
            let outcome = loop {
                match reader.next_command() {
                    Ok(Some(Command::End)) => complete = true,
                    Ok(Some(_)) => {}
                    other => break other.map(|_| ()),
                }
            };
            // Version 1 may become 2: the commands here are the same in both.
            assert!(outcome.is_err() || !complete || reader.version() == 2, "bit {at}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_error_or_wait_for_more(bytes: Vec<u8>, number: u16, version in 1u32..3) {
            let mut reader = Reader::resumed(version, 17);
            reader.feed(&command(number, &bytes));
            reader.feed(&bytes);
            while let Ok(Some(_)) = reader.next_command() {}
            let mut reader = Reader::new();
            reader.feed(&bytes);
            while let Ok(Some(_)) = reader.next_command() {}
        }
    }
}
