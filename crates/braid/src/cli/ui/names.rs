//! File names encoded for queries and forms.

use braid_replica::exact_path::ExactPath;

/// Encodes a name for queries and forms, which change line ends and can't contain NUL.
pub fn written(name: &ExactPath) -> String {
    let text = name.written();
    match text.strip_prefix('\0') {
        Some(escaped) => without_controls(escaped),
        None => without_controls(&text.replace('%', "%25")),
    }
}

fn without_controls(text: &str) -> String {
    let plain = |all: String, c: char| match c.is_ascii_control() {
        true => all + &format!("%{:02X}", u32::from(c)),
        false => {
            let mut all = all;
            all.push(c);
            all
        }
    };
    text.chars().fold(String::new(), plain)
}

/// Decodes a name.
pub fn parsed(text: &str) -> ExactPath {
    ExactPath::from(format!("\0{text}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;

    #[test]
    fn every_name_comes_back_from_a_form() {
        let names: [&[u8]; 5] = [b"plain", b"100 %", b"two\nlines\r", b"not \xff UTF-8\n", b"%41"];
        for name in names {
            let name = ExactPath::from(OsString::from_vec(name.to_vec()));
            let text = written(&name);
            assert!(!text.contains(|c: char| c.is_ascii_control()), "{text:?}");
            assert_eq!(parsed(&text), name);
        }
    }
}
