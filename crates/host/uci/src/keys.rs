//! Which config keys aren't text, and how nested tables are named in UCI.

/// What a key's value is in TOML.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A string, or a list of strings.
    Text,
    /// `true` or `false`; in UCI `1` or `0`.
    Boolean,
    /// A whole number or a fraction.
    Number,
    /// A whole number, or a word.
    NumberOrWord,
}

/// Sections that exist once: `[interface]`.
pub(crate) const SINGLE: [&str; 7] =
    ["interface", "engine", "routing", "history", "ui", "split_tcp", "fleet"];

/// Sections of which there may be many: `[[link]]`.
pub(crate) const MANY: [&str; 6] = ["link", "peer", "rule", "class", "alert", "pool"];

/// Tables in a section: `cap.down` of a link is `option cap_down`.
pub(crate) const INNER: [(&str, &str); 12] = [
    ("link", "match"),
    ("link", "cap"),
    ("peer", "limit"),
    ("rule", "rate"),
    ("link", "quota"),
    ("rule", "match"),
    ("class", "match"),
    ("pool", "scrub"),
    ("pool", "snapshot"),
    ("pool", "retain"),
    ("pool", "replicate"),
    ("pool", "backup"),
];

/// Lists of tables in a section, which are sections of their own in UCI: `config forward_ports`.
pub(crate) const INNER_MANY: [(&str, &str); 2] =
    [("routing", "forward_ports"), ("routing", "public_prefixes")];

/// Lists that mean something else when empty than when absent: UCI has no empty lists, so they are
/// written as [`EMPTY`].
pub(crate) const MAY_BE_EMPTY: [(&str, &str); 1] = [("routing", "dns")];

/// Stands for an empty list.
pub(crate) const EMPTY: &str = "none";

/// A section for OpenWrt's scripts (whether and how to start the daemon), not part of the config.
pub(crate) const OF_THE_SCRIPTS: &str = "daemon";

const BOOLEANS: [(&str, &str); 23] = [
    ("engine", "arp_validate"),
    ("engine", "fullmesh"),
    ("engine", "masquerade"),
    ("engine", "proxy"),
    ("engine", "resilient"),
    ("history", "keep"),
    ("interface", "draining"),
    ("interface", "home_to_home"),
    ("interface", "speed_test"),
    ("link", "metered"),
    ("link", "standby"),
    ("peer", "follow_referrals"),
    ("pool", "accept_unstable"),
    ("pool", "encrypt"),
    ("pool.replicate", "newest"),
    ("routing", "clamp_mss"),
    ("routing", "default_route"),
    ("routing", "leave_host_alone"),
    ("routing", "masquerade"),
    ("rule", "end_on_recovery"),
    ("split_tcp", "enabled"),
    ("ui", "tls"),
    ("ui", "without_tls"),
];

const NUMBERS: [(&str, &str); 22] = [
    ("engine", "add_addr_accepted"),
    ("engine", "buckets"),
    ("engine", "min_links"),
    ("engine", "mrru"),
    ("engine", "packets_per_link"),
    ("engine", "peer_notifications"),
    ("engine", "port"),
    ("engine", "proxy_port"),
    ("engine", "resend_igmp"),
    ("engine", "subflows"),
    ("fleet", "capacity"),
    ("interface", "mtu"),
    ("pool.backup", "read"),
    ("link", "fwmark"),
    ("link", "price"),
    ("link", "tier"),
    ("link", "weight"),
    ("link.quota", "reset_day"),
    ("peer", "fallback_port"),
    ("routing", "announce_table"),
    ("routing.forward_ports", "public"),
    ("split_tcp", "connections"),
];

const NUMBERS_OR_WORDS: [(&str, &str); 1] = [("interface", "workers")];

/// The kind of a key's value; for `cap.down` in a link the section is `link.cap`.
pub fn kind_of(section: &str, key: &str) -> Kind {
    let is_in = |list: &[(&str, &str)]| list.contains(&(section, key));
    if is_in(&BOOLEANS) {
        Kind::Boolean
    } else if is_in(&NUMBERS) {
        Kind::Number
    } else if is_in(&NUMBERS_OR_WORDS) {
        Kind::NumberOrWord
    } else {
        Kind::Text
    }
}

/// All sections of the config and the tables in them (`link.cap`).
pub fn sections() -> Vec<String> {
    let outer = SINGLE.iter().chain(&MANY).map(|name| (*name).to_owned());
    let inner = INNER.iter().chain(&INNER_MANY).map(|(outer, inner)| format!("{outer}.{inner}"));
    outer.chain(inner).collect()
}
