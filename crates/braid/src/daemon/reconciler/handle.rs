//! How other threads send requests to the reconciler.

use super::view::{Published, View};
use braid_control::request::{Refusal, Request};
use braid_linux::poller::Waker;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Sends requests to the reconciler from other threads.
pub struct ReconcilerHandle {
    questions: Sender<Question>,
    waker: Waker,
    view: Published,
}

/// Requests to the reconciler.
pub enum Question {
    /// Make a change, and return the result.
    Do(Box<Request>, Sender<Result<(), Refusal>>),
    /// End, and return the result.
    Stop(Farewell, Sender<Parted>),
}

/// How the reconciler ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parted {
    /// As requested.
    AsAsked,
    /// What was to stay could not, and was undone.
    TakenBack,
    /// This could not be undone.
    Left(String),
}

/// What to do with what was set on the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Farewell {
    /// Undo all of it.
    ForGood,
    /// Undo everything except the kill switch.
    KillSwitchStays,
    /// Leave it for the program that takes over.
    AllStays,
}

/// A handle, and the reconciler's ends of it.
pub fn channels(waker: Waker) -> (ReconcilerHandle, Receiver<Question>, Published) {
    let (questions, asked) = channel();
    let view = Published::default();
    (ReconcilerHandle { questions, waker, view: view.clone() }, asked, view)
}

/// Timeout of answers; less than the commands wait.
const ANSWER: Duration = Duration::from_secs(9);
/// Timeout at the end: enough for several hanging programs in turn; less than systemd waits.
const FAREWELL: Duration = Duration::from_secs(17);

impl ReconcilerHandle {
    /// Carries out a change and waits until it is done.
    pub fn execute(&self, request: Request) -> Result<(), Refusal> {
        let (answer, answered) = channel();
        let gone = || Refusal::Failed("not done: the tunnel is going down, or see its log".into());
        self.questions.send(Question::Do(Box::new(request), answer)).map_err(|_| gone())?;
        self.waker.wake();
        match answered.recv_timeout(ANSWER) {
            Ok(answer) => answer,
            Err(RecvTimeoutError::Disconnected) => Err(gone()),
            Err(RecvTimeoutError::Timeout) => Err(Refusal::Failed(format!(
                "started, but not done within {} s: something on this host delays it, see its log; \
                 `braid status` shows whether it was done",
                ANSWER.as_secs()
            ))),
        }
    }

    /// Undoes everything that was set on the host. The kill switch is removed only `for_good`, by
    /// `braid down`: a stopped service or an error must let nothing out.
    ///
    /// # Errors
    /// What could not be undone.
    pub fn stop(&self, for_good: bool) -> io::Result<()> {
        let farewell = if for_good { Farewell::ForGood } else { Farewell::KillSwitchStays };
        let left = match self.part(farewell) {
            Ok(Parted::AsAsked | Parted::TakenBack) => return Ok(()),
            // If it has ended, that is done, too.
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
            Ok(Parted::Left(what)) => what,
            Err(RecvTimeoutError::Timeout) => "something delays it".to_owned(),
        };
        Err(io::Error::other(format!(
            "not everything set on the host was undone: {left}; another `braid down` undoes back \
             the rest"
        )))
    }

    /// Leaves everything in place. False if it could not stay and was undone.
    pub fn leave(&self) -> bool {
        self.part(Farewell::AllStays) == Ok(Parted::AsAsked)
    }

    fn part(&self, farewell: Farewell) -> Result<Parted, RecvTimeoutError> {
        let (done, is_done) = channel();
        let gone = |_| RecvTimeoutError::Disconnected;
        self.questions.send(Question::Stop(farewell, done)).map_err(gone)?;
        self.waker.wake();
        is_done.recv_timeout(FAREWELL)
    }

    /// What it shows now.
    pub fn view(&self) -> View {
        self.view.latest()
    }
}
