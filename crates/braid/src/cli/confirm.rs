use super::failure::{Failure, FailureKind};
use std::io::{BufRead, IsTerminal, Write};

/// Asks whether to do what was just shown; a failure unless the user says yes.
pub fn confirm() -> Result<(), Failure> {
    let answer = answer_to("Do it? [y/N] ", "--yes")?;
    match answer.to_ascii_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err(declined()),
    }
}

/// Asks for the name of what is about to be lost; a failure unless the user types it.
#[cfg(feature = "pools")]
pub fn confirm_by_name(name: &str) -> Result<(), Failure> {
    let question = "All its data will be lost for good. Type its name to go on: ";
    match answer_to(question, "--confirm NAME")? == name {
        true => Ok(()),
        false => Err(declined()),
    }
}

/// What the user types; `instead` is the option to use without a terminal.
fn answer_to(question: &str, instead: &str) -> Result<String, Failure> {
    if !std::io::stdin().is_terminal() {
        let message = format!(
            "can't ask for confirmation without a terminal; add {instead} to go ahead, or \
             --dry-run to only look"
        );
        return Err(Failure::new(FailureKind::Declined, message));
    }
    eprint!("{question}");
    std::io::stderr().flush().map_err(|_| declined())?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer).map_err(|_| declined())?;
    Ok(answer.trim().to_owned())
}

fn declined() -> Failure {
    Failure::new(FailureKind::Declined, "nothing was done")
}
