/// IFNAMSIZ minus the final zero.
const MAX_LEN: usize = 15;

/// Names the devices of links called `names`: the link's own name if the kernel accepts it,
/// otherwise a similar one, never the same twice.
pub(super) fn device_names<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut taken: Vec<String> = Vec::new();
    for name in names {
        let replaced: String = name.chars().map(replace).collect();
        let fitting: String = replaced.trim_start_matches('-').chars().take(MAX_LEN).collect();
        let fitting = if fitting.is_empty() { "link".to_owned() } else { fitting };
        let mut candidate = fitting.clone();
        for number in 2.. {
            if !is_reserved(&candidate) && !taken.contains(&candidate) {
                break;
            }
            let suffix = format!("-{number}");
            candidate = fitting.chars().take(MAX_LEN - suffix.len()).collect::<String>() + &suffix;
        }
        taken.push(candidate);
    }
    taken
}

/// The kernel forbids slashes, colons and spaces, `%` makes a pattern, and a
/// leading dash would be an option of ip(8); bytes outside ASCII would make the
/// length uncertain.
fn replace(c: char) -> char {
    if c.is_ascii_alphanumeric() || matches!(c, '_' | '.') { c } else { '-' }
}

/// Names that are special in the namespace or in ip(8), or that engines use for their devices.
fn is_reserved(name: &str) -> bool {
    let engine = name.trim_end_matches(|c: char| c.is_ascii_digit());
    matches!(name, "lo" | "." | ".." | "all" | "default" | "dev" | "group" | "up" | "name")
        || name != engine
            && matches!(
                engine,
                "braid" | "joined" | "bond" | "team" | "teql" | "ppp" | "gre" | "gretap"
            )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn good_names_stay() {
        assert_eq!(device_names(["3g-1", "dsl", "wan.2"]), ["3g-1", "dsl", "wan.2"]);
    }

    #[test]
    fn bad_names_become_good_ones() {
        let long = "a-very-long-name-of-a-link";
        let names = device_names([long, long, "lo", "a b/c", "é", "-x", "", "braid0"]);
        let expected = [
            "a-very-long-nam",
            "a-very-long-n-2",
            "lo-2",
            "a-b-c",
            "link",
            "x",
            "link-2",
            "braid0-2",
        ];
        assert_eq!(names, expected);
    }

    proptest! {
        #[test]
        fn every_list_of_names_can_be_used(names in proptest::collection::vec(".{0,20}", 0..20)) {
            let devices = device_names(names.iter().map(String::as_str));
            for (at, device) in devices.iter().enumerate() {
                prop_assert!((1..=MAX_LEN).contains(&device.len()), "{device}");
                prop_assert!(!is_reserved(device) && !device.starts_with('-'), "{device}");
                prop_assert!(!devices[..at].contains(device));
            }
        }
    }
}
