use crate::message::Message;
use crate::rule::Alert;
use braid_history::{Event, EventKind, Severity};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

/// What waits to be told, to whom, and when it is to be tried. Times are Unix seconds: what waits
/// outlives the process. A clock that is set back delays nothing for longer than [`LATEST_RETRY`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outbox {
    /// By the alerts' names.
    queues: BTreeMap<String, Queue>,
}

/// Of one alert.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Queue {
    /// Oldest first.
    events: VecDeque<Event>,
    /// Events that there was no room for, since the last message that was delivered.
    left_out: u64,
    /// Not before.
    due: i64,
    /// Messages that may be sent at once: [`BURST`], less those sent, one more each [`REFILL`].
    credit: u32,
    credit_at: i64,
    /// Attempts that failed since the last one that didn't.
    failures: u32,
    trouble: Option<String>,
    last_delivered: Option<i64>,
    delivered: u64,
    given_up: u64,
    /// Message numbers, for ids.
    number: u64,
    /// How much was told to be bad and not to be well again, by what it is about.
    bad: BTreeMap<String, u32>,
    /// The message that is under way: how many of the first events are in it.
    under_way: Option<usize>,
}

/// How an alert's queue is, for people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Events that wait.
    pub events: u64,
    /// Messages that were delivered since this file was begun.
    pub delivered: u64,
    /// Events that were dropped undelivered: too many, or too old.
    pub given_up: u64,
    /// What the last attempt said, if it failed.
    pub trouble: Option<String>,
    /// When a message was delivered last, Unix seconds.
    pub last_delivered: Option<i64>,
    /// When it is tried next, where something waits.
    pub next_at: Option<i64>,
}

/// What can't wait for company does so for so many seconds at most; a concentrator that is gone
/// takes several links with it.
const GROUP_CRITICAL_FOR: i64 = 5;
/// Messages that may follow each other at once; then one each [`REFILL`] seconds. So an hour has
/// ten at most.
const BURST: u32 = 4;
const REFILL: i64 = 600;
/// A message has no more events; the rest goes in the next one.
const MOST_IN_ONE: usize = 50;
/// So many events wait at most.
const MOST_WAITING: usize = 200;
/// Subjects that are remembered as bad.
const MOST_BAD: usize = 1000;
/// Seconds after the first failure; each further one doubles them, up to the latest.
const FIRST_RETRY: i64 = 15;
const LATEST_RETRY: i64 = 1800;
/// Nobody wants to hear of what is older.
const TOO_OLD: i64 = 7 * 24 * 3600;

impl Outbox {
    /// Something happened.
    pub fn put(&mut self, alerts: &[Alert], event: &Event, now: i64) {
        for alert in alerts {
            let queue = self.queues.entry(alert.name.clone()).or_insert_with(|| Queue::new(now));
            queue.put(alert, event, now);
        }
        if opens_a_way(event.kind) {
            self.queues.values_mut().for_each(|queue| queue.try_soon(now));
        }
    }

    /// Nothing more comes soon: what waits for company goes without.
    pub fn hurry(&mut self, now: i64) {
        for queue in self.queues.values_mut().filter(|queue| queue.failures == 0) {
            queue.due = queue.due.min(now);
        }
    }

    /// A message to this alert that is to be tried at once, whatever waits: whether it works.
    /// Nothing of the rest changes.
    pub fn test(host: &str, event: Event) -> Message {
        let severity = event.severity;
        Message { id: "test".into(), host: host.into(), severity, events: vec![event], left_out: 0 }
    }

    /// A message that is to be tried now, and to whom. Each is followed by
    /// [`Outbox::delivered`] or [`Outbox::failed`].
    pub fn next(&mut self, alerts: &[Alert], host: &str, now: i64) -> Option<(Alert, Message)> {
        self.queues.retain(|name, _| alerts.iter().any(|alert| alert.name == *name));
        // Whoever has waited for longest comes first.
        let mut order: Vec<&Alert> = alerts.iter().collect();
        order.sort_by_key(|alert| self.queues.get(&alert.name).map(|queue| queue.due));
        order.into_iter().find_map(|alert| {
            let message = self.queues.get_mut(&alert.name)?.next(host, now)?;
            Some((alert.clone(), message))
        })
    }

    /// The message under way of this alert has arrived.
    pub fn delivered(&mut self, alert: &str, now: i64) {
        if let Some(queue) = self.queues.get_mut(alert) {
            queue.delivered(now);
        }
    }

    /// It hasn't, since …
    pub fn failed(&mut self, alert: &str, why: String, now: i64) {
        if let Some(queue) = self.queues.get_mut(alert) {
            queue.failed(why, now);
        }
    }

    /// When [`Outbox::next`] may have something.
    pub fn next_at(&self) -> Option<i64> {
        self.queues.values().filter_map(Queue::next_at).min()
    }

