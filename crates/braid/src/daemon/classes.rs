//! The config's modes, and its rules as classes of traffic, in the core's types.

use braid_control::config::{self, Action, Prefix, Protocol, Rule, Traffic, Treatment, XorHash};
use braid_inner::{BondingHash, ClassIndex, ClassRule, ClassRules};
use braid_tunnel::Mode;
use ipnet::IpNet;

pub fn mode(mode: config::Mode, xor_hash: XorHash) -> Mode {
    match mode {
        config::Mode::Adaptive => Mode::Adaptive,
        config::Mode::Overflow => Mode::Overflow,
        config::Mode::BalanceRr => Mode::BalanceRr,
        config::Mode::BalanceXor => Mode::BalanceXor(match xor_hash {
            XorHash::Layer2 => BondingHash::Layer2,
            XorHash::Layer23 => BondingHash::Layer23,
            XorHash::Layer34 => BondingHash::Layer34,
        }),
        config::Mode::ActiveBackup => Mode::ActiveBackup,
        config::Mode::Broadcast => Mode::Broadcast,
    }
}

/// The conditions of rules that can be seen in the tunnel's packets, and the mode of each class by
/// its index. A rule without a mode shields what it matches from later rules.
pub fn classes(rules: &[Rule], usual: config::Mode, xor_hash: XorHash) -> (ClassRules, Vec<Mode>) {
    let (mut found, mut modes) = (Vec::new(), Vec::new());
    for rule in rules.iter().filter(|rule| rule.matches.seen_by_host_alone().is_none()) {
        let Action::Tunnel(Treatment { mode: own, .. }) = rule.action else { continue };
        let Ok(index) = u16::try_from(modes.len()) else { break };
        found.extend(class_rules(&rule.matches, ClassIndex(index)));
        modes.push(mode(own.unwrap_or(usual), xor_hash));
    }
    // If no rule has a mode, packets needn't be classified.
    let given = |rule: &Rule| matches!(rule.action, Action::Tunnel(it) if it.mode.is_some());
    match rules.iter().any(given) {
        true => (ClassRules(found), modes),
        false => (ClassRules::default(), Vec::new()),
    }
}

fn class_rules(matches: &Traffic, class: ClassIndex) -> Vec<ClassRule> {
    let protocols: &[Option<u8>] = match matches.protocol {
        None => &[None],
        Some(Protocol::Tcp) => &[Some(6)],
        Some(Protocol::Udp) => &[Some(17)],
        Some(Protocol::Icmp) => &[Some(1), Some(58)],
    };
    let mut rules = Vec::new();
    for &protocol in protocols {
        for src in any_or_each(&matches.from) {
            for dst in any_or_each(&matches.to.networks) {
                let dscp = matches.dscp.map(|dscp| dscp.value());
                let rule = ClassRule { dscp, protocol, src, dst, ..ClassRule::any(class) };
                match &matches.ports {
                    None => rules.push(rule),
                    // Either port: two rules.
                    Some(ports) => {
                        let range = Some(ports.0.clone());
                        rules.push(ClassRule { src_port: range.clone(), ..rule.clone() });
                        rules.push(ClassRule { dst_port: range, ..rule });
                    }
                }
            }
        }
    }
    rules
}

fn any_or_each(prefixes: &[Prefix]) -> Vec<Option<IpNet>> {
    match prefixes {
        [] => vec![None],
        some => some.iter().map(|prefix| Some(prefix.net())).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use braid_control::config::Config;
    use std::path::Path;

    #[test]
    fn only_rules_that_packets_in_the_tunnel_show_reach_the_core() {
        let text = "[interface]\nprivate_key_file = \"k\"\nlisten = \"0.0.0.0:1\"\n\
            [[link]]\nname = \"a\"\ninterface = \"eth0\"\n\
            [[rule]]\nname = \"tv\"\ndo = \"direct\"\nmatch = { to = \"192.0.2.0/24\" }\n\
            [[rule]]\nname = \"tablet\"\ndo = \"tunnel\"\nmatch = { device = \"tablet\" }\n\
            [[rule]]\nname = \"usual\"\ndo = \"tunnel\"\nmatch = { to = [\"192.0.2.1\", \"::1\"] }\n\
            [[rule]]\nname = \"voice\"\ndo = \"tunnel\"\nmode = \"broadcast\"\n\
            match = { protocol = \"udp\", ports = \"5060\" }\n";
        let rules = |text: &str| Config::parse(text, Path::new("c.toml")).unwrap().rules;
        let (classes, modes) = classes(&rules(text), config::Mode::Adaptive, XorHash::Layer34);
        assert_eq!(modes, [Mode::Adaptive, Mode::Broadcast]);
        let index: Vec<u16> = classes.0.iter().map(|rule| rule.class.0).collect();
        assert_eq!(index, [0, 0, 1, 1]);
        let without = rules(text.split("[[rule]]\nname = \"voice\"").next().unwrap());
        let none = super::classes(&without, config::Mode::Adaptive, XorHash::Layer34);
        assert_eq!(none, (ClassRules::default(), Vec::new()));
    }
}
