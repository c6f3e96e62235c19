//! A home: the core's choice among the concentrators that it knows.

use braid_tunnel::routing::{Health, StandIns};
use braid_units::Time;
use std::time::Duration;

pub struct SimulatedHome {
    /// The concentrators that it knows, in its order.
    pub members: Vec<usize>,
    pub round_trips: Vec<Duration>,
    pub health: Vec<Health>,
    /// Calls since each was last connected.
    pub attempts: Vec<usize>,
    pub order: StandIns,
    /// The epoch of its last statement on who serves it.
    pub epoch: u64,
    pub due: Option<Time>,
    pub without_since: Option<Time>,
}

impl SimulatedHome {
    /// A home that knows nobody.
    pub fn new(now: Time) -> Self {
        SimulatedHome {
            members: Vec::new(),
            round_trips: Vec::new(),
            health: Vec::new(),
            attempts: Vec::new(),
            order: StandIns::new(1, now),
            epoch: 0,
            due: None,
            without_since: None,
        }
    }

    /// It learns of a concentrator; returns its place among those that it knows.
    pub fn add(&mut self, member: usize, round_trip: Duration) -> usize {
        let place = self.members.len();
        if place > 0 {
            self.order.push();
        }
        self.members.push(member);
        self.round_trips.push(round_trip);
        self.health.push(Health::default());
        self.attempts.push(0);
        place
    }

    pub fn place(&self, concentrator: usize) -> Option<usize> {
        self.members.iter().position(|member| *member == concentrator)
    }
}
