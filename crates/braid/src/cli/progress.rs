use super::time_left::time_left;
use crate::cli::{progress_wanted, terminal_line};
use braid_runner::Happening;
use braid_runner::progress::Progress;

/// Width of the bar, in characters.
const BAR: usize = 24;

/// Shows a plan's progress on stderr: a line for each step, and on a terminal a moving bar for slow
/// ones.
pub struct ProgressLine {
    steps: Option<usize>,
    seen: usize,
    terminal: bool,
}

impl ProgressLine {
    /// For a plan with this many steps.
    pub fn new(steps: usize) -> ProgressLine {
        ProgressLine { steps: Some(steps), seen: 0, terminal: progress_wanted::is_wanted() }
    }

    /// Skips this many steps that are finished already.
    pub fn after(mut self, seen: usize) -> ProgressLine {
        self.seen = seen;
        self
    }

    /// For undoing a plan.
    pub fn undoing() -> ProgressLine {
        ProgressLine { steps: None, ..ProgressLine::new(0) }
    }

    /// Shows what happens.
    pub fn show(&mut self, happening: &Happening) {
        match happening {
            Happening::Begun(step) => terminal_line::say(&format!("… {}", step.says)),
            Happening::Goes(_, progress) => self.shows(progress),
            Happening::Kept(step) => {
                self.seen += 1;
                terminal_line::say(&format!("= {} (so already)", step.says));
            }
            Happening::PassedOver { why, otherwise, .. } => {
                self.seen += 1;
                terminal_line::say(&format!("✗ not done: {why}\n  {otherwise}"));
            }
            Happening::Done(step) => terminal_line::say(&self.done(&step.says)),
        }
    }

    fn done(&mut self, what: &str) -> String {
        self.seen += 1;
        match self.steps {
            Some(all) => format!("✓ {}/{all} done: {what}", self.seen),
            None => format!("✓ undone: {what}"),
        }
    }

    /// Shows the progress of something that is no step of a plan.
    pub fn shows(&self, progress: &Progress) {
        if self.terminal {
            terminal_line::show(&text(progress));
        }
    }

    /// Clears the line.
    pub fn end(&self) {
        terminal_line::clear();
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        self.end();
    }
}

fn text(progress: &Progress) -> String {
    let Some(share) = progress.share else { return format!("  {} …", progress.doing) };
    let share = share.clamp(0.0, 1.0);
    let full = (share * BAR as f64).round() as usize;
    let bar = format!("{}{}", "█".repeat(full), "░".repeat(BAR.saturating_sub(full)));
    let left = progress.left.map_or(String::new(), |left| format!(", {}", time_left(left)));
    format!("  {bar} {:.1} % {}{left}", share * 100.0, progress.doing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn what_an_earlier_run_has_done_counts() {
        let mut line = ProgressLine::new(3).after(1);
        assert_eq!(line.done("mount it"), "✓ 2/3 done: mount it");
        assert_eq!(line.done("write it down"), "✓ 3/3 done: write it down");
        assert_eq!(ProgressLine::undoing().done("mount it"), "✓ undone: mount it");
    }

    #[test]
    fn a_bar_says_how_much_and_how_long() {
        let left = Some(Duration::from_millis(89_700));
        let half = Progress { doing: "balance".to_owned(), share: Some(0.5), left };
        let text = text(&half);
        assert!(text.ends_with("50.0 % balance, 90 s left"), "{text}");
        assert_eq!(text.matches('█').count(), BAR / 2);
    }
}
