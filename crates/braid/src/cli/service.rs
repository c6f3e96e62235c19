//! What starts a tunnel, now and at boot: systemd, if it runs and the units are installed, or
//! OpenWrt's service.

use super::failure::Failure;
use super::openwrt;
use braid_control::client::Client;
use braid_control::config::{AnyConfig, DEFAULT_CONFIG};
use braid_pool::step::quoted;
use std::path::Path;
use std::process::{Command, Stdio};

/// The unit that runs this config, if systemd runs and has it.
pub fn unit_for(file: &Path, config: &AnyConfig) -> Option<String> {
    let unit = if file == Path::new(DEFAULT_CONFIG) {
        match config {
            AnyConfig::Tunnel(config) if !config.interface.listen.is_empty() => {
                "braid-concentrator.service".to_owned()
            }
            AnyConfig::Tunnel(_) => "braid-home.service".to_owned(),
            // teamd needs packet sockets, which tunnels of homes don't.
            AnyConfig::Group(_) => "braid@braid.service".to_owned(),
        }
    } else {
        let directory = Path::new(DEFAULT_CONFIG).parent();
        let name = file.file_stem()?.to_str()?;
        let is_toml = file.extension().is_some_and(|extension| extension == "toml");
        (file.parent() == directory && is_toml).then(|| format!("braid@{name}.service"))?
    };
    is_installed(&unit).then_some(unit)
}

/// Whether [`start`] starts it at boot, too.
pub fn starts_at_boot(unit: &str, file: &Path) -> bool {
    openwrt::Service::of(file).is_some() || file == Path::new(DEFAULT_CONFIG) && is_installed(unit)
}

/// Starts the tunnel of `file`, now and at boot, by `unit` or OpenWrt's service if possible;
/// otherwise only now. Returns which.
pub fn start(unit: &str, file: &Path) -> Result<String, Failure> {
    if let Some(service) = openwrt::Service::of(file) {
        let client = Client::of(&AnyConfig::load(file)?);
        service.start(|| client.is_running().unwrap_or(false))?;
        return Ok(format!("started {}, now and at boot", openwrt::NAME));
    }
    if starts_at_boot(unit, file) {
        systemctl(&["enable", "--now", unit])?;
        return Ok(format!("started {unit}, now and at boot"));
    }
    let program = std::env::current_exe()
        .map_err(|error| Failure::io("finding this program's own file", &error))?;
    let status = Command::new(program)
        .args(["up", "--config"])
        .arg(file)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .map_err(|error| Failure::io("starting `braid up`", &error))?;
    if !status.success() {
        return Err(Failure::failed(format!(
            "everything is written, but `{}` failed",
            up_command(file)
        )));
    }
    super::failure::tell(
        "no systemd unit for it is installed: arrange yourself that it starts at boot",
    );
    Ok("started".to_owned())
}

/// The command that starts the tunnel of `file`.
pub fn up_command(file: &Path) -> String {
    match file == Path::new(DEFAULT_CONFIG) {
        true => "braid up".to_owned(),
        false => format!("braid up --config {}", quoted(&file.display().to_string())),
    }
}

/// Runs systemctl.
pub fn systemctl(arguments: &[&str]) -> Result<(), Failure> {
    let output = Command::new("systemctl")
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| Failure::io("running systemctl", &error))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(Failure::failed(format!("systemctl {}: {}", arguments.join(" "), said.trim())))
}

fn is_installed(unit: &str) -> bool {
    // sd_booted(3)
    Path::new("/run/systemd/system").is_dir()
        && Command::new("systemctl")
            .args(["cat", unit])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
}
