use super::document::Section;
use super::link::{Link, read_change};
use super::{ScenarioError, document::closest};
use crate::emulator::{Carrier, DirectionChange, DirectionModel, LinkChange, LinkModel};
use std::fmt;
use std::time::Duration;

/// The shortest repetition period of an event.
const LEAST_PERIOD: Duration = Duration::from_millis(10);

/// Something that happens to links while a scenario runs.
#[derive(Clone, Debug)]
pub struct Event {
    /// When, from the start of the run.
    pub at: Duration,
    /// Repeats with this period until the end.
    pub every: Option<Duration>,
    /// Positions of the links.
    pub links: Vec<usize>,
    /// What happens.
    pub action: Action,
}

/// What happens to a link.
#[derive(Clone, Debug)]
pub enum Action {
    /// Packets vanish silently for this time.
    Blackout(Duration),
    /// The carrier goes down for this time; `None` until the end, or until
    /// [`Action::CarrierUp`].
    CarrierDown(Option<Duration>),
    /// The carrier comes back.
    CarrierUp,
    /// The provider's NAT forgets its mappings and uses another address.
    Rebind,
    /// The link's figures change.
    Set {
        /// The new figures.
        figures: Box<Figures>,
        /// Back to the link's own figures after this time.
        lasting: Option<Duration>,
    },
}

/// New figures of a link; `None` means unchanged.
#[derive(Clone, Debug)]
pub struct Figures {
    /// Towards the home.
    pub down: Option<DirectionChange>,
    /// Towards the concentrator.
    pub up: Option<DirectionChange>,
    /// Largest packet.
    pub mtu: Option<u16>,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Action::Blackout(_) => "blackout",
            Action::CarrierDown(_) => "carrier down",
            Action::CarrierUp => "carrier up",
            Action::Rebind => "NAT rebinding",
            Action::Set { .. } => "change",
        })
    }
}

/// A change of one link at one moment.
#[derive(Clone, Debug)]
pub struct Step {
    /// When, from the start of the run.
    pub at: Duration,
    /// Position of the link.
    pub link: usize,
    /// What changes.
    pub change: LinkChange,
}

impl Event {
    /// Its start times before `end`.
    pub fn times(&self, end: Duration) -> impl Iterator<Item = Duration> + use<> {
        let every = self.every;
        std::iter::successors(Some(self.at), move |at| every.map(|every| *at + every))
            .take_while(move |at| *at < end)
    }

    /// How long it lasts each time; `None` if permanently, or only a moment.
    pub fn lasting(&self) -> Option<Duration> {
        match &self.action {
            Action::Blackout(time) => Some(*time),
            Action::CarrierDown(time) | Action::Set { lasting: time, .. } => *time,
            Action::CarrierUp | Action::Rebind => None,
        }
    }
}

/// One event for each change in the section.
pub(super) fn read(
    section: Section<'_>,
    links: &[Link],
    end: Duration,
) -> Result<Vec<Event>, ScenarioError> {
    let at = section.duration("at")?.ok_or_else(|| section.missing("at"))?;
    if at.value >= end {
        return Err(at
            .error("the event comes when the run is over")
            .hint("make it earlier, or the scenario's duration longer"));
    }
    let every = section.duration("every")?;
    if let Some(every) = &every
        && every.value < LEAST_PERIOD
    {
        return Err(every.error("an event is repeated at most each 10ms"));
    }
    let named = read_links(&section, links)?;
    let lasting = read_lasting(&section)?;
    let mut happening = Vec::new();
    if let Some(time) = section.duration("blackout")? {
        if time.value.is_zero() {
            return Err(time.error("a blackout can't last for no time"));
        }
        happening.push((named.clone(), Action::Blackout(time.value)));
    }
    let states = [("down", Carrier::Down), ("up", Carrier::Up)];
    if let Some(state) = section.choice("carrier", &states)? {
        let action = match state.value {
            Carrier::Down => Action::CarrierDown(lasting),
            Carrier::Up => Action::CarrierUp,
        };
        happening.push((named.clone(), action));
    }
    if let Some(flag) = section.flag("rebind")? {
        if !flag.value {
            return Err(flag.error("false does nothing").hint("write rebind = true"));
        }
        let mut translated = named.clone();
        translated.retain(|link| links.get(*link).is_some_and(|link| link.model.nat));
        if translated.is_empty() {
            return Err(flag
                .error("the link has no NAT that could be rebound")
                .hint("give the link nat = true"));
        }
        happening.push((translated, Action::Rebind));
    }
    if section.has("set") {
        happening.push((named, read_set(&section, lasting)?));
    }
    if happening.is_empty() {
        return Err(section.error("nothing happens in this event").hint(
            "write one or more of: blackout = \"10s\", carrier = \"down\", rebind = true, \
             set = { down = { rate = \"1Mbit\" } }",
        ));
    }
    let (at, every) = (at.value, every.map(|every| every.value));
    section.finish()?;
    let event = |(links, action)| Event { at, every, links, action };
    Ok(happening.into_iter().map(event).collect())
}

