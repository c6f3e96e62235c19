use braid_units::Rate;
use flate2::read::MultiGzDecoder;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The first bytes of a gzip member (RFC 1952, section 2.3.1).
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
/// Far more than a minute of a 1 Gbit/s recording needs: 16 M opportunities are 64 MiB of memory.
const MAX_OPPORTUNITIES: usize = 16 << 20;
/// Bounds the work on an endless line or a gzip bomb.
const MAX_TEXT_BYTES: u64 = 256 << 20;
/// A number has at most ten digits; a longer line isn't from a trace.
const MAX_LINE_BYTES: usize = 64;

/// A recorded link in Mahimahi's format (R. Netravali et al., "Mahimahi:
/// Accurate Record-and-Replay for HTTP", USENIX ATC 2015): a line a delivery
/// opportunity, its milliseconds from the start. An opportunity delivers up to
/// [`Trace::OPPORTUNITY_BYTES`]; the recording repeats when it ends, its last
/// line being its length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// Ascending, never empty, the last one above zero.
    opportunities: Vec<u32>,
}

impl Trace {
    /// Bytes that one opportunity delivers: a full packet, or several small ones.
    pub const OPPORTUNITY_BYTES: u32 = 1500;

    /// Reads a trace file, plain or gzip, which is detected from its content.
    ///
    /// # Errors
    /// The file can't be read or isn't a trace; names file and line.
    pub fn load(path: &Path) -> Result<Self, TraceError> {
        let file =
            File::open(path).map_err(|source| TraceError::Io { path: path.into(), source })?;
        Self::read(file, path)
    }

    /// Reads a trace, plain or gzip; `path` is only for messages.
    ///
    /// # Errors
    /// As [`Trace::load`].
    pub fn read(reader: impl Read, path: &Path) -> Result<Self, TraceError> {
        let mut reader = BufReader::new(reader);
        let head =
            reader.fill_buf().map_err(|source| TraceError::Io { path: path.into(), source })?;
        if head.starts_with(&GZIP_MAGIC) {
            Self::parse(BufReader::new(MultiGzDecoder::new(reader)), path)
        } else {
            Self::parse(reader, path)
        }
    }

    /// A trace from its opportunities in milliseconds; `None` if they are empty,
    /// not ascending or all at zero.
    pub fn from_millis(opportunities: Vec<u32>) -> Option<Self> {
        let last = *opportunities.last()?;
        (last > 0 && opportunities.is_sorted()).then_some(Trace { opportunities })
    }

    /// Number of opportunities in one pass.
    pub fn opportunities(&self) -> usize {
        self.opportunities.len()
    }

    /// Duration of one pass.
    pub fn length(&self) -> Duration {
        Duration::from_millis(self.length_millis())
    }

    /// The mean rate over one pass.
    pub fn mean_rate(&self) -> Rate {
        let bytes = self.opportunities.len() as u64 * u64::from(Self::OPPORTUNITY_BYTES);
        Rate::from_bytes_in(bytes, self.length()).unwrap_or(Rate::MAX)
    }

    /// When opportunity number `index` occurs, counted over all passes.
    pub(crate) fn time_of(&self, index: u64) -> Duration {
        let (pass, within) = self.split(index);
        let millis = self.opportunities.get(within).copied().unwrap_or_default();
        Duration::from_millis(
            pass.saturating_mul(self.length_millis()).saturating_add(u64::from(millis)),
        )
    }

    /// The first opportunity at or after `time`, counted over all passes.
    pub(crate) fn first_at(&self, time: Duration) -> u64 {
        // Rounded up to whole milliseconds, since opportunities are at whole ones.
        let millis = u64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
        let (pass, rest) = (millis / self.length_millis(), millis % self.length_millis());
        let within = self.opportunities.partition_point(|&at| u64::from(at) < rest) as u64;
        let index = pass.saturating_mul(self.opportunities.len() as u64).saturating_add(within);
        if rest > 0 || pass == 0 {
            return index;
        }
        // A pass's last millisecond is the next one's zero: its end comes first.
        let ending = self.opportunities.partition_point(|&at| u64::from(at) < self.length_millis());
        index - (self.opportunities.len() - ending) as u64
    }

    fn split(&self, index: u64) -> (u64, usize) {
        let count = self.opportunities.len() as u64;
        (index / count, (index % count) as usize)
    }

    fn length_millis(&self) -> u64 {
        self.opportunities.last().map_or(1, |&last| u64::from(last))
    }

