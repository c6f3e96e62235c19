use crate::{Candidate, Connection, Otherwise, Rule, Verdict};

/// Which rule a connection would match, and what would happen to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The rules up to the one that matches, in order.
    pub considered: Vec<Considered>,
    /// The rule that matches, if any.
    pub rule: Option<String>,
    /// The way that it takes now.
    pub way: Way,
    /// The way that it would take if its link failed; `None` when it takes no single link.
    pub if_it_died: Option<Way>,
}

/// A rule that was considered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Considered {
    /// Its name.
    pub rule: String,
    /// Why it doesn't match; `None` if it does.
    pub mismatch: Option<String>,
}

/// The way that a connection takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Way {
    /// Through the tunnel, like other traffic.
    Tunnel,
    /// Over this link.
    Link(String),
    /// None: it is refused.
    Refused,
}

/// Looks for the first rule that matches.
pub fn explain(rules: &[Rule], candidates: &[Candidate], connection: &Connection) -> Explanation {
    let mut considered = Vec::new();
    for rule in rules {
        let mismatch = match rule.counts_now {
            true => rule.conditions.mismatch(connection),
            false => Some("it doesn't apply at this time of day".to_owned()),
        };
        let fits = mismatch.is_none();
        considered.push(Considered { rule: rule.name.clone(), mismatch });
        if fits {
            let (way, if_it_died) = ways(&rule.verdict, candidates);
            let rule = Some(rule.name.clone());
            return Explanation { considered, rule, way, if_it_died };
        }
    }
    Explanation { considered, rule: None, way: Way::Tunnel, if_it_died: None }
}

/// The first rule that matches.
pub fn first_match<'r>(rules: &'r [Rule], connection: &Connection) -> Option<&'r Rule> {
    rules.iter().find(|rule| rule.counts_now && rule.conditions.mismatch(connection).is_none())
}

fn ways(verdict: &Verdict, candidates: &[Candidate]) -> (Way, Option<Way>) {
    let targets = match verdict {
        Verdict::Tunnel => return (Way::Tunnel, None),
        Verdict::Block => return (Way::Refused, None),
        Verdict::Direct(targets) => targets,
    };
    let otherwise = || match targets.otherwise {
        Otherwise::Tunnel => Way::Tunnel,
        Otherwise::Block => Way::Refused,
    };
    let way = |link: Option<&str>| link.map_or_else(otherwise, |link| Way::Link(link.to_owned()));
    let now = targets.now(candidates);
    (way(now), now.map(|link| way(targets.without(link, candidates))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Conditions, Sender, Targets, Transport};

    fn rule(name: &str, ports: u16, verdict: Verdict) -> Rule {
        let conditions = Conditions { ports: Some(ports..=ports), ..Conditions::default() };
        Rule { name: name.into(), conditions, counts_now: true, verdict }
    }

    #[test]
    fn the_first_that_fits_counts_and_its_failover_is_told() {
        let links = vec!["dsl".to_owned(), "lte".to_owned()];
        let direct =
            |otherwise| Targets { links: links.clone(), otherwise, end_on_recovery: false };
        let rules = [
            Rule { counts_now: false, ..rule("night", 443, Verdict::Block) },
            rule("mail", 25, Verdict::Block),
            rule("web", 443, Verdict::Direct(direct(Otherwise::Block))),
            rule("never", 443, Verdict::Tunnel),
        ];
        let works = |names: &[&str]| -> Vec<Candidate> {
            links
                .iter()
                .map(|l| Candidate { link: l.clone(), works: names.contains(&l.as_str()) })
                .collect()
        };
        let to = "192.0.2.1".parse().unwrap();
        let sender = Sender::Host { user: 0 };
        let web = Connection {
            sender,
            to,
            transport: Transport::Tcp,
            port: 443,
            dscp: 0,
            known_for: vec![],
        };
        let both = explain(&rules, &works(&["dsl", "lte"]), &web);
        assert_eq!(both.rule.as_deref(), Some("web"));
        assert_eq!(both.considered.len(), 3);
        assert_eq!(both.way, Way::Link("dsl".into()));
        assert_eq!(both.if_it_died, Some(Way::Link("lte".into())));
        let one = explain(&rules, &works(&["lte"]), &web);
        assert_eq!((one.way, one.if_it_died), (Way::Link("lte".into()), Some(Way::Refused)));
        let none = explain(&rules, &works(&[]), &web);
        assert_eq!((none.way, none.if_it_died), (Way::Refused, None));
        let other = explain(&rules, &works(&[]), &Connection { port: 80, ..web });
        assert_eq!((other.rule, other.way), (None, Way::Tunnel));
    }
}
