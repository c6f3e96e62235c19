//! Finds other programs' firewalls that prevent the tunnel's packets from being forwarded: an
//! `accept` in our table doesn't help against a `drop` in theirs.

use super::command::{LIMIT, missing};
use crate::netlink;
use braid_engines::{Family, nft_table};
use std::io;
use std::process::Command;

/// Another program's table that drops forwarded packets by default and has no rule for the tunnel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusing {
    /// Its family and name, as nft writes them.
    pub table: String,
    /// The IP versions that it refuses.
    pub families: Vec<Family>,
    /// Its owner, which determines the remedy.
    pub owner: Owner,
}

/// The program that owns a firewall table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// Docker: it has a chain for users' rules, `DOCKER-USER`.
    Docker,
    /// firewalld: it works with zones.
    Firewalld,
    /// Another program.
    Other,
}

/// The tables that refuse packets forwarded to or from `interface`.
///
/// # Errors
/// `NotFound` when nft isn't installed; otherwise the kernel's error.
pub fn refusing(interface: &str) -> io::Result<Vec<Refusing>> {
    let own = nft_table(interface);
    let mut found = Vec::new();
    // Our own table, which may have thousands of rules, isn't listed.
    for (family, name) in netlink::tables()?.into_iter().filter(|(_, name)| *name != own) {
        let Some(family) = family_word(family).filter(|_| is_plain(&name)) else { continue };
        let mut list = Command::new("nft");
        list.args(["--terse", "list", "table", family, &name]);
        let output = braid_tool::run(&mut list, b"", LIMIT).map_err(missing)?;
        found.extend(refusing_in(&String::from_utf8_lossy(&output.stdout), interface));
    }
    Ok(found)
}

/// Families that forward packets, by their numbers in linux/netfilter.h.
fn family_word(number: u8) -> Option<&'static str> {
    match number {
        1 => Some("inet"),
        2 => Some("ip"),
        10 => Some("ip6"),
        _ => None,
    }
}

/// Names that nft accepts (its scanner.l). The kernel accepts any name, and others could act as
/// commands.
fn is_plain(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || "_.".contains(c))
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "/_.-".contains(c))
}

/// Like [`refusing`], from the output of `nft --terse list ruleset` or `list table`.
pub fn refusing_in(ruleset: &str, interface: &str) -> Vec<Refusing> {
    let mut found = Vec::new();
    for text in ruleset.split("\ntable ").map(|text| text.strip_prefix("table ").unwrap_or(text)) {
        let mut words = text.split_whitespace();
        let (Some(family), Some(name)) = (words.next(), words.next()) else { continue };
        let families = match family {
            "ip" => vec![Family::V4],
            "ip6" => vec![Family::V6],
            "inet" => vec![Family::V4, Family::V6],
            _ => continue,
        };
        let owner = match text {
            _ if text.contains("chain DOCKER-USER {") => Owner::Docker,
            _ if name == "firewalld" => Owner::Firewalld,
            _ => Owner::Other,
        };
        let drops =
            text.lines().any(|line| line.contains("hook forward") && line.contains("policy drop"));
        // firewalld refuses in its last rule.
        let refuses = drops || owner == Owner::Firewalld;
        // Rules that name the tunnel show that the owner handles it, except in Docker's chain,
        // where such rules are ours.
        let knows = owner != Owner::Docker && text.contains(&format!("\"{interface}\""));
        if refuses && !knows && name != nft_table(interface) {
            found.push(Refusing { table: format!("{family} {name}"), families, owner });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::command::nft;
    use super::*;
    use crate::netns::NetNs;

    #[test]
    fn who_refuses_what_is_forwarded_is_found() {
        let ruleset = "table ip filter {\n\tchain FORWARD {\n\t\ttype filter hook forward \
            priority filter; policy drop;\n\t\tjump DOCKER-USER\n\t}\n\n\tchain DOCKER-USER {\n\t\t\
            oifname \"braid0\" accept\n\t}\n}\n\
            table inet firewalld {\n\tchain filter_FORWARD {\n\t\ttype filter hook forward priority \
            filter + 10; policy accept;\n\t}\n}\n\
            table inet open {\n\tchain a {\n\t\ttype filter hook forward priority 0; policy accept;\n\t}\n\
            \tchain b {\n\t\ttype filter hook input priority 0; policy drop;\n\t}\n}\n\
            table ip6 mine {\n\tchain a {\n\t\ttype filter hook forward priority 0; policy drop;\n\
            \t\toifname \"lan0\" accept\n\t}\n}\n";
        let found = |interface| {
            let found = refusing_in(ruleset, interface).into_iter();
            found.map(|it| (it.table, it.owner)).collect::<Vec<_>>()
        };
        let docker = ("ip filter".to_owned(), Owner::Docker);
        let firewalld = ("inet firewalld".to_owned(), Owner::Firewalld);
        let mine = ("ip6 mine".to_owned(), Owner::Other);
        assert_eq!(found("braid0"), [docker.clone(), firewalld.clone(), mine]);
        assert_eq!(found("lan0"), [docker, firewalld], "whose rules name it knows it");
        assert_eq!(refusing_in("", "braid0"), []);
    }

    #[test]
    fn all_tables_but_its_own_are_looked_at() {
        let Ok(namespace) = NetNs::new() else {
            eprintln!("skipped: network namespaces need root or a user namespace");
            return;
        };
        let refuses = "{ chain f { type filter hook forward priority 0; policy drop; }; }";
        let test = || {
            assert_eq!(refusing("braid0").unwrap(), []);
            let tables = ["ip theirs", "inet braid_braid0", "ip6 _o.t-h", "bridge elsewhere"];
            nft(&tables.map(|table| format!("table {table} {refuses}\n")).concat()).unwrap();
            let found = |interface| {
                let found = refusing(interface).unwrap().into_iter().map(|it| it.table);
                found.collect::<std::collections::BTreeSet<_>>()
            };
            assert_eq!(found("braid0"), ["ip theirs", "ip6 _o.t-h"].map(str::to_owned).into());
            let all = ["ip theirs", "inet braid_braid0", "ip6 _o.t-h"];
            assert_eq!(found("braid1"), all.map(str::to_owned).into());
        };
        namespace.run(test).unwrap();
    }

    #[test]
    fn names_that_nft_would_not_read_as_such_are_left_out() {
        assert!(["filter", "a.2db", "_x", "a/b-c"].iter().all(|name| is_plain(name)));
        assert!(
            !["", "a b", "x;flush", "1a", "{", "\"x\"", "a\nb"].iter().any(|name| is_plain(name))
        );
    }
}
