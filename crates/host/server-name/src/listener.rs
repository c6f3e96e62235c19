//! Follows many connections' first packets for the names that they request.

use crate::client_hello::{Hello, of_handshake, of_records};
use crate::quic::initials;
use crate::stream::Stream;
use braid_inner::{Fragment, Headers, Ip, Layer};
use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// A client requested a server by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The client.
    pub from: IpAddr,
    /// The server.
    pub to: IpAddr,
    /// The name, in lower case.
    pub name: String,
}

/// Connections that have begun and not yet sent a name.
#[derive(Debug, Default)]
pub struct Listener {
    beginnings: HashMap<Ends, Beginning>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Ends {
    from: (IpAddr, u16),
    to: (IpAddr, u16),
    is_tcp: bool,
}

#[derive(Debug)]
struct Beginning {
    since: Instant,
    /// TCP: the sequence number of the stream's first byte.
    first: Option<u32>,
    /// QUIC: the connection ID of the first packet.
    id: Option<Vec<u8>>,
    stream: Stream,
    /// Its name is known, or it sends none.
    over: bool,
}

/// Maximum connections followed at a time; if there are more, the oldest are dropped.
const MOST: usize = 512;
/// A client that hasn't sent a name by then won't send one.
const PATIENCE: Duration = Duration::from_secs(15);
const TCP: u8 = 6;
const UDP: u8 = 17;
const SYN: u8 = 0x02;

impl Listener {
    /// Takes a client's IP packet, which may be truncated. Returns the requested name once per
    /// connection.
    pub fn hear(&mut self, packet: &[u8], now: Instant) -> Option<Asked> {
        let ip = Headers::parse(packet, Layer::L3).ip?;
        if ip.fragment != Fragment::Whole {
            return None;
        }
        let transport = packet.get(ip.transport..ip.end)?;
        let ports: [u8; 4] = *transport.first_chunk()?;
        let [from, to] = [[ports[0], ports[1]], [ports[2], ports[3]]].map(u16::from_be_bytes);
        let is_tcp = ip.protocol == TCP;
        let ends = Ends { from: (ip.src, from), to: (ip.dst, to), is_tcp };
        let name = match ip.protocol {
            TCP => self.hear_tcp(ends, transport, now)?,
            UDP => self.hear_quic(ends, transport.get(8..)?, now)?,
            _ => return None,
        };
        let Ip { src, dst, .. } = ip;
        Some(Asked { from: src, to: dst, name })
    }

    fn hear_tcp(&mut self, ends: Ends, segment: &[u8], now: Instant) -> Option<String> {
        let sequence = u32::from_be_bytes(*segment.get(4..)?.first_chunk()?);
        let header = usize::from(segment.get(12)? >> 4) * 4;
        let begins = segment.get(13)? & SYN != 0;
        let payload = segment.get(header..)?;
        if begins {
            // A SYN with the same ports starts another connection.
            self.beginnings.remove(&ends);
        }
        let beginning = self.beginning(ends, now);
        let sequence = if begins { sequence.wrapping_add(1) } else { sequence };
        if begins {
            beginning.first = Some(sequence);
        }
        if beginning.over || payload.is_empty() {
            return None;
        }
        let first = *beginning.first.get_or_insert(sequence);
        let offset = usize::try_from(sequence.wrapping_sub(first)).ok()?;
        let grown = beginning.stream.insert(offset, payload);
        grown.then(|| beginning.outcome(of_records))?
    }

    fn hear_quic(&mut self, ends: Ends, datagram: &[u8], now: Instant) -> Option<String> {
        let packets = initials(datagram);
        let newest = packets.first()?.to;
        let beginning = self.beginning(ends, now);
        if beginning.over {
            return None;
        }
        let first = beginning.id.get_or_insert_with(|| newest.to_vec()).clone();
        let mut grown = false;
        for packet in &packets {
            // Keys stay while the client takes on the server's ID; after a Retry they follow
            // from the new one (RFC 9001, section 5.2).
            let pieces = packet.handshake(&first).or_else(|| packet.handshake(packet.to));
            for (offset, piece) in pieces.unwrap_or_default() {
                grown |= beginning.stream.insert(offset, &piece);
            }
        }
        grown.then(|| beginning.outcome(of_handshake))?
    }

