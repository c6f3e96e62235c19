//! Scenario files: the links, what happens to them, and the traffic over them.
//! `docs/reference/lab.md` describes the format for users.

mod document;
mod error;
mod event;
mod link;
mod page;
mod shipped;
mod synthetic;
mod traffic;
mod tunnel_mode;

pub use error::ScenarioError;
pub use event::{Action, Event, Figures, Step};
pub use link::Link;
pub use page::Page;
pub use shipped::{SHIPPED, Shipped};
pub use synthetic::Synthetic;
pub use traffic::{CongestionControl, OfferedRate, Traffic, TrafficDirection, TrafficKind};
pub use tunnel_mode::{TunnelMode, UnknownMode};

pub(crate) use document::{Section, Source};

use crate::topology::InKernel;
use braid_units::{WakeLatency, format_duration};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The longest run that a file may ask for.
const LONGEST: Duration = Duration::from_secs(24 * 3600);
/// Maximum number of links.
const MOST_LINKS: usize = 64;
/// Maximum number of flows of all traffic together: each has its own threads and ports.
const MOST_FLOWS: u32 = 4_000;

/// A scenario, ready to be run.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Name in reports.
    pub name: String,
    /// A one-line description, possibly empty.
    pub description: String,
    /// How long one run takes.
    pub duration: Duration,
    /// Seed of everything random: losses, jitter, synthetic traces.
    pub seed: u64,
    /// The links; at least one.
    pub links: Vec<Link>,
    /// What happens to the links.
    pub events: Vec<Event>,
    /// What runs; at least one.
    pub traffic: Vec<Traffic>,
    /// Whether each traffic has its own run, with the events repeated, instead of all at the same
    /// time.
    pub in_turn: bool,
    /// Settings of our own engine.
    pub tunnel: TunnelSettings,
    /// Which links the kernel plays; not set by the file.
    pub in_kernel: InKernel,
    /// The file.
    pub text: ScenarioText,
}

/// The file that a scenario was read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioText {
    /// Its name in errors.
    pub file: String,
    /// Its content.
    pub text: String,
    /// What paths in it are relative to.
    pub folder: PathBuf,
}

/// A scenario's settings for the `tunnel` engine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TunnelSettings {
    /// The mode unless the engine's name sets one (as `tunnel:balance-rr` does).
    pub mode: Option<TunnelMode>,
    /// MTU of the tunnel's device.
    pub mtu: Option<u16>,
    /// The daemons' `wake_latency`.
    pub wake_latency: WakeLatency,
}

/// A run would end before any traffic starts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "nothing runs within {}: the first traffic starts at {}",
    format_duration(*.duration),
    format_duration(*.first)
)]
pub struct NothingRuns {
    duration: Duration,
    first: Duration,
}

impl Scenario {
    /// Reads a file, or the shipped scenario of this name if there is no such file.
    ///
    /// # Errors
    /// The first error in the file, with its line and key.
    pub fn load(name: &Path) -> Result<Self, ScenarioError> {
        Self::load_with_seed(name, None)
    }

    /// Like [`Scenario::load`], with `seed` instead of the file's if it is given.
    ///
    /// # Errors
    /// As [`Scenario::load`].
    pub fn load_with_seed(name: &Path, seed: Option<u64>) -> Result<Self, ScenarioError> {
        let file = name.display().to_string();
        if !name.exists()
            && let Some(shipped) = Shipped::named(&file)
        {
            return shipped.load_with_seed(seed);
        }
        let text = std::fs::read_to_string(name).map_err(|error| ScenarioError {
            file: file.clone(),
            line: None,
            key: String::new(),
            message: format!("can't read the scenario: {error}"),
            hint: (!name.exists())
                .then(|| format!("shipped scenarios: {}", Shipped::names().join(", "))),
        })?;
        let folder = name.parent().map(Path::to_path_buf).unwrap_or_default();
        Self::parse_with_seed(&file, &text, &folder, seed)
    }

    /// Reads a scenario from `text`; `file` is its name in errors, paths in it
    /// are relative to `folder`.
    ///
    /// # Errors
    /// As [`Scenario::load`].
    pub fn parse(file: &str, text: &str, folder: &Path) -> Result<Self, ScenarioError> {
        Self::parse_with_seed(file, text, folder, None)
    }

