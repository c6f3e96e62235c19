//! Several runs as one figure with its spread.

use serde::Serialize;

/// The median of some runs, and their spread.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Statistic {
    /// The middle one; of an even number, the mean of the two in the middle.
    pub median: f64,
    /// The lowest.
    pub lowest: f64,
    /// The highest.
    pub highest: f64,
}

impl Statistic {
    /// Of these; `None` without any.
    pub fn of(figures: impl IntoIterator<Item = f64>) -> Option<Statistic> {
        let mut sorted: Vec<f64> = figures.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let (lowest, highest) = (*sorted.first()?, *sorted.last()?);
        let upper = *sorted.get(sorted.len() / 2)?;
        let lower = *sorted.get((sorted.len() - 1) / 2)?;
        Some(Statistic { median: f64::midpoint(lower, upper), lowest, highest })
    }

    /// From lowest to highest, as a share of the median.
    pub fn spread(&self) -> f64 {
        if self.median == 0.0 { 0.0 } else { (self.highest - self.lowest) / self.median }
    }
}

#[cfg(test)]
mod tests {
    use super::Statistic;

    #[test]
    fn the_middle_of_odd_and_even_many() {
        let three = Statistic::of([9.0, 1.0, 5.0]).unwrap();
        assert_eq!((three.lowest, three.median, three.highest), (1.0, 5.0, 9.0));
        assert_eq!(three.spread(), 1.6);
        assert_eq!(Statistic::of([4.0, 2.0]).unwrap().median, 3.0);
        assert_eq!(Statistic::of([]), None);
    }
}
