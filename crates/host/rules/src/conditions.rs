use crate::Mac;
use ipnet::IpNet;
use std::fmt::{self, Display};
use std::net::IpAddr;
use std::ops::RangeInclusive;

/// What a rule requires of a connection: all given conditions must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conditions {
    /// Which device of the LAN began it.
    pub devices: Option<Devices>,
    /// The networks that it may come from; empty for any.
    pub from: Vec<IpNet>,
    /// Where it may go.
    pub to: Option<Destinations>,
    /// Its transport.
    pub transport: Option<Transport>,
    /// The server's port.
    pub ports: Option<RangeInclusive<u16>>,
    /// The DS field's code point, 0 to 63.
    pub dscp: Option<u8>,
    /// The users of this host whose programs may have begun it; empty for all.
    pub users: Vec<u32>,
    /// The control groups of this host whose programs may have begun it; groups that don't exist at
    /// the moment are left out.
    pub cgroups: Option<Vec<Cgroup>>,
}

impl Conditions {
    /// The name under which its domains' addresses are known, if the rule has no other conditions.
    pub fn only_known_as(&self) -> Option<&str> {
        let name = self.to.as_ref()?.known_as.clone();
        let to = Some(Destinations { networks: Vec::new(), known_as: name });
        let is_it = *self == Conditions { to, ..Conditions::default() };
        self.to.as_ref()?.known_as.as_deref().filter(|_| is_it)
    }
}

/// An existing control group (version 2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cgroup {
    /// Its path below `/sys/fs/cgroup`.
    pub path: String,
    /// How deep it is below the root, from 1.
    pub level: usize,
    /// The kernel's id of it: a recreated group has another.
    pub id: u64,
}

/// Devices, by whatever is known about them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Devices {
    /// Their hardware addresses.
    pub macs: Vec<Mac>,
    /// Their addresses.
    pub addresses: Vec<IpNet>,
}

/// Where connections go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Destinations {
    /// Networks.
    pub networks: Vec<IpNet>,
    /// The name under which its domains' addresses are known (the rule's own), if it has domains.
    pub known_as: Option<String>,
}

/// A transport protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// RFC 9293.
    Tcp,
    /// RFC 768.
    Udp,
    /// ICMP and ICMPv6.
    Icmp,
}

/// A connection to be explained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    /// Who begins it.
    pub sender: Sender,
    /// The server's address.
    pub to: IpAddr,
    /// Its transport.
    pub transport: Transport,
    /// The server's port; 0 if the transport has none.
    pub port: u16,
    /// The DS field's code point.
    pub dscp: u8,
    /// The rules with domains that have this address.
    pub known_for: Vec<String>,
}

/// Who begins a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sender {
    /// A program on this host.
    Host {
        /// The user's number.
        user: u32,
    },
    /// A device of the LAN.
    Device {
        /// Its hardware address, if that is known.
        mac: Option<Mac>,
        /// Its addresses, as far as they are known.
        addresses: Vec<IpAddr>,
    },
}

impl Conditions {
    /// Why the connection doesn't match; `None` if it does.
    pub fn mismatch(&self, connection: &Connection) -> Option<String> {
        let Connection { sender, to, transport, port, dscp, known_for } = connection;
        match (&self.devices, sender) {
            (Some(_), Sender::Host { .. }) => {
                return Some("it is for LAN devices, not for this host".into());
            }
            (Some(devices), Sender::Device { mac, addresses }) => {
                let by_mac = mac.is_some_and(|mac| devices.macs.contains(&mac));
                let by_address = addresses.iter().any(|it| contain(&devices.addresses, it));
                if !by_mac && !by_address {
                    return Some("it is for other devices".into());
                }
            }
            (None, _) => {}
        }
        match sender {
            Sender::Device { addresses, .. }
                if !self.from.is_empty()
                    && !addresses.iter().any(|address| contain(&self.from, address)) =>
            {
                return Some(format!("it is from {}", Few(&self.from)));
            }
            Sender::Device { .. } if !self.users.is_empty() => {
                return Some("it is for users of this host, not for the LAN".into());
            }
            Sender::Host { user } if !self.users.is_empty() && !self.users.contains(user) => {
                return Some(format!("it is for uid {}", Few(&self.users)));
            }
            _ => {}
        }
        if self.cgroups.is_some() {
            return Some("it is for programs of a control group of this host".into());
        }
        if let Some(destinations) = &self.to
            && !contain(&destinations.networks, to)
            && !destinations.known_as.as_ref().is_some_and(|name| known_for.contains(name))
        {
            return Some(format!("{to} isn't one of its destinations"));
        }
        if let Some(wanted) = self.transport
            && wanted != *transport
        {
            return Some(format!("it is for {wanted}, not for {transport}"));
        }
        if let Some(ports) = &self.ports
            && !ports.contains(port)
        {
            return Some(match (ports.start(), ports.end()) {
                (first, last) if first == last => {
                    format!("it is for port {first}, not for {port}")
                }
                (first, last) => format!("it is for ports {first} to {last}, not for {port}"),
            });
        }
        let wanted = self.dscp.filter(|wanted| wanted != dscp)?;
        Some(format!("it is for DSCP {wanted}, not {dscp}"))
    }
}

