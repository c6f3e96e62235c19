//! Who is connected, and who has to go if there are too many: connections that request nothing,
//! longest first. So whoever only opens connections keeps out nobody but themselves.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tokio::sync::Notify;

/// Maximum number of connections.
const MOST: usize = 256;
/// Maximum number of connections of one client, except this host.
const MOST_OF_ONE: usize = 64;

/// The current connections.
#[derive(Clone, Default)]
pub struct Guests(Arc<Mutex<Vec<Entry>>>);

struct Entry {
    client: u128,
    guest: Arc<State>,
}

struct State {
    /// How many of its requests are being answered, and since when none is.
    answered: Mutex<(usize, Instant)>,
    leave: Notify,
}

/// A connection's place, until dropped.
pub struct Guest {
    guests: Guests,
    state: Arc<State>,
}

/// One of its requests, until the answer is dropped.
pub struct Asking(Arc<State>);

impl Guests {
    /// Admits a client, if necessary in place of one that requests nothing.
    pub fn enter(&self, client: IpAddr) -> Option<Guest> {
        let (network, most) = match client.is_loopback() {
            true => (network(client), MOST),
            false => (network(client), MOST_OF_ONE),
        };
        let mut entries = self.entries();
        if entries.iter().filter(|entry| entry.client == network).count() >= most {
            send_away(&mut entries, network)?;
        } else if entries.len() >= MOST {
            let fullest = fullest(&entries)?;
            send_away(&mut entries, fullest)?;
        }
        let answered = Mutex::new((0, Instant::now()));
        let state = Arc::new(State { answered, leave: Notify::new() });
        entries.push(Entry { client: network, guest: state.clone() });
        Some(Guest { guests: self.clone(), state })
    }

    fn entries(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The network that a provider assigns to one customer.
fn network(client: IpAddr) -> u128 {
    match client.to_canonical() {
        IpAddr::V4(ip) => u128::from(ip.to_bits()),
        IpAddr::V6(ip) if ip.is_loopback() => ip.to_bits(),
        IpAddr::V6(ip) => ip.to_bits() >> 64 << 64 | 1 << 63,
    }
}

/// The client with the most connections, among those that have an idle one.
fn fullest(entries: &[Entry]) -> Option<u128> {
    let waiting = entries.iter().filter(|entry| entry.guest.waits().is_some());
    let count = |client| entries.iter().filter(|entry| entry.client == client).count();
    waiting.map(|entry| entry.client).max_by_key(|client| count(*client))
}

/// Disconnects this client's longest idle connection, if there is one.
fn send_away(entries: &mut Vec<Entry>, client: u128) -> Option<()> {
    let own = entries.iter().enumerate().filter(|(_, entry)| entry.client == client);
    let waiting = own.filter_map(|(place, entry)| Some((entry.guest.waits()?, place)));
    let (_, place) = waiting.min()?;
    entries.swap_remove(place).guest.leave.notify_one();
    Some(())
}

impl Guest {
    /// Marks the start of a request.
    pub fn asks(&self) -> Asking {
        self.state.answered().0 += 1;
        Asking(self.state.clone())
    }

    /// Resolves when the connection must end.
    pub async fn is_sent_away(&self) {
        self.state.leave.notified().await;
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.guests.entries().retain(|entry| !Arc::ptr_eq(&entry.guest, &self.state));
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        let mut answered = self.0.answered();
        *answered = (answered.0.saturating_sub(1), Instant::now());
    }
}

impl State {
    /// Since when it has been idle; `None` while a request is being answered.
    fn waits(&self) -> Option<Instant> {
        let (requests, since) = *self.answered();
        (requests == 0).then_some(since)
    }

    fn answered(&self) -> MutexGuard<'_, (usize, Instant)> {
        self.answered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn is_sent_away(guest: &Guest) -> bool {
        guest.guests.entries().iter().all(|entry| !Arc::ptr_eq(&entry.guest, &guest.state))
    }

    #[test]
    fn who_asks_for_nothing_gives_way_to_his_own_next_connection() {
        let guests = Guests::default();
        let held: Vec<Guest> =
            (0..MOST_OF_ONE).map(|_| guests.enter(at("2001:db8::1")).unwrap()).collect();
        let asking = held[0].asks();
        let other = guests.enter(at("192.0.2.1")).unwrap();
        // Another address in the same network is the same client.
        let next = guests.enter(at("2001:db8::2")).unwrap();
        let sent_away: Vec<usize> = (0..MOST_OF_ONE).filter(|n| is_sent_away(&held[*n])).collect();
        assert_eq!(sent_away, [1], "neither who is answered nor others");
        assert!(!is_sent_away(&other) && !is_sent_away(&next));
        drop(asking);
        // It has only just become idle: others have waited longer.
        let _another = guests.enter(at("2001:db8::1")).unwrap();
        assert!(is_sent_away(&held[2]) && !is_sent_away(&held[0]));
    }

    #[test]
    fn the_client_with_most_connections_makes_room() {
        let guests = Guests::default();
        let mut held = vec![guests.enter(at("192.0.2.1")).unwrap()];
        held.extend((1..MOST).map(|_| guests.enter(at("127.0.0.1")).unwrap()));
        let asking: Vec<Asking> = held[1..].iter().map(Guest::asks).collect();
        // Only one is idle, and it is its client's only one: it has to go all the same.
        let _next = guests.enter(at("192.0.2.7")).unwrap();
        assert!(is_sent_away(&held[0]));
        drop(asking);
        let _last = guests.enter(at("192.0.2.8")).unwrap();
        assert_eq!(held[1..].iter().filter(|guest| is_sent_away(guest)).count(), 1);
    }

    #[test]
    fn nobody_is_sent_away_while_he_is_answered() {
        let guests = Guests::default();
        let held: Vec<Guest> = (0..MOST).map(|_| guests.enter(at("127.0.0.1")).unwrap()).collect();
        let _asking: Vec<Asking> = held.iter().map(Guest::asks).collect();
        assert!(guests.enter(at("192.0.2.1")).is_none());
    }
}
