//! How many flows of each device wait, so that devices share equally and not flows (as CAKE's
//! host isolation, Høiland-Jørgensen et al., LANMAN 2018, section 3.2): a flow's share is one
//! part in so many as its device has.

use crate::index_map::IndexMap;

/// Flows that wait, by device.
#[derive(Debug, Default)]
pub(super) struct DeviceLoads {
    /// Of device 0, which is most often the only one that is known.
    unknown: u32,
    known: IndexMap<u16, u32>,
    /// Of the device that has least of all that have some.
    least: u32,
}

impl DeviceLoads {
    /// A flow of this device waits.
    #[inline]
    pub fn begin(&mut self, device: u16) {
        match device {
            0 => self.unknown += 1,
            _ => *self.known.entry(device).or_default() += 1,
        }
        self.find_least();
    }

    /// A flow of this device waits no more.
    #[inline]
    pub fn end(&mut self, device: u16) {
        if device == 0 {
            self.unknown -= 1;
        } else if let Some(flows) = self.known.get_mut(&device) {
            *flows -= 1;
            if *flows == 0 {
                self.known.remove(&device);
            }
        }
        self.find_least();
    }

    /// What part of `quantum` a flow of this device gets in its turn: all of it where no
    /// device has less flows.
    #[inline]
    pub fn part(&self, quantum: i64, device: u16) -> i64 {
        if self.known.is_empty() {
            return quantum;
        }
        let of_device = match device {
            0 => self.unknown,
            _ => self.known.get(&device).copied().unwrap_or_default(),
        };
        match of_device > self.least {
            true => quantum * i64::from(self.least) / i64::from(of_device),
            false => quantum,
        }
    }

    #[inline]
    fn find_least(&mut self) {
        if !self.known.is_empty() {
            let unknown = (self.unknown > 0).then_some(self.unknown);
            self.least = self.known.values().copied().chain(unknown).min().unwrap_or_default();
        }
    }
}
