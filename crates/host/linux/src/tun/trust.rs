//! Whether to give the kernel super-packets of one kind.

/// How many are cut in software after the first refusal.
const FIRST_PAUSE: u32 = 16;
/// The pause doubles with each further refusal, up to this many.
const LONGEST_PAUSE: u32 = 1 << 16;

/// Remembers refusals. One malformed super-packet from a peer must not switch
/// the offload off for good, so it is tried again after a pause.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Trust {
    pause: u32,
    left: u32,
}

impl Trust {
    /// Whether to try the next super-packet.
    pub(super) fn try_it(&mut self) -> bool {
        let paused = self.left > 0;
        self.left = self.left.saturating_sub(1);
        !paused
    }

    /// The kernel refused a super-packet but took its segments.
    pub(super) fn refused(&mut self) {
        self.pause = (self.pause * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE);
        self.left = self.pause;
    }

    /// The kernel took a super-packet.
    pub(super) fn accepted(&mut self) {
        self.pause = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_pause_the_offload_ever_longer_until_it_works() {
        let mut trust = Trust::default();
        let tries = |trust: &mut Trust| (0..).take_while(|_| !trust.try_it()).count() as u32;
        assert_eq!(tries(&mut trust), 0);
        trust.refused();
        assert_eq!(tries(&mut trust), FIRST_PAUSE);
        trust.refused();
        assert_eq!(tries(&mut trust), 2 * FIRST_PAUSE);
        for _ in 0..100 {
            trust.refused();
        }
        assert_eq!(tries(&mut trust), LONGEST_PAUSE);
        trust.accepted();
        trust.refused();
        assert_eq!(tries(&mut trust), FIRST_PAUSE);
    }
}
