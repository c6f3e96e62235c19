//! Finds links that exist but carry nothing, since no peer can be reached over them.

use braid_control::status::{LinkStatus, PeerStatus};

/// Reports each link without a path, if others have some: a link's sockets open a path to each peer
/// address of their IP version.
pub fn tell_pathless(links: &mut [LinkStatus], peers: &[PeerStatus]) {
    let mut paths = peers.iter().flat_map(|peer| &peer.paths).peekable();
    if paths.peek().is_none() {
        return;
    }
    let linked: Vec<&str> = paths.map(|path| path.link.as_str()).collect();
    let usable = links.iter_mut().filter(|link| link.present && link.trouble.is_none());
    for link in usable.filter(|link| !linked.contains(&link.name.as_str())) {
        link.trouble =
            Some("carries nothing: no peer has an address of this link's IP version".into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use braid_control::status::PathStatus;

    fn link(name: &str) -> LinkStatus {
        LinkStatus { name: name.into(), present: true, ..LinkStatus::default() }
    }

    #[test]
    fn a_link_without_a_path_beside_one_that_has_some_is_told() {
        let mut links = [link("dsl"), link("six"), link("away")];
        links[2].present = false;
        let untouched = links.clone();
        tell_pathless(&mut links, &[PeerStatus::default()]);
        assert_eq!(links, untouched, "no peer has a path: it may be known later");
        let path = PathStatus { link: "dsl".into(), ..PathStatus::default() };
        tell_pathless(&mut links, &[PeerStatus { paths: vec![path], ..PeerStatus::default() }]);
        let told: Vec<bool> = links.iter().map(|link| link.trouble.is_some()).collect();
        assert_eq!(told, [false, true, false]);
    }
}
