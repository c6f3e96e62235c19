//! Makes the running tunnel measure its links, and shows the results.

use crate::cli::failure::{Failure, tell};
use crate::cli::status_table::columns;
use braid_control::client::Client;
use braid_control::measured::{Measured, NewMeasure, Rates};
use std::thread;
use std::time::Duration;

/// How often the progress is requested.
const LOOK: Duration = Duration::from_millis(300);

/// Measures, showing the progress.
///
/// # Errors
/// When no tunnel runs, or it can't measure.
pub fn run(client: &Client, wish: &NewMeasure) -> Result<Measured, Failure> {
    client.measure(wish)?;
    let mut told = String::new();
    loop {
        let status = client.measuring()?;
        if told.is_empty() {
            status.left_out.iter().for_each(|left| tell(&format!("left out: {left}")));
        }
        if status.running {
            if told != status.step && !status.step.is_empty() {
                told = status.step.clone();
                tell(&format!("measuring {told} ({} of {})", status.done + 1, status.steps));
            }
            thread::sleep(LOOK);
            continue;
        }
        return match (status.trouble, status.measured) {
            (None, Some(measured)) => Ok(measured),
            (Some(trouble), _) => Err(Failure::failed(trouble)),
            (None, None) => Err(Failure::failed("the measurement gave no result; see the log")),
        };
    }
}

/// A row for each link and for all; and the total without each link.
pub fn render(measured: &Measured) -> String {
    let head = ["LINK", "DOWN", "UP", "AS PART", "WITHOUT IT"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    let both = |rates: &Rates| format!("{} down, {} up", mbit(rates.down), mbit(rates.up));
    let several = measured.links.len() > 1;
    for link in &measured.links {
        let without = match several {
            true => both(&measured.without(&link.link)),
            false => "-".to_owned(),
        };
        let part = link.as_part.as_ref().map_or_else(|| "-".to_owned(), both);
        let (down, up) = (mbit(link.rates.down), mbit(link.rates.up));
        rows.push(vec![link.link.clone(), down, up, part, without]);
    }
    let together = &measured.together;
    let none = || "-".to_owned();
    rows.push(vec!["together".into(), mbit(together.down), mbit(together.up), none(), none()]);
    let one = mbit(measured.one_connection.down);
    rows.push(vec!["one connection".into(), one, none(), none(), none()]);
    columns(&rows).join("\n")
}

fn mbit(rate: f64) -> String {
    format!("{rate:.1} Mbit/s")
}
