//! The documents say what is so: crates, files, links, commands, metrics, keys.

mod sources;

use braid_handshake::message::{COOKIE_REPLY_LEN, INITIATION_LEN, RESPONSE_LEN};
use sources::{crates, root, sources_below};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn read(file: &str) -> String {
    fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// What stands between backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The first cell of each row of the table that has this head.
fn first_column<'a>(text: &'a str, head: &'a str) -> impl Iterator<Item = &'a str> {
    let table = text.split_once(head).unwrap_or_else(|| panic!("no table {head}")).1;
    let rows = table.trim_start_matches(|c| c != '\n').trim_start().lines();
    rows.take_while(|row| row.starts_with('|')).filter_map(|row| row.split('|').nth(1)).skip(1)
}

/// Of each crate of the workspace the crates of ours that it is built with.
fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline", "--locked"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let short = |name: &serde_json::Value| {
        let name = name.as_str().unwrap();
        name.strip_prefix("braid-").unwrap_or(name).to_string()
    };
    let packages = metadata["packages"].as_array().unwrap();
    let used = |package: &serde_json::Value| {
        let all = package["dependencies"].as_array().unwrap().iter();
        let ours = all.filter(|d| d["kind"].is_null() && d["source"].is_null());
        ours.map(|dependency| short(&dependency["name"])).collect()
    };
    packages.iter().map(|package| (short(&package["name"]), used(package))).collect()
}

#[test]
fn the_architecture_says_which_crates_each_uses() {
    let text = read("docs/architecture.md");
    let (_, table) = text.split_once("| crate |").unwrap();
    let mut told = BTreeMap::new();
    for row in table.lines().skip(2).take_while(|row| row.starts_with('|')) {
        let cells: Vec<&str> = row.split('|').collect();
        let name = quoted(cells[1]).next().unwrap().to_string();
        let uses = cells[3].split(',').map(|name| name.trim().to_string());
        told.insert(name, uses.filter(|name| !name.is_empty()).collect::<BTreeSet<_>>());
    }
    assert_eq!(told, dependencies());
}

/// Pairs such as "`peer/admit.rs`, `join_following`" in any document but the
/// laboratory's history.
#[test]
fn symbols_are_in_the_files_that_the_documents_name_for_them() {
    let mut documents = Vec::new();
    files_below(&root().join("docs"), "md", &mut documents);
    documents.retain(|path| !path.components().any(|part| part.as_os_str() == "experiments"));
    let mut sources = Vec::new();
    sources_below(&root().join("crates"), &mut sources);
    let mut pairs = 0;
    for document in documents {
        let text = fs::read_to_string(&document).unwrap();
        let parts: Vec<&str> = text.split('`').collect();
        for at in (1..parts.len().saturating_sub(2)).step_by(2) {
            let (file, between, symbol) = (parts[at], parts[at + 1], parts[at + 2]);
            let word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
            let named = file.ends_with(".rs") && between.trim() == "," && symbol.chars().all(word);
            if !named {
                continue;
            }
            let last = symbol.rsplit("::").next().unwrap();
            let there = sources.iter().filter(|source| source.ends_with(file));
            let has = there.filter(|source| fs::read_to_string(source).unwrap().contains(last));
            assert!(has.count() > 0, "{}: no {last} in {file}", document.display());
            pairs += 1;
        }
    }
    assert!(pairs >= 5, "only {pairs} pairs were found");
}

/// rustfmt breaks no comments. Rows of tables can't be broken.
#[test]
fn comments_are_no_wider_than_the_code() {
    let config = read("rustfmt.toml");
    let width = config.lines().find_map(|line| line.strip_prefix("max_width = ")).unwrap();
    let width: usize = width.parse().unwrap();
    let mut sources = Vec::new();
    sources_below(&root().join("crates"), &mut sources);
    sources_below(&root().join("fuzz/fuzz_targets"), &mut sources);
    let mut wide = Vec::new();
    let mut comments = 0;
    for source in sources {
        for (number, line) in fs::read_to_string(&source).unwrap().lines().enumerate() {
            let Some(comment) = line.trim_start().strip_prefix("//") else { continue };
            comments += 1;
            let is_row = comment.trim_start_matches(['/', '!', ' ']).starts_with('|');
            if line.chars().count() > width && !is_row {
                wide.push(format!("{}:{}", source.display(), number + 1));
            }
        }
    }
    assert!(comments > 1000, "only {comments} lines of comments were found");
    assert!(wide.is_empty(), "wider than {width} columns:\n{}", wide.join("\n"));
}

