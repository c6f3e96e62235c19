//! Converts every example config in this repository to UCI and back: it means the same.

use braid_control::config::AnyConfig;
use braid_uci::{Kind, from_uci, kind_of, sections, to_uci};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use toml_edit::{DocumentMut, Item, Value};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

/// Values by path, without comments, order of sections or the way tables are written.
fn meaning(toml: &str) -> BTreeMap<String, String> {
    fn item(path: &str, item_of: &Item, found: &mut BTreeMap<String, String>) {
        if let Some(table) = item_of.as_table_like() {
            found.insert(path.to_owned(), "table".into());
            table.iter().for_each(|(key, inner)| item(&format!("{path}.{key}"), inner, found));
        } else if let Some(tables) = item_of.as_array_of_tables() {
            for (at, table) in tables.iter().enumerate() {
                item(&format!("{path}[{at}]"), &Item::Table(table.clone()), found);
            }
        } else if let Some(array) = item_of.as_array().filter(|it| !it.is_empty()) {
            for (at, value) in array.iter().enumerate() {
                item(&format!("{path}[{at}]"), &Item::Value(value.clone()), found);
            }
        } else if let Some(value) = item_of.as_value() {
            let mut value: Value = value.clone();
            value.decor_mut().clear();
            let text = match &value {
                Value::String(text) => format!("text {}", text.value()),
                Value::Integer(number) => format!("number {}", number.value()),
                Value::Float(number) => format!("number {}", number.value()),
                other => other.to_string(),
            };
            found.insert(path.to_owned(), text);
        }
    }
    let document: DocumentMut = toml.parse().unwrap_or_else(|error| panic!("{error}\n{toml}"));
    let mut found = BTreeMap::new();
    item("", document.as_item(), &mut found);
    found
}

fn assert_goes_and_comes(name: &str, toml: &str) {
    let uci = to_uci(toml).unwrap_or_else(|error| panic!("{name}: {error}\n{toml}"));
    let back = from_uci(&uci).unwrap_or_else(|error| panic!("{name}: {error}\n{uci}"));
    assert_eq!(meaning(&back), meaning(toml), "{name}:\n{uci}");
    // A second round trip changes nothing.
    assert_eq!(from_uci(&to_uci(&back).unwrap()).unwrap(), back, "{name}");
}

/// The examples in the documents, with what is commented out, and the fuzzers' seeds.
fn examples() -> Vec<(String, String)> {
    let mut found = Vec::new();
    let text = std::fs::read_to_string(root().join("docs/reference/config.md")).unwrap();
    for (number, block) in text.split("```toml\n").skip(1).enumerate() {
        let example = block.split("```").next().unwrap();
        found.push((format!("docs/reference/config.md, {number}"), example.to_owned()));
        // Each key that is commented out, alone.
        let lines: Vec<&str> = example.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            if let Some(key) = line.strip_prefix("# ").filter(|key| key.contains(" = ")) {
                let mut with = lines.clone();
                with[at] = key;
                let with = with.join("\n");
                // Some occur twice, as alternatives.
                if with.parse::<DocumentMut>().is_ok() {
                    found.push((key.to_owned(), with));
                }
            }
        }
    }
    for entry in std::fs::read_dir(root().join("fuzz/corpus-seeds/config")).unwrap() {
        let path = entry.unwrap().path();
        found.push((path.display().to_string(), std::fs::read_to_string(&path).unwrap()));
    }
    let group = root().join("crates/braid/tests/systemd/braid.toml");
    found.push((group.display().to_string(), std::fs::read_to_string(&group).unwrap()));
    found
}

#[test]
fn every_example_goes_to_uci_and_comes_back() {
    let examples = examples();
    assert!(examples.len() > 40, "only {} were found", examples.len());
    for (name, toml) in examples {
        assert_goes_and_comes(&name, &toml);
    }
}

#[test]
fn what_text_cant_say_is_not_lost() {
    assert_goes_and_comes(
        "whole",
        "[interface]\nname = \"b0\"\nmtu = 1400\nwake_latency = \"20us\"\nworkers = 4\n\n\
         [[rule]]\nname = \"it's\"\ndo = \"block\"\nmatch = { ports = \"443\", asn = [\"1\", \"2\"] }\n\n\
         [routing]\ndns = []\nmasquerade = false\n\n\
         [[alert]]\nname = \"a\"\ncommand = \"\"\"one\n  'two' \"three\" \\\\n\"\"\"\n\n\
         [[pool]]\nname = \"p\"\nlayout = \"btrfs-raid1\"\ndisks = [\"a\"]\nscrub = {}\n",
    );
    assert_eq!(from_uci("config daemon 'daemon'\n\toption enabled '1'\n").unwrap(), "");
    let alone = from_uci("config forward_ports\n\toption public 80\n").unwrap();
    assert_eq!(meaning(&alone), meaning("[routing]\nforward_ports = [{ public = 80 }]\n"));
}

