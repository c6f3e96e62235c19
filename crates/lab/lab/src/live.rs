//! What a user sees while the lab measures.

use crate::output::say;
use crate::scenario::Scenario;
use crate::wire_log::{Latest, LinkRates, WireLog};
use rustix::termios::tcgetwinsize;
use std::cell::{Cell, RefCell};
use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};

/// Redraw after this many samples.
const EVERY: usize = 3;
/// Rates are averaged over this many samples.
const OVER: usize = 5;

/// The display of a run: redrawn in place on a terminal, otherwise one line per run, nothing when
/// silent.
pub struct Live {
    form: Form,
    state: RefCell<State>,
    /// The current part, and the number of parts.
    part: Cell<(usize, usize)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Terminal,
    Lines,
    Silent,
}

#[derive(Default)]
struct State {
    label: String,
    /// Number of drawn lines that the next drawing replaces.
    drawn: usize,
    samples: usize,
}

impl Live {
    /// A display suited to standard output: a terminal or not.
    pub fn new() -> Self {
        let form = if std::io::stdout().is_terminal() { Form::Terminal } else { Form::Lines };
        Live::of(form)
    }

    /// One line per run, whatever standard output is.
    pub fn lines() -> Self {
        Live::of(Form::Lines)
    }

    /// Shows nothing.
    pub fn silent() -> Self {
        Live::of(Form::Silent)
    }

    fn of(form: Form) -> Self {
        Live { form, state: RefCell::default(), part: Cell::default() }
    }

    /// Whether it shows anything.
    pub fn is_shown(&self) -> bool {
        self.form != Form::Silent
    }

    /// Sets the number of parts.
    pub fn expect(&self, parts: usize) {
        self.part.set((0, parts));
    }

    /// Starts the next part, which takes a while until there is more to show.
    pub fn prepare(&self, label: &str) {
        let (part, parts) = self.part.get();
        self.part.set((part + 1, parts));
        if self.form == Form::Terminal {
            self.erase();
            say!("{}\x1b[1m{label}\x1b[0m  …", self.position());
            self.state.borrow_mut().drawn = 1;
        }
    }

    fn position(&self) -> String {
        match self.part.get() {
            (0, _) | (_, 0 | 1) => String::new(),
            (part, parts) => format!("[{}/{parts}] ", part.min(parts)),
        }
    }

    /// Starts a run.
    pub fn begin(&self, label: &str) {
        self.erase();
        let mut state = self.state.borrow_mut();
        *state = State { label: label.to_owned(), ..State::default() };
        if self.form == Form::Lines {
            say!("running: {label}");
        }
    }

    /// Prints a permanent line.
    pub fn line(&self, text: &str) {
        if self.form != Form::Silent {
            self.erase();
            say!("{text}");
        }
    }

    /// Ends a run.
    pub fn end(&self) {
        self.erase();
    }

    /// Shows new counters of the links.
    pub(crate) fn sample(&self, wire: &WireLog, arrived: u64, scenario: &Scenario) {
        let due = {
            let mut state = self.state.borrow_mut();
            state.samples += 1;
            state.samples.is_multiple_of(EVERY)
        };
        if self.form != Form::Terminal || !due {
            return;
        }
        let Some(Latest { at_s, links }) = wire.latest(OVER) else { return };
        let width = width();
        let mut text = String::new();
        let seconds = scenario.duration.as_secs_f64();
        let megabytes = arrived as f64 / 1e6;
        let label = &self.state.borrow().label.clone();
        let _ = writeln!(
            text,
            "{}\x1b[1m{label}\x1b[0m  {at_s:.1} of {seconds:.0} s, {megabytes:.1} MB delivered",
            self.position()
        );
        let capacity = |link: usize| {
            scenario.links.get(link).map_or(1.0, |link| link.model.down.capacity.mean_rate().mbit())
        };
        let scale = (0..links.len()).map(capacity).fold(1e-3, f64::max);
        let names = links.iter().map(|link| link.name.chars().count()).max().unwrap_or(0).max(4);
        let room = width.saturating_sub(names + 34).clamp(5, 50);
        for LinkRates { name, down, up } in &links {
            let filled = ((down / scale).clamp(0.0, 1.0) * room as f64).round() as usize;
            let bar: String = "█".repeat(filled);
            let _ = writeln!(
                text,
                "{name:>names$} \x1b[36m{bar:<room$}\x1b[0m {down:>8.2} ↓ {up:>7.2} ↑ Mbit/s"
            );
        }
        let sum = links.iter().fold((0.0, 0.0), |sum, link| (sum.0 + link.down, sum.1 + link.up));
        let _ = writeln!(
            text,
            "{:>names$} {:<room$} {:>8.2} ↓ {:>7.2} ↑ Mbit/s",
            "sum", "", sum.0, sum.1
        );
        self.erase();
        print!("{text}");
        let _ = std::io::stdout().flush();
        self.state.borrow_mut().drawn = links.len() + 2;
    }

    fn erase(&self) {
        let mut state = self.state.borrow_mut();
        if self.form == Form::Terminal && state.drawn > 0 {
            print!("\x1b[{}A\x1b[J", state.drawn);
            let _ = std::io::stdout().flush();
            state.drawn = 0;
        }
    }
}

impl Default for Live {
    fn default() -> Self {
        Self::new()
    }
}

/// The terminal's width in columns; 80 if there is no terminal.
pub fn width() -> usize {
    let columns = tcgetwinsize(std::io::stdout()).map_or(0, |size| size.ws_col);
    if columns > 0 { usize::from(columns) } else { 80 }
}
