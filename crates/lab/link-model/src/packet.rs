use fastrand::Rng;

/// A packet for a [`super::Direction`]: it can be duplicated and damaged.
pub trait Packet: Clone {
    /// Damages one bit, like noise that the layer below hasn't noticed.
    fn flip_bit(&mut self, rng: &mut Rng);
}

impl Packet for Vec<u8> {
    fn flip_bit(&mut self, rng: &mut Rng) {
        flip_bit(self, rng);
    }
}

/// Flips a random bit of `bytes`, if there is any.
pub fn flip_bit(bytes: &mut [u8], rng: &mut Rng) {
    if !bytes.is_empty() {
        bytes[rng.usize(0..bytes.len())] ^= 1 << rng.u8(0..8);
    }
}
