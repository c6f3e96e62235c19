//! Braid: configuration, control socket, metrics, status.
