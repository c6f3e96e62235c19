use std::cmp::Ordering;

/// Older is less; 2.10 is newer than 2.9; no version is oldest.
pub fn compare(a: Option<&str>, b: Option<&str>) -> Ordering {
    match (a, b) {
        (None, None) => Ordering::Equal,
        (None, Some(_)) => Ordering::Less,
        (Some(_), None) => Ordering::Greater,
        (Some(a), Some(b)) => numbers(a).cmp(&numbers(b)).then_with(|| a.cmp(b)),
    }
}

fn numbers(version: &str) -> Vec<u64> {
    let parts = version.split(|c: char| !c.is_ascii_digit());
    parts.filter_map(|part| part.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_count_by_their_numbers() {
        assert_eq!(compare(Some("2.10"), Some("2.9")), Ordering::Greater);
        assert_eq!(compare(Some("2.9"), Some("3")), Ordering::Less);
        assert_eq!(compare(None, Some("0.1")), Ordering::Less);
    }
}
