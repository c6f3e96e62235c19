//! `braid` without a command: what to do next on this machine.

use super::concentrator::public_endpoints;
use super::failure::{Failure, print_line};
use super::{Global, uplinks};
use braid_control::config::{PoolsConfig, read_text};
#[cfg(feature = "pools")]
use braid_disks::{AskSmart, HostRoot, Inventory};

/// Maximum number of lines: what can be read at a glance.
const MOST_LINES: usize = 10;

/// How many uplinks or disks are named; more are only counted.
const MOST_NAMES: usize = 4;

/// Pointers for everybody. Only packages install man pages, and their program has all parts.
#[cfg(feature = "lab")]
const FURTHER: (&str, &str) = (
    "All commands, the manual, and a demonstration that changes nothing:",
    "braid --help; man braid; braid lab demo",
);
#[cfg(not(feature = "lab"))]
const FURTHER: (&str, &str) = ("All commands:", "braid --help");

/// What this machine has to start with.
#[derive(Clone, Debug, Default)]
struct Machine {
    /// Whether there is a config of a tunnel, and whether that tunnel runs.
    has_config: bool,
    runs: bool,
    /// Devices with a default route.
    uplinks: Vec<String>,
    /// Public source addresses, with the default port.
    public: Vec<String>,
    /// Paths of whole disks that are known to be empty.
    free_disks: Vec<String>,
    /// Names of this machine's pools.
    pools: Vec<String>,
}

/// Prints the next steps.
pub fn tell(global: &Global) -> Result<(), Failure> {
    print_line(&steps(&look(global)).join("\n"))
}

fn look(global: &Global) -> Machine {
    let file = global.config_file();
    let runs = global.client().is_ok_and(|client| client.is_running().unwrap_or(false));
    let uplinks = uplinks::find("braid0").unwrap_or_default();
    let (free_disks, pools) = disks();
    // A config with only pools has nothing to bring up.
    let of_tunnel = |text: String| !PoolsConfig::is_all_of(&text);
    Machine {
        has_config: file.exists() && read_text(&file).map_or(true, of_tunnel),
        runs,
        uplinks: uplinks.into_iter().map(|uplink| uplink.interface).collect(),
        public: public_endpoints(super::concentrator::DEFAULT_PORT)
            .iter()
            .map(ToString::to_string)
            .collect(),
        free_disks,
        pools,
    }
}

/// Free disks, and the pools on the others.
#[cfg(feature = "pools")]
fn disks() -> (Vec<String>, Vec<String>) {
    let root = HostRoot::real();
    let inventory = Inventory::take(&root, AskSmart::No);
    let free = inventory
        .disks
        .iter()
        .filter(|disk| disk.partition.is_none() && disk.barred().is_none() && disk.is_unmarked());
    let free = free.map(|disk| disk.path.to_string()).collect();
    let pools = braid_disks::pools::observe(&root, &inventory);
    // The system's own disk is a pool too, but a user who has made none needn't look after it.
    let made = pools.iter().filter(|pool| !pool.mounts().iter().any(|mount| mount.at == "/"));
    (free, made.map(|pool| pool.name()).collect())
}

/// Without this part nothing can be done with disks.
#[cfg(not(feature = "pools"))]
fn disks() -> (Vec<String>, Vec<String>) {
    (Vec::new(), Vec::new())
}

fn steps(machine: &Machine) -> Vec<String> {
    let mut lines = Vec::new();
    let mut step = |what: String, command: &str| lines.push(format!("{what}\n    {command}"));
    if machine.runs {
        step(
            "The tunnel is running. Show its state, and what is wrong:".into(),
            "braid status; braid doctor",
        );
    } else if machine.has_config {
        step(
            "There is a config, but its tunnel isn't running. Check it and start it:".into(),
            "braid config check && braid up",
        );
    } else if let Some(address) = machine.public.first() {
        step(
            format!("This host has a public address, {address}: it can be the concentrator."),
            "braid concentrator init",
        );
    } else {
        let can = match machine.uplinks.len() {
            0 => "No uplink was found yet; with one this".to_owned(),
            1 => format!("One uplink, {}; with a second this", machine.uplinks[0]),
            _ => format!("Uplinks: {}. This", named(&machine.uplinks)),
        };
        step(
            format!("{can} can be a home: paste the line that the concentrator printed."),
            "braid home join -",
        );
    }
    if !machine.pools.is_empty() {
        step(
            format!("Pools: {}. Show their state, and what is wrong:", named(&machine.pools)),
            "braid pool status; braid pool doctor",
        );
    } else if machine.free_disks.len() > 1 {
        step(
            format!(
                "Disks that seem free: {}. Show what they could become:",
                named(&machine.free_disks)
            ),
            &format!("braid pool plan {}", machine.free_disks.join(" ")),
        );
    }
    let (what, command) = FURTHER;
    step(what.into(), command);
    let mut lines: Vec<String> =
        lines.iter().flat_map(|it| it.lines()).map(str::to_owned).collect();
    lines.truncate(MOST_LINES);
    lines
}

fn named(names: &[String]) -> String {
    match names.len().checked_sub(MOST_NAMES) {
        None | Some(0) => names.join(", "),
        Some(more) => format!("{} and {more} more", names[..MOST_NAMES].join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Cli;
    use super::*;
    use clap::CommandFactory;

    fn told(machine: &Machine) -> String {
        let lines = steps(machine);
        assert!(lines.len() <= MOST_LINES, "{lines:?}");
        // Every proposed command must exist.
        for line in lines.iter().filter_map(|line| line.strip_prefix("    ")) {
            for command in line.split("; ").flat_map(|part| part.split(" && ")) {
                if command.starts_with("braid") && !command.contains("--help") {
                    let words = command.split(' ');
                    Cli::command().try_get_matches_from(words).expect(command);
                }
            }
        }
        lines.join("\n")
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn each_machine_is_told_its_own_next_step() {
        let router = Machine { uplinks: names(&["wan", "wwan0"]), ..Machine::default() };
        let text = told(&router);
        assert!(
            text.contains("Uplinks: wan, wwan0. This can") && text.contains("braid home join -"),
            "{text}"
        );
        let vps = Machine { public: names(&["203.0.113.5:51900"]), ..router.clone() };
        let text = told(&vps);
        assert!(text.contains("203.0.113.5") && text.contains("concentrator init"), "{text}");
        let nas = Machine { free_disks: names(&["/dev/sdb", "/dev/sdc"]), ..router.clone() };
        let text = told(&nas);
        assert!(text.contains("braid pool plan /dev/sdb /dev/sdc"), "{text}");
        let made = Machine { pools: names(&["data"]), ..nas.clone() };
        let text = told(&made);
        assert!(text.contains("Pools: data.") && text.contains("braid pool doctor"), "{text}");
        let ready = Machine { has_config: true, ..router };
        assert!(told(&ready).contains("braid config check && braid up"));
        assert!(told(&Machine { runs: true, ..ready }).contains("braid status"));
        assert!(told(&Machine::default()).contains("No uplink"));
    }

    #[test]
    fn many_names_are_cut_short() {
        let many: Vec<String> = (0..9).map(|at| format!("eth{at}")).collect();
        assert!(named(&many).ends_with("eth3 and 5 more"));
        assert_eq!(named(&many[..4]), "eth0, eth1, eth2, eth3");
    }
}