#[test]
fn mistakes_are_told_with_their_line() {
    for (uci, line, says) in [
        ("config interface\n\toption mtu 'big'\n", 2, "mtu must be a number, not \"big\""),
        ("config link\n\toption standby 'maybe'\n", 2, "standby must be 1 or 0"),
        ("config link\n\tlist tier '1'\n", 2, "tier is not a list"),
        ("\nconfig lnik\n", 2, "unknown config lnik (known: interface,"),
        ("config ui\nconfig ui\n", 2, "two ui sections"),
    ] {
        let error = from_uci(uci).unwrap_err();
        assert_eq!(error.line, line, "{uci}");
        assert!(error.to_string().contains(says), "{error}");
    }
    for (toml, line, says) in [
        ("[interface]\nmtu = \"1500\"\n", 2, "interface.mtu isn't a number"),
        ("[interface]\n\n[lnik]\n", 3, "unknown section lnik"),
        ("[interface\n", 1, "not TOML"),
        ("[[link]]\n\"a-b\" = \"c\"\n", 2, "UCI has no key \"a-b\""),
        ("[[link]]\ncap = { \"\" = \"c\" }\n", 2, "UCI has no key \"cap_\""),
        ("[[link]]\nprice = nan\n", 2, "link.price isn't a number"),
    ] {
        let error = to_uci(toml).unwrap_err();
        assert_eq!(error.line, line, "{toml}: {error}");
        assert!(error.to_string().contains(says), "{error}");
    }
}

/// What the config's reader says about a key with a value of the wrong type.
fn told_of(section: &str, key: &str) -> String {
    let (outer, inner) = section.split_once('.').unwrap_or((section, ""));
    let head = match outer {
        "interface" | "engine" | "routing" | "history" | "ui" | "split_tcp" | "fleet" => {
            format!("[{outer}]")
        }
        _ => format!("[[{outer}]]"),
    };
    // No key accepts a date.
    let entry = format!("{key} = 2026-01-01");
    let entry = match inner {
        "" => entry,
        "forward_ports" | "public_prefixes" => format!("{inner} = [{{ {entry} }}]"),
        _ => format!("{inner} = {{ {entry} }}"),
    };
    let mut told = String::new();
    let engines = match outer {
        "interface" | "engine" | "link" => &ENGINES[..],
        _ => &ENGINES[..1],
    };
    for engine in engines {
        let interface = match (*engine, outer) {
            ("tunnel", "interface") => String::new(),
            ("tunnel", _) => "[interface]\n".to_owned(),
            (_, "interface") => continue,
            _ => format!("[interface]\nname = \"g\"\nengine = \"{engine}\"\n"),
        };
        for beside in asked_for_beside(outer) {
            if beside.split(' ').next() == Some(key) {
                continue;
            }
            let text = format!("{interface}{head}\n{beside}\n{entry}\n");
            if let Err(errors) = AnyConfig::parse(&text, Path::new("/etc/braid/braid.toml")) {
                told.push_str(&errors.to_string());
                told.push('\n');
            }
        }
    }
    told
}

/// Keys that other keys require.
fn asked_for_beside(section: &str) -> &'static [&'static str] {
    match section {
        "engine" => {
            &["", "over = \"vxlan\"", "over = \"wireguard\"", "resilient = true", "proxy = true"]
        }
        "alert" => {
            &["", "mail = [\"a@b.de\"]", "webhook = \"https://a/\"", "ntfy = \"https://a/b\""]
        }
        "rule" => &["", "do = \"direct\"", "do = \"tunnel\""],
        _ => &[""],
    }
}

const ENGINES: [&str; 8] =
    ["tunnel", "bonding", "team", "teql", "ecmp", "mptcp", "pppoe-multilink", "pcc"];

/// An unknown key, so that the reader lists the known ones.
const NOBODYS_KEY: &str = "zzzzzzzzqqqq";

/// The keys that the reader lists as known in a section.
fn known_in(section: &str) -> BTreeSet<String> {
    let told = told_of(section, NOBODYS_KEY);
    let start = format!("unknown key \"{NOBODYS_KEY}\" in [{section}]; known here: ");
    let lists = told.lines().filter_map(|line| Some(line.split_once(&start)?.1));
    let of_section = lists.flat_map(|list| list.split(", ").map(str::to_owned));
    of_section.collect()
}

/// The sections that the reader lists as known.
fn known_sections() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for head in ["", "[interface]\nname = \"g\"\nengine = \"bonding\"\n"] {
        let text = format!("{head}[{NOBODYS_KEY}]\n");
        let told = AnyConfig::parse(&text, Path::new("/etc/braid/braid.toml")).unwrap_err();
        let told = told.to_string();
        let start = format!("unknown section \"{NOBODYS_KEY}\"; known here: ");
        let list = told.lines().find_map(|line| Some(line.split_once(&start)?.1));
        found.extend(list.unwrap_or_else(|| panic!("{told}")).split(", ").map(str::to_owned));
    }
    found
}

#[test]
fn every_section_has_a_form_in_uci() {
    let outer = sections().into_iter().filter(|section| !section.contains('.'));
    assert_eq!(outer.collect::<BTreeSet<_>>(), known_sections());
}

#[test]
fn the_kinds_of_all_keys_are_those_that_the_reader_of_the_config_takes() {
    let mut keys = 0;
    for section in sections() {
        let known = known_in(&section);
        assert!(!known.is_empty(), "nothing is known in {section}");
        for key in known {
            let told = told_of(&section, &key);
            let is = |what: &str| told.contains(&format!("{section}.{key} must be {what}"));
            if is("a table") || is("a list of tables") {
                assert!(sections().contains(&format!("{section}.{key}")), "{section}.{key}");
                continue;
            }
            let expected = if is("true or false") {
                Kind::Boolean
            } else if is("a whole number or \"") {
                Kind::NumberOrWord
            } else if is("a whole number") || is("a number") {
                Kind::Number
            } else {
                assert!(is("a string"), "{section}.{key}: {told}");
                Kind::Text
            };
            assert_eq!(kind_of(&section, &key), expected, "{section}.{key}");
            keys += 1;
        }
    }
    assert!(keys > 120, "only {keys} keys were found");
}
