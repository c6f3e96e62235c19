//! Queries several name servers at once, by DNS over UDP (RFC 1035). Answers aren't trusted more
//! than any resolver's: the tunnel's handshake verifies that an address is the concentrator's.

use super::Server;
use simple_dns::rdata::RData;
use simple_dns::{CLASS, Name, Packet, PacketFlag, QCLASS, QTYPE, Question, RCODE, TYPE};
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// A server's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// An answer, perhaps that there is no such name; with these addresses.
    Answered(Vec<IpAddr>),
    /// No answer in time, or a failure.
    Failed,
}

/// Timeout for an answer; a recursive resolver sometimes takes a second.
const PATIENCE: Duration = Duration::from_millis(1500);
/// Retransmission interval, as a datagram may be lost.
const AGAIN: Duration = Duration::from_millis(500);
const PORT: u16 = 53;
/// Maximum size of answers over UDP without extensions.
const LONGEST: usize = 512;
/// Maximum addresses of a name.
const MOST: usize = 16;

/// Asks all these servers for the addresses of a name, and returns each one's answer. Takes at most
/// [`PATIENCE`].
pub fn look_up(name: &str, servers: &[Server]) -> Vec<Asked> {
    let types: &[TYPE] = if name.is_empty() { &[TYPE::NS] } else { &[TYPE::A, TYPE::AAAA] };
    let mut open: Vec<Conversation> = servers
        .iter()
        .enumerate()
        .flat_map(|(at, server)| types.iter().map(move |kind| (at, server, *kind)))
        .filter_map(|(at, server, kind)| Conversation::open(at, server, name, kind).ok())
        .collect();
    let mut found = vec![None; servers.len()];
    let begun = Instant::now();
    let mut asked = 0;
    while !open.is_empty() && begun.elapsed() < PATIENCE {
        if begun.elapsed() >= AGAIN * asked {
            asked += 1;
            for conversation in &open {
                conversation.ask();
            }
        }
        open.retain(|conversation| match conversation.hear() {
            None => true,
            Some(answer) => {
                if let Some(found) = found.get_mut(conversation.server) {
                    let known: &mut Option<Asked> = found;
                    *known = Some(merge(known.take(), answer));
                }
                false
            }
        });
        std::thread::sleep(Duration::from_millis(5));
    }
    found.into_iter().map(|answer| answer.unwrap_or(Asked::Failed)).collect()
}

fn merge(known: Option<Asked>, new: Asked) -> Asked {
    match (known, new) {
        (Some(Asked::Answered(mut all)), Asked::Answered(more)) => {
            all.extend(more);
            Asked::Answered(all)
        }
        (Some(Asked::Answered(all)), Asked::Failed) => Asked::Answered(all),
        (_, new) => new,
    }
}

/// One query to one server.
struct Conversation {
    server: usize,
    socket: UdpSocket,
    id: u16,
    query: Vec<u8>,
    question: Question<'static>,
}

impl Conversation {
    fn open(at: usize, server: &Server, name: &str, kind: TYPE) -> io::Result<Conversation> {
        let malformed = |error| io::Error::new(io::ErrorKind::InvalidInput, error);
        let name = Name::new(name).map_err(malformed)?.into_owned();
        let (question, id) =
            (Question::new(name, QTYPE::TYPE(kind), QCLASS::CLASS(CLASS::IN), false), id()?);
        let mut packet = Packet::new_query(id);
        packet.set_flags(PacketFlag::RECURSION_DESIRED);
        packet.questions.push(question.clone());
        let query = packet.build_bytes_vec().map_err(malformed)?;
        Ok(Conversation { server: at, socket: socket(server)?, id, query, question })
    }

    /// A query that can't be sent gets no answer.
    fn ask(&self) {
        if let Err(error) = self.socket.send(&self.query) {
            tracing::debug!(%error, "asking a name server");
        }
    }

    /// `None` as long as no answer to this query has come.
    fn hear(&self) -> Option<Asked> {
        let mut bytes = [0; LONGEST];
        let length = match self.socket.recv(&mut bytes) {
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                return Some(Asked::Failed);
            }
            Err(_) => return None,
        };
        self.understand(bytes.get(..length)?)
    }

    fn understand(&self, bytes: &[u8]) -> Option<Asked> {
        let packet = Packet::parse(bytes).ok()?;
        let ours = packet.id() == self.id
            && packet.has_flags(PacketFlag::RESPONSE)
            && packet.questions.first().is_some_and(|question| {
                question.qtype == self.question.qtype
                    && same_name(&question.qname, &self.question.qname)
            });
        if !ours {
            return None;
        }
        if !matches!(packet.rcode(), RCODE::NoError | RCODE::NameError) {
            return Some(Asked::Failed);
        }
        let addresses = packet.answers.iter().filter_map(|answer| match &answer.rdata {
            RData::A(a) => Some(IpAddr::from(a.address.to_be_bytes())),
            RData::AAAA(aaaa) => Some(IpAddr::from(aaaa.address.to_be_bytes())),
            _ => None,
        });
        Some(Asked::Answered(addresses.take(MOST).collect()))
    }
}

fn same_name(one: &Name<'_>, other: &Name<'_>) -> bool {
    one.to_string().eq_ignore_ascii_case(&other.to_string())
}

fn id() -> io::Result<u16> {
    let mut bytes = [0; 2];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(u16::from_be_bytes(bytes))
}

/// Connected, so that only the server is heard; the kernel chooses the port.
fn socket(server: &Server) -> io::Result<UdpSocket> {
    let remote = SocketAddr::new(server.address, PORT);
    let socket = Socket::new(Domain::for_address(remote), Type::DGRAM, Some(Protocol::UDP))?;
    if let Some(mark) = server.mark {
        socket.set_mark(mark)?;
    }
    if let Some(device) = &server.device {
        socket.bind_device(Some(device.as_bytes()))?;
    }
    socket.set_nonblocking(true)?;
    socket.connect(&remote.into())?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conversation(name: &str) -> Conversation {
        let server = Server { address: "127.0.0.1".parse().unwrap(), device: None, mark: None };
        Conversation::open(0, &server, name, TYPE::A).unwrap()
    }

    fn reply(to: &Conversation, change: impl FnOnce(&mut Packet<'_>)) -> Vec<u8> {
        let mut packet = Packet::new_reply(to.id);
        packet.questions.push(to.question.clone());
        let record = simple_dns::ResourceRecord::new(
            to.question.qname.clone(),
            CLASS::IN,
            60,
            RData::A(simple_dns::rdata::A { address: 0xcb00_7109 }),
        );
        packet.answers.push(record);
        change(&mut packet);
        packet.build_bytes_vec().unwrap()
    }

    #[test]
    fn only_an_answer_to_the_question_counts() {
        let asked = conversation("vpn.example.org");
        let address: IpAddr = "203.0.113.9".parse().unwrap();
        let answered = Some(Asked::Answered(vec![address]));
        assert_eq!(asked.understand(&reply(&asked, |_| {})), answered);
        let refused = reply(&asked, |packet| *packet.rcode_mut() = RCODE::ServerFailure);
        assert_eq!(asked.understand(&refused), Some(Asked::Failed));
        let other = conversation("vpn.example.net");
        assert_eq!(asked.understand(&reply(&other, |_| {})), None, "another question");
        assert_eq!(asked.understand(&asked.query), None, "no answer at all");
        let mut of_another = reply(&asked, |_| {});
        of_another[0] ^= 1;
        assert_eq!(asked.understand(&of_another), None, "another number");
        for length in 0..of_another.len() {
            asked.understand(&of_another[..length]);
        }
    }
}
