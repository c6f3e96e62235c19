//! Policy rules: which routing table is used for a packet (`RTM_*RULE`, linux/fib_rules.h).

use super::message::{Request, attributes, string, u32_at};
use super::{Netlink, family, ip, octets, unspecified};
use braid_engines::{Family, Rule, RuleAction};
use ipnet::IpNet;
use std::io;

const FRA_DST: u16 = 1;
const FRA_SRC: u16 = 2;
const FRA_IIFNAME: u16 = 3;
const FRA_PRIORITY: u16 = 6;
const FRA_FWMARK: u16 = 10;
const FRA_SUPPRESS_PREFIXLEN: u16 = 14;
const FRA_TABLE: u16 = 15;
const FRA_FWMASK: u16 = 16;
const FRA_OIFNAME: u16 = 17;
const FR_ACT_TO_TABLE: u8 = 1;
const FR_ACT_BLACKHOLE: u8 = 6;
const FR_ACT_UNREACHABLE: u8 = 7;
const FIB_RULE_INVERT: u32 = 2;
/// `FRA_SUPPRESS_PREFIXLEN` when nothing is suppressed.
const NO_SUPPRESSION: u32 = u32::MAX;

impl Netlink {
    /// All policy rules, both IP versions.
    ///
    /// # Errors
    /// Those of the socket.
    pub fn rules(&mut self) -> io::Result<Vec<Rule>> {
        let mut rules = Vec::new();
        for family in [libc::AF_INET, libc::AF_INET6] {
            let mut header = [0; 12];
            header[0] = family as u8;
            let request = Request::new(libc::RTM_GETRULE, libc::NLM_F_DUMP).fixed(&header);
            self.query(request, |kind, body| {
                if kind == libc::RTM_NEWRULE {
                    rules.extend(parse(body));
                }
            })?;
        }
        Ok(rules)
    }

    /// Adds a rule.
    ///
    /// # Errors
    /// `AlreadyExists` when there is one like it.
    pub fn add_rule(&mut self, rule: &Rule) -> io::Result<()> {
        let flags = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
        self.change(request(libc::RTM_NEWRULE, flags, rule))
    }

    /// Deletes a rule.
    ///
    /// # Errors
    /// `NotFound` when there is none like it.
    pub fn delete_rule(&mut self, rule: &Rule) -> io::Result<()> {
        self.change(request(libc::RTM_DELRULE, 0, rule))
    }
}

/// Reads the body of an `RTM_NEWRULE`: `None` for actions that we don't use.
fn parse(body: &[u8]) -> Option<Rule> {
    let &[family_number, to_len, from_len, _, table, _, _, action, ..] =
        body.first_chunk::<12>()?;
    let family = Family::of(unspecified(family_number)?);
    let (mut table, mut suppress_prefix_len) = (u32::from(table), None);
    let mut rule = Rule::new(family, 0, RuleAction::Blackhole);
    rule.not = u32_at(body, 8)? & FIB_RULE_INVERT != 0;
    for (kind, payload) in attributes(body.get(12..)?) {
        match kind {
            FRA_DST => rule.to = IpNet::new(ip(payload)?, to_len).ok(),
            FRA_SRC => rule.from = IpNet::new(ip(payload)?, from_len).ok(),
            FRA_IIFNAME => rule.incoming = Some(string(payload)),
            FRA_OIFNAME => rule.outgoing = Some(string(payload)),
            FRA_PRIORITY => rule.priority = u32_at(payload, 0)?,
            FRA_FWMARK => rule.fwmark = u32_at(payload, 0),
            FRA_FWMASK => rule.mask = u32_at(payload, 0).filter(|&mask| mask != u32::MAX),
            FRA_TABLE => table = u32_at(payload, 0)?,
            FRA_SUPPRESS_PREFIXLEN => {
                suppress_prefix_len = u32_at(payload, 0).filter(|&len| len != NO_SUPPRESSION);
            }
            _ => {}
        }
    }
    // The kernel reports 0 for rules that match no mark.
    rule.mask = rule.mask.filter(|_| rule.fwmark.is_some());
    rule.action = match action {
        FR_ACT_TO_TABLE => RuleAction::Lookup { table, suppress_prefix_len },
        FR_ACT_BLACKHOLE => RuleAction::Blackhole,
        FR_ACT_UNREACHABLE => RuleAction::Unreachable,
        _ => return None,
    };
    Some(rule)
}

fn request(kind: u16, flags: libc::c_int, rule: &Rule) -> Request {
    // struct fib_rule_hdr: family, lengths, tos, table (too small for ours), …
    let mut header = [0; 12];
    header[0] = match rule.family {
        Family::V4 => libc::AF_INET,
        Family::V6 => libc::AF_INET6,
    } as u8;
    header[1] = rule.to.map_or(0, |net| net.prefix_len());
    header[2] = rule.from.map_or(0, |net| net.prefix_len());
    header[7] = match rule.action {
        RuleAction::Lookup { .. } => FR_ACT_TO_TABLE,
        RuleAction::Unreachable => FR_ACT_UNREACHABLE,
        RuleAction::Blackhole => FR_ACT_BLACKHOLE,
    };
    if rule.not {
        header[8..12].copy_from_slice(&FIB_RULE_INVERT.to_ne_bytes());
    }
    let mut request = Request::new(kind, flags).fixed(&header).u32(FRA_PRIORITY, rule.priority);
    for (kind, net) in [(FRA_DST, rule.to), (FRA_SRC, rule.from)] {
        if let Some(net) = net {
            debug_assert_eq!(family(net.addr()), header[0]);
            request = request.attribute(kind, &octets(net.network()));
        }
    }
    for (kind, name) in [(FRA_IIFNAME, &rule.incoming), (FRA_OIFNAME, &rule.outgoing)] {
        if let Some(name) = name {
            request = request.string(kind, name);
        }
    }
    if let Some(mark) = rule.fwmark {
        request = request.u32(FRA_FWMARK, mark).u32(FRA_FWMASK, rule.mask.unwrap_or(u32::MAX));
    }
    if let RuleAction::Lookup { table, suppress_prefix_len } = rule.action {
        request = request.u32(FRA_TABLE, table);
        if let Some(len) = suppress_prefix_len {
            request = request.u32(FRA_SUPPRESS_PREFIXLEN, len);
        }
    }
    request
}
