use super::document::{Field, Section};
use super::{ScenarioError, Synthetic, relative};
use crate::emulator::{Capacity, DirectionChange, DirectionModel, LinkModel, Loss, Reorder, Trace};
use braid_units::{ByteSize, Rate, Ratio};
use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Default MTU of a link.
const DEFAULT_MTU: u16 = 1500;
/// Default queue size, as time at the link's rate.
const DEFAULT_QUEUE_TIME: Duration = Duration::from_millis(200);
/// Minimum default queue, so that a burst from a slow link's sender fits.
const LEAST_DEFAULT_QUEUE: u64 = 64_000;
/// A link is no slower than a modem of 1980 …
const SLOWEST: Rate = Rate::from_bits_per_sec(300);
/// … nor faster than what one machine can emulate.
const FASTEST: Rate = Rate::from_bits_per_sec(100_000_000_000);
/// The word for a rate that only the machine limits.
const UNLIMITED: &str = "unlimited";
/// Default maximum delay of a packet that is held back. A full packet takes 12 ms at 1 Mbit/s: from
/// that rate on, others overtake it.
const DEFAULT_REORDER_DELAY: Duration = Duration::from_millis(20);
/// Maximum delay. The Moon is 1.3 s away; nothing on Earth waits longer than this.
const LONGEST_DELAY: Duration = Duration::from_secs(60);

/// A link of a scenario.
#[derive(Clone, Debug)]
pub struct Link {
    /// What the emulator plays.
    pub model: LinkModel,
    /// Whether it is plain Ethernet from end to end: Ethernet engines use it directly, and others
    /// with GRETAP.
    pub ethernet: bool,
    /// The tunnel's tier: lower tiers are used first.
    pub tier: Option<u8>,
    /// Maximum rate at which the tunnel may use the link, though it could carry more.
    pub cap: Option<Rate>,
    /// What reports must say about it: a trace that stands in for a recording.
    pub note: Option<String>,
}

pub(super) fn read(
    section: Section<'_>,
    folder: &Path,
    seed: u64,
    number: usize,
) -> Result<Link, ScenarioError> {
    let name = section.text("name")?.ok_or_else(|| section.missing("name"))?;
    let usable = |c: char| c.is_alphanumeric() || "-_.".contains(c);
    if name.value.is_empty() || name.value.chars().count() > 64 || !name.value.chars().all(usable) {
        return Err(name
            .error(format!("{:?} can't be a link's name", name.value))
            .hint("use letters, digits, '-', '_' and '.', at most 64 of them"));
    }
    let seed = seed.wrapping_mul(1_000).wrapping_add(number as u64 * 2);
    let traces = Traces { folder, seed, stand_in: Cell::new(None) };
    let down = section.section("down")?.ok_or_else(|| {
        section.missing("down").hint("as down = { rate = \"6Mbit\", delay = \"30ms\" }")
    })?;
    let down = read_direction(down, &traces)?;
    let up = match section.section("up")? {
        Some(up) => {
            let traces = Traces { folder, seed: seed.wrapping_add(1), stand_in: Cell::new(None) };
            read_direction(up, &traces)?
        }
        None => down.clone(),
    };
    let mtu = section.count("mtu", 576..=65_535)?.map_or(DEFAULT_MTU, |mtu| mtu.value as u16);
    let nat = section.flag("nat")?.is_some_and(|nat| nat.value);
    let ethernet = section.flag("ethernet")?;
    if let Some(field) = &ethernet
        && field.value
        && nat
    {
        return Err(field.error("a cable from end to end has no NAT"));
    }
    let ethernet = ethernet.is_some_and(|field| field.value);
    let tier = section.count("tier", 0..=255)?.map(|tier| tier.value as u8);
    let cap = rate(&section, "cap")?;
    let note = traces
        .stand_in
        .take()
        .map(|stand_in| format!("{}: its recording is absent, {stand_in} stands in", name.value));
    let model = LinkModel { name: name.value.to_owned(), down, up, mtu, nat };
    let link = Link { model, ethernet, tier, cap, note };
    section.finish()?;
    Ok(link)
}

