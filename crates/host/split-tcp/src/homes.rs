use crate::Way;
use crate::budget::{Grant, Share};
use ipnet::IpNet;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

/// Connections of each home, and its share of memory.
#[derive(Debug)]
pub(crate) struct Homes {
    networks: Vec<(IpNet, usize)>,
    at: HashMap<Home, AtHome>,
    limits: Limits,
}

/// A home's number; `None` for addresses that are nobody's.
pub(crate) type Home = Option<usize>;

/// What each home may have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) connections: usize,
    /// Bytes of all its buffers.
    pub(crate) memory: u64,
    /// Bytes of one of them.
    pub(crate) buffer: u64,
}

#[derive(Debug)]
struct AtHome {
    open: usize,
    share: Share,
}

impl Homes {
    pub(crate) fn new(homes: &[Vec<IpNet>], limits: Limits) -> Self {
        let networks = homes.iter().enumerate();
        let networks = networks.flat_map(|(home, nets)| nets.iter().map(move |net| (*net, home)));
        let mut networks: Vec<_> = networks.collect();
        networks.sort_by_key(|(net, _)| std::cmp::Reverse(net.prefix_len()));
        Homes { networks, at: HashMap::new(), limits }
    }

    /// Counts one more for the home at the tunnel's far end, if it may have one more.
    pub(crate) fn admit(
        &mut self,
        way: Way,
        client: SocketAddr,
        server: SocketAddr,
    ) -> Option<(Home, [Grant; 2])> {
        let far: IpAddr = match way {
            Way::Into => server.ip(),
            Way::OutOf => client.ip(),
        };
        let home = self.networks.iter().find(|(net, _)| net.contains(&far)).map(|(_, home)| *home);
        let connections = self.limits.connections;
        let at = self.at(home);
        let grants = (at.open < connections).then(|| at.share.open())??;
        at.open += 1;
        Some((home, grants))
    }

    /// One of its connections has ended.
    pub(crate) fn leave(&mut self, home: Home, grants: [Grant; 2]) {
        let at = self.at(home);
        at.open = at.open.saturating_sub(1);
        at.share.close(grants);
    }

    pub(crate) fn share(&mut self, home: Home) -> &mut Share {
        &mut self.at(home).share
    }

    fn at(&mut self, home: Home) -> &mut AtHome {
        let Limits { memory, buffer, .. } = self.limits;
        self.at.entry(home).or_insert_with(|| AtHome { open: 0, share: Share::new(memory, buffer) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn homes(limits: Limits) -> Homes {
        let nets = |text: &str| vec![text.parse().unwrap()];
        Homes::new(&[nets("0.0.0.0/0"), nets("10.0.0.0/8")], limits)
    }

    fn admit(homes: &mut Homes, ip: &str, way: Way) -> Option<(Home, [Grant; 2])> {
        let client = format!("{ip}:5000").parse().unwrap();
        homes.admit(way, client, "192.0.2.1:80".parse().unwrap())
    }

    #[test]
    fn each_home_has_its_own_limit() {
        let mut homes = homes(Limits { connections: 2, memory: 1 << 30, buffer: 1 << 20 });
        let whose = |admitted: Option<(Home, [Grant; 2])>| admitted.unwrap().0;
        assert_eq!(whose(admit(&mut homes, "10.1.1.1", Way::OutOf)), Some(1));
        let (home, grants) = admit(&mut homes, "10.1.1.2", Way::OutOf).unwrap();
        assert_eq!(home, Some(1));
        assert_eq!(admit(&mut homes, "10.1.1.1", Way::OutOf), None);
        assert_eq!(whose(admit(&mut homes, "172.16.0.1", Way::OutOf)), Some(0));
        homes.leave(home, grants);
        assert_eq!(whose(admit(&mut homes, "10.1.1.1", Way::OutOf)), Some(1));
        // Of what goes into the tunnel the server is the far end.
        assert_eq!(whose(admit(&mut homes, "10.1.1.1", Way::Into)), Some(0));
    }

    #[test]
    fn a_home_that_fills_its_memory_takes_none_of_another() {
        let mut homes = homes(Limits { connections: 1000, memory: 1 << 20, buffer: 1 << 20 });
        let mut admitted = 0;
        while admit(&mut homes, "10.1.1.1", Way::OutOf).is_some() {
            admitted += 1;
        }
        assert!((10..1000).contains(&admitted), "{admitted}");
        assert!(admit(&mut homes, "172.16.0.1", Way::OutOf).is_some());
    }
}
