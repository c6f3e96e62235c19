use super::{More, finding};
use crate::code::Code;
use crate::facts::{Facts, Load};
use braid_control::finding::Finding;
use braid_history::Severity;

/// Share of time that a thread runs or waits to run, above which it has no reserve.
const THREAD: f64 = 0.9;
/// Share of all processors.
const ALL: f64 = 0.95;
/// Tolerable share of time taken by other virtual machines.
const STOLEN: f64 = 0.15;
/// Dropped packets per second.
const DROPS: f64 = 5.0;

/// What overloads this host's processors and buffers.
pub(crate) fn load(facts: &Facts, found: &mut Vec<Finding>) {
    let tunnel = facts.config.interface.name.as_str();
    let seconds = facts.between.as_secs_f64().max(0.1);
    let (now, earlier) = (&facts.host.counters, &facts.host.earlier_counters);
    let buffer = now.udp_receive_buffer.saturating_sub(earlier.udp_receive_buffer) as f64 / seconds;
    let not_fetched = facts.growth(|status| status.drops.not_fetched);
    if let Some(load) = facts.host.load {
        let percent = |share: f64| format!("{:.0} %", share * 100.0);
        if load.stolen > STOLEN {
            let what = "the hypervisor takes this machine's processor time away";
            let told = finding(Code::CpuStolen, Severity::Warning, "", what)
                .seen(format!("{} of the time is stolen", percent(load.stolen)))
                .mend("use a server with dedicated processors; ask the provider");
            found.push(told);
        } else if limits(load, facts, buffer.max(not_fetched)) {
            let what = "this host's processor limits the tunnel";
            let told = finding(Code::CpuHere, Severity::Warning, tunnel, what)
                .seen(format!(
                    "its busiest thread runs for {} of the time and waits to run for {}, all \
                     processors run for {}",
                    percent(load.busiest_thread),
                    percent(load.waited),
                    percent(load.all)
                ))
                .mend("check top -H; use a faster router, or run fewer other programs on this one");
            found.push(told);
        }
    }
    if buffer > DROPS {
        let what = "the kernel drops datagrams that aren't read in time";
        let told = finding(Code::ReceiveBuffer, Severity::Warning, tunnel, what)
            .seen(format!("{buffer:.0} in a second (UdpRcvbufErrors)"))
            .mend("sysctl -w net.core.rmem_max=8388608");
        found.push(told);
    }
    if not_fetched > DROPS {
        let what = format!("packets are dropped before the tunnel reads them from {tunnel}");
        let told = finding(Code::DeviceQueue, Severity::Warning, tunnel, what)
            .seen(format!("{not_fetched:.0} in a second"))
            .mend(format!(
                "ip link set {tunnel} txqueuelen 2000; check processor load with top -H"
            ));
        found.push(told);
    }
    let refused = facts.growth(|status| status.drops.refused);
    if refused > DROPS {
        let what = "the kernel refuses packets that leave the tunnel";
        let told = finding(Code::KernelRefuses, Severity::Warning, tunnel, what)
            .seen(format!("{refused:.0} packets in a second"))
            .mend(format!("ip link show {tunnel}: check that it is up"));
        found.push(told);
    }
}

/// Busy processors don't harm a tunnel whose threads still run in time: it is only limited if one
/// of them would always run, or packets are dropped meanwhile.
fn limits(load: Load, facts: &Facts, drops: f64) -> bool {
    facts.status.is_some()
        && (load.busiest_thread + load.waited > THREAD || load.all > ALL && drops > DROPS)
}
