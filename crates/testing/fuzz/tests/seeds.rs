//! Seeds that parsers refuse are useless: what is well-formed in its format must be accepted.

use braid_control::{config::Config, join_line::JoinLine};
use braid_fuzz::{Target, seeds, seeds_folder};
use braid_lab::scenario::Scenario;
use braid_link_model::Trace;
use braid_wire::Frames;
use std::path::Path;

fn seeds_of(name: &str) -> Vec<Vec<u8>> {
    seeds(&seeds_folder(&Target::named(name).unwrap())).unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn configs_are_right() {
    for seed in seeds_of("config") {
        let config = Config::parse(text(&seed), Path::new("/nonexistent/braid.toml"));
        assert_eq!(config.err().map(|errors| errors.to_string()), None);
    }
}

#[test]
fn scenarios_are_right() {
    for seed in seeds_of("scenario") {
        let scenario = Scenario::parse("seed", text(&seed), Path::new("/nonexistent"));
        assert_eq!(scenario.err().map(|error| error.to_string()), None);
    }
}

#[test]
fn some_of_each_other_kind_are_right() {
    let right = |name: &str, is_right: &dyn Fn(&[u8]) -> bool| {
        seeds_of(name).iter().filter(|seed| is_right(seed)).count()
    };
    let trace = |seed: &[u8]| Trace::read(seed, Path::new("seed")).is_ok();
    assert!(right("trace", &trace) >= 3);
    let line = |seed: &[u8]| text(seed).parse::<JoinLine>().is_ok();
    assert_eq!(right("join_line", &|seed| std::str::from_utf8(seed).is_ok() && line(seed)), 1);
    let frames = |seed: &[u8]| Frames::new(&seed[8..]).all(|frame| frame.is_ok());
    assert!(right("wire", &frames) >= 9);
}
