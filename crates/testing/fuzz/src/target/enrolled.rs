use braid_control::enrolled::EnrolledHomes;
use braid_control::referred_peers::ReferredPeers;

/// The files of homes that have joined, and of referred concentrators. What is read can be written
/// and read again as the same.
///
/// # Panics
/// If that doesn't hold: this is what the fuzzer looks for.
pub fn enrolled(data: &[u8]) {
    if let Ok(peers) = ReferredPeers::parse(data) {
        let written = peers.to_json().expect("keys and names can be written");
        assert_eq!(ReferredPeers::parse(&written).ok(), Some(peers));
    }
    let Ok(homes) = EnrolledHomes::parse(data) else { return };
    let written = homes.to_json().expect("keys and times can be written");
    assert_eq!(EnrolledHomes::parse(&written).ok(), Some(homes));
}
