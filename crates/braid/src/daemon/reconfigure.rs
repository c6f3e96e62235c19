//! What changes from one config to the next, for a tunnel that stays up.

use braid_control::config::{Config, Link, Mode, Name, Peer};
use braid_handshake::PublicKey;

/// One change.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// A link is new.
    AddLink(Link),
    /// A link leaves by another way: its sockets must be new.
    RebindLink(Link),
    /// A link has other settings.
    SetLink(Link),
    /// A link is gone.
    RemoveLink(Name),
    /// A peer is new, or is not the one it was.
    AddPeer(Peer),
    /// A peer is gone, or must be added anew.
    RemovePeer(PublicKey),
    /// Another mode.
    SetMode(Mode),
}

/// The changes from `old` to `new`; or what can't change while the tunnel is up.
pub fn changes(old: &Config, new: &Config) -> Result<Vec<Change>, String> {
    let mut fixed = new.interface.clone();
    fixed.mode = old.interface.mode;
    let parts = [
        ("[interface]", fixed != old.interface),
        ("[[class]]", new.classes != old.classes),
        ("[split_tcp]", new.split_tcp != old.split_tcp),
    ];
    if let Some((what, _)) = parts.iter().find(|(_, changed)| *changed) {
        return Err(format!("{what} has changed: that needs `braid down` and `braid up`"));
    }
    let mut found = Vec::new();
    for link in &old.links {
        if new.link(link.name.as_str()).is_none() {
            found.push(Change::RemoveLink(link.name.clone()));
        }
    }
    for link in &new.links {
        match old.link(link.name.as_str()) {
            None => found.push(Change::AddLink(link.clone())),
            Some(before) if before == link => {}
            Some(before) if before.binding != link.binding => {
                found.push(Change::RebindLink(link.clone()));
            }
            Some(_) => found.push(Change::SetLink(link.clone())),
        }
    }
    let stays = |before: &Peer| new.peers.iter().any(|after| goes_on_as(before, after));
    for peer in old.peers.iter().filter(|peer| !stays(peer)) {
        found.push(Change::RemovePeer(peer.public_key));
    }
    let was = |after: &Peer| old.peers.iter().any(|before| goes_on_as(before, after));
    for peer in new.peers.iter().filter(|peer| !was(peer)) {
        found.push(Change::AddPeer(peer.clone()));
    }
    if new.interface.mode != old.interface.mode {
        found.push(Change::SetMode(new.interface.mode));
    }
    Ok(found)
}

/// Whether the peer needn't be made anew. More endpoints make no other peer of
/// one that is called: the resolver tells them.
fn goes_on_as(before: &Peer, after: &Peer) -> bool {
    let calls = |peer: &Peer| !peer.endpoints.is_empty();
    calls(before) == calls(after)
        && before.endpoints.iter().all(|endpoint| after.endpoints.contains(endpoint))
        && Peer { endpoints: after.endpoints.clone(), ..before.clone() } == *after
}

#[cfg(test)]
mod tests {
    use super::*;
    use braid_control::config::{ConfigEditor, LinkChange};
    use std::path::Path;

    const TEXT: &str = "[interface]\nprivate_key_file = \"k\"\n\
        [[link]]\nname = \"a\"\ninterface = \"eth0\"\n[[link]]\nname = \"b\"\ninterface = \"eth1\"\n\
        [[peer]]\nname = \"c\"\npublic_key = \"hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=\"\n\
        endpoints = [\"192.0.2.1:1\"]\n";

    #[test]
    fn each_edit_is_one_change() {
        let file = Path::new("c.toml");
        let old = Config::parse(TEXT, file).unwrap();
        let edited = |edit: &dyn Fn(&mut ConfigEditor)| {
            let mut editor = ConfigEditor::from_text(TEXT, file).unwrap();
            edit(&mut editor);
            changes(&old, &editor.check().unwrap()).unwrap()
        };
        let set = |change: LinkChange| edited(&|editor| editor.set_link("a", &change).unwrap());
        assert!(edited(&|_| {}).is_empty());
        let tier = set(LinkChange { tier: Some(2), ..LinkChange::default() });
        assert!(matches!(tier.as_slice(), [Change::SetLink(link)] if link.tier == 2));
        let device = set(LinkChange { interface: Some("ppp0".into()), ..LinkChange::default() });
        assert!(matches!(device.as_slice(), [Change::RebindLink(_)]));
        let removed = edited(&|editor| editor.remove_link("b").unwrap());
        assert!(matches!(removed.as_slice(), [Change::RemoveLink(name)] if name.as_str() == "b"));
        let mode = edited(&|editor| editor.set_mode(Mode::Broadcast).unwrap());
        assert_eq!(mode, [Change::SetMode(Mode::Broadcast)]);

        let moved = Config::parse(&TEXT.replace("192.0.2.1", "192.0.2.2"), file).unwrap();
        let moved = changes(&old, &moved).unwrap();
        assert!(matches!(moved.as_slice(), [Change::RemovePeer(_), Change::AddPeer(_)]));
        let more = TEXT.replace("[\"192.0.2.1:1\"]", "[\"192.0.2.2:1\", \"192.0.2.1:1\"]");
        let more = Config::parse(&more, file).unwrap();
        assert_eq!(changes(&old, &more).unwrap(), [], "the peer goes on");
        let fewer = changes(&more, &old).unwrap();
        assert!(matches!(fewer.as_slice(), [Change::RemovePeer(_), Change::AddPeer(_)]));
        let mtu = TEXT.replace("\n[[link]]\nname = \"a\"", "\nmtu = 1400\n[[link]]\nname = \"a\"");
        assert!(changes(&old, &Config::parse(&mtu, file).unwrap()).is_err());
    }
}