/// Reads the figures of a direction that an event changes.
pub(super) fn read_change(section: Section<'_>) -> Result<DirectionChange, ScenarioError> {
    let change = DirectionChange {
        capacity: constant(&section)?,
        delay: delay(&section, "delay")?,
        jitter: delay(&section, "jitter")?,
        loss: loss(&section)?,
        queue: queue(&section)?,
        reorder: reorder(&section)?,
        duplicate: share(&section, "duplicate")?,
        corrupt: share(&section, "corrupt")?,
    };
    section.finish()?;
    Ok(change)
}

/// Where a link's traces come from.
struct Traces<'a> {
    folder: &'a Path,
    seed: u64,
    /// Set to the synthetic trace that replaces a missing recording.
    stand_in: Cell<Option<&'static str>>,
}

fn read_direction(
    section: Section<'_>,
    traces: &Traces<'_>,
) -> Result<DirectionModel, ScenarioError> {
    let capacity = match (constant(&section)?, section.text("trace")?) {
        (Some(_), Some(trace)) => {
            return Err(trace
                .error("a direction has either a rate or a trace, not both")
                .hint("remove one of them"));
        }
        (Some(capacity), None) => {
            for key in ["offset", "fallback"] {
                if section.has(key) {
                    let mut error = section.missing("trace");
                    error.message = format!("{key} belongs to a trace, and there is none");
                    return Err(error);
                }
            }
            capacity
        }
        (None, Some(path)) => read_trace(&section, &path, traces)?,
        (None, None) => {
            return Err(section.missing("rate").hint("give rate = \"6Mbit\" or trace = \"file\""));
        }
    };
    let model = DirectionModel {
        delay: delay(&section, "delay")?.unwrap_or_default(),
        jitter: delay(&section, "jitter")?.unwrap_or_default(),
        loss: loss(&section)?.unwrap_or(Loss::None),
        queue: queue(&section)?.unwrap_or_else(|| default_queue(&capacity)),
        reorder: reorder(&section)?.unwrap_or(Reorder::NONE),
        duplicate: share(&section, "duplicate")?.unwrap_or(Ratio::ZERO),
        corrupt: share(&section, "corrupt")?.unwrap_or(Ratio::ZERO),
        capacity,
    };
    section.finish()?;
    Ok(model)
}

fn read_trace(
    section: &Section<'_>,
    path: &Field<'_, &str>,
    traces: &Traces<'_>,
) -> Result<Capacity, ScenarioError> {
    let offset = section.duration("offset")?.map(|offset| offset.value).unwrap_or_default();
    let fallback = match section.text("fallback")? {
        Some(field) => Some(synthetic(&field, field.value)?),
        None => None,
    };
    let trace = if path.value.starts_with(Synthetic::PREFIX) {
        synthetic(path, path.value)?.trace(traces.seed)
    } else {
        let file = relative(traces.folder, path.value);
        match (Trace::load(&file), fallback) {
            (Ok(trace), _) => trace,
            (Err(_), Some(fallback)) if !file.exists() => {
                traces.stand_in.set(Some(fallback.name()));
                fallback.trace(traces.seed)
            }
            (Err(error), _) if file.exists() => return Err(path.error(error.to_string())),
            (Err(error), _) => {
                return Err(path.error(error.to_string()).hint(format!(
                    "paths are relative to the scenario's folder; a synthetic trace is written \
                     as one of: {}",
                    Synthetic::names().join(", ")
                )));
            }
        }
    };
    Ok(Capacity::Trace { trace: Arc::new(trace), offset })
}

fn synthetic(field: &Field<'_, &str>, name: &str) -> Result<Synthetic, ScenarioError> {
    Synthetic::named(name).ok_or_else(|| {
        field
            .error(format!("there is no synthetic trace {name:?}"))
            .hint(format!("write one of: {}", Synthetic::names().join(", ")))
    })
}

fn constant(section: &Section<'_>) -> Result<Option<Capacity>, ScenarioError> {
    let unlimited = section.as_written("rate")?.is_some_and(|rate| rate.value == UNLIMITED);
    Ok(match unlimited {
        true => Some(Capacity::Unlimited),
        false => rate(section, "rate")?.map(Capacity::Rate),
    })
}

