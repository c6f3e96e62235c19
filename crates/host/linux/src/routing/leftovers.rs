//! Finds what a tunnel left on the host by its marks alone, for a crash while no journal could be
//! written.

use crate::journal::Failure;
use crate::netlink::{Netlink, PROTOCOL, Route};
use crate::nft;
use crate::operation::absence::gone;
use braid_engines::{self as engines, FirewallTable, MAIN_TABLE, Operation, Rule, RuleAction};
use std::io;
use std::ops::Range;

/// What distinguishes a tunnel's rules, routes and firewall from others'. Settings below
/// `/proc/sys` have no marks; the device's addresses and routes disappear with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leftovers {
    /// The tunnel's interface, which names its firewall table.
    pub interface: String,
    /// Its routing tables.
    pub tables: Range<u32>,
    /// The priorities of its rules.
    pub priorities: Range<u32>,
}

impl Leftovers {
    /// Whether anything of the tunnel is left.
    ///
    /// # Errors
    /// Those of netlink's socket.
    pub fn exist(&self) -> io::Result<bool> {
        let mut netlink = Netlink::open()?;
        Ok(!self.rules(&mut netlink)?.is_empty()
            || !self.routes(&mut netlink)?.is_empty()
            || self.firewalls().any(|name| nft::exists(&name).unwrap_or(false)))
    }

    /// Removes all of it. Returns what could not be removed.
    ///
    /// # Errors
    /// Those of netlink's socket.
    pub fn remove(&self) -> io::Result<Vec<Failure>> {
        let mut failures = self.remove_routing()?;
        for interface in self.firewalls() {
            // A kernel without nftables has no firewall of ours.
            if nft::exists(&interface).unwrap_or(false)
                && let Err(error) = nft::delete(&interface)
            {
                let table = FirewallTable { interface, ..FirewallTable::default() };
                let operation = Operation::Firewall(table);
                failures.push(Failure { operation, error });
            }
        }
        Ok(failures)
    }

    fn firewalls(&self) -> impl Iterator<Item = String> {
        [self.interface.clone(), nft::split_table(&self.interface)].into_iter()
    }

    /// Removes everything except the firewall. Returns what could not be removed.
    ///
    /// # Errors
    /// Those of netlink's socket.
    pub fn remove_routing(&self) -> io::Result<Vec<Failure>> {
        let mut netlink = Netlink::open()?;
        let mut failures = Vec::new();
        for rule in self.rules(&mut netlink)? {
            if let Err(error) = gone(netlink.delete_rule(&rule)) {
                failures.push(Failure { operation: Operation::Rule(rule), error });
            }
        }
        for route in self.routes(&mut netlink)? {
            if let Err(error) = gone(netlink.delete_route(&route)) {
                let operation = Operation::Route(engines::Route {
                    kind: route.kind,
                    gateway: route.gateway,
                    metric: route.metric,
                    ..engines::Route::new(route.destination, route.table)
                });
                failures.push(Failure { operation, error });
            }
        }
        Ok(failures)
    }

    /// Somebody else's rule among ours uses another table.
    fn rules(&self, netlink: &mut Netlink) -> io::Result<Vec<Rule>> {
        let mut rules = match netlink.rules() {
            // A kernel without policy routing, or an emulated one: no rule can have been left.
            Err(error) if error.kind() == io::ErrorKind::Unsupported => return Ok(Vec::new()),
            rules => rules?,
        };
        rules.retain(|rule| {
            self.priorities.contains(&rule.priority)
                && match rule.action {
                    RuleAction::Lookup { table: MAIN_TABLE, suppress_prefix_len } => {
                        suppress_prefix_len == Some(0)
                    }
                    RuleAction::Lookup { table, .. } => self.tables.contains(&table),
                    RuleAction::Unreachable | RuleAction::Blackhole => false,
                }
        });
        Ok(rules)
    }

    fn routes(&self, netlink: &mut Netlink) -> io::Result<Vec<Route>> {
        let mut routes = netlink.routes()?;
        routes.retain(|route| route.protocol == PROTOCOL && self.tables.contains(&route.table));
        Ok(routes)
    }
}
