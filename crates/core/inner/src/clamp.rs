//! Lowering the MSS that a TCP SYN announces.

use crate::checksum::{put16, update};
use crate::headers::{Fragment, Headers, Layer, be16, protocol};
use crate::packet::{Checksum, InnerPacket};
use crate::tcp_option;

/// Lowers the MSS option (RFC 9293, section 3.7.1) of a SYN to `mss` bytes;
/// never raises it, never adds one. `true` when it changed something.
pub fn clamp_mss(packet: &mut InnerPacket, layer: Layer, mss: u16) -> bool {
    const SYN: u16 = 0x02;
    const CHECKSUM: usize = 16;
    let bytes = &mut packet.bytes;
    let headers = Headers::parse(bytes, layer);
    let Some(ip) = headers.ip else { return false };
    if ip.protocol != protocol::TCP || ip.fragment != Fragment::Whole {
        return false;
    }
    let Some(header_end) = headers.payload_start(bytes) else { return false };
    let Some(tcp) = bytes.get_mut(ip.transport..header_end) else { return false };
    let (Some(flags), Some(checksum)) = (be16(tcp, 12), be16(tcp, CHECKSUM)) else {
        return false;
    };
    if flags & SYN == 0 {
        return false;
    }
    let Some(at) = tcp_option::find(tcp, tcp_option::MSS, 2) else { return false };
    let Some(old) = be16(tcp, at).filter(|&old| old > mss) else { return false };
    put16(tcp, at, mss);
    if packet.offload.checksum == Checksum::Complete {
        // A word at an odd place counts with its bytes swapped.
        let (old, new) =
            if at % 2 == 0 { (old, mss) } else { (old.swap_bytes(), mss.swap_bytes()) };
        put16(tcp, CHECKSUM, update(checksum, old, new));
    }
    true
}
