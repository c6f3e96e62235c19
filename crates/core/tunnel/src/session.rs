//! The keys between us and a peer: current, previous, and one not yet proven.

use braid_handshake::{Established, Forged, KeyAge, KeyLifetime, OpeningKey, SealingKey};
use braid_units::Time;
use std::collections::VecDeque;
use std::time::Duration;

/// One agreed session.
#[derive(Debug)]
pub struct Session {
    /// Our index of it, in what we receive.
    pub local_index: u32,
    /// The peer's index of it, in what we send.
    pub remote_index: u32,
    /// Which start of the peer agreed on it.
    pub remote_instance: u64,
    /// We began the handshake.
    pub initiator: bool,
    seal: SealingKey,
    open: OpeningKey,
    lifetime: KeyLifetime,
}

impl Session {
    /// A session just agreed on.
    pub fn new(local_index: u32, initiator: bool, established: Established, now: Time) -> Self {
        Self {
            local_index,
            remote_index: established.remote_index.get(),
            remote_instance: established.hello.instance,
            initiator,
            lifetime: KeyLifetime::new(established.aead, now),
            seal: established.seal,
            open: established.open,
        }
    }

    /// Seals a payload in place.
    pub fn seal(&mut self, path: u8, number: u64, header: &[u8], payload: &mut [u8]) -> [u8; 16] {
        self.lifetime.count_sealed(1);
        self.seal.seal(path, number, header, payload)
    }

    /// Opens a payload in place.
    pub fn open<'a>(
        &mut self,
        path: u8,
        number: u64,
        header: &[u8],
        payload: &'a mut [u8],
    ) -> Result<&'a mut [u8], Forged> {
        let result = self.open.open(path, number, header, payload);
        match result {
            Ok(_) => self.lifetime.count_opened(),
            Err(_) => self.lifetime.count_forged(),
        }
        result
    }

    /// How worn the keys are.
    pub fn age(&self, now: Time) -> KeyAge {
        self.lifetime.age(now)
    }
}

/// The sessions with one peer.
#[derive(Debug, Default)]
pub struct Sessions {
    /// What we send with.
    pub current: Option<Session>,
    /// What was current before: packets of it may still be on their way.
    pub previous: Option<Session>,
    /// Agreed on, but the initiator hasn't proven yet that it has the keys.
    pub unproven: Option<Session>,
    /// What the peer called itself when they were agreed on: another number when
    /// it has restarted.
    remote_instance: Option<u64>,
    /// What it called itself before, the latest last.
    former_instances: VecDeque<u64>,
    /// When an instance last came back after another one.
    rivalled_at: Option<Time>,
    /// The peer says that another host calls with our key, too.
    pub we_have_a_rival: bool,
}

/// Hosts with one key that take the peer's place in turn and are noticed. Ours.
const RIVALS: usize = 8;
/// A rival that has been quiet for so long has gone: it calls each 5 s.
const RIVAL_GONE: Duration = Duration::from_secs(180);

impl Sessions {
    /// The peer that speaks is this instance. True if it's another than before, or
    /// the first: then all keys are to be voided.
    pub fn meet(&mut self, instance: u64, now: Time) -> bool {
        let before = self.remote_instance.replace(instance);
        if before == Some(instance) {
            return false;
        }
        // A host that restarts never is what it was: these are two.
        if self.former_instances.contains(&instance) {
            self.rivalled_at = Some(now);
        }
        self.former_instances.extend(before);
        if self.former_instances.len() > RIVALS {
            self.former_instances.pop_front();
        }
        true
    }

    /// Whether two hosts or more have the peer's key, and drive each other out.
    pub fn has_rival(&self, now: Time) -> bool {
        self.rivalled_at.is_some_and(|at| now - at < RIVAL_GONE)
    }

    /// The instance that the keys are agreed on with.
    pub fn remote_instance(&self) -> Option<u64> {
        self.remote_instance
    }

    /// All keys are void. Returns our indices of the sessions.
    pub fn void(&mut self) -> Vec<u32> {
        let sessions = [self.current.take(), self.previous.take(), self.unproven.take()];
        sessions.into_iter().flatten().map(|s| s.local_index).collect()
    }

    /// The session of our `index`, if there is one that may still be used.
    pub fn by_index(&mut self, index: u32, now: Time) -> Option<&mut Session> {
        // Nearly always the current one.
        let session = match self.current.as_ref().is_some_and(|s| s.local_index == index) {
            true => self.current.as_mut(),
            false => [&mut self.previous, &mut self.unproven]
                .into_iter()
                .filter_map(Option::as_mut)
                .find(|s| s.local_index == index),
        };
        session.filter(|s| s.age(now) != KeyAge::Expired)
    }

    /// The unproven session, if it's that of our `index`: a packet that opens
    /// with it shows that the initiator has its keys, so it was no replay.
    #[inline]
    pub fn unproven(&self, index: u32) -> Option<&Session> {
        self.unproven.as_ref().filter(|s| s.local_index == index)
    }

    /// Send with `session` from now on. Returns the index of a session that is
    /// gone thereby.
    pub fn make_current(&mut self, session: Session) -> Option<u32> {
        let gone = self.previous.take();
        self.previous = self.current.replace(session);
        gone.map(|s| s.local_index)
    }

    /// There are keys to send with.
    pub fn can_send(&self, now: Time) -> bool {
        self.current.as_ref().is_some_and(|s| s.age(now) != KeyAge::Expired)
    }

    /// The session to send with.
    pub fn sending(&mut self, now: Time) -> Option<&mut Session> {
        self.current.as_mut().filter(|s| s.age(now) != KeyAge::Expired)
    }
}
