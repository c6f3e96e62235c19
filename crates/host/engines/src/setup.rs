//! Turns a group into the operations that set it up.

use crate::carrier::{self, Carried, Over};
use crate::engine::{bonding, ecmp, mptcp, pcc, pppoe, team, teql};
use crate::group::Group;
use crate::operation::{MAIN_TABLE, Operation, Route};
use crate::port::Port;
use crate::{Engine, Feature};

/// The operations that set a group up, in order. Undone in reverse order, they leave the host as it
/// was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    /// The operations.
    pub operations: Vec<Operation>,
    /// What the host must have.
    pub needs: Vec<Feature>,
    /// Links that are left out, and why.
    pub notes: Vec<String>,
}

/// Preferred over routes of DHCP clients (100 and more).
const METRIC: u32 = 50;

impl Group {
    /// How to set it up.
    pub fn setup(&self) -> Setup {
        let Carried { mut operations, ports, notes } = carrier::carry(self);
        let (mut engine, mut needs) = match &self.engine {
            Engine::Bonding(settings) => {
                (bonding::operations(settings, self, &ports), bonding::needs())
            }
            Engine::Team(settings) => (team::operations(settings, self, &ports), team::needs()),
            Engine::Teql => (teql::operations(self, &ports), teql::needs()),
            Engine::Ecmp(settings) => {
                (ecmp::operations(settings, self, &ports), ecmp::needs(settings))
            }
            Engine::Mptcp(settings) => (mptcp::operations(settings, self, &ports), mptcp::needs()),
            Engine::PppoeMultilink(settings) => {
                (pppoe::operations(settings, self, &ports), pppoe::needs(settings, self))
            }
            Engine::Pcc(settings) => {
                (pcc::operations(settings, self, &ports), pcc::needs(settings))
            }
        };
        needs.extend(self.over.needs(self));
        if self.engine.kind().routes() {
            // Routes through the group use its addresses as source.
            operations.extend(self.own_addresses("lo"));
            operations.extend(engine);
        } else {
            // A bond sets its ports' MTU to its own, which a VXLAN device refuses if too large; so
            // it is set before there are ports.
            let created = |operation: &Operation| match operation {
                Operation::Create { device, .. } => *device == self.name,
                _ => false,
            };
            let first = engine.iter().position(created).map_or(engine.len(), |at| at + 1);
            let ports_follow = engine.split_off(first);
            operations.extend(engine);
            let mtu = self.own_mtu(&ports);
            operations.extend(mtu.map(|mtu| Operation::Mtu { device: self.name.clone(), mtu }));
            operations.extend(ports_follow);
            operations.extend(self.own_device());
        }
        Setup { operations, needs, notes }
    }

    /// The MTU of the group's device with which its packets fit the links' carriers; PPP negotiates
    /// its own.
    pub(crate) fn own_mtu(&self, ports: &[Port]) -> Option<u32> {
        let narrowest = match self.over {
            Over::Direct => None,
            _ => ports.iter().map(|port| port.mtu).min(),
        };
        let pppoe = matches!(self.engine, Engine::PppoeMultilink(_));
        self.mtu.map(u32::from).or(narrowest).filter(|_| !pppoe)
    }

    /// Addresses and routes of the device that the engine created.
    fn own_device(&self) -> Vec<Operation> {
        let device = self.name.clone();
        let mut operations = Vec::new();
        let pppoe = matches!(self.engine, Engine::PppoeMultilink(_));
        operations.extend(self.own_addresses(device.as_str()));
        if !pppoe {
            operations.push(Operation::Up { device: device.clone() });
        }
        operations.extend(self.routes.iter().map(|route| {
            let gateway = self.gateway.filter(|ip| ip.is_ipv6() == route.addr().is_ipv6());
            Operation::Route(Route {
                device: Some(device.to_string()),
                gateway,
                metric: METRIC,
                ..Route::new(route.trunc(), MAIN_TABLE)
            })
        }));
        let clamps = self.over != Over::Direct && !self.routes.is_empty();
        operations
            .extend(clamps.then(|| Operation::firewall(&device, &mss_clamp(device.as_str()))));
        operations
    }

    fn own_addresses(&self, device: &str) -> Vec<Operation> {
        let address = |&net| Operation::Address { device: device.to_owned(), net };
        self.addresses.iter().map(address).collect()
    }
}

/// Clamps the MSS of forwarded connections, so that they fit the tunnels' smaller MTU even where
/// path MTU discovery is filtered.
fn mss_clamp(device: &str) -> String {
    format!(
        "\tchain forwarded {{\n\t\ttype filter hook forward priority mangle; policy accept;\n\
         \t\toifname \"{device}\" tcp flags syn tcp option maxseg size set rt mtu\n\
         \t\tiifname \"{device}\" tcp flags syn tcp option maxseg size set rt mtu\n\t}}\n"
    )
}
