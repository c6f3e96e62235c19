//! What the peer is to be told, by whichever datagram goes next: packets given up,
//! how its paths are to be used, the mode, who serves, who else could, how much it may send, and
//! whose acknowledgements not to hold back.

use super::datagram::Datagram;
use super::header_compressor::HeaderCompressor;
use crate::config::Mode;
use crate::path::Path;
use crate::path::sent::{Announcement, SentFrame};
use braid_wire::{
    Abandoned, ContextFrame, ContextKnown, LimitFrame, PacedFlow, PathStatus, ReferralsFrame,
    Service,
};
use std::collections::VecDeque;

/// Room that the mode needs, with its frame's type, bytes.
const MODE_ROOM: usize = 8;

/// The peer is told of no more contexts at once that are known: it would have to have sent as many
/// within a round trip.
const MOST_KNOWN: usize = 64;

/// What the peer doesn't know yet, besides each path's policy and what was given
/// up.
#[derive(Debug)]
pub(super) struct News {
    mode_untold: bool,
    /// What we say of who serves.
    service: Announced<Service>,
    /// What the peer may send at the most; none before there was a limit.
    limit: Announced<Option<LimitFrame>>,
    /// To which others we refer the home: the epoch of that word, and the frame's list.
    referrals: Announced<Option<(u64, Vec<u8>)>>,
    /// Flows whose sender paces.
    paced: VecDeque<u16>,
    /// Headers by which the peer may compress: flow, number.
    known: VecDeque<(u16, u8)>,
}

/// A value that the peer is told until it has arrived.
#[derive(Debug, Default)]
struct Announced<T> {
    value: T,
    untold: bool,
}

/// All that the peer doesn't know yet.
#[derive(Debug)]
pub(super) struct PendingNews<'a> {
    news: &'a mut News,
    mode: Mode,
    abandoned: &'a mut VecDeque<Abandoned>,
    /// The side that opened the paths says how they are to be used.
    tells_policies: bool,
    /// Its contexts, too, are to be told.
    compressor: &'a mut HeaderCompressor,
}

impl Default for News {
    fn default() -> Self {
        Self {
            mode_untold: true,
            service: Announced::default(),
            limit: Announced::default(),
            referrals: Announced::default(),
            paced: VecDeque::new(),
            known: VecDeque::new(),
        }
    }
}

impl News {
    /// The mode is another.
    pub fn announce_mode(&mut self) {
        self.mode_untold = true;
    }

    /// What is said of who serves.
    pub fn announce_service(&mut self, service: Service) {
        if service != self.service.value {
            self.service = Announced { value: service, untold: true };
        }
    }

    /// What the peer may send at the most.
    pub fn announce_limit(&mut self, limit: LimitFrame) {
        if limit.rate != self.limit.value.and_then(|before| before.rate) {
            self.limit = Announced { value: Some(limit), untold: true };
        }
    }

    /// The home is referred to these.
    pub fn announce_referrals(&mut self, epoch: u64, list: Vec<u8>) {
        if list != self.referrals.value.as_ref().map_or(&[][..], |(_, before)| before) {
            self.referrals = Announced { value: Some((epoch, list)), untold: true };
        }
    }

    /// The sender of this flow paces.
    pub fn announce_paced(&mut self, flow: u16) {
        if !self.paced.contains(&flow) {
            self.paced.push_back(flow);
        }
    }

    /// A header is known, so that the peer may compress by it.
    pub fn announce_context_known(&mut self, flow: u16, number: u8) {
        if self.known.len() < MOST_KNOWN && !self.known.contains(&(flow, number)) {
            self.known.push_back((flow, number));
        }
    }

    /// What was told of it didn't arrive.
    pub fn on_lost(&mut self, of: Announcement) {
        match of {
            Announcement::Mode => self.mode_untold = true,
            Announcement::Service => self.service.untold = true,
            Announcement::Limit => self.limit.untold = true,
            Announcement::Referrals => self.referrals.untold = true,
            Announcement::Paced(flow) => self.announce_paced(flow),
            // The compressor knows whether it's of use yet.
            Announcement::Context(..) => {}
            Announcement::ContextKnown(flow, number) => self.announce_context_known(flow, number),
        }
    }

