//! Names for addresses.

/// `text` with what addresses and ids can't have as hyphens: `option httpchk` is
/// `option-httpchk`, `base32+src` stays.
#[must_use]
pub(crate) fn slug(text: &str) -> String {
    let mut slug = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '+') {
            slug.push(c);
        } else if !slug.ends_with('-') {
            slug.push('-');
        }
    }
    slug.trim_matches('-').to_owned()
}
