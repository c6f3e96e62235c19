//! Connection tracking (linux/netfilter/nfnetlink_conntrack.h).

use super::message::{Request, attributes};
use super::{Netlink, ip, octets};
use std::io;
use std::net::IpAddr;

/// `NFNL_SUBSYS_CTNETLINK` with `IPCTNL_MSG_CT_GET` and `IPCTNL_MSG_CT_DELETE`.
const GET: u16 = 1 << 8 | 1;
const DELETE: u16 = 1 << 8 | 2;
const CTA_TUPLE_ORIG: u16 = 1;
const CTA_TUPLE_REPLY: u16 = 2;
const CTA_MARK: u16 = 8;
const CTA_MARK_MASK: u16 = 21;
/// Attributes of a tuple.
const CTA_TUPLE_IP: u16 = 1;
const CTA_TUPLE_PROTO: u16 = 2;
/// Attributes of a tuple's addresses: IPv4 and IPv6.
const CTA_IP_SRC: [u16; 2] = [1, 3];
const CTA_IP_DST: [u16; 2] = [2, 4];
/// Attributes of a tuple's protocol; `CTA_PROTO_ICMP_ID` and `CTA_PROTO_ICMPV6_ID` stand for both
/// ports.
const CTA_PROTO_NUM: u16 = 1;
const CTA_PROTO_SRC_PORT: u16 = 2;
const CTA_PROTO_DST_PORT: u16 = 3;
const CTA_PROTO_ID: [u16; 2] = [4, 7];
/// Bytes of `struct nfgenmsg`.
const NFGENMSG: usize = 4;

/// A tracked connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tracked {
    /// IP protocol number.
    pub protocol: u8,
    /// Direction of the initiator's packets.
    pub original: Tuple,
    /// Direction of the replies. With NAT this isn't the reverse of `original`.
    pub reply: Tuple,
}

/// One direction of a connection; the identifier of an ICMP echo stands for both ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tuple {
    /// From where.
    pub src: (IpAddr, u16),
    /// To where.
    pub dst: (IpAddr, u16),
}

/// Calls `each` with every connection in the calling thread's network namespace.
///
/// # Errors
/// The kernel's error, for example if it doesn't track connections.
pub fn tracked_connections(mut each: impl FnMut(Tracked)) -> io::Result<()> {
    // struct nfgenmsg: either IP version, version 0.
    let request = Request::new(GET, libc::NLM_F_DUMP).fixed(&[libc::AF_UNSPEC as u8, 0, 0, 0]);
    Netlink::speaking(libc::NETLINK_NETFILTER)?.query(request, |_, body| {
        if let Some(tracked) = body.get(NFGENMSG..).and_then(tracked) {
            each(tracked);
        }
    })
}

/// Deletes all connections that have `mark` in the bits of `mask`, in the calling thread's network
/// namespace. The next packet of one starts it anew, by the rules and NAT in effect then.
///
/// # Errors
/// The kernel's error; `NotFound` if it doesn't track connections.
pub fn forget_connections(mark: u32, mask: u32) -> io::Result<()> {
    let request = Request::new(DELETE, 0)
        // struct nfgenmsg: either IP version, version 0.
        .fixed(&[libc::AF_UNSPEC as u8, 0, 0, 0])
        .attribute(CTA_MARK, &mark.to_be_bytes())
        .attribute(CTA_MARK_MASK, &mask.to_be_bytes());
    Netlink::speaking(libc::NETLINK_NETFILTER)?.change(request)
}

