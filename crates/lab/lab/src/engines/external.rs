use super::process::{Process, Side, run_to_end, shell};
use super::{Bench, EngineError, Running};
use crate::scenario::{ScenarioError, Section, Source};
use crate::topology::CONCENTRATOR_V4;
use crate::traffic::Streams;
use braid_linux::netns::NetNs;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Timeout for a command that must finish.
const COMMAND_LIMIT: Duration = Duration::from_secs(30);

/// Another tunnel, described by commands in a TOML file. `docs/reference/lab.md` shows
/// one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct External {
    /// The concentrator's address inside the tunnel.
    pub server: IpAddr,
    /// Commands at home.
    pub home: Commands,
    /// Commands at the concentrator.
    pub concentrator: Commands,
}

/// Shell commands of one end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Commands {
    /// Run one after the other before anything else; each must succeed.
    pub setup: Vec<String>,
    /// Programs that stay in the foreground until the engine ends.
    pub up: Vec<String>,
    /// Run after the programs of both ends have been started.
    pub after: Vec<String>,
    /// Run at the end, whether or not they succeed.
    pub down: Vec<String>,
}

impl External {
    /// Reads a file.
    ///
    /// # Errors
    /// What is wrong, with line and key.
    pub fn load(file: &Path) -> Result<Self, ScenarioError> {
        let name = file.display().to_string();
        let text = std::fs::read_to_string(file).map_err(|error| ScenarioError {
            file: name.clone(),
            line: None,
            key: String::new(),
            message: format!("can't read the engine: {error}"),
            hint: None,
        })?;
        Self::parse(&name, &text)
    }

    fn parse(file: &str, text: &str) -> Result<Self, ScenarioError> {
        let source = Source { file, text };
        let table = source.parse()?;
        let root = source.root(&table);
        // Only informative.
        root.text("name")?;
        let server = root.text("server")?.ok_or_else(|| {
            root.missing("server").hint("the concentrator's address inside the tunnel")
        })?;
        let address = server
            .value
            .parse()
            .map_err(|_| server.error(format!("{:?} is not an IP address", server.value)))?;
        let side = |key| match root.section(key)? {
            Some(section) => read_commands(section),
            None => Ok(Commands::default()),
        };
        let external =
            External { server: address, home: side("home")?, concentrator: side("concentrator")? };
        root.finish()?;
        Ok(external)
    }
}

fn read_commands(section: Section<'_>) -> Result<Commands, ScenarioError> {
    let list = |key| -> Result<Vec<String>, ScenarioError> {
        let texts = section.texts(key)?.unwrap_or_default();
        Ok(texts.into_iter().map(|text| text.value.to_owned()).collect())
    };
    let commands = Commands {
        setup: list("setup")?,
        up: list("up")?,
        after: list("after")?,
        down: list("down")?,
    };
    section.finish()?;
    Ok(commands)
}

pub(super) fn bring_up(external: &External, bench: &Bench<'_>) -> Result<Running, EngineError> {
    let variables = variables(bench);
    let home = (Side::Home, bench.topology.home(), &external.home);
    let concentrator = (Side::Concentrator, bench.topology.concentrator(), &external.concentrator);
    let prepared = |namespace: &NetNs, text: &str| {
        let mut command = shell(namespace, text);
        command.envs(&variables);
        command
    };
    let log = |side: Side, what: &str| bench.scratch.join(format!("{side}-{what}.log"));
    let mut running = Running::kernel(external.server, Streams::Tcp);
    let downs = [home, concentrator].into_iter().flat_map(|(side, namespace, commands)| {
        commands.down.iter().map(move |text| (side, namespace, text))
    });
    running.closing = Some(Closing {
        commands: downs.map(|(_, namespace, text)| prepared(namespace, text)).collect(),
    });
    for (side, namespace, commands) in [concentrator, home] {
        for text in &commands.setup {
            let command = prepared(namespace, text);
            run_to_end(side, command, text, &log(side, "setup"), COMMAND_LIMIT)?;
        }
        for (number, text) in commands.up.iter().enumerate() {
            // `exec` replaces the shell by the program, so that it gets the signals and the CPU
            // time is its own.
            let command = prepared(namespace, &format!("exec {text}"));
            let log = log(side, &format!("up-{}", number + 1));
            running.processes.push(Process::start(side, command, log)?);
        }
    }
    for (side, namespace, commands) in [concentrator, home] {
        for text in &commands.after {
            let command = prepared(namespace, text);
            run_to_end(side, command, text, &log(side, "after"), COMMAND_LIMIT)?;
        }
    }
    Ok(running)
}

/// The commands' environment.
fn variables(bench: &Bench<'_>) -> BTreeMap<String, String> {
    let links = bench.topology.links();
    let mut variables = BTreeMap::from([
        ("CONCENTRATOR".to_owned(), CONCENTRATOR_V4.to_string()),
        ("LINKS".to_owned(), links.len().to_string()),
        ("DIR".to_owned(), bench.scratch.display().to_string()),
    ]);
    let mut devices = Vec::new();
    for (number, (place, link)) in (1..).zip(links.iter().zip(&bench.scenario.links)) {
        let seen =
            if link.model.nat { place.addresses().public_v4 } else { place.addresses().home_v4 };
        for (name, value) in [
            ("DEVICE", place.device().to_owned()),
            ("ADDRESS", place.addresses().home_v4.to_string()),
            ("GATEWAY", place.addresses().gateway_v4.to_string()),
            ("PUBLIC", seen.to_string()),
            ("MTU", link.model.mtu.to_string()),
            ("DOWN_KBIT", kbit(&link.model.down)),
            ("UP_KBIT", kbit(&link.model.up)),
        ] {
            variables.insert(format!("{name}_{number}"), value);
        }
        devices.push(place.device());
    }
    variables.insert("DEVICES".to_owned(), devices.join(" "));
    variables
}

fn kbit(direction: &crate::emulator::DirectionModel) -> String {
    (direction.capacity.mean_rate().bits_per_sec() / 1_000).to_string()
}

/// Commands that undo what an engine did.
#[derive(Debug)]
pub(super) struct Closing {
    commands: Vec<Command>,
}

impl Closing {
    /// Runs them; leftovers of failed ones end with the namespaces.
    pub(super) fn run(self) {
        for mut command in self.commands {
            let _ = command.output();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_and_mistakes_are_told() {
        let text = "name = \"x\"\nserver = \"10.9.0.1\"\n[home]\nsetup = [\"a\", \"b\"]\n\
                    up = \"c\"\n[concentrator]\ndown = [\"d\"]\n";
        let read = External::parse("x.toml", text).unwrap();
        assert_eq!(read.home.setup, ["a", "b"]);
        assert_eq!(read.home.up, ["c"]);
        assert_eq!(read.concentrator.down, ["d"]);
        for (from, to, expected) in [
            ("server = \"10.9.0.1\"", "", "server: this key is missing"),
            ("10.9.0.1", "10.9.0", "x.toml:2: server: \"10.9.0\" is not an IP address"),
            ("setup", "stup", "did you mean \"setup\"?"),
            ("\"c\"", "3", "expected a text in quotes"),
        ] {
            let error = External::parse("x.toml", &text.replace(from, to)).unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
        }
    }
}
