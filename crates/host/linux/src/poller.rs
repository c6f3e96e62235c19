//! Waiting for many descriptors at once, with deadlines finer than a
//! millisecond (epoll(7), epoll_pwait2(2)).

#![allow(unsafe_code)]

use crate::sys;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// Events taken from the kernel at once.
const BATCH: usize = 32;

/// The caller's identifier of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Token(pub u64);

/// What a descriptor is watched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Something to read.
    Read,
    /// Something to read, or room to write.
    ReadWrite,
    /// Room to write.
    Write,
    /// Errors only.
    Nothing,
}

/// A descriptor is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Which one.
    pub token: Token,
    /// Reading will not block (also at the end or on an error).
    pub readable: bool,
    /// Writing will not block (also on an error).
    pub writable: bool,
}

/// Watches descriptors, level-triggered: what isn't drained is reported again.
pub struct Poller {
    epoll: OwnedFd,
    events: [libc::epoll_event; BATCH],
    /// The kernel lacks epoll_pwait2 (before Linux 5.11).
    coarse: bool,
}

impl Poller {
    /// Creates an empty poller.
    ///
    /// # Errors
    /// Those of epoll_create1(2).
    pub fn new() -> io::Result<Poller> {
        // SAFETY: no pointers are passed.
        let epoll = sys::own_fd(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        Ok(Poller {
            epoll,
            events: [libc::epoll_event { events: 0, u64: 0 }; BATCH],
            coarse: false,
        })
    }

    /// Starts watching a descriptor. It is removed when its last duplicate is closed.
    ///
    /// # Errors
    /// `AlreadyExists` when it is watched already.
    pub fn add(&self, fd: &impl AsFd, token: Token, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, token, bits(interest))
    }

    /// Changes what a descriptor is watched for.
    ///
    /// # Errors
    /// `NotFound` when it isn't watched.
    pub fn modify(&self, fd: &impl AsFd, token: Token, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, token, bits(interest))
    }

    /// Stops watching a descriptor.
    ///
    /// # Errors
    /// `NotFound` when it isn't watched.
    pub fn remove(&self, fd: &impl AsFd) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_DEL, fd, Token(0), 0)
    }

    /// A handle for other threads to interrupt a wait; it appears as an event with this token.
    ///
    /// # Errors
    /// Those of eventfd(2).
    pub fn waker(&self, token: Token) -> io::Result<Waker> {
        // SAFETY: no pointers are passed.
        let fd = sys::own_fd(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })?;
        // Edge-triggered: each wake is one event and nothing has to be drained.
        let edge = (libc::EPOLLIN | libc::EPOLLET) as u32;
        self.control(libc::EPOLL_CTL_ADD, &fd, token, edge)?;
        Ok(Waker { fd: Arc::new(fd) })
    }

    /// Waits until a descriptor is ready or the timeout expires (`None` waits for ever), and
    /// returns the events; empty after a timeout or a signal.
    ///
    /// # Errors
    /// Those of epoll_wait(2).
    pub fn wait(
        &mut self,
        timeout: Option<Duration>,
    ) -> io::Result<impl Iterator<Item = Event> + use<'_>> {
        let ready = match self.wait_for_events(timeout) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            other => other?,
        };
        Ok(self.events.iter().take(ready).map(event))
    }

    fn wait_for_events(&mut self, timeout: Option<Duration>) -> io::Result<usize> {
        let time = timeout.map(timespec);
        let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        if !self.coarse {
            // SAFETY: the pointers are to the event array of `BATCH` entries, to
            // a timespec or null, and to no signal mask.
            let ready = unsafe {
                libc::syscall(
                    libc::SYS_epoll_pwait2,
                    self.epoll.as_raw_fd(),
                    self.events.as_mut_ptr(),
                    BATCH as libc::c_int,
                    time,
                    std::ptr::null::<libc::sigset_t>(),
                    0_usize,
                )
            };
            match sys::check_len(ready as libc::ssize_t) {
                // EPERM: sandboxes older than this system call refuse unknown calls.
                Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) => {
                    self.coarse = true;
                }
                other => return other,
            }
        }
        let mut poll =
            libc::pollfd { fd: self.epoll.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one pollfd, a timespec or null, no signal mask.
        sys::check(unsafe { libc::ppoll(&raw mut poll, 1, time, std::ptr::null()) })?;
        // SAFETY: the pointer is to the event array of `BATCH` entries.
        let ready = sys::check(unsafe {
            libc::epoll_wait(
                self.epoll.as_raw_fd(),
                self.events.as_mut_ptr(),
                BATCH as libc::c_int,
                0,
            )
        })?;
        Ok(ready as usize)
    }

    fn control(
        &self,
        operation: libc::c_int,
        fd: &impl AsFd,
        token: Token,
        events: u32,
    ) -> io::Result<()> {
        let mut event = libc::epoll_event { events, u64: token.0 };
        let fd = fd.as_fd().as_raw_fd();
        // SAFETY: `event` is valid for the call.
        sys::check(unsafe {
            libc::epoll_ctl(self.epoll.as_raw_fd(), operation, fd, &raw mut event)
        })
        .map(drop)
    }
}

