//! The thread that keeps the host in the state of the group's set-up: what the kernel drops when a
//! link goes away is set again when it returns.

use super::super::egress::HostNetwork;
use super::super::ending::Ending;
use super::super::journal_trouble::JournalTrouble;
use super::super::supervise::{start_thread, supervise};
use super::view::View;
use super::watcher::Watcher;
use super::{observe, proxy};
use braid_control::config::GroupConfig;
use braid_engines::{Engine, Group, Operation};
use braid_linux::journal::{Failure, UndoJournal};
use braid_linux::netlink::{Monitor, Netlink};
use braid_linux::poller::{Interest, Poller, Token, Waker};
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Asks the reconciler, from other threads.
pub struct ReconcilerHandle {
    questions: Mutex<Sender<Question>>,
    waker: Waker,
    view: Arc<Mutex<View>>,
}

/// Requests, each with the channel for its answer.
enum Question {
    Reload(Box<GroupConfig>, Sender<io::Result<()>>),
    End(End, Sender<io::Result<()>>),
}

/// What to do at the end with what is set on the host.
#[derive(Clone, Copy)]
enum End {
    /// Undo it.
    TakeBack,
    /// Leave it for another program, if it is recorded.
    Leave,
}

struct Reconciler {
    config: GroupConfig,
    journal: UndoJournal,
    netlink: Netlink,
    monitor: Monitor,
    poller: Poller,
    questions: Receiver<Question>,
    watcher: Watcher,
    view: Arc<Mutex<View>>,
    journal_trouble: JournalTrouble,
    ending: Ending,
}

const MONITOR: Token = Token(0);
const QUESTION: Token = Token(1);
/// Interval for restarting programs that ended and retrying what failed.
const TICK: Duration = Duration::from_secs(2);
/// A DHCP client changes several things one after the other: wait for all.
const SETTLE: Duration = Duration::from_millis(50);

impl ReconcilerHandle {
    /// Sets the group up and starts the thread. On an error, nothing stays.
    pub fn start(
        config: GroupConfig,
        journal: UndoJournal,
        ending: Ending,
    ) -> io::Result<ReconcilerHandle> {
        let poller = Poller::new()?;
        let waker = poller.waker(QUESTION)?;
        let monitor = Monitor::open()?;
        poller.add(&monitor, MONITOR, Interest::Read)?;
        let (questions, asked) = channel();
        let view = Arc::new(Mutex::new(View::default()));
        let mut reconciler = Reconciler {
            watcher: Watcher::start(&config, poller.waker(QUESTION)?, &ending)?,
            config,
            journal,
            netlink: Netlink::open()?,
            monitor,
            poller,
            questions: asked,
            view: view.clone(),
            journal_trouble: JournalTrouble::new("all of it would stay"),
            ending,
        };
        // On its thread: if there is none, nothing must have been set.
        let (begun, has_begun) = channel();
        start_thread("braid-group", move || {
            let outcome = reconciler.begin();
            let is_up = outcome.is_ok();
            let _ = begun.send(outcome);
            if is_up {
                reconciler.run();
            }
        })?;
        has_begun.recv().map_err(|_| io::Error::other("it panicked; see the log"))??;
        Ok(ReconcilerHandle { questions: Mutex::new(questions), waker, view })
    }

    /// Switches the host to another config; on an error everything is as before.
    pub fn reload(&self, config: GroupConfig) -> io::Result<()> {
        let ended = || Err(io::Error::other("the group is going down"));
        self.ask(|done| Question::Reload(Box::new(config), done)).unwrap_or_else(ended)
    }

    /// Undoes everything that was set on the host.
    pub fn stop(&self) -> io::Result<()> {
        // If it has ended, that is done, too.
        self.ask(|done| Question::End(End::TakeBack, done)).unwrap_or(Ok(()))
    }

    /// Ends and leaves everything in place. False if it could not stay and was undone.
    pub fn leave(&self) -> bool {
        self.ask(|done| Question::End(End::Leave, done)).is_some_and(|left| left.is_ok())
    }

    /// `None` if it has ended.
    fn ask(
        &self,
        question: impl FnOnce(Sender<io::Result<()>>) -> Question,
    ) -> Option<io::Result<()>> {
        let (done, is_done) = channel();
        let questions = self.questions.lock().unwrap_or_else(PoisonError::into_inner).clone();
        questions.send(question(done)).ok()?;
        self.waker.wake();
        is_done.recv().ok()
    }

