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
    /// Connections of all.
    open: usize,
    /// Whether there may be several homes.
    several: bool,
}

/// A home's number; `None` for addresses of no home.
pub(crate) type Home = Option<usize>;

/// What each home may have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) connections: usize,
    /// Connections of all homes together.
    pub(crate) all: usize,
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
        Homes { networks, at: HashMap::new(), limits, open: 0, several: homes.len() > 1 }
    }

    /// Counts one more connection for the home at the tunnel's far end, if allowed: a home may have
    /// at most as many as are left, so that no home exhausts them.
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
        let left = self.limits.all.saturating_sub(self.open);
        let most = self.limits.connections.min(if self.several { left } else { usize::MAX });
        let at = self.at(home);
        let grants = (left > 0 && at.open < most).then(|| at.share.open())??;
        at.open += 1;
        self.open += 1;
        Some((home, grants))
    }

    /// One of its connections has ended.
    pub(crate) fn leave(&mut self, home: Home, grants: [Grant; 2]) {
        let at = self.at(home);
        at.open = at.open.saturating_sub(1);
        at.share.close(grants);
        self.open = self.open.saturating_sub(1);
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

    const LIMITS: Limits =
        Limits { connections: 1000, all: 10_000, memory: 1 << 30, buffer: 1 << 20 };

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
        let mut homes = homes(Limits { connections: 2, ..LIMITS });
        let whose = |admitted: Option<(Home, [Grant; 2])>| admitted.unwrap().0;
        assert_eq!(whose(admit(&mut homes, "10.1.1.1", Way::OutOf)), Some(1));
        let (home, grants) = admit(&mut homes, "10.1.1.2", Way::OutOf).unwrap();
        assert_eq!(home, Some(1));
        assert_eq!(admit(&mut homes, "10.1.1.1", Way::OutOf), None);
        assert_eq!(whose(admit(&mut homes, "172.16.0.1", Way::OutOf)), Some(0));
        homes.leave(home, grants);
        assert_eq!(whose(admit(&mut homes, "10.1.1.1", Way::OutOf)), Some(1));
        // For connections into the tunnel, the server is the far end.
        assert_eq!(whose(admit(&mut homes, "10.1.1.1", Way::Into)), Some(0));
    }

    #[test]
    fn a_home_that_fills_its_memory_takes_none_of_another() {
        let mut homes = homes(Limits { memory: 1 << 20, ..LIMITS });
        let mut admitted = 0;
        while admit(&mut homes, "10.1.1.1", Way::OutOf).is_some() {
            admitted += 1;
        }
        assert!((10..1000).contains(&admitted), "{admitted}");
        assert!(admit(&mut homes, "172.16.0.1", Way::OutOf).is_some());
    }

    #[test]
    fn a_home_that_takes_all_it_gets_leaves_some_for_others() {
        let mut homes = homes(Limits { all: 300, ..LIMITS });
        let take_all = |homes: &mut Homes, ip: &str| {
            std::iter::from_fn(|| admit(homes, ip, Way::OutOf)).collect::<Vec<_>>()
        };
        let greedy = take_all(&mut homes, "10.1.1.1");
        assert_eq!(greedy.len(), 150);
        assert_eq!(take_all(&mut homes, "172.16.0.1").len(), 75);
        greedy.into_iter().for_each(|(home, grants)| homes.leave(home, grants));
        assert_eq!(take_all(&mut homes, "10.1.1.1").len(), 113);
        // A single home gets all of them, except the process' own.
        let mut alone = Homes::new(&[vec!["0.0.0.0/0".parse().unwrap()]], homes.limits);
        assert_eq!(take_all(&mut alone, "10.1.1.1").len(), 300);
    }
}
