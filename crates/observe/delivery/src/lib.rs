//! Sends messages: by webhook, ntfy, e-mail, a command.
//!
//! [`deliver`] does it and trusts no answer: it follows no redirection and reads none to its end.
//! What libraries leave unbounded (a silent name server, an SMTP server that sends an endless line)
//! is bounded by [`Isolated`], which uses a separate process with limited time and memory.

#![forbid(unsafe_code)]

mod command;
mod http;
mod isolated;
mod mail;
mod secret;
mod words;

pub use isolated::{Isolated, Job, run_job};
pub use secret::read as read_secret;

use braid_alert::{Alert, Message, Target};
use serde::Serialize;

/// The JSON for webhooks and for a command's standard input.
#[derive(Serialize)]
struct Body<'a> {
    /// The alert's name.
    alert: &'a str,
    /// One line for people.
    title: String,
    /// The whole text for people.
    text: String,
    #[serde(flatten)]
    message: &'a Message,
}

/// Delivers a message to the alert's target.
///
/// # Errors
/// Why it didn't, or may not have, arrived, in words without a secret.
pub fn deliver(alert: &Alert, message: &Message) -> Result<(), String> {
    let body =
        || Body { alert: &alert.name, title: message.title(), text: message.text(), message };
    match &alert.target {
        Target::Webhook { url, token_file } => http::post(url, token_file.as_deref(), &body()),
        Target::Ntfy { url, token_file } => {
            let (server, body) = http::ntfy(url, message)?;
            http::post(&server, token_file.as_deref(), &body)
        }
        Target::Mail { .. } => mail::send(&alert.target, message),
        Target::Command { command } => command::run(command, message, &body()),
    }
}