/// `for`: how long the carrier is down, or new figures apply.
fn read_lasting(section: &Section<'_>) -> Result<Option<Duration>, ScenarioError> {
    let Some(lasting) = section.duration("for")? else { return Ok(None) };
    if !section.has("carrier") && !section.has("set") {
        return Err(lasting
            .error("there is nothing in this event that it could put back")
            .hint("it goes with carrier = \"down\" and with set = { … }"));
    }
    if lasting.value.is_zero() {
        return Err(lasting.error("it can't last for no time"));
    }
    Ok(Some(lasting.value))
}

fn read_links(section: &Section<'_>, links: &[Link]) -> Result<Vec<usize>, ScenarioError> {
    let named = match (section.texts("link")?, section.texts("links")?) {
        (Some(_), Some(_)) => {
            return Err(section.error("an event has either link or links, not both"));
        }
        (Some(named), None) | (None, Some(named)) => named,
        (None, None) => {
            return Err(section.missing("link").hint("name a link, or all with link = \"*\""));
        }
    };
    let mut found: Vec<usize> = Vec::new();
    for name in &named {
        if name.value == "*" {
            found.extend(0..links.len());
            continue;
        }
        match links.iter().position(|link| link.model.name == name.value) {
            Some(position) => found.push(position),
            None => {
                let names: Vec<&str> = links.iter().map(|link| link.model.name.as_str()).collect();
                let error = name.error(format!("there is no link {:?}", name.value));
                return Err(match closest(name.value, &names) {
                    Some(near) => error.hint(format!("did you mean {near:?}?")),
                    None => error.hint(format!("the links are: {}, or \"*\"", names.join(", "))),
                });
            }
        }
    }
    found.sort_unstable();
    found.dedup();
    if found.is_empty() {
        return Err(section.missing("link").hint("the list of links is empty"));
    }
    Ok(found)
}

fn read_set(section: &Section<'_>, lasting: Option<Duration>) -> Result<Action, ScenarioError> {
    let set = section.section("set")?.ok_or_else(|| section.missing("set"))?;
    let direction = |key| set.section(key)?.map(read_change).transpose();
    let (down, up) = (direction("down")?, direction("up")?);
    let mtu = set.count("mtu", 576..=65_535)?.map(|mtu| mtu.value as u16);
    let nothing = (down.is_none() && up.is_none() && mtu.is_none())
        .then(|| set.error("nothing is set").hint("as set = { down = { rate = \"1Mbit\" } }"));
    // First report what is written there instead.
    set.finish()?;
    if let Some(nothing) = nothing {
        return Err(nothing);
    }
    Ok(Action::Set { figures: Box::new(Figures { down, up, mtu }), lasting })
}

