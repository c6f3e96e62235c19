//! A cache of DNS answers, byte by byte as they came.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Cached answers by question, bounded.
#[derive(Clone, Debug, Default)]
pub struct Answers {
    known: HashMap<Vec<u8>, Answer>,
}

#[derive(Clone, Debug)]
struct Answer {
    bytes: Vec<u8>,
    /// Offsets of its TTLs.
    ttls: Vec<usize>,
    at: Instant,
    until: Instant,
}

/// A DNS message, as far as it is parsed here (RFC 1035, section 4.1).
struct Message {
    /// The end of its only question.
    question_end: usize,
    /// Offsets of its records' TTLs, except those that mean something else.
    ttls: Vec<usize>,
    /// Seconds for which all of it is valid.
    lasts: u32,
}

const HEADER: usize = 12;
/// Maximum number of answers kept.
const MOST: usize = 4096;
/// A longer one isn't kept.
const LONGEST: usize = 4096;
/// Maximum lifetime, which bounds how long answers of another network's servers are used. RFC 2308,
/// section 5, suggests 1 to 3 hours for negative answers.
const MOST_TTL: u32 = 3600;
const SOA: u16 = 6;
/// RFC 6891: its TTL field contains flags.
const OPT: u16 = 41;

impl Answers {
    /// The cached answer to the same question, with the question's id and spelling, and TTLs
    /// reduced by its age.
    pub fn get(&self, question: &[u8], now: Instant) -> Option<Vec<u8>> {
        let (key, end) = key(question)?;
        let answer = self.known.get(&key).filter(|answer| answer.until > now)?;
        let mut bytes = answer.bytes.clone();
        bytes.get_mut(..2)?.copy_from_slice(question.get(..2)?);
        bytes.get_mut(HEADER..end)?.copy_from_slice(question.get(HEADER..end)?);
        let age = now.saturating_duration_since(answer.at).as_secs();
        let age = u32::try_from(age).unwrap_or(u32::MAX);
        for &at in &answer.ttls {
            let ttl = bytes.get_mut(at..at + 4)?;
            let left = u32::from_be_bytes(*ttl.first_chunk()?).saturating_sub(age);
            ttl.copy_from_slice(&left.to_be_bytes());
        }
        Some(bytes)
    }

    /// Keeps an answer for as long as its TTLs say.
    pub fn put(&mut self, question: &[u8], answer: &[u8], now: Instant) {
        let Some((key, end)) = key(question) else { return };
        let same = |a: Option<&[u8]>, b: Option<&[u8]>| match (a, b) {
            (Some(a), Some(b)) => a.eq_ignore_ascii_case(b),
            _ => false,
        };
        let Some(message) = answer_to_keep(answer) else { return };
        if message.question_end != end
            || !same(answer.get(HEADER..end), question.get(HEADER..end))
            || message.lasts == 0
        {
            return;
        }
        if self.known.len() >= MOST {
            self.known.retain(|_, answer| answer.until > now);
        }
        if self.known.len() >= MOST {
            self.known.clear();
        }
        let until = now + Duration::from_secs(message.lasts.into());
        let kept = Answer { bytes: answer.to_vec(), ttls: message.ttls, at: now, until };
        self.known.insert(key, kept);
    }

    /// Forgets all: other servers may answer differently.
    pub fn clear(&mut self) {
        self.known.clear();
    }
}

/// A question without its id, in lower case; and where its name and type end. Everything else
/// counts, such as DNSSEC flags and the maximum answer size.
fn key(question: &[u8]) -> Option<(Vec<u8>, usize)> {
    // A standard query (OPCODE 0) with one question and no answer.
    let is_query = question.get(2)? & 0xf8 == 0;
    let counts = question.get(4..10)?;
    if !is_query || counts != [0, 1, 0, 0, 0, 0] || question.len() > 512 {
        return None;
    }
    let end = skip_name(question, HEADER)? + 4;
    let mut key = question.to_vec();
    key.get_mut(..2)?.fill(0);
    key.get_mut(HEADER..end)?.make_ascii_lowercase();
    Some((key, end))
}

/// `None` for answers that aren't kept: truncated, failed, or not understood.
fn answer_to_keep(answer: &[u8]) -> Option<Message> {
    let (flags, code) = (*answer.get(2)?, answer.get(3)? & 0x0f);
    let (is_answer, is_truncated) = (flags & 0x80 != 0, flags & 0x02 != 0);
    let negative = match code {
        0 => be16(answer, 6)? == 0,
        // No such name (NXDOMAIN).
        3 => true,
        _ => return None,
    };
    if !is_answer || is_truncated || be16(answer, 4)? != 1 || answer.len() > LONGEST {
        return None;
    }
    let question_end = skip_name(answer, HEADER)? + 4;
    let records = [6, 8, 10]
        .map(|at| be16(answer, at))
        .into_iter()
        .try_fold(0, |sum, count| Some(sum + usize::from(count?)))?;
    let (mut at, mut ttls) = (question_end, Vec::new());
    // Without an SOA a negative answer has no lifetime.
    let (mut lasts, mut authority) = (MOST_TTL, !negative);
    for _ in 0..records {
        let fields = skip_name(answer, at)?;
        let (kind, ttl) = (be16(answer, fields)?, be32(answer, fields + 4)?);
        let data = fields + 10;
        at = data + usize::from(be16(answer, fields + 8)?);
        if kind == OPT {
            continue;
        }
        ttls.push(fields + 4);
        lasts = lasts.min(ttl);
        if negative && kind == SOA {
            // MINIMUM is its last field (RFC 2308, section 4).
            lasts = lasts.min(be32(answer, at.checked_sub(4)?)?);
            authority = true;
        }
    }
    (authority && at <= answer.len()).then_some(Message { question_end, ttls, lasts })
}

