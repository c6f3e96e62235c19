//! Braid: inner packets - flows, classes, segmentation, checksums, ECN.
