#![allow(unsafe_code)]

use super::link::{End, LinkParts, RunningLink, SharedCounters};
use super::{DirectionCounters, LinkChange};
use braid_units::Time;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::thread::JoinHandleExt;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Largest IP packet.
const MAX_PACKET: usize = 65_535;
/// Buffers kept for reuse: 4096 full packets are 6 MB.
const MAX_POOL: usize = 4096;
/// A low real-time priority: being above every ordinary thread is enough.
const REAL_TIME_PRIORITY: libc::c_int = 10;

/// The running emulator: one thread that moves packets between the devices of
/// all its links, as their models say, until it is dropped.
#[derive(Debug)]
pub struct Emulator {
    commands: Sender<Command>,
    wake: Arc<File>,
    counters: Arc<[SharedCounters]>,
    thread: Option<JoinHandle<()>>,
}

/// A link's counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// Towards the home.
    pub down: DirectionCounters,
    /// Towards the concentrator.
    pub up: DirectionCounters,
}

#[derive(Debug)]
enum Command {
    Apply { link: usize, change: Box<LinkChange>, done: Sender<io::Result<()>> },
    RestartTraces { done: Sender<io::Result<()>> },
    Stop,
}

impl Emulator {
    /// Starts emulating `links`; `seed` determines all random numbers.
    ///
    /// # Errors
    /// No thread or descriptor can be created.
    pub fn start(links: Vec<LinkParts>, seed: u64) -> io::Result<Self> {
        let wake = Arc::new(event_descriptor()?);
        let counters: Arc<[SharedCounters]> =
            links.iter().map(|_| SharedCounters::default()).collect();
        let (commands, received) = mpsc::channel();
        let clock = Clock { origin: Instant::now() };
        let links = links
            .into_iter()
            .zip(seed..)
            .map(|(parts, seed)| RunningLink::new(parts, seed, clock.now()))
            .collect();
        let worker = Worker {
            clock,
            links,
            commands: received,
            wake: Arc::clone(&wake),
            counters: Arc::clone(&counters),
            scratch: vec![0; MAX_PACKET],
            pool: Vec::new(),
        };
        let thread = thread::Builder::new().name("emulator".into()).spawn(|| worker.run())?;
        Ok(Emulator { commands, wake, counters, thread: Some(thread) })
    }

    /// Changes link number `link`; returns when that is done.
    ///
    /// # Errors
    /// The link can't be changed like this; `InvalidInput` says why.
    pub fn apply(&self, link: usize, change: LinkChange) -> io::Result<()> {
        self.command(|done| Command::Apply { link, change: Box::new(change), done })
    }

    /// Restarts every trace at its offset.
    ///
    /// # Errors
    /// The emulator has stopped.
    pub fn restart_traces(&self) -> io::Result<()> {
        self.command(|done| Command::RestartTraces { done })
    }

    /// The counters of link number `link`; zeros if there is no such link.
    pub fn counters(&self, link: usize) -> LinkCounters {
        self.counters.get(link).map(SharedCounters::read).unwrap_or_default()
    }

    /// The CPU time used by the emulation.
    pub fn cpu_time(&self) -> Duration {
        self.thread.as_ref().and_then(thread_cpu_time).unwrap_or_default()
    }

    fn command(&self, command: impl FnOnce(Sender<io::Result<()>>) -> Command) -> io::Result<()> {
        let (done, answer) = mpsc::channel();
        let stopped = || io::Error::new(io::ErrorKind::BrokenPipe, "the emulator has stopped");
        self.commands.send(command(done)).map_err(|_| stopped())?;
        self.wake_up();
        answer.recv().map_err(|_| stopped())?
    }

