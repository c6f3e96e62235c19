//! What the peer is to be told, by whichever datagram goes next: packets given up,
//! how its paths are to be used, the mode, who serves, who else could, and how much it may send.

use super::datagram::Datagram;
use crate::config::Mode;
use crate::path::Path;
use crate::path::sent::SentFrame;
use braid_wire::{Abandoned, LimitFrame, PathStatus, ReferralsFrame, Service};
use std::collections::VecDeque;

/// Room that the mode needs, with its frame's type, bytes.
const MODE_ROOM: usize = 8;

/// What the peer doesn't know yet, besides each path's policy and what was given
/// up.
#[derive(Debug)]
pub(super) struct News {
    pub mode_untold: bool,
    /// What we say of who serves.
    pub service: Service,
    pub service_untold: bool,
    /// To which others we refer the home: the epoch of that word, and the frame's list.
    pub referrals: Option<(u64, Vec<u8>)>,
    pub referrals_untold: bool,
    /// What the peer may send at the most; none before there was a limit.
    pub limit: Option<LimitFrame>,
    pub limit_untold: bool,
}

impl Default for News {
    fn default() -> Self {
        Self {
            mode_untold: true,
            service: Service::default(),
            service_untold: false,
            referrals: None,
            referrals_untold: false,
            limit: None,
            limit_untold: false,
        }
    }
}

/// All that the peer doesn't know yet.
#[derive(Debug)]
pub(super) struct PendingNews<'a> {
    news: &'a mut News,
    mode: Mode,
    abandoned: &'a mut VecDeque<Abandoned>,
    /// The side that opened the paths says how they are to be used.
    tells_policies: bool,
}

impl News {
    /// The home is referred to these. Tells whether that is news.
    pub fn refer(&mut self, epoch: u64, list: Vec<u8>) -> bool {
        let before = self.referrals.as_ref().map_or(&[][..], |(_, list)| list);
        if before == list {
            return false;
        }
        self.referrals = Some((epoch, list));
        self.referrals_untold = true;
        true
    }

    /// With what was given up, in this mode.
    #[inline(always)]
    pub fn pending<'a>(
        &'a mut self,
        mode: Mode,
        abandoned: &'a mut VecDeque<Abandoned>,
        tells_policies: bool,
    ) -> PendingNews<'a> {
        PendingNews { news: self, mode, abandoned, tells_policies }
    }
}

impl PendingNews<'_> {
    /// Appends what there is to a datagram of this path.
    #[inline(always)]
    pub fn write(&mut self, datagram: &mut Datagram, path: &mut Path, out: &mut Vec<u8>) {
        let untold = self.news.mode_untold || path.policy_untold;
        if untold && self.tells_policies || !self.abandoned.is_empty() {
            self.write_all(datagram, path, out);
        }
    }

    /// Something of it is to be told at once, though nothing else is sent.
    pub fn is_urgent(&self) -> bool {
        self.news.service_untold || self.news.limit_untold || self.news.referrals_untold
    }

    /// Appends what must be the last of a datagram: peers of older versions take what follows for
    /// broken.
    pub fn write_last(&mut self, datagram: &mut Datagram, path: &mut Path, out: &mut Vec<u8>) {
        if self.news.service_untold && datagram.left(out) > Service::MAX_LEN {
            self.news.service_untold = false;
            self.news.service.write(out);
            datagram.note(SentFrame::Service, &mut path.sent);
        }
        if self.news.limit_untold && datagram.left(out) > LimitFrame::MAX_LEN {
            self.news.limit_untold = false;
            if let Some(limit) = self.news.limit {
                limit.write(out);
                datagram.note(SentFrame::Limit, &mut path.sent);
            }
        }
        if self.news.referrals_untold && datagram.left(out) > ReferralsFrame::MAX_LEN {
            self.write_referrals(datagram, path, out);
        }
    }

    #[cold]
    fn write_referrals(&mut self, datagram: &mut Datagram, path: &mut Path, out: &mut Vec<u8>) {
        self.news.referrals_untold = false;
        let Some((epoch, list)) = &self.news.referrals else { return };
        ReferralsFrame::write(*epoch, list, out);
        datagram.note(SentFrame::Referrals, &mut path.sent);
    }

    #[cold]
    fn write_all(&mut self, datagram: &mut Datagram, path: &mut Path, out: &mut Vec<u8>) {
        if path.policy_untold && self.tells_policies && datagram.left(out) > PathStatus::MAX_LEN {
            path.policy_untold = false;
            PathStatus {
                path: path.id,
                tier: path.policy.tier,
                standby: path.policy.standby,
                abandoned: false,
                cap: path.cap_down,
            }
            .write(out);
            datagram.note(SentFrame::PathStatus { path: path.id }, &mut path.sent);
        }
        if self.news.mode_untold && self.tells_policies && datagram.left(out) > MODE_ROOM {
            self.news.mode_untold = false;
            self.mode.to_wire().write(out);
            datagram.note(SentFrame::Mode, &mut path.sent);
        }
        while datagram.left(out) > Abandoned::LEN {
            let Some(abandoned) = self.abandoned.pop_front() else { break };
            abandoned.write(out);
            datagram.note(SentFrame::Abandoned(abandoned), &mut path.sent);
        }
    }
}
