//! `braid up` with the kernel's engines, for real: up, traffic over both links,
//! a link lost and back, down leaves nothing. In namespaces for what this kernel
//! has; in a second kernel (User Mode Linux) for what it may lack.

mod host;
mod vm;

/// The program.
const BRAID: &str = env!("CARGO_BIN_EXE_braid");
