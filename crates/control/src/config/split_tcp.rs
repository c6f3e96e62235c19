use super::section::{Placed, Section};
use braid_units::ByteSize;

/// `[split_tcp]`: TCP connections are terminated at this end of the tunnel and continued by new
/// ones. Without the section they aren't split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SplitTcp {
    /// Congestion control through the tunnel, as the kernel names it.
    pub congestion: String,
    /// Maximum size of one buffer of a connection.
    pub buffer: ByteSize,
    /// Maximum size of all buffers of one home.
    pub memory: ByteSize,
    /// Maximum concurrent connections of one home.
    pub connections: u32,
}

impl Default for SplitTcp {
    fn default() -> Self {
        SplitTcp {
            congestion: "cubic".to_owned(),
            buffer: ByteSize::from_bytes(16 << 20),
            memory: ByteSize::from_bytes(1 << 30),
            connections: 20_000,
        }
    }
}

/// The kernel's names are shorter (`TCP_CA_NAME_MAX`).
const LONGEST_NAME: usize = 15;
/// Linux' default for a connection.
const LEAST_BUFFER: u64 = 128 << 10;
const LARGEST_BUFFER: u64 = 1 << 30;

/// `None` if it is switched off.
pub(super) fn read(mut section: Section<'_, '_>) -> Placed<Option<SplitTcp>> {
    let default = SplitTcp::default();
    let enabled = section.boolean("enabled").unwrap_or(true);
    let congestion: String = section.parsed("congestion").unwrap_or(default.congestion);
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if congestion.is_empty() || congestion.len() > LONGEST_NAME || !congestion.chars().all(plain) {
        section.wrong(
            "congestion",
            format!("{congestion:?} is not the name of a congestion control"),
            "write \"cubic\", \"bbr\", or another of `sysctl net.ipv4.tcp_available_congestion_control`",
        );
    }
    let buffer = section.parsed("buffer").unwrap_or(default.buffer);
    if !(LEAST_BUFFER..=LARGEST_BUFFER).contains(&buffer.bytes()) {
        section.wrong(
            "buffer",
            format!("split_tcp.buffer of {buffer} is not between 128KiB and 1GiB"),
            "leave it out for 16MiB",
        );
    }
    let memory = section.parsed("memory").unwrap_or(default.memory);
    if memory < buffer {
        section.wrong(
            "memory",
            format!("split_tcp.memory of {memory} is less than one connection's buffer, {buffer}"),
            "leave it out for 1GiB",
        );
    }
    let connections = section.integer("connections", 1..=1_000_000).unwrap_or(default.connections);
    let value = SplitTcp { congestion, buffer, memory, connections };
    Placed { value: enabled.then_some(value), places: section.finish() }
}
