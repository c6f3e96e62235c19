//! `[[alert]]`: who is notified of which events.

use super::diagnostic::Diagnostics;
use super::path;
use super::section::{Placed, Section};
use super::{Endpoint, Host, Name};
use braid_alert::{Alert, Security, Target};
use braid_history::{EventKind, Severity};
use std::cell::RefCell;
use std::path::Path;
use std::time::Duration;

/// The keys for a message's destination.
const TARGETS: [&str; 4] = ["webhook", "ntfy", "mail", "command"];

/// Grouping interval: a failing link takes a moment to show all its consequences.
const GROUP: Duration = Duration::from_secs(20);
const LONGEST_GROUP: Duration = Duration::from_secs(3600);

/// Reads every `[[alert]]`; duplicate names are reported.
pub(super) fn read_all(
    root: &mut Section<'_, '_>,
    base: &Path,
    diagnostics: &RefCell<Diagnostics>,
) -> Vec<Alert> {
    let sections = root.tables("alert").into_iter();
    let alerts: Vec<Placed<Alert>> = sections.filter_map(|section| read(section, base)).collect();
    for (index, alert) in alerts.iter().enumerate() {
        if alerts.iter().take(index).any(|other| other.value.name == alert.value.name) {
            let at = alert.places.key("name").unwrap_or(alert.places.section);
            let what = format!("there are two alerts named {}", alert.value.name);
            diagnostics.borrow_mut().add_with_hint(at, what, "give each a name of its own");
        }
    }
    alerts.into_iter().map(|alert| alert.value).collect()
}

fn read(mut section: Section<'_, '_>, base: &Path) -> Option<Placed<Alert>> {
    let name: Option<Name> = section.parsed("name");
    if name.is_none() {
        section.missing("name", "write name = \"phone\"");
    }
    let kinds: Vec<EventKind> = section.list("events").unwrap_or_default();
    let least: Severity = section.parsed("severity").unwrap_or(Severity::Warning);
    let group = section.duration("group").unwrap_or(GROUP);
    if group > LONGEST_GROUP {
        let hint = "events within that time go into one message";
        section.wrong("group", "alert.group must be 0s to 1h", hint);
    }
    let group_s = u32::try_from(group.as_secs()).unwrap_or(u32::MAX);
    let target = read_target(&mut section, base);
    let places = section.finish();
    let value = Alert { name: name?.as_str().to_owned(), target: target?, kinds, least, group_s };
    Some(Placed { value, places })
}

fn read_target(section: &mut Section<'_, '_>, base: &Path) -> Option<Target> {
    let webhook = section.parsed_by("webhook", http_address);
    let ntfy = section.parsed_by("ntfy", ntfy_topic);
    let command = section.parsed_by("command", path::command);
    let to = section.list_by("mail", mail_address);
    let token_file = path::file(section, "token_file", base);
    let given: Vec<&str> = TARGETS.into_iter().filter(|key| section.has(key)).collect();
    match given.as_slice() {
        [_] => {}
        [] => {
            let hint = "write one of webhook, ntfy, mail, command";
            section.missing("where messages go", hint);
            return None;
        }
        [_, second, ..] => {
            let what = format!("[alert] has both {}", given.join(" and "));
            section.wrong(second, what, "write an [[alert]] for each");
            return None;
        }
    }
    if let Some(url) = webhook {
        return Some(Target::Webhook { url, token_file });
    }
    if let Some(url) = ntfy {
        return Some(Target::Ntfy { url, token_file });
    }
    if section.has("token_file") {
        section.wrong(
            "token_file",
            "alert.token_file applies only with webhook or ntfy",
            "remove it; a mail's password is in password_file",
        );
    }
    match (command, to) {
        (Some(command), _) => Some(Target::Command { command }),
        (None, Some(to)) => read_mail(section, to, base),
        (None, None) => None,
    }
}

fn read_mail(section: &mut Section<'_, '_>, to: Vec<String>, base: &Path) -> Option<Target> {
    if to.is_empty() {
        section.wrong("mail", "alert.mail names no recipient", "write mail = [\"me@example.org\"]");
    }
    let from = section.parsed_by("from", mail_address);
    if from.is_none() {
        section.missing("from", "write from = \"router@example.org\"");
    }
    let server: Option<Endpoint> = section.parsed("smtp");
    if server.is_none() {
        section.missing("smtp", "write smtp = \"mail.example.org:587\"");
    }
    let security = section.parsed_by("security", |text| match text {
        "starttls" => Ok(Security::Starttls),
        "tls" => Ok(Security::Tls),
        "none" => Ok(Security::None),
        other => Err(format!("{other:?} is none of starttls, tls, none")),
    });
    let security = security.unwrap_or(Security::Starttls);
    let user: Option<String> = section.parsed("user");
    let password_file = path::file(section, "password_file", base);
    if user.is_some() != password_file.is_some() {
        let (has, lacks) = match user.is_some() {
            true => ("user", "password_file"),
            false => ("password_file", "user"),
        };
        section.wrong(has, format!("alert.{has} without {lacks}"), format!("write {lacks} too"));
    }
    if user.is_some() && security == Security::None {
        section.wrong(
            "security",
            "alert.security = \"none\" would send the password unencrypted",
            "write security = \"starttls\" or \"tls\", or no user",
        );
    }
    let Endpoint { host, port } = server?;
    let server = match host {
        Host::Address(address) => address.to_string(),
        Host::Name(name) => name,
    };
    Some(Target::Mail { server, port, security, user, password_file, from: from?, to })
}

fn http_address(text: &str) -> Result<String, String> {
    let rest = text.strip_prefix("https://").or(text.strip_prefix("http://"));
    let host = rest.and_then(|rest| rest.split(['/', '?', '#']).next()).unwrap_or("");
    let is_plain = text.len() <= 2000 && text.chars().all(|c| c.is_ascii_graphic());
    match !host.is_empty() && is_plain {
        true => Ok(text.to_owned()),
        false => Err("write an address such as \"https://hooks.example.org/braid\"".into()),
    }
}

fn ntfy_topic(text: &str) -> Result<String, String> {
    let wrong = || "write a topic's address such as \"https://ntfy.sh/my-own-topic\"".to_owned();
    let url = http_address(text).map_err(|_| wrong())?;
    let rest = url.split_once("://").map_or("", |(_, rest)| rest);
    // <https://docs.ntfy.sh/publish/>: letters, digits, - and _, 64 at most.
    let is_topic = |topic: &str| {
        (1..=64).contains(&topic.len())
            && topic.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
    };
    match rest.split_once('/') {
        Some((_, topic)) if is_topic(topic) => Ok(url),
        _ => Err(wrong()),
    }
}

/// Requires text on either side of one @; the server checks the rest.
fn mail_address(text: &str) -> Result<String, String> {
    let fine = text
        .split_once('@')
        .is_some_and(|(who, host)| !who.is_empty() && !host.is_empty() && !host.contains('@'));
    let plain = |c: char| c.is_ascii_graphic() && !matches!(c, '<' | '>' | ',' | ';');
    match fine && text.len() <= 254 && text.chars().all(plain) {
        true => Ok(text.to_owned()),
        false => Err(format!("{text:?} is not an address such as \"me@example.org\"")),
    }
}
