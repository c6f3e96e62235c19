//! Inner packets that tests send.

use braid_inner::{InnerPacket, Offload};

/// UDP over IPv4, 100 bytes, with `number` as its identification.
pub fn udp(from: [u8; 4], to: [u8; 4], number: u16) -> InnerPacket {
    let mut bytes = vec![0; 100];
    bytes[0] = 0x45;
    bytes[2..4].copy_from_slice(&100_u16.to_be_bytes());
    bytes[4..6].copy_from_slice(&number.to_be_bytes());
    bytes[8] = 64;
    bytes[9] = 17;
    bytes[12..16].copy_from_slice(&from);
    bytes[16..20].copy_from_slice(&to);
    let sum = !braid_inner::checksum::sum(&bytes[..20]);
    bytes[10..12].copy_from_slice(&sum.to_be_bytes());
    bytes[20..22].copy_from_slice(&4000_u16.to_be_bytes());
    bytes[22..24].copy_from_slice(&4001_u16.to_be_bytes());
    bytes[24..26].copy_from_slice(&80_u16.to_be_bytes());
    InnerPacket { bytes, offload: Offload::default() }
}
