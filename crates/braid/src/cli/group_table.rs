use super::status_table::columns;
use braid_control::group_status::{DeviceStatus, GroupStatus};
use braid_units::{ByteSize, format_duration};
use std::time::Duration;

/// A group's status for people.
pub fn render(status: &GroupStatus) -> String {
    let up = format_duration(Duration::from_secs(status.uptime_s.max(0.0) as u64));
    let mode = status.mode.as_ref().map(|mode| format!("  {mode}")).unwrap_or_default();
    let mut head = format!("{}  {}{mode}  up {up}", status.interface, status.engine);
    if let Some(device) = &status.device {
        head.push_str(&format!("  mtu {}", device.mtu));
    }
    let mut lines = vec![head];
    if !status.addresses.is_empty() {
        let addresses: Vec<String> = status.addresses.iter().map(ToString::to_string).collect();
        lines.push(format!("addresses {}", addresses.join(", ")));
    }
    let mut rows =
        vec![["LINK", "BY", "WEIGHT", "RECEIVED", "SENT", "STATE"].map(str::to_owned).to_vec()];
    rows.extend(status.links.iter().map(|link| {
        let counted = |bytes: fn(&DeviceStatus) -> u64| {
            let bytes = link.device.as_ref().map(bytes);
            bytes.map_or_else(|| "-".to_owned(), |bytes| ByteSize::from_bytes(bytes).to_string())
        };
        let state = match (&link.trouble, link.standby) {
            (Some(trouble), _) => trouble.clone(),
            (None, true) => "standby".to_owned(),
            (None, false) => "used".to_owned(),
        };
        vec![
            link.name.clone(),
            link.interface.clone(),
            link.weight.to_string(),
            counted(|device| device.rx_bytes),
            counted(|device| device.tx_bytes),
            state,
        ]
    }));
    lines.extend(columns(&rows));
    lines.extend(status.troubles.iter().map(|trouble| format!("trouble: {trouble}")));
    lines.join("\n")
}
