//! Next-hop objects and their groups (linux/nexthop.h).

use super::message::{Request, attributes, u16_at, u32_at};
use super::{Netlink, PROTOCOL, family, ip, octets};
use braid_engines::{Member, Resilient};
use std::io;
use std::net::IpAddr;
use std::num::NonZeroU8;

const RTM_NEWNEXTHOP: u16 = 104;
const RTM_DELNEXTHOP: u16 = 105;
const RTM_GETNEXTHOP: u16 = 106;
const NHA_ID: u16 = 1;
const NHA_GROUP: u16 = 2;
const NHA_GROUP_TYPE: u16 = 3;
const NHA_OIF: u16 = 5;
const NHA_GATEWAY: u16 = 6;
const NHA_RES_GROUP: u16 = 12;
const NHA_RES_GROUP_BUCKETS: u16 = 1;
const NHA_RES_GROUP_IDLE_TIMER: u16 = 2;
const NHA_RES_GROUP_UNBALANCED_TIMER: u16 = 3;
/// `NEXTHOP_GRP_TYPE_RES`.
const RESILIENT: u16 = 1;
/// Timers are in hundredths of a second (`USER_HZ`).
const USER_HZ: u32 = 100;
const RTNH_F_ONLINK: u32 = 4;
/// Bytes of `struct nexthop_grp`.
const MEMBER_LEN: usize = 8;

/// A next hop, or a group of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextHop {
    /// Its number.
    pub id: u32,
    /// The device that it uses; `None` for groups.
    pub interface: Option<u32>,
    /// The router that it uses.
    pub gateway: Option<IpAddr>,
    /// The members of a group; empty for a next hop.
    pub members: Vec<Member>,
    /// Whether the group is resilient, and how.
    pub resilient: Option<Resilient>,
}

impl Netlink {
    /// All next hops and groups.
    ///
    /// # Errors
    /// EOPNOTSUPP where the kernel has none (before Linux 5.3).
    pub fn next_hops(&mut self) -> io::Result<Vec<NextHop>> {
        let request = Request::new(RTM_GETNEXTHOP, libc::NLM_F_DUMP).fixed(&[0; 8]);
        let mut found = Vec::new();
        self.query(request, |kind, body| {
            if kind == RTM_NEWNEXTHOP {
                found.extend(parse(body));
            }
        })?;
        Ok(found)
    }

    /// Creates a next hop.
    ///
    /// # Errors
    /// `AlreadyExists` when the number is taken; ENETDOWN when the device is down; the kernel's
    /// error when the gateway is invalid.
    pub fn add_next_hop(
        &mut self,
        id: u32,
        interface: u32,
        gateway: Option<IpAddr>,
        v6: bool,
        on_link: bool,
    ) -> io::Result<()> {
        let version = if v6 { libc::AF_INET6 } else { libc::AF_INET } as u8;
        let flags = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
        let header =
            header(gateway.map_or(version, family), if on_link { RTNH_F_ONLINK } else { 0 });
        let request = Request::new(RTM_NEWNEXTHOP, flags).fixed(&header).u32(NHA_ID, id);
        let request = request.u32(NHA_OIF, interface);
        self.change(match gateway {
            Some(gateway) => request.attribute(NHA_GATEWAY, &octets(gateway)),
            None => request,
        })
    }

    /// Creates a group, or replaces the members of the group with this number.
    ///
    /// # Errors
    /// ENOENT when a member doesn't exist.
    pub fn set_next_hop_group(
        &mut self,
        id: u32,
        members: &[Member],
        resilient: Option<Resilient>,
    ) -> io::Result<()> {
        let flags = libc::NLM_F_CREATE | libc::NLM_F_REPLACE;
        let list: Vec<u8> = members.iter().flat_map(member_bytes).collect();
        let request = Request::new(RTM_NEWNEXTHOP, flags)
            .fixed(&header(libc::AF_UNSPEC as u8, 0))
            .u32(NHA_ID, id)
            .attribute(NHA_GROUP, &list);
        self.change(match resilient {
            None => request,
            Some(Resilient { buckets, idle_timer_s, unbalanced_timer_s }) => request
                .attribute(NHA_GROUP_TYPE, &RESILIENT.to_ne_bytes())
                .nested(NHA_RES_GROUP, |group| {
                    group
                        .attribute(NHA_RES_GROUP_BUCKETS, &buckets.to_ne_bytes())
                        .u32(NHA_RES_GROUP_IDLE_TIMER, idle_timer_s.saturating_mul(USER_HZ))
                        .u32(
                            NHA_RES_GROUP_UNBALANCED_TIMER,
                            unbalanced_timer_s.saturating_mul(USER_HZ),
                        )
                }),
        })
    }

    /// Deletes a next hop or group, and the routes that use it.
    ///
    /// # Errors
    /// ENOENT when there is none of this number.
    pub fn delete_next_hop(&mut self, id: u32) -> io::Result<()> {
        let request = Request::new(RTM_DELNEXTHOP, 0).fixed(&header(libc::AF_UNSPEC as u8, 0));
        self.change(request.u32(NHA_ID, id))
    }
}

/// `struct nhmsg`: family, scope, protocol, reserved, flags.
fn header(family: u8, flags: u32) -> [u8; 8] {
    let protocol = if family == libc::AF_UNSPEC as u8 { 0 } else { PROTOCOL };
    let [a, b, c, d] = flags.to_ne_bytes();
    [family, 0, protocol, 0, a, b, c, d]
}

/// `struct nexthop_grp`: number, weight less one, reserved.
fn member_bytes(member: &Member) -> [u8; MEMBER_LEN] {
    let [a, b, c, d] = member.id.to_ne_bytes();
    [a, b, c, d, member.weight.get() - 1, 0, 0, 0]
}

fn parse(body: &[u8]) -> Option<NextHop> {
    let mut found =
        NextHop { id: 0, interface: None, gateway: None, members: Vec::new(), resilient: None };
    for (kind, payload) in attributes(body.get(8..)?) {
        match kind {
            NHA_ID => found.id = u32_at(payload, 0)?,
            NHA_OIF => found.interface = u32_at(payload, 0),
            NHA_GATEWAY => found.gateway = ip(payload),
            NHA_GROUP => {
                found.members = payload.chunks_exact(MEMBER_LEN).filter_map(member).collect();
            }
            NHA_RES_GROUP => found.resilient = resilient(payload),
            _ => {}
        }
    }
    Some(found)
}

fn member(bytes: &[u8]) -> Option<Member> {
    let weight = bytes.get(4)?.saturating_add(1);
    Some(Member { id: u32_at(bytes, 0)?, weight: NonZeroU8::new(weight)? })
}

fn resilient(payload: &[u8]) -> Option<Resilient> {
    let (mut buckets, mut idle, mut unbalanced) = (0, 0, 0);
    for (kind, payload) in attributes(payload) {
        match kind {
            NHA_RES_GROUP_BUCKETS => buckets = u16_at(payload, 0)?,
            NHA_RES_GROUP_IDLE_TIMER => idle = u32_at(payload, 0)?,
            NHA_RES_GROUP_UNBALANCED_TIMER => unbalanced = u32_at(payload, 0)?,
            _ => {}
        }
    }
    let seconds = |ticks: u32| ticks / USER_HZ;
    Some(Resilient {
        buckets,
        idle_timer_s: seconds(idle),
        unbalanced_timer_s: seconds(unbalanced),
    })
}
