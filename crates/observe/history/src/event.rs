use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Something that happened, for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// When, Unix seconds.
    pub unix: i64,
    /// Of which kind.
    pub kind: EventKind,
    /// How bad it is.
    pub severity: Severity,
    /// The link, peer or pool that it is about; empty for the tunnel.
    pub subject: String,
    /// In words.
    pub text: String,
}

/// How bad something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Good to know.
    Note,
    /// Something should be done, or got worse.
    Warning,
    /// What Braid is for doesn't work.
    Critical,
}

macro_rules! words {
    ($name:ident { $($variant:ident = $word:literal),+ $(,)? }) => {
        impl $name {
            /// All there are.
            pub const ALL: &[$name] = &[$($name::$variant),+];

            /// As in JSON and in the config.
            pub fn as_str(self) -> &'static str {
                match self { $($name::$variant => $word),+ }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<$name, String> {
                let found = $name::ALL.iter().find(|word| word.as_str() == text);
                let known: Vec<&str> = $name::ALL.iter().map(|word| word.as_str()).collect();
                found.copied().ok_or_else(|| format!("{text:?} is none of {}", known.join(", ")))
            }
        }
    };
}

/// What can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// The tunnel came up.
    Started,
    /// It was taken down in good order.
    Stopped,
    /// A link doesn't work any more.
    LinkDown,
    /// A link works again.
    LinkUp,
    /// A link comes and goes.
    LinkFlapping,
    /// A link's quota is used to 75, 90 or 100 %.
    Quota,
    /// A peer can't be reached; at home that is the concentrator.
    PeerDown,
    /// A peer is back.
    PeerUp,
    /// A home was seen for the first time.
    NewHome,
    /// Something on the host works against the tunnel.
    Obstacle,
}

words!(EventKind {
    Started = "started",
    Stopped = "stopped",
    LinkDown = "link_down",
    LinkUp = "link_up",
    LinkFlapping = "link_flapping",
    Quota = "quota",
    PeerDown = "peer_down",
    PeerUp = "peer_up",
    NewHome = "new_home",
    Obstacle = "obstacle",
});

words!(Severity { Note = "note", Warning = "warning", Critical = "critical" });

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_json() {
        for kind in EventKind::ALL {
            assert_eq!(kind.as_str().parse(), Ok(*kind));
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
        }
        for severity in Severity::ALL {
            assert_eq!(serde_json::to_value(severity).unwrap(), severity.as_str());
        }
    }
}
