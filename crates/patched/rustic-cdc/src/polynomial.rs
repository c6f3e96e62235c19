/// A polynomial over the field of two elements: bit `i` is the coefficient of `x^i`.
pub type Polynom64 = u64;

/// What such polynomials can be asked.
pub trait Polynom {
    /// The highest power of `x` in it; -1 for zero.
    fn degree(&self) -> i32;

    /// What remains when it is divided by `divisor`; by zero all of it.
    #[must_use]
    fn modulo(&self, divisor: &Self) -> Self;
}

impl Polynom for Polynom64 {
    fn degree(&self) -> i32 {
        self.checked_ilog2().map_or(-1, u32::cast_signed)
    }

    fn modulo(&self, divisor: &Self) -> Self {
        if *divisor == 0 {
            return *self;
        }
        let mut rest = *self;
        let length = divisor.leading_zeros();
        while let Some(higher) = length.checked_sub(rest.leading_zeros()) {
            rest ^= divisor << higher;
        }
        rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polynomials_are_divided_as_by_hand() {
        assert_eq!((0_u64.degree(), 1_u64.degree(), (1_u64 << 53 | 1).degree()), (-1, 0, 53));
        // x^4 + x + 1 = (x^2 + 1)(x^2 + 1) + x
        assert_eq!(0b1_0011_u64.modulo(&0b101), 0b10);
        assert_eq!(0b110_u64.modulo(&0b1000), 0b110);
        assert_eq!(u64::MAX.modulo(&1), 0);
    }
}
