//! Changes from one config to the next, for a running tunnel: everything in the config about links,
//! peers and modes reaches the data plane as these changes.

use super::classes;
use super::restart::TO_CHANGE_MORE;
use braid_control::config::{
    Cap, Config, Interface, Link, Mode, Name, Peer, SecretError, read_enrolment_key,
    read_preshared_key,
};
use braid_control::quota_file::{QuotaCounter, QuotaCounters};
use braid_handshake::{PresharedKey, PrivateKey, PublicKey};
use braid_inner::ClassRules;
use braid_tunnel::Referral;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// One change.
#[derive(Debug)]
pub enum Change {
    /// A new link, without sockets yet.
    AddLink {
        /// Its settings.
        link: Link,
        /// What has already been used in its quota's period.
        used: Option<QuotaCounter>,
    },
    /// A link uses another egress now: its sockets must be new.
    RebindLink(Link),
    /// A link has new settings; its sockets stay.
    SetLink(Link),
    /// A link is gone, and its paths.
    RemoveLink(Name),
    /// A new or changed peer; its endpoints follow.
    AddPeer(NewPeer),
    /// A peer is removed, or must be added again: it is disconnected at once.
    RemovePeer(PublicKey),
    /// A home has a new limit.
    SetLimit {
        /// Its key.
        home: PublicKey,
        /// Its rate limits.
        limit: Cap,
    },
    /// A new mode.
    SetMode(Mode),
    /// Whether homes are asked to move to another concentrator.
    SetDraining(bool),
    /// How willing this concentrator is to serve homes, by their keys; the default for others.
    #[cfg_attr(not(feature = "fleet"), allow(dead_code))]
    SetRanks(BTreeMap<PublicKey, u8>),
    /// Homes are taken on up to so many.
    #[cfg_attr(not(feature = "fleet"), allow(dead_code))]
    SetCapacity(u32),
    /// These homes are announced to routers now.
    Announced(Vec<Name>),
    /// Where homes are referred, by their keys.
    #[cfg_attr(not(feature = "fleet"), allow(dead_code))]
    SetReferrals(BTreeMap<PublicKey, Vec<Arc<Referral>>>),
}

/// A peer, and the secrets from its files.
pub struct NewPeer {
    /// Its settings.
    pub peer: Peer,
    /// The secret shared with it.
    pub preshared_key: Option<PresharedKey>,
    /// The key of the join line for it.
    pub token: Option<PrivateKey>,
}

impl NewPeer {
    /// Reads its secrets.
    pub fn read(peer: &Peer) -> Result<NewPeer, SecretError> {
        let preshared_key =
            peer.preshared_key_file.as_deref().map(read_preshared_key).transpose()?;
        let token = peer.enrolment_key_file.as_deref().map(read_enrolment_key).transpose()?;
        Ok(NewPeer { peer: peer.clone(), preshared_key, token: token.flatten() })
    }
}

/// Omits the secrets.
impl fmt::Debug for NewPeer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.peer.fmt(f)
    }
}

/// The changes for a tunnel that starts empty.
pub fn beginning(config: &Config, used: &QuotaCounters) -> Result<Vec<Change>, String> {
    let mut nothing = Config { links: Vec::new(), peers: Vec::new(), ..config.clone() };
    nothing.interface.draining = false;
    changes(&nothing, config, used)
}

/// The rules for the core, which gets them only at the start.
fn classes(config: &Config, old: &Config) -> (ClassRules, Vec<braid_tunnel::Mode>) {
    classes::classes(&config.rules, old.interface.mode, old.interface.xor_hash)
}

/// The changes from `old` to `new`; or the setting that can't change while the tunnel is up. `used`
/// has the quota counters of absent links.
pub fn changes(old: &Config, new: &Config, used: &QuotaCounters) -> Result<Vec<Change>, String> {
    if let Some(what) = only_by_restart(old, new) {
        return Err(format!("{what} has changed: {}", how_instead(&old.interface, &new.interface)));
    }
    let mut found = Vec::new();
    for link in &old.links {
        if new.link(link.name.as_str()).is_none() {
            found.push(Change::RemoveLink(link.name.clone()));
        }
    }
    for link in &new.links {
        match old.link(link.name.as_str()) {
            None => found.push(Change::AddLink {
                link: link.clone(),
                used: used.get(link.name.as_str()).copied(),
            }),
            Some(before) if before == link => {}
            Some(before) if leaves_otherwise(before, link) => {
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
        found.push(Change::AddPeer(NewPeer::read(peer).map_err(|error| error.to_string())?));
    }
    for after in new.peers.iter().filter(|peer| was(peer)) {
        let before = old.peers.iter().find(|before| goes_on_as(before, after));
        if before.is_some_and(|before| before.limit != after.limit) {
            found.push(Change::SetLimit { home: after.public_key, limit: after.limit });
        }
    }
    if new.interface.mode != old.interface.mode {
        found.push(Change::SetMode(new.interface.mode));
    }
    if new.interface.draining != old.interface.draining {
        found.push(Change::SetDraining(new.interface.draining));
    }
    Ok(found)
}

/// The setting that is read only when the daemon starts.
fn only_by_restart(old: &Config, new: &Config) -> Option<&'static str> {
    let mut fixed = new.interface.clone();
    fixed.mode = old.interface.mode;
    fixed.draining = old.interface.draining;
    let member = |config: &Config| {
        let fleet = config.fleet.as_ref()?;
        Some((fleet.name.clone(), fleet.registry.clone()))
    };
    let parts = [
        ("[interface]", fixed != old.interface),
        ("a [[rule]] with a mode", classes(new, old) != classes(old, old)),
        ("[split_tcp]", new.split_tcp != old.split_tcp),
        ("[history]", new.history != old.history),
        ("[ui]", new.ui != old.ui),
        ("name or registry of [fleet]", member(new) != member(old)),
    ];
    parts.into_iter().find_map(|(what, changed)| changed.then_some(what))
}

/// How to apply a change that `reload` can't.
fn how_instead(old: &Interface, new: &Interface) -> &'static str {
    let place =
        |of: &Interface| (of.name.clone(), of.control.clone(), of.state_dir.clone(), of.layer);
    match place(old) == place(new) {
        true => "`braid restart` applies it, and connections survive",
        false => TO_CHANGE_MORE,
    }
}

