//! Domain names, and lists of them.

use crate::WrongLine;
use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

/// A domain name in lower case, without a trailing dot; other scripts than Latin in the form of RFC
/// 5891 (`xn--…`).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DomainName(String);

/// A set of names: `example.org` is itself and all subdomains, `*.example.org` only the subdomains.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DomainPattern {
    name: DomainName,
    below_only: bool,
}

/// A text that isn't a domain name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotADomain;

/// RFC 1035, section 2.3.4, in text form.
const LONGEST: usize = 253;
const LONGEST_LABEL: usize = 63;

impl DomainName {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// How many labels it has; more labels are more specific.
    pub fn labels(&self) -> usize {
        self.0.split('.').count()
    }
}

impl FromStr for DomainName {
    type Err = NotADomain;
    fn from_str(text: &str) -> Result<Self, NotADomain> {
        let text = text.strip_suffix('.').unwrap_or(text);
        let ascii = match text.is_ascii() {
            true => text.to_ascii_lowercase(),
            false => idna::domain_to_ascii(text).map_err(|_| NotADomain)?,
        };
        let plain = |c: u8| c.is_ascii_alphanumeric() || c == b'-' || c == b'_';
        let label =
            |label: &str| (1..=LONGEST_LABEL).contains(&label.len()) && label.bytes().all(plain);
        let number = |label: &str| label.bytes().all(|c| c.is_ascii_digit());
        let good = ascii.len() <= LONGEST
            && ascii.split('.').all(label)
            // An address isn't a name.
            && !ascii.rsplit('.').next().is_some_and(number);
        good.then_some(DomainName(ascii)).ok_or(NotADomain)
    }
}

impl FromStr for DomainPattern {
    type Err = NotADomain;
    fn from_str(text: &str) -> Result<Self, NotADomain> {
        let (name, below_only) = match text.strip_prefix("*.") {
            Some(name) => (name, true),
            None => (text.strip_prefix('.').unwrap_or(text), false),
        };
        Ok(DomainPattern { name: name.parse()?, below_only })
    }
}

impl fmt::Display for DomainPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let star = if self.below_only { "*." } else { "" };
        write!(f, "{star}{}", self.name.as_str())
    }
}

/// Reads one name or pattern per line, also in the formats of other programs: `0.0.0.0 example.org`
/// (hosts), `||example.org^` (filters of browsers), `address=/example.org/` (dnsmasq). What follows
/// `#` or `!` is a comment; filters that concern more than names are skipped.
///
/// # Errors
/// The first line that has none of these formats.
pub fn read_domains(text: &str) -> Result<Vec<DomainPattern>, WrongLine> {
    let mut found = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        match domain_of_line(line) {
            Ok(pattern) => found.extend(pattern),
            Err(NotADomain) => {
                return Err(WrongLine { line: number, text: line.chars().take(60).collect() });
            }
        }
    }
    Ok(found)
}

fn domain_of_line(line: &str) -> Result<Option<DomainPattern>, NotADomain> {
    let line = line.trim();
    // Filters for parts of pages, exceptions, and list headers.
    let of_pages = ["##", "#@#", "#?#"].iter().any(|mark| line.contains(mark));
    if of_pages || line.starts_with(['!', '[']) || line.starts_with("@@") {
        return Ok(None);
    }
    let entry = line.split('#').next().unwrap_or_default().trim();
    if entry.is_empty() {
        return Ok(None);
    }
    if let Some(filter) = entry.strip_prefix("||") {
        let name = filter.split(['^', '$', '/']).next().unwrap_or_default();
        // A filter with a path doesn't cover the whole name.
        let whole = !filter.contains('/') && !name.contains('*');
        return if whole { name.parse().map(Some) } else { Ok(None) };
    }
    if let Some((option, rest)) = entry.split_once("=/") {
        let known = ["address", "server", "local", "ipset", "nftset"].contains(&option);
        let name = rest.split('/').next().filter(|_| known).ok_or(NotADomain)?;
        return name.parse().map(Some);
    }
    let mut words = entry.split_whitespace();
    let (first, second) = (words.next().unwrap_or_default(), words.next());
    match (first.parse::<std::net::IpAddr>(), second) {
        // `localhost` and its like.
        (Ok(_), Some(name)) if !name.contains('.') => Ok(None),
        (Ok(_), Some(name)) => name.parse().map(Some),
        (Err(_), None) => first.parse().map(Some),
        _ => Err(NotADomain),
    }
}

