//! Learns the addresses of rules' domains from DNS answers and from clients' first packets.

use crate::{DomainName, DomainTable};
use simple_dns::rdata::RData;
use simple_dns::{Packet, PacketFlag, RCODE};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Addresses of rules' domains, bounded.
#[derive(Clone, Debug, Default)]
pub struct Learnt {
    places: BTreeMap<LearntAddress, Vec<Claim>>,
}

/// An address, for everybody or for one client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LearntAddress {
    /// The address.
    pub address: IpAddr,
    /// The only client that this applies to: what a client itself claims applies to no other.
    pub asked_by: Option<IpAddr>,
}

/// A name's claim to an address.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Claim {
    name: DomainName,
    rules: Vec<String>,
    /// Labels of the pattern; more labels are more specific.
    labels: usize,
    until: Instant,
}

/// The changes that follow from an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lesson {
    /// Rules, by name, that an address belongs to, and for how long.
    pub add: Vec<(String, LearntAddress, Duration)>,
    /// Rules that it doesn't belong to any more.
    pub remove: Vec<(String, LearntAddress)>,
    /// In words: names of different rules that share an address.
    pub conflicts: Vec<String>,
}

/// An address is kept this long after its TTL: resolvers and programs cache answers for longer than
/// allowed, and connections begin a moment later.
const GRACE: Duration = Duration::from_secs(300);
/// Maximum lifetime of an answer (RFC 8767 allows 7 days for any TTL; a day is usual).
const MOST_TTL: Duration = Duration::from_secs(86_400);
/// How long it is remembered that a client requested a name at an address: some hours.
const ASKED: Duration = Duration::from_secs(6 * 3600);
/// More addresses than this are dropped, the first to expire first.
const MOST_ADDRESSES: usize = 65_536;
/// Maximum names that share an address.
const MOST_CLAIMS: usize = 16;
/// Maximum addresses of one answer.
const MOST_ANSWERS: usize = 64;

impl Learnt {
    /// Learns from a raw DNS answer about the domains of `rules`.
    pub fn learn(&mut self, answer: &[u8], rules: &DomainTable<String>, now: Instant) -> Lesson {
        let mut lesson = Lesson::default();
        let Some((names, addresses)) = read(answer) else { return lesson };
        // The requested name takes precedence over the names that it is an alias of.
        let Some((name, (owners, labels))) =
            names.into_iter().find_map(|name| rules.owners(&name).map(|owners| (name, owners)))
        else {
            return lesson;
        };
        for (address, ttl) in addresses {
            let until = now + ttl.min(MOST_TTL) + GRACE;
            let claim = Claim { name: name.clone(), rules: owners.clone(), labels, until };
            self.claim(LearntAddress { address, asked_by: None }, claim, now, &mut lesson);
        }
        lesson
    }

    /// Learns from a client's connection to `to`, in which it requests `name`.
    pub fn hear(
        &mut self,
        name: &str,
        (from, to): (IpAddr, IpAddr),
        rules: &DomainTable<String>,
        now: Instant,
    ) -> Lesson {
        let mut lesson = Lesson::default();
        let Ok(name) = name.parse::<DomainName>() else { return lesson };
        let Some((owners, labels)) = rules.owners(&name) else { return lesson };
        let place = LearntAddress { address: to, asked_by: Some(from) };
        let claim = Claim { name, rules: owners, labels, until: now + ASKED };
        let fresh = self.places.get(&place).into_iter().flatten().any(|known| {
            (&known.name, &known.rules) == (&claim.name, &claim.rules)
                && known.until > now + ASKED / 2
        });
        if !fresh {
            self.claim(place, claim, now, &mut lesson);
        }
        lesson
    }

    /// The rules whose domains currently have this address, for a client with one of these
    /// addresses.
    pub fn rules_of(&self, address: IpAddr, clients: &[IpAddr], now: Instant) -> Vec<String> {
        let of = |asked_by| strongest(self.places.get(&LearntAddress { address, asked_by })?, now);
        let asked: Vec<&Claim> = clients.iter().filter_map(|client| of(Some(*client))).collect();
        // What the client itself requested takes precedence over DNS answers.
        let claims = if asked.is_empty() { of(None).into_iter().collect() } else { asked };
        claims.into_iter().flat_map(|claim| claim.rules.clone()).collect()
    }

