//! Carries out a group's set-up in the lab's namespaces, with the product's journal. In addition,
//! each end's programs get a `/run` of their own, TEQL's devices are moved from the machine's own
//! namespace, and PPPoE's ends are told each other's Ethernet addresses.

use super::super::process::{Process, Side, run_to_end, shell};
use super::super::{Bench, EngineError, Running};
use braid_engines::{Device, DeviceKind, Group, MacAddress, Operation};
use braid_linux::journal::UndoJournal;
use braid_linux::netns::NetNs;
use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

/// Timeout for a command that must finish.
const COMMAND_LIMIT: Duration = Duration::from_secs(20);
/// Restarts a program that ends when its link is lost, like `braid up`'s keeper.
const STARTED_AGAIN: &str = "trap 'kill $pid; wait $pid; exit' TERM; \
     while :; do \"$@\" & pid=$!; wait $pid; sleep 1; done";
/// How long a program may take to create its device, even on a busy machine.
const DEVICE_WITHIN: Duration = Duration::from_secs(60);
/// How long a device may take to return from a namespace: connections that the other end didn't
/// close keep the namespace alive for a while after its last process.
const DEVICE_BACK_WITHIN: Duration = Duration::from_secs(60);

/// Sets `group` up at one end; long-running programs are added to `running`.
pub(super) fn apply(
    group: &Group,
    side: Side,
    bench: &Bench<'_>,
    running: &mut Running,
) -> Result<(), EngineError> {
    let end = End { side, namespace: namespace(side, bench), bench };
    fs::create_dir_all(group.state_dir.join("run"))
        .map_err(EngineError::io("can't make a folder"))?;
    let setup = group.setup();
    if let Some(note) = setup.notes.first() {
        return Err(EngineError::Unfit(note.clone()));
    }
    let pppoe = group.links.iter().any(|link| link.peer_mac.is_some());
    if pppoe && !setup.operations.iter().any(is_gretap) {
        for link in &group.links {
            end.set_mac(&link.device, link.number)?;
        }
    }
    let mut done: Vec<Operation> = Vec::new();
    for operation in &setup.operations {
        match operation {
            Operation::Process { argv, provides, .. } => {
                end.reconcile(group, &done)?;
                let mut process = end.start(group, argv)?;
                if let Some(device) = provides {
                    end.wait_for(device, &mut process)?;
                }
                running.processes.push(process);
            }
            Operation::Module { name, provides } => end.fetch(name, provides)?,
            Operation::Create { device, kind: DeviceKind::Gretap { key, .. } } if pppoe => {
                done.push(operation.clone());
                end.reconcile(group, &done)?;
                end.set_mac(device, key.saturating_sub(group.numbers.tunnel))?;
            }
            plain => done.push(plain.clone()),
        }
    }
    end.reconcile(group, &done)
}

/// Makes every device pass only single packets, as the links do.
pub(super) fn no_super_packets(bench: &Bench<'_>) -> Result<(), EngineError> {
    let text = "for device in $(ip -o link show | cut -d: -f2 | cut -d@ -f1); do \
                ip link set dev $device gso_max_segs 1; done";
    for side in [Side::Home, Side::Concentrator] {
        End { side, namespace: namespace(side, bench), bench }.run(text)?;
    }
    Ok(())
}

/// The Ethernet address of the other end's device on a PPPoE link.
pub(super) fn peer_mac(number: u32, side: Side) -> Result<MacAddress, EngineError> {
    let other = match side {
        Side::Home => Side::Concentrator,
        Side::Concentrator => Side::Home,
    };
    mac(number, other).parse().map_err(|_| EngineError::Unfit("too many links".to_owned()))
}

/// A locally administered address.
fn mac(number: u32, side: Side) -> String {
    let side = match side {
        Side::Home => 1,
        Side::Concentrator => 2,
    };
    format!("02:b7:a1:d0:{side:02x}:{number:02x}")
}