/// Interrupts a [`Poller`]'s wait from another thread.
#[derive(Clone, Debug)]
pub struct Waker {
    fd: Arc<OwnedFd>,
}

impl Waker {
    /// Interrupts the current wait, or the next one.
    pub fn wake(&self) {
        let one = 1_u64.to_ne_bytes();
        // SAFETY: pointer and length describe `one`. It can fail only when the
        // counter is full, and then a wake is pending anyway.
        unsafe { libc::write(self.fd.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }
}

fn bits(interest: Interest) -> u32 {
    let bits = match interest {
        Interest::Read => libc::EPOLLIN,
        Interest::ReadWrite => libc::EPOLLIN | libc::EPOLLOUT,
        Interest::Write => libc::EPOLLOUT,
        Interest::Nothing => 0,
    };
    bits as u32
}

fn event(raw: &libc::epoll_event) -> Event {
    let bits = raw.events as libc::c_int;
    let failed = libc::EPOLLERR | libc::EPOLLHUP;
    Event {
        token: Token(raw.u64),
        readable: bits & (libc::EPOLLIN | failed) != 0,
        writable: bits & (libc::EPOLLOUT | failed) != 0,
    }
}

fn timespec(duration: Duration) -> libc::timespec {
    // SAFETY: all-zero is a valid timespec (it has padding on some platforms).
    let mut time: libc::timespec = unsafe { std::mem::zeroed() };
    time.tv_sec = duration.as_secs().min(i32::MAX as u64) as _;
    time.tv_nsec = duration.subsec_nanos() as _;
    time
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;
    use std::time::Instant;

    #[test]
    fn readiness_is_told_until_drained() {
        let (mut near, mut far) = UnixStream::pair().unwrap();
        let mut poller = Poller::new().unwrap();
        poller.add(&near, Token(7), Interest::Read).unwrap();
        assert_eq!(poller.wait(Some(Duration::ZERO)).unwrap().count(), 0);
        far.write_all(b"x").unwrap();
        for _ in 0..2 {
            let events: Vec<_> = poller.wait(None).unwrap().collect();
            assert_eq!(events, [Event { token: Token(7), readable: true, writable: false }]);
        }
        near.read_exact(&mut [0]).unwrap();
        assert_eq!(poller.wait(Some(Duration::ZERO)).unwrap().count(), 0);
        poller.modify(&near, Token(8), Interest::ReadWrite).unwrap();
        assert!(poller.wait(None).unwrap().any(|event| event.token == Token(8) && event.writable));
        poller.remove(&near).unwrap();
        assert_eq!(poller.wait(Some(Duration::ZERO)).unwrap().count(), 0);
    }

    #[test]
    fn another_thread_ends_the_wait_once_per_wake() {
        let mut poller = Poller::new().unwrap();
        let waker = poller.waker(Token(1)).unwrap();
        for _ in 0..3 {
            let waker = waker.clone();
            let thread = std::thread::spawn(move || waker.wake());
            assert_eq!(poller.wait(None).unwrap().map(|event| event.token).next(), Some(Token(1)));
            thread.join().unwrap();
            assert_eq!(poller.wait(Some(Duration::ZERO)).unwrap().count(), 0);
        }
    }

    #[test]
    fn a_wait_lasts_at_least_its_time() {
        for coarse in [false, true] {
            let mut poller = Poller { coarse, ..Poller::new().unwrap() };
            let start = Instant::now();
            let time = Duration::from_micros(1500);
            assert_eq!(poller.wait(Some(time)).unwrap().count(), 0);
            assert!(start.elapsed() >= time);
        }
    }
}
