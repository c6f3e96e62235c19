//! Where the manual describes a command: shown at the end of its help and in its man page.

use clap::Command;

/// Documents below docs/, without their extension, by the command's words after "braid". The
/// longest matching prefix counts.
const TOLD_IN: [(&str, &[&str]); 25] = [
    ("", &["README", "guide/home", "guide/concentrator", "guide/nas", "guide/trouble"]),
    ("concentrator", &["guide/concentrator"]),
    ("config", &["reference/config"]),
    ("doctor", &["reference/doctor", "guide/trouble"]),
    ("down", &["guide/home"]),
    ("events", &["reference/control", "guide/trouble"]),
    ("export", &["reference/engines"]),
    ("history", &["reference/control"]),
    ("home", &["guide/home"]),
    ("keygen", &["reference/config"]),
    ("lab", &["reference/lab"]),
    ("link", &["guide/links"]),
    ("link plan", &["reference/engines", "guide/links"]),
    ("link test", &["reference/doctor", "guide/links"]),
    ("manual", &["guide/manual", "reference/manual"]),
    ("mode", &["guide/links", "reference/config"]),
    ("pool", &["guide/nas", "reference/pools"]),
    ("pool clone", &["guide/backup", "reference/pools"]),
    ("pool replicate", &["guide/backup", "reference/pools"]),
    ("pool restore", &["guide/backup", "reference/pools"]),
    ("pool verify", &["guide/backup", "reference/pools"]),
    ("status", &["guide/trouble", "reference/control"]),
    ("traffic", &["reference/control"]),
    ("ui", &["reference/page"]),
    ("up", &["guide/home", "reference/config"]),
];

/// Adds the place in the manual to the help of the command and all its subcommands.
pub fn linked(program: Command) -> Command {
    linked_below(program, "")
}

fn linked_below(command: Command, words: &str) -> Command {
    let command = command.mut_subcommands(|inner| {
        let words = format!("{words} {}", inner.get_name());
        linked_below(inner, words.trim_start())
    });
    let page = ["braid"].into_iter().chain(words.split_whitespace()).collect::<Vec<_>>().join("-");
    let pages = told_in(words).join(", ");
    let place = format!("Manual: man {page}; {pages} (`braid ui open`, then Manual)");
    let help = match command.get_after_help() {
        Some(help) => format!("{help}\n\n{place}"),
        None => place,
    };
    command.after_help(help)
}

/// The documents about the command with these words, such as `guide/home`.
pub fn told_in(words: &str) -> &'static [&'static str] {
    let rows = TOLD_IN.iter().filter(|(known, _)| begins_with(words, known));
    rows.max_by_key(|(known, _)| known.len()).map_or(&[], |(_, pages)| pages)
}

fn begins_with(words: &str, first: &str) -> bool {
    words.strip_prefix(first).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
        || first.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn each_document_is_there_and_each_row_is_a_command() {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        for (words, pages) in TOLD_IN {
            for page in pages {
                assert!(docs.join(format!("{page}.md")).exists(), "{page}");
            }
            let tree = super::super::command_line();
            let mut words = words.split_whitespace();
            let found = words.try_fold(&tree, |tree, word| tree.find_subcommand(word));
            assert!(found.is_some(), "{words:?}");
        }
    }

    #[test]
    fn the_most_precise_row_counts() {
        assert_eq!(told_in("pool clone")[0], "guide/backup");
        assert_eq!(told_in("pool create")[0], "guide/nas");
        assert_eq!(told_in("keygens"), told_in(""));
    }
}
