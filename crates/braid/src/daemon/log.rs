//! Logs, to stderr.

use tracing_subscriber::EnvFilter;

/// Starts logging what `filter` (a level, or directives of tracing's
/// `EnvFilter`) lets through.
pub fn init(filter: &str, json: bool) -> Result<(), String> {
    let filter = EnvFilter::builder()
        .parse(filter)
        .map_err(|error| format!("--log {filter:?}: {error}; write it as \"info\""))?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let started = match json {
        true => builder.json().try_init(),
        false => builder.with_ansi(false).with_target(false).try_init(),
    };
    started.map_err(|error| format!("logging: {error}"))
}
