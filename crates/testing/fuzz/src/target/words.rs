use braid_control::config::{
    Cgroup, Country, Device as OfLan, DeviceName, Dscp, Endpoint, Hours, LinkMarks, Name,
    PortRange, Prefix, Proxy, SystemNumber, UsbId,
};
use braid_diskbench::profile::Profile;
use braid_engines::{Device, MacAddress};
use braid_handshake::{PresharedKey, PrivateKey, PublicKey};
use braid_history::Series;
use braid_lab::engines::EngineName;
use braid_lab::scenario::TunnelMode;
use braid_pool::layout::Layout;
use braid_pool::place::Place;
use braid_pool::planner::PoolName;
use braid_pool::retention::Policy;
use braid_pool::upkeep::{BackupTarget, Calendar};
use braid_pool::uuid::Uuid;
use braid_pool::wish::{Candidate, Use, Want};
use braid_replica::timestamp;
use braid_rules::{DomainName, DomainPattern, Mac};
use braid_speed::request::Request;
use braid_units::{ByteSize, Rate, Ratio, WakeLatency, format_duration, parse_duration};
use std::fmt::Display;
use std::str::FromStr;

/// A word of a config or a command line. What is read can be written and read again as the same.
///
/// # Panics
/// If that doesn't hold: this is what the fuzzer looks for.
pub fn words(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    same_again::<Name>(&text);
    same_again::<DeviceName>(&text);
    same_again::<Prefix>(&text);
    same_again::<Endpoint>(&text);
    same_again::<Device>(&text);
    same_again::<MacAddress>(&text);
    same_again::<Layout>(&text);
    same_again::<Place>(&text);
    same_again::<PoolName>(&text);
    same_again::<Policy>(&text);
    same_again::<Calendar>(&text);
    same_again::<Uuid>(&text);
    same_again::<Use>(&text);
    same_again::<Want>(&text);
    same_again::<WakeLatency>(&text);
    same_again::<UsbId>(&text);
    same_again::<Mac>(&text);
    same_again::<DomainPattern>(&text);
    same_again::<PublicKey>(&text);
    same_again::<Series>(&text);
    same_again::<Profile>(&text);
    same_again::<EngineName>(&text);
    same_again::<TunnelMode>(&text);
    same_again::<BackupTarget>(&text);
    // It is written for people, rounded.
    again::<Rate>(&text);
    again::<ByteSize>(&text);
    again::<Ratio>(&text);
    // These are never written.
    let _ = (text.parse::<Candidate>(), text.parse::<DomainName>());
    let _ = (text.parse::<Cgroup>(), text.parse::<Country>(), text.parse::<SystemNumber>());
    let _ = (text.parse::<OfLan>(), text.parse::<Hours>(), text.parse::<Dscp>());
    let _ = (text.parse::<PortRange>(), text.parse::<LinkMarks>(), text.parse::<Proxy>());
    let _ = (text.parse::<PrivateKey>(), text.parse::<PresharedKey>());
    if let Some(request) = Request::parse(&text) {
        assert_eq!(Request::parse(request.line().trim_end()), Some(request));
    }
    if let Ok(duration) = parse_duration(&text) {
        assert!(parse_duration(&format_duration(duration)).is_ok(), "{duration:?}");
    }
    if let Some(time) = timestamp::parse(&text) {
        assert_eq!(timestamp::parse(&timestamp::format(time)), Some(time));
    }
}

fn same_again<T: FromStr + Display + PartialEq>(text: &str) {
    if let Ok(value) = text.parse::<T>() {
        let written = value.to_string();
        assert!(written.parse::<T>().is_ok_and(|again| again == value), "{text:?}: {written:?}");
    }
}

fn again<T: FromStr + Display>(text: &str) {
    if let Ok(value) = text.parse::<T>() {
        let written = value.to_string();
        assert!(written.parse::<T>().is_ok(), "{text:?}: {written:?}");
    }
}
