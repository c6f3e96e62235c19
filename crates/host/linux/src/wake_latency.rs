//! How deep idle processors may sleep: the whole machine's
//! (Documentation/power/pm_qos_interface.rst, "CPU latency QoS").

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

/// Says that there is no limit (`PM_QOS_CPU_LATENCY_DEFAULT_VALUE` of
/// linux/pm_qos.h), microseconds.
const NO_LIMIT: i32 = 2_000_000_000;

/// Asks the kernel, while it is held, for sleep states only from which a
/// processor is back within a given time. Zero asks for none: idle processors
/// then wait in a loop. What was asked ends when this is dropped.
#[derive(Debug)]
pub struct LatencyRequest {
    device: File,
    limit_micros: i32,
    held: bool,
}

impl LatencyRequest {
    /// Where the kernel is asked.
    pub const DEVICE: &str = "/dev/cpu_dma_latency";

    /// Opens the kernel's device; nothing is asked yet.
    ///
    /// # Errors
    /// The device can't be opened: it belongs to root, containers lack it.
    pub fn open(limit: Duration) -> io::Result<Self> {
        Self::open_at(Path::new(Self::DEVICE), limit)
    }

    /// The same once more, held or not by itself: the kernel keeps what all of them ask for.
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

    /// Asks for the limit, or takes that back. Asked anew for what is so
    /// already, it does nothing.
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

/// Where the kernel says what puts its idle processors to sleep
/// (Documentation/admin-guide/pm/cpuidle.rst).
const IDLE_DRIVER: &str = "/sys/devices/system/cpu/cpuidle/current_driver";

/// Whether this is a virtual machine whose host says that the processors are its
/// own: keeping them from sleep takes nothing from others, and spares each
/// wake-up the way through the hypervisor. Linux tells by using `haltpoll`, which
/// it does on that hint alone (`KVM_HINTS_REALTIME`,
/// Documentation/virt/kvm/x86/cpuid.rst) or when it was told to.
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
