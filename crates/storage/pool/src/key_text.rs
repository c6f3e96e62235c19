//! How a random key is written, so that it can be printed and typed.

/// 160 random bits: too many to guess, few enough to type from paper.
pub const KEY_BYTES: usize = 20;

/// Crockford's base 32 (<https://www.crockford.com/base32.html>): no two look alike on paper.
const LETTERS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const GROUP: usize = 4;

/// Eight groups of four letters, with dashes between.
pub fn key_text(bytes: &[u8; KEY_BYTES]) -> String {
    // Five bits a letter: 32 letters of 160 bits.
    let bit = |at: usize| (bytes.get(at / 8).copied().unwrap_or(0) >> (7 - at % 8)) & 1;
    let letter = |at: usize| (0..5).fold(0_u8, |value, i| value << 1 | bit(at * 5 + i));
    let letters =
        (0..KEY_BYTES * 8 / 5).map(|at| char::from(LETTERS[usize::from(letter(at)) % 32]));
    // Allocated in full: copies left behind by growing would stay in memory.
    let mut text = String::with_capacity(KEY_BYTES * 2);
    for (at, letter) in letters.enumerate() {
        if at > 0 && at % GROUP == 0 {
            text.push('-');
        }
        text.push(letter);
    }
    text
}

/// The key meant by what somebody typed from paper: lower case counts as upper case, and letters
/// not in the alphabet as those they look like. `None` if the text can't be a key, or is one
/// already.
pub fn key_meant(typed: &str) -> Option<String> {
    let mut text = String::with_capacity(KEY_BYTES * 2);
    for letter in typed.trim().chars() {
        text.push(match letter.to_ascii_uppercase() {
            'O' => '0',
            'I' | 'L' => '1',
            'U' => 'V',
            other => other,
        });
    }
    let is_group =
        |group: &str| group.len() == GROUP && group.bytes().all(|letter| LETTERS.contains(&letter));
    let is_key =
        text.split('-').count() == KEY_BYTES * 8 / 5 / GROUP && text.split('-').all(is_group);
    (is_key && text != typed).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_letters_are_different() {
        let letters: std::collections::BTreeSet<u8> = LETTERS.iter().copied().collect();
        assert_eq!(letters.len(), 32);
    }

    #[test]
    fn a_key_typed_from_paper_is_the_one_that_was_meant() {
        let key = "0123-4567-89AB-CDEF-GHJK-MNPQ-RSTV-WXYZ";
        for typed in [
            "O123-4567-89AB-CDEF-GHJK-MNPQ-RSTV-WXYZ",
            "oi23-4567-89ab-cdef-ghjk-mnpq-rstu-wxyz",
            " 0l23-4567-89AB-CDEF-GHJK-MNPQ-RSTV-WXYZ ",
        ] {
            assert_eq!(key_meant(typed).as_deref(), Some(key), "{typed}");
        }
        let md5 = "d41d8cd98f00b204e9800998ecf8427e";
        for other in [key, "", "passphrase", md5, "0123-4567-89AB-CDEF-GHJK-MNPQ-RSTV-WX!Z"] {
            assert_eq!(key_meant(other), None, "{other}");
        }
    }

    #[test]
    fn every_bit_is_in_the_text() {
        assert_eq!(key_text(&[0; KEY_BYTES]), "0000-0000-0000-0000-0000-0000-0000-0000");
        let texts = (0..KEY_BYTES * 8).map(|bit| {
            let mut bytes = [0; KEY_BYTES];
            bytes[bit / 8] = 1 << (bit % 8);
            key_text(&bytes)
        });
        assert_eq!(texts.collect::<std::collections::BTreeSet<_>>().len(), KEY_BYTES * 8);
    }
}
