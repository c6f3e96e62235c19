//! Which homes are asked whether they are still here. Pure.
//!
//! While the registry is reached, it says whether another concentrator serves a home. While it
//! isn't, only the home can: one that is cut off as well is silent, and so is an idle one. The
//! idle one answers; the other's paths are found to be silent, and it is no longer announced.

use braid_tunnel::PeerReport;
use std::time::{Duration, Instant};

/// The lease has not been renewed for so long: the registry can't be reached, or is very slow. Its
/// rounds are 3 s apart at most. With what follows, a home that is cut off is withdrawn within the
/// lease, 10 s.
const NOT_RENEWED_FOR: Duration = Duration::from_secs(4);
/// A home that is silent for this long is asked. Each that is idle is thus asked every 2 to 3 s.
const SILENT_FOR: Duration = Duration::from_secs(2);
/// How often it is looked who is silent: answers take less.
const LOOKS_EVERY: Duration = Duration::from_secs(1);

/// When this concentrator's lease was renewed, and when homes were last asked.
#[derive(Debug, Default)]
pub(super) struct Asking {
    /// `None` outside of a fleet.
    renewed: Option<Instant>,
    looked: Option<Instant>,
}

/// What is known of a peer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    connected: bool,
    /// What it last said; one of an older version says nothing.
    served_here: Option<bool>,
    silent_for: Option<Duration>,
}

impl Asking {
    /// The registry had this concentrator's lease renewed by a request that began at this time.
    pub(super) fn on_renewed(&mut self, at: Instant) {
        self.renewed = Some(at);
    }

    /// Those of these peers that are to be asked now.
    pub(super) fn due<Id>(
        &mut self,
        peers: impl IntoIterator<Item = (Id, Seen)>,
        now: Instant,
    ) -> Vec<Id> {
        let for_long = |at: Instant, long| now.saturating_duration_since(at) >= long;
        let unreached = self.renewed.is_some_and(|at| for_long(at, NOT_RENEWED_FOR));
        if !unreached || self.looked.is_some_and(|at| !for_long(at, LOOKS_EVERY)) {
            return Vec::new();
        }
        self.looked = Some(now);
        let silent = peers.into_iter().filter(|(_, seen)| seen.may_be_elsewhere());
        silent.map(|(id, _)| id).collect()
    }
}

impl Seen {
    /// It counts as served here, and may have moved unheard. The paths of one that isn't connected
    /// are probed anyway.
    fn may_be_elsewhere(&self) -> bool {
        self.connected
            && self.served_here != Some(false)
            && self.silent_for.is_none_or(|silent| silent >= SILENT_FOR)
    }
}

impl From<&PeerReport> for Seen {
    fn from(report: &PeerReport) -> Seen {
        Seen {
            connected: report.connected,
            served_here: report.served.map(|said| said.here),
            silent_for: report.silent_for,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: Seen = Seen {
        connected: true,
        served_here: Some(true),
        silent_for: Some(Duration::from_secs(60)),
    };

    fn at(start: Instant, millis: u64) -> Instant {
        start + Duration::from_millis(millis)
    }

    #[test]
    fn homes_are_asked_while_the_lease_is_not_renewed_and_only_then() {
        let start = Instant::now();
        let mut asking = Asking::default();
        let mut is_asked = |renewed: Option<u64>, millis| {
            if let Some(renewed) = renewed {
                asking.on_renewed(at(start, renewed));
            }
            !asking.due([((), IDLE)], at(start, millis)).is_empty()
        };
        assert!(!is_asked(None, 100_000), "no fleet");
        assert!(!is_asked(Some(100_000), 103_900), "a round takes a while");
        assert!(is_asked(None, 104_000));
        assert!(!is_asked(None, 104_800), "it may be about to answer");
        assert!(is_asked(None, 105_000), "not for longer than a lease");
        assert!(!is_asked(Some(105_500), 106_000), "the registry is back");
        assert!(is_asked(None, 109_500), "and gone again");
    }

    #[test]
    fn asked_are_those_that_are_served_here_and_silent() {
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        let peers = [
            ("idle", IDLE),
            ("of an older version", Seen { served_here: None, ..IDLE }),
            ("never heard", Seen { silent_for: None, ..IDLE }),
            ("has answered", Seen { silent_for: seconds(1), ..IDLE }),
            ("elsewhere", Seen { served_here: Some(false), ..IDLE }),
            ("gone", Seen { connected: false, ..IDLE }),
        ];
        let start = Instant::now();
        let mut asking = Asking::default();
        asking.on_renewed(start);
        let asked = asking.due(peers, at(start, 10_000));
        assert_eq!(asked, ["idle", "of an older version", "never heard"]);
    }
}
