use super::failure::Failure;
use super::{Global, JsonFlag};
use clap::Args;
use serde_json::json;

#[derive(Args)]
#[command(after_help = "Example:\n  braid reload")]
pub struct Reload {
    #[command(flatten)]
    _json: JsonFlag,
}

impl Reload {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        // The daemon would report this too, but here it sets the exit code.
        let config = global.load_any_config()?;
        global.client()?.reload()?;
        let file = config.file().display().to_string();
        global.print(&json!({ "reloaded": file }), || format!("{file}: taken over"))
    }
}
