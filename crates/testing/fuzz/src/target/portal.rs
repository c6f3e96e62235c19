use braid_linux::portal::wanted;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The answer of a link's network to a request for a page.
///
/// # Panics
/// If the login page read from it could deceive a terminal, or isn't on the host that it names.
pub fn portal(data: &[u8]) {
    for asked in [IpAddr::from(Ipv4Addr::new(192, 0, 2, 1)), Ipv6Addr::LOCALHOST.into()] {
        let Some(page) = wanted(data, asked) else { continue };
        assert!(page.url.chars().all(|c| c.is_ascii_graphic()), "{page:?}");
        assert!(page.url.len() <= 400 && page.url.contains("://"), "{page:?}");
        assert!(!page.host.is_empty() && page.url.contains(&page.host), "{page:?}");
        assert!(!page.host.contains(['/', '@', '?', '#']), "{page:?}");
    }
}
