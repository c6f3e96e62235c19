use rand_core::{CryptoRng, UnwrapErr};

/// The operating system's random number generator, for use as the `rng`
/// argument of this crate outside of tests and simulations.
///
/// # Panics
///
/// The generator panics when the system has no randomness to give: no key can
/// be made then, and going on would be unsafe.
pub fn os_random() -> impl CryptoRng {
    UnwrapErr(getrandom::SysRng)
}
