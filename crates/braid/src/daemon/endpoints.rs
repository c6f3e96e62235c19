//! Looking up the peers' endpoints, again and again: addresses change.

use braid_control::config::{Endpoint, Host, Peer};
use braid_handshake::PublicKey;
use std::collections::HashMap;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Tells what a peer's endpoints resolve to, whenever that has changed.
pub type OnChange = Box<dyn Fn(PublicKey, Vec<SocketAddr>) + Send>;

/// Resolves on a thread of its own, since look-ups block.
pub struct EndpointResolver {
    peers: Sender<Vec<(PublicKey, Vec<Endpoint>)>>,
}

const EVERY: Duration = Duration::from_secs(60);
/// While a name was never found: the links may just be coming up.
const EVERY_MISSING: Duration = Duration::from_secs(3);

impl EndpointResolver {
    /// Starts, without peers. Ends when dropped.
    pub fn start(on_change: OnChange) -> std::io::Result<EndpointResolver> {
        let (peers, received) = channel();
        std::thread::Builder::new()
            .name("braid-resolve".into())
            .spawn(move || resolve_for_ever(&received, &on_change))?;
        Ok(EndpointResolver { peers })
    }

    /// Resolves these peers from now on, and anew at once.
    pub fn set_peers(&self, peers: &[Peer]) {
        let wanted = peers.iter().map(|peer| (peer.public_key, peer.endpoints.clone())).collect();
        // The thread lives as long as the sender.
        let _ = self.peers.send(wanted);
    }
}

fn resolve_for_ever(received: &Receiver<Vec<(PublicKey, Vec<Endpoint>)>>, on_change: &OnChange) {
    let mut peers: Vec<(PublicKey, Vec<Endpoint>)> = Vec::new();
    let mut known: HashMap<PublicKey, Vec<SocketAddr>> = HashMap::new();
    let mut wait = EVERY;
    loop {
        match received.recv_timeout(wait) {
            Ok(changed) => {
                peers = changed;
                // Peers that were removed and added again must be told again.
                known.clear();
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        let mut missing = false;
        for (key, endpoints) in &peers {
            let before = known.get(key).map(Vec::as_slice).unwrap_or_default();
            let (addresses, complete) = resolve(endpoints, before);
            missing |= !complete;
            if !addresses.is_empty() && addresses != before {
                on_change(*key, addresses.clone());
                known.insert(*key, addresses);
            }
        }
        wait = if missing { EVERY_MISSING } else { EVERY };
    }
}

/// All addresses, in the config's order; and whether every name was found. A
/// name that isn't found leaves all earlier addresses in place.
fn resolve(endpoints: &[Endpoint], before: &[SocketAddr]) -> (Vec<SocketAddr>, bool) {
    let mut addresses: Vec<SocketAddr> = Vec::new();
    let mut complete = true;
    for endpoint in endpoints {
        let found = match &endpoint.host {
            Host::Address(address) => vec![SocketAddr::new(*address, endpoint.port)],
            Host::Name(name) => match (name.as_str(), endpoint.port).to_socket_addrs() {
                Ok(found) => found.collect(),
                Err(error) => {
                    tracing::debug!(%endpoint, %error, "can't look up");
                    complete = false;
                    Vec::new()
                }
            },
        };
        for address in found {
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
    }
    if !complete {
        addresses.extend(
            before.iter().filter(|old| !addresses.contains(old)).copied().collect::<Vec<_>>(),
        );
    }
    (addresses, complete)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_come_in_order_and_a_failed_look_up_forgets_none() {
        let endpoints: Vec<Endpoint> =
            ["192.0.2.1:1", "nowhere.invalid:1", "192.0.2.2:1", "192.0.2.1:1"]
                .iter()
                .map(|text| text.parse().unwrap())
                .collect();
        let before: Vec<SocketAddr> = vec!["192.0.2.9:1".parse().unwrap()];
        let (addresses, complete) = resolve(&endpoints, &before);
        let shown: Vec<String> = addresses.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["192.0.2.1:1", "192.0.2.2:1", "192.0.2.9:1"]);
        assert!(!complete);
    }

    #[test]
    fn changes_are_told_once() {
        let (told, heard) = channel();
        let resolver = EndpointResolver::start(Box::new(move |key, addresses| {
            told.send((key, addresses)).unwrap();
        }))
        .unwrap();
        let text = "[interface]\nprivate_key_file = \"k\"\nlisten = \"0.0.0.0:1\"\n[[peer]]\nname = \"p\"\n\
            public_key = \"hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=\"\nendpoints = [\"192.0.2.1:1\"]";
        let config = braid_control::config::Config::parse(text, std::path::Path::new("c")).unwrap();
        resolver.set_peers(&config.peers);
        let (_, addresses) = heard.recv_timeout(Duration::from_secs(20)).unwrap();
        assert_eq!(addresses, ["192.0.2.1:1".parse().unwrap()]);
        drop(resolver);
        // The thread ends and drops its sender: nothing more is told.
        assert!(heard.recv_timeout(Duration::from_secs(20)).is_err());
    }
}
