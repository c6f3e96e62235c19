//! Numbers for the kernel's tables: routing tables, priorities, marks, next hops. They derive from
//! the group's name, so that groups on one host don't collide.

use serde::{Deserialize, Serialize};

/// The first of each kind of number that a group may use; link `n` (from 1) uses the first plus
/// `n`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Numbers {
    /// Routing tables.
    pub table: u32,
    /// Priorities of policy rules; all come before the main table's, 32,766.
    pub priority: u32,
    /// Marks of packets and connections.
    pub mark: u32,
    /// Next-hop objects.
    pub next_hop: u32,
    /// VXLAN network identifiers and GRE keys; both ends must agree, so it doesn't derive from the
    /// name.
    pub tunnel: u32,
}

/// How many groups can coexist.
const SLOTS: u32 = 64;
/// How many links one group can have.
pub(crate) const LINKS_MAX: u32 = 30;
/// Offset of the numbers for the packets of the links' tunnels, which leave by the links
/// themselves.
pub(crate) const OUTER: u32 = 30;
/// Offset of the group's own rule, after those of its links.
pub(crate) const GROUP_RULE: u32 = 62;
/// How many numbers of one kind a group may use.
const ROOM: u32 = 64;
/// After the tables of tunnels (519,000 to 535,383).
const FIRST_TABLE: u32 = 536_000;
/// After the rules of tunnels (12,000 to 28,383).
const FIRST_PRIORITY: u32 = 28_400;
/// "be" in ASCII; marks of tunnels begin with "br".
const FIRST_MARK: u32 = 0x6265_0000;
/// Far from ids that people choose.
const FIRST_NEXT_HOP: u32 = 0x0b1d_0000;
/// For tunnels that carry a group's links.
const FIRST_TUNNEL: u32 = 7_000;

impl Numbers {
    /// The numbers of the group of this name.
    pub fn of(group: &str) -> Numbers {
        let slot = slot(group);
        Numbers {
            table: FIRST_TABLE + slot * ROOM,
            priority: FIRST_PRIORITY + slot * ROOM,
            mark: FIRST_MARK | (slot * ROOM),
            next_hop: FIRST_NEXT_HOP + slot * ROOM,
            tunnel: FIRST_TUNNEL,
        }
    }

    /// Whether a routing table belongs to any group.
    pub fn is_ours(table: u32) -> bool {
        (FIRST_TABLE..FIRST_TABLE + SLOTS * ROOM).contains(&table)
    }
}

/// A number below 64 derived from a name (FNV-1a).
pub fn slot(name: &str) -> u32 {
    let hash = name
        .bytes()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    hash % SLOTS
}

const _: () = assert!(FIRST_PRIORITY + SLOTS * ROOM < 32_766);
const _: () = assert!(OUTER + LINKS_MAX < GROUP_RULE && GROUP_RULE < ROOM);
