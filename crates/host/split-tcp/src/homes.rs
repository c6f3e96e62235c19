use crate::Way;
use ipnet::IpNet;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

/// Connections of each home.
#[derive(Debug)]
pub(crate) struct Homes {
    networks: Vec<(IpNet, usize)>,
    open: HashMap<Option<usize>, usize>,
    most: usize,
}

/// A home's number; `None` for addresses that are nobody's.
pub(crate) type Home = Option<usize>;

impl Homes {
    pub(crate) fn new(homes: &[Vec<IpNet>], most: usize) -> Self {
        let networks = homes.iter().enumerate();
        let networks = networks.flat_map(|(home, nets)| nets.iter().map(move |net| (*net, home)));
        let mut networks: Vec<_> = networks.collect();
        networks.sort_by_key(|(net, _)| std::cmp::Reverse(net.prefix_len()));
        Homes { networks, open: HashMap::new(), most }
    }

    /// Counts one more for the home at the tunnel's far end, if it may have one more.
    pub(crate) fn admit(
        &mut self,
        way: Way,
        client: SocketAddr,
        server: SocketAddr,
    ) -> Option<Home> {
        let far: IpAddr = match way {
            Way::Into => server.ip(),
            Way::OutOf => client.ip(),
        };
        let home = self.networks.iter().find(|(net, _)| net.contains(&far)).map(|(_, home)| *home);
        let open = self.open.entry(home).or_default();
        (*open < self.most).then(|| {
            *open += 1;
            home
        })
    }

    /// One of its connections has ended.
    pub(crate) fn leave(&mut self, home: Home) {
        if let Some(open) = self.open.get_mut(&home) {
            *open = open.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_home_has_its_own_limit() {
        let nets = |text: &str| vec![text.parse().unwrap()];
        let mut homes = Homes::new(&[nets("0.0.0.0/0"), nets("10.0.0.0/8")], 2);
        let server = "192.0.2.1:80".parse().unwrap();
        let client = |text: &str| format!("{text}:5000").parse().unwrap();
        let mut admit = |ip: &str| homes.admit(Way::OutOf, client(ip), server);
        assert_eq!(admit("10.1.1.1"), Some(Some(1)));
        assert_eq!(admit("10.1.1.2"), Some(Some(1)));
        assert_eq!(admit("10.1.1.1"), None);
        assert_eq!(admit("172.16.0.1"), Some(Some(0)));
        homes.leave(Some(1));
        assert_eq!(homes.admit(Way::OutOf, client("10.1.1.1"), server), Some(Some(1)));
        // Of what goes into the tunnel the server is the far end.
        assert_eq!(homes.admit(Way::Into, client("10.1.1.1"), server), Some(Some(0)));
    }
}