    /// How an alert's queue is.
    pub fn waiting(&self, alert: &str) -> Waiting {
        let Some(queue) = self.queues.get(alert) else { return Waiting::default() };
        Waiting {
            events: queue.events.len() as u64,
            delivered: queue.delivered,
            given_up: queue.given_up,
            trouble: queue.trouble.clone(),
            last_delivered: queue.last_delivered,
            next_at: queue.next_at(),
        }
    }
}

impl Queue {
    fn new(now: i64) -> Queue {
        Queue { credit: BURST, credit_at: now, ..Queue::default() }
    }

    fn put(&mut self, alert: &Alert, event: &Event, now: i64) {
        let about = format!("{:?}/{}", event.kind.topic(), event.subject);
        let bad = self.bad.get(&about).copied().unwrap_or(0);
        if !alert.wants(event, bad > 0) {
            return;
        }
        if event.kind.is_good_news() && bad <= 1 {
            self.bad.remove(&about);
        } else if event.kind.is_good_news() {
            self.bad.insert(about, bad - 1);
        } else if event.kind.begins_something_bad() && (bad > 0 || self.bad.len() < MOST_BAD) {
            self.bad.insert(about, bad.saturating_add(1));
        }
        let wait = match event.severity {
            Severity::Critical => i64::from(alert.group_s).min(GROUP_CRITICAL_FOR),
            _ => i64::from(alert.group_s),
        };
        let is_first = self.events.is_empty();
        if is_first || self.failures == 0 && event.severity == Severity::Critical {
            let due = now + wait;
            self.due = if is_first { due } else { self.due.min(due) };
        }
        self.events.push_back(event.clone());
        if self.events.len() > MOST_WAITING {
            self.make_room();
        }
    }

    /// The least bad goes, of equal ones the oldest; none that is under way.
    fn make_room(&mut self) {
        let fixed = self.under_way.unwrap_or(0);
        let loose = self.events.iter().enumerate().skip(fixed);
        if let Some((index, _)) = loose.min_by_key(|(index, event)| (event.severity, *index)) {
            self.events.remove(index);
            self.left_out += 1;
            self.given_up += 1;
        }
    }

    fn next(&mut self, host: &str, now: i64) -> Option<Message> {
        self.forget_old(now);
        self.refill(now);
        if self.events.is_empty() || now < self.due && !self.clock_went_back(now) {
            return None;
        }
        // One that failed has had its turn taken already.
        if self.failures == 0 && self.credit == 0 {
            return None;
        }
        let count = self.events.len().min(MOST_IN_ONE);
        self.under_way = Some(count);
        let events: Vec<Event> = self.events.iter().take(count).cloned().collect();
        let severity = events.iter().map(|event| event.severity).max().unwrap_or(Severity::Note);
        let id = format!("{}-{}", events.first().map_or(0, |event| event.unix), self.number);
        Some(Message { id, host: host.into(), severity, events, left_out: self.left_out })
    }

    fn delivered(&mut self, now: i64) {
        let count = self.under_way.take().unwrap_or(0);
        self.events.drain(..count.min(self.events.len()));
        self.left_out = 0;
        self.failures = 0;
        self.trouble = None;
        self.credit = self.credit.saturating_sub(1);
        self.delivered += 1;
        self.number += 1;
        self.last_delivered = Some(now);
        // What came meanwhile has waited.
        self.due = now;
    }

    fn failed(&mut self, why: String, now: i64) {
        self.under_way = None;
        let wait = FIRST_RETRY.saturating_mul(1 << self.failures.min(20)).min(LATEST_RETRY);
        self.failures = self.failures.saturating_add(1);
        self.trouble = Some(why);
        self.due = now + wait;
    }

    /// There is a way out again.
    fn try_soon(&mut self, now: i64) {
        if self.failures > 0 {
            self.due = self.due.min(now + FIRST_RETRY);
        }
    }

    fn next_at(&self) -> Option<i64> {
        let credit_at = match self.credit == 0 && self.failures == 0 {
            true => self.credit_at.saturating_add(REFILL),
            false => self.due,
        };
        (!self.events.is_empty()).then(|| self.due.max(credit_at))
    }

    fn refill(&mut self, now: i64) {
        if now < self.credit_at {
            self.credit_at = now;
        }
        let turns = (now - self.credit_at) / REFILL;
        self.credit = self.credit.saturating_add(turns.clamp(0, 100) as u32).min(BURST);
        self.credit_at += turns * REFILL;
    }

    fn clock_went_back(&self, now: i64) -> bool {
        self.due > now.saturating_add(LATEST_RETRY)
    }

    fn forget_old(&mut self, now: i64) {
        let before = self.events.len();
        self.events.retain(|event| event.unix > now - TOO_OLD);
        let gone = (before - self.events.len()) as u64;
        self.given_up += gone;
        self.left_out += gone;
    }
}

/// Whether messages that couldn't go out may do so now.
fn opens_a_way(kind: EventKind) -> bool {
    use EventKind::{FailoverEnded, LinkUp, PeerUp, Started};
    matches!(kind, LinkUp | PeerUp | FailoverEnded | Started)
}

#[cfg(test)]
mod tests;
