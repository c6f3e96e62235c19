use super::{More, finding};
use crate::code::Code;
use crate::facts::Facts;
use braid_control::finding::Finding;
use braid_history::Severity;

/// UDP segmentation offload came with 4.18, its receive side with 5.0.
const KERNEL: (u32, u32) = (5, 0);
/// Share of the connection table in use.
const CONNTRACK: f64 = 0.9;
/// Free space that journals and counters need, bytes.
const LEAST_FREE: u64 = 4 << 20;
/// The clock can't be earlier: no release of Braid is older than 2026-01-01, Unix seconds.
const EARLIEST: i64 = 1_767_225_600;

/// Whether a tunnel runs, and whether anything that it needs is missing.
pub(crate) fn running(facts: &Facts, found: &mut Vec<Finding>) {
    let tunnel = facts.config.interface.name.as_str();
    if !facts.host.has_tun {
        let what = "/dev/net/tun is missing: no tunnel can be created";
        let told = finding(Code::NoTun, Severity::Critical, tunnel, what);
        found.push(told.mend("modprobe tun; in a container, give it /dev/net/tun"));
    }
    if !facts.host.has_nft && !facts.config.routing.leave_host_alone {
        let what = "nft is missing: NAT and filters can't be set";
        found.push(
            finding(Code::NoNft, Severity::Critical, tunnel, what).mend("apt install nftables"),
        );
    }
    if facts.status.is_none() {
        let what = format!("no tunnel is running with {}", facts.config.file.display());
        let told = finding(Code::NotRunning, Severity::Critical, tunnel, what);
        found.push(told.mend("braid up"));
    }
}

/// The host that the tunnel runs on.
pub(crate) fn host(facts: &Facts, found: &mut Vec<Finding>) {
    let host = &facts.host;
    if let Some((major, minor)) = host.kernel.filter(|kernel| *kernel < KERNEL) {
        let what = format!(
            "Linux {major}.{minor} sends and receives each datagram by itself (no UDP segmentation \
             offload): fast links cost a lot of processor time"
        );
        let told = finding(Code::OldKernel, Severity::Note, "", what)
            .mend(format!("Linux {}.{} or newer", KERNEL.0, KERNEL.1));
        found.push(told);
    }
    let unset = facts.now < EARLIEST;
    // It doesn't matter if no quota depends on the date.
    let has_periods = facts.config.links.iter().any(|link| link.quota.is_some());
    if unset || has_periods && host.clock_synchronized == Some(false) {
        let what = match unset {
            true => {
                "the clock is far in the past: quota periods and certificate validity are wrong"
            }
            false => "the clock isn't synchronised: quota periods may be wrong",
        };
        let severity = if unset { Severity::Warning } else { Severity::Note };
        let told = finding(Code::ClockWrong, severity, "", what);
        found.push(told.mend("timedatectl set-ntp true, or apt install chrony"));
    }
    if let Some((used, most)) = host.conntrack
        && most > 0
        && used as f64 > most as f64 * CONNTRACK
    {
        let what = "the kernel's table of connections is nearly full: new ones will be dropped";
        let told = finding(Code::ConntrackFull, Severity::Warning, "", what)
            .seen(format!("{used} of {most}"))
            .mend(format!("sysctl -w net.netfilter.nf_conntrack_max={}", most.saturating_mul(4)));
        found.push(told);
    }
    if let Some(free) = host.state_free_bytes.filter(|free| *free < LEAST_FREE) {
        let folder = facts.config.interface.state_dir.display();
        let what = format!("hardly any space is left in {folder}: counters and journals get lost");
        let told = finding(Code::StateFolderFull, Severity::Warning, "", what)
            .seen(format!("{} KiB are free", free / 1024))
            .mend(format!("du -xh {folder} | sort -h | tail"));
        found.push(told);
    }
    let Some(status) = &facts.status else { return };
    for alert in status.alerts.iter().filter(|alert| alert.trouble.is_some()) {
        let why = alert.trouble.as_deref().unwrap_or_default();
        let what = format!("messages to {} can't be delivered: {why}", alert.name);
        let told = finding(Code::AlertsUndelivered, Severity::Warning, &alert.name, what)
            .seen(format!("{} events wait", alert.waiting))
            .mend(format!("braid alert test {}", alert.name));
        found.push(told);
    }
    let refused = |status: &braid_control::status::Status| {
        status.split_tcp.map_or(0, |split| split.over_limit)
    };
    if facts.growth(refused) > 0.0 {
        let what = "TCP connections are reset because too many are split at once";
        let told = finding(Code::SplitTcpFull, Severity::Warning, "", what)
            .seen(format!("{} so far", refused(status)))
            .mend("raise connections and memory in [split_tcp]");
        found.push(told);
    }
}
