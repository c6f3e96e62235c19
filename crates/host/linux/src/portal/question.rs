//! Requests over one link, bypassing the tunnel and the host's routes.

use crate::resolv_conf::name_servers;
use crate::udp::Family;
use simple_dns::rdata::RData;
use simple_dns::{CLASS, Name, Packet, PacketFlag, QCLASS, QTYPE, Question as Asked, TYPE};
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

/// How requests leave.
#[derive(Clone, Debug)]
pub struct Question {
    /// The link's device.
    pub device: Option<String>,
    /// The link's address.
    pub source: Option<IpAddr>,
    /// The firewall mark that selects the link.
    pub mark: Option<u32>,
    /// The IP version to use.
    pub family: Family,
}

/// Timeout of each step.
const PATIENCE: Duration = Duration::from_secs(4);
/// How much of an answer is read: its head.
const MOST: u64 = 8 << 10;

impl Question {
    /// An address reserved for documentation, which no server has (RFC 5737, RFC 3849).
    pub fn target(&self) -> IpAddr {
        match self.family {
            Family::V4 => Ipv4Addr::new(192, 0, 2, 1).into(),
            Family::V6 => Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into(),
        }
    }

    /// Requests a page and returns the answer.
    ///
    /// # Errors
    /// The system's error; a timeout if no answer came.
    pub fn fetch(&self) -> io::Result<Vec<u8>> {
        let to = SocketAddr::new(self.target(), 80);
        let socket = self.socket(Type::STREAM, Protocol::TCP)?;
        socket.connect_timeout(&to.into(), PATIENCE)?;
        let mut stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        write!(stream, "GET / HTTP/1.1\r\nHost: {to}\r\nConnection: close\r\n\r\n")?;
        let mut answer = Vec::new();
        // A server that keeps the connection open has already sent the head.
        let read = stream.take(MOST).read_to_end(&mut answer);
        if answer.is_empty() {
            read?;
        }
        Ok(answer)
    }

    /// Resolves a name with the host's name servers over this link.
    pub fn look_up(&self, name: &str) -> Vec<IpAddr> {
        let servers = name_servers().into_iter();
        let servers = servers.filter(|server| Family::of(*server) == self.family);
        let found = servers.map(|server| self.ask(server, name).unwrap_or_default());
        found.into_iter().find(|found| !found.is_empty()).unwrap_or_default()
    }

    /// The first of these name servers that answers over this link, whatever it answers. `None` may
    /// also mean that they belong to another link or the tunnel.
    pub fn answering(&self, servers: &[IpAddr]) -> Option<IpAddr> {
        let servers = servers.iter().filter(|server| Family::of(**server) == self.family);
        // Asks for the root, which reveals nothing about the user.
        servers.copied().find(|server| self.ask(*server, ".").is_ok())
    }

    fn ask(&self, server: IpAddr, name: &str) -> io::Result<Vec<IpAddr>> {
        let kind = match self.family {
            Family::V4 => TYPE::A,
            Family::V6 => TYPE::AAAA,
        };
        let mut query = Packet::new_query(1);
        query.set_flags(PacketFlag::RECURSION_DESIRED);
        let name = Name::new(name).map_err(io::Error::other)?;
        let class = QCLASS::CLASS(CLASS::IN);
        query.questions.push(Asked::new(name, QTYPE::TYPE(kind), class, false));
        let query = query.build_bytes_vec().map_err(io::Error::other)?;
        let socket = self.socket(Type::DGRAM, Protocol::UDP)?;
        socket.connect(&SocketAddr::new(server, 53).into())?;
        let socket = UdpSocket::from(socket);
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.send(&query)?;
        let mut bytes = [0; 1500];
        let length = socket.recv(&mut bytes)?;
        let answer = Packet::parse(bytes.get(..length).unwrap_or_default());
        let answer = answer.map_err(io::Error::other)?;
        let addresses = answer.answers.iter().filter_map(|record| match &record.rdata {
            RData::A(a) => Some(IpAddr::from(a.address.to_be_bytes())),
            RData::AAAA(a) => Some(IpAddr::from(a.address.to_be_bytes())),
            _ => None,
        });
        Ok(addresses.collect())
    }

    fn socket(&self, kind: Type, protocol: Protocol) -> io::Result<Socket> {
        let socket = Socket::new(
            Domain::for_address(SocketAddr::new(self.target(), 0)),
            kind,
            Some(protocol),
        )?;
        if let Some(mark) = self.mark {
            socket.set_mark(mark)?;
        }
        if let Some(device) = &self.device {
            socket.bind_device(Some(device.as_bytes()))?;
        }
        if let Some(source) = self.source.filter(|source| Family::of(*source) == self.family) {
            socket.bind(&SocketAddr::new(source, 0).into())?;
        }
        Ok(socket)
    }
}