#[test]
fn the_files_that_the_architecture_leads_through_are_there() {
    let text = read("docs/architecture.md");
    let crates = crates();
    let mut files = 0;
    for file in quoted(&text).filter(|quoted| quoted.ends_with(".rs")) {
        // Line breaks within a path are the page's.
        let file: String = file.split_whitespace().collect();
        let mut places = crates.iter().flat_map(|c| [c.join(&file), c.join("src").join(&file)]);
        // "`inner/src/flow.rs`": the crate's name leads.
        let named = file.split_once('/').is_some_and(|(name, rest)| {
            crates.iter().any(|c| c.file_name().is_some_and(|n| n == name) && c.join(rest).exists())
        });
        let there = root().join(&file).exists() || named;
        assert!(there || places.any(|place| place.exists()), "{file} is nowhere");
        files += 1;
    }
    assert!(files > 30, "only {files} files were found in the text");
}

#[test]
fn links_between_the_documents_lead_somewhere() {
    let mut documents = Vec::new();
    files_below(&root().join("docs"), "md", &mut documents);
    for name in ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"] {
        documents.push(root().join(name));
    }
    assert!(documents.len() > 20, "only {} documents were found", documents.len());
    for document in documents {
        let text = fs::read_to_string(&document).unwrap();
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = target.split('#').next().unwrap_or_default();
            if file.is_empty() || file.contains("://") {
                continue;
            }
            let there = document.parent().unwrap().join(file).exists();
            assert!(there, "{}: {target} leads nowhere", document.display());
        }
    }
}

#[test]
fn pictures_are_xml_that_a_browser_draws() {
    let mut pictures = Vec::new();
    files_below(&root().join("docs"), "svg", &mut pictures);
    assert!(!pictures.is_empty());
    for picture in pictures {
        let text = fs::read_to_string(&picture).unwrap();
        let (mut reader, mut open) = (quick_xml::Reader::from_str(&text), 0);
        loop {
            match reader.read_event() {
                Ok(quick_xml::events::Event::Start(_)) => open += 1,
                Ok(quick_xml::events::Event::End(_)) => open -= 1,
                Ok(quick_xml::events::Event::Eof) => break,
                Ok(_) => {}
                Err(error) => panic!("{}: {error}", picture.display()),
            }
        }
        assert_eq!(open, 0, "{}", picture.display());
        assert!(text.starts_with("<svg xmlns="), "{} is no picture", picture.display());
    }
}

fn files_below(folder: &Path, kind: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files_below(&path, kind, found);
        } else if path.extension().is_some_and(|ending| ending == kind) {
            found.push(path);
        }
    }
}

#[test]
fn every_command_of_the_readme_exists() {
    let text = read("README.md");
    let mut commands = 0;
    for cell in first_column(&text, "| command |") {
        let mut before: Vec<&str> = Vec::new();
        for quoted in quoted(cell) {
            let plain = |word: &&str| word.chars().all(|c| c.is_ascii_lowercase() || c == '-');
            let words: Vec<&str> = quoted.split(' ').take_while(plain).collect();
            // "`braid up`, `down`": the second stands in the first one's place.
            let words = match words.as_slice() {
                ["braid", rest @ ..] => rest.to_vec(),
                rest => [&before[..before.len() - 1], rest].concat(),
            };
            let output =
                Command::new(env!("CARGO_BIN_EXE_braid")).args(&words).arg("--help").output();
            let help = String::from_utf8(output.unwrap().stdout).unwrap();
            let usage = format!("Usage: braid {}", words.join(" "));
            assert!(help.contains(&usage), "{quoted}: {usage} is not in\n{help}");
            before = words;
            commands += 1;
        }
    }
    assert!(commands > 40, "only {commands} commands were found in the text");
}

