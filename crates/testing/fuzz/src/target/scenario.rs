use braid_lab::scenario::Scenario;
use std::collections::HashSet;
use std::path::Path;

/// A scenario file, without trace files beside it. A valid one has links, named traffic, and a
/// sorted timeline; an invalid one gives an error that names the file.
///
/// # Panics
/// If that doesn't hold: this is what the fuzzer looks for.
pub fn scenario(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let scenario = match Scenario::parse("fuzz.toml", &text, Path::new("/nonexistent")) {
        Ok(scenario) => scenario,
        Err(error) => {
            let message = error.to_string();
            assert!(message.contains("fuzz.toml") || message.contains("/nonexistent"), "{message}");
            return;
        }
    };
    assert!(!scenario.links.is_empty() && !scenario.traffic.is_empty());
    let names = scenario.traffic_names();
    assert_eq!(names.len(), scenario.traffic.len());
    assert_eq!(names.iter().collect::<HashSet<_>>().len(), names.len());
    let timeline = scenario.timeline();
    assert!(timeline.is_sorted_by_key(|step| step.at));
    for (index, link) in scenario.links.iter().enumerate() {
        assert_eq!(scenario.link_named(&link.model.name), Some(index));
    }
}
