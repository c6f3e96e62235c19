//! The targets, one for each kind of input.

mod config;
mod enrolled;
mod framing;
mod handshake;
mod history;
mod inner;
mod input;
mod join_line;
mod link_change;
mod luks;
mod manual;
mod names;
mod neighbour;
mod page;
mod portal;
mod proxy_header;
mod registry;
mod replica_frame;
mod rng;
mod scenario;
mod send_stream;
mod superblock;
mod tool_output;
mod trace;
mod tunnel;
mod uci;
mod web;
mod wire;
mod words;

pub use config::config;
pub use enrolled::enrolled;
pub use framing::framing;
pub use handshake::handshake;
pub use history::history;
pub use inner::inner;
pub use join_line::join_line;
pub use link_change::link_change;
pub use luks::luks;
pub use manual::manual;
pub use names::names;
pub use neighbour::neighbour;
pub use page::page;
pub use portal::portal;
pub use proxy_header::proxy_header;
pub use registry::registry;
pub use replica_frame::replica_frame;
pub use scenario::scenario;
pub use send_stream::send_stream;
pub use superblock::superblock;
pub use tool_output::tool_output;
pub use trace::trace;
pub use tunnel::tunnel;
pub use uci::uci;
pub use web::web;
pub use wire::wire;
pub use words::words;

/// Something that takes arbitrary bytes.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name; also that of its folder of seeds and its libFuzzer program.
    pub name: &'static str,
    /// Panics if the code under test is wrong.
    pub run: fn(&[u8]),
    /// Maximum input length; longer inputs find nothing more.
    pub max_len: usize,
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target { name: "wire", run: wire, max_len: 1500 },
    Target { name: "framing", run: framing, max_len: 4096 },
    Target { name: "handshake", run: handshake, max_len: 600 },
    Target { name: "config", run: config, max_len: 4096 },
    Target { name: "join_line", run: join_line, max_len: 1024 },
    Target { name: "enrolled", run: enrolled, max_len: 1024 },
    Target { name: "send_stream", run: send_stream, max_len: 2048 },
    Target { name: "replica_frame", run: replica_frame, max_len: 2048 },
    Target { name: "superblock", run: superblock, max_len: 4096 },
    Target { name: "scenario", run: scenario, max_len: 4096 },
    Target { name: "manual", run: manual, max_len: 4096 },
    Target { name: "names", run: names, max_len: 2048 },
    Target { name: "trace", run: trace, max_len: 4096 },
    Target { name: "inner", run: inner, max_len: 2048 },
    Target { name: "history", run: history, max_len: 512 },
    Target { name: "link_change", run: link_change, max_len: 1024 },
    Target { name: "page", run: page, max_len: 2048 },
    Target { name: "portal", run: portal, max_len: 1024 },
    Target { name: "proxy_header", run: proxy_header, max_len: 128 },
    Target { name: "tool_output", run: tool_output, max_len: 4096 },
    Target { name: "words", run: words, max_len: 128 },
    Target { name: "luks", run: luks, max_len: 2048 },
    Target { name: "neighbour", run: neighbour, max_len: 128 },
    Target { name: "registry", run: registry, max_len: 2048 },
    Target { name: "uci", run: uci, max_len: 2048 },
    Target { name: "web", run: web, max_len: 1024 },
    Target { name: "tunnel", run: tunnel, max_len: 2048 },
];

impl Target {
    /// The target of this name.
    pub fn named(name: &str) -> Option<Target> {
        TARGETS.iter().copied().find(|target| target.name == name)
    }
}