/// Where what follows a name begins.
fn skip_name(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match usize::from(*bytes.get(at)?) {
            0 => return Some(at + 1),
            // A pointer ends it.
            length if length & 0xc0 == 0xc0 => return Some(at + 2),
            length if length < 64 => at += 1 + length,
            _ => return None,
        }
    }
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use simple_dns::rdata::{A, RData, SOA};
    use simple_dns::{
        CLASS, Name, Packet, PacketFlag, QCLASS, QTYPE, Question, RCODE, ResourceRecord, TYPE,
    };

    fn name(text: &str) -> Name<'_> {
        Name::new(text).unwrap()
    }

    fn question(id: u16, asked: &str, flags: PacketFlag) -> Vec<u8> {
        let mut packet = Packet::new_query(id);
        packet.set_flags(flags);
        let (kind, class) = (QTYPE::TYPE(TYPE::A), QCLASS::CLASS(CLASS::IN));
        packet.questions.push(Question::new(name(asked), kind, class, false));
        packet.build_bytes_vec_compressed().unwrap()
    }

    fn answer(asked: &str, code: RCODE, ttls: &[u32]) -> Vec<u8> {
        let mut packet = Packet::new_reply(7);
        *packet.rcode_mut() = code;
        let (kind, class) = (QTYPE::TYPE(TYPE::A), QCLASS::CLASS(CLASS::IN));
        packet.questions.push(Question::new(name(asked), kind, class, false));
        for ttl in ttls {
            let data = RData::A(A { address: 0xc000_0201 });
            packet.answers.push(ResourceRecord::new(name(asked), CLASS::IN, *ttl, data));
        }
        if ttls.is_empty() {
            let data = SOA {
                mname: name("ns.example"),
                rname: name("a.example"),
                serial: 1,
                refresh: 2,
                retry: 3,
                expire: 4,
                minimum: 60,
            };
            let soa = ResourceRecord::new(name("example"), CLASS::IN, 900, RData::SOA(data));
            packet.name_servers.push(soa);
        }
        packet.build_bytes_vec_compressed().unwrap()
    }

    const RD: PacketFlag = PacketFlag::RECURSION_DESIRED;

    #[test]
    fn the_same_question_gets_the_same_answer_until_it_is_too_old() {
        let (mut answers, now) = (Answers::default(), Instant::now());
        let asked = question(7, "www.bank.example", RD);
        answers.put(&asked, &answer("www.bank.example", RCODE::NoError, &[300, 60]), now);
        let other = question(9, "WWW.bank.example", RD);
        let later = now + Duration::from_secs(20);
        let found = answers.get(&other, later).unwrap();
        let found = Packet::parse(&found).unwrap();
        assert_eq!((found.id(), found.answers.len()), (9, 2));
        let ttls: Vec<u32> = found.answers.iter().map(|record| record.ttl).collect();
        assert_eq!(ttls, [280, 40]);
        assert_eq!(found.questions[0].qname.to_string(), "WWW.bank.example");
        assert_eq!(answers.get(&asked, now + Duration::from_secs(60)), None);
        let unchecked = question(7, "www.bank.example", RD | PacketFlag::CHECKING_DISABLED);
        assert_eq!(answers.get(&unchecked, now), None, "DNSSEC is the asker's to ask for");
        answers.clear();
        assert_eq!(answers.get(&asked, now), None);
    }

    #[test]
    fn that_there_is_no_such_name_is_kept_for_as_long_as_its_zone_says() {
        let (mut answers, now) = (Answers::default(), Instant::now());
        let asked = question(7, "no.example", RD);
        answers.put(&asked, &answer("no.example", RCODE::NameError, &[]), now);
        assert!(answers.get(&asked, now + Duration::from_secs(59)).is_some());
        assert_eq!(answers.get(&asked, now + Duration::from_secs(60)), None);
    }

    #[test]
    fn what_failed_was_cut_off_or_is_for_something_else_is_not_kept() {
        let (mut answers, now) = (Answers::default(), Instant::now());
        let asked = question(7, "bank.example", RD);
        let good = answer("bank.example", RCODE::NoError, &[60]);
        let mut truncated = good.clone();
        truncated[2] |= 2;
        let failed = answer("bank.example", RCODE::ServerFailure, &[60]);
        let fleeting = answer("bank.example", RCODE::NoError, &[0, 60]);
        let others = answer("mail.example", RCODE::NoError, &[60]);
        for bad in [truncated, failed, fleeting, others] {
            answers.put(&asked, &bad, now);
            assert_eq!(answers.get(&asked, now), None);
        }
        for length in 0..good.len() {
            answers.put(&asked, &good[..length], now);
        }
        assert_eq!(answers.get(&asked, now), None);
        answers.put(&asked, &good, now);
        assert!(answers.get(&asked, now).is_some());
    }

    #[test]
    fn no_more_is_kept_than_there_is_room_for() {
        let (mut answers, now) = (Answers::default(), Instant::now());
        for number in 0..MOST + 10 {
            let name = format!("a{number}.example");
            answers.put(&question(7, &name, RD), &answer(&name, RCODE::NoError, &[60]), now);
        }
        assert!(answers.known.len() <= MOST);
    }
}