/// Maps names to their owners.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DomainTable<T> {
    patterns: HashMap<DomainName, Vec<(bool, T)>>,
}

impl<T> Default for DomainTable<T> {
    fn default() -> Self {
        DomainTable { patterns: HashMap::new() }
    }
}

impl<T: Clone + PartialEq> DomainTable<T> {
    /// Names of this pattern belong to `owner`, too.
    pub fn insert(&mut self, pattern: DomainPattern, owner: T) {
        let owners = self.patterns.entry(pattern.name).or_default();
        if !owners.contains(&(pattern.below_only, owner.clone())) {
            owners.push((pattern.below_only, owner));
        }
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    /// The owners of a name by the most specific matching patterns, and how many labels these have.
    pub fn owners(&self, name: &DomainName) -> Option<(Vec<T>, usize)> {
        let mut suffix = name.as_str();
        loop {
            let itself = suffix.len() == name.as_str().len();
            let key = DomainName(suffix.to_owned());
            let owners = self.patterns.get(&key).into_iter().flatten();
            let owners = owners.filter(|(below_only, _)| !(itself && *below_only));
            let owners: Vec<T> = owners.map(|(_, owner)| owner.clone()).collect();
            if !owners.is_empty() {
                return Some((owners, key.labels()));
            }
            suffix = suffix.split_once('.')?.1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> DomainName {
        text.parse().unwrap()
    }

    #[test]
    fn the_narrowest_pattern_counts() {
        let mut table = DomainTable::default();
        for (pattern, owner) in [
            ("example.org", 1),
            ("*.cdn.example.org", 2),
            ("Bücher.example", 3),
            ("example.org", 4),
        ] {
            table.insert(pattern.parse().unwrap(), owner);
        }
        let owners = |text: &str| table.owners(&name(text)).map(|(owners, _)| owners);
        assert_eq!(owners("example.org"), Some(vec![1, 4]));
        assert_eq!(owners("WWW.Example.org."), Some(vec![1, 4]));
        assert_eq!(owners("a.cdn.example.org"), Some(vec![2]));
        assert_eq!(owners("cdn.example.org"), Some(vec![1, 4]), "a star is what is below");
        assert_eq!(owners("notexample.org"), None);
        assert_eq!(owners("xn--bcher-kva.example"), Some(vec![3]));
        assert_eq!(table.owners(&name("a.cdn.example.org")).unwrap().1, 3);
    }

    #[test]
    fn what_is_no_name_is_refused() {
        let long = format!("{}.org", "a".repeat(64));
        for wrong in ["", ".", "a..b", "192.0.2.1", "a b.org", "a/b", long.as_str(), "*.*.org"] {
            assert!(wrong.parse::<DomainPattern>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn lists_for_other_programs_are_read() {
        let text = "[Adblock Plus 2.0]\n! Title: x\n# hosts\n127.0.0.1 localhost\n\
            0.0.0.0 ads.example # here\n||tracker.example^\n||third.example^$third-party\n\
            ||page.example/banner\n@@||good.example^\nexample.com##.ad\n\
            address=/dns.example/0.0.0.0\n*.star.example\n.dot.example\nplain.example\n\n";
        let found = read_domains(text).unwrap();
        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [
                "ads.example",
                "tracker.example",
                "third.example",
                "dns.example",
                "*.star.example",
                "dot.example",
                "plain.example"
            ]
        );
        let wrong = read_domains("good.example\nbad one.example\n").unwrap_err();
        assert_eq!((wrong.line, wrong.text.as_str()), (2, "bad one.example"));
    }
}
