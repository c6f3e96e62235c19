use crate::quantity::{self, QuantityError};
use std::fmt;
use std::str::FromStr;

/// A share between 0 and 1, written in per cent (`0.5%`).
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Ratio(f64);

impl Ratio {
    /// Nothing.
    pub const ZERO: Ratio = Ratio(0.0);

    /// `fraction` clamped to 0..=1.
    pub fn from_fraction(fraction: f64) -> Self {
        Ratio(if fraction.is_nan() { 0.0 } else { fraction.clamp(0.0, 1.0) })
    }
    /// The share as a fraction of one.
    pub const fn fraction(self) -> f64 {
        self.0
    }
}

impl FromStr for Ratio {
    type Err = QuantityError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let value = quantity::parse(text, "0.5%", |unit| (unit == "%").then_some(0.01))?;
        if value > 1.0 {
            return Err(QuantityError::BadNumber { text: text.to_owned(), example: "0.5%" });
        }
        Ok(Ratio(value))
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", (self.0 * 1e8).round() / 1e6)
    }
}