    /// Like [`Scenario::parse`], with `seed` instead of the file's if it is given.
    ///
    /// # Errors
    /// As [`Scenario::load`].
    pub fn parse_with_seed(
        file: &str,
        text: &str,
        folder: &Path,
        seed: Option<u64>,
    ) -> Result<Self, ScenarioError> {
        let source = Source { file, text };
        let table = source.parse()?;
        let root = source.root(&table);

        let name = root.text("name")?.ok_or_else(|| root.missing("name"))?;
        if name.value.trim().is_empty() {
            return Err(name.error("the name is empty"));
        }
        let description = root.text("description")?.map_or("", |d| d.value).to_owned();
        let duration = root.duration("duration")?.ok_or_else(|| {
            root.missing("duration").hint("say how long a run takes, as duration = \"20s\"")
        })?;
        if duration.value < Duration::from_millis(100) || duration.value > LONGEST {
            return Err(duration.error("a run takes between 100 ms and 24 hours"));
        }
        let own_seed = root.count("seed", 0..=u64::MAX >> 1)?.map_or(1, |s| s.value);
        let seed = seed.unwrap_or(own_seed);
        let in_turn = root.flag("in_turn")?.is_some_and(|flag| flag.value);
        let links = read_links(&root, folder, seed)?;
        let mut events = Vec::new();
        for section in root.sections("event")? {
            events.extend(event::read(section, &links, duration.value)?);
        }
        let mut traffic = Vec::new();
        for section in root.sections("traffic")? {
            let place = section.place();
            traffic.push(traffic::read(section, duration.value)?);
            let flows: u32 = traffic.iter().map(|traffic| u32::from(traffic.flows)).sum();
            if flows > MOST_FLOWS {
                return Err(
                    place.error(format!("with this there are more than {MOST_FLOWS} flows"))
                );
            }
        }
        if traffic.is_empty() {
            return Err(root.missing("traffic").hint(
                "say what runs over the links, as [[traffic]] with kind = \"tcp\" and \
                 direction = \"down\"",
            ));
        }
        let tunnel = match root.section("tunnel")? {
            Some(section) => read_tunnel(section)?,
            None => TunnelSettings::default(),
        };
        let scenario = Scenario {
            name: name.value.to_owned(),
            description,
            duration: duration.value,
            seed,
            links,
            events,
            traffic,
            in_turn,
            tunnel,
            in_kernel: InKernel::default(),
            text: ScenarioText {
                file: file.to_owned(),
                text: text.to_owned(),
                folder: folder.to_owned(),
            },
        };
        root.finish()?;
        Ok(scenario)
    }

    /// Limits a run to `duration`: traffic stops then, and later events and traffic are dropped.
    ///
    /// # Errors
    /// No traffic would start within it.
    pub fn last(&mut self, duration: Duration) -> Result<(), NothingRuns> {
        let before = self.duration;
        let first = self.traffic.iter().map(|traffic| traffic.start).min().unwrap_or_default();
        if first >= duration {
            return Err(NothingRuns { duration, first });
        }
        self.duration = duration;
        self.traffic.retain(|traffic| traffic.start < duration);
        for traffic in &mut self.traffic {
            if traffic.stop >= before || traffic.stop > duration {
                traffic.stop = duration;
            }
        }
        Ok(())
    }

    /// The position of the link called `name`.
    pub fn link_named(&self, name: &str) -> Option<usize> {
        self.links.iter().position(|link| link.model.name == name)
    }

    /// What reports must say about how the links are played.
    pub fn notes(&self) -> Vec<String> {
        self.links.iter().filter_map(|link| link.note.clone()).collect()
    }

    /// All events as single changes in order of time.
    pub fn timeline(&self) -> Vec<Step> {
        event::timeline(&self.events, &self.links, self.duration)
    }

    /// Unique names of the traffic, in the order of the file.
    pub fn traffic_names(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for traffic in &self.traffic {
            let plain = traffic.to_string();
            let same = |names: &[String], name: &str| names.iter().any(|n| n == name);
            let mut name = plain.clone();
            let mut number = 2;
            while same(&names, &name) {
                name = format!("{plain}#{number}");
                number += 1;
            }
            names.push(name);
        }
        names
    }
}

fn read_links(
    root: &document::Section<'_>,
    folder: &Path,
    seed: u64,
) -> Result<Vec<Link>, ScenarioError> {
    let mut links: Vec<Link> = Vec::new();
    for section in root.sections("link")? {
        let place = section.text("name")?;
        let link = link::read(section, folder, seed, links.len())?;
        if let Some(place) = place
            && links.iter().any(|other| other.model.name == link.model.name)
        {
            return Err(place.error(format!("there are two links named {:?}", link.model.name)));
        }
        if links.len() == MOST_LINKS {
            return Err(root.error(format!("there are more than {MOST_LINKS} links")));
        }
        links.push(link);
    }
    if links.is_empty() {
        return Err(root.missing("link").hint(
            "describe each link as [[link]] with name = \"…\" and \
             down = { rate = \"6Mbit\", delay = \"30ms\" }",
        ));
    }
    Ok(links)
}

fn read_tunnel(section: document::Section<'_>) -> Result<TunnelSettings, ScenarioError> {
    let mode = match section.text("mode")? {
        Some(text) => Some(
            text.value.parse().map_err(|unknown: UnknownMode| text.error(unknown.to_string()))?,
        ),
        None => None,
    };
    let mtu = section.count("mtu", 576..=65_535)?.map(|mtu| mtu.value as u16);
    let wake_latency = section.quantity("wake_latency")?.map(|latency| latency.value);
    section.finish()?;
    Ok(TunnelSettings { mode, mtu, wake_latency: wake_latency.unwrap_or_default() })
}

/// A path written in a scenario, relative to the scenario's folder.
fn relative(folder: &Path, path: &str) -> PathBuf {
    folder.join(path)
}
