use super::Message;
use crate::chain::{BLOCK, Chain};
use std::io::{self, Read};
use std::sync::{Mutex, PoisonError};

/// One message. On the wire: a byte for its kind, four for its length (little endian), and that
/// many bytes.
#[derive(Debug)]
pub enum Frame {
    /// Something about the work.
    Message(Message),
    /// A stream's next block.
    Data(Block),
    /// This many blocks of the stream were applied.
    Ack(u64),
    /// Still here.
    Ping,
}

/// A piece of a stream.
#[derive(Debug)]
pub struct Block {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// The chain over everything up to this, from the sender. It isn't sent over a wire: there both
    /// ends hash, so that they notice differences; two threads of one process needn't.
    pub chain: Option<Chain>,
}

/// Memory of blocks no longer in use: memory from the system costs as much as a copy.
static SPARE: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());
/// No more are in flight between two threads.
const SPARES: usize = 16;

impl Block {
    /// Empty memory for a block.
    pub fn memory() -> Vec<u8> {
        let spare = SPARE.lock().unwrap_or_else(PoisonError::into_inner).pop();
        spare.unwrap_or_else(|| Vec::with_capacity(BLOCK))
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let mut memory = std::mem::take(&mut self.bytes);
        let mut spare = SPARE.lock().unwrap_or_else(PoisonError::into_inner);
        if spare.len() < SPARES && memory.capacity() >= BLOCK {
            memory.clear();
            spare.push(memory);
        }
    }
}

/// No frame is longer; more is an error.
pub const LONGEST: usize = 1 << 20;

/// Why bytes aren't a frame.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The other end is gone.
    #[error("{0}")]
    Gone(#[from] io::Error),
    /// The data isn't ours: another program's output, or another version.
    #[error("unexpected output instead of Braid's protocol: {0}")]
    Strange(String),
}

const MESSAGE: u8 = b'm';
const DATA: u8 = b'd';
const ACK: u8 = b'a';
const PING: u8 = b'p';
const HEAD: usize = 5;

impl Frame {
    /// The frame's head and body.
    ///
    /// # Errors
    /// A message is longer than a frame may be.
    pub fn encode(&self) -> io::Result<([u8; HEAD], std::borrow::Cow<'_, [u8]>)> {
        let (kind, body): (u8, std::borrow::Cow<'_, [u8]>) = match self {
            Frame::Message(message) => (MESSAGE, serde_json::to_vec(message)?.into()),
            Frame::Data(block) => (DATA, block.bytes.as_slice().into()),
            Frame::Ack(blocks) => (ACK, blocks.to_le_bytes().to_vec().into()),
            Frame::Ping => (PING, (&[][..]).into()),
        };
        if body.len() > LONGEST {
            let text = format!("a message of {} bytes is too long", body.len());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let [a, b, c, d] = (body.len() as u32).to_le_bytes();
        Ok(([kind, a, b, c, d], body))
    }

    /// Reads the next frame.
    ///
    /// # Errors
    /// The other end is gone, or what comes is no frame.
    pub fn read(from: &mut impl Read) -> Result<Frame, FrameError> {
        let mut head = [0; HEAD];
        from.read_exact(&mut head)?;
        let [kind, a, b, c, d] = head;
        let length = u32::from_le_bytes([a, b, c, d]) as usize;
        if length > LONGEST || !matches!(kind, MESSAGE | DATA | ACK | PING) {
            return Err(strange(&head));
        }
        let mut body = if kind == DATA { Block::memory() } else { vec![] };
        if from.take(length as u64).read_to_end(&mut body)? < length {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        match kind {
            MESSAGE => serde_json::from_slice(&body)
                .map(Frame::Message)
                .map_err(|error| FrameError::Strange(error.to_string())),
            DATA => Ok(Frame::Data(Block { bytes: body, chain: None })),
            ACK => match body.try_into() {
                Ok(bytes) => Ok(Frame::Ack(u64::from_le_bytes(bytes))),
                Err(body) => Err(strange(&body)),
            },
            _ => Ok(Frame::Ping),
        }
    }
}

fn strange(bytes: &[u8]) -> FrameError {
    FrameError::Strange(format!("{:?}", String::from_utf8_lossy(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_are_a_frame_or_an_error(bytes: Vec<u8>) {
            let _ = Frame::read(&mut bytes.as_slice());
        }

        #[test]
        fn frames_are_read_as_written(block: Vec<u8>, blocks: u64) {
            let block = Block { bytes: block, chain: None };
            for frame in [Frame::Data(block), Frame::Ack(blocks), Frame::Ping] {
                let (head, body) = frame.encode().unwrap();
                let bytes = [&head[..], &body].concat();
                let read = Frame::read(&mut bytes.as_slice()).unwrap();
                prop_assert_eq!(format!("{read:?}"), format!("{frame:?}"));
            }
        }
    }

    #[test]
    fn a_length_beyond_the_limit_costs_no_memory() {
        let bytes = [DATA, 0xff, 0xff, 0xff, 0xff];
        assert!(matches!(Frame::read(&mut &bytes[..]), Err(FrameError::Strange(_))));
    }
}
