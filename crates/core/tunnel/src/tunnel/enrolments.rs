//! Homes that aren't known yet and are let in by a token: who may introduce
//! itself, and what it hears. To let one in is the caller's: it adds the peer.

use super::answered::CachedAnswer;
use super::{Event, Tunnel};
use crate::path::Origin;
use braid_handshake::{EnrolmentRefusal, Extensions, PendingResponse, PublicKey, SessionIndex};
use braid_units::Time;

/// What a token is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EnrolmentState {
    /// Lets in the first who comes with it.
    Open,
    /// Has let in the home that has this key.
    Used(PublicKey),
    /// Lets nobody in any more, but for a clock that was wrong and is set.
    Expired,
}

impl Tunnel {
    /// Takes an initiation from one who is no peer.
    pub(super) fn on_introduction(
        &mut self,
        from: Origin,
        message: &[u8],
        pending: Box<PendingResponse>,
        now: Time,
    ) -> Option<()> {
        let token = *pending.remote_static();
        let state = self.reception.enrolment(&token)?;
        let home = Extensions::read(&pending.hello().parameters).enrol?;
        if matches!(state, EnrolmentState::Open | EnrolmentState::Expired) {
            self.outbox.tell(Event::Introduced { token, home, from: from.remote });
        }
        let refusal = match state {
            EnrolmentState::Open => None,
            // It hears by its own key that it was let in.
            EnrolmentState::Used(known) if known == home => None,
            EnrolmentState::Used(_) => Some(EnrolmentRefusal::Used),
            EnrolmentState::Expired => Some(EnrolmentRefusal::Expired),
        };
        let Some(refusal) = refusal else {
            self.reception.note_answer(message, from, CachedAnswer::Silence, now);
            return Some(());
        };
        let index = SessionIndex::new(self.sessions.new_index(&mut self.random));
        let hello = self.hello_of(self.next_instance, now);
        let answer = pending.refuse_enrolment(index, &hello, refusal).ok()?;
        self.reception.note_answer(message, from, CachedAnswer::Message(answer.clone()), now);
        self.outbox.send_back(from, answer);
        self.outbox.tell(Event::Refused { token, refusal, from: from.remote });
        Some(())
    }
}
