use super::datagram::nanos;
use super::{GRACE, LOOK, Measured, Pings, Setting, only_waited, stamp};
use braid_inner::checksum;
use socket2::{Domain, Protocol, Socket, Type};
use std::collections::HashSet;
use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

/// ICMP types (RFC 792, RFC 4443).
const ECHO_REPLY_V4: u8 = 0;
const ECHO_REQUEST_V4: u8 = 8;
const ECHO_REQUEST_V6: u8 = 128;
const ECHO_REPLY_V6: u8 = 129;
/// ICMP header and the 56 bytes of ping(8), so that an IPv4 packet has 84 bytes.
const MESSAGE: usize = 8 + 56;

/// Echo requests from the home to the concentrator's kernel.
pub(super) fn run(interval: Duration, setting: &Setting<'_>) -> io::Result<Measured> {
    let socket = setting.home.run(|| open(setting.server, setting.source, setting.device))??;
    stamp::note_arrivals(&socket)?;
    let identifier = fresh_identifier();
    let mut pings = Pings::default();
    let mut answered = HashSet::new();
    let mut next = setting.start;
    if !setting.cancel.sleep_until(setting.start) {
        return Ok(Measured { pings: Some(pings), ..Measured::default() });
    }
    loop {
        let now = Instant::now();
        let sending = now < setting.stop;
        if setting.cancel.is_cancelled() || now >= setting.stop + GRACE {
            break;
        }
        if !sending && pings.lost() == 0 {
            break;
        }
        if sending && now >= next {
            let request = request(setting.server, identifier, pings.sent);
            pings.sent += 1;
            // Without a route the request counts as lost, like in ping(8).
            let _ = socket.send(&request);
            next = (next + interval).max(now);
        }
        let wait = if sending { next.saturating_duration_since(now) } else { LOOK };
        socket.set_read_timeout(Some(wait.clamp(Duration::from_micros(100), LOOK)))?;
        let mut buffer = [0; 2048];
        match stamp::receive(&socket, &mut buffer) {
            Ok((length, arrival)) => {
                let arrival = nanos(arrival);
                let message = buffer.get(..length).unwrap_or_default();
                if let Some((number, sent)) = reply(setting.server, identifier, message)
                    && number < pings.sent
                    && answered.insert(number)
                {
                    let left = sent.saturating_sub(nanos(setting.start)) as f64 / 1e9;
                    pings.answered.push((left, arrival.saturating_sub(sent) as f64 / 1e6));
                }
            }
            Err(error) if only_waited(&error) => {}
            // Unreachable for now; missing answers count as lost.
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
    Ok(Measured { pings: Some(pings), ..Measured::default() })
}

/// Whether `server` answers an echo request within `patience`, sent from the
/// calling thread's namespace.
///
/// # Errors
/// Raw sockets aren't permitted.
pub fn answers(
    server: IpAddr,
    source: Option<IpAddr>,
    device: Option<&str>,
    patience: Duration,
) -> io::Result<bool> {
    let deadline = Instant::now() + patience;
    let socket = match open(server, source, device) {
        Ok(socket) => socket,
        // There is no route or device yet.
        Err(error) if error.kind() != io::ErrorKind::PermissionDenied => {
            std::thread::sleep(patience.min(LOOK));
            return Ok(false);
        }
        Err(error) => return Err(error),
    };
    let identifier = fresh_identifier();
    let _ = socket.send(&request(server, identifier, 0));
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(false);
        }
        socket.set_read_timeout(Some(left.clamp(Duration::from_millis(1), LOOK)))?;
        let mut buffer = [0; 2048];
        match (&socket).read(&mut buffer) {
            Ok(length) => {
                if reply(server, identifier, buffer.get(..length).unwrap_or_default()).is_some() {
                    return Ok(true);
                }
            }
            Err(error) if only_waited(&error) => {}
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

fn open(server: IpAddr, source: Option<IpAddr>, device: Option<&str>) -> io::Result<Socket> {
    let (domain, protocol) = match server {
        IpAddr::V4(_) => (Domain::IPV4, Protocol::ICMPV4),
        IpAddr::V6(_) => (Domain::IPV6, Protocol::ICMPV6),
    };
    let socket = Socket::new(domain, Type::RAW, Some(protocol))?;
    if let Some(device) = device {
        socket.bind_device(Some(device.as_bytes()))?;
    }
    if let Some(source) = source {
        socket.bind(&SocketAddr::new(source, 0).into())?;
    }
    // Then only the server's packets are received.
    socket.connect(&SocketAddr::new(server, 0).into())?;
    socket.set_write_timeout(Some(LOOK))?;
    Ok(socket)
}

/// Different for simultaneous pings in this process, and most likely in others.
fn fresh_identifier() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    (std::process::id() as u16).wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed))
}

fn request(server: IpAddr, identifier: u16, number: u64) -> [u8; MESSAGE] {
    let kind = match server {
        IpAddr::V4(_) => ECHO_REQUEST_V4,
        IpAddr::V6(_) => ECHO_REQUEST_V6,
    };
    let mut message = [0; MESSAGE];
    let fields = [
        &[kind, 0, 0, 0][..],
        &identifier.to_be_bytes(),
        &(number as u16).to_be_bytes(),
        &number.to_be_bytes(),
        &nanos(Instant::now()).to_be_bytes(),
    ]
    .concat();
    for (to, from) in message.iter_mut().zip(fields) {
        *to = from;
    }
    if server.is_ipv4() {
        // The kernel fills in ICMPv6's, which covers addresses, by itself.
        let [high, low] = (!checksum::sum(&message)).to_be_bytes();
        message[2] = high;
        message[3] = low;
    }
    message
}

/// Our number and the time of sending, from an answer to one of our requests.
fn reply(server: IpAddr, identifier: u16, packet: &[u8]) -> Option<(u64, u64)> {
    let (message, kind) = match server {
        IpAddr::V4(_) => {
            let header = usize::from(packet.first()? & 0x0f) * 4;
            (packet.get(header..)?, ECHO_REPLY_V4)
        }
        IpAddr::V6(_) => (packet, ECHO_REPLY_V6),
    };
    let (head, rest) = message.split_first_chunk::<8>()?;
    let (number, rest) = rest.split_first_chunk::<8>()?;
    let (sent, _) = rest.split_first_chunk::<8>()?;
    let ours = head[0] == kind && head[4..6] == identifier.to_be_bytes();
    ours.then(|| (u64::from_be_bytes(*number), u64::from_be_bytes(*sent)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_request_turned_into_a_reply_is_recognised() {
        let server: IpAddr = "10.0.0.1".parse().unwrap();
        let mut answer = request(server, 77, 123_456);
        answer[0] = ECHO_REPLY_V4;
        let packet = [&[0x45; 20][..], &answer].concat();
        assert_eq!(reply(server, 77, &packet).map(|(number, _)| number), Some(123_456));
        assert_eq!(reply(server, 78, &packet), None);
    }

    proptest! {
        #[test]
        fn garbage_is_no_reply_and_never_panics(packet in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = reply("10.0.0.1".parse().unwrap(), 1, &packet);
            let _ = reply("::1".parse().unwrap(), 1, &packet);
        }
    }
}
