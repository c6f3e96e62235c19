//! Unique identifiers for new things.

use crate::cli::failure::Failure;
use braid_pool::uuid::Uuid;

/// A UUID of 128 random bits from the kernel, 6 of which mark it as random (RFC 9562, version 4).
///
/// # Errors
/// The kernel's error.
pub fn random_uuid() -> Result<Uuid, Failure> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| Failure::failed(format!("no random: {error}")))?;
    Ok(Uuid::from_random_bytes(bytes))
}
