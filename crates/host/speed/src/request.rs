//! Clients' requests.

use std::time::Duration;

/// What every request begins with.
const GREETING: &str = "braid-speed/1";
/// Maximum length of a request, bytes.
pub const LONGEST: usize = 64;
/// Maximum duration of a measurement.
pub const LONGEST_TIME: Duration = Duration::from_secs(30);

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Send for this long.
    Down(Duration),
    /// Read for a time, and count what arrives after `warm`.
    Up {
        /// How long to read.
        lasts: Duration,
        /// What arrives sooner isn't counted.
        warm: Duration,
    },
    /// Measure how busy the processors are for this long.
    Load(Duration),
}

impl Request {
    /// Parses a line; `None` if it isn't a request.
    pub fn parse(line: &str) -> Option<Request> {
        let mut words = line.strip_prefix(GREETING)?.split_ascii_whitespace();
        let what = words.next()?;
        let mut time = || {
            let time = Duration::from_millis(words.next()?.parse().ok()?);
            (time <= LONGEST_TIME).then_some(time)
        };
        let request = match what {
            "down" => Request::Down(time()?),
            "up" => Request::Up { lasts: time()?, warm: time()? },
            "load" => Request::Load(time()?),
            _ => return None,
        };
        words.next().is_none().then_some(request)
    }

    /// The line, with its end.
    pub fn line(self) -> String {
        match self {
            Request::Down(lasts) => format!("{GREETING} down {}\n", lasts.as_millis()),
            Request::Up { lasts, warm } => {
                format!("{GREETING} up {} {}\n", lasts.as_millis(), warm.as_millis())
            }
            Request::Load(lasts) => format!("{GREETING} load {}\n", lasts.as_millis()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_is_understood_and_nothing_else_is() {
        let ms = Duration::from_millis;
        for request in [
            Request::Down(ms(5000)),
            Request::Up { lasts: ms(4000), warm: ms(800) },
            Request::Load(ms(30_000)),
        ] {
            let line = request.line();
            assert!(line.len() <= LONGEST);
            assert_eq!(Request::parse(line.trim_end()), Some(request));
        }
        for wrong in [
            "",
            "braid-speed/1",
            "braid-speed/1 down",
            "braid-speed/1 down x",
            "braid-speed/1 down 30001",
            "braid-speed/1 down 1 2",
            "braid-speed/1 up 5",
            "braid-speed/2 down 5",
            "GET / HTTP/1.1",
        ] {
            assert_eq!(Request::parse(wrong), None, "{wrong:?}");
        }
    }
}
