use crate::cli::Global;
use crate::cli::failure::Failure;
use crate::cli::pool::encrypt::line_of;
use crate::cli::pool::pool_key::PoolKey;
use crate::cli::status_table::columns;
use braid_pool::luks::{KeySlot, LuksVolume};
use clap::Args;
use serde_json::json;

#[derive(Args)]
#[command(after_help = "Example:\n  braid pool key list data")]
pub struct List {
    #[command(flatten)]
    key: PoolKey,
}

const HEAD: [&str; 5] = ["DISK", "SLOT", "STRETCHED BY", "GIVEN OUT BY", "AT BOOT"];

impl List {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let (seen, volumes) = self.key.volumes()?;
        let at_boot = |volume: &LuksVolume| {
            let line = line_of(volume, &seen.host)?;
            Some(line.key_file.map_or_else(|| line.unlock().to_string(), str::to_owned))
        };
        let value: Vec<serde_json::Value> = volumes
            .iter()
            .map(|volume| json!({ "volume": volume, "opened_at_boot_by": at_boot(volume) }))
            .collect();
        global.print(&json!({ "disks": value }), || {
            let mut rows = vec![HEAD.map(str::to_owned).to_vec()];
            for volume in &volumes {
                rows.extend(volume.slots.iter().map(|slot| row(volume, slot, at_boot(volume))));
            }
            columns(&rows).join("\n")
        })
    }
}

fn row(volume: &LuksVolume, slot: &KeySlot, at_boot: Option<String>) -> Vec<String> {
    vec![
        volume.path.clone(),
        slot.number.to_string(),
        format!("{} {}", slot.stretched_by, slot.iterations),
        slot.token.clone().unwrap_or_else(|| "-".to_owned()),
        at_boot.unwrap_or_else(|| "-".to_owned()),
    ]
}
