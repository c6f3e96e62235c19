use super::failure::{Failure, FailureKind, print_line};
use super::status_table::columns;
use super::{Global, JsonFlag};
use crate::daemon::told::{PoolAlerts, alerts_of, by_this_program, host_name};
use braid_alert::{Alert, Deliver, Outbox, test_event};
use braid_control::client::ClientError;
use braid_control::config::closest;
use braid_control::status::AlertStatus;
use braid_history::Periods;
use clap::{Args, Subcommand};
use serde::Serialize;
use std::io;

#[derive(Subcommand)]
pub enum AlertCommand {
    /// List who is notified of events, and what couldn't be delivered yet
    List(List),
    /// Send a message now, to see whether it arrives
    Test(Test),
    /// Deliver the message that is on standard input; `braid` itself calls this
    #[command(hide = true)]
    Deliver,
}

#[derive(Args)]
#[command(
    after_help = "Examples:\n  braid alert list\n  braid alert list --json | jq -r '.alerts[] | select(.trouble) | .name'"
)]
pub struct List {
    #[command(flatten)]
    _json: JsonFlag,
}

#[derive(Args)]
#[command(
    after_help = "Examples:\n  braid alert test\n  braid alert test phone\n\nExit codes: 0 all arrived, 1 some didn't"
)]
pub struct Test {
    #[command(flatten)]
    _json: JsonFlag,
    /// Only this alert of the config
    name: Option<String>,
}

impl AlertCommand {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        match self {
            AlertCommand::List(_) => list(global),
            AlertCommand::Test(test) => test.run(global),
            AlertCommand::Deliver => braid_delivery::run_job(io::stdin()).map_err(Failure::failed),
        }
    }
}

/// Alerts about the tunnel, and about pools.
#[derive(Serialize)]
struct Listed {
    alerts: Vec<AlertStatus>,
    /// Messages about pools, which no daemon sends.
    pools: Vec<AlertStatus>,
}

fn list(global: &Global) -> Result<(), Failure> {
    let alerts = configured(global)?;
    let pools = PoolAlerts::usual(alerts.clone()).status();
    let listed = Listed { alerts: running(global, &alerts)?, pools };
    global.print(&listed, || match alerts.is_empty() {
        true => "no [[alert]] in the config: nobody is notified".to_owned(),
        false => {
            let rows = listed.alerts.iter().map(|alert| row("tunnel", alert));
            let rows = rows.chain(listed.pools.iter().map(|alert| row("pools", alert)));
            columns(&rows.collect::<Vec<_>>()).join("\n")
        }
    })
}

/// The status from a running tunnel; otherwise only what the config says.
fn running(global: &Global, alerts: &[Alert]) -> Result<Vec<AlertStatus>, Failure> {
    let status = global.client().ok().map(|client| client.status());
    match status {
        Some(Ok(status)) => return Ok(status.alerts),
        None | Some(Err(ClientError::NotRunning(_) | ClientError::Anothers { .. })) => {}
        Some(Err(error)) => return Err(error.into()),
    }
    let of = |alert: &Alert| AlertStatus {
        name: alert.name.clone(),
        to: alert.target.to_string(),
        ..AlertStatus::default()
    };
    Ok(alerts.iter().map(of).collect())
}

fn row(whose: &str, alert: &AlertStatus) -> Vec<String> {
    let at = |unix: Option<i64>| unix.map_or("never".to_owned(), Periods::local_time);
    let mut how = format!("last delivered {}", at(alert.last_delivered_unix));
    if alert.waiting > 0 {
        let next = at(alert.next_attempt_unix);
        let wait = if alert.waiting == 1 {
            "1 event waits".to_owned()
        } else {
            format!("{} events wait", alert.waiting)
        };
        how = format!("{how}, {wait} (next attempt {next})");
    }
    if alert.given_up > 0 {
        how = format!("{how}, {} events were given up", alert.given_up);
    }
    if let Some(trouble) = &alert.trouble {
        how = format!("{how}: {trouble}");
    }
    vec![alert.name.clone(), whose.to_owned(), alert.to.clone(), how]
}

/// The result of sending a message.
#[derive(Serialize)]
struct Tried {
    alert: String,
    to: String,
    arrived: bool,
    error: Option<String>,
}

impl Test {
    fn run(&self, global: &Global) -> Result<(), Failure> {
        let alerts = configured(global)?;
        let chosen = self.chosen(&alerts)?;
        let deliver = by_this_program();
        let mut tried = Vec::new();
        for alert in chosen {
            let message = Outbox::test(&host_name(), test_event(&alert.name));
            let error = deliver.deliver(alert, &message).err();
            let outcome = Tried {
                alert: alert.name.clone(),
                to: alert.target.to_string(),
                arrived: error.is_none(),
                error,
            };
            if !global.json {
                print_line(&match &outcome.error {
                    None => format!("{}: sent to {}", outcome.alert, outcome.to),
                    Some(why) => format!("{}: not sent to {}: {why}", outcome.alert, outcome.to),
                })?;
            }
            tried.push(outcome);
        }
        if global.json {
            let text = serde_json::to_string_pretty(&tried);
            print_line(&text.map_err(|error| Failure::failed(error.to_string()))?)?;
        }
        match tried.iter().filter(|outcome| !outcome.arrived).count() {
            0 => Ok(()),
            failed => Err(Failure::failed(format!("{failed} of {} didn't arrive", tried.len()))),
        }
    }

    fn chosen<'a>(&self, alerts: &'a [Alert]) -> Result<Vec<&'a Alert>, Failure> {
        if alerts.is_empty() {
            let message = "there is no [[alert]] in the config: see docs/reference/config.md";
            return Err(Failure::new(FailureKind::Config, message));
        }
        let Some(name) = &self.name else { return Ok(alerts.iter().collect()) };
        let found = alerts.iter().find(|alert| alert.name == *name);
        found.map(|alert| vec![alert]).ok_or_else(|| {
            let known: Vec<&str> = alerts.iter().map(|alert| alert.name.as_str()).collect();
            let meant = closest(name, known.iter().copied());
            let meant = meant.map_or_else(String::new, |close| format!("; did you mean {close}?"));
            let known = known.join(", ");
            Failure::failed(format!("there is no alert {name:?} (there are: {known}){meant}"))
        })
    }
}

fn configured(global: &Global) -> Result<Vec<Alert>, Failure> {
    Ok(alerts_of(&global.config_file())?)
}
