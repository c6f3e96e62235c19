//! The state that a journal's lines add up to.

use super::event::{Event, Line, VERSION};
use braid_pool::step::Plan;

/// A plan and its progress.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// The plan.
    pub plan: Plan,
    /// The state of each of its steps, in the plan's order.
    pub steps: Vec<StepState>,
    /// Whether the steps are being undone.
    pub abandoning: bool,
    /// Whether nothing is left to do, forward or backward.
    pub ended: bool,
}

/// The state of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepState {
    /// Nothing was done.
    Untouched,
    /// It was so already.
    Kept,
    /// Perhaps done, perhaps half done, perhaps not at all.
    Begun,
    /// Done.
    Done,
    /// It couldn't be done, and the plan continued without it; perhaps half done.
    PassedOver,
    /// Perhaps undone, perhaps half undone, perhaps not at all.
    Undoing,
    /// Done or begun, and undone.
    Undone,
    /// Done or begun, and can't be undone.
    Left,
}

/// Why lines aren't a valid journal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// Not even a first whole line.
    #[error("it is empty")]
    Empty,
    /// A line in the middle can't be read.
    #[error("line {line}: {why}")]
    Unreadable {
        /// From 1.
        line: usize,
        /// What the parser said.
        why: String,
    },
    /// A different version of the program wrote it.
    #[error(
        "it is of format {0}, this program knows format {VERSION}: use the version of braid that began the work"
    )]
    Version(u32),
    /// An event that can't be where it is.
    #[error("line {line}: unexpected event")]
    Unexpected {
        /// From 1.
        line: usize,
    },
}

impl Record {
    /// A plan that hasn't been started.
    pub fn new(plan: Plan) -> Record {
        let steps = vec![StepState::Untouched; plan.steps.len()];
        Record { plan, steps, abandoning: false, ended: false }
    }

    /// Adds up the lines of a journal, and says how many bytes of it are whole lines: a power cut
    /// may have torn the last one, which then counts as not written.
    ///
    /// # Errors
    /// [`RecordError::Empty`] without a whole line, [`RecordError::Version`] when a program with
    /// another format wrote it, else the first line that can't be read or can't be where it is.
    pub fn replay(text: &[u8]) -> Result<(Record, usize), RecordError> {
        let mut record: Option<Record> = None;
        let mut whole = 0;
        for (index, raw) in text.split_inclusive(|byte| *byte == b'\n').enumerate() {
            let line = index + 1;
            let event = match parse(raw) {
                Ok(event) => event,
                Err(_) if whole + raw.len() == text.len() => break,
                Err(why) => return Err(RecordError::Unreadable { line, why }),
            };
            whole += raw.len();
            match (&mut record, event) {
                (None, Event::Plan { version: VERSION, plan }) => record = Some(Record::new(*plan)),
                (None, Event::Plan { version, .. }) => return Err(RecordError::Version(version)),
                (None, _) => return Err(RecordError::Unexpected { line }),
                (Some(record), event) => {
                    record.add(&event).ok_or(RecordError::Unexpected { line })?;
                }
            }
        }
        record.map(|record| (record, whole)).ok_or(RecordError::Empty)
    }

    /// Adds an event; `None` when it can't follow the previous ones.
    pub fn add(&mut self, event: &Event) -> Option<()> {
        let (step, state) = match event {
            Event::Plan { .. } => return None,
            Event::Abandoning => {
                self.abandoning = true;
                return Some(());
            }
            Event::Finished | Event::Abandoned => {
                self.ended = true;
                return Some(());
            }
            Event::Failed { step, .. } => return self.steps.get(*step).map(|_| ()),
            Event::Kept { step } => (*step, StepState::Kept),
            Event::Begun { step } => (*step, StepState::Begun),
            Event::Done { step } => (*step, StepState::Done),
            Event::PassedOver { step, .. } => (*step, StepState::PassedOver),
            Event::Undoing { step } => (*step, StepState::Undoing),
            Event::Undone { step } => (*step, StepState::Undone),
            Event::Left { step, .. } => (*step, StepState::Left),
        };
        *self.steps.get_mut(step)? = state;
        Some(())
    }

    /// How many of the steps are done.
    pub fn done(&self) -> usize {
        let done = |state: &&StepState| matches!(state, StepState::Kept | StepState::Done);
        self.steps.iter().filter(done).count()
    }
}

fn parse(raw: &[u8]) -> Result<Event, String> {
    let line = raw.strip_suffix(b"\n").ok_or("cut off")?;
    serde_json::from_slice::<Line>(line).map(|line| line.event).map_err(|e| e.to_string())
}
