//! Checks a group for impossible settings.

use crate::Engine;
use crate::engine::{bonding, ecmp, mptcp, pppoe, team, teql};
use crate::group::{Group, Trouble};
use crate::numbers::LINKS_MAX;

impl Group {
    /// Everything that is impossible, whatever the links' current state.
    pub fn check(&self) -> Vec<Trouble> {
        let mut found = Vec::new();
        if self.links.is_empty() {
            found.push(Trouble::new(
                "link",
                "no [[link]]: there is nothing to join",
                "add [[link]] with name = \"a\" and interface = \"eth1\" for each",
            ));
        }
        if self.links.len() > LINKS_MAX as usize {
            let what = format!("{} links; at most {LINKS_MAX} are possible", self.links.len());
            found.push(Trouble::new("link", what, "make two groups"));
        }
        if self.engine.kind().routes() && self.routes.is_empty() && !self.is_mptcp() {
            found.push(Trouble::new(
                "routes",
                format!("{} needs routes, and none are given", self.engine.kind()),
                "write routes = [\"0.0.0.0/0\"] in [engine] for all of IPv4",
            ));
        }
        self.over.check(self, &mut found);
        match &self.engine {
            Engine::Bonding(bonding) => bonding::check(bonding, self, &mut found),
            Engine::Team(team) => team::check(team, self, &mut found),
            Engine::Teql => teql::check(self, &mut found),
            Engine::Ecmp(ecmp) => ecmp::check(ecmp, self, &mut found),
            Engine::Mptcp(mptcp) => mptcp::check(mptcp, self, &mut found),
            Engine::PppoeMultilink(pppoe) => pppoe::check(pppoe, self, &mut found),
            Engine::Pcc(_) => {}
        }
        found
    }
}
