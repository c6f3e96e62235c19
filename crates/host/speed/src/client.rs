//! The home's end: requests measurements and counts bytes.

use crate::request::Request;
use portable_atomic::{AtomicU64, Ordering};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Towards this host.
    Down,
    /// From this host.
    Up,
}

/// The measured rate.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rate {
    /// Mbit/s of payload, once the connections were up to speed.
    pub mbit: f64,
    /// The same for the first and the second half of that time; only for downloads.
    pub halves: [f64; 2],
}

/// Share of time in which the other end's processors were busy, 0 to 1.
pub type Load = f64;

/// Why nothing could be measured.
#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    /// No server answers.
    #[error(
        "no answer from {0}: {1}; the other end may be an older version, have interface.speed_test = false, or a firewall in between"
    )]
    Unreachable(SocketAddr, io::Error),
    /// It failed midway, or the answer makes no sense.
    #[error("the measurement failed: {0}")]
    Broken(String),
}

/// A server that doesn't answer for this long doesn't exist.
const PATIENCE: Duration = Duration::from_secs(5);
/// This fraction of the time isn't counted, while TCP is still finding the rate.
const WARM: u32 = 5;
/// Bytes sent and read per call.
const PIECE: usize = 64 * 1024;

/// Measures one direction for a time with several connections at once.
///
/// # Errors
/// When no server answers, or a connection breaks.
pub fn measure(
    to: SocketAddr,
    direction: Direction,
    connections: usize,
    lasts: Duration,
) -> Result<Rate, MeasureError> {
    let warm = lasts / WARM;
    let half = (lasts - warm) / 2;
    let counted = [AtomicU64::new(0), AtomicU64::new(0)];
    let streams: Vec<TcpStream> =
        (0..connections.max(1)).map(|_| connect(to)).collect::<Result<_, _>>()?;
    let began = Instant::now();
    let sums: Vec<Result<f64, MeasureError>> = std::thread::scope(|scope| {
        let counted = &counted;
        let one = |stream: TcpStream| {
            let carry = move || match direction {
                Direction::Down => download(stream, began, lasts, warm, counted).map(|()| 0.0),
                Direction::Up => upload(stream, lasts, warm),
            };
            let thread = std::thread::Builder::new().spawn_scoped(scope, carry);
            thread.map_err(|error| MeasureError::Broken(format!("starting a thread: {error}")))
        };
        let threads: Vec<_> = streams.into_iter().map(one).collect();
        let broken = || Err(MeasureError::Broken("a thread panicked".into()));
        let sum = |thread: ScopedJoinHandle<'_, _>| thread.join().unwrap_or_else(|_| broken());
        threads.into_iter().map(|thread| thread.and_then(sum)).collect()
    });
    let up: f64 = sums.into_iter().sum::<Result<f64, MeasureError>>()?;
    let halves = counted
        .map(|bytes| bytes.into_inner() as f64 * 8e-6 / half.as_secs_f64().max(f64::MIN_POSITIVE));
    let mbit = match direction {
        Direction::Down => (halves[0] + halves[1]) / 2.0,
        Direction::Up => up,
    };
    Ok(Rate { mbit, halves })
}

/// Asks how busy the other end's processors are over a time.
///
/// # Errors
/// When no server answers.
pub fn load_of(to: SocketAddr, lasts: Duration) -> Result<Load, MeasureError> {
    let mut stream = connect(to)?;
    let asked = stream
        .write_all(Request::Load(lasts).line().as_bytes())
        .and_then(|()| stream.set_read_timeout(Some(lasts + PATIENCE)));
    asked.map_err(broken)?;
    let answer = rest_of(&mut stream)?;
    answer.trim().parse().map_err(|_| MeasureError::Broken(format!("{answer:?} is not a load")))
}

fn connect(to: SocketAddr) -> Result<TcpStream, MeasureError> {
    let open = || {
        let stream = TcpStream::connect_timeout(&to, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(stream)
    };
    open().map_err(|error| MeasureError::Unreachable(to, error))
}

/// Counts what arrives after `warm`, for both halves of the remaining time.
fn download(
    mut stream: TcpStream,
    began: Instant,
    lasts: Duration,
    warm: Duration,
    counted: &[AtomicU64; 2],
) -> Result<(), MeasureError> {
    stream.write_all(Request::Down(lasts).line().as_bytes()).map_err(broken)?;
    let (mut piece, mut all) = (vec![0; PIECE], 0);
    while began.elapsed() < lasts {
        let read = stream.read(&mut piece).map_err(broken)?;
        if read == 0 {
            break;
        }
        all += read;
        let Some(after) = began.elapsed().checked_sub(warm) else { continue };
        let half = usize::from(after >= (lasts - warm) / 2);
        counted[half].fetch_add(read as u64, Ordering::Relaxed);
    }
    match all {
        0 => Err(MeasureError::Broken("the other end sent nothing".into())),
        _ => Ok(()),
    }
}

/// Mbit/s, as counted by the other end.
fn upload(mut stream: TcpStream, lasts: Duration, warm: Duration) -> Result<f64, MeasureError> {
    let request = Request::Up { lasts, warm };
    stream.write_all(request.line().as_bytes()).map_err(broken)?;
    let (began, piece) = (Instant::now(), vec![0xa5; PIECE]);
    while began.elapsed() < lasts {
        stream.write_all(&piece).map_err(broken)?;
    }
    stream.shutdown(Shutdown::Write).map_err(broken)?;
    // Its buffered data goes first.
    stream.set_read_timeout(Some(PATIENCE * 2)).map_err(broken)?;
    let answer = rest_of(&mut stream)?;
    let numbers: Vec<f64> =
        answer.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect();
    match numbers.as_slice() {
        [bytes, micros] if *micros > 0.0 => Ok(bytes * 8.0 / micros),
        [_, _] => Ok(0.0),
        _ => Err(MeasureError::Broken(format!("{answer:?} are not counts"))),
    }
}

/// Reads a short answer until the end of the stream.
fn rest_of(stream: &mut TcpStream) -> Result<String, MeasureError> {
    const LONGEST: u64 = 256;
    let mut answer = String::new();
    stream.take(LONGEST).read_to_string(&mut answer).map_err(broken)?;
    Ok(answer)
}

fn broken(error: io::Error) -> MeasureError {
    MeasureError::Broken(error.to_string())
}
