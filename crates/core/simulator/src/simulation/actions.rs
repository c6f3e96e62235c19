//! What happens to links and ends.

use super::Simulation;
use crate::end::link_id;
use crate::end_id::EndId;
use crate::scenario::Action;
use crate::traffic::flow_key_up;
use braid_tunnel::{Change, PeerId, Treatments};

impl Simulation {
    pub(super) fn act(&mut self, action: Action) {
        let now = self.now;
        match action {
            Action::Blackout(link, on) => self.links[link].set_dark(now, on),
            Action::Carrier(link, up) => {
                self.links[link].set_carrier(now, up);
                let home = self.links[link].spec.home;
                let (tunnel, local) = self.tunnel(EndId::Home(home));
                tunnel.on_link(link_id(link), up, local);
                self.serve(EndId::Home(home));
            }
            Action::SetDown(link, spec) => self.links[link].down.set(now, spec),
            Action::SetUp(link, spec) => self.links[link].up.set(now, spec),
            Action::Mtu(link, mtu) => self.links[link].spec.mtu = mtu,
            Action::Rebind(link) => self.links[link].rebind(false),
            Action::Roam(link) => self.links[link].rebind(true),
            Action::Remove(link) => {
                let home = self.links[link].spec.home;
                let (tunnel, local) = self.tunnel(EndId::Home(home));
                tunnel.apply(Change::RemoveLink(link_id(link)), local);
                self.serve(EndId::Home(home));
            }
            Action::Add(link) => {
                let (home, config) = (self.links[link].spec.home, self.links[link].spec.config);
                let (tunnel, local) = self.tunnel(EndId::Home(home));
                tunnel.add_link(link_id(link), config, local);
                self.serve(EndId::Home(home));
            }
            Action::RestartHome(home) => {
                self.homes[home].start(&self.scenario, now);
                self.serve(EndId::Home(home));
            }
            Action::WallClock(home, seconds) => self.homes[home].wall_clock_off = seconds,
            Action::Suspend(id, time) => self.end(id).fall_asleep(now, time),
            Action::RestartConcentrator => {
                self.concentrator.start(&self.scenario, now);
                self.serve(EndId::Concentrator);
            }
            Action::Replace(id, after) => {
                let (tunnel, local) = self.tunnel(id);
                tunnel.close_for_restart(local);
                self.serve(id);
                let scenario = self.scenario.clone();
                self.end(id).replace(&scenario, now, after);
            }
            Action::Treat(home, flows, limits_up, limits_down) => {
                let flows = flows.iter().map(|(flow, treatment)| {
                    let kind = self.scenario.traffic[*flow].kind;
                    (flow_key_up(home, *flow, kind), *treatment)
                });
                let wanted = Treatments { flows: flows.collect(), limits_up, limits_down };
                let (tunnel, local) = self.tunnel(EndId::Home(home));
                tunnel.apply(Change::Treat(PeerId(0), wanted), local);
                self.serve(EndId::Home(home));
            }
            Action::SetMode(home, mode) => {
                let (tunnel, local) = self.tunnel(EndId::Home(home));
                tunnel.apply(Change::SetMode(mode), local);
                self.serve(EndId::Home(home));
            }
        }
    }
}