    fn beginning(&mut self, ends: Ends, now: Instant) -> &mut Beginning {
        if !self.beginnings.contains_key(&ends) && self.beginnings.len() >= MOST {
            let lasts = |it: &Beginning| now.saturating_duration_since(it.since) < PATIENCE;
            self.beginnings.retain(|_, beginning| lasts(beginning));
            if self.beginnings.len() >= MOST
                && let Some(oldest) =
                    self.beginnings.iter().min_by_key(|(_, it)| it.since).map(|(ends, _)| *ends)
            {
                self.beginnings.remove(&oldest);
            }
        }
        let new = || Beginning {
            since: now,
            first: None,
            id: None,
            stream: Stream::default(),
            over: false,
        };
        self.beginnings.entry(ends).or_insert_with(new)
    }
}

impl Beginning {
    fn outcome(&mut self, read: fn(&[u8]) -> Hello) -> Option<String> {
        match read(self.stream.beginning()) {
            Hello::Unfinished => None,
            found => {
                self.over = true;
                self.stream = Stream::default();
                match found {
                    Hello::For(name) => Some(name),
                    Hello::Unfinished | Hello::Nameless => None,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client_hello::tests::records;
    use crate::quic::tests::{crypto, hello, seal};
    use rustls::quic::Version;

    fn v4(protocol: u8, transport: &[u8]) -> Vec<u8> {
        let length = (20 + transport.len()) as u16;
        let [high, low] = length.to_be_bytes();
        let head = [0x45, 0, high, low, 0, 0, 0, 0, 64, protocol, 0, 0];
        [&head[..], &[192, 168, 7, 2], &[192, 0, 2, 1], transport].concat()
    }

    fn tcp(port: u16, sequence: u32, flags: u8, payload: &[u8]) -> Vec<u8> {
        let mut segment = [port.to_be_bytes(), 443_u16.to_be_bytes()].concat();
        segment.extend(sequence.to_be_bytes());
        segment.extend([0, 0, 0, 0, 0x50, flags, 0, 0, 0, 0, 0, 0]);
        segment.extend(payload);
        v4(TCP, &segment)
    }

    fn udp(payload: &[u8]) -> Vec<u8> {
        let [high, low] = ((8 + payload.len()) as u16).to_be_bytes();
        v4(UDP, &[&[0x30, 0x39, 1, 0xbb, high, low, 0, 0], payload].concat())
    }

    fn bank() -> Option<Asked> {
        let (from, to) = ([192, 168, 7, 2].into(), [192, 0, 2, 1].into());
        Some(Asked { from, to, name: "bank.example".into() })
    }

    #[test]
    fn segments_in_any_order_are_put_together_and_told_once() {
        let (mut listener, now) = (Listener::default(), Instant::now());
        let bytes = records("bank.example");
        let (one, two) = bytes.split_at(40);
        let start = u32::MAX - 10;
        let mut hear = |packet: &[u8]| listener.hear(packet, now);
        assert_eq!(hear(&tcp(1, start, SYN, b"")), None);
        let data = start.wrapping_add(1);
        assert_eq!(hear(&tcp(1, data.wrapping_add(40), 0, two)), None, "its beginning is missing");
        assert_eq!(hear(&tcp(1, data, 0, one)), bank());
        assert_eq!(hear(&tcp(1, data, 0, one)), None, "once");
        assert_eq!(hear(&tcp(1, 77, SYN, b"")), None);
        assert_eq!(hear(&tcp(1, 78, 0, &bytes)), bank(), "another one by the same ports");
        assert_eq!(hear(&tcp(2, 5, 0, &bytes)), bank(), "its first packet wasn't seen");
        assert_eq!(hear(&tcp(3, 5, 0, b"SSH-2.0-x\r\n")), None);
    }

    #[test]
    fn a_hello_over_two_datagrams_is_put_together() {
        let (mut listener, now) = (Listener::default(), Instant::now());
        let bytes = hello("bank.example");
        let (one, two) = bytes.split_at(60);
        let seal = |id: &[u8], number, frames: Vec<u8>| seal(Version::V1, id, number, &frames);
        // The second comes first; keys are the same.
        let late = udp(&seal(&[3; 8], 1, crypto(60, two)));
        assert_eq!(listener.hear(&late, now), None);
        let early = udp(&seal(&[3; 8], 0, crypto(0, one)));
        assert_eq!(listener.hear(&early, now), bank());
        let mut other = Listener::default();
        let sent_at_once = [seal(&[3; 8], 0, crypto(0, one)), seal(&[3; 8], 1, crypto(60, two))];
        assert_eq!(other.hear(&udp(&sent_at_once.concat()), now), bank());
    }

    #[test]
    fn who_never_says_anything_takes_no_room() {
        let (mut listener, now) = (Listener::default(), Instant::now());
        for port in 0..2000 {
            listener.hear(&tcp(port, 1, SYN, b""), now);
        }
        assert_eq!(listener.beginnings.len(), MOST);
        listener.hear(&tcp(3000, 1, SYN, b""), now + PATIENCE);
        assert_eq!(listener.beginnings.len(), 1);
    }

    proptest::proptest! {
        #[test]
        fn anything_is_heard(packets: Vec<Vec<u8>>, cut in 0_usize..400) {
            let (mut listener, now) = (Listener::default(), Instant::now());
            for packet in &packets {
                listener.hear(packet, now);
                listener.hear(&tcp(1, 1, 0, packet), now);
                listener.hear(&udp(packet), now);
            }
            let whole = tcp(9, 1, 0, &records("bank.example"));
            listener.hear(&whole[..cut.min(whole.len())], now);
        }
    }
}
