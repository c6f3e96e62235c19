//! Concentrators that stand in for each other.

use super::*;

#[test]
fn who_stands_in_for_whom_is_read_and_checked() {
    let text = |second: &str| {
        format!(
            "[interface]\nprivate_key_file = \"k\"\n[[link]]\nname = \"a\"\ninterface = \"e\"\n\
             [[peer]]\nname = \"first\"\npublic_key = \"{KEY}\"\nendpoints = [\"h:1\"]\n\
             allowed_ips = [\"0.0.0.0/0\"]\n\
             [[peer]]\nname = \"second\"\npublic_key = \"{OTHER_KEY}\"\n{second}"
        )
    };
    let good = parse(&text("endpoints = [\"i:1\"]\nstands_in_for = \"first\"\n")).unwrap();
    let owner = good.peer("second").unwrap().stands_in_for.as_ref();
    assert_eq!(owner.map(Name::as_str), Some("first"));
    for (second, expected) in [
        (
            "endpoints = [\"i:1\"]\nstands_in_for = \"frist\"\n",
            "15: no other peer is named \"frist\"; did you mean \"first\"?",
        ),
        (
            "endpoints = [\"i:1\"]\nstands_in_for = \"second\"\n",
            "15: no other peer is named \"second\"; it must be a peer with endpoints that doesn't stand in itself: first",
        ),
        (
            "stands_in_for = \"first\"\n",
            "14: peer.stands_in_for without endpoints: only a home has concentrators that stand \
             in; add endpoints, or remove it",
        ),
        (
            "endpoints = [\"i:1\"]\nstands_in_for = \"first\"\nallowed_ips = [\"::/0\"]\n",
            "16: allowed_ips of a peer that stands in for \"first\", whose allowed_ips it takes over; remove them",
        ),
    ] {
        let found = errors(&text(second));
        assert!(found.iter().any(|line| line == expected), "{expected}\n{found:#?}");
    }
}
