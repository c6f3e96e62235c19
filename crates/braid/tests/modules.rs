//! Modules of a crate import in one direction: whoever reads one needs to know only those below
//! it. Of modules beside each other none leads back to itself by `use` and by full paths; a
//! parent and its own children are one thing.

mod sources;

use sources::{crates, sources_below};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

type Module = Vec<String>;

#[test]
fn no_module_imports_what_imports_it() {
    let sources: Vec<PathBuf> = crates().iter().map(|folder| folder.join("src")).collect();
    assert!(sources.len() > 30, "the crates are found");
    let circles: Vec<String> = sources.iter().flat_map(|source| circles_in(source)).collect();
    assert!(circles.is_empty(), "{}", circles.join("\n"));
}

#[test]
fn a_circle_is_seen() {
    let text = |text: &str| text.to_owned();
    let crate_of = |first: &str| {
        BTreeMap::from([
            (module("first"), text(first)),
            (module("first::inner"), text("use super::Outer;")),
            (module("second"), text("use crate::{lib_thing, first::{Outer, self}};")),
        ])
    };
    assert_eq!(circles_of(&crate_of("// crate::second\nmod inner;")), Vec::<String>::new());
    let found = circles_of(&crate_of("fn f() { crate::second::go() }"));
    assert_eq!(found, ["first -> second -> first"]);
    assert_eq!(circles_of(&crate_of("#[cfg(test)]\nmod tests { use crate::second; }")).len(), 0);
}

fn module(path: &str) -> Module {
    path.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

fn circles_in(source: &Path) -> Vec<String> {
    let mut files = Vec::new();
    if source.is_dir() {
        sources_below(source, &mut files);
    }
    let modules = files.iter().map(|path| {
        let inside = path.strip_prefix(source).unwrap().with_extension("");
        let name = inside.to_str().unwrap().replace('/', "::");
        let name = name.trim_end_matches("::mod");
        let name = if ["lib", "main", "mod"].contains(&name) { "" } else { name };
        (module(name), fs::read_to_string(path).unwrap())
    });
    let modules = modules.collect();
    let place = source.display();
    circles_of(&modules).into_iter().map(|circle| format!("{place}: {circle}")).collect()
}

/// A circle for each that there is among modules beside each other, by their names.
fn circles_of(modules: &BTreeMap<Module, String>) -> Vec<String> {
    let is_test = |module: &Module| module.iter().any(|part| part == "tests");
    let mut edges = BTreeMap::<(Module, String), BTreeSet<String>>::new();
    for (from, text) in modules.iter().filter(|(module, _)| !is_test(module)) {
        for path in paths(from, text) {
            let known = (1..=path.len()).rev().map(|length| path[..length].to_vec());
            let Some(to) = known.into_iter().find(|path| modules.contains_key(path)) else {
                continue;
            };
            let shared = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
            if let (Some(a), Some(b)) = (from.get(shared), to.get(shared)) {
                let beside = from[..shared].to_vec();
                edges.entry((beside, a.clone())).or_default().insert(b.clone());
            }
        }
    }
    let beginnings = edges.keys().filter_map(|(beside, first)| {
        let mut way = vec![first.clone()];
        leads_back(&edges, beside, &mut way, &mut BTreeSet::new()).then(|| way.join(" -> "))
    });
    // Each is found from each of its members.
    let least = |circle: &String| {
        let names: Vec<&str> = circle.split(" -> ").collect();
        names.iter().min() == names.first()
    };
    beginnings.filter(least).collect()
}

fn leads_back(
    edges: &BTreeMap<(Module, String), BTreeSet<String>>,
    beside: &Module,
    way: &mut Vec<String>,
    seen: &mut BTreeSet<String>,
) -> bool {
    let here = (beside.clone(), way.last().unwrap().clone());
    for next in edges.get(&here).into_iter().flatten() {
        way.push(next.clone());
        if *next == way[0] || seen.insert(next.clone()) && leads_back(edges, beside, way, seen) {
            return true;
        }
        way.pop();
    }
    false
}

/// Paths within the crate that the text names, outside of comments and tests at its end.
fn paths(of: &Module, text: &str) -> Vec<Module> {
    let text = text.split("#[cfg(test)]\nmod tests").next().unwrap();
    let code = text.lines().map(|line| line.split("//").next().unwrap());
    let code = code.collect::<Vec<_>>().join(" ");
    let mut found = Vec::new();
    for root in ["crate::", "super::"] {
        for (at, _) in code.match_indices(root) {
            let before = code[..at].chars().next_back();
            if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':') {
                continue;
            }
            let (mut rest, mut base) = (&code[at..], of.clone());
            if let Some(after) = rest.strip_prefix("crate::") {
                (rest, base) = (after, Vec::new());
            }
            while let Some(after) = rest.strip_prefix("super::") {
                rest = after;
                base.pop();
            }
            named(rest, base, &mut found);
        }
    }
    found
}

/// What `a::{b, c::d}` names; what is behind it is returned.
fn named<'a>(text: &'a str, base: Module, found: &mut Vec<Module>) -> &'a str {
    let mut rest = text.trim_start();
    let mut path = base;
    loop {
        if let Some(list) = rest.strip_prefix('{') {
            rest = list;
            loop {
                rest = named(rest, path.clone(), found).trim_start();
                match rest.strip_prefix(',') {
                    Some(after) if !after.trim_start().starts_with('}') => rest = after,
                    other => return other.unwrap_or(rest).trim_start().trim_start_matches('}'),
                }
            }
        }
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        if end > 0 && &rest[..end] != "self" {
            path.push(rest[..end].to_owned());
        }
        rest = &rest[end..];
        match rest.strip_prefix("::") {
            Some(after) => rest = after,
            None => break,
        }
    }
    found.push(path);
    rest
}
