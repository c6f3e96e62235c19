//! The engines that carry traffic between the two ends: our tunnel, a single link, the kernel's own
//! ways of using several links, or any other program.

mod external;
mod group;
mod kernel;
pub mod missing;
pub(crate) mod mptcp_proxy;
mod name;
mod null;
pub(crate) mod null_loop;
mod process;
mod round_robin;
mod tunnel;

pub use external::External;
pub use group::GroupEngine;
pub use name::{EngineName, EngineNameError};
pub use process::{Process, Side, cpu_seconds};

use crate::cancel::Cancel;
use crate::emulator::DirectionModel;
use crate::scenario::Scenario;
use crate::topology::{Topology, TopologyError};
use crate::traffic::{Streams, answers};
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tunnel::{SplitTcp, Variant};

/// How long an engine may take until a packet passes, in addition to some round trips.
const READY_WITHIN: Duration = Duration::from_secs(20);
/// Time between two checks of its progress.
const LOOK: Duration = Duration::from_millis(50);
/// Size of the lab's echo requests and replies as IPv4 packets.
pub(crate) const PING_BYTES: u64 = 84;

/// What is needed to bring engines up.
pub struct Bench<'a> {
    /// The network, newly built.
    pub topology: &'a Topology,
    /// The scenario that will run.
    pub scenario: &'a Scenario,
    /// A folder for configs and logs, which is removed afterwards.
    pub scratch: &'a Path,
    /// The program that our own engine starts.
    pub program: &'a Path,
    /// Cancels the attempt.
    pub cancel: &'a Cancel,
}

/// A running engine. Dropping it ends its processes.
#[derive(Debug)]
pub struct Running {
    /// The concentrator's address for traffic from the home.
    pub server: IpAddr,
    /// The transport for streams.
    pub streams: Streams,
    /// Address that sockets at home bind to; `None` leaves it to the kernel.
    pub source: Option<IpAddr>,
    /// Device of the home that sockets are bound to; `None` follows the routes.
    pub device: Option<String>,
    /// The engine's processes; empty if the kernel does the work.
    pub processes: Vec<Process>,
    /// Commands to run when it ends.
    closing: Option<external::Closing>,
}

/// Why an engine can't be measured.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The scenario has no such link.
    #[error("there is no link {name:?}; the links are: {links}")]
    NoSuchLink {
        /// The requested name.
        name: String,
        /// The existing links.
        links: String,
    },
    /// The network couldn't be configured.
    #[error(transparent)]
    Topology(#[from] TopologyError),
    /// A file or process couldn't be created.
    #[error("{what}: {source}")]
    Io {
        /// The attempted action.
        what: String,
        /// Why it failed.
        source: io::Error,
    },
    /// The file of an external engine is invalid.
    #[error(transparent)]
    File(#[from] crate::scenario::ScenarioError),
    /// A command of an external engine failed.
    #[error("{side}: `{command}` {problem}{log}")]
    Command {
        /// Where it ran.
        side: Side,
        /// The command.
        command: String,
        /// What happened.
        problem: String,
        /// The end of its output.
        log: String,
    },
    /// A process of the engine ended too early.
    #[error("{side}: `{command}` ended by itself ({status}){log}")]
    Died {
        /// Where it ran.
        side: Side,
        /// The command.
        command: String,
        /// Its exit status.
        status: String,
        /// The end of its output.
        log: String,
    },
    /// Nothing passed in time.
    #[error("{server} did not answer through the engine within {seconds} s{logs}")]
    NotReady {
        /// The address that didn't answer.
        server: IpAddr,
        /// How long it was waited for.
        seconds: u64,
        /// The ends of the processes' outputs.
        logs: String,
    },
    /// The engine hasn't taken in all links.
    #[error("{missing} after {seconds} s{logs}")]
    Unsettled {
        /// The end, and what is missing there.
        missing: String,
        /// How long it was waited for.
        seconds: u64,
        /// The ends of the processes' outputs.
        logs: String,
    },
    /// The engine and the scenario don't fit.
    #[error("{0}")]
    Unfit(String),
    /// The user cancelled it.
    #[error("interrupted")]
    Cancelled,
}

impl EngineError {
    fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| EngineError::Io { what, source }
    }
}

/// The engines named by `texts`, each once, in order. Checks that what a name refers to exists: a
/// link of the scenario, a valid engine file.
///
/// # Errors
/// What is wrong with the first unusable one.
pub fn named(texts: &[String], scenario: &Scenario) -> Result<Vec<EngineName>, String> {
    let links: Vec<&str> = scenario.links.iter().map(|link| link.model.name.as_str()).collect();
    let mut engines = Vec::new();
    for text in texts {
        for engine in EngineName::expand(text, &links).map_err(|error| error.to_string())? {
            match &engine {
                EngineName::Link(name) if !links.contains(&name.as_str()) => {
                    let names = links.join(", ");
                    return Err(format!("there is no link {name:?}; the links are: {names}"));
                }
                EngineName::External(file) => {
                    External::load(file).map_err(|error| error.to_string())?;
                }
                _ => {}
            }
            if !engines.contains(&engine) {
                engines.push(engine);
            }
        }
    }
    Ok(engines)
}

