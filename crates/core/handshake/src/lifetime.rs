use crate::Aead;
use braid_units::Time;
use std::time::Duration;

/// The initiator of a session starts the next handshake at this age
/// (`REKEY_AFTER_TIME` of the WireGuard paper, section 6.1).
pub const REKEY_AFTER_TIME: Duration = Duration::from_secs(120);

/// A session of this age must not be used any more, for sending or receiving
/// (`REJECT_AFTER_TIME` of the WireGuard paper, section 6.1).
pub const REJECT_AFTER_TIME: Duration = Duration::from_secs(180);

/// Counts what wears the keys of one session out.
#[derive(Clone, Copy, Debug)]
pub struct KeyLifetime {
    aead: Aead,
    rekey_at: Time,
    reject_at: Time,
    sealed: u64,
    opened: u64,
    forged: u64,
}

/// What may be done with a session's keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeyAge {
    /// Use them.
    Fresh,
    /// Use them, but start a handshake for new ones.
    RekeyDue,
    /// Don't seal or open anything with them any more.
    Expired,
}

impl KeyLifetime {
    /// For a session established at `now`.
    pub fn new(aead: Aead, now: Time) -> Self {
        let (rekey_at, reject_at) = (now + REKEY_AFTER_TIME, now + REJECT_AFTER_TIME);
        KeyLifetime { aead, rekey_at, reject_at, sealed: 0, opened: 0, forged: 0 }
    }

    /// Counts `packets` sealed, on all paths together.
    pub fn count_sealed(&mut self, packets: u64) {
        self.sealed = self.sealed.saturating_add(packets);
    }

    /// Counts a packet that opened. The peer's key is as worn, and only the
    /// initiator of a session may begin the handshake for new ones.
    #[inline]
    pub fn count_opened(&mut self) {
        self.opened = self.opened.saturating_add(1);
    }

    /// Counts a packet that did not open.
    pub fn count_forged(&mut self) {
        self.forged = self.forged.saturating_add(1);
    }

    /// What may be done with the keys at `now`.
    #[inline]
    pub fn age(&self, now: Time) -> KeyAge {
        if now >= self.reject_at
            || self.sealed >= self.aead.reject_after_packets()
            || self.forged >= self.aead.reject_after_forgeries()
        {
            KeyAge::Expired
        } else if now >= self.rekey_at
            || self.sealed.max(self.opened) >= self.aead.rekey_after_packets()
        {
            KeyAge::RekeyDue
        } else {
            KeyAge::Fresh
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_age_with_time() {
        let start = Time::from_millis(5);
        let keys = KeyLifetime::new(Aead::ChaCha20Poly1305, start);
        let at = |seconds| keys.age(start + Duration::from_secs(seconds));
        assert_eq!(
            [at(0), at(119), at(120), at(179), at(180)],
            [KeyAge::Fresh, KeyAge::Fresh, KeyAge::RekeyDue, KeyAge::RekeyDue, KeyAge::Expired]
        );
    }

    #[test]
    fn keys_of_which_the_peer_sealed_much_want_new_ones() {
        let aead = Aead::Aes256Gcm;
        let mut keys = KeyLifetime::new(aead, Time::ZERO);
        for _ in 1..aead.rekey_after_packets() {
            keys.count_opened();
        }
        assert_eq!(keys.age(Time::ZERO), KeyAge::Fresh);
        keys.count_opened();
        assert_eq!(keys.age(Time::ZERO), KeyAge::RekeyDue);
    }

    #[test]
    fn keys_age_with_packets_and_forgeries() {
        for aead in [Aead::Aes256Gcm, Aead::ChaCha20Poly1305] {
            let mut keys = KeyLifetime::new(aead, Time::ZERO);
            keys.count_sealed(aead.rekey_after_packets() - 1);
            assert_eq!(keys.age(Time::ZERO), KeyAge::Fresh);
            keys.count_sealed(1);
            assert_eq!(keys.age(Time::ZERO), KeyAge::RekeyDue);
            keys.count_sealed(aead.reject_after_packets() - aead.rekey_after_packets());
            assert_eq!(keys.age(Time::ZERO), KeyAge::Expired);
            keys.count_sealed(u64::MAX);
            assert_eq!(keys.age(Time::ZERO), KeyAge::Expired);

            let mut attacked = KeyLifetime::new(aead, Time::ZERO);
            attacked.forged = aead.reject_after_forgeries() - 1;
            assert_eq!(attacked.age(Time::ZERO), KeyAge::Fresh);
            attacked.count_forged();
            assert_eq!(attacked.age(Time::ZERO), KeyAge::Expired);
        }
    }
}
