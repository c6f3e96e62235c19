//! Names of the ends.

/// Which end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndId {
    /// A home, by its number.
    Home(usize),
    /// The concentrator.
    Concentrator,
}
