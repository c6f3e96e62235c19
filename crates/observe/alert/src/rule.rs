use braid_history::{Event, EventKind, Severity};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;

/// One `[[alert]]`: who is notified of what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alert {
    /// Its name in the config.
    pub name: String,
    /// Where messages go.
    pub target: Target,
    /// Only these kinds; all if empty.
    pub kinds: Vec<EventKind>,
    /// Only events at least as bad. Whoever was told of a problem is also told that it is solved.
    pub least: Severity,
    /// Events within this many seconds after the first go into the same message.
    pub group_s: u32,
}

/// Where messages go. Secrets are in files, which are read at each delivery.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// An HTTP server that takes JSON by `POST`.
    Webhook {
        /// `http://` or `https://`.
        url: String,
        /// The file with the token to send as `Authorization: Bearer`.
        token_file: Option<PathBuf>,
    },
    /// A topic of an ntfy server.
    Ntfy {
        /// The topic's address.
        url: String,
        /// The file with an access token.
        token_file: Option<PathBuf>,
    },
    /// E-mail by SMTP.
    Mail {
        /// The server's name.
        server: String,
        /// Its port.
        port: u16,
        /// How the connection is protected.
        security: Security,
        /// The user, if login is required.
        user: Option<String>,
        /// The file with the password.
        password_file: Option<PathBuf>,
        /// The sender's address.
        from: String,
        /// The receivers' addresses.
        to: Vec<String>,
    },
    /// A command for `sh -c`.
    Command {
        /// The command.
        command: String,
    },
}

/// How a connection to an SMTP server is protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Security {
    /// STARTTLS, required before anything is sent (RFC 3207).
    Starttls,
    /// TLS from the first byte (RFC 8314).
    Tls,
    /// None.
    None,
}

impl Alert {
    /// Whether this alert wants the event; `was_told` is whether it was told of a problem with the
    /// same subject. Whoever is told of problems is told of their solutions.
    pub fn wants(&self, event: &Event, was_told: bool) -> bool {
        let asked = |kind: &EventKind| {
            *kind == event.kind || event.kind.is_good_news() && kind.topic() == event.kind.topic()
        };
        let of_kind = self.kinds.is_empty() || self.kinds.iter().any(asked);
        of_kind && (event.severity >= self.least || event.kind.is_good_news() && was_told)
    }
}

impl fmt::Display for Target {
    /// For people, without secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Webhook { url, .. } => write!(f, "webhook {}", host_of(url)),
            // A topic's name is all one needs to read it.
            Target::Ntfy { url, .. } => write!(f, "ntfy {}", host_of(url)),
            Target::Mail { to, .. } => write!(f, "mail {}", to.join(", ")),
            Target::Command { .. } => f.write_str("command"),
        }
    }
}

/// An address' scheme and host; paths and user names of webhooks are secrets.
fn host_of(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let authority = rest.split(['/', '?', '#']).next().unwrap_or(rest);
    let host = authority.rsplit('@').next().unwrap_or(authority);
    format!("{scheme}://{host}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: EventKind, severity: Severity) -> Event {
        Event { unix: 0, kind, severity, subject: "dsl".into(), text: "x".into() }
    }

    fn alert(kinds: &[EventKind], least: Severity) -> Alert {
        let target = Target::Command { command: "true".into() };
        Alert { name: "a".into(), target, kinds: kinds.to_vec(), least, group_s: 20 }
    }

    #[test]
    fn good_news_are_for_those_who_had_the_bad() {
        let warned = alert(&[], Severity::Warning);
        let up = event(EventKind::LinkUp, Severity::Note);
        assert!(warned.wants(&event(EventKind::LinkDown, Severity::Warning), false));
        assert!(!warned.wants(&up, false));
        assert!(warned.wants(&up, true));
        assert!(!warned.wants(&event(EventKind::Quota, Severity::Note), true));
        let only_down = alert(&[EventKind::LinkDown], Severity::Warning);
        assert!(only_down.wants(&up, true));
        assert!(!only_down.wants(&event(EventKind::PeerDown, Severity::Critical), true));
    }

    #[test]
    fn a_target_is_told_without_what_is_secret_in_it() {
        let url = "https://me:secret@hooks.example.org/services/T0/secret?k=secret".to_owned();
        let webhook = Target::Webhook { url, token_file: None };
        assert_eq!(webhook.to_string(), "webhook https://hooks.example.org");
        let url = "https://ntfy.example.org/secret".to_owned();
        let ntfy = Target::Ntfy { url, token_file: None };
        assert_eq!(ntfy.to_string(), "ntfy https://ntfy.example.org");
    }
}
