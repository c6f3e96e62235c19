/// Why a written quantity could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// No unit after the number.
    #[error("{text:?} has no unit; write it as {example:?}")]
    MissingUnit {
        /// What was written.
        text: String,
        /// A correct value.
        example: &'static str,
    },
    /// The unit is not one of this kind of quantity.
    #[error("{text:?} has the unknown unit {unit:?}; write it as {example:?}")]
    UnknownUnit {
        /// What was written.
        text: String,
        /// The unit found.
        unit: String,
        /// A correct value.
        example: &'static str,
    },
    /// The part before the unit is not a number, is negative, or too large.
    #[error("{text:?} is not a number with a unit that can be used here; write it as {example:?}")]
    BadNumber {
        /// What was written.
        text: String,
        /// A correct value.
        example: &'static str,
    },
}

/// Splits `"6.5 Mbit"` into its number and unit and multiplies by what `scale`
/// says of the unit.
pub(crate) fn parse(
    text: &str,
    example: &'static str,
    scale: impl Fn(&str) -> Option<f64>,
) -> Result<f64, QuantityError> {
    let trimmed = text.trim();
    let split = trimmed
        .find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_'))
        .unwrap_or(trimmed.len());
    let (number, unit) = (trimmed[..split].replace('_', ""), trimmed[split..].trim());
    let bad = || QuantityError::BadNumber { text: text.to_owned(), example };
    let value: f64 = number.parse().map_err(|_| bad())?;
    if unit.is_empty() && value != 0.0 {
        return Err(QuantityError::MissingUnit { text: text.to_owned(), example });
    }
    let factor = if unit.is_empty() {
        1.0
    } else {
        scale(unit).ok_or_else(|| QuantityError::UnknownUnit {
            text: text.to_owned(),
            unit: unit.to_owned(),
            example,
        })?
    };
    let scaled = value * factor;
    // 2^62 keeps every later sum of two quantities inside u64.
    if !scaled.is_finite() || scaled > 4.6e18 {
        return Err(bad());
    }
    Ok(scaled)
}
