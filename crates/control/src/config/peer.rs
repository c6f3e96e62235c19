use super::credential::key_file;
use super::key_file::KeyFile;
use super::link::{Cap, read_cap};
use super::name::Name;
use super::network::{Endpoint, Prefix};
use super::section::{Placed, Section};
use braid_handshake::PublicKey;
use jiff::Timestamp;
use std::path::Path;
use std::time::Duration;

/// `[[peer]]`: the other end.
#[derive(Clone, Debug, PartialEq)]
pub struct Peer {
    /// Its name.
    pub name: Name,
    /// Its Curve25519 public key; the join line's key while it is [not known yet](Peer::is_known).
    pub public_key: PublicKey,
    /// The join line that lets it in, or did (concentrator).
    pub enrolment: Option<Enrolment>,
    /// File with the key with which we join (home); deleted afterwards.
    pub enrolment_key_file: Option<KeyFile>,
    /// File with the preshared key of both ends.
    pub preshared_key_file: Option<KeyFile>,
    /// Where it listens; empty for a peer that connects to us.
    pub endpoints: Vec<Endpoint>,
    /// Its port for UDP and for TLS over TCP, tried if UDP to its endpoints doesn't pass.
    pub fallback_port: Option<u16>,
    /// The peer that it stands in for while that is silent; it has the same inner addresses.
    pub stands_in_for: Option<Name>,
    /// Inner addresses that are its own: packets to them go to it, and packets
    /// from it must come from them.
    pub allowed_ips: Vec<Prefix>,
    /// Rate limits of inner packets, to the home and from it (concentrator).
    pub limit: Cap,
    /// Keepalive interval of an idle path, for NAT.
    pub keepalive: Option<Duration>,
    /// Whether concentrators that it refers this home to become peers, too (home).
    pub follows_referrals: bool,
    /// Whether it comes from the fleet rather than the config.
    pub of_fleet: bool,
}

/// A concentrator's record of a join line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Enrolment {
    /// The public key of its token.
    pub key: PublicKey,
    /// When it expires.
    pub until: Timestamp,
}

impl Peer {
    /// Whether its own key is known; otherwise it hasn't joined yet.
    pub fn is_known(&self) -> bool {
        self.enrolment.is_none_or(|enrolment| enrolment.key != self.public_key)
    }
}

const MIN_KEEPALIVE: Duration = Duration::from_secs(1);
const MAX_KEEPALIVE: Duration = Duration::from_secs(3600);

pub(super) fn read(mut section: Section<'_, '_>, base: &Path) -> Option<Placed<Peer>> {
    let name = section.parsed("name");
    if name.is_none() {
        section.missing("name", "write name = \"concentrator\"");
    }
    let (public_key, enrolment) = read_key(&mut section);
    let enrolment_key_file = key_file(&mut section, "enrolment_key_file", base);
    let preshared_key_file = key_file(&mut section, "preshared_key_file", base);
    let endpoints = section.list::<Endpoint>("endpoints").unwrap_or_default();
    let fallback_port = section.integer("fallback_port", 1..=65535);
    if fallback_port.is_some() && endpoints.is_empty() {
        section.wrong(
            "fallback_port",
            "peer.fallback_port without endpoints: it is for peers that this end connects to",
            "remove it, or add endpoints",
        );
    }
    let stands_in_for = section.parsed("stands_in_for");
    let allowed_ips = section.list::<Prefix>("allowed_ips").unwrap_or_default();
    let keepalive = section.duration("keepalive");
    if keepalive.is_some_and(|time| !(MIN_KEEPALIVE..=MAX_KEEPALIVE).contains(&time)) {
        section.wrong(
            "keepalive",
            "peer.keepalive must be 1s to 1h",
            "NATs drop idle UDP flows after 30s or more: \"15s\" is safe",
        );
    }
    let limit = section.table("limit").map(|table| read_cap(table, "peer.limit"));
    if limit.is_some() && !endpoints.is_empty() {
        section.wrong(
            "limit",
            "peer.limit together with endpoints: a home doesn't limit its concentrator",
            "remove it, and limit links with cap",
        );
    }
    let follow_referrals = section.boolean("follow_referrals");
    if follow_referrals.is_some() && endpoints.is_empty() {
        section.wrong(
            "follow_referrals",
            "peer.follow_referrals without endpoints: only a home is referred to others",
            "remove it",
        );
    }
    let places = section.finish();
    let value = Peer {
        name: name?,
        public_key: public_key?,
        enrolment,
        enrolment_key_file,
        preshared_key_file,
        endpoints,
        fallback_port,
        stands_in_for,
        allowed_ips,
        limit: limit.unwrap_or_default(),
        keepalive,
        follows_referrals: follow_referrals.unwrap_or(true),
        of_fleet: false,
    };
    Some(Placed { value, places })
}

/// Its public key, which is the join line's while the home has yet to join, and the join line.
fn read_key(section: &mut Section<'_, '_>) -> (Option<PublicKey>, Option<Enrolment>) {
    let public_key = section.parsed_by("public_key", public_key_of);
    let enrolment_key = section.parsed_by("enrolment_key", public_key_of);
    let until = section.parsed_by("enrol_until", |text| {
        text.parse::<Timestamp>()
            .map_err(|_| format!("{text:?} is not a time; write it as \"2026-12-24T18:00:00Z\""))
    });
    match (&public_key, &enrolment_key, &until) {
        (None, None, _) => {
            section.missing("public_key", "paste what `braid pubkey` prints on the other end");
        }
        (Some(_), Some(_), _) => section.wrong(
            "enrolment_key",
            "peer.enrolment_key together with public_key: a home either is known or has yet to \
             join",
            "remove one of them",
        ),
        (None, Some(_), None) => {
            section.missing(
                "enrol_until",
                "write when the join line expires, \"2026-12-24T18:00:00Z\"",
            );
        }
        _ => {}
    }
    let enrolment = enrolment_key.zip(until).map(|(key, until)| Enrolment { key, until });
    (public_key.or(enrolment.map(|enrolment| enrolment.key)), enrolment)
}

fn public_key_of(text: &str) -> Result<PublicKey, String> {
    text.parse().map_err(|_| {
        format!("{text:?} is not a public key; paste what `braid pubkey` prints (44 characters)")
    })
}
