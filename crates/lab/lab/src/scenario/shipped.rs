use super::{Scenario, ScenarioError};
use std::path::Path;

/// A scenario that is part of the program.
#[derive(Clone, Copy, Debug)]
pub struct Shipped {
    /// Name on the command line: that of its file, without `.toml`.
    pub name: &'static str,
    /// Its TOML.
    pub text: &'static str,
}

/// The folder of the files, where recordings are looked for. Packagers set it; otherwise it is the
/// build-time path, which makes programs built in two places differ.
const FOLDER: &str = match option_env!("BRAID_SCENARIOS") {
    Some(folder) => folder,
    None => concat!(env!("CARGO_MANIFEST_DIR"), "/../../../scenarios"),
};

macro_rules! shipped {
    ($($name:literal),* $(,)?) => {
        &[$(Shipped {
            name: $name,
            text: include_str!(concat!("../../../../../scenarios/", $name, ".toml")),
        }),*]
    };
}

/// All shipped scenarios.
pub const SHIPPED: &[Shipped] = shipped![
    "six-3g",
    "cable-dsl-lte",
    "two-gigabit",
    "starlink-lte",
    "recorded-3g",
    "video-call",
    "failover-one",
    "failover-each",
    "failover-all",
    "failover-carrier",
    "failover-rebind",
    "browse",
    "both-ways",
    "fibre-and-satellite",
    "long-road",
    "train",
];

impl Shipped {
    /// The shipped scenario of this name, with or without `.toml`.
    pub fn named(name: &str) -> Option<Self> {
        let name = name.strip_suffix(".toml").unwrap_or(name);
        SHIPPED.iter().copied().find(|shipped| shipped.name == name)
    }

    /// All names.
    pub fn names() -> Vec<&'static str> {
        SHIPPED.iter().map(|shipped| shipped.name).collect()
    }

    /// Parses it.
    ///
    /// # Errors
    /// As [`Scenario::load`]; for example, a damaged recording.
    pub fn load(self) -> Result<Scenario, ScenarioError> {
        self.load_with_seed(None)
    }

    pub(super) fn load_with_seed(self, seed: Option<u64>) -> Result<Scenario, ScenarioError> {
        let file = format!("{}.toml", self.name);
        Scenario::parse_with_seed(&file, self.text, Path::new(FOLDER), seed)
    }
}