    /// What it shows now.
    pub fn view(&self) -> View {
        self.view.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Reconciler {
    fn begin(&mut self) -> io::Result<()> {
        let Some(told) = self.fatal()? else { return Ok(()) };
        for failure in self.journal.undo() {
            tracing::warn!("undoing it: {failure}");
        }
        Err(io::Error::other(told))
    }

    /// Makes the host as `config` says, by changing what differs.
    fn reload(&mut self, config: GroupConfig) -> io::Result<()> {
        let watcher = match config.watch == self.config.watch {
            true => None,
            false => Some(Watcher::start(&config, self.poller.waker(QUESTION)?, &self.ending)?),
        };
        let config = std::mem::replace(&mut self.config, config);
        let watcher = watcher.map(|watcher| std::mem::replace(&mut self.watcher, watcher));
        let Some(told) = self.fatal()? else { return Ok(()) };
        self.config = config;
        if let Some(before) = watcher {
            self.watcher = before;
        }
        for failure in self.follow()? {
            tracing::warn!("restoring the previous state: {failure}");
        }
        Err(io::Error::other(told))
    }

    /// Applies the set-up, and returns an error that the engine can't work with.
    fn fatal(&mut self) -> io::Result<Option<String>> {
        let failures = self.follow()?;
        // PPP's device appears only with the other end, so its routes may have to wait.
        let patient = matches!(self.config.group.engine, Engine::PppoeMultilink(_));
        let fatal: Vec<&Failure> =
            failures.iter().filter(|failure| !(patient && routes(&failure.operation))).collect();
        let told: Vec<String> = fatal.iter().map(ToString::to_string).collect();
        Ok((!told.is_empty()).then(|| told.join("; ")))
    }

    /// After a panic it starts over. If that doesn't help, the daemon ends, and this waits to undo
    /// everything.
    fn run(mut self) {
        let ending = self.ending.clone();
        if supervise("braid-group", &ending, || self.follow_until_stopped()) {
            return;
        }
        while let Ok(question) = self.questions.recv() {
            match question {
                Question::End(end, done) => {
                    let _ = done.send(self.end(end));
                    return;
                }
                // Dropping the channel tells the caller that it is going down.
                Question::Reload(..) => {}
            }
        }
    }

    fn follow_until_stopped(&mut self) {
        let mut settling: Option<Instant> = Some(Instant::now());
        let mut next = Instant::now() + TICK;
        loop {
            let until = settling.map_or(next, |settled| settled.min(next));
            let wait = until.saturating_duration_since(Instant::now());
            if let Err(error) = self.poller.wait(Some(wait)).map(|events| events.for_each(drop)) {
                tracing::error!(%error, "waiting for changes of the host's network");
                std::thread::sleep(TICK);
            }
            // A caller that went away needs no answer.
            match self.questions.try_recv() {
                Ok(Question::End(end, done)) => {
                    let _ = done.send(self.end(end));
                    return;
                }
                Ok(Question::Reload(config, done)) => {
                    let _ = done.send(self.reload(*config));
                }
                Err(_) => {}
            }
            if self.drain_monitor() || self.watcher.has_changed() {
                settling.get_or_insert_with(|| Instant::now() + SETTLE);
            }
            let now = Instant::now();
            if settling.is_some_and(|until| now >= until) || now >= next {
                settling = None;
                next = now + TICK;
                if let Err(error) = self.follow() {
                    tracing::error!(%error, "following the host's network");
                }
            }
        }
    }

    fn drain_monitor(&mut self) -> bool {
        self.monitor.drain().unwrap_or_else(|error| {
            tracing::warn!(%error, "network notifications from the kernel were lost");
            true
        })
    }

    /// Applies the set-up of the links that exist.
    fn follow(&mut self) -> io::Result<Vec<Failure>> {
        let host = HostNetwork::observe(&mut self.netlink)?;
        let (mut group, mut left_out) = observe::group(&self.config, &host);
        self.watcher.follow(&group);
        self.leave_out_silent(&mut group, &mut left_out);
        let setup = group.setup();
        let mut operations = setup.operations;
        operations.extend(proxy::rules(&self.config));
        let failures = self.journal.reconcile(&operations);
        self.journal_trouble.follow(&mut self.journal);
        let troubles: Vec<String> =
            failures.iter().map(ToString::to_string).chain(setup.notes).collect();
        let mut view = self.view.lock().unwrap_or_else(PoisonError::into_inner);
        for trouble in troubles.iter().filter(|trouble| !view.troubles.contains(trouble)) {
            tracing::warn!("{trouble}");
        }
        if view.left_out != left_out {
            for (number, why) in &left_out {
                let name = self.config.group.link(*number).map_or("?", |link| &link.name);
                tracing::info!(link = name, "isn't part of the group: {why}");
            }
        }
        *view = View { left_out, troubles };
        Ok(failures)
    }

    fn leave_out_silent(&self, group: &mut Group, left_out: &mut Vec<(u32, String)>) {
        for link in &mut group.links {
            if let Some(host) = self.watcher.silent(link.number) {
                link.silent = true;
                left_out.push((link.number, format!("{host} doesn't answer")));
            }
        }
    }

    fn end(&mut self, end: End) -> io::Result<()> {
        match end {
            End::TakeBack => self.take_back(),
            End::Leave => {
                self.journal.retry();
                let Some(trouble) = self.journal.trouble().map(str::to_owned) else {
                    return Ok(());
                };
                self.take_back()?;
                Err(io::Error::other(trouble))
            }
        }
    }

    fn take_back(&mut self) -> io::Result<()> {
        let failures = self.journal.undo();
        if failures.is_empty() {
            return Ok(());
        }
        let told: Vec<String> = failures.iter().map(ToString::to_string).collect();
        Err(io::Error::other(told.join("; ")))
    }
}

/// Whether it is about routing over existing devices, rather than creating them.
fn routes(operation: &Operation) -> bool {
    matches!(
        operation,
        Operation::Sysctl { .. }
            | Operation::Address { .. }
            | Operation::Route(_)
            | Operation::Rule(_)
            | Operation::Firewall(_)
    )
}