fn leaves_otherwise(before: &Link, after: &Link) -> bool {
    before.binding != after.binding
        || before.transport != after.transport
        || before.proxy != after.proxy
}

/// Whether the peer needn't be recreated. A change of endpoints doesn't require that: the resolver
/// passes them on.
fn goes_on_as(before: &Peer, after: &Peer) -> bool {
    let calls = |peer: &Peer| !peer.endpoints.is_empty();
    calls(before) == calls(after)
        && before.endpoints.iter().all(|endpoint| after.endpoints.contains(endpoint))
        && Peer {
            endpoints: after.endpoints.clone(),
            follows_referrals: after.follows_referrals,
            limit: after.limit,
            ..before.clone()
        } == *after
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

    fn differ(old: &Config, new: &Config) -> Result<Vec<Change>, String> {
        changes(old, new, &QuotaCounters::new())
    }

    #[test]
    fn each_edit_is_one_change() {
        let file = Path::new("c.toml");
        let old = Config::parse(TEXT, file).unwrap();
        let edited = |edit: &dyn Fn(&mut ConfigEditor)| {
            let mut editor = ConfigEditor::from_text(TEXT, file).unwrap();
            edit(&mut editor);
            differ(&old, &editor.check().unwrap()).unwrap()
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
        assert!(matches!(mode.as_slice(), [Change::SetMode(Mode::Broadcast)]));

        let listens = TEXT.replace("\"k\"\n", "\"k\"\nlisten = [\"0.0.0.0:51900\"]\n");
        let drains = listens.replace("\"k\"\n", "\"k\"\ndraining = true\n");
        let [listens, drains] = [listens, drains].map(|text| Config::parse(&text, file).unwrap());
        let drain = differ(&listens, &drains).unwrap();
        assert!(matches!(drain.as_slice(), [Change::SetDraining(true)]), "{drain:?}");
        let began = beginning(&drains, &QuotaCounters::new()).unwrap();
        assert!(began.iter().any(|change| matches!(change, Change::SetDraining(true))));

        let moved = Config::parse(&TEXT.replace("192.0.2.1", "192.0.2.2"), file).unwrap();
        let moved = differ(&old, &moved).unwrap();
        assert!(matches!(moved.as_slice(), [Change::RemovePeer(_), Change::AddPeer(_)]));
        let more = TEXT.replace("[\"192.0.2.1:1\"]", "[\"192.0.2.2:1\", \"192.0.2.1:1\"]");
        let more = Config::parse(&more, file).unwrap();
        assert!(differ(&old, &more).unwrap().is_empty(), "the peer goes on");
        let fewer = differ(&more, &old).unwrap();
        assert!(matches!(fewer.as_slice(), [Change::RemovePeer(_), Change::AddPeer(_)]));
    }

    #[test]
    fn what_a_running_tunnel_cannot_take_over_says_what_does() {
        let file = Path::new("c.toml");
        let old = Config::parse(TEXT, file).unwrap();
        let interface = |line: &str| TEXT.replacen("\"k\"\n", &format!("\"k\"\n{line}\n"), 1);
        let (restart, down) = ("`braid restart`", "`braid down` and `braid up`");
        for (text, what, how) in [
            (interface("mtu = 1400"), "[interface]", restart),
            (interface("layer = \"l2\""), "[interface]", down),
            (interface("name = \"other\""), "[interface]", down),
            (interface("state_dir = \"/x\""), "[interface]", down),
            (format!("{TEXT}[split_tcp]\n"), "[split_tcp]", restart),
            (format!("{TEXT}[ui]\nlisten = \"off\"\n"), "[ui]", restart),
            (format!("{TEXT}[history]\nkeep = false\n"), "[history]", restart),
        ] {
            let refused = differ(&old, &Config::parse(&text, file).unwrap()).unwrap_err();
            assert!(refused.starts_with(what) && refused.contains(how), "{text}: {refused}");
        }
    }
}