/// What takes text or bytes apart is in the table of what is fuzzed, with its target or why there
/// is none; and nothing else is.
#[test]
fn each_parser_has_its_row_among_those_that_are_fuzzed() {
    let text = read("fuzz/README.md");
    let table = text.split_once("| input |").unwrap().1;
    let rows = table.lines().skip(2).take_while(|row| row.starts_with('|'));
    let rows: Vec<Vec<&str>> = rows.map(|row| row.split('|').collect()).collect();

    let crates = crates();
    // "`carrier/src/web.rs`", "`braid-wire`", "`daemon/portals/page.rs`".
    let found = |place: &str| -> Vec<PathBuf> {
        let name = place.strip_prefix("braid-").unwrap_or(place);
        let in_crates = crates.iter().map(|c| c.parent().unwrap().join(name));
        let of_program = root().join("crates/braid/src").join(name);
        let mut places: Vec<PathBuf> = in_crates.chain([of_program]).collect();
        places.retain(|place| place.exists() && crates.iter().any(|c| place.starts_with(c)));
        places.dedup();
        places
    };
    let mut covered = Vec::new();
    let mut used = BTreeSet::new();
    let targets: BTreeSet<String> = fs::read_dir(root().join("fuzz/fuzz_targets"))
        .unwrap()
        .map(|file| file.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    for row in &rows {
        let [_, input, _, parsers, by, _] = row[..] else { panic!("{row:?}") };
        for place in quoted(parsers) {
            let there = found(place);
            assert!(!there.is_empty(), "{input}: {place} is nowhere");
            covered.extend(there);
        }
        assert!(by.contains('`') || by.trim().starts_with("none"), "{input}: {by}");
        // A file of tests is said to bound what a target can't reach.
        let (tests, names): (Vec<&str>, Vec<&str>) =
            quoted(by).partition(|word| word.ends_with(".rs"));
        assert!(tests.iter().all(|place| !found(place).is_empty()), "{input}: {tests:?}");
        used.extend(names.into_iter().map(str::to_owned));
    }
    assert_eq!(used, targets);

    let is_covered = |file: &Path| {
        let beside = |place: &PathBuf| file.starts_with(place.with_extension(""));
        covered.iter().any(|place| file.starts_with(place) || beside(place))
    };
    let parsers: Vec<PathBuf> = crates
        .iter()
        .filter(|folder| !folder.starts_with(root().join("crates/testing")))
        .flat_map(|folder| {
            let mut sources = Vec::new();
            sources_below(&folder.join("src"), &mut sources);
            sources
        })
        .filter(|file| parses(file))
        .collect();
    assert!(parsers.len() > 60, "only {} were found", parsers.len());
    let without: Vec<&PathBuf> = parsers.iter().filter(|file| !is_covered(file)).collect();
    assert!(without.is_empty(), "parsers without a row in fuzz/README.md: {without:#?}");
}

/// Whether what is in this file takes text or bytes apart, as far as its names tell.
fn parses(file: &Path) -> bool {
    if file.ends_with("tests.rs") || file.components().any(|part| part.as_os_str() == "tests") {
        return false;
    }
    let text = fs::read_to_string(file).unwrap();
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    let head = |rest: &str| rest.split(')').next().unwrap_or_default().to_owned();
    code.contains("FromStr for")
        || code
            .split("fn parse")
            .skip(1)
            .map(head)
            .any(|head| head.contains("str") && head.contains('&') || head.contains("[u8]"))
}

#[test]
fn every_metric_is_told_and_none_that_is_not() {
    fn names(text: &str) -> BTreeSet<&str> {
        let word = |c: char| c.is_ascii_lowercase() || c == '_';
        let words = text.split(|c| !word(c));
        words.filter(|word| word.starts_with("braid_")).collect()
    }
    let source = read("crates/control/src/metrics.rs");
    let code: Vec<&str> = source.lines().filter(|line| !line.starts_with("use ")).collect();
    let text = read("docs/reference/control.md");
    let table: String = first_column(&text, "| metric |").collect();
    assert_eq!(names(&table), names(&code.join("\n")));
}

#[test]
fn the_keys_of_the_config_are_taken() {
    let text = read("docs/reference/config.md");
    let (_, after) = text.split_once("```toml\n").unwrap();
    let (example, _) = after.split_once("```").unwrap();
    let file = Path::new("/etc/braid/braid.toml");
    let parse = |text: &str| braid_control::config::Config::parse(text, file);
    parse(example).unwrap();
    // Each key that is commented out, in its place: whatever else it lacks, it
    // is no unknown one.
    let lines: Vec<&str> = example.lines().collect();
    let mut keys = 0;
    for (number, line) in lines.iter().enumerate() {
        let Some(key) = line.strip_prefix("# ").filter(|key| key.contains(" = ")) else { continue };
        let mut with = lines.clone();
        with[number] = key;
        if let Err(errors) = parse(&with.join("\n")) {
            assert!(!errors.to_string().contains("unknown key"), "{key}: {errors}");
        }
        keys += 1;
    }
    assert!(keys >= 8, "only {keys} keys were found commented out");
}

#[test]
fn the_lengths_of_handshake_messages_are_those_of_the_protocol() {
    let text = read("docs/protocol.md");
    for (message, length) in [
        ("handshake initiation", INITIATION_LEN),
        ("handshake response", RESPONSE_LEN),
        ("cookie reply", COOKIE_REPLY_LEN),
    ] {
        let row = format!("| {message} | {length} |");
        assert!(text.contains(&row), "no {row:?} in docs/protocol.md");
    }
}