    fn claim(&mut self, place: LearntAddress, claim: Claim, now: Instant, lesson: &mut Lesson) {
        self.make_room(now);
        let address = place.address;
        let claims = self.places.entry(place).or_default();
        let before = strongest(claims, now).cloned();
        let new = !claims.iter().any(|known| known.name == claim.name);
        claims.retain(|known| known.until > now && known.name != claim.name);
        if let Some(other) = claims.iter().find(|known| new && known.rules != claim.rules) {
            lesson.conflicts.push(format!(
                "{} and {} share the address {address}, but match different rules ({}; {}): the \
                 rule of the more specific name applies",
                other.name.as_str(),
                claim.name.as_str(),
                other.rules.join(", "),
                claim.rules.join(", "),
            ));
        }
        claims.truncate(MOST_CLAIMS - 1);
        claims.push(claim);
        let Some(after) = strongest(claims, now) else { return };
        for rule in before.iter().flat_map(|claim| &claim.rules) {
            if !after.rules.contains(rule) {
                lesson.remove.push((rule.clone(), place));
            }
        }
        let left = after.until.saturating_duration_since(now);
        lesson.add.extend(after.rules.iter().map(|rule| (rule.clone(), place, left)));
    }

    fn make_room(&mut self, now: Instant) {
        if self.places.len() < MOST_ADDRESSES {
            return;
        }
        self.places.retain(|_, claims| claims.iter().any(|claim| claim.until > now));
        let last = |claims: &Vec<Claim>| claims.iter().map(|claim| claim.until).max();
        while self.places.len() >= MOST_ADDRESSES {
            let Some((&first, _)) = self.places.iter().min_by_key(|(_, claims)| last(claims))
            else {
                return;
            };
            self.places.remove(&first);
        }
    }
}

/// The most specific; the first of equals.
fn strongest(claims: &[Claim], now: Instant) -> Option<&Claim> {
    let living = claims.iter().filter(|claim| claim.until > now);
    living.rev().max_by_key(|claim| claim.labels)
}

type Addresses = Vec<(IpAddr, Duration)>;

/// The requested name, the names that it is an alias of, and the addresses.
fn read(answer: &[u8]) -> Option<(Vec<DomainName>, Addresses)> {
    let packet = Packet::parse(answer).ok()?;
    if !packet.has_flags(PacketFlag::RESPONSE) || packet.rcode() != RCODE::NoError {
        return None;
    }
    let mut names: Vec<DomainName> = Vec::new();
    names.extend(packet.questions.first()?.qname.to_string().parse::<DomainName>().ok());
    let (mut addresses, mut ttl) = (Vec::new(), u32::MAX);
    for record in packet.answers.iter().take(MOST_ANSWERS) {
        // A chain of aliases lives as long as its shortest-lived part.
        ttl = ttl.min(record.ttl);
        let lasts = Duration::from_secs(ttl.into());
        match &record.rdata {
            RData::A(a) => addresses.push((IpAddr::from(a.address.to_be_bytes()), lasts)),
            RData::AAAA(a) => addresses.push((IpAddr::from(a.address.to_be_bytes()), lasts)),
            RData::CNAME(target) => {
                names.extend(target.0.to_string().parse::<DomainName>().ok());
            }
            _ => {}
        }
    }
    // These are not addresses of servers.
    addresses.retain(|(address, _)| {
        !address.is_loopback() && !address.is_unspecified() && !address.is_multicast()
    });
    Some((names, addresses))
}

#[cfg(test)]
mod tests {
    use super::*;
    use simple_dns::rdata::{A, CNAME};
    use simple_dns::{CLASS, Name, QCLASS, QTYPE, Question, ResourceRecord, TYPE};

    fn answer(names: &[&str], address: [u8; 4], ttl: u32) -> Vec<u8> {
        let mut packet = Packet::new_reply(7);
        let name = |text: &str| Name::new(text).unwrap().into_owned();
        let class = QCLASS::CLASS(CLASS::IN);
        packet.questions.push(Question::new(name(names[0]), QTYPE::TYPE(TYPE::A), class, false));
        for pair in names.windows(2) {
            let target = RData::CNAME(CNAME(name(pair[1])));
            packet.answers.push(ResourceRecord::new(name(pair[0]), CLASS::IN, ttl, target));
        }
        let last = name(names[names.len() - 1]);
        let data = RData::A(A { address: u32::from_be_bytes(address) });
        packet.answers.push(ResourceRecord::new(last, CLASS::IN, ttl, data));
        packet.build_bytes_vec().unwrap()
    }

    fn rules(patterns: &[(&str, &str)]) -> DomainTable<String> {
        let mut table = DomainTable::default();
        for (pattern, rule) in patterns {
            table.insert(pattern.parse().unwrap(), (*rule).to_owned());
        }
        table
    }

    fn added(lesson: &Lesson) -> Vec<(&str, String, u64)> {
        let add = lesson.add.iter();
        add.map(|(rule, place, left)| (rule.as_str(), place.address.to_string(), left.as_secs()))
            .collect()
    }

