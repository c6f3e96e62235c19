use super::{More, finding};
use crate::code::Code;
use crate::facts::Facts;
use braid_control::finding::Finding;
use braid_control::status::{PathState, PeerStatus};
use braid_history::Severity;

/// Refused packets of a peer per second; fewer are just stray ones.
const REFUSED: f64 = 1.0;
/// Abandoned packets per second, likewise.
const GIVEN_UP: f64 = 2.0;

/// The other ends.
pub(crate) fn peers(facts: &Facts, found: &mut Vec<Finding>) {
    let Some(status) = &facts.status else { return };
    let is_home = status.listen.is_empty();
    found.extend(status.draining.then(|| draining(&status.peers)));
    for peer in &status.peers {
        if let Some(trouble) = &peer.trouble {
            let what = format!("{}: {trouble}", peer.name);
            let mend = match is_home {
                true => {
                    "ask the concentrator's administrator for a new line: `braid concentrator renew`"
                }
                false => "braid concentrator list",
            };
            let told = finding(Code::PeerTrouble, Severity::Critical, &peer.name, what);
            found.push(told.mend(mend));
        }
        // A concentrator doesn't expect all homes to be connected.
        if is_home && !peer.connected && peer.trouble.is_none() {
            found.push(gone(facts, peer));
        }
        if is_home && peer.draining {
            found.extend(left_alone(&status.peers, peer));
        }
        let of = |count: fn(&PeerStatus) -> u64| {
            facts.growth(|status| {
                let peers = status.peers.iter().filter(|one| one.name == peer.name);
                peers.map(count).sum()
            })
        };
        let refused = of(|peer| peer.refused_packets);
        if refused > REFUSED {
            let what = format!(
                "{} sends packets from addresses that aren't its own: they are dropped",
                peer.name
            );
            let told = finding(Code::NotItsAddresses, Severity::Warning, &peer.name, what)
                .seen(format!("{refused:.0} packets in a second"))
                .mend("add the networks behind it to allowed_ips of its [[peer]], or masquerade there");
            found.push(told);
        }
        let given_up = of(|peer| peer.repair.abandoned);
        if given_up > GIVEN_UP {
            let what = "packets are lost for good: no link could repair them in time";
            let told = finding(Code::RepairFails, Severity::Warning, &peer.name, what)
                .seen(format!("{given_up:.0} packets in a second were given up"))
                .mend("braid link set LINK --standby true, for the link with the most loss");
            found.push(told);
        }
    }
    for name in &facts.host.unknown_endpoints {
        let what = format!("the name {name} doesn't resolve: the concentrator can't be found");
        let told = finding(Code::EndpointUnknown, Severity::Critical, name, what);
        found.push(
            told.mend(format!("check getent ahosts {name}; or write its address as endpoint")),
        );
    }
}

/// This concentrator is draining: which homes it still serves.
fn draining(homes: &[PeerStatus]) -> Finding {
    let stays = |home: &&PeerStatus| home.connected && home.served_here != Some(false);
    let names: Vec<&str> = homes.iter().filter(stays).map(|home| home.name.as_str()).collect();
    let (severity, what) = match names.as_slice() {
        [] => (Severity::Note, "this concentrator is draining: it serves no home".to_owned()),
        names => (
            Severity::Warning,
            format!("this concentrator is draining, and still serves {}", names.join(", ")),
        ),
    };
    let told = finding(Code::Draining, severity, "", what);
    told.mend("to keep it in service: braid concentrator undrain")
}

/// The concentrator is draining, and this home has no other that answers.
fn left_alone(peers: &[PeerStatus], peer: &PeerStatus) -> Option<Finding> {
    let others = || peers.iter().filter(|other| other.name != peer.name && !other.draining);
    if others().any(|other| other.connected) {
        return None;
    }
    let what = match others().next() {
        None => format!("{} is draining, and there is no other concentrator", peer.name),
        Some(other) => format!("{} is draining, and {} doesn't answer", peer.name, other.name),
    };
    let told = finding(Code::Draining, Severity::Warning, &peer.name, what);
    Some(told.mend("on another concentrator: braid concentrator add-home; here: braid home join"))
}

fn gone(facts: &Facts, peer: &PeerStatus) -> Finding {
    let others = facts.status.iter().flat_map(|status| &status.peers);
    let (severity, what) = match others.into_iter().find(|other| other.connected) {
        None => (
            Severity::Critical,
            format!("{} answers on no link: the tunnel carries nothing", peer.name),
        ),
        Some(other) => (
            Severity::Warning,
            format!("{} answers on no link; only {} is left", peer.name, other.name),
        ),
    };
    let told = finding(Code::PeerGone, severity, &peer.name, what);
    let sent: u64 = peer.paths.iter().map(|path| path.tx_packets).sum();
    let heard: u64 = peer.paths.iter().map(|path| path.rx_packets).sum();
    // Paths count a session's packets; before a handshake there is no session.
    let told = match peer.last_handshake_s {
        Some(ago) => told
            .seen(format!("{sent} datagrams sent, {heard} received"))
            .seen(format!("the last handshake was {ago:.0} s ago")),
        None => told.seen("no handshake was answered since the start"),
    };
    let port = facts.config.peer(&peer.name).and_then(|peer| peer.endpoints.first());
    let port = port.map_or(51900, |endpoint| endpoint.port);
    let waits = peer.paths.iter().any(|path| path.state == PathState::Probing);
    match waits && heard == 0 {
        true => told.mend(format!(
            "on the concentrator: `braid status`, and let UDP port {port} in (provider's firewall too)"
        )),
        false => told.mend("on the concentrator: `braid status`, `journalctl -u braid-concentrator`"),
    }
}
