use super::failure::Failure;
use super::offered::Offered;
use super::{Global, JsonFlag};
use braid_control::client::ClientError;
use braid_control::config::{ConfigEditor, Mode};
use clap::Args;
use serde_json::json;

#[derive(Args)]
#[command(after_help = "Example:\n  braid mode overflow")]
pub struct ModeCommand {
    #[command(flatten)]
    _json: JsonFlag,
    /// adaptive, balance-rr, balance-xor, active-backup, broadcast or overflow; without it, the
    /// current mode is shown
    #[arg(value_parser = Offered::<Mode>::new(Mode::WORDS), hide_possible_values = true)]
    mode: Option<Mode>,
    /// Change only the running tunnel, not the config
    #[arg(long)]
    temporary: bool,
}

impl ModeCommand {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let Some(mode) = self.mode else {
            let mode = match global.client()?.status() {
                Ok(status) => status.mode,
                Err(ClientError::NotRunning(_) | ClientError::Anothers { .. }) => {
                    global.load_config()?.interface.mode
                }
                Err(error) => return Err(error.into()),
            };
            return global.print(&json!({ "mode": mode }), || mode.to_string());
        };
        if !self.temporary {
            let mut editor = ConfigEditor::open_alone(&global.config_file())?;
            editor.set_mode(mode)?;
            editor.save()?;
        }
        let running = match global.client()?.set_mode(mode) {
            Ok(()) => true,
            Err(ClientError::NotRunning(_) | ClientError::Anothers { .. }) if !self.temporary => {
                false
            }
            Err(error) => return Err(error.into()),
        };
        let value = json!({ "mode": mode, "running": running, "saved": !self.temporary });
        global.print(&value, || match running {
            true => format!("mode {mode}"),
            false => format!("mode {mode}, starting with the next `braid up`"),
        })
    }
}