    #[test]
    fn addresses_of_a_name_and_of_what_it_is_another_name_of_are_learnt() {
        let (mut learnt, now) = (Learnt::default(), Instant::now());
        let rules = rules(&[("bank.example", "bank"), ("cdn.example", "cdn")]);
        let lesson = learnt.learn(&answer(&["www.bank.example"], [192, 0, 2, 1], 60), &rules, now);
        assert_eq!(added(&lesson), [("bank", "192.0.2.1".into(), 360)]);
        let chain = answer(&["shop.example", "x.cdn.example"], [192, 0, 2, 2], 60);
        assert_eq!(added(&learnt.learn(&chain, &rules, now)), [("cdn", "192.0.2.2".into(), 360)]);
        let chain = answer(&["bank.example", "x.cdn.example"], [192, 0, 2, 3], 60);
        let asked = learnt.learn(&chain, &rules, now);
        assert_eq!(added(&asked), [("bank", "192.0.2.3".into(), 360)], "what was asked for");
        assert_eq!(
            learnt.learn(&answer(&["other.example"], [192, 0, 2, 4], 60), &rules, now),
            Lesson::default()
        );
        assert_eq!(
            learnt.learn(&answer(&["bank.example"], [127, 0, 0, 1], 60), &rules, now),
            Lesson::default()
        );
        let known = |number: u8, after| {
            let address = IpAddr::from([192, 0, 2, number]);
            learnt.rules_of(address, &[], now + Duration::from_secs(after))
        };
        assert_eq!([1, 2, 3].map(|number| known(number, 359)[0].clone()), ["bank", "cdn", "bank"]);
        assert_eq!([1, 2, 3].map(|number| known(number, 361).len()), [0; 3]);
    }

    #[test]
    fn of_names_that_share_an_address_the_narrower_counts_and_that_is_told() {
        let (mut learnt, now) = (Learnt::default(), Instant::now());
        let rules = rules(&[("a.example", "wide"), ("x.y.b.example", "narrow")]);
        let shared = [192, 0, 2, 9];
        let first = learnt.learn(&answer(&["a.example"], shared, 60), &rules, now);
        assert!(first.conflicts.is_empty());
        let second = learnt.learn(&answer(&["x.y.b.example"], shared, 60), &rules, now);
        assert_eq!(second.conflicts.len(), 1, "{second:?}");
        assert_eq!(added(&second), [("narrow", "192.0.2.9".into(), 360)]);
        let everybody = LearntAddress { address: shared.into(), asked_by: None };
        assert_eq!(second.remove, [("wide".to_owned(), everybody)]);
        let again = learnt.learn(&answer(&["a.example"], shared, 60), &rules, now);
        assert_eq!(added(&again), [("narrow", "192.0.2.9".into(), 360)]);
        assert!(again.conflicts.is_empty(), "told once");
        let later = now + Duration::from_secs(400);
        let alone = learnt.learn(&answer(&["a.example"], shared, 60), &rules, later);
        assert_eq!(added(&alone), [("wide", "192.0.2.9".into(), 360)]);
    }

    #[test]
    fn what_a_client_asks_for_counts_for_it_alone() {
        let (mut learnt, now) = (Learnt::default(), Instant::now());
        let rules = rules(&[("bank.example", "bank"), ("cdn.example", "cdn")]);
        let [client, other, server] =
            ["192.168.7.2", "192.168.7.3", "192.0.2.1"].map(|text| text.parse::<IpAddr>().unwrap());
        let ends = (client, server);
        let lesson = learnt.hear("www.bank.example", ends, &rules, now);
        let place = LearntAddress { address: server, asked_by: Some(client) };
        assert_eq!(lesson.add, [("bank".to_owned(), place, ASKED)]);
        assert_eq!(learnt.rules_of(server, &[client], now), ["bank"]);
        assert_eq!(learnt.rules_of(server, &[other], now), [""; 0]);
        let again = |learnt: &mut Learnt, after| {
            learnt.hear("www.bank.example", ends, &rules, now + after).add.len()
        };
        assert_eq!(again(&mut learnt, Duration::from_secs(60)), 0, "known already");
        assert_eq!(again(&mut learnt, ASKED / 2 + Duration::from_secs(60)), 1, "it goes on");
        assert_eq!(learnt.hear("other.example", ends, &rules, now), Lesson::default());
        assert_eq!(learnt.hear("..", ends, &rules, now), Lesson::default(), "no name");
        let conflict = learnt.hear("cdn.example", ends, &rules, now);
        assert_eq!(conflict.conflicts.len(), 1, "{conflict:?}");
    }

    #[test]
    fn a_broken_answer_teaches_nothing_and_harms_nobody() {
        let (mut learnt, now) = (Learnt::default(), Instant::now());
        let rules = rules(&[("bank.example", "bank")]);
        let whole = answer(&["bank.example", "x.example"], [192, 0, 2, 1], 60);
        for length in 0..whole.len() {
            learnt.learn(&whole[..length], &rules, now);
        }
        let mut question = whole.clone();
        question[2] &= 0x7f;
        assert_eq!(learnt.learn(&question, &rules, now), Lesson::default(), "a question");
    }
}
