//! Names that nobody else has, for what is made.

use crate::cli::failure::Failure;
use braid_pool::uuid::Uuid;

/// Of 128 bits by the kernel, 6 of which say that they are random (RFC 9562, version 4).
///
/// # Errors
/// The kernel has none.
pub fn random_uuid() -> Result<Uuid, Failure> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| Failure::failed(format!("no random: {error}")))?;
    Ok(Uuid::from_random_bytes(bytes))
}
