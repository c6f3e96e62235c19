use super::*;
use crate::rule::Target;
use braid_history::EventKind;
use proptest::prelude::*;

fn alert(name: &str) -> Alert {
    let target = Target::Command { command: "true".into() };
    Alert { name: name.into(), target, kinds: Vec::new(), least: Severity::Note, group_s: 20 }
}

fn event(unix: i64, kind: EventKind, severity: Severity, text: &str) -> Event {
    Event { unix, kind, severity, subject: "dsl".into(), text: text.into() }
}

fn down(unix: i64, text: &str) -> Event {
    event(unix, EventKind::LinkDown, Severity::Warning, text)
}

/// Everything sent until `to`, checked each second; `arrives` says whether it is delivered.
fn run(
    outbox: &mut Outbox,
    alerts: &[Alert],
    from: i64,
    to: i64,
    mut arrives: impl FnMut(i64) -> bool,
) -> Vec<(i64, Message)> {
    let mut tried = Vec::new();
    for now in from..to {
        while let Some((alert, message)) = outbox.next(alerts, "router", now) {
            tried.push((now, message));
            match arrives(now) {
                true => outbox.delivered(&alert.name, now),
                false => outbox.failed(&alert.name, "no way".into(), now),
            }
        }
    }
    tried
}

#[test]
fn what_comes_together_goes_together() {
    let alerts = [alert("a")];
    let mut outbox = Outbox::default();
    outbox.put(&alerts, &down(1000, "dsl is down"), 1000);
    outbox.put(&alerts, &down(1010, "lte is down"), 1010);
    let sent = run(&mut outbox, &alerts, 1000, 2000, |_| true);
    assert_eq!(sent.len(), 1);
    assert_eq!((sent[0].0, sent[0].1.events.len()), (1020, 2));
    assert_eq!(outbox.waiting("a").events, 0);
}

#[test]
fn what_is_critical_waits_for_less_and_takes_the_rest_along() {
    let alerts = [alert("a")];
    let mut outbox = Outbox::default();
    outbox.put(&alerts, &down(1000, "dsl is down"), 1000);
    let gone = event(1002, EventKind::PeerDown, Severity::Critical, "gone");
    outbox.put(&alerts, &gone, 1002);
    let sent = run(&mut outbox, &alerts, 1000, 2000, |_| true);
    assert_eq!((sent.len(), sent[0].0, sent[0].1.severity), (1, 1007, Severity::Critical));
}

#[test]
fn a_flood_becomes_few_messages_and_the_worst_is_in_them() {
    let alerts = [alert("a")];
    let mut outbox = Outbox::default();
    let mut sent = Vec::new();
    for hour in 0..3600_i64 {
        let severity = if hour == 1800 { Severity::Critical } else { Severity::Note };
        let text = format!("event {hour}");
        let flood = event(10_000 + hour, EventKind::Quota, severity, &text);
        outbox.put(&alerts, &flood, 10_000 + hour);
        sent.extend(run(&mut outbox, &alerts, 10_000 + hour, 10_001 + hour, |_| true));
    }
    assert!((4..=10).contains(&sent.len()), "{}", sent.len());
    sent.extend(run(&mut outbox, &alerts, 13_600, 20_000, |_| true));
    let told: u64 = sent.iter().map(|(_, m)| m.events.len() as u64 + m.left_out).sum();
    assert_eq!(told, 3600, "each is in a message, or counted there");
    let mut all = sent.iter().flat_map(|(_, message)| &message.events);
    assert!(all.any(|event| event.severity == Severity::Critical));
}

#[test]
fn without_a_way_out_it_waits_longer_and_longer_and_goes_when_there_is_one() {
    let alerts = [alert("a")];
    let mut outbox = Outbox::default();
    outbox.put(&alerts, &down(0, "dsl is down"), 0);
    let tried = run(&mut outbox, &alerts, 0, 7200, |_| false);
    let at: Vec<i64> = tried.iter().map(|(at, _)| *at).collect();
    assert_eq!(at, [20, 35, 65, 125, 245, 485, 965, 1925, 3725, 5525]);
    assert!(tried.iter().all(|(_, message)| message.id == tried[0].1.id), "copies are known");
    assert_eq!(outbox.waiting("a").trouble.as_deref(), Some("no way"));
    // The state continues after a restart.
    let text = serde_json::to_string(&outbox).unwrap();
    let mut outbox: Outbox = serde_json::from_str(&text).unwrap();
    let up = event(7200, EventKind::PeerUp, Severity::Note, "it is back");
    outbox.put(&alerts, &up, 7200);
    let sent = run(&mut outbox, &alerts, 7200, 7300, |_| true);
    assert_eq!((sent[0].0, sent[0].1.events.len()), (7215, 2));
    assert_eq!(outbox.waiting("a").trouble, None);
}

#[test]
fn each_alert_has_a_queue_of_its_own_and_one_that_is_gone_has_none() {
    let alerts = [alert("a"), alert("b")];
    let mut outbox = Outbox::default();
    outbox.put(&alerts, &down(0, "x"), 0);
    let (first, _) = outbox.next(&alerts, "router", 20).unwrap();
    outbox.failed(&first.name, "no".into(), 20);
    let (second, _) = outbox.next(&alerts, "router", 20).unwrap();
    assert_ne!(first.name, second.name);
    outbox.delivered(&second.name, 20);
    assert_eq!(outbox.next_at(), Some(35));
    assert!(outbox.next(&alerts[1..], "router", 20).is_none());
    assert_eq!(outbox.next_at(), None);
}

#[test]
fn what_is_too_old_is_given_up_and_counted() {
    let alerts = [alert("a")];
    let mut outbox = Outbox::default();
    outbox.put(&alerts, &down(0, "x"), 0);
    assert!(outbox.next(&alerts, "router", TOO_OLD).is_none());
    assert_eq!(outbox.waiting("a").given_up, 1);
}

#[test]
fn a_clock_that_is_set_back_holds_nothing_up() {
    let alerts = [alert("a")];
    let mut outbox = Outbox::default();
    outbox.put(&alerts, &down(1_000_000, "x"), 1_000_000);
    assert!(outbox.next(&alerts, "router", 100_000).is_some());
}

proptest! {
    #[test]
    fn whatever_happens_it_stays_bounded_and_nothing_is_lost_without_being_counted(
        steps in prop::collection::vec((0..100i64, 0..4u8, any::<bool>()), 1..400)
    ) {
        let alerts = [alert("a")];
        let mut outbox = Outbox::default();
        let (mut now, mut put, mut told) = (1_000_000, 0u64, 0u64);
        for (wait, what, arrives) in steps {
            now += wait;
            if what > 0 {
                let severity = [Severity::Note, Severity::Warning, Severity::Critical][what as usize - 1];
                outbox.put(&alerts, &event(now, EventKind::Quota, severity, "x"), now);
                put += 1;
            }
            if let Some((alert, message)) = outbox.next(&alerts, "router", now) {
                prop_assert!(message.events.len() <= MOST_IN_ONE && !message.events.is_empty());
                if arrives {
                    told += message.events.len() as u64;
                    outbox.delivered(&alert.name, now);
                } else {
                    outbox.failed(&alert.name, "no".into(), now);
                }
            }
            let waiting = outbox.waiting("a");
            prop_assert!(waiting.events <= MOST_WAITING as u64);
            prop_assert_eq!(put, told + waiting.events + waiting.given_up);
        }
    }
}
