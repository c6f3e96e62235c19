/// A backup's identifier as people are shown it, and as restic shows it: its first eight digits.
pub fn short_id(id: &str) -> &str {
    id.get(..8).unwrap_or(id)
}
