//! Braid: the tunnel wire format, parsing and writing only.