/// Brings `engine` up and waits until a packet passes through it.
///
/// # Errors
/// What failed, with the end of the engine's output if it has any.
pub fn bring_up(engine: &EngineName, bench: &Bench<'_>) -> Result<Running, EngineError> {
    let mut running = match engine {
        EngineName::Tunnel { mode } => {
            tunnel::bring_up(Variant { mode: *mode, ..Variant::default() }, bench)?
        }
        EngineName::SplitTcp { congestion } => {
            let split = Some(SplitTcp { congestion: *congestion });
            tunnel::bring_up(Variant { split, ..Variant::default() }, bench)?
        }
        EngineName::TunnelByTls => {
            tunnel::bring_up(Variant { tls: true, ..Variant::default() }, bench)?
        }
        EngineName::Link(name) => kernel::single_link(name, bench)?,
        EngineName::Mptcp => group::mptcp(bench)?,
        EngineName::Ecmp => kernel::ecmp(bench)?,
        EngineName::MptcpProxy => mptcp_proxy::bring_up(bench)?,
        EngineName::RoundRobin => round_robin::bring_up(bench)?,
        EngineName::Group(engine) => group::bring_up(engine, bench)?,
        EngineName::External(file) => external::bring_up(&External::load(file)?, bench)?,
        EngineName::Null => null::bring_up(bench)?,
    };
    match (running.wait_until_ready(bench), engine) {
        // A link that carries nothing now is measured anyway.
        (Err(EngineError::NotReady { .. }), EngineName::Link(_)) => {}
        (result, _) => result?,
    }
    Ok(running)
}

/// The longest round-trip time of the lab's pings over any of the idle links.
fn slowest_round_trip(scenario: &Scenario) -> Duration {
    let one_way = |direction: &DirectionModel| {
        let serialised = direction.capacity.mean_rate().time_for(PING_BYTES);
        direction.delay + direction.jitter + serialised
    };
    let round_trips =
        scenario.links.iter().map(|link| one_way(&link.model.down) + one_way(&link.model.up));
    round_trips.max().unwrap_or_default()
}

impl Running {
    /// An engine that is only the kernel's routing.
    fn kernel(server: IpAddr, streams: Streams) -> Self {
        Running {
            server,
            streams,
            source: None,
            device: None,
            processes: Vec::new(),
            closing: None,
        }
    }

    /// Waits until nothing of an engine is `missing` any longer.
    fn wait_until(
        &mut self,
        within: Duration,
        bench: &Bench<'_>,
        mut missing: impl FnMut(&Running) -> Result<Option<String>, EngineError>,
    ) -> Result<(), EngineError> {
        let deadline = Instant::now() + within;
        loop {
            for process in &mut self.processes {
                process.check()?;
            }
            let Some(missing) = missing(self)? else { return Ok(()) };
            if bench.cancel.is_cancelled() {
                return Err(EngineError::Cancelled);
            }
            if Instant::now() >= deadline {
                let logs = self.processes.iter().map(Process::log_tail).collect();
                return Err(EngineError::Unsettled { missing, seconds: within.as_secs(), logs });
            }
            bench.cancel.sleep(LOOK);
        }
    }

    fn wait_until_ready(&mut self, bench: &Bench<'_>) -> Result<(), EngineError> {
        let round_trip = slowest_round_trip(bench.scenario);
        let patience = Duration::from_millis(500) + round_trip;
        // Handshakes take several round trips.
        let within = READY_WITHIN + round_trip * 4;
        let deadline = Instant::now() + within;
        loop {
            for process in &mut self.processes {
                process.check()?;
            }
            if bench.cancel.is_cancelled() {
                return Err(EngineError::Cancelled);
            }
            let answered = bench
                .topology
                .home()
                .run(|| answers(self.server, self.source, self.device.as_deref(), patience))
                .and_then(|answered| answered)
                .map_err(EngineError::io("can't send a ping"))?;
            if answered {
                return Ok(());
            }
            if Instant::now() >= deadline {
                let logs = self.processes.iter().map(Process::log_tail).collect();
                return Err(EngineError::NotReady {
                    server: self.server,
                    seconds: within.as_secs(),
                    logs,
                });
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The closing commands may need the processes.
        if let Some(closing) = self.closing.take() {
            closing.run();
        }
    }
}

/// Copies a run's logs to the user's folder.
///
/// # Errors
/// An error while copying.
pub fn keep_logs(scratch: &Path, target: &Path) -> io::Result<Vec<PathBuf>> {
    std::fs::create_dir_all(target)?;
    let mut kept = Vec::new();
    for entry in std::fs::read_dir(scratch)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "log" || extension == "toml")
            && let Some(name) = path.file_name()
        {
            std::fs::copy(&path, target.join(name))?;
            kept.push(target.join(name));
        }
    }
    Ok(kept)
}