/// Deletes these TCP and UDP connections. Those that have ended meanwhile are skipped.
///
/// # Errors
/// The kernel's error.
pub fn forget_each(connections: &[Tracked]) -> io::Result<()> {
    let mut netlink = Netlink::speaking(libc::NETLINK_NETFILTER)?;
    for connection in connections {
        match netlink.change(forget(connection)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

fn forget(connection: &Tracked) -> Request {
    let Tuple { src, dst } = connection.original;
    let v4 = src.0.is_ipv4();
    let (family, version) = (if v4 { libc::AF_INET } else { libc::AF_INET6 }, usize::from(!v4));
    let addresses = |ip: Request| {
        let (source, destination) = (CTA_IP_SRC[version], CTA_IP_DST[version]);
        ip.attribute(source, &octets(src.0)).attribute(destination, &octets(dst.0))
    };
    let ports = |proto: Request| {
        proto
            .attribute(CTA_PROTO_NUM, &[connection.protocol])
            .attribute(CTA_PROTO_SRC_PORT, &src.1.to_be_bytes())
            .attribute(CTA_PROTO_DST_PORT, &dst.1.to_be_bytes())
    };
    // struct nfgenmsg: the IP version, version 0.
    Request::new(DELETE, 0).fixed(&[family as u8, 0, 0, 0]).nested(CTA_TUPLE_ORIG, |tuple| {
        tuple.nested(CTA_TUPLE_IP, addresses).nested(CTA_TUPLE_PROTO, ports)
    })
}

fn tracked(bytes: &[u8]) -> Option<Tracked> {
    let (mut original, mut reply) = (None, None);
    for (kind, payload) in attributes(bytes) {
        match kind {
            CTA_TUPLE_ORIG => original = tuple(payload),
            CTA_TUPLE_REPLY => reply = tuple(payload),
            _ => {}
        }
    }
    let ((protocol, original), (_, reply)) = (original?, reply?);
    Some(Tracked { protocol, original, reply })
}

/// Parses a tuple: its protocol and its direction.
fn tuple(bytes: &[u8]) -> Option<(u8, Tuple)> {
    let (mut src, mut dst, mut protocol) = (None, None, None);
    let (mut src_port, mut dst_port) = (0, 0);
    for (kind, payload) in attributes(bytes) {
        for (inner, payload) in attributes(payload) {
            let port = || Some(u16::from_be_bytes(*payload.first_chunk()?));
            match (kind, inner) {
                (CTA_TUPLE_IP, inner) if CTA_IP_SRC.contains(&inner) => src = ip(payload),
                (CTA_TUPLE_IP, inner) if CTA_IP_DST.contains(&inner) => dst = ip(payload),
                (CTA_TUPLE_PROTO, CTA_PROTO_NUM) => protocol = payload.first().copied(),
                (CTA_TUPLE_PROTO, CTA_PROTO_SRC_PORT) => src_port = port()?,
                (CTA_TUPLE_PROTO, CTA_PROTO_DST_PORT) => dst_port = port()?,
                (CTA_TUPLE_PROTO, inner) if CTA_PROTO_ID.contains(&inner) => {
                    (src_port, dst_port) = (port()?, port()?);
                }
                _ => {}
            }
        }
    }
    Some((protocol?, Tuple { src: (src?, src_port), dst: (dst?, dst_port) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the kernel writes them, for a device at 192.168.7.20 behind 10.99.0.2.
    fn message(
        source: [u8; 4],
        port: u16,
        to: [u8; 4],
        reply: bool,
    ) -> impl FnOnce(Request) -> Request {
        let server = [203, 0, 113, 7];
        move |request| {
            let (src, dst) = if reply { (server, to) } else { (source, server) };
            let (src_port, dst_port) = if reply { (443u16, port) } else { (port, 443) };
            request.nested(CTA_TUPLE_IP, |ip| ip.attribute(1, &src).attribute(2, &dst)).nested(
                CTA_TUPLE_PROTO,
                |proto| {
                    proto
                        .attribute(CTA_PROTO_NUM, &[6])
                        .attribute(CTA_PROTO_SRC_PORT, &src_port.to_be_bytes())
                        .attribute(CTA_PROTO_DST_PORT, &dst_port.to_be_bytes())
                },
            )
        }
    }

    #[test]
    fn a_translated_connection_is_read() {
        let (device, tunnel) = ([192, 168, 7, 20], [10, 99, 0, 2]);
        let bytes = Request::new(GET, 0)
            .fixed(&[2, 0, 0, 0])
            .nested(CTA_TUPLE_ORIG, message(device, 5000, tunnel, false))
            .nested(CTA_TUPLE_REPLY, message(device, 61_000, tunnel, true))
            .finish(1);
        let body = &bytes[super::super::message::HEADER_LEN + NFGENMSG..];
        let found = tracked(body).unwrap();
        let server = (IpAddr::from([203, 0, 113, 7]), 443);
        assert_eq!(found.protocol, 6);
        assert_eq!(found.original, Tuple { src: (device.into(), 5000), dst: server });
        assert_eq!(found.reply, Tuple { src: server, dst: (tunnel.into(), 61_000) });
        assert_eq!(tracked(&body[..body.len() / 2]), None);
    }
}
