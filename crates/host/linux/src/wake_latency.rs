//! Limits how deeply the machine's idle processors may sleep
//! (Documentation/power/pm_qos_interface.rst, "CPU latency QoS").

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

/// Means no limit (`PM_QOS_CPU_LATENCY_DEFAULT_VALUE` of linux/pm_qos.h), microseconds.
const NO_LIMIT: i32 = 2_000_000_000;

/// While held, restricts the kernel to sleep states from which a processor wakes within a given
/// time. Zero allows none: idle processors then busy-wait. The request ends when this is dropped.
#[derive(Debug)]
pub struct LatencyRequest {
    device: File,
    limit_micros: i32,
    held: bool,
}

impl LatencyRequest {
    /// The kernel's device for such requests.
    pub const DEVICE: &str = "/dev/cpu_dma_latency";

    /// Opens the kernel's device; no request is made yet.
    ///
    /// # Errors
    /// The device can't be opened: it belongs to root, containers lack it.
    pub fn open(limit: Duration) -> io::Result<Self> {
        Self::open_at(Path::new(Self::DEVICE), limit)
    }

    /// A second request for the same limit, held independently: the kernel satisfies all of them.
    ///
    /// # Errors
    /// As for [`Self::open`].
    pub fn another(&self) -> io::Result<Self> {
        let limit = Duration::from_micros(u64::try_from(self.limit_micros).unwrap_or_default());
        Self::open(limit)
    }

    fn open_at(path: &Path, limit: Duration) -> io::Result<Self> {
        let device = OpenOptions::new().write(true).open(path)?;
        let limit_micros = i32::try_from(limit.as_micros()).unwrap_or(NO_LIMIT);
        Ok(Self { device, limit_micros, held: false })
    }

    /// Requests the limit or withdraws the request. Does nothing if that is already the state.
    ///
    /// # Errors
    /// Those of write(2).
    pub fn hold(&mut self, held: bool) -> io::Result<()> {
        if held != self.held {
            let limit = if held { self.limit_micros } else { NO_LIMIT };
            self.device.write_all(&limit.to_ne_bytes())?;
            self.held = held;
        }
        Ok(())
    }
}

/// Where the kernel names its idle driver (Documentation/admin-guide/pm/cpuidle.rst).
const IDLE_DRIVER: &str = "/sys/devices/system/cpu/cpuidle/current_driver";

/// Whether this is a virtual machine with dedicated processors, according to its host: keeping them
/// awake takes nothing from others and saves a trip through the hypervisor per wake-up. Linux shows
/// it by using `haltpoll`, which it does only on that hint (`KVM_HINTS_REALTIME`,
/// Documentation/virt/kvm/x86/cpuid.rst) or when configured to.
pub fn processors_are_dedicated() -> bool {
    fs::read_to_string(IDLE_DRIVER).is_ok_and(|driver| driver.trim_end() == "haltpoll")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_is_told_each_change_once() {
        let path = std::env::temp_dir().join(format!("braid-wake-latency-{}", std::process::id()));
        File::create(&path).expect("a file");
        let mut latency =
            LatencyRequest::open_at(&path, Duration::from_micros(20)).expect("opened");
        for held in [false, true, true, false, false] {
            latency.hold(held).expect("written");
        }
        let written = std::fs::read(&path).expect("what was written");
        std::fs::remove_file(&path).expect("removed");
        assert_eq!(written, [20_i32.to_ne_bytes(), NO_LIMIT.to_ne_bytes()].concat());
    }

    #[test]
    fn the_kernel_takes_it() {
        let mut latency = match LatencyRequest::open(Duration::ZERO) {
            Ok(latency) => latency,
            Err(error) => return eprintln!("skipped: {}: {error}", LatencyRequest::DEVICE),
        };
        latency.hold(true).expect("asked");
        latency.hold(false).expect("taken back");
    }
}