fn is_gretap(operation: &Operation) -> bool {
    matches!(operation, Operation::Create { kind: DeviceKind::Gretap { .. }, .. })
}

pub(super) fn namespace<'a>(side: Side, bench: &Bench<'a>) -> &'a NetNs {
    match side {
        Side::Home => bench.topology.home(),
        Side::Concentrator => bench.topology.concentrator(),
    }
}

/// One of the two ends.
struct End<'a> {
    side: Side,
    namespace: &'a NetNs,
    bench: &'a Bench<'a>,
}

impl End<'_> {
    fn reconcile(&self, group: &Group, wanted: &[Operation]) -> Result<(), EngineError> {
        let journal = group.state_dir.join("journal");
        let failures = self
            .namespace
            .run(|| Ok(UndoJournal::open(&[journal])?.reconcile(wanted)))
            .and_then(|failures| failures)
            .map_err(EngineError::io(format!("{}: the engine's journal", self.side)))?;
        match failures.into_iter().next() {
            None => Ok(()),
            Some(failure) => Err(EngineError::Unfit(format!(
                "{}: {:?}: {}",
                self.side, failure.operation, failure.error
            ))),
        }
    }

    fn run(&self, text: &str) -> Result<(), EngineError> {
        let log = self.bench.scratch.join(format!("{}-setup.log", self.side));
        run_to_end(self.side, shell(self.namespace, text), text, &log, COMMAND_LIMIT)
    }

    fn set_mac(&self, device: &Device, number: u32) -> Result<(), EngineError> {
        self.run(&format!("ip link set dev {device} address {}", mac(number, self.side)))
    }

    /// Starts a long-running program. Each end has its own /run: both are on one machine, and their
    /// programs' files would collide.
    fn start(&self, group: &Group, argv: &[String]) -> Result<Process, EngineError> {
        let name = argv.first().map_or("program", String::as_str);
        let free = (1..100).map(|number| self.log(name, number)).find(|log| !log.exists());
        let mut command = self.namespace.command("unshare");
        command.args(["-m", "sh", "-c"]);
        let run = if name == "pppd" { STARTED_AGAIN } else { "exec \"$@\"" };
        command.arg(format!("mkdir -p \"$0/lock\" && mount --bind \"$0\" /run || exit; {run}"));
        command.arg(group.state_dir.join("run")).args(argv);
        Process::start(self.side, command, free.unwrap_or_else(|| self.log(name, 0)))
    }

    fn log(&self, name: &str, number: u32) -> PathBuf {
        self.bench.scratch.join(format!("{}-{name}-{number}.log", self.side))
    }

    /// Waits for the device of a running program.
    fn wait_for(&self, device: &Device, process: &mut Process) -> Result<(), EngineError> {
        let look = format!("ip link show dev {device}");
        self.run_until_it_works(&look, DEVICE_WITHIN, || process.check())
    }

    /// Retries as long as `sense` says that it may help.
    fn run_until_it_works(
        &self,
        text: &str,
        within: Duration,
        mut sense: impl FnMut() -> Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        let deadline = Instant::now() + within;
        loop {
            sense()?;
            match self.run(text) {
                Ok(()) => return Ok(()),
                Err(error) if Instant::now() >= deadline || self.bench.cancel.is_cancelled() => {
                    return Err(error);
                }
                Err(_) => thread::sleep(Duration::from_millis(50)),
            }
        }
    }

    /// Moves a device that a kernel module creates from the machine's own namespace.
    fn fetch(&self, module: &str, device: &Device) -> Result<(), EngineError> {
        // The shell stays in its namespace, which `$$` names. A device of a namespace that has just
        // ended returns only after a while.
        let fetch = format!(
            "nsenter -t 1 -n sh -c 'ip link show dev {device} || modprobe {module} \
             max_equalizers=8' && nsenter -t 1 -n ip link set dev {device} netns $$ && true"
        );
        self.run_until_it_works(&fetch, DEVICE_BACK_WITHIN, || Ok(()))
    }
}
