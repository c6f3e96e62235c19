//! A tunnel's numbers on this host: marks, routing tables, rule priorities, nfnetlink groups. Each
//! tunnel has its own, by its [slot].

use braid_control::config::Config;
use braid_engines::slot;
use braid_linux::routing::Leftovers;
use std::ops::Range;

/// Common part of all tunnels' marks, in [`BRAIDS_MARK_BITS`].
pub const BRAIDS_MARK: u32 = 0x6272_0000;
/// See [`BRAIDS_MARK`].
pub const BRAIDS_MARK_BITS: u32 = 0xffff_0000;

/// The mark of the tunnel's own datagrams.
pub fn mark(interface: &str) -> u32 {
    BRAIDS_MARK | LEFT_ALONE_BY_MWAN3 | slot(interface)
}

/// mwan3's mark for packets that its rules leave to the main table (`MMX_DEFAULT`). Packets without
/// these bits get a mark for a link of mwan3's choice, and have no route if they are bound to
/// another.
const LEFT_ALONE_BY_MWAN3: u32 = 0x3f00;

/// The mark of the tunnel's own datagrams, if it may have one.
pub fn own_mark(config: &Config) -> Option<u32> {
    let marks = !config.routing.leave_host_alone;
    marks.then(|| mark(config.interface.name.as_str()))
}

/// Marks of the proxy that splits a tunnel's connections: toward the tunnel, toward others, and for
/// packets delivered to it. In bits that [`braid_control::config::LinkMarks`] doesn't use.
pub fn split_marks(interface: &str) -> [u32; 3] {
    [0, 1, 2].map(|which| SPLIT_MARK | slot(interface) << 2 | which)
}

const SPLIT_MARK: u32 = 0x0062_7300;

/// The mark of queries by the DNS forwarder of a tunnel's rules.
pub fn forwarder_mark(interface: &str) -> u32 {
    FORWARDER_MARK | slot(interface)
}

const FORWARDER_MARK: u32 = 0x0062_7400;

/// The nfnetlink_log group with which a tunnel receives first packets; other programs use small
/// numbers.
pub fn heard_by(interface: &str) -> u16 {
    // A slot is less than SLOTS.
    HEARD_BY | slot(interface) as u16
}

const HEARD_BY: u16 = 0x6200;

/// Whether a routing table belongs to one of our tunnels.
pub fn is_our_table(table: u32) -> bool {
    (FIRST_TABLE..FIRST_TABLE + SLOTS * LINKS_MAX).contains(&table)
}

/// A tunnel's routing tables: its own and its links'.
pub fn tables(interface: &str) -> Range<u32> {
    room(FIRST_TABLE, interface)
}

/// The priorities of a tunnel's rules.
pub fn priorities(interface: &str) -> Range<u32> {
    room(FIRST_PRIORITY, interface)
}

fn room(first: u32, interface: &str) -> Range<u32> {
    let first = first + slot(interface) * LINKS_MAX;
    first..first + LINKS_MAX
}

/// What a tunnel may have left on the host, found without a plan.
pub fn leftovers(interface: &str) -> Leftovers {
    Leftovers {
        interface: interface.to_owned(),
        tables: tables(interface),
        priorities: priorities(interface),
    }
}

/// Tables and priorities of one tunnel: its own and its links'.
const LINKS_MAX: u32 = 256;
/// Number of slots; tunnels on one host get different ones by their names, see [`slot`].
const SLOTS: u32 = 64;
/// Far from the system's 253 to 255, and from numbers that people choose.
const FIRST_TABLE: u32 = 519_000;
/// Before 32766, the main table's rule.
const FIRST_PRIORITY: u32 = 12_000;
