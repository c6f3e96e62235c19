//! Whole buffers, compressed and decompressed.

use std::cell::RefCell;
use std::io::{self, Write};
use zstd_safe::{CCtx, DCtx, InBuffer, OutBuffer, ResetDirective, get_error_name};

thread_local! {
    static COMPRESSING: RefCell<Option<CCtx<'static>>> = const { RefCell::new(None) };
    static DECOMPRESSING: RefCell<Option<DCtx<'static>>> = const { RefCell::new(None) };
}

/// So much is set aside for what says that it is larger: it may not say the truth.
const MOST_AT_ONCE: u64 = 16 << 20;

/// As one frame, at this level; 0 is the usual one.
///
/// # Errors
/// There is no memory for it.
pub fn encode_all(source: &[u8], level: i32) -> io::Result<Vec<u8>> {
    let mut into = Vec::with_capacity(zstd_safe::compress_bound(source.len()));
    COMPRESSING.with_borrow_mut(|context| {
        let context = match context {
            Some(context) => context,
            none => none.insert(CCtx::try_create().ok_or(io::ErrorKind::OutOfMemory)?),
        };
        context.compress(&mut into, source, level).map_err(said)
    })?;
    Ok(into)
}

/// The same, written behind what is there.
///
/// # Errors
/// There is no memory for it, or it can't be written.
pub fn copy_encode(source: &[u8], mut into: impl Write, level: i32) -> io::Result<()> {
    into.write_all(&encode_all(source, level)?)
}

/// What all frames hold, one behind the other.
///
/// # Errors
/// It is damaged, or ends too early.
pub fn decode_all(source: &[u8]) -> io::Result<Vec<u8>> {
    DECOMPRESSING.with_borrow_mut(|context| {
        let context = match context {
            Some(context) => context,
            none => none.insert(DCtx::try_create().ok_or(io::ErrorKind::OutOfMemory)?),
        };
        // What broke off before is of no matter.
        context.reset(ResetDirective::SessionOnly).map_err(said)?;
        decode(context, source)
    })
}

fn decode(context: &mut DCtx<'_>, source: &[u8]) -> io::Result<Vec<u8>> {
    let told = zstd_safe::get_frame_content_size(source).ok().flatten();
    let at_first = told.unwrap_or(4 * source.len() as u64).min(MOST_AT_ONCE);
    let mut into = Vec::with_capacity(usize::try_from(at_first).unwrap_or(0) + 1);
    let mut from = InBuffer::around(source);
    loop {
        let (read, written) = (from.pos(), into.len());
        if into.len() == into.capacity() {
            into.reserve(into.len().max(64 * 1024));
        }
        let mut out = OutBuffer::around_pos(&mut into, written);
        let wanted = context.decompress_stream(&mut out, &mut from).map_err(said)?;
        let is_in_frame = wanted != 0;
        let (is_read, has_room) = (from.pos() == source.len(), into.len() < into.capacity());
        if is_read && !is_in_frame {
            return Ok(into);
        }
        // All is read, there is room, and nothing comes any more.
        if is_read && has_room && from.pos() == read && into.len() == written {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

fn said(code: usize) -> io::Error {
    io::Error::other(get_error_name(code))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(bytes: usize) -> Vec<u8> {
        let number = |at: usize| (at as u32).wrapping_mul(2_654_435_761);
        (0..bytes).map(|at| (number(at) ^ number(at * at) >> 7).to_be_bytes()[0]).collect()
    }

    #[test]
    fn all_comes_back_whatever_was_compressed_before() {
        for size in [0, 1, 100, 128 * 1024, 128 * 1024 + 1, 3_000_000] {
            for data in [noise(size), vec![7; size]] {
                for level in [0, 1, 19] {
                    let small = encode_all(&data, level).unwrap();
                    assert_eq!(decode_all(&small).unwrap(), data, "{size} bytes, level {level}");
                }
            }
        }
        assert!(encode_all(&[7; 100_000], 0).unwrap().len() < 100);
        let mut file = vec![2];
        copy_encode(b"some text", &mut file, 3).unwrap();
        assert_eq!((file[0], decode_all(&file[1..]).unwrap()), (2, b"some text".to_vec()));
    }

    #[test]
    fn frames_behind_each_other_are_one() {
        let both = [encode_all(b"one", 0).unwrap(), encode_all(&noise(500_000), 0).unwrap()];
        let expected = [b"one".to_vec(), noise(500_000)].concat();
        assert_eq!(decode_all(&both.concat()).unwrap(), expected);
    }

    #[test]
    fn what_is_damaged_or_ends_too_early_is_an_error_and_harms_nothing_after_it() {
        let data = noise(300_000);
        let whole = encode_all(&data, 0).unwrap();
        for length in [1, 5, 20, 1000, whole.len() / 2, whole.len() - 1] {
            assert!(decode_all(&whole[..length]).is_err(), "{length} bytes");
            assert_eq!(decode_all(&whole).unwrap(), data);
        }
        assert!(decode_all(b"no frame at all").is_err());
        assert_eq!(decode_all(&whole).unwrap(), data);
    }

    #[test]
    fn a_frame_that_says_that_it_is_huge_takes_no_memory_for_it() {
        // Magic, a descriptor with an 8-byte size, the size, and nothing (RFC 8878 section 3.1.1).
        let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0b1110_0000];
        frame.extend((1_u64 << 60).to_le_bytes());
        assert!(decode_all(&frame).is_err());
    }
}