fn contain(networks: &[IpNet], address: &IpAddr) -> bool {
    networks.iter().any(|net| net.contains(address))
}

impl Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Transport::Tcp => "tcp",
            Transport::Udp => "udp",
            Transport::Icmp => "icmp",
        })
    }
}

/// The first few of many.
struct Few<'a, T>(&'a [T]);

impl<T: Display> Display for Few<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 3;
        let shown: Vec<String> = self.0.iter().take(SHOWN).map(ToString::to_string).collect();
        write!(f, "{}", shown.join(", "))?;
        match self.0.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn web(to: &str) -> Connection {
        let sender = Sender::Device {
            mac: "aa:bb:cc:dd:ee:01".parse().ok(),
            addresses: vec!["192.168.7.20".parse().unwrap()],
        };
        let to = to.parse().unwrap();
        Connection { sender, to, transport: Transport::Tcp, port: 443, dscp: 0, known_for: vec![] }
    }

    #[test]
    fn what_does_not_fit_is_told() {
        let to = |net: &str| Destinations { networks: vec![net.parse().unwrap()], known_as: None };
        let bank = Conditions {
            to: Some(to("203.0.113.0/24")),
            transport: Some(Transport::Tcp),
            ports: Some(443..=443),
            ..Conditions::default()
        };
        assert_eq!(bank.mismatch(&web("203.0.113.7")), None);
        let elsewhere = bank.mismatch(&web("198.51.100.1")).unwrap();
        assert_eq!(elsewhere, "198.51.100.1 isn't one of its destinations");
        let plain = Connection { port: 80, ..web("203.0.113.7") };
        assert_eq!(bank.mismatch(&plain).unwrap(), "it is for port 443, not for 80");
        let quic = Connection { transport: Transport::Udp, ..web("203.0.113.7") };
        assert_eq!(bank.mismatch(&quic).unwrap(), "it is for tcp, not for udp");
        assert_eq!(Conditions::default().mismatch(&quic), None, "nothing is asked");
    }

    #[test]
    fn a_device_is_known_by_its_hardware_address_or_by_its_addresses() {
        let by = |devices| Conditions { devices: Some(devices), ..Conditions::default() };
        let mac =
            by(Devices { macs: vec!["aa:bb:cc:dd:ee:01".parse().unwrap()], ..Devices::default() });
        let address = by(Devices {
            addresses: vec!["192.168.7.20/32".parse().unwrap()],
            ..Devices::default()
        });
        let host = Connection { sender: Sender::Host { user: 0 }, ..web("192.0.2.1") };
        for conditions in [mac, address] {
            assert_eq!(conditions.mismatch(&web("192.0.2.1")), None);
            assert!(conditions.mismatch(&host).is_some());
        }
        assert!(by(Devices::default()).mismatch(&web("192.0.2.1")).is_some());
        let user = Conditions { users: vec![1000], ..Conditions::default() };
        assert!(user.mismatch(&host).is_some() && user.mismatch(&web("192.0.2.1")).is_some());
    }
}
