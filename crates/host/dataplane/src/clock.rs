use braid_units::Time;
use std::time::{Instant, SystemTime};

/// The data plane's clock: monotonic, starting at its creation.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: Instant,
    unix_nanos: u64,
}

impl Clock {
    /// A clock that shows zero now.
    pub fn start() -> Self {
        let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self {
            origin: Instant::now(),
            unix_nanos: u64::try_from(unix.as_nanos()).unwrap_or(u64::MAX),
        }
    }

    /// The current time.
    pub fn now(&self) -> Time {
        Time::from_nanos(u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// Nanoseconds since 1970 at its zero, for
    /// [`braid_tunnel::TunnelConfig::epoch_unix_nanos`].
    pub fn epoch_unix_nanos(&self) -> u64 {
        self.unix_nanos
    }
}