    fn wake_up(&self) {
        // Fails only if the counter is at its maximum, and then it wakes anyway.
        let _ = (&*self.wake).write(&1u64.to_ne_bytes());
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        let _ = self.commands.send(Command::Stop);
        self.wake_up();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Clock {
    origin: Instant,
}

impl Clock {
    fn now(&self) -> Time {
        Time::ZERO + self.origin.elapsed()
    }
}

struct Worker {
    clock: Clock,
    links: Vec<RunningLink>,
    commands: Receiver<Command>,
    wake: Arc<File>,
    counters: Arc<[SharedCounters]>,
    scratch: Vec<u8>,
    /// Buffers of packets that have left.
    pool: Vec<Vec<u8>>,
}

impl Worker {
    fn run(mut self) {
        ask_for_punctuality();
        let mut descriptors = self.descriptors();
        loop {
            let now = self.clock.now();
            for link in &mut self.links {
                link.give_out(now, &mut self.pool);
            }
            self.pool.truncate(MAX_POOL);
            self.publish();
            let deadline = self.links.iter().filter_map(RunningLink::next_deadline).min();
            wait(&mut descriptors, deadline.map(|at| at.since(self.clock.now())));
            if !self.obey(&mut descriptors) {
                return;
            }
            self.take_in(&mut descriptors);
        }
    }

    /// The wake descriptor, then home and provider of each link.
    fn descriptors(&self) -> Vec<libc::pollfd> {
        let devices = self
            .links
            .iter()
            .flat_map(|link| [End::Home, End::Provider].map(|end| link.device(end).as_raw_fd()));
        let watch = |fd: RawFd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        std::iter::once(self.wake.as_raw_fd()).chain(devices).map(watch).collect()
    }

    fn take_in(&mut self, descriptors: &mut [libc::pollfd]) {
        let (pairs, _) = descriptors.get_mut(1..).unwrap_or_default().as_chunks_mut::<2>();
        for (link, pair) in self.links.iter_mut().zip(pairs) {
            for (end, descriptor) in [End::Home, End::Provider].into_iter().zip(pair) {
                if descriptor.revents == 0 {
                    continue;
                }
                let now = self.clock.now();
                if link.take_in(end, now, &mut self.scratch, &mut self.pool).is_err() {
                    // Somebody deleted the device. A negative descriptor is skipped.
                    descriptor.fd = -1;
                }
            }
        }
    }

    /// Carries out commands; returns `false` to stop.
    fn obey(&mut self, descriptors: &mut [libc::pollfd]) -> bool {
        if descriptors.first().is_none_or(|wake| wake.revents == 0) {
            return true;
        }
        let _ = (&*self.wake).read(&mut [0; 8]);
        while let Ok(command) = self.commands.try_recv() {
            let now = self.clock.now();
            match command {
                Command::Apply { link, change, done } => {
                    let result = match self.links.get_mut(link) {
                        Some(link) => link.apply(now, &change),
                        None => Err(io::Error::new(io::ErrorKind::InvalidInput, "no such link")),
                    };
                    let _ = done.send(result);
                }
                Command::RestartTraces { done } => {
                    self.links.iter_mut().for_each(|link| link.restart_traces(now));
                    let _ = done.send(Ok(()));
                }
                Command::Stop => return false,
            }
        }
        true
    }

    fn publish(&self) {
        for (link, shared) in self.links.iter().zip(self.counters.iter()) {
            shared.publish(&link.counters());
        }
    }
}

/// Waits until a descriptor is ready or `timeout` has passed. ppoll(2) takes
/// nanoseconds, and works on kernels older than `epoll_pwait2`; with a handful
/// of descriptors it costs no more.
fn wait(descriptors: &mut [libc::pollfd], timeout: Option<Duration>) {
    let timeout = timeout.map(|timeout| libc::timespec {
        tv_sec: libc::time_t::try_from(timeout.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: libc::c_long::from(timeout.subsec_nanos() as i32),
    });
    let pointer = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: pointer and length describe `descriptors`; the timeout is null or
    // outlives the call; without a signal mask none is read.
    let ready = unsafe {
        libc::ppoll(
            descriptors.as_mut_ptr(),
            descriptors.len() as libc::nfds_t,
            pointer,
            std::ptr::null(),
        )
    };
    if ready <= 0 {
        // A timeout, or a signal: nothing is known to be ready.
        descriptors.iter_mut().for_each(|descriptor| descriptor.revents = 0);
    }
}

/// Asks for nanosecond timers, and for the CPU immediately when one fires. Without the rights for
/// that it stays an ordinary thread; calibration shows how good that is.
fn ask_for_punctuality() {
    // SAFETY: takes no pointers.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
    // SAFETY: sched_param is plain data, for which zeros are valid; musl's has more fields.
    let mut parameter: libc::sched_param = unsafe { std::mem::zeroed() };
    parameter.sched_priority = REAL_TIME_PRIORITY;
    // SAFETY: 0 is the calling thread; the parameter outlives the call.
    let real_time = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameter) };
    if real_time < 0 {
        // SAFETY: takes no pointers; 0 is the calling thread.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -20) };
    }
}

fn thread_cpu_time(thread: &JoinHandle<()>) -> Option<Duration> {
    let mut clock: libc::clockid_t = 0;
    // SAFETY: the thread isn't joined yet, so its id is valid; the clock id is
    // valid for writes.
    let found = unsafe {
        libc::pthread_getcpuclockid(thread.as_pthread_t() as libc::pthread_t, &raw mut clock)
    };
    if found != 0 {
        return None;
    }
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the time is valid for writes.
    if unsafe { libc::clock_gettime(clock, &raw mut time) } != 0 {
        return None;
    }
    let nanos = u32::try_from(time.tv_nsec).ok()?;
    Some(Duration::new(u64::try_from(time.tv_sec).ok()?, nanos))
}

fn event_descriptor() -> io::Result<File> {
    // SAFETY: takes no pointers.
    let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just created, owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) }.into())
}
