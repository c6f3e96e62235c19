//! The world's chance.

use std::ops::Range;
use std::time::Duration;

/// xorshift64*.
pub struct Random(pub u64);

impl Random {
    pub fn draw(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Evenly distributed milliseconds.
    pub fn between(&mut self, millis: &Range<u64>) -> Duration {
        let number = self.draw() >> 33;
        Duration::from_millis(millis.start + number % (millis.end - millis.start))
    }
}
