use std::fmt;

/// A web page: the sizes of its objects in bytes, the document first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    objects: Vec<u64>,
}

/// Standard deviation of the natural logarithm of an object's size: the five largest of fifty
/// objects are half of the bytes.
const SPREAD: f64 = 1.5;

impl Page {
    /// `count` objects, at least one, of `bytes` in total: sizes are the quantiles of a log-normal
    /// distribution, so that a few large ones make up most of the bytes. Deterministic.
    pub fn of(bytes: u64, count: usize) -> Self {
        let count = count.max(1);
        let shares: Vec<f64> = (0..count)
            .map(|number| (SPREAD * normal_quantile((number as f64 + 0.5) / count as f64)).exp())
            .collect();
        let sum: f64 = shares.iter().sum();
        let mut objects: Vec<u64> =
            shares.iter().map(|share| ((share / sum * bytes as f64) as u64).max(1)).collect();
        shuffle(&mut objects);
        // The remainder from rounding goes to the document.
        let rest = bytes.saturating_sub(objects.iter().sum());
        if let Some(document) = objects.first_mut() {
            *document += rest;
        }
        Page { objects }
    }

    /// Sizes in bytes, the document first.
    pub fn objects(&self) -> &[u64] {
        &self.objects
    }

    /// Total size, bytes.
    pub fn bytes(&self) -> u64 {
        self.objects.iter().sum()
    }
}

impl fmt::Display for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let megabytes = self.bytes() as f64 / 1e6;
        write!(f, "a page of {megabytes:.1} MB in {} objects", self.objects.len())
    }
}

/// A fixed order in which large and small ones are mixed.
fn shuffle(objects: &mut [u64]) {
    fastrand::Rng::with_seed(1).shuffle(objects);
}

/// The standard normal distribution's quantile, found by bisection of Page's approximation
/// of its distribution (Applied Statistics 26, 1977; within 0.0002).
fn normal_quantile(probability: f64) -> f64 {
    let distribution = |x: f64| {
        let y = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x.powi(3));
        0.5 * (1.0 + y.tanh())
    };
    let (mut low, mut high) = (-6.0, 6.0);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if distribution(middle) < probability { low = middle } else { high = middle }
    }
    (low + high) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_its_bytes_and_objects_few_of_them_large() {
        for (bytes, count) in [(1_500_000, 50), (1, 1), (40_000, 3), (10_000_000, 200)] {
            let page = Page::of(bytes, count);
            assert_eq!((page.bytes(), page.objects().len()), (bytes, count));
            assert_eq!(page, Page::of(bytes, count));
        }
        let page = Page::of(1_500_000, 50);
        let mut sizes = page.objects().to_vec();
        sizes.sort_unstable();
        let (median, mean, largest) = (sizes[25], 30_000, sizes[49]);
        assert!((5_000..20_000).contains(&median), "{median}");
        assert!(largest > 5 * mean && largest < 15 * mean, "{largest}");
        assert_eq!(page.to_string(), "a page of 1.5 MB in 50 objects");
    }
}
