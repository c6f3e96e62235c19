//! Redirects DNS queries that would get no answer, or that would leak, to a name server that
//! answers. It uses NAT, so that neither clients nor /etc/resolv.conf need a change.

use ipnet::IpNet;
use std::net::IpAddr;

/// Mark of our own queries, which aren't redirected: mask and value.
const OWN: (u32, u32) = (0xfffe_0000, 0x6272_0000);

/// Matches our own queries.
pub(super) fn spared() -> String {
    let (bits, own) = OWN;
    format!("meta mark and {bits:#x} == {own:#x}")
}

/// DNS queries redirected to another name server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diversion {
    /// The name server that gets them.
    pub to: IpAddr,
    /// The name servers that they were sent to.
    pub from: Destinations,
    /// Who asks.
    pub asker: Asker,
}

/// Name servers, of the IP version of [`Diversion::to`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destinations {
    /// Only these.
    Only(Vec<IpNet>),
    /// All except these and this host's own.
    AllBut(Vec<IpNet>),
}

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asker {
    /// This host and the networks behind it, not those in the tunnel.
    HostAndLan,
    /// Those in the tunnel.
    Homes,
}

impl Diversion {
    fn family(&self) -> &'static str {
        super::family(self.to)
    }

    /// `None` if there is nothing to divert.
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

    /// Matches diverted queries.
    fn diverted(&self) -> String {
        let (family, to) = (self.family(), self.to);
        format!("ct status dnat {family} daddr {to} meta l4proto {{ tcp, udp }} th dport 53")
    }

    /// Masquerades them, as their source address was chosen for another route.
    pub(super) fn masqueraded(&self) -> String {
        format!("{} masquerade", self.diverted())
    }

    /// Lets them out: the chain sees the device from before the diversion.
    pub(super) fn let_out(&self) -> String {
        format!("{} accept", self.diverted())
    }

    /// Therefore the real outgoing device is checked later.
    pub(super) fn only_by(&self, tunnel: &str) -> String {
        format!("oifname != \"{tunnel}\" {} drop", self.diverted())
    }
}