    /// The peer knows nothing any more. `is_home`: a concentrator's word is its rank, of which any
    /// number may be one.
    pub fn restart(&mut self, is_home: bool) {
        self.mode_untold = true;
        self.paced.clear();
        self.known.clear();
        // Its silence was another time.
        if is_home && self.service.value.word == Service::HERE_AFTER_SILENCE {
            self.service.value.word = Service::HERE;
        }
        self.service.untold = self.service.value != Service::default();
        self.limit.untold = self.limit.value.is_some_and(|limit| limit.rate.is_some());
        self.referrals.untold = self.referrals.value.is_some();
    }

    /// Something of it is to be told at once, though nothing else is sent.
    pub fn is_urgent(&self) -> bool {
        let untold = self.service.untold || self.limit.untold || self.referrals.untold;
        untold || !self.paced.is_empty() || !self.known.is_empty()
    }

    /// With what was given up, in this mode.
    #[inline(always)]
    pub fn pending<'a>(
        &'a mut self,
        mode: Mode,
        abandoned: &'a mut VecDeque<Abandoned>,
        tells_policies: bool,
        compressor: &'a mut HeaderCompressor,
    ) -> PendingNews<'a> {
        PendingNews { news: self, mode, abandoned, tells_policies, compressor }
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
        self.news.is_urgent() || self.compressor.has_untold()
    }

    /// Appends what must be the last of a datagram: peers of older versions take what follows for
    /// broken.
    pub fn write_last(&mut self, datagram: &mut Datagram, path: &mut Path, out: &mut Vec<u8>) {
        if self.is_urgent() {
            self.write_urgent(datagram, path, out);
        }
    }

    #[cold]
    fn write_urgent(&mut self, datagram: &mut Datagram, path: &mut Path, out: &mut Vec<u8>) {
        let News { service, limit, referrals, paced, known, .. } = &mut *self.news;
        if let Some(service) = service.take_if(datagram.left(out) > Service::MAX_LEN) {
            service.write(out);
            datagram.note(SentFrame::Announcement(Announcement::Service), &mut path.sent);
        }
        if let Some(Some(limit)) = limit.take_if(datagram.left(out) > LimitFrame::MAX_LEN) {
            limit.write(out);
            datagram.note(SentFrame::Announcement(Announcement::Limit), &mut path.sent);
        }
        let fits = datagram.left(out) > ReferralsFrame::MAX_LEN;
        if let Some(Some((epoch, list))) = referrals.take_if(fits) {
            ReferralsFrame::write(*epoch, list, out);
            datagram.note(SentFrame::Announcement(Announcement::Referrals), &mut path.sent);
        }
        while datagram.left(out) > PacedFlow::LEN
            && let Some(flow) = paced.pop_front()
        {
            PacedFlow { flow }.write(out);
            datagram.note(SentFrame::Announcement(Announcement::Paced(flow)), &mut path.sent);
        }
        while datagram.left(out) > ContextKnown::LEN
            && let Some((flow, number)) = known.pop_front()
        {
            ContextKnown { flow, number }.write(out);
            let known = Announcement::ContextKnown(flow, number);
            datagram.note(SentFrame::Announcement(known), &mut path.sent);
        }
        while datagram.left(out) > ContextFrame::MAX_LEN
            && let Some((flow, number, header)) = self.compressor.next_untold()
        {
            ContextFrame { flow, number, header }.write(out);
            let context = Announcement::Context(flow, number);
            datagram.note(SentFrame::Announcement(context), &mut path.sent);
        }
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
            datagram.note(SentFrame::Announcement(Announcement::Mode), &mut path.sent);
        }
        while datagram.left(out) > Abandoned::LEN {
            let Some(abandoned) = self.abandoned.pop_front() else { break };
            abandoned.write(out);
            datagram.note(SentFrame::Abandoned(abandoned), &mut path.sent);
        }
    }
}

impl<T> Announced<T> {
    /// It, if it is to be told and there is room; it counts as told then.
    fn take_if(&mut self, fits: bool) -> Option<&T> {
        let tells = self.untold && fits;
        self.untold &= !tells;
        tells.then_some(&self.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_that_restarted_is_told_of_the_rank_again_and_of_no_silence() {
        let said = Service { word: Service::HERE_AFTER_SILENCE, epoch: 5 };
        for (is_home, word) in [(false, said.word), (true, Service::HERE)] {
            let mut news = News::default();
            news.announce_service(said);
            assert_eq!(news.service.take_if(true), Some(&said));
            assert!(!news.is_urgent(), "it has been told");
            news.restart(is_home);
            assert_eq!(news.service.take_if(true), Some(&Service { word, ..said }));
        }
    }
}
