use braid_uci::{ConversionError, from_uci, to_uci};

/// A config in OpenWrt's form, or one to convert to it: what can be converted comes back the same,
/// and what can't is reported with an existing line.
///
/// # Panics
/// If that doesn't hold: this is what the fuzzer looks for.
pub fn uci(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let is_there = |error: &ConversionError| {
        let last = text.split('\n').count();
        assert!((1..=last).contains(&error.line), "{error} of {last} lines");
    };
    match from_uci(&text) {
        Ok(toml) => and_back(&toml),
        Err(error) => is_there(&error),
    }
    match to_uci(&text) {
        Ok(_) => and_back(&text),
        Err(error) => is_there(&error),
    }
}

fn and_back(toml: &str) {
    let uci = to_uci(toml).unwrap_or_else(|error| panic!("{error}: {toml:?}"));
    let again = from_uci(&uci).unwrap_or_else(|error| panic!("{error}: {uci:?}"));
    let and_again = to_uci(&again).unwrap_or_else(|error| panic!("{error}: {again:?}"));
    assert_eq!(from_uci(&and_again).as_ref(), Ok(&again));
    // Options of tables within a section come after the others.
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    };
    assert_eq!(sorted(&and_again), sorted(&uci));
}