/// The events as single changes in order of time. A link's overlapping blackouts become one, so
/// that the end of the first doesn't end the second; the same for outages. Of overlapping figures
/// the later ones apply, until they end.
pub(super) fn timeline(events: &[Event], links: &[Link], end: Duration) -> Vec<Step> {
    let mut steps = Vec::new();
    for (link, base) in links.iter().enumerate() {
        let mut blackouts = Vec::new();
        let mut outages = Vec::new();
        let mut figured = Vec::new();
        for event in events.iter().filter(|event| event.links.contains(&link)) {
            for at in event.times(end) {
                match &event.action {
                    Action::Blackout(time) => blackouts.push((at, at.saturating_add(*time))),
                    Action::CarrierDown(Some(time)) => {
                        outages.push((at, at.saturating_add(*time)));
                    }
                    Action::CarrierDown(None) => {
                        outages.push((at, next_carrier_up(events, link, at, end)));
                    }
                    Action::CarrierUp => {}
                    Action::Rebind => steps.push(Step { at, link, change: LinkChange::Rebind }),
                    Action::Set { figures, lasting } => figured.push(Spell {
                        begin: at,
                        finish: lasting.map_or(end, |lasting| at.saturating_add(lasting)),
                        figures,
                    }),
                }
            }
        }
        for (at, change) in figure_changes(&base.model, figured) {
            steps.push(Step { at, link, change });
        }
        for (begin, finish) in merged(blackouts) {
            steps.push(Step { at: begin, link, change: LinkChange::Blackout(true) });
            steps.push(Step { at: finish, link, change: LinkChange::Blackout(false) });
        }
        for (begin, finish) in merged(outages) {
            steps.push(Step { at: begin, link, change: LinkChange::Carrier(Carrier::Down) });
            steps.push(Step { at: finish, link, change: LinkChange::Carrier(Carrier::Up) });
        }
    }
    steps.retain(|step| step.at < end);
    steps.sort_by_key(|step| step.at);
    steps
}

fn next_carrier_up(events: &[Event], link: usize, after: Duration, end: Duration) -> Duration {
    events
        .iter()
        .filter(|e| matches!(e.action, Action::CarrierUp) && e.links.contains(&link))
        .filter_map(|event| event.times(end).find(|at| *at > after))
        .min()
        .unwrap_or(end)
}

/// Figures that apply for a time.
struct Spell<'a> {
    begin: Duration,
    finish: Duration,
    figures: &'a Figures,
}

/// The changes of a link's figures over time, with `spells` overriding those of `base`.
fn figure_changes(base: &LinkModel, mut spells: Vec<Spell<'_>>) -> Vec<(Duration, LinkChange)> {
    spells.sort_by_key(|spell| spell.begin);
    let mut moments: Vec<Duration> =
        spells.iter().flat_map(|spell| [spell.begin, spell.finish]).collect();
    moments.sort_unstable();
    moments.dedup();
    let mut before = base.clone();
    let mut changes = Vec::new();
    for at in moments {
        let mut after = base.clone();
        for spell in spells.iter().filter(|spell| spell.begin <= at && at < spell.finish) {
            spell.figures.overlay(&mut after);
        }
        let down = difference(&before.down, &after.down);
        let up = difference(&before.up, &after.up);
        let mtu = (after.mtu != before.mtu).then_some(after.mtu);
        if down.is_some() || up.is_some() || mtu.is_some() {
            changes.push((at, LinkChange::Set { down, up, mtu }));
        }
        before = after;
    }
    changes
}

impl Figures {
    fn overlay(&self, model: &mut LinkModel) {
        self.down.iter().for_each(|change| model.down.apply(change));
        self.up.iter().for_each(|change| model.up.apply(change));
        model.mtu = self.mtu.unwrap_or(model.mtu);
    }
}

/// The change from `before` to `after`, if there is any.
fn difference(before: &DirectionModel, after: &DirectionModel) -> Option<DirectionChange> {
    fn new<T: Clone + PartialEq>(before: &T, after: &T) -> Option<T> {
        (before != after).then(|| after.clone())
    }
    let change = DirectionChange {
        capacity: new(&before.capacity, &after.capacity),
        delay: new(&before.delay, &after.delay),
        jitter: new(&before.jitter, &after.jitter),
        loss: new(&before.loss, &after.loss),
        queue: new(&before.queue, &after.queue),
        reorder: new(&before.reorder, &after.reorder),
        duplicate: new(&before.duplicate, &after.duplicate),
        corrupt: new(&before.corrupt, &after.corrupt),
    };
    (change != DirectionChange::default()).then_some(change)
}

/// The union of time spans, sorted.
fn merged(mut spans: Vec<(Duration, Duration)>) -> Vec<(Duration, Duration)> {
    spans.sort_unstable();
    let mut union: Vec<(Duration, Duration)> = Vec::new();
    for (begin, finish) in spans {
        match union.last_mut() {
            Some(last) if begin <= last.1 => last.1 = last.1.max(finish),
            _ => union.push((begin, finish)),
        }
    }
    union
}
