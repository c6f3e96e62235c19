use crate::cli::progress_wanted;
use braid_runner::Happening;
use braid_runner::progress::Progress;
use std::io::{Write, stderr};

/// Width of the bar, in characters.
const BAR: usize = 24;

/// Tells on stderr how far a plan is: a line for each step, and on a terminal a moving bar for
/// what takes long.
pub struct ProgressLine {
    steps: Option<usize>,
    seen: usize,
    terminal: bool,
    bar_shown: bool,
}

impl ProgressLine {
    /// For a plan of so many steps.
    pub fn new(steps: usize) -> ProgressLine {
        ProgressLine {
            steps: Some(steps),
            seen: 0,
            terminal: progress_wanted::is_wanted(),
            bar_shown: false,
        }
    }

    /// For undoing.
    pub fn undoing() -> ProgressLine {
        ProgressLine { steps: None, ..ProgressLine::new(0) }
    }

    /// Shows what happens.
    pub fn show(&mut self, happening: &Happening) {
        match happening {
            Happening::Begun(step) => self.line(&format!("… {}", step.says)),
            Happening::Goes(_, progress) if self.terminal => self.bar(progress),
            Happening::Goes(..) => {}
            Happening::Kept(step) => {
                self.seen += 1;
                self.line(&format!("= {} (so already)", step.says));
            }
            Happening::Done(step) => {
                self.seen += 1;
                let count = self.steps.map_or(String::new(), |all| format!(" {}/{all}", self.seen));
                let word = if self.steps.is_some() { "done" } else { "undone" };
                self.line(&format!("✓{count} {word}: {}", step.says));
            }
        }
    }

    /// Shows how far something is that is no step of a plan.
    pub fn shows(&mut self, progress: &Progress) {
        if self.terminal {
            self.bar(progress);
        }
    }

    /// Leaves the terminal clean.
    pub fn end(&mut self) {
        self.clear();
    }

    fn line(&mut self, text: &str) {
        self.clear();
        // With stderr closed nobody can be told.
        let _ = writeln!(stderr(), "{text}");
    }

    fn bar(&mut self, progress: &Progress) {
        let _ = write!(stderr(), "\r\x1b[K{}", text(progress));
        let _ = stderr().flush();
        self.bar_shown = true;
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.bar_shown) {
            let _ = write!(stderr(), "\r\x1b[K");
            let _ = stderr().flush();
        }
    }
}

fn text(progress: &Progress) -> String {
    let Some(share) = progress.share else { return format!("  {} …", progress.doing) };
    let share = share.clamp(0.0, 1.0);
    let full = (share * BAR as f64).round() as usize;
    let bar = format!("{}{}", "█".repeat(full), "░".repeat(BAR.saturating_sub(full)));
    let left = progress
        .left
        .map_or(String::new(), |left| format!(", {} left", braid_units::format_duration(left)));
    format!("  {bar} {:.1} % {}{left}", share * 100.0, progress.doing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_bar_says_how_much_and_how_long() {
        let left = Some(Duration::from_secs(90));
        let half = Progress { doing: "balance".to_owned(), share: Some(0.5), left };
        let text = text(&half);
        assert!(text.contains("50.0 % balance, "), "{text}");
        assert_eq!(text.matches('█').count(), BAR / 2);
    }
}