fn rate(section: &Section<'_>, key: &'static str) -> Result<Option<Rate>, ScenarioError> {
    let Some(rate) = section.quantity::<Rate>(key)? else { return Ok(None) };
    if rate.value < SLOWEST || rate.value > FASTEST {
        return Err(rate
            .error(format!("a rate lies between {SLOWEST} and {FASTEST}"))
            .hint("a link that carries nothing is written as an event with a blackout"));
    }
    Ok(Some(rate.value))
}

fn delay(section: &Section<'_>, key: &'static str) -> Result<Option<Duration>, ScenarioError> {
    let Some(delay) = section.duration(key)? else { return Ok(None) };
    if delay.value > LONGEST_DELAY {
        return Err(delay.error("a delay is at most 60 s"));
    }
    Ok(Some(delay.value))
}

fn queue(section: &Section<'_>) -> Result<Option<ByteSize>, ScenarioError> {
    let Some(queue) = section.quantity::<ByteSize>("queue")? else { return Ok(None) };
    if !(1_500..=4_000_000_000).contains(&queue.value.bytes()) {
        return Err(queue.error("a queue holds between 1500 B (one packet) and 4 GB"));
    }
    Ok(Some(queue.value))
}

fn default_queue(capacity: &Capacity) -> ByteSize {
    let bytes = capacity.mean_rate().bytes_in(DEFAULT_QUEUE_TIME);
    ByteSize::from_bytes(bytes.clamp(LEAST_DEFAULT_QUEUE, 64_000_000))
}

/// `loss = "0.5%"`, `loss = { average = "1%", burst = 8 }`, or the four figures
/// of a Gilbert-Elliott channel.
fn loss(section: &Section<'_>) -> Result<Option<Loss>, ScenarioError> {
    if !section.is_table("loss") {
        let ratio = section.quantity::<Ratio>("loss")?;
        return Ok(ratio.map(|ratio| match ratio.value {
            ratio if ratio == Ratio::ZERO => Loss::None,
            ratio => Loss::Random(ratio),
        }));
    }
    let Some(table) = section.section("loss")? else { return Ok(None) };
    let ratio = |key| share(&table, key);
    let loss = if table.has("average") || table.has("burst") {
        let average = ratio("average")?.ok_or_else(|| table.missing("average"))?;
        let burst = table.count("burst", 1..=100_000)?.ok_or_else(|| table.missing("burst"))?;
        Loss::bursty(average, burst.value as f64)
    } else {
        let hint = "write loss = \"0.5%\", loss = { average = \"1%\", burst = 8 } or loss = \
                    { good_to_bad = \"1%\", bad_to_good = \"20%\", loss_bad = \"50%\" }";
        let needed = |key| ratio(key)?.ok_or_else(|| table.missing(key).hint(hint));
        Loss::GilbertElliott {
            p_good_to_bad: needed("good_to_bad")?,
            p_bad_to_good: needed("bad_to_good")?,
            loss_good: ratio("loss_good")?.unwrap_or(Ratio::ZERO),
            loss_bad: ratio("loss_bad")?.unwrap_or(Ratio::from_fraction(1.0)),
        }
    };
    table.finish()?;
    Ok(Some(loss))
}

/// `reorder = "5%"`, or `reorder = { share = "5%", delay = "20ms" }`.
fn reorder(section: &Section<'_>) -> Result<Option<Reorder>, ScenarioError> {
    if !section.is_table("reorder") {
        let share = share(section, "reorder")?;
        return Ok(share.map(|share| Reorder { share, by: DEFAULT_REORDER_DELAY }));
    }
    let Some(table) = section.section("reorder")? else { return Ok(None) };
    let hint = "write reorder = \"5%\" or reorder = { share = \"5%\", delay = \"20ms\" }";
    let needed = |key| table.missing(key).hint(hint);
    let reorder = Reorder {
        share: share(&table, "share")?.ok_or_else(|| needed("share"))?,
        by: delay(&table, "delay")?.ok_or_else(|| needed("delay"))?,
    };
    table.finish()?;
    Ok(Some(reorder))
}

fn share(section: &Section<'_>, key: &'static str) -> Result<Option<Ratio>, ScenarioError> {
    Ok(section.quantity::<Ratio>(key)?.map(|share| share.value))
}
