//! `[[rule]]`: their order, and contradictions within one.

use super::*;

#[test]
fn rules_are_added_in_their_place_and_removed() {
    let file = Path::new("/etc/braid/b.toml");
    let text = "[interface]\nprivate_key_file = \"k\"\nlisten = \"0.0.0.0:1\"\n\n# the old one\n\
        [[rule]]\nname = \"a\"\ndo = \"block\"\n\n[routing]\nmasquerade = true\n";
    let mut editor = ConfigEditor::from_text(text, file).unwrap();
    let rule = |name: &str, matches: Vec<(&'static str, Vec<String>)>| NewRule {
        name: name.into(),
        does: "block".into(),
        matches,
        ..NewRule::default()
    };
    editor
        .add_rule(&rule("b", vec![("to", vec!["192.0.2.1".into(), "::1".into()])]), None)
        .unwrap();
    editor.add_rule(&rule("c", vec![("protocol", vec!["udp".into()])]), Some("a")).unwrap();
    let names = |editor: &ConfigEditor| -> Vec<String> {
        editor.check().unwrap().rules.iter().map(|rule| rule.name.to_string()).collect()
    };
    assert_eq!(names(&editor), ["c", "a", "b"]);
    assert!(editor.to_string().contains("# the old one\n[[rule]]\nname = \"a\""), "{editor}");
    editor.remove_rule("a").unwrap();
    assert_eq!(names(&editor), ["c", "b"]);
    assert!(matches!(editor.remove_rule("a"), Err(EditError::NoSuchRule { .. })));
    editor.add_rule(&rule("d", vec![("ports", vec!["http".into()])]), None).unwrap();
    assert!(editor.check().is_err());
}

/// The rest of a rule, from line 9 on, and the error about it.
const WRONG_RULES: &[(&str, &str)] = &[
    ("do = \"drop\"", "9: rule.do: \"drop\" is none of tunnel, direct, block"),
    ("do = \"direct\"\nmode = \"broadcast\"", "10: rule.mode applies only with do = \"tunnel\""),
    ("do = \"block\"\nlinks = \"dsl\"", "10: rule.links applies only with do = \"direct\""),
    ("do = \"direct\"\nlinks = \"dsk\"", "10: no link is named \"dsk\"; did you mean \"dsl\"?"),
    (
        "do = \"block\"\nmatch = { country = \"DE\" }",
        "10: a rule with country or asn, but no table says",
    ),
    (
        "do = \"block\"\nmatch = { device = \"a b\" }",
        "10: rule.match.device: \"a b\" is not a device",
    ),
    (
        "do = \"block\"\nmatch = { domain = \"a..b\" }",
        "10: rule.match.domain: \"a..b\" is not a domain",
    ),
    ("do = \"block\"\nmatch = { domain = \"a.b\" }", "10: a rule with domains, but the tunnel's"),
    (
        "do = \"block\"\nmatch = { time = \"8-17\" }",
        "10: rule.match.time: \"8-17\" is not a time range",
    ),
    (
        "do = \"block\"\nmatch = { device = \"tv\", uid = \"7\" }",
        "10: rule.match.device and rule.match.uid",
    ),
    (
        "do = \"block\"\nmatch = { cgroup = \"a/../b\" }",
        "10: rule.match.cgroup: \"a/../b\" is not a control group",
    ),
    (
        "do = \"tunnel\"\nmode = \"broadcast\"\nmatch = { device = \"tv\" }",
        "10: rule.mode with match.device: this can't be seen in a tunnel's packets",
    ),
    ("do = \"block\"\npriority = \"low\"", "10: rule.priority applies only with do = \"tunnel\""),
    (
        "do = \"tunnel\"\npriority = \"lowest\"",
        "10: rule.priority: \"lowest\" is none of low, normal, high",
    ),
    (
        "do = \"tunnel\"\nrate = { down = \"0Mbit\" }",
        "10: rule.rate.down of 0 would let nothing through",
    ),
    (
        "do = \"tunnel\"\nmode = \"broadcast\"\nrate = { up = \"1Mbit\" }",
        "11: rule.rate with rule.mode",
    ),
    (
        "do = \"tunnel\"\nredundancy = \"thrice\"",
        "10: rule.redundancy: \"thrice\" is none of twice, parity",
    ),
    (
        "do = \"tunnel\"\nclass = \"bulk\"\nredundancy = \"parity\"",
        "11: rule.redundancy = \"parity\" with rule.class = \"bulk\"",
    ),
    (
        "do = \"tunnel\"\nmode = \"broadcast\"\nredundancy = \"twice\"",
        "11: rule.redundancy with rule.mode",
    ),
    (
        "do = \"direct\"\nredundancy = \"twice\"",
        "10: rule.redundancy applies only with do = \"tunnel\"",
    ),
    (
        "do = \"tunnel\"\nclass = \"realtime\"\nmatch = { uid = \"7\" }",
        "10: rule.class with match.uid: this can't be seen in tracked connections",
    ),
    ("do = \"block\"\n[routing]\nleave_host_alone = true", "9: a rule that contradicts"),
    (
        "do = \"direct\"\n[routing]\nlink_marks = \"off\"",
        "9: do = \"direct\" with routing.link_marks",
    ),
    (
        "do = \"block\"\n[[rule]]\nname = \"bank\"\ndo = \"tunnel\"",
        "11: two rules are named \"bank\"",
    ),
];

#[test]
fn what_a_rule_cannot_mean_is_told_with_its_line() {
    let rule = |text: &str| {
        errors(&format!(
            "[interface]\nprivate_key_file = \"k\"\nlisten = \"0.0.0.0:1\"\n\
             [[link]]\nname = \"dsl\"\ninterface = \"eth1\"\n[[rule]]\nname = \"bank\"\n{text}"
        ))
    };
    for (text, wrong) in WRONG_RULES {
        let found = rule(text);
        assert!(found.iter().any(|error| error.starts_with(wrong)), "{text}: {found:#?}");
    }
    assert_eq!(rule("do = \"direct\""), Vec::<String>::new(), "the best link, for everything");
}
