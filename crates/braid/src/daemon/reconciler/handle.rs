//! How other threads ask the reconciler.

use super::view::{Published, View};
use braid_control::request::{Refusal, Request};
use braid_linux::poller::Waker;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Asks the reconciler, from other threads.
pub struct ReconcilerHandle {
    questions: Sender<Question>,
    waker: Waker,
    view: Published,
}

/// What it is asked.
pub enum Question {
    /// Change something, and say how that went.
    Do(Box<Request>, Sender<Result<(), Refusal>>),
    /// End, and say how that went.
    Stop(Farewell, Sender<Parted>),
}

/// How the reconciler ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parted {
    /// As the farewell says.
    AsAsked,
    /// What was to stay could not, and was taken back.
    TakenBack,
    /// This could not be taken back.
    Left(String),
}

/// What becomes of what was set on the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Farewell {
    /// All of it is taken back.
    ForGood,
    /// All but the kill switch.
    KillSwitchStays,
    /// It stays, for the program that goes on with it.
    AllStays,
}

/// A handle, and the reconciler's ends of it.
pub fn channels(waker: Waker) -> (ReconcilerHandle, Receiver<Question>, Published) {
    let (questions, asked) = channel();
    let view = Published::default();
    (ReconcilerHandle { questions, waker, view: view.clone() }, asked, view)
}

/// Less than the commands wait for.
const ANSWER: Duration = Duration::from_secs(9);
/// Some programs that don't end, one after the other; less than systemd waits for.
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
                "begun, but not done within {} s: something on this host keeps it waiting, see its \
                 log; `braid status` shows whether it was done",
                ANSWER.as_secs()
            ))),
        }
    }

    /// Takes back all that was set on the host. The kill switch only goes
    /// `for_good`, by `braid down`: a service that is stopped or an error lets
    /// nothing out.
    ///
    /// # Errors
    /// What could not be taken back.
    pub fn stop(&self, for_good: bool) -> io::Result<()> {
        let farewell = if for_good { Farewell::ForGood } else { Farewell::KillSwitchStays };
        let left = match self.part(farewell) {
            Ok(Parted::AsAsked | Parted::TakenBack) => return Ok(()),
            // It has ended: then it is done as well.
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
            Ok(Parted::Left(what)) => what,
            Err(RecvTimeoutError::Timeout) => "something keeps it waiting".to_owned(),
        };
        Err(io::Error::other(format!(
            "what was set on the host isn't all taken back: {left}; another `braid down` takes \
             back the rest"
        )))
    }

    /// Leaves all as it is. False when it could not stay, and was taken back.
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
