use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Limits login attempts: a few at once, then one now and then.
#[derive(Debug, Default)]
pub struct Attempts {
    clients: HashMap<IpAddr, Bucket>,
    /// The limit for all clients together, so that many addresses don't help.
    all: Bucket,
}

#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    used: u32,
    at: Option<Instant>,
}

/// Immediate attempts of one client.
const AT_ONCE: u32 = 5;
/// After them, one attempt per this time.
const ONE_IN: Duration = Duration::from_secs(20);
/// Immediate attempts of all clients.
const ALL_AT_ONCE: u32 = 30;
/// Interval for all clients: an attempt costs some 50 ms of a processor, so this is 2.5 % of one.
const ALL_ONE_IN: Duration = Duration::from_secs(2);
const MOST_CLIENTS: usize = 1024;

impl Attempts {
    /// Whether this client may try now; this counts as an attempt.
    ///
    /// # Errors
    /// How long it must wait.
    pub fn try_now(&mut self, client: IpAddr, now: Instant) -> Result<(), Duration> {
        let client = network(client);
        if self.clients.len() >= MOST_CLIENTS && !self.clients.contains_key(&client) {
            self.clients.retain(|_, bucket| bucket.left(now, ONE_IN) > 0);
            if self.clients.len() >= MOST_CLIENTS {
                return Err(ONE_IN);
            }
        }
        let bucket = self.clients.entry(client).or_default();
        if bucket.left(now, ONE_IN) >= AT_ONCE {
            return Err(ONE_IN);
        }
        if self.all.left(now, ALL_ONE_IN) >= ALL_AT_ONCE {
            return Err(ALL_ONE_IN);
        }
        bucket.take(now, ONE_IN);
        self.all.take(now, ALL_ONE_IN);
        Ok(())
    }

    /// The password was right: forgives earlier mistyped ones.
    pub fn succeeded(&mut self, client: IpAddr) {
        self.clients.remove(&network(client));
    }
}

impl Bucket {
    /// Number of attempts that still count.
    fn left(&self, now: Instant, one_in: Duration) -> u32 {
        let Some(at) = self.at else { return 0 };
        let passed = now.saturating_duration_since(at).as_secs() / one_in.as_secs().max(1);
        self.used.saturating_sub(u32::try_from(passed).unwrap_or(u32::MAX))
    }

    fn take(&mut self, now: Instant, one_in: Duration) {
        *self = Bucket { used: self.left(now, one_in) + 1, at: Some(now) };
    }
}

/// Whoever has one IPv6 address has 2^64.
fn network(client: IpAddr) -> IpAddr {
    match client.to_canonical() {
        IpAddr::V4(v4) => IpAddr::V4(v4),
        IpAddr::V6(v6) => IpAddr::V6((u128::from(v6) >> 64 << 64).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(n: u32) -> IpAddr {
        IpAddr::V4(n.into())
    }

    #[test]
    fn a_few_at_once_then_one_now_and_then() {
        let (mut attempts, start) = (Attempts::default(), Instant::now());
        let tries = |attempts: &mut Attempts, at| {
            (0..100).filter(|_| attempts.try_now(ip(1), at).is_ok()).count()
        };
        assert_eq!(tries(&mut attempts, start), 5);
        assert_eq!(tries(&mut attempts, start + Duration::from_secs(19)), 0);
        assert_eq!(tries(&mut attempts, start + Duration::from_secs(61)), 3);
        assert_eq!(attempts.try_now(ip(2), start), Ok(()));
        attempts.succeeded(ip(1));
        assert_eq!(tries(&mut attempts, start + Duration::from_secs(61)), 5);
    }

    #[test]
    fn many_addresses_do_not_help() {
        let (mut attempts, start) = (Attempts::default(), Instant::now());
        let let_in = (0..100_000).filter(|n| attempts.try_now(ip(*n), start).is_ok()).count();
        assert_eq!(let_in, ALL_AT_ONCE as usize);
        assert!(attempts.clients.len() <= MOST_CLIENTS);
        let mut attempts = Attempts::default();
        let neighbours = (0..100u128).map(|n| IpAddr::V6(((0x2001_0db8 << 96) + n).into()));
        assert_eq!(neighbours.filter(|from| attempts.try_now(*from, start).is_ok()).count(), 5);
    }
}
