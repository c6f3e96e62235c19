use std::fmt;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

/// Bytes that pass at each opportunity (Mahimahi, USENIX ATC 2015).
pub(super) const OPPORTUNITY: u64 = 1500;

/// Delivery opportunities as Mahimahi records them: one line each, the
/// millisecond at which 1500 bytes may pass. Repeats after its end.
#[derive(Debug, PartialEq, Eq)]
pub struct Trace {
    millis: Vec<u64>,
    period: u64,
}

/// Why a recording can't be used.
#[derive(Debug)]
pub enum TraceError {
    /// It can't be read.
    Unreadable(std::io::Error),
    /// This line (from 1) isn't a number, or is less than the one before.
    BadLine(usize),
    /// Nothing ever passes.
    Empty,
}

impl Trace {
    /// Opportunities at these milliseconds, ascending.
    ///
    /// # Errors
    /// If they don't ascend, or there is none.
    pub fn new(millis: Vec<u64>) -> Result<Self, TraceError> {
        if let Some(at) = millis.windows(2).position(|w| w[1] < w[0]) {
            return Err(TraceError::BadLine(at + 2));
        }
        let &last = millis.last().ok_or(TraceError::Empty)?;
        Ok(Self { millis, period: last.max(1) })
    }

    /// Reads a file, gzipped if its name ends so.
    ///
    /// # Errors
    /// If it can't be read, or isn't a trace.
    pub fn read(path: &Path) -> Result<Self, TraceError> {
        let file = std::fs::File::open(path).map_err(TraceError::Unreadable)?;
        let mut text = String::new();
        let gzipped = path.extension().is_some_and(|e| e == "gz");
        let read = if gzipped {
            flate2::read::GzDecoder::new(file).read_to_string(&mut text)
        } else {
            std::io::BufReader::new(file).read_to_string(&mut text)
        };
        read.map_err(TraceError::Unreadable)?;
        let millis = text
            .lines()
            .enumerate()
            .map(|(i, line)| line.trim().parse().map_err(|_| TraceError::BadLine(i + 1)))
            .collect::<Result<_, _>>()?;
        Self::new(millis)
    }

    /// The moment of opportunity number `index`, counted through repetitions.
    pub(super) fn at(&self, index: u64) -> Duration {
        let count = self.millis.len() as u64;
        let millis = self.millis[(index % count) as usize] + index / count * self.period;
        Duration::from_millis(millis)
    }

    /// The first opportunity at or after `moment`.
    pub(super) fn first_from(&self, moment: Duration) -> u64 {
        let millis = moment.as_nanos().div_ceil(1_000_000) as u64;
        let (turns, within) = (millis / self.period, millis % self.period);
        let index = self.millis.partition_point(|&m| m < within);
        turns * self.millis.len() as u64 + index as u64
    }

    /// Bytes that pass before `moment`.
    pub fn bytes_before(&self, moment: Duration) -> u64 {
        self.first_from(moment) * OPPORTUNITY
    }
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(error) => write!(f, "the trace can't be read: {error}"),
            Self::BadLine(line) => {
                write!(f, "line {line}: not a millisecond, or before the one above")
            }
            Self::Empty => write!(f, "the trace has no line"),
        }
    }
}

impl std::error::Error for TraceError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_repeats() {
        let trace = Trace::new(vec![0, 5, 5, 10]).unwrap();
        let at: Vec<u128> = (0..8).map(|i| trace.at(i).as_millis()).collect();
        assert_eq!(at, [0, 5, 5, 10, 10, 15, 15, 20]);
        assert_eq!(trace.first_from(Duration::from_millis(11)), 5);
        assert_eq!(trace.bytes_before(Duration::from_millis(6)), 3 * OPPORTUNITY);
        assert!(Trace::new(vec![3, 2]).is_err() && Trace::new(vec![]).is_err());
    }
}
