use super::failure::{Failure, FailureKind};
use std::io::{BufRead, IsTerminal, Write};

/// Asks whether to do what was just shown; a failure unless the user says yes.
pub fn confirm() -> Result<(), Failure> {
    let declined = || Failure::new(FailureKind::Declined, "nothing was done");
    if !std::io::stdin().is_terminal() {
        let message = "can't ask for confirmation without a terminal; add --yes to go ahead, or --dry-run to only look";
        return Err(Failure::new(FailureKind::Declined, message));
    }
    eprint!("Do it? [y/N] ");
    std::io::stderr().flush().map_err(|_| declined())?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer).map_err(|_| declined())?;
    match answer.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err(declined()),
    }
}
