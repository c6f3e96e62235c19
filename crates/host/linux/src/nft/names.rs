//! Look-ups by DNS that would go nowhere, or where nobody shall see them, are
//! sent to a name server that answers: by address translation, so that whoever
//! asks, and whoever writes /etc/resolv.conf, needs no change.

use ipnet::IpNet;
use std::net::IpAddr;

/// Marks of our own questions, which go where they are sent: bits and value.
const OWN: (u32, u32) = (0xfffe_0000, 0x6272_0000);

/// Matches them.
pub(super) fn spared() -> String {
    let (bits, own) = OWN;
    format!("meta mark and {bits:#x} == {own:#x}")
}

/// Questions that go to another name server than they were sent to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diversion {
    /// Where they go.
    pub to: IpAddr,
    /// Where they were sent.
    pub from: Destinations,
    /// Who asks.
    pub asker: Asker,
}

/// Name servers, of the IP version of [`Diversion::to`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destinations {
    /// These.
    Only(Vec<IpNet>),
    /// All but these and this host's own.
    AllBut(Vec<IpNet>),
}

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asker {
    /// This host and the networks behind it, but not those in the tunnel.
    HostAndLan,
    /// Those in the tunnel.
    Homes,
}

impl Diversion {
    fn family(&self) -> &'static str {
        super::family(self.to)
    }

    /// None where there is nothing to divert.
    fn destinations(&self) -> Option<String> {
        let family = self.family();
        let set = |nets: &[IpNet]| {
            let nets = nets.iter().filter(|net| super::family(net.addr()) == family);
            let nets: Vec<IpNet> = nets.map(IpNet::trunc).collect();
            IpNet::aggregate(&nets).iter().map(IpNet::to_string).collect::<Vec<_>>().join(", ")
        };
        match &self.from {
            Destinations::Only(nets) => {
                let nets = set(nets);
                (!nets.is_empty()).then(|| format!("{family} daddr {{ {nets} }}"))
            }
            Destinations::AllBut(nets) => {
                let own: IpNet = if self.to.is_ipv4() {
                    ipnet::Ipv4Net::new_assert(std::net::Ipv4Addr::new(127, 0, 0, 0), 8).into()
                } else {
                    IpAddr::from(std::net::Ipv6Addr::LOCALHOST).into()
                };
                let nets: Vec<IpNet> = nets.iter().copied().chain([own]).collect();
                Some(format!("{family} daddr != {{ {} }} fib daddr type != local", set(&nets)))
            }
        }
    }

    fn translated(&self, who: &str) -> Option<String> {
        let (family, to) = (self.family(), self.to);
        let sent = self.destinations()?;
        Some(format!("{who} {sent} meta l4proto {{ tcp, udp }} th dport 53 dnat {family} to {to}"))
    }

    pub(super) fn of_host(&self) -> Option<String> {
        let (bits, own) = OWN;
        let who = format!("meta mark and {bits:#x} != {own:#x}");
        (self.asker == Asker::HostAndLan).then(|| self.translated(&who)).flatten()
    }

    pub(super) fn of_others(&self, tunnel: &str) -> Option<String> {
        self.translated(&match self.asker {
            Asker::HostAndLan => format!("iifname != \"{tunnel}\""),
            Asker::Homes => format!("iifname \"{tunnel}\""),
        })
    }

    /// Matches what was diverted.
    fn diverted(&self) -> String {
        let (family, to) = (self.family(), self.to);
        format!("ct status dnat {family} daddr {to} meta l4proto {{ tcp, udp }} th dport 53")
    }

    /// Its source was chosen for another way.
    pub(super) fn masqueraded(&self) -> String {
        format!("{} masquerade", self.diverted())
    }

    /// The device that a chain sees is the one before the diversion.
    pub(super) fn let_out(&self) -> String {
        format!("{} accept", self.diverted())
    }

    /// So where it really leaves is looked at behind.
    pub(super) fn only_by(&self, tunnel: &str) -> String {
        format!("oifname != \"{tunnel}\" {} drop", self.diverted())
    }
}
