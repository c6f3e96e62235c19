use super::name::Name;
use super::network::{Endpoint, Prefix};
use super::section::{Placed, Section};
use braid_handshake::PublicKey;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// `[[peer]]`: the other end.
#[derive(Clone, Debug, PartialEq)]
pub struct Peer {
    /// Its name.
    pub name: Name,
    /// Its Curve25519 public key.
    pub public_key: PublicKey,
    /// File with the secret that both ends share besides their keys.
    pub preshared_key_file: Option<PathBuf>,
    /// Where it listens; empty for a peer that comes to us.
    pub endpoints: Vec<Endpoint>,
    /// Inner addresses that are its own: packets to them go to it, and packets
    /// from it must come from them.
    pub allowed_ips: Vec<Prefix>,
    /// How often an idle path is kept open through NAT.
    pub keepalive: Option<Duration>,
}

const MIN_KEEPALIVE: Duration = Duration::from_secs(1);
const MAX_KEEPALIVE: Duration = Duration::from_secs(3600);

pub(super) fn read(mut section: Section<'_, '_>, base: &Path) -> Option<Placed<Peer>> {
    let name = section.parsed("name");
    if name.is_none() {
        section.missing("name", "write name = \"concentrator\"");
    }
    let public_key = section.parsed_by("public_key", |text| {
        text.parse::<PublicKey>().map_err(|_| {
            format!(
                "{text:?} is not a public key; paste what `braid pubkey` prints (44 characters)"
            )
        })
    });
    if public_key.is_none() {
        section.missing("public_key", "paste what `braid pubkey` prints on the other end");
    }
    let preshared_key_file = section.parsed::<PathBuf>("preshared_key_file");
    let endpoints = section.list::<Endpoint>("endpoints").unwrap_or_default();
    let allowed_ips = section.list::<Prefix>("allowed_ips").unwrap_or_default();
    let keepalive = section.duration("keepalive");
    if keepalive.is_some_and(|time| !(MIN_KEEPALIVE..=MAX_KEEPALIVE).contains(&time)) {
        section.wrong(
            "keepalive",
            "peer.keepalive must be 1s to 1h",
            "NATs forget UDP flows after 30s or more: \"15s\" is safe",
        );
    }
    let places = section.finish();
    let value = Peer {
        name: name?,
        public_key: public_key?,
        preshared_key_file: preshared_key_file.map(|file| base.join(file)),
        endpoints,
        allowed_ips,
        keepalive,
    };
    Some(Placed { value, places })
}
