use braid_link_model::Trace;
use braid_units::Rate;
use std::path::Path;
use std::time::Duration;

/// A Mahimahi trace, plain or gzip. A valid one can repeat.
///
/// # Panics
/// If that doesn't hold: this is what the fuzzer looks for.
pub fn trace(data: &[u8]) {
    match Trace::read(data, Path::new("fuzz.down")) {
        Ok(trace) => {
            assert!(trace.opportunities() > 0);
            assert!(trace.length() > Duration::ZERO);
            assert!(trace.mean_rate() < Rate::MAX);
        }
        Err(error) => assert!(error.to_string().contains("fuzz.down")),
    }
}
