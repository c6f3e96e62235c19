//! Messages go out: by webhook, ntfy, e-mail, a command.
//!
//! [`deliver`] does it, and trusts no answer: none is followed elsewhere, none is read to its end.
//! What libraries leave unbounded (a name server's silence, an SMTP server that sends one endless
//! line) is bounded by [`Isolated`], which lets a process of its own do it, with limits to its time
//! and memory.

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

/// What a webhook gets, and a command on its standard input.
#[derive(Serialize)]
struct Body<'a> {
    /// The alert's name.
    alert: &'a str,
    /// For people, in a line.
    title: String,
    /// For people.
    text: String,
    #[serde(flatten)]
    message: &'a Message,
}

/// Takes a message to where the alert's messages go.
///
/// # Errors
/// Why it didn't arrive, or may not have, in words without a secret.
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
