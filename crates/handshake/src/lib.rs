//! Braid: keys, Noise IK handshake, cookies and AEAD sessions, sans-IO.
