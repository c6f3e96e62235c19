use crate::message::Message;
use crate::rule::Alert;
use braid_history::{Event, EventKind, Severity};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

/// The events to be sent, to whom, and when to try next. Times are Unix seconds, because waiting
/// events outlive the process. A clock that is set back delays nothing for longer than
/// [`LATEST_RETRY`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outbox {
    /// By the alerts' names.
    queues: BTreeMap<String, Queue>,
}

/// The queue of one alert.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Queue {
    /// Oldest first.
    events: VecDeque<Event>,
    /// Events dropped for lack of room since the last delivered message.
    left_out: u64,
    /// The next attempt is no earlier than this.
    due: i64,
    /// Messages that may be sent immediately: [`BURST`] minus those sent, plus one each [`REFILL`].
    credit: u32,
    credit_at: i64,
    /// Failed attempts since the last successful one.
    failures: u32,
    trouble: Option<String>,
    last_delivered: Option<i64>,
    delivered: u64,
    given_up: u64,
    /// Message numbers, for ids.
    number: u64,
    /// Number of reported problems that aren't reported as solved, by subject.
    bad: BTreeMap<String, u32>,
    /// The message being sent: how many of the first events it contains.
    under_way: Option<usize>,
}

/// The state of an alert's queue, for people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Waiting events.
    pub events: u64,
    /// Messages delivered since this file was created.
    pub delivered: u64,
    /// Events that were dropped undelivered: too many, or too old.
    pub given_up: u64,
    /// The last attempt's error, if it failed.
    pub trouble: Option<String>,
    /// When a message was delivered last, Unix seconds.
    pub last_delivered: Option<i64>,
    /// When delivery is tried next, if anything waits.
    pub next_at: Option<i64>,
}

/// Maximum grouping time for critical events, seconds: a concentrator that fails takes several
/// links with it.
const GROUP_CRITICAL_FOR: i64 = 5;
/// Messages that may follow each other immediately; after them one each [`REFILL`] seconds. So
/// there are at most ten an hour.
const BURST: u32 = 4;
const REFILL: i64 = 600;
/// Maximum number of events in a message; the rest go into the next one.
const MOST_IN_ONE: usize = 50;
/// Maximum number of waiting events.
const MOST_WAITING: usize = 200;
/// Maximum number of subjects remembered as bad.
const MOST_BAD: usize = 1000;
/// Delay after the first failure, seconds; each further failure doubles it, up to the latest.
const FIRST_RETRY: i64 = 15;
const LATEST_RETRY: i64 = 1800;
/// Events older than this, in seconds, are of no interest.
const TOO_OLD: i64 = 7 * 24 * 3600;

impl Outbox {
    /// Adds an event to the queues of the alerts that want it.
    pub fn put(&mut self, alerts: &[Alert], event: &Event, now: i64) {
        for alert in alerts {
            let queue = self.queues.entry(alert.name.clone()).or_insert_with(|| Queue::new(now));
            queue.put(alert, event, now);
        }
        if opens_a_way(event.kind) {
            self.queues.values_mut().for_each(|queue| queue.try_soon(now));
        }
    }

    /// Sends without waiting for the grouping time, since no more events will come soon.
    pub fn hurry(&mut self, now: i64) {
        for queue in self.queues.values_mut().filter(|queue| queue.failures == 0) {
            queue.due = queue.due.min(now);
        }
    }

    /// A test message, to be tried immediately whatever waits. Doesn't change any queue.
    pub fn test(host: &str, event: Event) -> Message {
        let severity = event.severity;
        Message { id: "test".into(), host: host.into(), severity, events: vec![event], left_out: 0 }
    }

    /// The next message to try now, and its recipient. Call [`Outbox::delivered`] or
    /// [`Outbox::failed`] after each.
    pub fn next(&mut self, alerts: &[Alert], host: &str, now: i64) -> Option<(Alert, Message)> {
        self.queues.retain(|name, _| alerts.iter().any(|alert| alert.name == *name));
        // The alert that has waited longest comes first.
        let mut order: Vec<&Alert> = alerts.iter().collect();
        order.sort_by_key(|alert| self.queues.get(&alert.name).map(|queue| queue.due));
        order.into_iter().find_map(|alert| {
            let message = self.queues.get_mut(&alert.name)?.next(host, now)?;
            Some((alert.clone(), message))
        })
    }

    /// The alert's current message was delivered.
    pub fn delivered(&mut self, alert: &str, now: i64) {
        if let Some(queue) = self.queues.get_mut(alert) {
            queue.delivered(now);
        }
    }

    /// The alert's current message wasn't delivered, and why.
    pub fn failed(&mut self, alert: &str, why: String, now: i64) {
        if let Some(queue) = self.queues.get_mut(alert) {
            queue.failed(why, now);
        }
    }

    /// When [`Outbox::next`] may have something.
    pub fn next_at(&self) -> Option<i64> {
        self.queues.values().filter_map(Queue::next_at).min()
    }

    /// The state of an alert's queue.
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

    /// Drops the least bad event, the oldest of equal ones; never one that is being sent.
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
        // A failed message has used its credit already.
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
        // Events that arrived meanwhile have waited long enough.
        self.due = now;
    }

    fn failed(&mut self, why: String, now: i64) {
        self.under_way = None;
        let wait = FIRST_RETRY.saturating_mul(1 << self.failures.min(20)).min(LATEST_RETRY);
        self.failures = self.failures.saturating_add(1);
        self.trouble = Some(why);
        self.due = now + wait;
    }

    /// The network works again: retry soon.
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

/// Whether this event means that messages that failed may succeed now.
fn opens_a_way(kind: EventKind) -> bool {
    use EventKind::{FailoverEnded, LinkUp, PeerUp, Started};
    matches!(kind, LinkUp | PeerUp | FailoverEnded | Started)
}

#[cfg(test)]
mod tests;
