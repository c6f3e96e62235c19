use braid_history::{Event, Severity};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

/// The content of one delivery: one event, or several that happened at about the same time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Identifies this message in every attempt to deliver it, so that receivers can recognise
    /// copies.
    pub id: String,
    /// The sending host.
    pub host: String,
    /// The worst event's severity.
    pub severity: Severity,
    /// Oldest first.
    pub events: Vec<Event>,
    /// Number of events left out for lack of room.
    pub left_out: u64,
}

impl Message {
    /// The message in one line.
    pub fn title(&self) -> String {
        let more = self.events.len().saturating_sub(1) as u64 + self.left_out;
        // The worst event; the first of equally bad ones.
        let worst = self.events.iter().rev().max_by_key(|event| event.severity);
        let text = worst.map_or("events were left out", |event| event.text.as_str());
        let text = one_line(text, 120);
        match more {
            0 => format!("{}: {text}", self.host),
            more => format!("{}: {text} (and {more} more)", self.host),
        }
    }

    /// All of it, one event per line.
    pub fn text(&self) -> String {
        let mut lines: Vec<String> = self.events.iter().map(line).collect();
        if self.left_out > 0 {
            lines.push(format!("{} more events are not listed: `braid events`", self.left_out));
        }
        lines.join("\n")
    }
}

fn line(event: &Event) -> String {
    let when = Timestamp::from_second(event.unix).unwrap_or_default();
    let when = when.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S");
    format!("{when}  {}  {}", event.severity, one_line(&event.text, 1000))
}

/// Removes control characters, since names of links and pools are foreign input, and limits the
/// length.
fn one_line(text: &str, most: usize) -> String {
    let plain = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut line: String = plain.take(most).collect();
    if text.chars().nth(most).is_some() {
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use braid_history::EventKind;

    #[test]
    fn the_title_tells_the_worst_and_how_many_there_are_without_control_characters() {
        let event = |severity, text: &str| Event {
            unix: 0,
            kind: EventKind::LinkDown,
            severity,
            subject: "dsl".into(),
            text: text.into(),
        };
        let events = vec![
            event(Severity::Note, "lte works again"),
            event(Severity::Critical, "all\r\nis lost"),
            event(Severity::Critical, "still"),
        ];
        let message = Message {
            id: "1".into(),
            host: "router".into(),
            severity: Severity::Critical,
            events,
            left_out: 2,
        };
        assert_eq!(message.title(), "router: all  is lost (and 4 more)");
        assert_eq!(message.text().lines().count(), 4);
    }
}
