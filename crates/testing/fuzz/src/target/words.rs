use braid_control::config::{DeviceName, Endpoint, Name, Prefix};
use braid_engines::{Device, MacAddress};
use braid_pool::layout::Layout;
use braid_pool::place::Place;
use braid_pool::planner::PoolName;
use braid_pool::retention::Policy;
use braid_pool::upkeep::Calendar;
use braid_pool::uuid::Uuid;
use braid_pool::wish::{Candidate, Use, Want};
use braid_replica::timestamp;
use braid_units::{ByteSize, Rate, Ratio, WakeLatency, format_duration, parse_duration};
use std::fmt::Display;
use std::str::FromStr;

/// A word of a config or a command line. What is read is written and read again as the same.
///
/// # Panics
/// When that is not so: what the fuzzer looks for.
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
    // Written for people, rounded.
    again::<Rate>(&text);
    again::<ByteSize>(&text);
    again::<Ratio>(&text);
    let _ = text.parse::<Candidate>();
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
