//! How much CPU time a thread has used and waited for (proc_pid_schedstat in the kernel's
//! Documentation/scheduler/sched-stats.rst).

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::time::Duration;

/// Three numbers of 64 bits.
const LENGTH: usize = 64;

/// The CPU time account of one thread.
#[derive(Debug)]
pub struct ThreadTime(File);

impl ThreadTime {
    /// The account of the calling thread.
    ///
    /// # Errors
    /// If there is no procfs, or the kernel doesn't keep such accounts.
    pub fn of_this_thread() -> io::Result<ThreadTime> {
        let time = ThreadTime(File::open("/proc/thread-self/schedstat")?);
        time.wanted()?;
        Ok(time)
    }

    /// The account of a thread of any process.
    ///
    /// # Errors
    /// As for the calling thread; also if it has ended.
    pub fn of(process: u32, thread: u32) -> io::Result<ThreadTime> {
        let time = ThreadTime(File::open(format!("/proc/{process}/task/{thread}/schedstat"))?);
        time.wanted()?;
        Ok(time)
    }

    /// How long it has run or waited for a CPU, since it began.
    ///
    /// # Errors
    /// When it can't be read, or isn't what the kernel documents.
    pub fn wanted(&self) -> io::Result<Duration> {
        let (ran, waited) = self.ran_and_waited()?;
        Ok(ran.saturating_add(waited))
    }

    /// How long it has run, and how long it has waited for a CPU, since it began.
    ///
    /// # Errors
    /// When it can't be read, or isn't what the kernel documents.
    pub fn ran_and_waited(&self) -> io::Result<(Duration, Duration)> {
        let mut text = [0; LENGTH];
        let length = self.0.read_at(&mut text, 0)?;
        parse(text.get(..length).unwrap_or(&[])).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

/// Nanoseconds of running and of waiting, then a count.
fn parse(text: &[u8]) -> Option<(Duration, Duration)> {
    let mut numbers = std::str::from_utf8(text).ok()?.split_ascii_whitespace();
    let mut nanos = || numbers.next()?.parse().ok().map(Duration::from_nanos);
    Some((nanos()?, nanos()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn running_and_waiting_are_told_apart() {
        let [ran, waited] = [1500, 2500].map(Duration::from_nanos);
        assert_eq!(parse(b"1500 2500 7\n"), Some((ran, waited)));
        assert_eq!(parse(b"1500\n"), None);
        assert_eq!(parse(b"1500 -1 7\n"), None);
        assert_eq!(parse(b"\xff"), None);
    }

    #[test]
    fn work_is_seen_in_the_account_of_the_thread_that_does_it() {
        let Ok(time) = ThreadTime::of_this_thread() else {
            eprintln!("skipped: this kernel keeps no such account");
            return;
        };
        let before = time.wanted().expect("readable");
        let mut sum = 0_u64;
        while time.wanted().expect("readable") == before {
            sum = std::hint::black_box(sum + 1);
        }
        assert!(time.wanted().expect("readable") > before);
    }
}
