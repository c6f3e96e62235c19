//! Braid: many weak strands, one strong line.
fn main() {}
