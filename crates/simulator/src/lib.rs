//! Braid: deterministic simulator of the tunnel core.
