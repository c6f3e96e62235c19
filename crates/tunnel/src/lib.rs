//! Braid: the multipath tunnel core, sans-IO.
