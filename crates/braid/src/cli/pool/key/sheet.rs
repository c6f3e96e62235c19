use crate::cli::Global;
use crate::cli::failure::Failure;
use crate::cli::pool::pool_key::PoolKey;
use crate::cli::pool::volumes::Opener;
use braid_pool::luks::LuksVolume;
use braid_replica::timestamp;
use clap::Args;
use serde_json::json;
use std::fs;
use std::path::PathBuf;
use std::time::SystemTime;
use zeroize::Zeroizing;

#[derive(Args)]
#[command(
    after_help = "Examples:\n  braid pool key sheet data | lpr\n  braid pool key sheet data --out /root/sheet.txt\n\nIt shows the key file's key: whoever has the sheet and a disk can read that disk.\nIn place of a passphrase it has an empty line to write it on."
)]
pub struct Sheet {
    #[command(flatten)]
    key: PoolKey,
    /// Write it to this new file, for its owner alone
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

impl Sheet {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let (seen, volumes) = self.key.volumes()?;
        let key = match self.key.passphrase_file.is_some() {
            true => None,
            false => by_file(self.key.opener_if_file(&seen, &volumes)?)?,
        };
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let date = timestamp::shown(SystemTime::now());
        let date = date.get(..10).unwrap_or(&date);
        let text =
            text(&self.key.name, host.trim(), date, &volumes, key.as_ref().map(|key| key.as_str()));
        let text = Zeroizing::new(text);
        let Some(file) = &self.out else {
            return global.print(&json!({ "sheet": *text }), || text.trim_end().to_owned());
        };
        braid_durable::create(file, text.as_bytes(), 0o600)
            .map_err(|error| Failure::io(&format!("writing {}", file.display()), &error))?;
        global.print(&json!({ "file": file.display().to_string() }), || {
            format!("written: {}", file.display())
        })
    }
}

/// The key as one types it; a key file with other bytes is written in hexadecimal.
fn by_file(opener: Option<Opener>) -> Result<Option<Zeroizing<String>>, Failure> {
    let Some(Opener::KeyFile(file)) = opener else { return Ok(None) };
    let bytes = fs::read(&file).map_err(|error| Failure::io(&format!("reading {file}"), &error))?;
    let bytes = Zeroizing::new(bytes);
    let is_typed = bytes.iter().all(|byte| byte.is_ascii_graphic());
    let text: String = match is_typed {
        true => bytes.iter().map(|byte| char::from(*byte)).collect(),
        false => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
    };
    Ok(Some(Zeroizing::new(if is_typed { text } else { format!("(hexadecimal) {text}") })))
}

/// The printed text.
fn text(pool: &str, host: &str, date: &str, volumes: &[LuksVolume], key: Option<&str>) -> String {
    let disks: Vec<String> =
        volumes.iter().map(|volume| format!("  {}  {}", volume.uuid, volume.disk)).collect();
    let disks = disks.join("\n");
    let (key, make) = match key {
        Some(key) => match key.strip_prefix("(hexadecimal) ") {
            Some(hex) => {
                let lines: Vec<String> = hex
                    .as_bytes()
                    .chunks(64)
                    .map(|line| String::from_utf8_lossy(line).into_owned())
                    .collect();
                let how = "write the digits into a file `digits`, then\n\n    xxd -r -p digits key";
                (format!("in hexadecimal digits\n  {}", lines.join("\n  ")), how)
            }
            None => (
                format!(
                    "{key}\n\nIt consists of digits and capitals except I, L, O, U; the dashes are part of it."
                ),
                "write the key into a file, without a newline:\n\n    read -r KEY; printf %s \"$KEY\" > key",
            ),
        },
        None => (
            "_____________________________________________  (write it here)".to_owned(),
            "write the passphrase into a file, without a newline:\n\n    read -rs KEY; printf %s \"$KEY\" > key",
        ),
    };
    let title = format!("RECOVERY SHEET FOR THE ENCRYPTED POOL {pool} OF {host}");
    let rule = "=".repeat(title.chars().count());
    format!(
        "{title}\n{rule}\n\n\
         Printed {date}. Keep it where a fire or a thief at home doesn't reach it.\n\
         Whoever has it and a disk of the pool can read that disk.\n\
         Without the key NOBODY can read them, and nobody can make it again.\n\n\
         KEY  {key}\n\n\
         DISKS (LUKS2)\n{disks}\n\n\
         WITH BRAID, ON ANY LINUX\n  {make}\n    \
         braid pool open {pool} --key-file key\n\n\
         WITHOUT BRAID: cryptsetup, which every Linux has as a package. For each disk,\n\n    \
         cryptsetup open --key-file key /dev/disk/by-uuid/UUID NAME\n\n  \
         then, for an md array, `mdadm --assemble --scan`, and mount it.\n\n\
         Should a disk not be recognised any more, its LUKS header is damaged: the pool's\n\
         host keeps backups in /var/lib/braid/pools/.headers, which\n  \
         `cryptsetup luksHeaderRestore --header-backup-file FILE DISK` puts back.\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use braid_pool::disk::DiskId;
    use braid_pool::luks::Header;
    use braid_pool::uuid::Uuid;

    #[test]
    fn a_sheet_has_all_that_is_needed_on_a_page() {
        let volume = LuksVolume {
            uuid: Uuid::from_bytes([0x3f; 16]),
            path: "/dev/sdb".into(),
            disk: DiskId::new("WD-WCC4E1"),
            pool: Some("data".into()),
            pool_uuid: None,
            open: None,
            header: Header::Whole,
            slots: Vec::new(),
            discards: false,
        };
        let key = "0123-4567-89AB-CDEF-GHJK-MNPQ-RSTV-WXYZ";
        let hex = format!("(hexadecimal) {}", "0a".repeat(64));
        for key in [Some(key), Some(hex.as_str()), None] {
            let text = text("data", "nas", "2026-11-25", std::slice::from_ref(&volume), key);
            for part in ["3f3f3f3f-3f3f", "WD-WCC4E1", "braid pool open data", "cryptsetup open"] {
                assert!(text.contains(part), "{part} in {text}");
            }
            assert!(key.is_none_or(|key| key.len() > 100 || text.contains(key)), "{text}");
            let fits = text.lines().all(|line| line.len() <= 82);
            assert!(text.lines().count() < 60 && fits, "{text}");
        }
    }
}