    fn parse(reader: impl BufRead, path: &Path) -> Result<Self, TraceError> {
        let mut reader = reader.take(MAX_TEXT_BYTES);
        let mut opportunities = Vec::new();
        let mut line = Vec::new();
        for number in 1.. {
            line.clear();
            let read = (&mut reader)
                .take(MAX_LINE_BYTES as u64)
                .read_until(b'\n', &mut line)
                .map_err(|source| TraceError::Io { path: path.into(), source })?;
            if read == 0 {
                break;
            }
            let at = |problem| TraceError::Line { path: path.into(), line: number, problem };
            let text = line.trim_ascii();
            if text.is_empty() && line.len() < MAX_LINE_BYTES {
                continue;
            }
            let millis: u32 = std::str::from_utf8(text)
                .ok()
                .filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))
                .and_then(|text| text.parse().ok())
                .ok_or_else(|| at(LineProblem::NotMillis(excerpt(text))))?;
            if let Some(&previous) = opportunities.last()
                && millis < previous
            {
                return Err(at(LineProblem::Backwards { previous, millis }));
            }
            if opportunities.len() == MAX_OPPORTUNITIES {
                return Err(at(LineProblem::TooMany));
            }
            opportunities.push(millis);
        }
        if reader.limit() == 0 {
            return Err(TraceError::TooLong { path: path.into() });
        }
        Self::from_millis(opportunities).ok_or_else(|| TraceError::Empty { path: path.into() })
    }
}

fn excerpt(text: &[u8]) -> String {
    String::from_utf8_lossy(&text[..text.len().min(24)]).into_owned()
}

/// Why a trace can't be used.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file can't be read.
    #[error("{}: can't read the trace: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A line is invalid.
    #[error("{}:{line}: {problem}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong in it.
        problem: LineProblem,
    },
    /// There's no opportunity after time zero, so it can't repeat.
    #[error(
        "{}: the trace has no delivery opportunity after 0 ms; each line is one, \
         in milliseconds from the start", path.display()
    )]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// The text is longer than any trace.
    #[error("{}: the trace is longer than {} MiB of text; cut it", path.display(), MAX_TEXT_BYTES >> 20)]
    TooLong {
        /// The file.
        path: PathBuf,
    },
}

/// What is wrong in a line of a trace.
#[derive(Debug, thiserror::Error)]
pub enum LineProblem {
    /// Not an integer.
    #[error("{0:?} is not a whole number of milliseconds (0 to 4294967295), one a line")]
    NotMillis(String),
    /// Time runs backwards.
    #[error("{millis} ms comes after {previous} ms; times must not decrease")]
    Backwards {
        /// The previous line's time.
        previous: u32,
        /// This line's time.
        millis: u32,
    },
    /// Too many to hold in memory.
    #[error("more than {MAX_OPPORTUNITIES} opportunities; cut the trace")]
    TooMany,
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::write::GzEncoder;
    use proptest::prelude::*;
    use std::io::Write;

    fn read(bytes: &[u8]) -> Result<Trace, TraceError> {
        Trace::read(bytes, Path::new("t.down"))
    }

    #[test]
    fn plain_and_gzip_read_the_same() {
        let text = b"0\n5\n5\n\n10\r\n";
        let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text).unwrap();
        let plain = read(text).unwrap();
        assert_eq!(plain, read(&encoder.finish().unwrap()).unwrap());
        assert_eq!(plain.opportunities(), 4);
        assert_eq!(plain.length(), Duration::from_millis(10));
        assert_eq!(plain.mean_rate().bits_per_sec(), 4_800_000);
    }

    #[test]
    fn errors_name_file_and_line() {
        for (text, expected) in [
            ("1\nx\n", "t.down:2: \"x\" is not a whole number"),
            ("1\n-2\n", "t.down:2: \"-2\" is not"),
            ("5\n4\n", "t.down:2: 4 ms comes after 5 ms"),
            ("99999999999\n", "t.down:1: "),
            ("", "no delivery opportunity"),
            ("0\n0\n", "no delivery opportunity"),
        ] {
            let message = read(text.as_bytes()).unwrap_err().to_string();
            assert!(message.contains(expected), "{text:?}: {message}");
        }
        let endless = vec![b'1'; 1 << 20];
        assert!(read(&endless).is_err());
        assert!(Trace::load(Path::new("/nonexistent/x.gz")).is_err());
    }

    #[test]
    fn it_repeats_with_its_last_line_as_length() {
        let trace = Trace::from_millis(vec![2, 7, 10]).unwrap();
        let times: Vec<u128> = (0..7).map(|i| trace.time_of(i).as_millis()).collect();
        assert_eq!(times, [2, 7, 10, 12, 17, 20, 22]);
    }

    proptest! {
        #[test]
        fn first_at_is_the_first_not_before(
            gaps in proptest::collection::vec(0u32..5, 1..40),
            micros in 0u64..400_000,
        ) {
            let mut at = 0;
            let millis: Vec<u32> = gaps.iter().map(|gap| { at += gap; at }).collect();
            if let Some(trace) = Trace::from_millis(millis) {
                let time = Duration::from_micros(micros);
                let first = trace.first_at(time);
                prop_assert!(trace.time_of(first) >= time);
                prop_assert!(first == 0 || trace.time_of(first - 1) < time);
            }
        }

        #[test]
        fn garbage_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&bytes);
            let mut gzip = GZIP_MAGIC.to_vec();
            gzip.extend(&bytes);
            let _ = read(&gzip);
        }
    }
}
