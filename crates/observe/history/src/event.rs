use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Something that happened, for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// When, Unix seconds.
    pub unix: i64,
    /// Its kind.
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
    /// Braid can't do its job.
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
    /// A link stopped working.
    LinkDown,
    /// A link works again.
    LinkUp,
    /// A link comes and goes.
    LinkFlapping,
    /// A link changed its transport: to TLS because UDP doesn't pass, or back to UDP.
    Transport,
    /// A link's quota is used to 75, 90 or 100 %.
    Quota,
    /// A peer can't be reached; at home that is the concentrator.
    PeerDown,
    /// A peer is back.
    PeerUp,
    /// A concentrator asks homes to move to another one.
    Draining,
    /// It accepts homes again.
    DrainingEnded,
    /// Another concentrator now serves a home.
    Moved,
    /// A home was seen for the first time.
    NewHome,
    /// Something on the host works against the tunnel.
    Obstacle,
    /// It no longer does.
    ObstacleGone,
    /// Traffic goes another way than it should: bypassing the tunnel, or over a standby link.
    Failover,
    /// It goes the way it should again.
    FailoverEnded,
    /// Something is wrong with a disk or a pool.
    PoolFinding,
    /// A pool has hardly any room left.
    PoolFull,
    /// A problem of a pool was solved.
    PoolMended,
    /// A scrub finished, with its result.
    ScrubDone,
    /// Snapshots couldn't be replicated.
    ReplicationFailed,
    /// The newest replica is older than it should be.
    ReplicationLate,
    /// Replication works again after a failure or delay.
    ReplicationDone,
    /// A backup failed, or lacks files that couldn't be read.
    BackupFailed,
    /// A backup is complete after a failed one.
    BackupDone,
    /// A test of whether messages arrive.
    Test,
}

words!(EventKind {
    Started = "started",
    Stopped = "stopped",
    LinkDown = "link_down",
    LinkUp = "link_up",
    LinkFlapping = "link_flapping",
    Transport = "transport",
    Quota = "quota",
    PeerDown = "peer_down",
    PeerUp = "peer_up",
    Draining = "draining",
    DrainingEnded = "draining_ended",
    Moved = "moved",
    NewHome = "new_home",
    Obstacle = "obstacle",
    ObstacleGone = "obstacle_gone",
    Failover = "failover",
    FailoverEnded = "failover_ended",
    PoolFinding = "pool_finding",
    PoolFull = "pool_full",
    PoolMended = "pool_mended",
    ScrubDone = "scrub_done",
    ReplicationFailed = "replication_failed",
    ReplicationLate = "replication_late",
    ReplicationDone = "replication_done",
    BackupFailed = "backup_failed",
    BackupDone = "backup_done",
    Test = "test",
});

/// What an event is about: good news ends the bad news with the same topic and subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic {
    /// The tunnel as a whole.
    Tunnel,
    /// A link.
    Link,
    /// A peer.
    Peer,
    /// A draining concentrator.
    Draining,
    /// The host's own settings.
    Host,
    /// The way that traffic goes.
    Failover,
    /// A pool or a disk.
    Pool,
    /// Copies of a pool elsewhere.
    Replication,
    /// Encrypted copies elsewhere.
    Backup,
}

impl EventKind {
    /// The event's topic.
    pub fn topic(self) -> Topic {
        use EventKind as Kind;
        match self {
            Kind::Started | Kind::Stopped | Kind::Test => Topic::Tunnel,
            Kind::LinkDown | Kind::LinkUp | Kind::LinkFlapping | Kind::Transport | Kind::Quota => {
                Topic::Link
            }
            Kind::PeerDown | Kind::PeerUp | Kind::NewHome | Kind::Moved => Topic::Peer,
            Kind::Draining | Kind::DrainingEnded => Topic::Draining,
            Kind::Obstacle | Kind::ObstacleGone => Topic::Host,
            Kind::Failover | Kind::FailoverEnded => Topic::Failover,
            Kind::PoolFinding | Kind::PoolFull | Kind::PoolMended | Kind::ScrubDone => Topic::Pool,
            Kind::ReplicationFailed | Kind::ReplicationLate | Kind::ReplicationDone => {
                Topic::Replication
            }
            Kind::BackupFailed | Kind::BackupDone => Topic::Backup,
        }
    }

    /// Whether it reports the end of a problem with the same topic and subject.
    pub fn is_good_news(self) -> bool {
        use EventKind as Kind;
        matches!(
            self,
            Kind::LinkUp
                | Kind::PeerUp
                | Kind::DrainingEnded
                | Kind::ObstacleGone
                | Kind::FailoverEnded
                | Kind::PoolMended
                | Kind::ReplicationDone
                | Kind::BackupDone
        )
    }

    /// Whether it reports a problem that good news will end.
    pub fn begins_something_bad(self) -> bool {
        use EventKind as Kind;
        matches!(
            self,
            Kind::LinkDown
                | Kind::PeerDown
                | Kind::Draining
                | Kind::Obstacle
                | Kind::Failover
                | Kind::PoolFinding
                | Kind::PoolFull
                | Kind::ReplicationFailed
                | Kind::ReplicationLate
                | Kind::BackupFailed
        )
    }
}

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
