use crate::Conditions;

/// A rule with the current addresses of its devices and countries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Its name.
    pub name: String,
    /// What it matches.
    pub conditions: Conditions,
    /// Whether it applies at this time of day.
    pub counts_now: bool,
    /// What happens to connections that it matches.
    pub verdict: Verdict,
}

/// What happens to a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It takes the tunnel.
    Tunnel,
    /// It leaves by a link.
    Direct(Targets),
    /// It is refused.
    Block,
}

/// The links that connections may leave by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Targets {
    /// Links' names, the preferred first.
    pub links: Vec<String>,
    /// What happens to connections while none of them works.
    pub otherwise: Otherwise,
    /// A connection that had to take a later link is ended when an earlier one works again.
    pub end_on_recovery: bool,
}

/// What happens to direct connections without a working link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Otherwise {
    /// They take the tunnel.
    Tunnel,
    /// They are refused.
    Block,
}

/// A link that direct connections may leave by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its name.
    pub link: String,
    /// Whether it works: it exists, and nothing indicates that it is dead.
    pub works: bool,
}

impl Targets {
    /// The link that a new connection takes now.
    pub fn now<'t>(&'t self, candidates: &[Candidate]) -> Option<&'t str> {
        self.links.iter().map(String::as_str).find(|link| works(candidates, link))
    }

    /// The link that a new connection would take if `gone` failed, too.
    pub fn without<'t>(&'t self, gone: &str, candidates: &[Candidate]) -> Option<&'t str> {
        let others = self.links.iter().map(String::as_str).filter(|link| *link != gone);
        others.into_iter().find(|link| works(candidates, link))
    }

    /// Whether connections over `link` should be ended: it no longer works, or a preferred one
    /// works again.
    pub fn gives_up(&self, link: &str, candidates: &[Candidate]) -> bool {
        let preferred = self.end_on_recovery && self.now(candidates) != Some(link);
        !works(candidates, link) || preferred
    }
}

fn works(candidates: &[Candidate], link: &str) -> bool {
    candidates.iter().any(|candidate| candidate.link == link && candidate.works)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidates(working: &[&str]) -> Vec<Candidate> {
        let links = ["dsl", "cable", "lte"].iter();
        links
            .map(|link| Candidate { link: (*link).to_owned(), works: working.contains(link) })
            .collect()
    }

    fn targets(end_on_recovery: bool) -> Targets {
        let links = vec!["dsl".to_owned(), "lte".to_owned()];
        Targets { links, otherwise: Otherwise::Tunnel, end_on_recovery }
    }

    #[test]
    fn the_first_that_works_is_taken() {
        let targets = targets(false);
        assert_eq!(targets.now(&candidates(&["dsl", "cable", "lte"])), Some("dsl"));
        assert_eq!(targets.now(&candidates(&["cable", "lte"])), Some("lte"));
        assert_eq!(targets.now(&candidates(&["cable"])), None);
        assert_eq!(targets.without("dsl", &candidates(&["dsl", "lte"])), Some("lte"));
        assert_eq!(targets.without("dsl", &candidates(&["dsl"])), None);
    }

    #[test]
    fn connections_stay_while_their_link_works_unless_they_shall_not() {
        let both = candidates(&["dsl", "lte"]);
        assert!(!targets(false).gives_up("lte", &both));
        assert!(targets(true).gives_up("lte", &both));
        assert!(!targets(true).gives_up("dsl", &both));
        assert!(targets(false).gives_up("lte", &candidates(&["dsl"])));
    }
}
